package conformance

import (
	"fmt"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// coldCases: what a relay does that does not know everything yet.
var coldCases = []testCase{
	{"RELAY-6 RELAY-7", "a set that comes in pieces is handed on in one, in delta as it comes to who holds nothing", func(t *testing.T) {
		w := start(t, setup{
			behaviour: relaytest.Behaviour{Chunk: 2, Pause: 80 * time.Millisecond, Eager: true},
			config:    func(c weirtest.Config) { c.Set("timing.settle", "1500ms") },
			origin:    manyClusters,
		})
		for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			c := w.client(d)
			c.Subscribe(cds, "*")
			c.AwaitNames(cds, "the whole set arrives", clusterNames...)
			if n := len(c.Responses(cds)); d == relaytest.SotW && n != 1 || d == relaytest.Delta && n < 2 {
				t.Errorf("it came in %d responses", n)
			}
			c.CheckClean()
		}
	}},
	{"RELAY-6", "virtual: while a message is still arriving over a slow link no set settles", func(t *testing.T) {
		virtual(t, "../../../upstream", "TestBytesThatArriveAreNoPause")
	}},
	{"RELAY-6 RELAY-7", "a client that comes back loses nothing to a pause longer than settle", func(t *testing.T) {
		old := start(t, setup{origin: manyClusters})
		clients := each(old, func(c *relaytest.Client) {
			c.Subscribe(cds, "*")
			c.AwaitNames(cds, "it has the whole set", clusterNames...)
		})
		cold := start(t, setup{
			behaviour: relaytest.Behaviour{Chunk: 3, Pause: time.Second, Eager: true},
			origin:    manyClusters,
		})
		delta, sotw := cold.client(relaytest.Delta), cold.client(relaytest.SotW)
		held := clients[0].Held(cds)
		held["gone"] = "a version of old"
		delta.SubscribeWith(cds, held, "*")
		sotw.Send(&discovery.DiscoveryRequest{TypeUrl: cds, ResourceNames: []string{"*"}, VersionInfo: "a version of old"})
		sotw.AwaitNames(cds, "its first list is the whole set", clusterNames...)
		if first := sotw.Responses(cds)[0]; len(first.Items) != len(clusterNames) {
			t.Errorf("the first list has %d names", len(first.Items))
		}
		delta.Await(0, func(s *relaytest.State) bool { return s.Absent(cds, "gone") }, "what is gone is removed")
		for _, name := range clusterNames {
			if isAbsent(delta, cds, name) {
				t.Errorf("%s, which is there, was removed", name)
			}
		}
		for _, c := range append(clients, delta, sotw) {
			c.CheckClean()
		}
	}},
	{"RELAY-7", "a list by name waits for a client that may hold it, and for no other", func(t *testing.T) {
		w := start(t, setup{scripted: true})
		fresh, back := w.client(relaytest.SotW), w.client(relaytest.SotW)
		fresh.Subscribe(lds, "A", "B")
		back.Send(&discovery.DiscoveryRequest{TypeUrl: lds, ResourceNames: []string{"A", "B"}, VersionInfo: "a version of old"})
		up := w.origin.ExpectStream("weir asks")
		up.ExpectNames(lds, "for both names", "A", "B")
		up.Respond(lds, "1", aListener("A"))
		fresh.AwaitNames(lds, "a fresh client has the first at once", "A")
		back.WantIdle(quiet)
		fresh.WantIdle(0)
		up.Respond(lds, "2", aListener("B"))
		fresh.AwaitNames(lds, "then the second", "A", "B")
		back.AwaitNames(lds, "the one that came back has both", "A", "B")
		if n := len(back.Responses(lds)); n != 1 {
			t.Errorf("it had %d responses, want one", n)
		}
		fresh.CheckClean()
		back.CheckClean()
	}},
	{"RELAY-8 ERR-6", "a cold relay sends its clients away if the origin is down", func(t *testing.T) {
		coldFor(t, setup{stopped: true})
	}},
	{"RELAY-8", "a cold relay sends its clients away if the origin comes and goes", func(t *testing.T) {
		going := status.Error(codes.Unavailable, "going")
		coldFor(t, setup{behaviour: relaytest.Behaviour{Kill: map[string]error{eds: going, cds: going}}})
	}},
	{"RELAY-8", "on a stream that is served, a name that waits in vain is in error", coldName},
	{"RELAY-8 ABS-5", "the silence of a connected origin sends nobody away", func(t *testing.T) {
		w := start(t, setup{scripted: true, config: func(c weirtest.Config) { c.Set("timing.cold_wait", "2s") }})
		for _, c := range each(w, func(c *relaytest.Client) { c.Subscribe(eds, "a") }) {
			c.WantIdle(2*time.Second + quiet)
		}
	}},
}

// coldFor: after cold_wait, and well before a client's own 15 s, its stream ends with UNAVAILABLE,
// and nothing was said on it.
func coldFor(t *testing.T, s setup) {
	s.config = func(c weirtest.Config) { c.Set("timing.cold_wait", "2s") }
	w := start(t, s)
	begin := time.Now()
	clients := each(w, func(c *relaytest.Client) { c.Subscribe(eds, "a") })
	wild := w.client(relaytest.SotW)
	wild.Subscribe(cds, "*")
	for _, c := range append(clients, wild) {
		if code := c.AwaitEnd("the stream ends"); code != codes.Unavailable {
			t.Errorf("it ended with %v, want UNAVAILABLE", c.Err())
		}
		if took := time.Since(begin); took < 1800*time.Millisecond || took > 10*time.Second {
			t.Errorf("it ended after %v, want 2 s", took)
		}
		if rs := c.Responses(""); len(rs) > 0 {
			t.Errorf("the client was told %v", rs)
		}
	}
}

var clusterNames = func() (names []string) {
	for i := range 8 {
		names = append(names, fmt.Sprint("c", i))
	}
	return names
}()

func manyClusters(o *relaytest.Origin) {
	for _, name := range clusterNames {
		o.Set(cds, name, "1", relaytest.Cluster(name, time.Second))
	}
}

// coldName: what waits in vain on a stream that is served is in error, not absent, and arrives when
// the origin is back.
func coldName(t *testing.T) {
	w := start(t, setup{config: func(c weirtest.Config) { c.Set("timing.cold_wait", "2s") }})
	w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	clients := each(w, func(c *relaytest.Client) {
		c.Subscribe(eds, "a")
		c.AwaitNames(eds, "served", "a")
	})
	w.origin.Stop()
	w.first.AwaitMetric(0, "the loss is noticed", "weir_upstream_connected")
	for _, c := range clients {
		c.Subscribe(eds, "b")
		c.Subscribe(rds, "r")
	}
	for _, c := range append(clients, each(w, func(c *relaytest.Client) { c.Subscribe(eds, "a", "b") })...) {
		c.Await(0, inError(eds, codes.Unavailable, "b"), "the name that waits is in error")
		if isAbsent(c, eds, "b") || c.Body(eds, "a") == "" {
			t.Error("it is absent, or what was served is gone")
		}
	}
	for _, c := range clients {
		c.Await(0, inError(rds, codes.Unavailable, "r"), "so is one of a type of which nothing is served")
		c.WantIdle(2*time.Second + quiet) // it is said once
	}
	w.origin.Set(eds, "b", "1", relaytest.Endpoints("b", "10.0.0.1:80"))
	w.origin.Start()
	for _, c := range clients {
		c.AwaitNames(eds, "it arrives", "a", "b")
		c.CheckClean()
	}
}
