package conformance

import (
	"fmt"
	"testing"

	"github.com/weir-xds/weir/relay/relaytest"
)

var nonceCases = []testCase{
	{"NONCE-1", "no nonce comes twice on a stream, over all types, nor on the next stream", perDialect(func(t *testing.T, d relaytest.Dialect) {
		w := start(t, setup{})
		c := w.client(d)
		seen := map[string]bool{}
		for range 2 {
			c.Open(relaytest.Node("client-1", "edge"))
			c.Subscribe(cds, "*")
			c.Subscribe(eds, "a")
			for version := 1; version <= 3; version++ {
				w.origin.Put(cds, cdsAt("a", version))
				w.origin.Put(eds, edsAt("a", version))
				c.Await(0, func(s *relaytest.State) bool {
					return s.Body(cds, "a") == string(cdsAt("a", version).Body.Value) &&
						s.Body(eds, "a") == string(edsAt("a", version).Body.Value)
				}, "the change arrives")
			}
		}
		for _, r := range append(c.Responses(cds), c.Responses(eds)...) {
			if r.Nonce() == "" || seen[r.Nonce()] {
				t.Errorf("nonce %q is empty or was used before", r.Nonce())
			}
			seen[r.Nonce()] = true
		}
		c.CheckClean()
	})},
	{"NONCE-2", "the nonce and the error make the verdict, version_info has no part in it", func(t *testing.T) {
		w := start(t, setup{config: patiently})
		w.origin.Put(cds, cdsAt("a", 1))
		c := w.manual(relaytest.SotW)
		c.Subscribe(cds)
		first := c.Expect(cds, "the cluster arrives")
		c.ACK(cds)
		w.origin.Put(cds, cdsAt("a", 2))
		second := c.Expect(cds, "the change arrives")
		c.Send(wish{typeURL: cds, version: second.Version(), nonce: second.Nonce(), refusal: "no"}.message(relaytest.SotW))
		w.awaitStanding(cds, "an error at the version of the response is a NACK", func(s standing) bool {
			return s.NACKs == 1 && s.InFlightSince.IsZero() && s.AckedVersion == first.Version()
		})
		w.weir.AwaitMetric(1, "it is counted", "weir_downstream_nacks_total", `type="cds"`, `dialect="sotw"`)
		w.origin.Put(cds, cdsAt("a", 3))
		third := c.Expect(cds, "the next change arrives")
		c.Send(wish{typeURL: cds, version: first.Version(), nonce: third.Nonce()}.message(relaytest.SotW))
		w.awaitStanding(cds, "no error at an old version is an ACK", func(s standing) bool {
			return s.NACKs == 1 && s.InFlightSince.IsZero() && s.AckedVersion == third.Version()
		})
		c.CheckClean()
	}},
	{"NONCE-3", "before anything was sent any nonce is ignored", perDialect(func(t *testing.T, d relaytest.Dialect) {
		w := start(t, setup{})
		w.origin.Put(cds, cdsAt("a", 1))
		w.origin.Put(eds, edsAt("a", 1))
		c := w.client(d)
		c.Send(wish{typeURL: cds, nonce: "of-another-stream", names: []string{"*"}}.message(d))
		c.Send(wish{typeURL: eds, nonce: "of-another-stream", names: []string{"a"}, refusal: "of something else"}.message(d))
		c.AwaitNames(cds, "a foreign nonce is no reason not to answer", "a")
		c.AwaitNames(eds, "nor is an error", "a")
		if n, _ := w.weir.Metric("weir_downstream_nacks_total"); n != 0 {
			t.Errorf("%v NACKs are counted", n)
		}
		c.CheckClean()
	})},
	{"NONCE-4", "an old nonce accepts and refuses nothing", func(t *testing.T) {
		w := start(t, setup{config: patiently})
		w.origin.Put(cds, cdsAt("a", 1))
		c := w.manual(relaytest.SotW)
		c.Subscribe(cds, "*")
		first := c.Expect(cds, "the cluster arrives")
		c.ACK(cds)
		w.origin.Put(cds, cdsAt("a", 2))
		second := c.Expect(cds, "the change arrives")
		w.origin.Put(cds, cdsAt("a", 3))
		for _, nonce := range []string{first.Nonce(), "unknown"} {
			for _, refusal := range []string{"", "no"} {
				stale := wish{typeURL: cds, version: second.Version(), nonce: nonce, names: []string{"*"}, refusal: refusal}
				c.Send(stale.message(relaytest.SotW))
			}
		}
		c.WantIdle(quiet) // the second is still unanswered, so the third waits
		w.awaitStanding(cds, "the second response is unanswered", func(s standing) bool {
			return s.NACKs == 0 && !s.InFlightSince.IsZero() && s.AckedVersion == first.Version()
		})
		c.ACK(cds)
		c.Expect(cds, "once it is accepted the third arrives")
		c.CheckClean()
	}},
	{"NONCE-5 NONCE-6", "the names of a stale request count, and are answered after the verdict", func(t *testing.T) {
		w := start(t, setup{config: patiently})
		w.origin.Put(eds, edsAt("a", 1))
		w.origin.Put(eds, edsAt("b", 1))
		c := w.manual(relaytest.SotW)
		c.Subscribe(eds, "a")
		first := expectNames(t, c, eds, "the first name arrives", "a")
		c.Send(wish{typeURL: eds, nonce: "stale", names: []string{"a", "b"}}.message(relaytest.SotW))
		w.origin.Await(0, func() bool { return w.origin.Asked(eds).Subscribed["b"] > 0 }, "the second name goes upstream")
		c.WantIdle(quiet)
		c.Send(wish{typeURL: eds, version: first.Version(), nonce: first.Nonce(), names: []string{"a", "b"}}.message(relaytest.SotW))
		second := expectNames(t, c, eds, "after the ACK the new name arrives", "b")
		c.WantIdle(quiet)
		c.Send(wish{typeURL: eds, nonce: second.Nonce(), names: []string{"a", "b"}}.message(relaytest.SotW))
		c.Send(wish{typeURL: eds, nonce: "stale", names: []string{"b"}}.message(relaytest.SotW))
		c.Send(wish{typeURL: eds, nonce: "stale", names: []string{"a", "b"}}.message(relaytest.SotW))
		expectNames(t, c, eds, "with nothing outstanding a stale request is answered at once", "a")
		c.CheckClean()
	}},
	{"NONCE-6", "the stale request is answered after a NACK, too, or after order_hold", func(t *testing.T) {
		for _, refuse := range []bool{true, false} {
			config := hastily
			if refuse {
				config = patiently
			}
			w := start(t, setup{config: config})
			w.origin.Put(eds, edsAt("a", 1))
			w.origin.Put(eds, edsAt("b", 1))
			c := w.manual(relaytest.SotW)
			c.Subscribe(eds, "a")
			first := expectNames(t, c, eds, "the first name arrives", "a")
			c.Send(wish{typeURL: eds, nonce: "stale", names: []string{"a", "b"}}.message(relaytest.SotW))
			if refuse {
				c.WantIdle(quiet)
				c.Send(wish{typeURL: eds, nonce: first.Nonce(), names: []string{"a", "b"}, refusal: "no"}.message(relaytest.SotW))
			}
			expectNames(t, c, eds, "the new name arrives", "b")
			c.CheckClean()
		}
	}},
	{"NONCE-6", "names added in a race with the answers come once each", func(t *testing.T) {
		w := start(t, setup{})
		w.origin.Batch(func() {
			for i := range 60 {
				name := fmt.Sprintf("e%02d", i)
				w.origin.Set(eds, name, "1", relaytest.Endpoints(name, "10.0.0.1:80"))
			}
		})
		c := w.client(relaytest.SotW)
		for i := range 60 {
			c.Subscribe(eds, fmt.Sprintf("e%02d", i))
		}
		c.Await(0, func(s *relaytest.State) bool { return s.Count(eds) == 60 }, "all arrive")
		c.WantIdle(quiet)
		times := map[string]int{}
		for _, r := range c.Responses(eds) {
			for _, name := range r.Names() {
				if times[name]++; times[name] > 1 {
					t.Errorf("%s came %d times", name, times[name])
				}
			}
		}
		c.CheckClean()
	}},
	{"NONCE-12", "who forgets a type begins it anew, though its last response was never answered", func(t *testing.T) {
		w := start(t, setup{config: patiently})
		for _, name := range []string{"a", "b"} {
			w.origin.Put(eds, edsAt(name, 1))
			w.origin.Put(cds, cdsAt(name, 1))
		}
		c := w.manual(relaytest.SotW)
		ask := func(typeURL string, names ...string) {
			c.Send(wish{typeURL: typeURL, names: names}.message(relaytest.SotW))
		}
		ask(eds, "a")
		expectNames(t, c, eds, "the first name arrives", "a")
		ask(eds, "a") // never anything but this
		c.WantIdle(quiet)
		ask(eds, "b")
		expectNames(t, c, eds, "another list is answered at once", "b")
		c.ACK(eds) // the first
		c.ACK(eds)
		ask(eds, "a", "b")
		expectNames(t, c, eds, "all of a list that begins the type anew", "a", "b")
		c.ACK(eds)
		ask(eds, "a", "b")
		expectNames(t, c, eds, "also if it is the same list", "a", "b")

		ask(cds, "*")
		expectNames(t, c, cds, "the set arrives", "a", "b")
		c.ACK(cds)
		w.origin.Put(cds, cdsAt("a", 2))
		expectNames(t, c, cds, "the change arrives", "a", "b")
		ask(cds, "b")
		expectNames(t, c, cds, "what is named is sent", "b")
		c.CheckClean()
	}},
}
