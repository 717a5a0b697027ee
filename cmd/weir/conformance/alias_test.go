package conformance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/relay/relaytest"
)

const vhds = relaytest.VirtualHostType

var aliasCases = []testCase{
	{"ALIAS-1 ALIAS-2 ALIAS-3 ALIAS-5 DELTA-20 WARM-4", "virtual hosts on demand, message by message", hostsOnDemand},
	{"ALIAS-1 DELTA-20", "a client that has a resource by its name and two aliases gets it once", byThreeNames},
	{"ALIAS-1", "an unsubscribe by name or alias ends what the other subscribed", unsubscribedByOther},
	{"ALIAS-3", "every alias is asked upstream, and stays asked", aliasesUpstream},
	{"ALIAS-4", "a dropped alias is asked anew and answered by what comes", droppedAlias},
	{"ALIAS-5 TTL-3", "a virtual host without payload is no heartbeat, whatever version it has", noHeartbeat},
	{"ALIAS-5", "an alias that does not resolve is told to who comes later, and may be created", unresolvedAlias},
	{"ALIAS-7", "virtual hosts behind a state-of-the-world origin are refused by name", hostsOfSotW},
	{"ALIAS-10 DEL-1 DEL-6", "a virtual host that was removed is answered in the form that ends the waiting, each time", hostRemoved},
	{"ALIAS-10", "a virtual host that the origin states absent, and in whatever form, is so answered", hostAbsent},
	{"ALIAS-10 ABS-13", "a virtual host that the origin is silent about is so answered after on_demand_wait, and may come later", hostSilent},
	{"DEL-1 ALIAS-4", "a host that came by an alias goes although its namespace is never answered", hostGoesUnderNamespace},
	{"ALIAS-8", "a request for a host takes no longer than the wire", hostsInTime},
	{"ALIAS-8 ORD-1", "virtual: a host on demand is not held, and one that is pushed is", func(t *testing.T) {
		virtual(t, "../../../downstream", "TestHostsOnDemandAreNotHeld")
	}},
	{"ALIAS-8", "virtual: a host on demand is asked at once", func(t *testing.T) {
		virtual(t, "../../../upstream", "TestHostsOnDemandAreNotCollected")
	}},
	{"ALIAS-9 SOTW-11", "a state-of-the-world client gets an aliased resource once, by name", aliasedInSotW},
	{"DELTA-11", "a client comes back with the version of a resource it has by alias", aliasedAgain},
}

// host is a virtual host that goes by aliases, as the origin sends it.
func host(name, version string, aliases ...string) relaytest.Resource {
	return relaytest.Resource{Name: name, Version: version, Aliases: aliases, Body: relaytest.VirtualHost(name, "cluster-"+version)}
}

// routeByVHDS is a route configuration whose virtual hosts are discovered.
func routeByVHDS(name, header string) *anypb.Any {
	return relaytest.Body(&routev3.RouteConfiguration{
		Name: name, InternalOnlyHeaders: []string{header},
		Vhds: &routev3.Vhds{ConfigSource: &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}},
	})
}

// tells fails unless the response carries one resource, with these aliases and with or without a
// payload.
//
// Without a body it is the word that the aliases did not resolve, and their names are removed with
// it (ALIAS-10).
func tells(t *testing.T, r *relaytest.Response, sentence, name string, body bool, aliases ...string) {
	t.Helper()
	var removed []string
	if !body {
		removed = aliases
	}
	if len(r.Items) != 1 || !slices.Equal(r.Removed(), removed) {
		t.Fatalf("%s: want %s alone, and %q removed, got %v", sentence, name, removed, r)
	}
	if x := r.Items[0]; x.Name != name || !slices.Equal(x.Aliases, aliases) || (x.Body != nil) != body {
		t.Errorf("%s: want %s with the aliases %q, got %v with %q, payload %v", sentence, name, aliases, r, x.Aliases, x.Body != nil)
	}
}

