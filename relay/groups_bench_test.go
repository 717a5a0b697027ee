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
				raw := a.response(a.all...)
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
						r.arrive(raw, delta)
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

// BenchmarkEqualGroupsChange is one change that the origin sends to each of many groups of one
// client, all equal, beside one group with as many clients: what a delivery costs the table. The
// time for taking in the origin's responses is apart, in ns/response.
func BenchmarkEqualGroupsChange(b *testing.B) {
	const clients, resources = 1000, 1000
	for _, delta := range []bool{true, false} {
		for _, groups := range []int{1, clients} {
			b.Run(fmt.Sprintf("delta=%t/groups=%d", delta, groups), func(b *testing.B) {
				a := newArrivals(xds.ClusterType, delta, resources)
				table := newRig(b, Config{Origins: []OriginConfig{{Name: "mesh", SotW: !delta, GroupBy: []string{"id"}}}}).table
				var rigs []*rig
				var subs []*Sub
				first := a.response(a.all...)
				for i := range groups {
					g, err := table.Origin("mesh").Group(&corev3.Node{Id: fmt.Sprint(i)})
					if err != nil {
						b.Fatal(err)
					}
					r := &rig{b, table, g}
					rigs = append(rigs, r)
					for range clients / groups {
						subs = append(subs, r.sub(a.typeURL, delta, xds.Wildcard))
					}
					r.open()
					r.arrive(first, delta)
				}
				now := zero.Add(time.Minute)
				table.Advance(now)
				take := func() {
					for _, s := range subs {
						answer := s.Take(now)
						if answer == nil || len(answer.Pieces(delta, now, nil)[Plain]) == 0 {
							b.Fatal("nothing to tell")
						}
					}
				}
				take()
				var arriving time.Duration
				b.ResetTimer()
				for i := range b.N {
					b.StopTimer()
					raw, began := a.changed(i+1), time.Now()
					for _, r := range rigs {
						r.arrive(raw, delta)
					}
					arriving += time.Since(began)
					b.StartTimer()
					take()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*clients), "ns/delivery")
				b.ReportMetric(float64(arriving.Nanoseconds())/float64(b.N*groups), "ns/response")
			})
		}
	}
}
