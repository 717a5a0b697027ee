package conformance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// restOriginCases are about an origin that is polled (`origins[].rest`). With WEIR_HOPS the first
// weir of the row polls it.
var restOriginCases = slices.Concat([]testCase{
	{
		"REST-1 REST-8", "a polled origin is asked by POST, spelt as Envoy does, on the path of each type that has one, " +
			"and understood in either spelling", polledForm,
	},
	{"REST-3", "a polled origin is presented the version that was accepted last, and its 304 changes nothing", polledVersion},
	{"REST-4", "each poll has the node and all names, or none where all is wanted; who asks for more need not wait", polledNames},
	{"REST-3 ABS-5", "virtual: a name that is wanted while a poll is on its way is not in the version of its answer", func(t *testing.T) {
		virtual(t, "../../../upstream/rest", "TestNamesDuringTheFirstPoll")
	}},
	{"RELAY-42", "a polled origin that was away is presented no version, so one that counts anew is heard", polledAnew},
	{"RELAY-5", "ten clients cost a polled origin the polls of one", polledForMany},
	{"RELAY-17", "neither nonces nor responses of a polled origin are passed through", polledNotPassed},
	{"DEL-2 RELAY-11 RELAY-13", "a polled set less one member is one removal, and what stays is not sent again", polledLessOne},
	{"DEL-3 RELAY-12", "what the answer to a poll of names leaves out stays, cached and served", polledGrouped},
	{"RELAY-87 RELAY-88", "virtual: a relay that is polled refuses a way, which is left, or a loop, which is counted and said", func(t *testing.T) {
		virtual(t, "../../../upstream/rest", "TestRefusedWay")
		virtual(t, "../../../upstream/rest", "TestLoop")
	}},
}, restRefusalCases, restOutageCases)

func polledForm(t *testing.T) {
	o := newRESTOrigin(t)
	route, listener := relaytest.Route("r", "a"), relaytest.Listener("l", 1000)
	o.give(cds, "1", relaytest.Cluster("a", time.Second))
	o.give(eds, "1", endpointsAt("a", "1"))
	o.give(rds, "1", route)
	o.give(lds, "1", listener)
	w := o.start(nil)
	ask := func(c *relaytest.Client) {
		c.Subscribe(cds, "*")
		c.Subscribe(eds, "a")
		c.Subscribe(rds, "r")
		c.Subscribe(lds, "*")
		// which cannot be polled for: any poll of it is an error of the server's
		c.Subscribe(opaque, "x")
	}
	all := each(w, ask)
	for _, c := range all {
		c.AwaitNames(cds, "clusters arrive", "a")
		c.AwaitNames(eds, "endpoints arrive", "a")
		c.AwaitNames(rds, "routes arrive", "r")
		c.AwaitNames(lds, "listeners arrive", "l")
		if c.Body(rds, "r") != string(route.Value) || c.Body(lds, "l") != string(listener.Value) {
			t.Error("a body is not what the JSON says")
		}
	}
	b := endpointsAt("a", "2")
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(&discovery.DiscoveryResponse{
		VersionInfo: "2", Nonce: "n", TypeUrl: eds, Resources: []*anypb.Any{b},
	})
	if err != nil {
		t.Fatal(err)
	}
	o.say(eds, "2", string(text))
	for _, c := range all {
		c.Await(0, func(s *relaytest.State) bool { return s.Body(eds, "a") == string(b.Value) }, "proto names are read as well")
		c.CheckClean()
	}
	o.await(eds, "and their version is presented", presents("2"))
}

func polledVersion(t *testing.T) {
	o := newRESTOrigin(t)
	o.give(cds, "one", relaytest.Cluster("a", time.Second))
	w := o.start(nil)
	all := each(w, func(c *relaytest.Client) { c.Subscribe(cds, "*") })
	for _, c := range all {
		c.AwaitNames(cds, "the set arrives", "a")
	}
	if p := o.await(cds, "the first poll", anyPoll); p.GetVersionInfo() != "" || p.GetResponseNonce() != "" {
		t.Errorf("the first poll presents what nobody gave: %v", p.DiscoveryRequest)
	}
	p := o.await(cds, "the accepted version is presented", presents("one"))
	if p.GetResponseNonce() != nonceOf("one") {
		t.Errorf("the nonce is %q", p.GetResponseNonce())
	}
	o.awaitUnchanged(cds, "304 is no reason to ask otherwise", 3)
	for _, c := range all {
		c.WantIdle(quiet)
	}
	o.give(cds, "two", relaytest.Cluster("a", time.Second), relaytest.Cluster("b", time.Second))
	for _, c := range all {
		c.AwaitNames(cds, "the next set arrives", "a", "b")
		c.CheckClean()
	}
	o.await(cds, "the next version is presented", presents("two"))
}

