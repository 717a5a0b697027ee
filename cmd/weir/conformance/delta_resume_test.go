package conformance

import (
	"testing"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// settleFast makes a set known to be whole soon, also towards a client that holds something.
func settleFast(c weirtest.Config) { c.Set("timing.firm_settle", "500ms") }

var deltaResumeCases = []testCase{
	{"DELTA-11", "in the first request a stated version spares the answer if it is the current one", func(t *testing.T) {
		w := start(t, setup{})
		setEndpoints(w.origin, "1", "same", "changed")
		c := w.client(relaytest.Delta)
		c.Subscribe(eds, "same", "changed")
		c.AwaitNames(eds, "both arrive", "same", "changed")
		before := c.Held(eds)
		before["gone"], before["foreign"] = before["same"], "1"
		setEndpoints(w.origin, "2", "changed")
		setEndpoints(w.origin, "1", "foreign")
		c.Await(0, func(s *relaytest.State) bool { return s.Held(eds)["changed"] != before["changed"] }, "one changes")

		c.Open(relaytest.Node("client-1", "edge"))
		c.SubscribeWith(eds, before, "same", "changed", "gone", "foreign", "none")
		c.Await(0, func(s *relaytest.State) bool {
			return s.Count(eds) == 3 && s.Absent(eds, "gone") && s.Absent(eds, "none")
		}, "the others are answered: with the resource, or with a removal")
		c.WantIdle(quiet)
		all := c.Responses(eds)
		for _, r := range all[len(all)-1:] {
			for _, name := range r.Names() {
				if name == "same" {
					t.Errorf("a current version was stated, and the resource came all the same: %v", r)
				}
			}
		}
		c.Subscribe(eds, "same")
		hasExactly(t, c.Expect(eds, "a later subscribe is answered"), "with the resource", []string{"same"}, nil)
		setEndpoints(w.origin, "3", "same")
		hasExactly(t, c.Expect(eds, "the name is subscribed"), "and kept up to date", []string{"same"}, nil)
		c.CheckClean()
	}},
	{"DELTA-11 DELTA-13", "a client in sync is sent nothing, and where it asks for the set, one empty response", func(t *testing.T) {
		w := start(t, setup{config: settleFast})
		setEndpoints(w.origin, "1", "a", "b")
		setOpaque(w.origin, "1", "a", "b")
		c := w.client(relaytest.Delta)
		c.Subscribe(eds, "a", "b")
		c.Subscribe(opaque, "*")
		c.AwaitNames(eds, "both arrive", "a", "b")
		c.AwaitNames(opaque, "the set arrives", "a", "b")
		for range 2 {
			c.Open(relaytest.Node("client-1", "edge"))
			c.Resume(eds)
			c.Resume(opaque)
			hasExactly(t, c.Expect(opaque, "the set is answered"), "with nothing", nil, nil)
			c.WantIdle(quiet)
		}
		legacy := w.client(relaytest.Delta)
		legacy.SubscribeWith(opaque, c.Held(opaque))
		hasExactly(t, legacy.Expect(opaque, "the set is answered"), "with nothing, whatever it was asked with", nil, nil)
		legacy.WantIdle(quiet)
		setOpaque(w.origin, "2", "b")
		hasExactly(t, c.Expect(opaque, "a change follows"), "alone", []string{"b"}, nil)
		hasExactly(t, legacy.Expect(opaque, "a change follows"), "alone", []string{"b"}, nil)
		c.CheckClean()
		legacy.CheckClean()
	}},
	{"DELTA-12", "what was deleted while the client was away is removed when it returns", func(t *testing.T) {
		w := start(t, setup{config: settleFast})
		setOpaque(w.origin, "1", "stays", "goes", "goes and is named")
		c, observer := w.client(relaytest.Delta), w.client(relaytest.Delta)
		for _, x := range []*relaytest.Client{c, observer} {
			x.Subscribe(opaque, "*")
			x.AwaitNames(opaque, "the set arrives", "stays", "goes", "goes and is named")
		}
		c.Cancel()
		w.origin.Remove(opaque, "goes")
		w.origin.Remove(opaque, "goes and is named")
		observer.AwaitNames(opaque, "weir knows of it", "stays")

		held := c.Held(opaque)
		held["never was"] = "1"
		c.Open(relaytest.Node("client-1", "edge"))
		c.SubscribeWith(opaque, held, "*", "goes and is named")
		c.Await(0, func(s *relaytest.State) bool {
			return s.Count(opaque) == 1 && s.Absent(opaque, "goes") && s.Absent(opaque, "never was") && s.Absent(opaque, "goes and is named")
		}, "what is no more is removed, and nothing else")
		c.WantIdle(quiet)
		c.CheckClean()
	}},
}
