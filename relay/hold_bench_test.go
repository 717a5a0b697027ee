package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// BenchmarkHoldGroup is of a group with 100,000 clusters, listeners and routes, and 1,000 clients of `*`:
// for how long Capture and Hold have all its types locked, where all resources are others in the
// state, or one of a hundred is.
func BenchmarkHoldGroup(b *testing.B) {
	sizes := map[string]int{xds.ClusterType: 50_000, xds.ListenerType: 10_000, xds.RouteType: 40_000}
	for _, x := range []struct {
		name  string
		every int // one of so many changes
	}{{"all", 1}, {"one of 100", 100}} {
		b.Run(x.name, func(b *testing.B) {
			r := newRig(b, Config{})
			var subs []*Sub
			for range 333 {
				w := NewSubscriber()
				for typeURL := range sizes {
					s := r.group.Open(w, SubOptions{TypeURL: typeURL, Delta: true})
					s.Update(zero, []string{xds.Wildcard}, nil)
					subs = append(subs, s)
				}
			}
			r.open()
			push := func(version string, every int) {
				for typeURL, n := range sizes {
					var names []string
					for i := 0; i < n; i += every {
						names = append(names, fmt.Sprint("n", i))
					}
					r.group.lanes[mainLane].Apply(zero, made(typeURL, version, nil, names...))
				}
			}
			push("1", 1)
			now := zero.Add(10 * time.Second)
			r.table.Advance(now)
			var states []*State
			take := func() (d time.Duration) {
				start := time.Now()
				at, _ := r.table.Origin("mesh").Capture(r.group.key)
				states = append(states, at)
				return time.Since(start)
			}
			captured := take()
			push("2", x.every)
			captured += take()
			for _, at := range states {
				at.prepare()
			}
			var held, most time.Duration
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				done := r.table.Origin("mesh").Hold(now, r.group.key, states[i%2])
				d := time.Since(start)
				if held, most = held+d, max(most, d); done.Changed != 100_000/x.every {
					b.Fatalf("%+v", done)
				}
				for _, s := range subs[:3] {
					s.Take(now)
				}
			}
			b.ReportMetric(float64(captured.Milliseconds())/2, "ms/capture")
			b.ReportMetric(float64(held.Milliseconds())/float64(b.N), "ms/hold")
			b.ReportMetric(float64(most.Milliseconds()), "ms/slowest")
		})
	}
}
