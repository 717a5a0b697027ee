package conformance

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var acceptCases = []testCase{
	{"RELAY-30", "each structural check refuses, and names the resource", inBoth(structure)},
	{"RELAY-30", "what does not decode, or has no nonce, does no harm", undecodable},
	{"RELAY-30", "wrappers, redirects and heartbeats are acceptable", acceptable},
	{"RELAY-31", "a response is ACKed although its clients are gone, blocked or silent", inBoth(ackedAtOnce)},
	{"RELAY-33", "a response of a type never asked for is not answered", inBoth(unasked)},
	{"RELAY-34", "one client's NACK is its own affair", inBoth(clientNACK)},
	{"RELAY-93", "a nameless member of a delta wildcard reaches clients of both dialects, and is a stray elsewhere", nameless},
	{"RELAY-95", "a type that the origin is silent about leaves only its own clients waiting", inBoth(silentType)},
}

// script is a lane of a scripted origin on which a client asked for endpoints a and b, and was
// answered.
func script(t *testing.T, dialect relaytest.Dialect, config func(weirtest.Config)) (*world, *relaytest.Stream, *relaytest.Client) {
	t.Helper()
	w := start(t, setup{scripted: true, sotw: dialect == relaytest.SotW, config: config})
	c := w.client(relaytest.Delta)
	c.Subscribe(eds, "a", "b")
	s := w.lane(eds, "the names are asked", "a", "b")
	s.ExpectACK(eds, s.Respond(eds, "v0", endpoints("a", 1), endpoints("b", 1)), "a good response is accepted")
	c.AwaitNames(eds, "and arrives", "a", "b")
	return w, s, c
}

// endpoints is an assignment; n makes another content and version.
func endpoints(name string, n int) relaytest.Resource {
	return relaytest.Resource{
		Name: name, Version: strings.Repeat("v", n), Body: relaytest.Endpoints(name, "10.0.0.1:"+strings.Repeat("1", n)),
	}
}

// holds waits until the client has the content that endpoints makes of n.
func holds(c *relaytest.Client, name string, n int, sentence string) {
	body := string(endpoints(name, n).Body.Value)
	c.Await(0, func(s *relaytest.State) bool { return s.Body(eds, name) == body }, sentence)
}

func structure(t *testing.T, dialect relaytest.Dialect) {
	malformed := &discoveryv3.DynamicParameterConstraints{Type: &discoveryv3.DynamicParameterConstraints_Constraint{
		Constraint: &discoveryv3.DynamicParameterConstraints_SingleConstraint{Key: "k"},
	}}
	long, other := strings.Repeat("n", 101), endpoints("a", 2)
	other.Body = relaytest.Endpoints("a", "10.9.9.9:9")
	bad := map[string][]relaytest.Resource{
		"payload has type": {{Name: "a", Version: "2", Body: relaytest.Route("a", "x"), Wrapped: true}},
		"listed twice":     {endpoints("a", 2), other},
		`"k"`:              {{Name: "a", Version: "2", Body: relaytest.Endpoints("a"), Constraints: malformed}},
		"limits.name_bytes": {
			{Name: long, Version: "2", Body: relaytest.Endpoints(long)},
		},
		"neither name nor payload": {{Version: "2", Wrapped: true}},
	}
	_, s, c := script(t, dialect, func(c weirtest.Config) { c.Set("limits.name_bytes", "100B") })
	accepted, n := "v0", 1
	for detail, resources := range bad {
		n = 3 - n // b goes to and fro between two contents, each time a change
		nonce := s.Respond(eds, "bad", append(slices.Clone(resources), endpoints("b", n))...)
		r := s.ExpectNACK(eds, nonce, detail, "the bad resource is refused, with a reason")
		if r.SotW != nil && r.SotW.VersionInfo != accepted {
			t.Errorf("the refusal is at version %q, want that of before, %q", r.SotW.VersionInfo, accepted)
		}
		holds(c, "b", n, "the good one beside it is used")
		accepted = "good " + detail
		s.ExpectACK(eds, s.Respond(eds, accepted, endpoints("b", n)), "a good response is accepted")
	}
	holds(c, "a", 1, "what was bad keeps its content")
	c.CheckClean()
}

