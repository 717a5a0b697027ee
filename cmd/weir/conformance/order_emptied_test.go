package conformance

import (
	"slices"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// emptiedCases: an origin that sends the endpoints of a cluster that goes empty, before the routes,
// as istio does (ORD-9, ORD-10, ORD-11).
var emptiedCases = slices.Concat(
	eachDialect("ORD-9 ORD-10",
		"a cluster goes with its route, and its endpoints are emptied: a client has time to drop them", emptiedInASwap),
	eachDialect("ORD-9 EC-1",
		"the endpoints of a cluster that stays are emptied: a client is told, whatever is held", emptiedAlone),
	eachDialect("ORD-11",
		"just after a restart of weir a cluster goes with its route, its endpoints emptied: not before the route",
		emptiedAfterRestart),
)

// shop is an origin with two clusters and a route to one of them.
func shop(o *relaytest.Origin) {
	for _, name := range []string{"old", "stays"} {
		o.Set(cds, name, "1", relaytest.EDSCluster(name, ""))
		o.Set(eds, name, "1", relaytest.Endpoints(name, "10.0.0.1:80"))
	}
	o.Set(lds, "l", "1", relaytest.Listener("l", 80))
	o.Set(rds, "r", "1", relaytest.Route("r", "old"))
}

// shopNames are what an Envoy asks for.
var shopNames = map[string][]string{cds: {"*"}, eds: {"old", "stays"}, lds: {"*"}, rds: {"r"}}

func shopTypes() []string { return []string{cds, eds, lds, rds} }

func (w *world) customer(d relaytest.Dialect) *relaytest.Client {
	c := w.client(d)
	for _, typeURL := range shopTypes() {
		c.Subscribe(typeURL, shopNames[typeURL]...)
		c.Expect(typeURL, "what there is")
	}
	return c
}

// swapShop puts a cluster in place of the old one, in one change with the route, in istio's order.
func swapShop(o *relaytest.Origin) {
	o.Batch(func() {
		o.Set(cds, "new", "1", relaytest.EDSCluster("new", ""))
		o.Remove(cds, "old")
	})
	o.Batch(func() {
		o.Set(eds, "new", "1", relaytest.Endpoints("new", "10.0.0.2:80"))
		o.Set(eds, "old", "2", relaytest.Endpoints("old"))
	})
	o.Set(rds, "r", "2", relaytest.Route("r", "new"))
}

// swapped follows a client through that: no response before the route takes anything of the old
// cluster. back: it holds the old one from before the stream.
func (w *world) swapped(c *relaytest.Client, back bool) {
	t := w.t
	t.Helper()
	route := string(relaytest.Route("r", "new").Value)
	if !back {
		c.Await(0, func(s *relaytest.State) bool { return s.Body(cds, "new") != "" }, "the new cluster")
		c.Subscribe(eds, "new")
	}
	c.Await(0, func(s *relaytest.State) bool { return s.Body(rds, "r") == route }, "the route to it")
	for _, r := range c.Responses("") {
		listed := slices.Contains(r.Names(), "old")
		switch typeURL := r.TypeURL(); {
		case typeURL == rds && len(r.Items) > 0 && string(r.Items[0].Body.Value) == route:
			return
		case typeURL == eds && slices.ContainsFunc(r.Items, emptyOld):
			t.Errorf("before the route the endpoints were empty: %v", r)
		case slices.Contains(r.Removed(), "old"), typeURL == cds && r.SotW != nil && !listed:
			t.Errorf("before the route the cluster was gone: %v", r)
		}
	}
}

func emptyOld(x relaytest.Item) bool {
	return x.Name == "old" && string(x.Body.Value) == string(relaytest.Endpoints("old").Value)
}

func oldGone(s *relaytest.State) bool { return !slices.Contains(s.Names(cds), "old") }

func emptiedInASwap(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{origin: shop, config: func(c weirtest.Config) {
		c.Set("timing.gather", "2s") // for longer than the origin needs on a busy machine
		c.Set("timing.order_hold", "60s")
	}})
	c := w.customer(d)
	swapShop(w.origin)
	w.swapped(c, false)
	c.Await(0, oldGone, "then the old cluster goes")
	c.WantIdle(quiet)
	if c.Body(eds, "old") != string(relaytest.Endpoints("old", "10.0.0.1:80").Value) {
		t.Error("the client was told that the endpoints are empty, and had no time to drop the name")
	}
	c.Unsubscribe(eds, "old")
	c.WantIdle(quiet)
	c.CheckClean()
}

func emptiedAlone(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{origin: shop, config: func(c weirtest.Config) { c.Set("timing.order_hold", "60s") }})
	c := w.customer(d)
	w.origin.Remove(cds, "old")
	// The client does not ask for the endpoints of this one.
	w.origin.Set(cds, "waits", "1", relaytest.EDSCluster("waits", ""))
	c.Await(0, func(s *relaytest.State) bool { return s.Body(cds, "waits") != "" }, "a cluster")
	w.origin.Set(rds, "r", "2", relaytest.Route("r", "waits"))
	w.origin.Set(eds, "stays", "2", relaytest.Endpoints("stays"))
	empty := string(relaytest.Endpoints("stays").Value)
	told := func(s *relaytest.State) bool { return s.Body(eds, "stays") == empty }
	c.Await(0, told, "the endpoints are empty, though a route waits")
	if c.Body(rds, "r") != string(relaytest.Route("r", "old").Value) {
		t.Error("the route does not wait, so this shows nothing")
	}
	c.CheckClean()
}

func emptiedAfterRestart(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{origin: shop})
	file, _ := w.keeps(relaytest.Delta)
	file.Set("timing.cold_wait", "10s").Set("timing.firm_settle", "3s").Set("timing.gather", "1s")
	file.Origin()["resume"] = "none"
	w.begin(file)
	first := w.customer(d)
	first.WantIdle(quiet)
	w.weir.Stop() // which writes what there is

	w.begin(file)
	back := w.client(d)
	for _, typeURL := range shopTypes() {
		if d == relaytest.Delta {
			back.SubscribeWith(typeURL, first.Held(typeURL), shopNames[typeURL]...)
			continue
		}
		rs := first.Responses(typeURL)
		back.Send(&discoveryv3.DiscoveryRequest{
			TypeUrl: typeURL, ResourceNames: shopNames[typeURL], VersionInfo: rs[len(rs)-1].Version(),
		})
	}
	fresh := w.customer(d)
	w.weir.AwaitMetric(1, "weir is connected", "weir_upstream_connected")
	fresh.WantIdle(100 * time.Millisecond)
	swapShop(w.origin)
	w.swapped(fresh, false)
	w.swapped(back, true)
	for _, c := range []*relaytest.Client{back, fresh} {
		c.Await(0, oldGone, "the old cluster goes")
	}
}
