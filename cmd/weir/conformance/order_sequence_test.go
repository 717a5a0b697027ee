package conformance

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var sequenceCases = slices.Concat(
	eachDialect("ORD-1", "what is pending together is written in order, however it was asked", writtenInOrder),
	eachDialect("ORD-1", "changes of clusters and routes that wait together: clusters first", clustersFirst),
	eachDialect("ORD-6", "a client that is held delays neither another nor the cache", heldAlone),
	eachDialect("ORD-7", "routes flow after a NACK of clusters", nackHoldsNothing),
	eachDialect("RELAY-84", "clusters that wait for an ACK go after order_hold, and the routes behind them", unansweredClusters),
)

func writtenInOrder(t *testing.T, d relaytest.Dialect) {
	name := func(typeURL string) string {
		if typeURL == relaytest.VirtualHostType {
			return "routes/x" // without a slash it would be a namespace (ALIAS-6)
		}
		return "x"
	}
	want := []string{
		eds, lds, relaytest.ScopedRouteType, rds, relaytest.ExtensionType, relaytest.RuntimeType, opaque, opaque + "0",
	}
	if d == relaytest.Delta { // these two have no SotW form
		want = slices.Insert(want, 4, relaytest.VirtualHostType)
		want = slices.Insert(want, 1, lbEndpoints)
	}
	w := start(t, setup{origin: func(o *relaytest.Origin) {
		for _, typeURL := range want {
			o.Set(typeURL, name(typeURL), "1", bytesOf(typeURL, name(typeURL), "1"))
		}
	}})
	helper := w.client(relaytest.Delta)
	for _, typeURL := range want {
		helper.Subscribe(typeURL, name(typeURL))
		helper.AwaitNames(typeURL, "weir has the resource", name(typeURL))
	}
	c := w.stuck(d)
	for _, typeURL := range slices.Backward(want) {
		c.Subscribe(typeURL, name(typeURL))
		w.awaitType("stuck", "weir reads the request", func(t clientType) bool { return t.TypeURL == typeURL && t.Names == 1 })
	}
	c.Read()
	c.Await(0, func(s *relaytest.State) bool {
		return !slices.ContainsFunc(want, func(typeURL string) bool { return s.Count(typeURL) == 0 })
	}, "all types arrive")
	if got := typesOf(c.Responses("")[2:]); !slices.Equal(got, want) {
		t.Errorf("the types arrive in the order\n%q, want\n%q", got, want)
	}
	c.CheckClean()
}

// lbEndpoints is the one type whose payload has no name.
const lbEndpoints = "type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint"

func clustersFirst(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{origin: func(o *relaytest.Origin) {
		for _, typeURL := range []string{cds, rds} {
			o.Set(typeURL, "x", "1", bytesOf(typeURL, "x", "1"))
		}
	}})
	helper := w.client(relaytest.Delta)
	for _, typeURL := range []string{rds, cds} {
		helper.Subscribe(typeURL, "x")
		helper.AwaitNames(typeURL, "weir has the resource", "x")
	}
	c := w.stuck(d)
	for _, typeURL := range []string{rds, cds} {
		c.Subscribe(typeURL, "x")
		w.awaitType("stuck", "weir reads the request", func(t clientType) bool { return t.TypeURL == typeURL && t.Names == 1 })
	}
	for _, typeURL := range []string{rds, cds} { // the routes arrive first
		w.origin.Set(typeURL, "x", "2", bytesOf(typeURL, "x", "2"))
		helper.Await(0, func(s *relaytest.State) bool {
			return s.Body(typeURL, "x") == string(bytesOf(typeURL, "x", "2").Value)
		}, "weir has the change")
	}
	c.Read()
	clusters := c.Expect(cds, "the clusters arrive")
	routes := c.Expect(rds, "and the routes")
	before(t, "clusters are written first", clusters, routes)
	c.CheckClean()
}

