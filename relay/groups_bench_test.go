package relay

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// BenchmarkEqualGroups is groups of one client each that are all sent the same, each by a response
// of its own. kept is the memory that stays for each resource of a group, all told.
func BenchmarkEqualGroups(b *testing.B) {
	const resources = 1000
	for _, delta := range []bool{true, false} {
		for _, groups := range []int{1, 100, 1000} {
			b.Run(fmt.Sprintf("delta=%t/groups=%d", delta, groups), func(b *testing.B) {
				a := newArrivals(xds.ClusterType, delta, resources)
				for range b.N {
					before := inUse()
					first := newRig(b, Config{Origins: []OriginConfig{{Name: "mesh", SotW: !delta, GroupBy: []string{"id"}}}})
					subs := make([]*Sub, groups)
					for i := range subs {
						g, err := first.table.Origin("mesh").Group(&corev3.Node{Id: fmt.Sprint(i)})
						if err != nil {
							b.Fatal(err)
						}
						r := &rig{b, first.table, g}
						subs[i] = r.sub(a.typeURL, delta, xds.Wildcard)
						r.open()
						r.arrive(a.response(a.all...), delta)
					}
					first.table.Advance(zero.Add(time.Minute))
					for _, s := range subs {
						answer := s.Take(zero.Add(time.Minute))
						if answer == nil || len(answer.Pieces(delta, zero, nil)[Plain]) == 0 {
							b.Fatal("nothing to tell")
						}
					}
					b.ReportMetric(float64(inUse()-before)/float64(groups*resources), "kept/resource")
					runtime.KeepAlive(subs)
				}
			})
		}
	}
}

// inUse is the heap that is in use after a collection.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
