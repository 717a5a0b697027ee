package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var replicaCases = []testCase{
	{"RELAY-43 RELAY-57", "a SotW client moves between replicas: its wildcards are in sync, its names come again", inBoth(sotwMoves)},
	{"RELAY-44 RELAY-57", "a delta client moves between replicas in sync, and is sent no resource", inBoth(deltaMoves)},
	{"RELAY-56", "versions are those of the golden vectors, whatever the origin called them", inBoth(golden)},
	{"RELAY-57", "replicas that hold the same have equal digests in /groups, and others do not", digestsOfReplicas},
	{"RELAY-57", "one change in 10,000 during a move is one resource", oneOfMany},
}

// move returns a client of a second replica, and goes away from the first.
func (w *world) move(from *relaytest.Client, dialect relaytest.Dialect) *relaytest.Client {
	w.t.Helper()
	from.Cancel()
	second := weirtest.Start(w.t, w.config)
	c := newClient(w.t, weirtest.Connect(w.t, second.Addr), relaytest.ClientConfig{Dialect: dialect})
	c.Open(relaytest.Node("client-1", "edge"))
	return c
}

func sotwMoves(t *testing.T, dialect relaytest.Dialect) {
	w := start(t, setup{sotw: dialect == relaytest.SotW, config: quickSettle})
	w.origin.Replace(cds, clusters("a", "b")...)
	w.origin.Set(lds, "l", "1", relaytest.Listener("l", 80))
	w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	from := w.client(relaytest.SotW)
	from.Subscribe(cds, "*")
	from.Subscribe(lds, "l")
	from.Subscribe(eds, "a")
	from.AwaitNames(cds, "the clusters arrive", "a", "b")
	from.AwaitNames(lds, "so do the listeners", "l")
	from.AwaitNames(eds, "so do the endpoints", "a")
	version := func(typeURL string) string { return from.Responses(typeURL)[0].Version() }
	c := w.move(from, relaytest.SotW)
	resume := func(typeURL, name string) {
		c.Send(&discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: []string{name}, VersionInfo: version(typeURL)})
	}
	resume(cds, "*")
	resume(lds, "l")
	resume(eds, "a")
	c.AwaitNames(lds, "names are answered in full, in full-state types", "l")
	c.AwaitNames(eds, "and in others", "a")
	c.WantIdle(10*50*time.Millisecond + quiet)
	if n := len(c.Responses(cds)); n != 0 {
		t.Errorf("%d responses to a wildcard in sync, want none", n)
	}
	w.origin.Set(cds, "b", "2", relaytest.Cluster("b", 2*time.Second))
	c.AwaitNames(cds, "a change is sent as the whole set", "a", "b")
	if got := c.Responses(cds)[0].Version(); got == version(cds) {
		t.Errorf("the changed set has version %s as before, want another", got)
	}
	c.CheckClean()
	from.CheckClean()
}

func deltaMoves(t *testing.T, dialect relaytest.Dialect) {
	w := start(t, setup{sotw: dialect == relaytest.SotW, config: quickSettle})
	w.origin.Replace(cds, clusters("a", "b")...)
	w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	from := w.client(relaytest.Delta)
	from.Subscribe(cds, "*")
	from.Subscribe(eds, "a")
	from.AwaitNames(cds, "the clusters arrive", "a", "b")
	from.AwaitNames(eds, "so do the endpoints", "a")
	c := w.move(from, relaytest.Delta)
	c.SubscribeWith(cds, from.Held(cds), "*")
	c.SubscribeWith(eds, from.Held(eds), "a")
	c.Expect(cds, "the wildcard is answered")
	c.WantIdle(10*50*time.Millisecond + quiet)
	for _, r := range c.Responses("") {
		if len(r.Items)+len(r.Removed()) > 0 {
			t.Errorf("%v tells what the client holds, want nothing", r)
		}
	}
	w.origin.Set(cds, "b", "2", relaytest.Cluster("b", 2*time.Second))
	c.AwaitNames(cds, "a change comes alone", "b")
	c.CheckClean()
	from.CheckClean()
}