func heldAlone(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{config: func(c weirtest.Config) {
		c.Set("timing.order_hold", "60s")
	}})
	for _, typeURL := range []string{cds, rds} {
		w.origin.Set(typeURL, "x", "1", bytesOf(typeURL, "x", "1"))
	}
	held := newClient(t, weirtest.Connect(t, w.weir.Addr), relaytest.ClientConfig{Dialect: d, ManualACK: true})
	held.Open(relaytest.Node("held", "edge"))
	other, alone := w.client(d), w.client(d)
	for _, c := range []*relaytest.Client{held, other} {
		c.Subscribe(cds, "*")
		c.Expect(cds, "the clusters")
	}
	for _, c := range []*relaytest.Client{held, other, alone} {
		c.Subscribe(rds, "x")
	}
	alone.Expect(rds, "who asks for no clusters has nothing to wait for")
	other.Expect(rds, "the routes follow the clusters that were accepted")
	w.awaitType("held", "the routes of the first are held", func(t clientType) bool { return t.TypeURL == rds && t.Held == 1 })
	// until the set has settled a delta client is told of it as it comes (RELAY-7)
	held.WantIdle(quiet)
	for _, version := range []string{"2", "3"} {
		asked := w.origin.Asked(rds).ACKs
		for _, typeURL := range []string{cds, rds} {
			w.origin.Set(typeURL, "x", version, bytesOf(typeURL, "x", version))
		}
		before(t, "in order", other.Expect(cds, "new clusters"), other.Expect(rds, "and new routes"))
		alone.Expect(rds, "new routes")
		w.origin.Await(0, func() bool { return w.origin.Asked(rds).ACKs > asked }, "the origin gets its ACK")
	}
	held.WantIdle(0) // all the while
	held.ACK(cds)
	held.Expect(cds, "the ACK lets the last clusters go")
	held.ACK(cds)
	held.Expect(rds, "and the ACK of those the routes")
	other.CheckClean()
	alone.CheckClean()
	held.CheckClean()
}

func nackHoldsNothing(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{config: func(c weirtest.Config) {
		c.Set("timing.order_hold", "60s")
	}})
	for _, typeURL := range []string{cds, eds, rds} {
		w.origin.Set(typeURL, "x", "1", bytesOf(typeURL, "x", "1"))
	}
	c := w.clientWith(relaytest.ClientConfig{Dialect: d, ManualACK: true})
	c.Subscribe(cds, "*")
	c.Expect(cds, "the clusters")
	c.WantIdle(quiet) // the set settles meanwhile, and has nothing more to tell
	c.Subscribe(eds, "x")
	c.Expect(eds, "endpoints are not held")
	c.Subscribe(rds, "x")
	c.WantIdle(quiet) // routes are, until the clusters have a verdict
	c.NACK(cds, "no")
	c.Expect(rds, "a NACK is one")
	c.ACK(rds)
	w.origin.Set(rds, "x", "2", bytesOf(rds, "x", "2"))
	c.Expect(rds, "and holds nothing later")
	c.CheckClean()
}

func unansweredClusters(t *testing.T, d relaytest.Dialect) {
	const hold = time.Second
	w := start(t, setup{config: func(c weirtest.Config) {
		c.Set("timing.order_hold", hold.String())
	}})
	for _, typeURL := range []string{cds, rds} {
		w.origin.Set(typeURL, "x", "1", bytesOf(typeURL, "x", "1"))
	}
	c := w.clientWith(relaytest.ClientConfig{Dialect: d, ManualACK: true})
	c.Subscribe(cds, "*")
	first := c.Expect(cds, "the clusters")
	// until the set has settled a delta client is told of it as it comes (RELAY-7)
	c.WantIdle(quiet)
	w.origin.Set(cds, "x", "2", bytesOf(cds, "x", "2"))
	helper := w.client(relaytest.Delta)
	helper.Subscribe(cds, "x")
	helper.Await(0, func(s *relaytest.State) bool {
		return s.Body(cds, "x") == string(bytesOf(cds, "x", "2").Value)
	}, "weir has the new clusters")
	asked := time.Now()
	c.Subscribe(rds, "x")
	clusters := c.Expect(cds, "the new clusters go although the first are unanswered")
	if wait := clusters.At.Sub(first.At); wait < hold-50*time.Millisecond {
		t.Errorf("they come %v after the first, before order_hold", wait)
	}
	routes := c.Expect(rds, "and the routes, order_hold after they were asked for")
	before(t, "no routes before their clusters", clusters, routes)
	if wait := routes.At.Sub(asked); wait > hold+hold/2 {
		t.Errorf("they come %v after they were asked for: later clusters prolong their hold", wait)
	}
	c.CheckClean()
}
