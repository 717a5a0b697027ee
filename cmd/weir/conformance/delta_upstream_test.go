package conformance

import (
	"fmt"
	"slices"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/weir-xds/weir/relay/relaytest"
)

var deltaUpstreamCases = []testCase{
	{"DELTA-18", "a request to the origin has a nonce when it answers a response, and only then", func(t *testing.T) {
		w := start(t, setup{scripted: true})
		c := w.client(relaytest.Delta)
		c.Subscribe(eds, "a")
		s := w.origin.ExpectStream("the name is asked")
		spontaneous := func(sentence string, names ...string) {
			t.Helper()
			if r := s.ExpectNames(eds, sentence, names...); r.Nonce() != "" || r.Detail() != nil {
				t.Errorf("%s: want a request that answers nothing, got %v", sentence, r)
			}
		}
		spontaneous("the first request", "a")
		s.ExpectACK(eds, s.Respond(eds, "1", relaytest.Resource{Name: "a", Version: "1", Body: endpointsAt("a", "1")}), "an ACK names its response")
		c.AwaitNames(eds, "a arrives", "a")
		c.Subscribe(eds, "b")
		spontaneous("a request for another name, though the nonce is known", "b")
		bad := relaytest.Resource{Name: "b", Version: "1", Body: relaytest.Opaque("b", "1")}
		s.ExpectNACK(eds, s.Respond(eds, "2", bad), "", "a NACK names its response")
		c.Subscribe(eds, "c")
		spontaneous("a request after a NACK", "c")
		c.CheckClean()
	}},
	{"DELTA-7", "to have a resource sent again, weir lets it go in one request and subscribes in another", func(t *testing.T) {
		w := start(t, setup{scripted: true})
		c := w.client(relaytest.Delta)
		c.Subscribe(eds, "a", "b")
		s := w.origin.ExpectStream("the names are asked")
		s.ExpectNames(eds, "both of them", "a", "b")
		at := func(name, version string) relaytest.Resource {
			return relaytest.Resource{Name: name, Version: version, Body: endpointsAt(name, version)}
		}
		s.ExpectACK(eds, s.Respond(eds, "1", at("a", "1"), at("b", "1")), "they are accepted")
		c.AwaitNames(eds, "both arrive", "a", "b")
		s.ExpectACK(eds, s.Respond(eds, "2", relaytest.Resource{Name: "b", Version: "1"}), "a heartbeat is accepted")
		s.WantIdle(quiet)

		// a heartbeat of what weir never had
		s.Respond(eds, "3", relaytest.Resource{Name: "a", Version: "2"})
		var asked []string
		for len(asked) < 2 {
			d := s.ExpectType(eds, "the body that is missing is asked for").Delta
			if len(d.ResourceNamesSubscribe)+len(d.ResourceNamesUnsubscribe) > 0 {
				asked = append(asked, fmt.Sprint("out ", d.ResourceNamesUnsubscribe, " in ", d.ResourceNamesSubscribe))
			}
		}
		if want := []string{"out [a] in []", "out [] in [a]"}; !slices.Equal(asked, want) {
			t.Errorf("want the requests %q, got %q", want, asked)
		}
		c.WantIdle(quiet)
		s.Respond(eds, "4", at("a", "2"))
		hasExactly(t, c.Expect(eds, "the body arrives"), "as any change", []string{"a"}, nil)
		c.CheckClean()
		wantNoOverlap(t, w.origin)
	}},
}

// wantNoOverlap fails if a request to the origin has one name in both lists (DELTA-7).
func wantNoOverlap(t *testing.T, o *relaytest.Origin) {
	t.Helper()
	for _, r := range o.Requests() {
		for _, name := range r.Delta.GetResourceNamesUnsubscribe() {
			if slices.Contains(r.Delta.ResourceNamesSubscribe, name) {
				t.Errorf("%q is subscribed and unsubscribed at once: %v", name, r)
			}
		}
	}
}

// locators names resources as a client with dynamic parameters does, without any parameter.
func locators(names ...string) (ls []*discovery.ResourceLocator) {
	for _, name := range names {
		ls = append(ls, &discovery.ResourceLocator{Name: name})
	}
	return ls
}
