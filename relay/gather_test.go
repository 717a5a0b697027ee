package relay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// BenchmarkGather is a change of one route, or of one cluster in a list, from its bytes, taken by
// one client: what having them wait costs (ORD-9).
func BenchmarkGather(b *testing.B) {
	for _, gather := range []time.Duration{0, 20 * time.Millisecond} {
		for _, typeURL := range []string{xds.RouteType, xds.ClusterType} {
			b.Run(fmt.Sprintf("%s/gather=%v", shortType(typeURL), gather), func(b *testing.B) {
				a := newArrivals(typeURL, typeURL == xds.RouteType, 1000)
				r := newRig(b, Config{Gather: gather, Origins: []OriginConfig{{Name: "mesh", SotW: !a.delta}}})
				names := a.all
				if typeURL == xds.ClusterType {
					names = []string{xds.Wildcard}
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

// TestWaitingConfirmsAtLast: an origin that never stops changing routes or listeners, so that one
// always waits for clusters, leaves what was restored beside it unconfirmed for firmMost, no
// longer.
func TestWaitingConfirmsAtLast(t *testing.T) {
	for _, c := range []struct{ typeURL, asks, held string }{{"rds", "x1 x2", "x1=9 x2=9"}, {"lds", "*", "x1=9 x2=9"}} {
		t.Run(c.typeURL, func(t *testing.T) {
			s := newScript(t)
			run := func(format string, args ...any) string {
				return strings.Join(s.run(strings.Fields(fmt.Sprintf(format, args...))), "; ")
			}
			run("origin delta gather")
			run("open a delta %s", c.typeURL)
			run("a + %s", c.asks)
			run("lane main open")
			run("lane main take")
			run("lane main delta %s x1=1 x2=1", c.typeURL)
			run("wait 3s")
			run("snapshot")
			run("restart")
			run("open b delta %s holds %s", c.typeURL, c.held)
			run("b + %s", c.asks)
			run("lane main open")
			run("lane main take")
			run("lane main delta %s x1=1", c.typeURL)
			told := time.Duration(0)
			for at := time.Duration(0); at < 2*firmMost && told == 0; at += 10 * time.Millisecond {
				run("lane main delta %s x1=%d", c.typeURL, 2+at/time.Millisecond)
				run("wait 10ms")
				if strings.Contains(run("b take"), "x2=1") {
					told = at
				}
			}
			if most := firmMost + time.Second; told == 0 || told > most {
				t.Errorf("what was restored is told after %v, want at most %v", told, most)
			}
		})
	}
}

// TestRemovalsThatWaitLeaveTheRestAsItCame: the part of a response that takes away is applied later
// than the rest of it. By then the rest is read without the lock, in other groups too, which share
// it: so nothing of it may change.
func TestRemovalsThatWaitLeaveTheRestAsItCame(t *testing.T) {
	const gather = 20 * time.Millisecond
	a := newArrivals(xds.ClusterType, false, 3)
	r := newRig(t, Config{Gather: gather, Origins: []OriginConfig{{Name: "mesh", SotW: true}}})
	s := r.sub(a.typeURL, true, xds.Wildcard)
	r.open()
	r.arrive(a.response(a.all...), false)
	r.table.Advance(zero.Add(time.Minute))
	s.Take(zero)
	r.arrive(a.list(a.all[:2], func(i int) string { return []string{"changed", "0"}[i] }), false)
	star := r.group.store(a.typeURL).all[0].star
	changed, gone := star.members.get(a.all[0]).variants[0], star.members.get(a.all[2])
	if gone == nil {
		t.Fatal("the removal does not wait")
	}
	revision := changed.From.Revision
	r.table.Advance(zero.Add(gather))
	if star.members.get(a.all[2]) != nil || r.group.store(a.typeURL).all[0].rev == revision {
		t.Fatal("the removal is not applied")
	}
	if changed.From.Revision != revision {
		t.Errorf("what came at revision %d is said to be of %d", revision, changed.From.Revision)
	}
}