func polledNames(t *testing.T) {
	o := newRESTOrigin(t)
	o.give(cds, "1", relaytest.Cluster("a", time.Second))
	o.give(eds, "1", endpointsAt("a", "1"), endpointsAt("b", "1"), endpointsAt("c", "1"))
	w := o.start(nil)
	one, two := w.client(relaytest.Delta), w.client(relaytest.SotW)
	one.Subscribe(cds, "*")
	one.Subscribe(eds, "a")
	o.await(cds, "all clusters are asked for by no name", polledFor())
	o.await(eds, "endpoints are asked for by name", polledFor("a"))
	o.await(eds, "the version is presented", presents("1"))
	two.Subscribe(eds, "b", "a")
	p := o.await(eds, "another client's name is asked for with the others", polledFor("a", "b"))
	if p.GetVersionInfo() != "" {
		t.Errorf("a poll for more presents version %q, to which a 304 would hide what is new", p.GetVersionInfo())
	}
	one.AwaitNames(eds, "each gets its own", "a")
	two.AwaitNames(eds, "each gets its own", "a", "b")
	one.Unsubscribe(eds, "a")
	one.Subscribe(eds, "c")
	one.AwaitNames(eds, "the next name arrives", "c")
	o.await(eds, "what another client wants is still asked for", polledFor("a", "b", "c"))
	for _, c := range []*relaytest.Client{one, two} {
		c.CheckClean()
	}
}

func polledAnew(t *testing.T) {
	o := newRESTOrigin(t)
	o.give(cds, "1", relaytest.Cluster("a", time.Second), relaytest.Cluster("b", time.Second))
	w := o.start(nil)
	all := each(w, func(c *relaytest.Client) { c.Subscribe(cds, "*") })
	for _, c := range all {
		c.AwaitNames(cds, "the set arrives", "a", "b")
	}
	o.await(cds, "its version is presented", presents("1"))
	o.end()
	w.first.AwaitMetric(0, "the origin counts as gone", "weir_upstream_connected")
	o.give(cds, "1", relaytest.Cluster("a", 2*time.Second), relaytest.Cluster("c", time.Second))
	o.answer(nil)
	o.begin()
	if p := o.await(cds, "it is polled again", anyPoll); p.GetVersionInfo() != "" {
		t.Errorf("version %q is presented to a server that may count anew", p.GetVersionInfo())
	}
	for _, c := range all {
		c.AwaitNames(cds, "other contents under the same version", "a", "c")
		c.CheckClean()
	}
}

func polledForMany(t *testing.T) {
	o := newRESTOrigin(t)
	o.give(cds, "1", relaytest.Cluster("a", time.Second))
	w := o.start(func(c weirtest.Config) {
		if c.Origin()["rest"] != nil {
			c.Origin().Set("rest.poll", "1h")
		}
	})
	for range 5 {
		for _, c := range each(w, func(c *relaytest.Client) { c.Subscribe(cds, "*") }) {
			c.AwaitNames(cds, "everybody has it", "a")
			c.CheckClean()
		}
	}
	if n, _ := o.count(cds); n != 1 {
		t.Errorf("%d polls", n)
	}
}

