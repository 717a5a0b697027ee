package conformance

import (
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

func endpointsAt(name, version string) *anypb.Any {
	return relaytest.Endpoints(name, "10.0.0."+version+":80")
}

// patientACK lets a response wait for an ACK for longer than any case waits for a response.
func patientACK(c weirtest.Config) { c.Set("timing.order_hold", "1m") }

var deltaAskCases = []testCase{
	{"DELTA-1", "an empty request changes nothing, and one request may acknowledge, subscribe and unsubscribe", func(t *testing.T) {
		w := start(t, setup{config: patientACK})
		setEndpoints(w.origin, "1", "a", "b")
		c := w.clientWith(relaytest.ClientConfig{ManualACK: true})
		c.Subscribe(eds, "a")
		first := c.Expect(eds, "a is answered")
		c.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: eds})
		c.WantIdle(quiet)
		c.Send(&discovery.DeltaDiscoveryRequest{
			TypeUrl: eds, ResponseNonce: first.Nonce(),
			ResourceNamesSubscribe: []string{"b"}, ResourceNamesUnsubscribe: []string{"a"},
		})
		hasExactly(t, c.Expect(eds, "the next response goes, as the first is acknowledged"), "b is answered", []string{"b"}, nil)
		c.ACK(eds) // the first again, which says nothing
		c.ACK(eds)
		setEndpoints(w.origin, "2", "a", "b")
		hasExactly(t, c.Expect(eds, "b changes"), "a was unsubscribed", []string{"b"}, nil)
		c.WantIdle(quiet)
		c.CheckClean()
	}},
	{"DELTA-2", "every subscribe is answered, also that of what the client has and of what does not exist", func(t *testing.T) {
		w := start(t, setup{})
		setEndpoints(w.origin, "1", "a")
		c := w.client(relaytest.Delta)
		c.Subscribe(eds, "a", "none")
		c.Await(0, func(s *relaytest.State) bool {
			return s.Count(eds) == 1 && s.Absent(eds, "none")
		}, "the one is sent, of the other is said that it does not exist")
		for range 2 {
			c.Subscribe(eds, "a")
			hasExactly(t, c.Expect(eds, "the repeated subscribe is answered"), "with the resource", []string{"a"}, nil)
			c.Subscribe(eds, "none")
			hasExactly(t, c.Expect(eds, "the repeated subscribe is answered"), "with a removal", nil, []string{"none"})
		}
		c.WantIdle(quiet)
		c.CheckClean()
	}},
	{"DELTA-2 DELTA-3", "a name that the wildcard has brought is sent again when it is subscribed", func(t *testing.T) {
		w := start(t, setup{})
		setOpaque(w.origin, "1", "a", "b")
		c := w.client(relaytest.Delta)
		c.Subscribe(opaque, "*")
		c.AwaitNames(opaque, "the set arrives", "a", "b")
		for range 2 {
			c.Subscribe(opaque, "a")
			hasExactly(t, c.Expect(opaque, "the client may have forgotten its copy"), "a alone is sent", []string{"a"}, nil)
		}
		c.Subscribe(opaque, "none")
		hasExactly(t, c.Expect(opaque, "so is a name outside the set"), "it does not exist", nil, []string{"none"})
		c.WantIdle(quiet)
		c.CheckClean()
	}},
	{"DELTA-4 DELTA-5", "an unsubscribe gets no answer, and is the end of updates; one of an unknown name does nothing", func(t *testing.T) {
		w := start(t, setup{})
		setEndpoints(w.origin, "1", "a", "b")
		setOpaque(w.origin, "1", "a")
		c := w.client(relaytest.Delta)
		c.Subscribe(eds, "a", "b")
		c.Subscribe(opaque, "*")
		c.AwaitNames(eds, "both arrive", "a", "b")
		c.AwaitNames(opaque, "the set arrives", "a")
		c.Unsubscribe(eds, "a")
		c.WantIdle(quiet)
		c.Unsubscribe(eds, "unknown", "a")
		c.Unsubscribe(opaque, "unknown")
		c.WantIdle(quiet)
		setEndpoints(w.origin, "2", "a", "b")
		hasExactly(t, c.Expect(eds, "the stream lives"), "b alone is subscribed", []string{"b"}, nil)
		w.origin.Remove(eds, "a")
		c.WantIdle(quiet)
		c.CheckClean()
	}},
	{"DELTA-6 WILD-8", "a name in both lists ends unsubscribed", func(t *testing.T) {
		w := start(t, setup{})
		setEndpoints(w.origin, "1", "a", "b")
		setOpaque(w.origin, "1", "a", "b")
		c := w.client(relaytest.Delta)
		c.Send(&discovery.DeltaDiscoveryRequest{
			TypeUrl: eds, ResourceNamesSubscribe: []string{"a", "b"}, ResourceNamesUnsubscribe: []string{"a"},
		})
		hasExactly(t, c.Expect(eds, "b is subscribed"), "a is not", []string{"b"}, nil)
		c.Send(&discovery.DeltaDiscoveryRequest{
			TypeUrl: eds, ResourceNamesSubscribe: []string{"b"}, ResourceNamesUnsubscribe: []string{"b"},
		})
		c.Send(&discovery.DeltaDiscoveryRequest{
			TypeUrl: opaque, ResourceNamesSubscribe: []string{"*"}, ResourceNamesUnsubscribe: []string{"*"},
		})
		c.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: opaque}) // no legacy wildcard either
		c.WantIdle(quiet)
		setEndpoints(w.origin, "2", "a", "b")
		setOpaque(w.origin, "2", "a", "b")
		c.WantIdle(quiet)
		c.Subscribe(opaque, "a")
		hasExactly(t, c.Expect(opaque, "a name is served"), "the set is not", []string{"a"}, nil)
		c.WantIdle(quiet)
		c.CheckClean()
	}},
	{"DELTA-14", "versions in a later request say nothing", func(t *testing.T) {
		w := start(t, setup{})
		setEndpoints(w.origin, "1", "a", "b")
		other := w.client(relaytest.Delta)
		other.Subscribe(eds, "a", "b")
		other.AwaitNames(eds, "another client has both", "a", "b")
		c := w.client(relaytest.Delta)
		c.Subscribe(eds, "a")
		c.AwaitNames(eds, "a arrives", "a")
		held := other.Held(eds)
		held["gone"] = held["a"]
		c.SubscribeWith(eds, held, "b")
		hasExactly(t, c.Expect(eds, "b is answered although its version was stated"), "nothing else is", []string{"b"}, nil)
		c.WantIdle(quiet)
		c.CheckClean()
	}},
	{"DELTA-10", "versions subscribe nothing", func(t *testing.T) {
		w := start(t, setup{})
		setEndpoints(w.origin, "1", "a", "b")
		c := w.client(relaytest.Delta)
		c.SubscribeWith(eds, map[string]string{"a": "1", "gone": "1"}, "b")
		hasExactly(t, c.Expect(eds, "the name is answered"), "the keys are not", []string{"b"}, nil)
		setEndpoints(w.origin, "2", "a", "b")
		hasExactly(t, c.Expect(eds, "the name is kept up to date"), "the keys are not", []string{"b"}, nil)
		keys := w.client(relaytest.Delta)
		keys.SubscribeWith(eds, map[string]string{"a": "1", "gone": "1"})
		keys.WantIdle(quiet)
		setEndpoints(w.origin, "3", "a", "b")
		keys.WantIdle(quiet)
		if asked := w.origin.Asked(eds).Subscribed; asked["a"]+asked["gone"]+asked["*"] > 0 {
			t.Errorf("the origin was asked for keys: %v", asked)
		}
		c.CheckClean()
		keys.CheckClean()
	}},
}