func golden(t *testing.T, dialect relaytest.Dialect) {
	const a = "w1lpUo93Qz5JOVBPs1WNWCNA"
	const set = "w3Wkezp6pV3M-WcHjzeSl6ZA"
	for _, counter := range []string{"1", "another"} {
		w := start(t, setup{sotw: dialect == relaytest.SotW})
		w.origin.SetVersionInfo(cds, counter)
		w.origin.Set(cds, "b", counter, relaytest.Cluster("b", 5*time.Second))
		w.origin.Set(cds, "b", counter+"'", relaytest.Cluster("b", time.Second))
		w.origin.Set(cds, "a", counter, relaytest.Cluster("a", time.Second))
		all := w.each()
		for _, c := range all {
			c.Subscribe(cds, "*")
			c.AwaitNames(cds, "the clusters arrive", "a", "b")
			c.CheckClean()
		}
		if got := all[0].Held(cds)["a"]; got != a {
			t.Errorf("the version of a is %s, want %s for ever", got, a)
		}
		if got := all[1].Responses(cds)[0].Version(); got != set {
			t.Errorf("the version of the set is %s, want %s for ever", got, set)
		}
	}
}

func oneOfMany(t *testing.T) {
	const n = 10_000
	w := start(t, setup{config: quickSettle})
	rs := make([]relaytest.Resource, n)
	for i := range rs {
		rs[i] = clusters(fmt.Sprint(i))[0]
	}
	w.origin.Replace(cds, rs...)
	from := w.client(relaytest.Delta)
	from.Subscribe(cds, "*")
	from.Await(2*weirtest.Patience, func(s *relaytest.State) bool { return s.Count(cds) == n }, "all arrive")
	held := maps.Clone(from.Held(cds))
	from.Cancel()
	w.origin.Set(cds, "77", "2", relaytest.Cluster("77", 2*time.Second))
	c := w.move(from, relaytest.Delta)
	c.SubscribeWith(cds, held, "*")
	c.AwaitNames(cds, "the change arrives alone", "77")
	c.WantIdle(quiet)
	for _, r := range c.Responses(cds) {
		if len(r.Removed()) > 0 {
			t.Errorf("%v removes resources, want none", r)
		}
	}
	c.CheckClean()
}

func digestsOfReplicas(t *testing.T) {
	w := start(t, setup{config: quickSettle})
	w.origin.Replace(cds, clusters("a", "b", "c")...)
	w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	second := weirtest.Start(t, w.config)
	digests := func(p *weirtest.Process, names ...string) map[string]string {
		c := newClient(t, weirtest.Connect(t, p.Addr), relaytest.ClientConfig{Dialect: relaytest.Delta})
		c.Open(relaytest.Node("client-1", "edge"))
		c.Subscribe(cds, "*")
		c.Subscribe(eds, "a")
		c.AwaitNames(cds, "the clusters arrive", names...)
		c.AwaitNames(eds, "so do the endpoints", "a")
		body, err := weirtest.Fetch("http://" + p.Admin + "/groups")
		if err != nil {
			t.Fatal(err)
		}
		var page struct {
			Groups []struct {
				Types []struct {
					Type, Digest string
					Names        string `json:"names_digest"`
				}
			}
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil || len(page.Groups) != 1 {
			t.Fatalf("/groups: %v: %s", err, body)
		}
		all := map[string]string{}
		for _, x := range page.Groups[0].Types {
			all[x.Type] = x.Digest + "/" + x.Names
		}
		return all
	}
	one, other := digests(w.weir, "a", "b", "c"), digests(second, "a", "b", "c")
	if !maps.Equal(one, other) || one["cds"] == "/" || one["eds"] == "/" {
		t.Errorf("the digests are %v and %v, want equal ones", one, other)
	}
	w.origin.Set(cds, "b", "2", relaytest.Cluster("b", 2*time.Second))
	w.origin.Set(cds, "d", "2", relaytest.Cluster("d", time.Second))
	if changed := digests(second, "a", "b", "c", "d"); changed["cds"] == one["cds"] || changed["eds"] != one["eds"] {
		t.Errorf("after a change the digests are %v, and were %v", changed, one)
	}
}