func hostsOnDemand(t *testing.T) {
	w := start(t, setup{scripted: true})
	c := w.client(relaytest.Delta)
	c.Subscribe(rds, "rc")
	s := w.origin.ExpectStream("the route configuration is asked")
	s.ExpectNames(rds, "by its name", "rc")
	s.ExpectACK(rds, s.Respond(rds, "1", relaytest.Resource{Name: "rc", Version: "1", Body: routeByVHDS("rc", "x-1")}), "accepted")
	c.AwaitNames(rds, "its hosts are discovered", "rc")

	c.Subscribe(vhds, "rc/a.example")
	s.ExpectNames(vhds, "a request for a.example waits", "rc/a.example")
	aliases := []string{"rc/a.example", "rc/b.example", "rc/*.c.example"}
	s.ExpectACK(vhds, s.Respond(vhds, "1", host("rc/shared", "1", aliases...)), "the host that serves it has a name of its own")
	tells(t, c.Expect(vhds, "it reaches the client"), "with its aliases", "rc/shared", true, aliases...)

	d := w.client(relaytest.Delta)
	d.Subscribe(vhds, "rc/b.example")
	tells(t, d.Expect(vhds, "another client asks for another of its aliases"), "served from the cache", "rc/shared", true, aliases...)
	s.ExpectNames(vhds, "and asked all the same", "rc/b.example")
	s.ExpectACK(vhds, s.Respond(vhds, "1", host("rc/shared", "1", aliases...)), "the origin confirms it")

	c.Subscribe(vhds, "rc/none.example")
	s.ExpectNames(vhds, "a request for a host that there is none for", "rc/none.example")
	s.ExpectACK(vhds, s.Respond(vhds, "2", relaytest.Resource{Name: "rc/cannot-resolve", Version: "2", Aliases: []string{"rc/none.example"}}), "accepted")
	tells(t, c.Expect(vhds, "the client learns"), "in the origin's form", "rc/cannot-resolve", false, "rc/none.example")
	c.Subscribe(vhds, "rc/none.example")
	again := c.Expect(vhds, "the next request for it").Items[0].Version
	if v := c.Responses(vhds)[1].Items[0].Version; v == again {
		t.Errorf("what does not resolve has version %q twice, and Envoy 1.37 takes that for a heartbeat", v)
	}
	for _, x := range []*relaytest.Client{c, d} {
		x.WantIdle(quiet)
	}

	s.Respond(vhds, "3", host("rc/shared", "3", aliases...))
	for _, x := range []*relaytest.Client{c, d} {
		tells(t, x.Expect(vhds, "an update of the host"), "reaches all who came by an alias", "rc/shared", true, aliases...)
	}

	d.Subscribe(rds, "rc")
	d.Expect(rds, "the other client has routes now, too")
	tells(t, d.Expect(vhds, "a client that is sent a route configuration has cleared its hosts"), "and is owed them", "rc/shared", true, aliases...)
	s.Respond(rds, "2", relaytest.Resource{Name: "rc", Version: "2", Body: routeByVHDS("rc", "x-2")})
	for _, x := range []*relaytest.Client{c, d} {
		routes, hosts := x.Expect(rds, "the route configuration changes"), x.Expect(vhds, "its hosts are owed again")
		before(t, "hosts follow their routes", routes, hosts)
		if !slices.Contains(hosts.Names(), "rc/shared") {
			t.Errorf("want the host again, unchanged, got %v", hosts)
		}
	}

	s.RespondRemoved(vhds, "4", "rc/shared")
	for _, x := range []*relaytest.Client{c, d} {
		hasExactly(t, x.Expect(vhds, "the host goes"), "by its name", nil, []string{"rc/shared"})
		x.WantIdle(quiet)
		x.CheckClean()
	}
}

func byThreeNames(t *testing.T) {
	w := start(t, setup{scripted: true})
	c := w.client(relaytest.Delta)
	c.Subscribe(vhds, "rc/shared", "rc/a", "rc/b")
	s := w.origin.ExpectStream("all are asked")
	s.ExpectNames(vhds, "each of them", "rc/shared", "rc/a", "rc/b")
	for _, version := range []string{"1", "2"} {
		s.Respond(vhds, version, host("rc/shared", version, "rc/a", "rc/b"))
		tells(t, c.Expect(vhds, "the resource arrives"), "once", "rc/shared", true, "rc/a", "rc/b")
		c.WantIdle(quiet)
	}
	c.Subscribe(vhds, "rc/b")
	tells(t, c.Expect(vhds, "a subscribe is answered"), "whatever the client holds", "rc/shared", true, "rc/a", "rc/b")
	s.RespondRemoved(vhds, "3", "rc/shared")
	hasExactly(t, c.Expect(vhds, "it goes"), "once", nil, []string{"rc/shared"})
	c.WantIdle(quiet)
	c.CheckClean()
}

