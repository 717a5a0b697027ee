package relay

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkGather is a change of one route, or of one cluster in a list, from its bytes, taken by one
// client: what having them wait costs (ORD-9).
func BenchmarkGather(b *testing.B) {
	for _, gather := range []time.Duration{0, 20 * time.Millisecond} {
		for _, typeURL := range []string{RouteType, ClusterType} {
			b.Run(fmt.Sprintf("%s/gather=%v", shortType(typeURL), gather), func(b *testing.B) {
				a := newArrivals(typeURL, typeURL == RouteType, 1000)
				r := newRig(b, Config{Gather: gather, Origins: []OriginConfig{{Name: "mesh", SotW: !a.delta}}})
				names := a.all
				if typeURL == ClusterType {
					names = []string{Wildcard}
				}
				s := r.sub(typeURL, true, names...)
				r.open()
				r.arrive(a.response(a.all...), a.delta)
				r.table.Advance(zero.Add(time.Minute))
				s.Take(zero)
				raws := [][]byte{a.changed(1), a.changed(2)}
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					r.arrive(raws[i%2], a.delta)
					r.table.Advance(zero.Add(gather))
					if s.Take(zero) == nil {
						b.Fatal("nothing to tell")
					}
				}
			})
		}
	}
}
