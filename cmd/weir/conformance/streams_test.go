package conformance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

var streamsCases = slices.Concat(nodeCases, groupCases, lifeCases, sotwListCases, sotwAnswerCases, nonceCases, flowCases)

func byID(c weirtest.Config) { c.Origin().Set("group_by", []any{"id"}) }

var nodeCases = []testCase{
	{
		"STREAM-1 RELAY-94", "the second type of a stream needs no node, and a thinner one later changes nothing",
		perDialect(func(t *testing.T, d relaytest.Dialect) {
			w := start(t, setup{config: func(c weirtest.Config) { c.Origin().Set("group_by", []any{"cluster"}) }})
			w.origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
			w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
			w.origin.Set(rds, "r", "1", relaytest.Route("r", "a"))
			c := w.client(d)
			c.Subscribe(cds, "*")
			c.Subscribe(eds, "a")
			c.AwaitNames(cds, "the clusters arrive", "a")
			c.AwaitNames(eds, "so do the endpoints, asked for without a node", "a")
			c.Send(wish{typeURL: rds, names: []string{"r"}, node: relaytest.Node("client-1", "")}.message(d))
			c.AwaitNames(rds, "and the routes, asked for with the id alone", "r")
			for _, s := range w.origin.Streams() {
				if rs := s.Requests(); len(rs) > 0 && rs[0].Node().GetCluster() != "edge" {
					t.Errorf("want the cluster of the client's first node upstream, got %v", rs[0])
				}
			}
			c.CheckClean()
		}),
	},
	{"STREAM-2", "a client without a node is served, in a group of its own", perDialect(func(t *testing.T, d relaytest.Dialect) {
		w := start(t, setup{config: byID})
		w.origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
		known, c := w.client(d), w.client(d)
		known.Subscribe(cds, "*")
		known.AwaitNames(cds, "a client with a node is served", "a")
		c.Open(nil)
		c.Subscribe(cds, "*")
		c.AwaitNames(cds, "a client without one is served, too", "a")
		if n := len(w.origin.Streams()); n != 2 {
			t.Errorf("the origin sees %d streams, want one for each of two groups", n)
		}
		c.CheckClean()
	})},
	{"STREAM-2", "where an id is required a client without one is told so", perDialect(func(t *testing.T, d relaytest.Dialect) {
		w := start(t, setup{config: func(c weirtest.Config) {
			c.Origin().Set("node.id", "weir") // so that weirs in a row accept one another
			c.Listener().Set("require_node_id", true)
		}})
		c := w.client(d)
		c.Subscribe(cds, "*")
		c.Expect(cds, "with an id, all is well")
		c.Open(relaytest.Node("", "edge"))
		c.Subscribe(cds, "*")
		if code := c.AwaitEnd("without one the stream ends"); code != codes.InvalidArgument {
			t.Errorf("it ended with %v", c.Err())
		}
	})},
	{"STREAM-3", "another id later on the stream has no effect", perDialect(func(t *testing.T, d relaytest.Dialect) {
		w := start(t, setup{config: byID})
		w.origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
		w.origin.Set(rds, "r", "1", relaytest.Route("r", "a"))
		c := w.client(d)
		c.Subscribe(cds, "*")
		c.AwaitNames(cds, "the clusters arrive", "a")
		c.Send(wish{typeURL: rds, names: []string{"r"}, node: relaytest.Node("somebody-else", "edge")}.message(d))
		c.AwaitNames(rds, "the stream goes on", "r")
		for _, r := range w.origin.Requests() {
			if id := r.Node().GetId(); id == "somebody-else" {
				t.Errorf("the later node went upstream: %v", r)
			}
		}
		c.WantIdle(quiet)
		c.CheckClean()
	})},
	{"STREAM-3", "virtual: such nodes are counted, and logged once", func(t *testing.T) {
		virtual(t, "../../../downstream", "TestNode")
	}},
	{"STREAM-6", "upstream only the first message of a stream has the node", func(t *testing.T) {
		for _, sotw := range []bool{false, true} {
			w := start(t, setup{sotw: sotw})
			talkUpstream(w)
			for _, s := range w.origin.Streams() {
				for i, r := range s.Requests() {
					if has := r.Node() != nil; has != (i == 0) {
						t.Errorf("message %d of the stream: node is %v: %v", i+1, has, r)
					}
				}
			}
		}
	}},
	{"STREAM-6", "unless the origin wants it on every message", func(t *testing.T) {
		w := start(t, setup{config: func(c weirtest.Config) { c.Origin().Set("grpc.node_always", true) }})
		talkUpstream(w)
		for _, r := range w.origin.Requests() {
			if r.Node().GetId() == "" {
				t.Errorf("no node in %v", r)
			}
		}
	}},
}

