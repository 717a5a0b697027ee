package conformance

import (
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

var sotwAnswerCases = []testCase{
	{"SOTW-9", "an empty set is stated when the origin said so, not before", func(t *testing.T) {
		for _, sotw := range []bool{false, true} {
			w := start(t, setup{scripted: true, sotw: sotw})
			c := w.client(relaytest.SotW)
			c.Subscribe(cds)
			c.Subscribe(scopedRoutes)
			s := w.origin.ExpectStream("weir asks the origin")
			s.ExpectType(cds, "for clusters")
			s.ExpectType(scopedRoutes, "and scopes")
			c.WantIdle(2 * quiet)
			s.Respond(cds, "1")
			expectNames(t, c, cds, "now it is known that there are none")
			c.WantIdle(quiet)
			s.Respond(scopedRoutes, "1")
			expectNames(t, c, scopedRoutes, "now for the scopes, too")
			c.CheckClean()
		}
	}},
	{"SOTW-9", "of a type that is not sent whole nothing empty is sent, but for errors", func(t *testing.T) {
		w := start(t, setup{})
		w.origin.Put(eds, edsAt("a", 1))
		c := w.client(relaytest.SotW)
		c.Request(eds, "b")
		w.origin.Await(0, func() bool { return w.origin.Asked(eds).ACKs > 0 }, "the origin says that there is no such name")
		c.Request(eds, "a", "b")
		c.AwaitNames(eds, "what exists arrives", "a")
		was := w.origin.Asked(eds).ACKs
		w.origin.Remove(eds, "a")
		w.origin.Await(0, func() bool { return w.origin.Asked(eds).ACKs > was }, "weir hears that it is gone")
		w.origin.Put(eds, edsAt("b", 1))
		c.Await(0, func(s *relaytest.State) bool { return s.Body(eds, "b") != "" }, "a change arrives")
		for _, r := range c.Responses(eds) {
			if len(r.Items) == 0 && len(r.Errors()) == 0 {
				t.Errorf("want nothing that is empty, got %v", r)
			}
		}
		c.CheckClean()
	}},
	{"SOTW-10", "the first wildcard is answered though there is nothing", func(t *testing.T) {
		for _, sotw := range []bool{false, true} {
			w := start(t, setup{sotw: sotw})
			c := w.client(relaytest.SotW)
			c.Subscribe(lds)
			expectNames(t, c, lds, "there are no listeners")
			c.Subscribe(cds, "*")
			expectNames(t, c, cds, "nor clusters, asked for explicitly")
			c.WantIdle(quiet)
			c.CheckClean()
		}
	}},
	{"SOTW-11", "a name that is asked in several ways is sent once", func(t *testing.T) {
		w := start(t, setup{})
		for _, name := range []string{"a", "b"} {
			w.origin.Put(cds, cdsAt(name, 1))
			w.origin.Put(eds, edsAt(name, 1))
		}
		c := w.client(relaytest.SotW)
		c.Request(eds, "a", "b", "a", "a")
		expectNames(t, c, eds, "endpoints named twice come once", "a", "b")
		c.Request(cds, "a", "*", "a")
		c.AwaitNames(cds, "clusters named and meant by the wildcard arrive", "a", "b")
		w.origin.Put(cds, cdsAt("a", 2))
		c.Await(0, func(s *relaytest.State) bool {
			return s.Body(cds, "a") == string(cdsAt("a", 2).Body.Value)
		}, "the change arrives")
		c.WantIdle(quiet)
		c.CheckClean() // which looks for names that come twice
	}},
	{"SOTW-12", "a client sees the clusters it named and no others", func(t *testing.T) {
		w := start(t, setup{})
		w.origin.Put(cds, cdsAt("a", 1))
		w.origin.Put(cds, cdsAt("b", 1))
		everything, c := w.client(relaytest.SotW), w.client(relaytest.SotW)
		everything.Subscribe(cds)
		everything.AwaitNames(cds, "others want everything", "a", "b")
		c.Subscribe(cds, "a")
		expectNames(t, c, cds, "what was named arrives", "a")
		w.origin.Put(cds, cdsAt("b", 2))
		everything.Await(0, func(s *relaytest.State) bool { return s.Body(cds, "b") == string(cdsAt("b", 2).Body.Value) },
			"the others get the change")
		c.WantIdle(quiet)
		w.origin.Put(cds, cdsAt("a", 2))
		expectNames(t, c, cds, "its own cluster changes", "a")
		c.CheckClean()
		everything.CheckClean()
	}},
	{"SOTW-12", "what an origin sends unasked is accepted and ignored", func(t *testing.T) {
		for _, sotw := range []bool{false, true} {
			w := start(t, setup{scripted: true, sotw: sotw})
			c := w.client(relaytest.SotW)
			c.Subscribe(eds, "a")
			s := w.origin.ExpectStream("weir asks the origin")
			s.ExpectNames(eds, "for the endpoints", "a")
			nonce := s.Respond(eds, "1", edsAt("a", 1), edsAt("extra", 1))
			s.ExpectACK(eds, nonce, "extra resources are no reason to refuse")
			expectNames(t, c, eds, "and go no further", "a")
			c.Subscribe(eds, "extra")
			s.ExpectType(eds, "nor are they kept: the origin is asked")
			c.WantIdle(quiet)
			c.CheckClean()
		}
	}},
	{"SOTW-13", "wrapped or bare, the content is the same", func(t *testing.T) {
		w := start(t, setup{sotw: true})
		wrapped := func(r relaytest.Resource) relaytest.Resource { r.Wrapped = true; return r }
		w.origin.Put(cds, cdsAt("a", 1))
		w.origin.Put(cds, wrapped(cdsAt("b", 1)))
		delta, sotw := w.client(relaytest.Delta), w.client(relaytest.SotW)
		delta.Subscribe(cds, "*")
		sotw.Subscribe(cds)
		delta.AwaitNames(cds, "both forms arrive", "a", "b")
		sotw.AwaitNames(cds, "in either dialect", "a", "b")
		was := w.origin.Asked(cds).ACKs
		w.origin.Batch(func() {
			w.origin.Put(cds, wrapped(cdsAt("a", 1)))
			w.origin.Put(cds, cdsAt("b", 1))
		})
		w.origin.Await(0, func() bool { return w.origin.Asked(cds).ACKs > was }, "weir takes in the other form of each")
		delta.WantIdle(quiet)
		sotw.WantIdle(quiet)
		delta.CheckClean()
		sotw.CheckClean()
	}},
	{
		"SOTW-14 SOTW-15", "whatever the origin wraps, a client without the feature gets bare resources of the response's type",
		func(t *testing.T) {
			for _, sotw := range []bool{false, true} {
				w := start(t, setup{sotw: sotw, behaviour: relaytest.Behaviour{WrapSotW: true}})
				w.origin.Put(cds, cdsAt("a", 1))
				mortal := edsAt("a", 1)
				mortal.TTL = time.Hour
				w.origin.Put(eds, mortal)
				w.origin.Set(lds, "l", "1", relaytest.Listener("l", 80))
				c := w.client(relaytest.SotW)
				c.Subscribe(cds)
				c.Subscribe(lds)
				c.Subscribe(eds, "a")
				for typeURL, name := range map[string]string{cds: "a", lds: "l", eds: "a"} {
					c.AwaitNames(typeURL, "it arrives", name)
					for _, r := range c.Responses(typeURL) {
						for _, resource := range r.SotW.Resources {
							if resource.TypeUrl != typeURL {
								t.Errorf("a %s is in a response of %s", resource.TypeUrl, typeURL)
							}
						}
						if r.SotW.Canary {
							t.Errorf("canary is set in %v", r)
						}
					}
				}
				c.CheckClean()
			}
		},
	},
}
