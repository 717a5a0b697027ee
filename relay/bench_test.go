package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// BenchmarkTake is one change at one client, without the wire: what a delivery costs the table. The
// body of a response is shared, so time and bytes per delivery must not grow with the number of
// clients.
func BenchmarkTake(b *testing.B) {
	for _, kind := range []string{"delta", "SotW", "named"} {
		for _, clients := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("%s/clients=%d", kind, clients), func(b *testing.B) { benchTake(b, kind, clients) })
		}
	}
}

func benchTake(b *testing.B, kind string, clients int) {
	r := newRig(b, Config{})
	typeURL, names := xds.ClusterType, []string{xds.Wildcard}
	if kind == "named" {
		typeURL, names = xds.EndpointType, []string{"n1", "n2", "n3"}
	}
	subs := make([]*Sub, clients)
	for i := range subs {
		subs[i] = r.sub(typeURL, kind != "SotW", names...)
	}
	r.open()
	var all []string
	for i := range 1000 {
		all = append(all, fmt.Sprintf("n%d", i))
	}
	r.apply(made(typeURL, "0", nil, all...))
	r.table.Advance(zero.Add(time.Minute))
	for _, s := range subs {
		s.Take(zero)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += clients {
		b.StopTimer()
		r.apply(made(typeURL, fmt.Sprint("change", i), nil, "n1"))
		b.StartTimer()
		for _, s := range subs {
			a := s.Take(zero)
			if a == nil {
				b.Fatal("nothing to tell")
			}
			if p := a.Pieces(kind != "SotW", zero, nil); len(p[Plain]) == 0 {
				b.Fatal("nothing to send")
			}
		}
	}
}

// BenchmarkApply is one response in which one resource of many changed, with a client who watches.
func BenchmarkApply(b *testing.B) {
	for _, size := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("delta/resources=%d", size), func(b *testing.B) {
			r := newRig(b, Config{})
			s := r.sub(xds.ClusterType, true, xds.Wildcard)
			r.open()
			var all []string
			for i := range size {
				all = append(all, fmt.Sprintf("n%d", i))
			}
			r.apply(made(xds.ClusterType, "0", nil, all...))
			r.table.Advance(zero.Add(time.Minute))
			s.Take(zero)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				r.apply(made(xds.ClusterType, fmt.Sprint("change", i), nil, "n0"))
				s.Take(zero)
			}
		})
		b.Run(fmt.Sprintf("SotW/resources=%d/one changed", size), func(b *testing.B) {
			r := newRig(b, Config{Origins: []OriginConfig{{Name: "mesh", SotW: true}}})
			s := r.sub(xds.ClusterType, true, xds.Wildcard)
			r.open()
			var all []string
			for i := range size {
				all = append(all, fmt.Sprintf("n%d", i))
			}
			u := made(xds.ClusterType, "0", nil, all...)
			u.Full = true
			r.apply(u)
			s.Take(zero)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				u.Resources[0] = madeResource(xds.ClusterType, "n0", "", fmt.Sprint("change", i))
				r.apply(u)
				s.Take(zero)
			}
		})
	}
}