// talkUpstream brings about several requests on one upstream stream.
func talkUpstream(w *world) {
	w.t.Helper()
	w.origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
	w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	c := w.client(relaytest.Delta)
	c.Subscribe(cds, "*")
	c.Subscribe(eds, "a")
	c.AwaitNames(cds, "the clusters arrive", "a")
	c.AwaitNames(eds, "the endpoints arrive", "a")
	w.origin.Await(0, func() bool {
		return w.origin.Asked(cds).ACKs > 0 && w.origin.Asked(eds).ACKs > 0
	}, "weir accepts both types")
	c.CheckClean()
}

var lifeCases = []testCase{
	{"STREAM-7", "a NACK of one type leaves the others flowing", perDialect(func(t *testing.T, d relaytest.Dialect) {
		w := start(t, setup{config: patiently})
		w.origin.Put(cds, cdsAt("a", 1))
		w.origin.Set(opaque, "r", "1", bytesOf(opaque, "r", "1")) // which waits for no clusters
		c := w.manual(d)
		c.Subscribe(cds, "*")
		c.Subscribe(opaque, "r")
		c.Expect(cds, "the clusters arrive")
		c.ACK(cds)
		c.Expect(opaque, "the other type arrives")
		c.NACK(opaque, "no such thing")
		// until the set has settled a delta client is told of it as it comes (RELAY-7)
		c.WantIdle(quiet)
		w.origin.Put(cds, cdsAt("a", 2))
		got := c.Expect(cds, "the changed cluster arrives")
		c.Send(wish{typeURL: opaque, nonce: got.Nonce(), names: []string{"r"}}.message(d))
		w.origin.Put(cds, cdsAt("a", 3))
		if d == relaytest.Delta {
			c.Expect(opaque, "in delta to subscribe again is to ask again")
		}
		// for the clusters' nonce means nothing to them in a message about another type
		c.WantIdle(quiet)
		c.ACK(cds)
		c.Expect(cds, "the next clusters arrive once these are accepted")
		c.CheckClean()
	})},
	{"STREAM-8", "subscriptions end with the stream, however it ends", perDialect(func(t *testing.T, d relaytest.Dialect) {
		for name, leave := range map[string]func(*relaytest.Client, *grpc.ClientConn){
			"cancelled":   func(c *relaytest.Client, _ *grpc.ClientConn) { c.Cancel() },
			"half-closed": func(c *relaytest.Client, _ *grpc.ClientConn) { c.HalfClose() },
			"vanished":    func(_ *relaytest.Client, conn *grpc.ClientConn) { _ = conn.Close() },
		} {
			w := start(t, setup{config: func(c weirtest.Config) { c.Set("cache.linger", "100ms") }})
			w.origin.Put(eds, edsAt("a", 1))
			dialect := `dialect="` + string(d) + `"`
			conn := weirtest.Connect(t, w.weir.Addr)
			c := newClient(t, conn, relaytest.ClientConfig{Dialect: d})
			c.Open(relaytest.Node("client-1", "edge"))
			c.Subscribe(eds, "a", "b", "c")
			c.AwaitNames(eds, "the endpoints arrive", "a")
			w.weir.AwaitMetric(3, "three names are subscribed", "weir_downstream_subscriptions", dialect)
			leave(c, conn)
			released := func() bool {
				names, _ := w.weir.Metric("weir_downstream_subscriptions", dialect)
				streams, _ := w.weir.Metric("weir_downstream_streams", dialect)
				return names == 0 && streams == 0
			}
			// one by the rule, the others for a loaded machine
			if !weirtest.Until(5*time.Second, released) {
				t.Errorf("%s: weir still counts the stream or its names", name)
			}
			w.origin.Await(0, func() bool { return len(w.origin.Open()) == 0 || w.origin.Asked(eds).Unsubscribed["a"] > 0 },
				"weir gives the names back upstream")
			c.CheckClean()
		}
	})},
	{"STREAM-9", "a stream that asks for nothing is closed, one that asks is not", perDialect(func(t *testing.T, d relaytest.Dialect) {
		w := start(t, setup{config: func(c weirtest.Config) { c.Set("timing.first_request", "1s") }})
		silent, busy := w.client(d), w.client(d)
		busy.Subscribe(cds, "*") // at once: it has a second
		busy.Expect(cds, "the empty set is stated")
		if code := silent.AwaitEnd("the silent stream ends"); code != codes.DeadlineExceeded {
			t.Errorf("it ended with %v", silent.Err())
		}
		busy.WantIdle(time.Second + quiet)
	})},
	{
		"STREAM-10 RELAY-90", "responses name the origin and each weir, and a new name alone is not news",
		perDialect(func(t *testing.T, d relaytest.Dialect) {
			w := start(t, setup{behaviour: relaytest.Behaviour{Identifier: "plane-1"}})
			way := ""
			for hop := range hops(t) {
				way += ";weir=" + instanceOf(hop)
			}
			w.origin.Put(cds, cdsAt("a", 1))
			c := w.client(d)
			c.Subscribe(cds, "*")
			if got := c.Expect(cds, "the clusters arrive").Identifier(); got != "plane-1"+way {
				t.Errorf("the identifier is %q", got)
			}
			w.origin.Behave(func(b *relaytest.Behaviour) { b.Identifier = "plane-2" })
			was := w.origin.Asked(cds).ACKs
			w.origin.Put(cds, cdsAt("a", 1))
			w.origin.Await(0, func() bool { return w.origin.Asked(cds).ACKs > was }, "weir hears the same from the origin by its new name")
			c.WantIdle(quiet)
			w.origin.Put(cds, cdsAt("a", 2))
			if got := c.Expect(cds, "the change arrives").Identifier(); got != "plane-2"+way {
				t.Errorf("the identifier is %q after the origin's changed", got)
			}
			c.CheckClean()
		}),
	},
	{"STREAM-11", "weir hears a client that does not read, and sends all when it does", perDialect(func(t *testing.T, d relaytest.Dialect) {
		w := start(t, setup{})
		w.origin.Put(opaque, relaytest.Resource{Name: "big", Version: "1", Body: relaytest.Opaque("big", strings.Repeat("x", 2<<20))})
		c := w.clientWith(relaytest.ClientConfig{Dialect: d, NeverRead: true})
		c.Subscribe(opaque, "big")
		w.awaitStanding(opaque, "weir writes more than fits the client's window", func(s standing) bool { return s.Responses == 1 })
		for i := range 9 {
			w.origin.Put(eds, edsAt(string(rune('a'+i)), 1))
			c.Subscribe(eds, string(rune('a'+i)))
		}
		w.origin.Await(0, func() bool { return len(w.origin.Asked(eds).Subscribed) == 9 }, "all that the client asks meanwhile is heard")
		c.Read()
		c.AwaitNames(opaque, "the client reads at last", "big")
		c.AwaitNames(eds, "and holds everything", "a", "b", "c", "d", "e", "f", "g", "h", "i")
		c.CheckClean()
	})},
}