func unsubscribedByOther(t *testing.T) {
	w := start(t, setup{scripted: true})
	byAlias, byName, witness := w.client(relaytest.Delta), w.client(relaytest.Delta), w.client(relaytest.Delta)
	witness.Subscribe(vhds, "rc/a")
	s := w.origin.ExpectStream("the alias is asked")
	s.ExpectNames(vhds, "as it is", "rc/a")
	s.Respond(vhds, "1", host("rc/shared", "1", "rc/a"))
	witness.AwaitNames(vhds, "it resolves", "rc/shared")
	byAlias.Subscribe(vhds, "rc/a")
	byName.Subscribe(vhds, "rc/shared")
	byAlias.Expect(vhds, "one came by the alias")
	byName.Expect(vhds, "one by the name")
	byAlias.Unsubscribe(vhds, "rc/shared")
	byName.Unsubscribe(vhds, "rc/a")
	barriers := map[*relaytest.Client]string{byAlias: "rc/shared/barrier1", byName: "rc/shared/barrier2"}
	for x, name := range barriers {
		x.Subscribe(vhds, name)
		w.origin.Await(0, func() bool { return w.origin.Asked(vhds).Subscribed[name] > 0 }, "its requests are read")
	}
	s.Respond(vhds, "2", host("rc/shared", "2", "rc/a"), host("rc/shared/barrier1", "2"), host("rc/shared/barrier2", "2"))
	tells(t, witness.Expect(vhds, "an update reaches who is subscribed"), "still", "rc/shared", true, "rc/a")
	for x, name := range barriers {
		hasExactly(t, x.Expect(vhds, "and who is not gets"), "the barrier alone", []string{name}, nil)
		x.WantIdle(quiet)
		x.CheckClean()
	}
}

func aliasesUpstream(t *testing.T) {
	w := start(t, setup{scripted: true})
	c := w.client(relaytest.Delta)
	c.Subscribe(vhds, "rc/a")
	s := w.origin.ExpectStream("the first alias is asked")
	s.ExpectNames(vhds, "as it is", "rc/a")
	c.Subscribe(vhds, "rc/b")
	s.ExpectNames(vhds, "so is the second, as nothing is known of it", "rc/b")
	s.ExpectACK(vhds, s.Respond(vhds, "1", host("rc/shared", "1", "rc/a", "rc/b", "rc/c")), "both resolve")
	c.Expect(vhds, "they are one")
	d := w.client(relaytest.Delta)
	d.Subscribe(vhds, "rc/c")
	d.Expect(vhds, "a third is served from the cache")
	s.ExpectNames(vhds, "and asked", "rc/c")
	s.WantIdle(quiet) // none of them is taken back
	s.End(nil)
	again := w.origin.ExpectStream("weir comes back")
	r := again.ExpectNames(vhds, "with every alias", "rc/a", "rc/b", "rc/c")
	if v := r.Delta.InitialResourceVersions; len(v) != 1 || v["rc/shared"] == "" {
		t.Errorf("want the version of the resource by its name, got %v", v)
	}
	c.WantIdle(quiet)
	c.CheckClean()
	d.CheckClean()
}

func droppedAlias(t *testing.T) {
	w := start(t, setup{scripted: true})
	a, b := w.client(relaytest.Delta), w.client(relaytest.Delta)
	a.Subscribe(vhds, "rc/a")
	s := w.origin.ExpectStream("an alias")
	s.ExpectNames(vhds, "as it is", "rc/a")
	b.Subscribe(vhds, "rc/b")
	s.ExpectNames(vhds, "another", "rc/b")
	s.ExpectACK(vhds, s.Respond(vhds, "1", host("rc/one", "1", "rc/a", "rc/b")), "both are one host")
	a.Expect(vhds, "it reaches the one")
	b.Expect(vhds, "and the other")

	s.Respond(vhds, "2", host("rc/one", "2", "rc/b"))
	tells(t, b.Expect(vhds, "the update"), "reaches who came by what is left", "rc/one", true, "rc/b")
	w.origin.Await(0, func() bool { return w.origin.Asked(vhds).Subscribed["rc/a"] == 2 }, "the alias that was dropped is asked anew")
	late := w.client(relaytest.Delta)
	late.Subscribe(vhds, "rc/a")
	late.WantIdle(quiet) // it is unresolved
	s.Respond(vhds, "3", host("rc/two", "1", "rc/a"))
	tells(t, late.Expect(vhds, "the answer"), "reaches who waits", "rc/two", true, "rc/a")
	a.Await(0, func(x *relaytest.State) bool { return slices.Equal(held(x, vhds), []string{"rc/two"}) }, "and takes the place of what a held")
	b.WantIdle(quiet)
	for _, x := range []*relaytest.Client{a, b, late} {
		x.CheckClean()
	}
}

