package conformance

import (
	"fmt"
	"testing"

	"github.com/weir-xds/weir/relay/relaytest"
)

var deltaAnswerCases = []testCase{
	{"DELTA-8", "one change of 10,000 is one resource on the wire", func(t *testing.T) {
		w := start(t, setup{})
		all := make([]relaytest.Resource, 10_000)
		for i := range all {
			name := fmt.Sprintf("r%d", i)
			all[i] = relaytest.Resource{Name: name, Version: "1", Body: relaytest.Opaque(name, "1")}
		}
		w.origin.Replace(opaque, all...)
		c := w.client(relaytest.Delta)
		c.Subscribe(opaque, "*")
		c.Await(0, func(s *relaytest.State) bool { return s.Count(opaque) == len(all) }, "the set arrives")
		setOpaque(w.origin, "2", "r7")
		hasExactly(t, c.Expect(opaque, "the change arrives"), "alone", []string{"r7"}, nil)
		w.origin.Remove(opaque, "r8")
		hasExactly(t, c.Expect(opaque, "the removal arrives"), "alone", nil, []string{"r8"})
		c.WantIdle(quiet)
		c.CheckClean()
	}},
	{"DELTA-9 WILD-1 WILD-10", "a name beside the wildcard is answered once more when it is unsubscribed, and is in nobody else's set", func(t *testing.T) {
		w := start(t, setup{scripted: true})
		c := w.client(relaytest.Delta)
		c.Subscribe(opaque, "*")
		set := w.origin.ExpectStream("the set is asked")
		set.ExpectNames(opaque, "without any name")
		set.Respond(opaque, "1", opaqueResource("member", "1"), opaqueResource("xdstp://a/example.test.v1.Opaque/x?b=1", "1"))
		c.AwaitNames(opaque, "the set arrives", "member", "xdstp://a/example.test.v1.Opaque/x?b=1")
		c.Subscribe(opaque, "extra")
		names := w.origin.ExpectStream("the name is asked apart")
		names.ExpectNames(opaque, "extra it is", "extra")
		names.Respond(opaque, "1", opaqueResource("extra", "1"))
		for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			both := w.client(d)
			both.Subscribe(opaque, "*", "extra")
			both.AwaitNames(opaque, "the set, whatever is in it, and the name beside it",
				"extra", "member", "xdstp://a/example.test.v1.Opaque/x?b=1")
			plain := w.client(d)
			plain.Subscribe(opaque, "*")
			plain.AwaitNames(opaque, "the set alone", "member", "xdstp://a/example.test.v1.Opaque/x?b=1")
			plain.WantIdle(quiet)
			plain.CheckClean()
			both.CheckClean()
		}
		hasExactly(t, c.Expect(opaque, "the name is answered"), "alone", []string{"extra"}, nil)
		c.Unsubscribe(opaque, "extra")
		hasExactly(t, c.Expect(opaque, "the client must know what is left"), "nothing of it", nil, []string{"extra"})
		c.Subscribe(opaque, "member")
		hasExactly(t, c.Expect(opaque, "a member is subscribed"), "and answered", []string{"member"}, nil)
		c.Unsubscribe(opaque, "member")
		hasExactly(t, c.Expect(opaque, "the client must know what is left"), "it is in the set", []string{"member"}, nil)
		c.WantIdle(quiet)
		c.CheckClean()
	}},
	{"DELTA-15", "nothing is sent again after a NACK until content or subscription changes", func(t *testing.T) {
		w := start(t, setup{})
		setEndpoints(w.origin, "1", "a")
		setOpaque(w.origin, "1", "a")
		c := w.clientWith(relaytest.ClientConfig{ManualACK: true})
		c.Subscribe(eds, "a")
		c.Subscribe(opaque, "*")
		for _, typeURL := range []string{eds, opaque} {
			c.Expect(typeURL, "it is answered")
			c.NACK(typeURL, "not this")
		}
		c.WantIdle(quiet)
		setEndpoints(w.origin, "2", "a")
		setOpaque(w.origin, "2", "a")
		for _, typeURL := range []string{eds, opaque} {
			hasExactly(t, c.Expect(typeURL, "other content is sent"), "to be judged anew", []string{"a"}, nil)
			c.NACK(typeURL, "nor this")
		}
		c.WantIdle(quiet)
		for _, typeURL := range []string{eds, opaque} {
			c.Subscribe(typeURL, "a")
			hasExactly(t, c.Expect(typeURL, "who subscribes again is answered again"), "with the same", []string{"a"}, nil)
			c.ACK(typeURL)
		}
		c.WantIdle(quiet)
		c.CheckClean()
	}},
	{"DELTA-16", "what was refused may have been applied in part, so its removal is sent", func(t *testing.T) {
		w := start(t, setup{})
		setEndpoints(w.origin, "1", "a", "b")
		setOpaque(w.origin, "1", "a", "b")
		c := w.clientWith(relaytest.ClientConfig{ManualACK: true})
		c.Subscribe(eds, "a", "b")
		c.Subscribe(opaque, "*")
		for _, typeURL := range []string{eds, opaque} {
			hasExactly(t, c.Expect(typeURL, "both are sent"), "in one response", []string{"a", "b"}, nil)
			c.NACK(typeURL, "b is bad")
			w.origin.Remove(typeURL, "a")
			hasExactly(t, c.Expect(typeURL, "the client may hold it"), "so it is told", nil, []string{"a"})
			c.ACK(typeURL)
		}
		c.WantIdle(quiet)
		c.CheckClean()
	}},
	{"DELTA-19", "many updates between two writes are one", func(t *testing.T) {
		w := start(t, setup{config: patientACK})
		setEndpoints(w.origin, "1", "flaps", "comes back")
		setOpaque(w.origin, "1", "flaps", "comes back")
		c := w.clientWith(relaytest.ClientConfig{ManualACK: true})
		observer := w.client(relaytest.Delta)
		for _, x := range []*relaytest.Client{c, observer} {
			x.Subscribe(eds, "flaps", "comes back")
			x.Subscribe(opaque, "*")
		}
		c.Expect(eds, "the first answer")
		c.Expect(opaque, "the first answer")
		// until the set has settled a delta client is told of it as it comes (RELAY-7)
		c.WantIdle(quiet)
		// Both wait for an ACK while the origin goes on; the observer shows that weir has taken in
		// all of it.
		c.Subscribe(eds, "passes", "never")
		c.Subscribe(opaque, "named and passes")
		observer.Subscribe(eds, "passes", "never")
		observer.Subscribe(opaque, "named and passes")
		for i := range 20 {
			version := fmt.Sprint(i + 2)
			setEndpoints(w.origin, version, "flaps", "passes")
			setOpaque(w.origin, version, "flaps", "passes", "named and passes")
			for _, typeURL := range []string{eds, opaque} {
				for _, name := range []string{"comes back", "passes", "named and passes"} {
					w.origin.Remove(typeURL, name)
				}
			}
		}
		setEndpoints(w.origin, "3", "comes back")
		setOpaque(w.origin, "3", "comes back")
		w.origin.Set(eds, "flaps", "99", endpointsAt("flaps", "99"))
		setOpaque(w.origin, "99", "flaps")
		observer.Await(0, func(s *relaytest.State) bool {
			return s.Body(eds, "flaps") == string(endpointsAt("flaps", "99").Value) &&
				s.Body(opaque, "flaps") == string(relaytest.Opaque("flaps", "99").Value) &&
				s.Absent(eds, "passes") && s.Absent(eds, "never") && s.Absent(opaque, "named and passes")
		}, "weir has taken in the last change")
		c.WantIdle(quiet)
		c.ACK(eds)
		c.ACK(opaque)
		hasExactly(t, c.Expect(eds, "the last state, once"), "an answer is owed to what came and went",
			[]string{"flaps", "comes back"}, []string{"passes", "never"})
		hasExactly(t, c.Expect(opaque, "the last state, once"), "of what came and went unasked nothing is said",
			[]string{"flaps", "comes back"}, []string{"named and passes"})
		if c.Body(opaque, "flaps") != string(relaytest.Opaque("flaps", "99").Value) {
			t.Error("the last state is not the origin's")
		}
		c.ACK(eds)
		c.ACK(opaque)
		c.WantIdle(quiet)
		c.CheckClean()
		observer.CheckClean()
	}},
}

func opaqueResource(name, version string) relaytest.Resource {
	return relaytest.Resource{Name: name, Version: version, Body: relaytest.Opaque(name, version)}
}
