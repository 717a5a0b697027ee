package conformance

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// gatherCases: an origin that writes the types of one snapshot in any order (ORD-9).
var gatherCases = slices.Concat(
	eachDialect("ORD-9 EC-1", "a route that came before its cluster is told after it, on one stream and on two", clusterFirst),
	eachDialect("ORD-9 ORD-2", "a cluster swapped with its route goes after the route, whichever of them came first", swapped),
	eachDialect("ORD-9", "a change of routes alone is told gather later", lateAlone),
)

// gathered has clients with clusters and routes of version 1: one with both on a stream, and one
// for each.
type gathered struct {
	*world
	up                     *relaytest.Stream
	both, clusters, routes *relaytest.Client
}

func gatherFor(t *testing.T, d relaytest.Dialect, gather string) *gathered {
	w := start(t, setup{scripted: true, sotw: d == relaytest.SotW, config: func(c weirtest.Config) {
		if gather != "" {
			c.Set("timing.gather", gather)
		}
	}})
	g := &gathered{world: w, both: w.client(d), clusters: w.client(d), routes: w.client(d)}
	g.both.Subscribe(cds, "*")
	g.clusters.Subscribe(cds, "*")
	g.up = w.origin.ExpectStream("weir asks")
	g.up.ExpectType(cds, "for clusters")
	g.up.Respond(cds, "1", cdsAt("a", 1))
	g.clusters.AwaitNames(cds, "the cluster arrives", "a")
	g.both.AwaitNames(cds, "the cluster arrives", "a")
	g.both.Subscribe(rds, "r")
	g.routes.Subscribe(rds, "r")
	g.up.ExpectType(rds, "for the route")
	g.up.Respond(rds, "1", routeAt(1))
	for _, c := range []*relaytest.Client{g.both, g.routes} {
		g.routed(c, 1)
		c.Skip()
	}
	g.clusters.Skip()
	return g
}

func routeAt(version int) relaytest.Resource {
	return relaytest.Resource{Name: "r", Version: strconv.Itoa(version), Body: bytesOf(rds, "r", strconv.Itoa(version))}
}

func (g *gathered) has(s *relaytest.State, version int) bool {
	return s.Body(rds, "r") == string(routeAt(version).Body.Value)
}

func (g *gathered) routed(c *relaytest.Client, version int) {
	g.t.Helper()
	c.Await(0, func(s *relaytest.State) bool { return g.has(s, version) }, "routes of version "+strconv.Itoa(version)+" arrive")
}

// swap sends what makes b the cluster in place of a.
func (g *gathered) swap(d relaytest.Dialect) {
	if d == relaytest.SotW {
		g.up.Respond(cds, "2", cdsAt("b", 1))
		return
	}
	g.up.RespondReplaced(cds, "2", nil, cdsAt("b", 1))
	g.up.RespondRemoved(cds, "3", "a")
}

func clusterFirst(t *testing.T, d relaytest.Dialect) {
	g := gatherFor(t, d, "2s")
	g.up.Respond(rds, "2", routeAt(2))
	g.routes.WantIdle(50 * time.Millisecond)
	if d == relaytest.SotW {
		g.up.Respond(cds, "2", cdsAt("a", 1), cdsAt("b", 1))
	} else {
		g.up.Respond(cds, "2", cdsAt("b", 1))
	}
	before(t, "the cluster comes first", g.both.Expect(cds, "the cluster arrives"), g.both.Expect(rds, "and the route"))
	g.clusters.AwaitNames(cds, "the cluster arrives", "a", "b")
	g.routed(g.routes, 2)
	for _, c := range []*relaytest.Client{g.both, g.clusters, g.routes} {
		c.CheckClean()
	}
}

func swapped(t *testing.T, d relaytest.Dialect) {
	for _, first := range []string{rds, cds} {
		g := gatherFor(t, d, "2s")
		if first == rds {
			g.up.Respond(rds, "2", routeAt(2))
		}
		g.swap(d)
		if first == cds {
			g.up.Respond(rds, "2", routeAt(2))
		}
		for _, c := range []*relaytest.Client{g.both, g.clusters} {
			r, want := c.Expect(cds, "the new cluster comes"), []string{"b"}
			if d == relaytest.SotW {
				want = []string{"a", "b"}
			}
			if got := r.Names(); !slices.Equal(slices.Sorted(slices.Values(got)), want) || len(r.Removed()) > 0 {
				t.Errorf("%s first: the new cluster does not come beside the old one: %v", first, r)
			}
		}
		g.routed(g.both, 2)
		g.both.AwaitNames(cds, "then the old one goes", "b")
		all := g.both.Responses("")
		gone, route := all[len(all)-1], g.both.Responses(rds)[len(g.both.Responses(rds))-1]
		before(t, first+" first: the route comes before the removal", route, gone)
		g.clusters.AwaitNames(cds, "it goes there, too", "b")
		for _, c := range []*relaytest.Client{g.both, g.clusters, g.routes} {
			c.CheckClean()
		}
	}
}

func lateAlone(t *testing.T, d relaytest.Dialect) {
	for gather, want := range map[string]time.Duration{"": 20 * time.Millisecond, "500ms": 500 * time.Millisecond, "0s": 0} {
		g := gatherFor(t, d, gather)
		sent := time.Now()
		g.up.Respond(rds, "2", routeAt(2))
		g.routed(g.routes, 2)
		if took := time.Since(sent); took < want {
			t.Errorf("gather %q: the route came after %v", gather, took)
		}
	}
}
