package conformance

import (
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var swapCases = append(
	eachDialect("ORD-10", "a cluster goes with the route to it: who asks by name keeps it until it drops the name", swapByName),
	testCase{
		"ORD-11", "weir is restored, and the origin is back with another cluster and the route to it: the route comes at once, the old cluster goes later",
		perDialect(swapWhileAway),
	},
	testCase{
		"ORD-11", "so it does to a client of `*` in state of the world, whose version shows that it holds the old cluster",
		perDialect(swapOfAllWhileAway),
	},
)

// swapHold is long enough for a client to do all it has to meanwhile.
const swapHold = 2 * time.Second

// swapByName is a cluster swapped with its route in one change, under a client that asks by name.
// The removal comes first, as it may (ORD-9).
func swapByName(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{
		config: func(c weirtest.Config) { c.Set("timing.order_hold", swapHold.String()) },
		origin: func(o *relaytest.Origin) {
			for _, name := range []string{"old", "new"} {
				o.Set(cds, name, "1", relaytest.EDSCluster(name, ""))
				o.Set(eds, name, "1", relaytest.Endpoints(name, "10.0.0.1:80"))
			}
			o.Set(lds, "l", "1", relaytest.Listener("l", 80))
			o.Set(rds, "r", "1", relaytest.Route("r", "old"))
		},
	})
	c, lazy := w.client(d), w.client(d)
	for _, x := range []*relaytest.Client{c, lazy} {
		for _, typeURL := range []string{lds, rds, cds, eds} {
			name := map[string]string{lds: "l", rds: "r", cds: "old", eds: "old"}[typeURL]
			x.Subscribe(typeURL, name)
			x.AwaitNames(typeURL, "what there is", name)
		}
	}
	w.origin.Remove(cds, "old")
	w.origin.Remove(eds, "old")
	to := relaytest.Route("r", "new")
	w.origin.Set(rds, "r", "2", to)

	routed := func(s *relaytest.State) bool { return s.Body(rds, "r") == string(to.Value) }
	c.Await(0, routed, "the route to the new cluster")
	for _, typeURL := range []string{cds, eds} {
		c.Subscribe(typeURL, "new")
		c.AwaitNames(typeURL, "the new cluster, and the old one is still there", "new", "old")
	}
	for _, typeURL := range []string{cds, eds} {
		c.Unsubscribe(typeURL, "old")
	}
	c.WantIdle(swapHold + quiet) // it needs not be told what it dropped
	c.CheckClean()

	lazy.Await(0, func(s *relaytest.State) bool { return s.Count(cds) == 0 }, "who goes on asking for the name is told in the end")
	last := func(typeURL string) *relaytest.Response {
		all := lazy.Responses(typeURL)
		return all[len(all)-1]
	}
	before(t, "the cluster goes after the route", last(rds), last(cds))
	lazy.CheckClean()
}

