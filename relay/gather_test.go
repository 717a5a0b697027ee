package relay

import (
	"fmt"
	"slices"
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

// mapsLose are changes in which clients of several parameter maps lose a cluster.
var mapsLose = map[string]struct {
	maps                         []string
	before, delta, sotw, emptied string
	gone                         []string // the maps that lose it
}{
	"two maps": {
		maps: []string{"env=prod", "env=test"}, before: "c1=1", delta: "-c1", emptied: "c1=", gone: []string{"env=prod", "env=test"},
	},
	"a variant for each": {
		maps: []string{"env=prod", "env=test"}, before: "c1{env=prod}=1 c1{env=test}=2", delta: "-c1{env=prod} -c1{env=test}",
		emptied: "c1{env=prod}= c1{env=test}=", gone: []string{"env=prod", "env=test"},
	},
	"one of two variants": {
		maps: []string{"env=prod", "env=test"}, before: "c1{env=prod}=1 c1{env=test}=2", delta: "-c1{env=test}", sotw: "c1{env=prod}=1",
		emptied: "c1{env=prod}=1 c1{env=test}=", gone: []string{"env=test"},
	},
	"one map with a variant": {
		maps: []string{"env=prod"}, before: "c1{env=prod}=1", delta: "-c1{env=prod}", emptied: "c1{env=prod}=", gone: []string{"env=prod"},
	},
	"no map beside another": {
		maps: []string{"", "env=prod"}, before: "c1=1", delta: "-c1", emptied: "c1=", gone: []string{"", "env=prod"},
	},
}

// TestRemovalsWaitForAllMaps: a cluster goes in the change that moves a route away from it, with
// clients of several parameter maps in the group. It is removed, or its endpoints are emptied, after
// the route was sent, for each map that loses it, whatever the constraints and the dialect of the
// origin (ORD-2, ORD-9).
func TestRemovalsWaitForAllMaps(t *testing.T) {
	for name, c := range mapsLose {
		for _, names := range []string{"*", "c1 c6"} {
			for _, sotw := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/sotw=%v", name, names, sotw), func(t *testing.T) {
					g := newGatherRig(t, sotw, c.maps, strings.Fields(names))
					g.says(mainLane, zero, xds.ClusterType, strings.Fields(c.before)...)
					g.says(mainLane, zero, xds.EndpointType, strings.Fields(c.before)...)
					g.says(mainLane, zero, xds.RouteType, "r1=1")
					g.settle()
					change := strings.Fields(c.delta)
					if sotw {
						change = strings.Fields(c.sotw)
					}
					g.says(mainLane, g.now, xds.ClusterType, append(change, "c6=1")...)
					g.says(mainLane, g.now, xds.EndpointType, strings.Fields(c.emptied)...)
					g.says(mainLane, g.now, xds.RouteType, "r1=2")
					g.keeps()
					g.loses(c.gone)
				})
			}
		}
	}
}

// TestReplacedWhileRemovalsWait: what replaces a variant, just after it was removed, comes with the
// removal, which no longer waits; the same variant again ends it (DYN-10, DYN-11).
func TestReplacedWhileRemovalsWait(t *testing.T) {
	for _, c := range []struct{ before, removed, brings, sent string }{
		{"c1{env=prod}=1 c1{env=test}=2", "-c1{env=test}", "c1{env}=3", "c1=3"},
		{"c1{env=prod}=1 c1{env=test}=2", "-c1{env=test}", "c1{env=test}=3", "c1=3"},
		{"c1{env=prod}=1 c1{env=test}=2", "-c1{env=test}", "c1{env=test}=2", ""},
		{"c1=1", "-c1", "c1{env=test}=2", "c1=2"},
	} {
		g := newGatherRig(t, false, []string{"env=prod", "env=test"}, []string{"*"})
		g.says(mainLane, zero, xds.ClusterType, strings.Fields(c.before)...)
		g.says(mainLane, zero, xds.EndpointType, strings.Fields(c.before)...)
		g.says(mainLane, zero, xds.RouteType, "r1=1")
		g.settle()
		g.says(mainLane, g.now, xds.ClusterType, c.removed)
		g.says(mainLane, g.now, xds.ClusterType, c.brings)
		for range 2 { // it is not removed later either
			sent := ""
			if a := g.clusters["env=test"].Take(g.now); a != nil {
				for _, v := range a.Variants {
					_, value, _ := xds.AnyParts(v.Any())
					sent += v.Name + "=" + xds.StringField(value, 2)
				}
				for _, name := range a.Removed {
					sent += "-" + name
				}
			}
			if sent != c.sent {
				t.Errorf("%s, then %s and %s: sent %q, want %q", c.before, c.removed, c.brings, sent, c.sent)
			}
			g.now, c.sent = g.now.Add(gatherTime), ""
			g.table.Advance(g.now)
		}
	}
}

