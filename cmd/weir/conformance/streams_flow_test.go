package conformance

import (
	"strings"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var flowCases = []testCase{
	{"NONCE-7", "delta: a subscription counts whatever the nonce, which then accepts nothing", func(t *testing.T) {
		w := start(t, setup{config: hastily})
		w.origin.Put(eds, edsAt("a", 1))
		w.origin.Put(eds, edsAt("b", 1))
		c := w.manual(relaytest.Delta)
		c.Subscribe(eds, "a")
		expectNames(t, c, eds, "the first name arrives", "a")
		c.Send(wish{typeURL: eds, nonce: "stale", names: []string{"b"}}.message(relaytest.Delta))
		expectNames(t, c, eds, "the second does, too", "b")
		c.ACK(eds)
		c.Send(wish{typeURL: eds, nonce: "stale", refusal: "no"}.message(relaytest.Delta))
		c.Send(wish{typeURL: cds, names: []string{"a"}}.message(relaytest.Delta))
		c.Expect(cds, "all that was said before was heard")
		w.awaitStanding(eds, "an unknown nonce is no verdict", func(s standing) bool { return s.NACKs == 0 && !s.InFlightSince.IsZero() })
		c.CheckClean()
	}},
	{"NONCE-8", "delta: responses are accepted and refused one by one, in any order", func(t *testing.T) {
		w := start(t, setup{config: hastily})
		w.origin.Put(eds, edsAt("a", 1))
		c := w.manual(relaytest.Delta)
		c.Subscribe(eds, "a")
		first := c.Expect(eds, "the first arrives")
		w.origin.Put(eds, edsAt("a", 2))
		second := c.Expect(eds, "the second arrives after order_hold")
		w.origin.Put(eds, edsAt("a", 3))
		third := c.Expect(eds, "so does the third")
		c.Send(wish{typeURL: eds, nonce: third.Nonce()}.message(relaytest.Delta))
		c.Send(wish{typeURL: eds, nonce: second.Nonce(), refusal: "no"}.message(relaytest.Delta))
		w.awaitStanding(eds, "the first is still unanswered", func(s standing) bool { return s.NACKs == 1 && !s.InFlightSince.IsZero() })
		c.Send(wish{typeURL: eds, nonce: first.Nonce(), refusal: "no"}.message(relaytest.Delta))
		w.awaitStanding(eds, "its refusal counts by itself", func(s standing) bool { return s.NACKs == 2 && s.InFlightSince.IsZero() })
		c.CheckClean()
	}},
	{"NONCE-9", "one message accepts a response and asks for more", perDialect(func(t *testing.T, d relaytest.Dialect) {
		w := start(t, setup{config: patiently})
		w.origin.Put(eds, edsAt("a", 1))
		w.origin.Put(eds, edsAt("b", 1))
		c := w.manual(d)
		c.Subscribe(eds, "a")
		first := expectNames(t, c, eds, "the first name arrives", "a")
		both := wish{typeURL: eds, version: first.Version(), nonce: first.Nonce(), names: []string{"b"}}
		if d == relaytest.SotW {
			both.names = []string{"a", "b"}
		}
		c.Send(both.message(d))
		expectNames(t, c, eds, "the ACK lets the new name through", "b")
		c.CheckClean()
	})},
	{"NONCE-10", "who is slow gets the last state, not every one", perDialect(func(t *testing.T, d relaytest.Dialect) {
		w := start(t, setup{config: patiently})
		w.origin.Put(cds, cdsAt("a", 1))
		c := w.clientWith(relaytest.ClientConfig{Dialect: d, ManualACK: true, CheckInFlight: true})
		c.Subscribe(cds, "*")
		c.Expect(cds, "the cluster arrives")
		// until the set has settled a delta client is told of it as it comes (RELAY-7)
		c.WantIdle(quiet)
		for version := 2; version <= 6; version++ {
			w.origin.Put(cds, cdsAt("a", version))
			w.origin.Await(0, func() bool { return w.origin.Asked(cds).ACKs >= version }, "weir takes it in")
		}
		c.WantIdle(quiet)
		c.ACK(cds)
		r := c.Expect(cds, "after the ACK the newest arrives")
		if len(r.Items) != 1 || string(r.Items[0].Body.Value) != string(cdsAt("a", 6).Body.Value) {
			t.Errorf("want the sixth version alone, got %v", r)
		}
		c.ACK(cds)
		c.WantIdle(quiet)
		c.CheckClean()
	})},
	{"NONCE-10", "who never answers is served all the same", perDialect(func(t *testing.T, d relaytest.Dialect) {
		w := start(t, setup{config: hastily})
		w.origin.Put(cds, cdsAt("a", 1))
		c := w.manual(d)
		c.Subscribe(cds, "*")
		for version := 1; version <= 4; version++ {
			w.origin.Put(cds, cdsAt("a", version))
			c.Await(0, func(s *relaytest.State) bool { return s.Body(cds, "a") == string(cdsAt("a", version).Body.Value) },
				"the next state arrives without an ACK")
		}
		c.CheckClean()
	})},
	{"NONCE-10", "delta: the pieces of one set do not wait for ACKs", func(t *testing.T) {
		w := start(t, setup{config: func(c weirtest.Config) {
			patiently(c)
			// in a row the next weir must see one set, even if the pieces come haltingly
			c.Set("timing.settle", "1500ms")
		}})
		var all []string
		w.origin.Batch(func() {
			for i := range 9 {
				all = append(all, string(rune('a'+i)))
				w.origin.Set(opaque, all[i], "1", relaytest.Opaque(all[i], strings.Repeat("x", 1<<20)))
			}
		})
		c := w.manual(relaytest.Delta)
		c.Subscribe(opaque, "*")
		c.AwaitNames(opaque, "the whole set arrives", all...)
		if n := len(c.Responses(opaque)); n < 2 {
			t.Errorf("9 MiB came in %d response, so this shows nothing", n)
		}
		c.CheckClean()
	}},
	{"NONCE-11", "what was refused is not sent again, and a rollback is news", perDialect(func(t *testing.T, d relaytest.Dialect) {
		w := start(t, setup{config: hastily})
		w.origin.Put(cds, cdsAt("a", 1))
		w.origin.Put(eds, edsAt("a", 1))
		c := w.manual(d)
		c.Subscribe(cds, "*")
		c.Expect(cds, "the first version arrives")
		c.ACK(cds)
		c.Subscribe(eds, "a")
		c.Expect(eds, "so do the endpoints")
		c.ACK(eds)
		for typeURL, version := range map[string]func(string, int) relaytest.Resource{cds: cdsAt, eds: edsAt} {
			w.origin.Put(typeURL, version("a", 2))
			c.Expect(typeURL, "the second version arrives")
			c.NACK(typeURL, "no")
			c.WantIdle(quiet)
			w.origin.Put(typeURL, version("a", 1))
			r := c.Expect(typeURL, "the first comes again, though the client still has it")
			if len(r.Items) != 1 || string(r.Items[0].Body.Value) != string(version("a", 1).Body.Value) {
				t.Errorf("want the first version, got %v", r)
			}
			c.ACK(typeURL)
		}
		c.WantIdle(quiet)
		c.CheckClean()
	})},
	{"NONCE-11", "after a refusal a change of the subscription is answered", perDialect(func(t *testing.T, d relaytest.Dialect) {
		w := start(t, setup{config: patiently})
		for _, name := range []string{"a", "b"} {
			w.origin.Put(cds, cdsAt(name, 1))
			w.origin.Put(eds, edsAt(name, 1))
		}
		c := w.manual(d)
		for _, typeURL := range []string{cds, eds} {
			c.Subscribe(typeURL, "a")
			expectNames(t, c, typeURL, "the first name arrives", "a")
			c.NACK(typeURL, "no")
			c.WantIdle(quiet)
			c.Subscribe(typeURL, "b")
			r := c.Expect(typeURL, "the second name is answered")
			if want := namesIn(r); want != "[b]" && (typeURL != cds || d != relaytest.SotW || want != "[a b]") {
				t.Errorf("want the new name, or all clusters in SotW, got %v", r)
			}
			c.ACK(typeURL)
		}
		c.WantIdle(quiet)
		c.CheckClean()
	})},
}