// swapWhileAway: weir ends, and so does the origin. Weir comes back with its snapshot, and the
// origin with another cluster and the route to it. It has nothing to say of the Listener.
func swapWhileAway(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{sotw: d == relaytest.SotW})
	file, _ := w.keeps(d)
	file.Set("timing.cold_wait", "10s").Set("timing.firm_settle", "5s")
	w.origin.Set(cds, "old", "1", relaytest.EDSCluster("old", ""))
	w.origin.Set(eds, "old", "1", relaytest.Endpoints("old", "10.0.0.1:80"))
	w.origin.Set(lds, "l", "1", relaytest.Listener("l", 80))
	w.origin.Set(rds, "r", "1", relaytest.Route("r", "old"))
	types := []string{lds, rds, cds, eds}
	name := map[string]string{lds: "l", rds: "r", cds: "old", eds: "old"}
	w.begin(file)
	before := each(w, func(c *relaytest.Client) {
		for _, typeURL := range types {
			c.Subscribe(typeURL, name[typeURL])
			c.AwaitNames(typeURL, "what there is", name[typeURL])
		}
	})
	w.weir.Stop() // which writes what there is
	w.origin.Stop()

	w.begin(file)
	delta, sotw := w.client(relaytest.Delta), w.client(relaytest.SotW)
	for _, typeURL := range types {
		delta.SubscribeWith(typeURL, before[0].Held(typeURL), name[typeURL])
		rs := before[1].Responses(typeURL)
		sotw.Send(&discoveryv3.DiscoveryRequest{
			TypeUrl: typeURL, ResourceNames: []string{name[typeURL]}, VersionInfo: rs[len(rs)-1].Version(),
		})
	}
	for _, c := range []*relaytest.Client{delta, sotw} {
		c.WantIdle(quiet)
	}
	to := relaytest.Route("r", "new")
	w.origin.Set(cds, "new", "1", relaytest.EDSCluster("new", ""))
	w.origin.Set(eds, "new", "1", relaytest.Endpoints("new", "10.0.0.2:80"))
	w.origin.Set(rds, "r", "2", to)
	w.origin.Remove(cds, "old")
	w.origin.Remove(eds, "old")
	w.origin.Start()
	for _, c := range []*relaytest.Client{delta, sotw} {
		c.Await(0, func(s *relaytest.State) bool { return s.Body(rds, "r") == string(to.Value) }, "the route")
		for _, r := range c.Responses("") {
			if typeURL := r.TypeURL(); typeURL == cds || typeURL == eds {
				t.Errorf("%v came before the route, or with it", r)
			}
		}
		c.Unsubscribe(eds, "old")
		c.Subscribe(cds, "new")
		c.Await(0, func(s *relaytest.State) bool { return s.Body(cds, "new") != "" }, "the new cluster")
	}
}

// swapOfAllWhileAway is swapWhileAway under clients of `*`, before the origin is back and after.
func swapOfAllWhileAway(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{sotw: d == relaytest.SotW})
	file, _ := w.keeps(d)
	w.origin.Set(cds, "old", "1", relaytest.Cluster("old", 5*time.Second))
	w.origin.Set(lds, "l", "1", relaytest.Listener("l", 80))
	w.origin.Set(rds, "r", "1", relaytest.Route("r", "old"))
	w.begin(file)
	first := w.client(relaytest.SotW)
	first.Subscribe(cds)
	first.AwaitNames(cds, "what there is", "old")
	first.Subscribe(lds)
	first.AwaitNames(lds, "what there is", "l")
	first.Subscribe(rds, "r")
	first.AwaitNames(rds, "what there is", "r")
	w.weir.Stop() // which writes what there is
	w.origin.Stop()

	w.begin(file)
	back := func() *relaytest.Client {
		c := w.client(relaytest.SotW)
		for _, typeURL := range []string{cds, lds, rds} {
			rs := first.Responses(typeURL)
			m := &discoveryv3.DiscoveryRequest{TypeUrl: typeURL, VersionInfo: rs[len(rs)-1].Version()}
			if typeURL == rds {
				m.ResourceNames = []string{"r"}
			}
			c.Send(m)
		}
		return c
	}
	early := back()
	early.WantIdle(quiet)
	to := relaytest.Route("r", "new")
	w.origin.Set(cds, "new", "1", relaytest.Cluster("new", 5*time.Second))
	w.origin.Set(rds, "r", "2", to)
	w.origin.Remove(cds, "old")
	w.origin.Start()
	keeps := func(c *relaytest.Client) {
		c.Await(0, func(s *relaytest.State) bool { return s.Body(rds, "r") == string(to.Value) && s.Count(cds) == 1 }, "the swap")
		clusters := c.Responses(cds)
		if n := len(clusters[0].Names()); n != 2 {
			t.Errorf("the first list has %d clusters, want the old one beside the new: %v", n, clusters[0])
		}
		routes := c.Responses(rds)
		before(t, "the old cluster goes after the route", routes[len(routes)-1], clusters[len(clusters)-1])
		c.CheckClean()
	}
	keeps(early)
	keeps(back())
}