const gatherTime = 20 * time.Millisecond

// gatherRig is a rig of clients of several parameter maps, each with clusters, endpoints and a route.
type gatherRig struct {
	storeRig
	now                         time.Time
	maps                        []string
	clusters, endpoints, routes map[string]*Sub
}

func newGatherRig(t *testing.T, sotw bool, maps, names []string) *gatherRig {
	g := &gatherRig{
		storeRig: storeRig{newRig(t, Config{Gather: gatherTime, Origins: []OriginConfig{{Name: "mesh", TP2: true, SotW: sotw}}})},
		now:      zero, maps: maps, clusters: map[string]*Sub{}, endpoints: map[string]*Sub{}, routes: map[string]*Sub{},
	}
	for _, p := range maps {
		g.clusters[p], g.routes[p] = g.sub(xds.ClusterType, p, true, names...), g.sub(xds.RouteType, p, true, "r1")
		g.endpoints[p] = g.sub(xds.EndpointType, p, true, "c1")
	}
	g.group.lanes[mainLane].Open(zero, 0)
	g.asks(mainLane, sotw)
	return g
}

// settle has every client hold what there is.
func (g *gatherRig) settle() {
	g.tb.Helper()
	g.now = g.now.Add(time.Minute)
	g.table.Advance(g.now)
	for _, p := range g.maps {
		for _, s := range []*Sub{g.clusters[p], g.endpoints[p], g.routes[p]} {
			if s.Take(g.now) == nil {
				g.tb.Fatalf("the client of %q is sent nothing of %s", p, s.typeURL)
			}
		}
	}
}

// keeps: clients are sent the new cluster, and lose nothing yet.
func (g *gatherRig) keeps() {
	g.tb.Helper()
	for _, p := range g.maps {
		if a := g.clusters[p].Take(g.now); a == nil || len(a.Variants) != 1 || a.Variants[0].Name != "c6" || len(a.Removed) > 0 {
			g.tb.Errorf("the client of %q is sent %+v, want the new cluster alone, at once", p, a)
		}
		if g.routes[p].Take(g.now) != nil || g.endpoints[p].Take(g.now) != nil {
			g.tb.Errorf("the client of %q is sent the route or the empty endpoints at once", p)
		}
	}
}

// loses: after gather these maps lose the cluster, and its endpoints, after the route of all.
func (g *gatherRig) loses(gone []string) {
	g.tb.Helper()
	g.now = g.now.Add(gatherTime)
	g.table.Advance(g.now)
	for _, p := range g.maps {
		a, e, r := g.clusters[p].Take(g.now), g.endpoints[p].Take(g.now), g.routes[p].Take(g.now)
		if r == nil || len(r.Variants) != 1 {
			g.tb.Fatalf("the client of %q is not sent the route", p)
		}
		is := slices.Contains(gone, p)
		if loses := a != nil && slices.Equal(a.Removed, []string{"c1"}); loses != is || (e != nil) != is {
			g.tb.Errorf("the client of %q loses its cluster: %v, its endpoints: %v, want %v", p, loses, e != nil, is)
		}
		if a != nil && a.Rev < r.Rev || e != nil && e.Rev < r.Rev {
			g.tb.Errorf("the client of %q loses its cluster or endpoints before the route moves", p)
		}
	}
}