func undecodable(t *testing.T) {
	w, s, c := script(t, relaytest.Delta, nil)
	s.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: eds, Resources: []*discoveryv3.Resource{
		{Name: "b", Version: "2", Resource: endpoints("b", 2).Body},
	}})
	holds(c, "b", 2, "without a nonce the resources are used")
	s.WantIdle(quiet)
	// Field 2 of the response is a resource whose length is a lie.
	raw := []byte("\x12\x04\x0a\x09ab\x22\x00\x2a\x01n")
	raw = append(raw, "\x22"+string(rune(len(eds)))+eds...)
	s.SendRaw(raw)
	s.ExpectNACK(eds, "n", "does not decode", "a resource that does not decode is refused")
	s.SendRaw([]byte("no message"))
	s.ExpectEnd("what is no message ends the stream")
	again := w.lane(eds, "which is opened again", "a", "b")
	again.ExpectACK(eds, again.Respond(eds, "3", endpoints("a", 3)), "and goes on")
	holds(c, "a", 3, "the client gets what is new")
	holds(c, "b", 2, "and lost nothing")
	c.CheckClean()
}

func acceptable(t *testing.T) {
	_, s, c := script(t, relaytest.SotW, nil)
	wrapped := endpoints("a", 2)
	wrapped.Wrapped = true
	s.ExpectACK(eds, s.Respond(eds, "2", wrapped), "a wrapper is accepted")
	holds(c, "a", 2, "and what is in it used")
	s.ExpectACK(eds, s.Respond(eds, "2", relaytest.Resource{Name: "a", Version: "vv"}), "so is a heartbeat")
	redirect := relaytest.Resource{Name: "b", Version: "2", Wrapped: true, Body: &anypb.Any{
		TypeUrl: "type.googleapis.com/xds.core.v3.ResourceLocator", Value: []byte("\x12\x01x"),
	}}
	s.ExpectACK(eds, s.Respond(eds, "4", redirect), "so is a redirect")
	c.Await(0, func(st *relaytest.State) bool { return st.Body(eds, "b") == "\x12\x01x" }, "and is handed on as it is")
	holds(c, "a", 2, "the heartbeat changed nothing")
}

func ackedAtOnce(t *testing.T, dialect relaytest.Dialect) {
	w, s, gone := script(t, dialect, nil)
	silent := w.clientWith(relaytest.ClientConfig{Dialect: relaytest.SotW, ManualACK: true})
	// All want the same names, so that none leaves the request with its last client (RELAY-99).
	silent.Subscribe(eds, "a", "b")
	silent.AwaitNames(eds, "who never ACKs is served", "a", "b")
	blocked := w.clientWith(relaytest.ClientConfig{NeverRead: true})
	blocked.Subscribe(eds, "a", "b")
	for i := range 20 { // the windows of a connection are full after one
		nonce := s.Respond(eds, "big", relaytest.Resource{
			Name: "a", Version: strings.Repeat("b", i+1), Body: relaytest.Endpoints("a", slices.Repeat([]string{"10.0.0.1:80"}, 4000+i)...),
		})
		s.ExpectACK(eds, nonce, "a response is accepted whatever its clients do")
	}
	for _, c := range []*relaytest.Client{gone, silent, blocked} {
		c.Cancel()
	}
	s.ExpectACK(eds, s.Respond(eds, "last", endpoints("a", 2)), "and without any client")
	fresh := w.client(relaytest.Delta)
	fresh.Subscribe(eds, "a")
	holds(fresh, "a", 2, "it is in the cache")
	fresh.CheckClean()
}

func unasked(t *testing.T, dialect relaytest.Dialect) {
	w, s, c := script(t, dialect, nil)
	s.Respond(rds, "1", relaytest.Resource{Name: "r", Version: "1", Body: relaytest.Route("r", "x")})
	w.first.AwaitMetric(1, "the resource is counted", "weir_upstream_unrequested_total", `type="rds"`)
	s.WantIdle(quiet)
	s.ExpectACK(eds, s.Respond(eds, "2", endpoints("a", 2)), "the stream goes on")
	holds(c, "a", 2, "and its clients are served")
	late := w.client(relaytest.Delta)
	late.Subscribe(rds, "r")
	w.lane(rds, "who wants the resource has it asked", "r")
	late.WantIdle(quiet)
	c.CheckClean()
}