func held(s *relaytest.State, typeURL string) (names []string) {
	for name := range s.Held(typeURL) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func noHeartbeat(t *testing.T) {
	w := start(t, setup{scripted: true})
	c := w.client(relaytest.Delta)
	c.Subscribe(vhds, "rc/a", "rc/b")
	s := w.origin.ExpectStream("two aliases")
	s.ExpectNames(vhds, "as they are", "rc/a", "rc/b")
	s.ExpectACK(vhds, s.Respond(vhds, "1", host("rc/one", "1", "rc/a"), host("rc/two", "1", "rc/b")), "both resolve")
	c.AwaitNames(vhds, "to two hosts", "rc/one", "rc/two")
	s.ExpectACK(vhds, s.Respond(vhds, "2", relaytest.Resource{Name: "rc/one", Version: "1", Aliases: []string{"rc/a"}}), "the version of what is held")
	hasExactly(t, c.Expect(vhds, "would be a heartbeat of any other type"), "and is the end here", nil, []string{"rc/one"})
	s.ExpectACK(vhds, s.Respond(vhds, "3", relaytest.Resource{Name: "rc/none", Version: "1", Aliases: []string{"rc/b"}}), "of another name")
	r := c.Expect(vhds, "the alias does not resolve any more")
	hasExactly(t, r, "which is told in the origin's form, with the removal of what it stood for", []string{"rc/none"}, []string{"rc/two"})
	c.WantIdle(quiet)
	s.WantIdle(quiet) // nothing is asked anew for want of a body
	c.CheckClean()
}

func unresolvedAlias(t *testing.T) {
	w := start(t, setup{scripted: true})
	c := w.client(relaytest.Delta)
	c.Subscribe(vhds, "rc/a")
	s := w.origin.ExpectStream("an alias")
	s.ExpectNames(vhds, "as it is", "rc/a")
	s.ExpectACK(vhds, s.Respond(vhds, "1", relaytest.Resource{Name: "rc/none", Aliases: []string{"rc/a"}}), "it does not resolve")
	d := w.client(relaytest.Delta)
	tells(t, c.Expect(vhds, "who waits learns"), "in the origin's form", "rc/none", false, "rc/a")
	d.Subscribe(vhds, "rc/a")
	tells(t, d.Expect(vhds, "who comes later, from the cache"), "the same", "rc/none", false, "rc/a")
	s.WantIdle(quiet)
	d.Subscribe(vhds, "rc/b")
	s.ExpectNames(vhds, "another alias", "rc/b")
	s.Respond(vhds, "2", relaytest.Resource{Name: "rc/none", Aliases: []string{"rc/b"}})
	tells(t, d.Expect(vhds, "does not resolve"), "by the same name", "rc/none", false, "rc/b")
	e := w.client(relaytest.Delta)
	e.Subscribe(vhds, "rc/a", "rc/b")
	r := e.Expect(vhds, "both at once")
	if len(r.Items) != 1 || !slices.Equal(slices.Sorted(slices.Values(r.Items[0].Aliases)), []string{"rc/a", "rc/b"}) {
		t.Errorf("want one resource of that name, with both aliases (DELTA-20), got %v", r)
	}
	s.Respond(vhds, "3", host("rc/host", "1", "rc/a"))
	for _, x := range []*relaytest.Client{c, d, e} {
		tells(t, x.Expect(vhds, "the host is created"), "and reaches all", "rc/host", true, "rc/a")
		x.WantIdle(quiet)
		x.CheckClean()
	}
}

func hostsInTime(t *testing.T) {
	// The machine may be loaded: it fails at five times what is meant. What weir itself waits for,
	// it waits for in every round; what others take of the machine they do not.
	const rounds, requests, most, slack = 20, 20, 5 * time.Millisecond, 5
	w := start(t, setup{scripted: true})
	c := w.client(relaytest.Delta)
	var s *relaytest.Stream
	n := 0
	ask := func() time.Duration {
		n++
		alias, name := fmt.Sprintf("rc/%d.example", n), fmt.Sprintf("rc/host-%d", n)
		asked := time.Now()
		c.Subscribe(vhds, alias)
		if s == nil {
			s = w.origin.ExpectStream("the first host opens a stream")
		}
		w.origin.Await(0, func() bool { return w.origin.Asked(vhds).Subscribed[alias] > 0 }, "it is asked")
		s.Respond(vhds, "1", host(name, "1", alias))
		c.Expect(vhds, "the host arrives")
		return time.Since(asked)
	}
	bound := slack * most * time.Duration(hops(t))
	var halves []time.Duration
	for range rounds {
		var took []time.Duration
		for range requests {
			took = append(took, ask())
		}
		slices.Sort(took)
		if halves = append(halves, took[requests/2]); took[requests/2] <= bound {
			t.Logf("half of %d requests for a host took at most %v through weir and back, in round %d; it should be %v", requests, took[requests/2], len(halves), most)
			c.CheckClean()
			return
		}
	}
	t.Errorf("in none of %d rounds half of %d requests for a host took at most %v through weir and back, want %v: %v", rounds, requests, bound, most, halves)
}

func aliasedInSotW(t *testing.T) {
	w := start(t, setup{scripted: true})
	both, alias, set := w.client(relaytest.SotW), w.client(relaytest.SotW), w.client(relaytest.SotW)
	both.Request(eds, "e1", "alias")
	s := w.origin.ExpectStream("name and alias")
	s.ExpectNames(eds, "are asked", "e1", "alias")
	s.Respond(eds, "1", relaytest.Resource{Name: "e1", Version: "1", Aliases: []string{"alias", "more"}, Body: endpointsAt("e1", "1")})
	hasExactly(t, both.Expect(eds, "one who asks by both"), "gets it once", []string{"e1"}, nil)
	alias.Request(eds, "alias")
	r := alias.Expect(eds, "one who asks by the alias")
	hasExactly(t, r, "gets it by its name", []string{"e1"}, nil)
	if r.Items[0].Wrapped || len(r.Items[0].Aliases) > 0 {
		t.Errorf("there are no aliases in state of the world, got %v", r.Items[0])
	}
	set.Request(cds, "c1", "c-alias")
	s.ExpectNames(cds, "a list that is sent whole", "c1", "c-alias")
	s.Respond(cds, "1", relaytest.Resource{Name: "c1", Version: "1", Aliases: []string{"c-alias"}, Body: relaytest.Cluster("c1", time.Second)})
	hasExactly(t, set.Expect(cds, "has it"), "once", []string{"c1"}, nil)
	for _, x := range []*relaytest.Client{both, alias, set} {
		x.WantIdle(quiet)
		x.CheckClean()
	}
}

func aliasedAgain(t *testing.T) {
	w := start(t, setup{scripted: true})
	c := w.client(relaytest.Delta)
	c.Subscribe(vhds, "rc/a")
	s := w.origin.ExpectStream("an alias")
	s.ExpectNames(vhds, "as it is", "rc/a")
	s.Respond(vhds, "1", host("rc/one", "1", "rc/a", "rc/b"))
	c.AwaitNames(vhds, "it resolves", "rc/one")
	holding := c.Held(vhds)
	c.Open(relaytest.Node("client-1", "edge"))
	c.SubscribeWith(vhds, holding, "rc/a")
	c.WantIdle(quiet) // the version is the current one
	s.Respond(vhds, "2", host("rc/one", "2", "rc/a", "rc/b"))
	c.Expect(vhds, "an update reaches it")
	c.Open(relaytest.Node("client-1", "edge"))
	c.SubscribeWith(vhds, holding, "rc/a")
	tells(t, c.Expect(vhds, "an old version"), "is answered", "rc/one", true, "rc/a", "rc/b")
	s.Respond(vhds, "3", host("rc/two", "1", "rc/a"), host("rc/one", "3", "rc/b"))
	c.Await(0, func(x *relaytest.State) bool { return slices.Equal(held(x, vhds), []string{"rc/two"}) }, "the alias moves to another host")
	c.Open(relaytest.Node("client-1", "edge"))
	c.SubscribeWith(vhds, holding, "rc/a")
	hasExactly(t, c.Expect(vhds, "who was away then"), "loses what the alias stood for", []string{"rc/two"}, []string{"rc/one"})
	c.WantIdle(quiet)
	c.CheckClean()
}
