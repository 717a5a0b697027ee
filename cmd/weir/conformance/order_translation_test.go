package conformance

import (
	"slices"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var translationCases = slices.Concat(
	[]testCase{
		{"RELAY-11", "a SotW set less one member is one removal in delta", lessOne},
		{"RELAY-11", "of a type in absence_keeps a set less one member is no removal", keptThoughAbsent},
		{"RELAY-12", "absence from a SotW response of a grouped type removes nothing", groupedAbsence},
		{"RELAY-12", "stale children go with their last subscriber", staleChildren},
		{"RELAY-13", "a bare SotW resource keeps its version while its content stays", versionByContent},
		{"RELAY-15", "one change of a delta set is a whole set in SotW and one resource in delta", wholeAndPart},
		{"RELAY-15", "a SotW set is assembled only when it is settled", assembledWhenSettled},
		{"RELAY-16", "a removal of endpoints is no resource in SotW, and creating them again is", removedAndCreated},
		{"RELAY-18", "a nameless listener reaches a SotW wildcard and nobody else", namelessListener},
		{"RELAY-19", "clients of all kinds share one upstream subscription", sharedSubscription},
	},
	eachDialect("RELAY-14", "bare resources of all listed types are known by their first field, whose last occurrence counts", bareNames),
	eachDialect("RELAY-17", "neither nonces nor responses of the origin are passed through", nothingPassesThrough),
)

// resource is what a script sends.
func resource(typeURL, name, version, content string) relaytest.Resource {
	return relaytest.Resource{Name: name, Version: version, Body: bytesOf(typeURL, name, content)}
}

func lessOne(t *testing.T) {
	for _, typeURL := range []string{cds, lds, eds, opaque} {
		w := start(t, setup{sotw: true})
		a, b, c3 := resource(typeURL, "a", "1", "1"), resource(typeURL, "b", "1", "1"), resource(typeURL, "c", "1", "1")
		w.origin.Replace(typeURL, a, b, c3)
		c := w.client(relaytest.Delta)
		c.Subscribe(typeURL, "*")
		c.AwaitNames(typeURL, "the set arrives", "a", "b", "c")
		c.Skip()
		w.origin.Replace(typeURL, a, c3)
		r := c.Expect(typeURL, "the set is smaller")
		if !slices.Equal(r.Removed(), []string{"b"}) || len(r.Items) > 0 {
			t.Errorf("want the removal of b and nothing else, got %v", r)
		}
		w.origin.Replace(typeURL, resource(typeURL, "a", "2", "2"), c3)
		r = c.Expect(typeURL, "a member changes")
		if !slices.Equal(r.Names(), []string{"a"}) || len(r.Removed()) > 0 {
			t.Errorf("want a and nothing else, got %v", r)
		}
		w.origin.Replace(typeURL, resource(typeURL, "a", "3", "2"), c3)
		c.WantIdle(quiet) // another version, the same bytes
		c.CheckClean()
	}
}

func keptThoughAbsent(t *testing.T) {
	w := start(t, setup{sotw: true, config: func(c weirtest.Config) { c.Origin().Set("absence_keeps", []string{"eds", opaque}) }})
	for _, typeURL := range []string{eds, opaque} {
		a, b := resource(typeURL, "a", "1", "1"), resource(typeURL, "b", "1", "1")
		w.origin.Replace(typeURL, a, b)
		c := w.client(relaytest.Delta)
		c.Subscribe(typeURL, "*")
		c.AwaitNames(typeURL, "the set arrives", "a", "b")
		c.Skip()
		w.origin.Replace(typeURL, resource(typeURL, "a", "2", "2"))
		r := c.Expect(typeURL, "what the answer has")
		if !slices.Equal(r.Names(), []string{"a"}) || len(r.Removed()) > 0 {
			t.Errorf("want a and no removal, got %v", r)
		}
		c.CheckClean()
	}
}

func groupedAbsence(t *testing.T) {
	w := start(t, setup{scripted: true, sotw: true})
	c := w.client(relaytest.Delta)
	c.Subscribe(eds, "a", "b")
	s := w.origin.ExpectStream("weir asks")
	w.origin.Await(0, func() bool { return len(s.Asked(eds).Subscribed) == 2 }, "for both names")
	s.Respond(eds, "1", resource(eds, "a", "", "1"), resource(eds, "b", "", "1"))
	c.AwaitNames(eds, "both arrive", "a", "b")
	c.Skip()
	s.Respond(eds, "2", resource(eds, "a", "", "2"))
	r := c.Expect(eds, "the one that changed")
	if !slices.Equal(r.Names(), []string{"a"}) || len(r.Removed()) > 0 {
		t.Errorf("want a and no removal, got %v", r)
	}
	s.Respond(eds, "3")
	c.WantIdle(quiet) // an empty response says nothing
	s.Send(&discovery.DiscoveryResponse{
		TypeUrl: eds, VersionInfo: "4", Nonce: "not-found", ResourceErrors: []*discovery.ResourceError{{
			ResourceName: &discovery.ResourceName{Name: "b"},
			ErrorDetail:  &spb.Status{Code: int32(codes.NotFound), Message: "gone"},
		}},
	})
	c.AwaitNames(eds, "NOT_FOUND is a removal", "a")
	c.CheckClean()
}

func staleChildren(t *testing.T) {
	w := start(t, setup{sotw: true, config: func(c weirtest.Config) { c.Set("cache.linger", "100ms") }})
	w.origin.Set(eds, "a", "1", bytesOf(eds, "a", "1"))
	w.origin.Set(eds, "b", "1", bytesOf(eds, "b", "1"))
	c := w.client(relaytest.Delta)
	c.Subscribe(eds, "a", "b")
	c.AwaitNames(eds, "both arrive", "a", "b")
	w.origin.Remove(eds, "b") // which SotW cannot say
	c.Skip()
	c.WantIdle(quiet)
	c.Unsubscribe(eds, "b")
	w.origin.Await(0, func() bool { return w.origin.Asked(eds).Unsubscribed["b"] == 1 }, "nobody wants b any more")
	c.WantIdle(quiet) // and linger is over, for which b would be given as it was (RELAY-99)
	c.Subscribe(eds, "b")
	w.origin.Await(0, func() bool { return w.origin.Asked(eds).Subscribed["b"] == 2 }, "b is asked again")
	c.WantIdle(quiet) // what was known of b is not
	c.AwaitNames(eds, "the client holds what exists", "a")
	c.CheckClean()
}

func versionByContent(t *testing.T) {
	w := start(t, setup{scripted: true, sotw: true})
	first := w.client(relaytest.Delta)
	first.Subscribe(cds, "*")
	s := w.origin.ExpectStream("weir asks")
	s.ExpectType(cds, "for clusters")
	nonce := s.Respond(cds, "one", resource(cds, "a", "", "1"), resource(cds, "b", "", "1"))
	if ack := s.ExpectACK(cds, nonce, "it is accepted"); ack.SotW.VersionInfo != "one" {
		t.Errorf("the ACK states version %q, want the origin's own", ack.SotW.VersionInfo)
	}
	first.AwaitNames(cds, "both arrive", "a", "b")
	first.Skip()
	had := first.Held(cds)
	nonce = s.Respond(cds, "two", resource(cds, "a", "", "1"), resource(cds, "b", "", "2"))
	if ack := s.ExpectACK(cds, nonce, "it is accepted"); ack.SotW.VersionInfo != "two" {
		t.Errorf("the ACK states version %q, want the origin's own", ack.SotW.VersionInfo)
	}
	if r := first.Expect(cds, "what changed"); !slices.Equal(r.Names(), []string{"b"}) {
		t.Errorf("want b alone, got %v", r)
	}
	second := w.client(relaytest.Delta)
	second.Subscribe(cds, "*")
	second.AwaitNames(cds, "both arrive at a new client", "a", "b")
	now := second.Held(cds)
	if now["a"] != had["a"] || now["b"] == had["b"] {
		t.Errorf("versions were %q and are %q; that of a should be the same, that of b another", had, now)
	}
	first.CheckClean()
	second.CheckClean()
}

func wholeAndPart(t *testing.T) {
	w := start(t, setup{})
	for _, typeURL := range []string{cds, eds} {
		for _, name := range []string{"a", "b", "c"} {
			w.origin.Set(typeURL, name, "1", bytesOf(typeURL, name, "1"))
		}
	}
	whole, part := w.client(relaytest.SotW), w.client(relaytest.Delta)
	for _, c := range []*relaytest.Client{whole, part} {
		c.Subscribe(cds, "*")
		c.AwaitNames(cds, "the clusters", "a", "b", "c")
		c.Subscribe(eds, "a", "b", "c")
		c.AwaitNames(eds, "the endpoints", "a", "b", "c")
		c.Skip()
	}
	w.origin.Set(cds, "b", "2", bytesOf(cds, "b", "2"))
	w.origin.Set(eds, "b", "2", bytesOf(eds, "b", "2"))
	if r := whole.Expect(cds, "clusters in SotW"); len(r.Items) != 3 {
		t.Errorf("a full state has all three clusters, got %v", r)
	}
	for _, r := range []*relaytest.Response{
		part.Expect(cds, "clusters in delta"), part.Expect(eds, "endpoints in delta"), whole.Expect(eds, "endpoints in SotW"),
	} {
		if !slices.Equal(r.Names(), []string{"b"}) {
			t.Errorf("want what changed and nothing else, got %v", r)
		}
	}
	whole.CheckClean()
	part.CheckClean()
}

func assembledWhenSettled(t *testing.T) {
	w := start(t, setup{
		behaviour: relaytest.Behaviour{Chunk: 1, Pause: 100 * time.Millisecond},
		config:    func(c weirtest.Config) { c.Set("timing.settle", "1s") },
	})
	for _, name := range []string{"a", "b", "c", "d"} {
		w.origin.Set(cds, name, "1", bytesOf(cds, name, "1"))
	}
	c := w.client(relaytest.SotW)
	c.Subscribe(cds, "*")
	if r := c.Expect(cds, "the clusters, which the origin sends one by one"); len(r.Items) != 4 {
		t.Errorf("the first answer is not the whole set: %v", r)
	}
	c.CheckClean()
}

func removedAndCreated(t *testing.T) {
	w := start(t, setup{})
	for _, name := range []string{"a", "b"} {
		w.origin.Set(eds, name, "1", bytesOf(eds, name, "1"))
	}
	c, witness := w.client(relaytest.SotW), w.client(relaytest.Delta)
	for _, c := range []*relaytest.Client{c, witness} {
		c.Subscribe(eds, "a", "b")
		c.AwaitNames(eds, "both arrive", "a", "b")
		c.Skip()
	}
	both := c.Responses(eds)[0].Version()
	w.origin.Remove(eds, "a")
	witness.AwaitNames(eds, "delta can say it", "b")
	c.Await(0, func(s *relaytest.State) bool { return s.Error(eds, "a") != nil }, "SotW says it as an error (ABS-10)")
	c.WantIdle(quiet)
	for _, r := range c.Responses(eds)[1:] {
		if len(r.Items) > 0 || r.Version() == both {
			t.Errorf("a removal is told by resources, or leaves the version as it was: %v", r)
		}
	}
	w.origin.Set(eds, "a", "1", bytesOf(eds, "a", "1"))
	r := c.Expect(eds, "the same content as before the removal, created again")
	if !slices.Equal(r.Names(), []string{"a"}) || r.Version() != both {
		t.Errorf("want a, and the version of both, %q; got %v", both, r)
	}
	c.CheckClean()
	witness.CheckClean()
}