func clientNACK(t *testing.T, dialect relaytest.Dialect) {
	w := start(t, setup{sotw: dialect == relaytest.SotW})
	w.origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
	good, bad := w.each(), []*relaytest.Client(nil)
	for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
		c := w.clientWith(relaytest.ClientConfig{Dialect: d, Reject: func(*relaytest.Response) string { return "I do not like it" }})
		c.Subscribe(cds, "*")
		bad = append(bad, c)
	}
	w.weir.AwaitMetric(2, "the refusals are counted", "weir_downstream_nacks_total", `type="cds"`)
	for _, c := range append(good, w.client(relaytest.Delta)) {
		c.Subscribe(cds, "*")
		c.AwaitNames(cds, "others get it", "a")
		c.CheckClean()
	}
	if asked := w.origin.Asked(cds); asked.ACKs != 1 || len(asked.NACKs) != 0 {
		t.Errorf("the origin saw %d ACKs and %d NACKs, want one ACK", asked.ACKs, len(asked.NACKs))
	}
	nacks, err := weirtest.Fetch("http://" + w.weir.Admin + "/nacks")
	nonce := bad[0].Responses(cds)[0].Nonce()
	if err != nil || strings.Count(nacks, "I do not like it") != 2 || !strings.Contains(nacks, `"`+nonce+`"`) {
		t.Errorf("/nacks says %s (%v), want both refusals, with nonce %s", nacks, err, nonce)
	}
	clients := ""
	if !weirtest.Until(weirtest.Patience, func() bool {
		clients, err = weirtest.Fetch("http://" + w.weir.Admin + "/clients")
		return err == nil && strings.Count(clients, `"synced": true`) == 3 && strings.Count(clients, `"nacks": 1`) == 2
	}) {
		t.Errorf("/clients says %s (%v), want three clients in sync, and two refusals", clients, err)
	}
	w.origin.Skip()
	w.origin.WantIdle(quiet)
	for _, c := range bad {
		if n := len(c.Responses(cds)); n != 1 {
			t.Errorf("who refused got %d responses, want no other before something changes", n)
		}
		c.CheckClean()
	}
}

func nameless(t *testing.T) {
	w := start(t, setup{scripted: true})
	all := w.each()
	for _, c := range all {
		c.Subscribe(opaque, "*")
	}
	s := w.lane(opaque, "the wildcard is asked", "*")
	table := relaytest.Resource{Version: "1", Body: relaytest.Opaque("", "the name table")}
	named := relaytest.Resource{Name: "a", Version: "1", Body: relaytest.Opaque("a", "1")}
	s.ExpectACK(opaque, s.Respond(opaque, "1", table, named), "a nameless member is accepted")
	for _, c := range all {
		c.AwaitNames(opaque, "it arrives beside the others", "", "a")
		if got := c.Body(opaque, ""); got != string(table.Body.Value) {
			t.Errorf("the nameless resource is %q, want it unchanged", got)
		}
	}
	byName := w.client(relaytest.Delta)
	byName.Subscribe(opaque, "b")
	side := w.lane(opaque, "the name is asked beside it", "b")
	side.ExpectACK(opaque, side.Respond(opaque, "1", relaytest.Resource{
		Version: "2", Body: relaytest.Opaque("", "a stray"),
	}), "a nameless resource is no reason to refuse")
	w.first.AwaitMetric(1, "but is a stray where no wildcard is", "weir_upstream_unrequested_total")
	byName.WantIdle(quiet)
	for _, c := range all {
		c.WantIdle(quiet)
		for _, v := range c.Violations() {
			if !strings.HasSuffix(v, "a resource without a name") { // which is what this is about
				t.Error(v)
			}
		}
	}
	byName.CheckClean()
}

func silentType(t *testing.T, dialect relaytest.Dialect) {
	w := start(t, setup{
		sotw: dialect == relaytest.SotW, behaviour: relaytest.Behaviour{Mute: map[string]bool{eds: true}},
		config: func(c weirtest.Config) {
			c.Set("timing.cold_wait", "2s")
			c.Origin().Set("group_by", []any{"cluster"})
		},
	})
	w.origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
	w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	waiting, served := w.each(), w.each()
	for _, c := range waiting {
		c.Subscribe(eds, "a")
	}
	other := newClient(t, weirtest.Connect(t, w.weir.Addr), relaytest.ClientConfig{})
	other.Open(&corev3.Node{Id: "client-2", Cluster: "another"})
	for _, c := range append(served, other) {
		c.Subscribe(eds, "a")
		c.Subscribe(cds, "*")
		c.AwaitNames(cds, "the type that is answered flows", "a")
	}
	for _, c := range waiting {
		c.WantIdle(2*time.Second + quiet)
	}
	w.origin.Set(cds, "a", "2", relaytest.Cluster("a", 2*time.Second))
	for _, c := range append(served, other) {
		c.Await(0, func(s *relaytest.State) bool {
			return s.Body(cds, "a") == string(relaytest.Cluster("a", 2*time.Second).Value)
		}, "and goes on to flow")
	}
	w.origin.Behave(func(b *relaytest.Behaviour) { b.Mute = nil })
	for _, c := range slices.Concat(waiting, served, []*relaytest.Client{other}) {
		c.AwaitNames(eds, "the endpoints arrive once the origin speaks", "a")
		c.CheckClean()
	}
}
