package conformance

import (
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