func polledNotPassed(t *testing.T) {
	o := newRESTOrigin(t)
	give := func(version string) {
		o.give(eds, version, endpointsAt("a", version), endpointsAt("b", version))
	}
	give("1")
	w := o.start(nil)
	clients := map[*relaytest.Client]string{}
	for _, name := range []string{"a", "b"} {
		for _, c := range each(w, func(c *relaytest.Client) { c.Subscribe(eds, name) }) {
			clients[c] = name
		}
	}
	for c, name := range clients {
		c.AwaitNames(eds, "each has its own", name)
	}
	o.await(eds, "both are asked for together", polledFor("a", "b"))
	give("2")
	o.await(eds, "the second answer was taken", presents("2"))
	for c, name := range clients {
		body := string(endpointsAt(name, "2").Value)
		c.Await(0, func(s *relaytest.State) bool { return s.Body(eds, name) == body }, "the change arrives")
		for _, r := range c.Responses(eds) {
			if !slices.Equal(r.Names(), []string{name}) {
				t.Errorf("want %s alone, got %v", name, r)
			}
			if r.Nonce() == nonceOf("1") || r.Nonce() == nonceOf("2") {
				t.Errorf("a nonce of the origin crosses: %v", r)
			}
		}
		c.CheckClean()
	}
}

func polledLessOne(t *testing.T) {
	o := newRESTOrigin(t)
	for typeURL, of := range map[string]func(name string, n int) *anypb.Any{
		cds: func(name string, n int) *anypb.Any { return relaytest.Cluster(name, time.Duration(n)*time.Second) },
		rds: func(name string, n int) *anypb.Any { return relaytest.Route(name, fmt.Sprint("cluster-", n)) },
	} {
		o.give(typeURL, "1", of("a", 1), of("b", 1), of("c", 1))
		w := o.start(nil)
		set, delta := w.client(relaytest.SotW), w.client(relaytest.Delta)
		for _, c := range []*relaytest.Client{set, delta} {
			c.Subscribe(typeURL, "*")
			c.AwaitNames(typeURL, "the set arrives", "a", "b", "c")
			c.Skip()
		}
		o.give(typeURL, "2", of("a", 1), of("c", 1))
		hasExactly(t, delta.Expect(typeURL, "the set is smaller"), "the removal alone", nil, []string{"b"})
		if typeURL == cds {
			hasExactly(t, set.Expect(typeURL, "the set is smaller"), "it is the whole set", []string{"a", "c"}, nil)
		}
		o.give(typeURL, "3", of("a", 1), of("c", 2))
		hasExactly(t, delta.Expect(typeURL, "a member changes"), "it alone", []string{"c"}, nil)
		set.Await(0, func(s *relaytest.State) bool { return s.Body(typeURL, "c") == string(of("c", 2).Value) }, "a member changes")
		o.give(typeURL, "4", of("c", 2), of("a", 1)) // another version and order, the same bytes
		o.await(typeURL, "the version is accepted", presents("4"))
		for _, c := range []*relaytest.Client{set, delta} {
			c.WantIdle(quiet)
			c.CheckClean()
		}
	}
}

func polledGrouped(t *testing.T) {
	o := newRESTOrigin(t)
	o.give(eds, "1", endpointsAt("a", "1"), endpointsAt("b", "1"))
	w := o.start(nil)
	all := each(w, func(c *relaytest.Client) { c.Subscribe(eds, "a", "b") })
	for _, c := range all {
		c.AwaitNames(eds, "both arrive", "a", "b")
		c.Skip()
	}
	o.give(eds, "2", endpointsAt("a", "2"))
	for _, c := range all {
		hasExactly(t, c.Expect(eds, "the change arrives"), "and nothing of b", []string{"a"}, nil)
	}
	o.give(eds, "3")
	o.await(eds, "an empty answer is accepted", presents("3"))
	for _, c := range all {
		c.WantIdle(quiet)
	}
	for _, late := range each(w, func(c *relaytest.Client) { c.Subscribe(eds, "b") }) {
		hasExactly(t, late.Expect(eds, "b is served from the cache"), "as it was", []string{"b"}, nil)
		late.CheckClean()
	}
	gone := &discovery.DiscoveryResponse{VersionInfo: "4", TypeUrl: eds, ResourceErrors: []*discovery.ResourceError{{
		ResourceName: &discovery.ResourceName{Name: "b"},
		ErrorDetail:  &spb.Status{Code: int32(codes.NotFound), Message: "gone"},
	}}}
	o.say(eds, "4", inJSON(t, gone))
	all[0].AwaitNames(eds, "what is said not to be found is removed", "a")
	for _, c := range all {
		c.CheckClean()
	}
}
