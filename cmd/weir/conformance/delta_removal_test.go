package conformance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weir-xds/weir/relay/relaytest/seed"

	"github.com/weir-xds/weir/relay/relaytest"
)

var deltaRemovalCases = []testCase{
	{"DEL-1", "what was deleted comes back without a new subscribe", func(t *testing.T) {
		w := start(t, setup{})
		setEndpoints(w.origin, "1", "a")
		setOpaque(w.origin, "1", "a", "b")
		c := w.client(relaytest.Delta)
		c.Subscribe(eds, "a")
		c.Subscribe(opaque, "*")
		c.AwaitNames(eds, "the endpoints arrive", "a")
		c.AwaitNames(opaque, "the set arrives", "a", "b")
		for _, typeURL := range []string{eds, opaque} {
			w.origin.Remove(typeURL, "a")
			hasExactly(t, c.Expect(typeURL, "the deletion is stated"), "as a removal", nil, []string{"a"})
			setAny(w.origin, typeURL, "2", "a")
			hasExactly(t, c.Expect(typeURL, "the client is still subscribed"), "to what exists again", []string{"a"}, nil)
		}
		c.WantIdle(quiet)
		c.CheckClean()
	}},
	{"DEL-2", "a full state without a resource deletes it", func(t *testing.T) {
		for _, sotw := range []bool{true, false} {
			w := start(t, setup{sotw: sotw})
			setAny(w.origin, cds, "1", "a", "b", "c")
			set, names, delta := w.client(relaytest.SotW), w.client(relaytest.SotW), w.client(relaytest.Delta)
			set.Request(cds)
			names.Request(cds, "a", "b")
			delta.Subscribe(cds, "*")
			set.AwaitNames(cds, "the set arrives", "a", "b", "c")
			names.AwaitNames(cds, "the names arrive", "a", "b")
			delta.AwaitNames(cds, "the set arrives", "a", "b", "c")
			w.origin.Remove(cds, "b")
			hasExactly(t, set.Expect(cds, "the next response comes"), "it is the whole set", []string{"a", "c"}, nil)
			hasExactly(t, names.Expect(cds, "the next response comes"), "it is all that is left", []string{"a"}, nil)
			hasExactly(t, delta.Expect(cds, "the removal comes"), "alone", nil, []string{"b"})
			for _, c := range []*relaytest.Client{set, names, delta} {
				c.WantIdle(quiet)
				c.CheckClean()
			}
		}
	}},
	{"DEL-3", "what a grouped type's response leaves out stays, cached and served", func(t *testing.T) {
		w := start(t, setup{scripted: true, sotw: true})
		c, d := w.client(relaytest.SotW), w.client(relaytest.Delta)
		for _, x := range []*relaytest.Client{c, d} {
			x.Subscribe(eds, "a", "b")
		}
		s := w.origin.ExpectStream("the names are asked")
		s.ExpectNames(eds, "both of them", "a", "b")
		s.Respond(eds, "1", relaytest.Resource{Name: "a", Body: endpointsAt("a", "1")}, relaytest.Resource{Name: "b", Body: endpointsAt("b", "1")})
		for _, x := range []*relaytest.Client{c, d} {
			x.AwaitNames(eds, "both arrive", "a", "b")
		}
		s.Respond(eds, "2", relaytest.Resource{Name: "a", Body: endpointsAt("a", "2")})
		for _, x := range []*relaytest.Client{c, d} {
			hasExactly(t, x.Expect(eds, "the change arrives"), "and nothing of b", []string{"a"}, nil)
		}
		late := w.client(relaytest.Delta)
		late.Subscribe(eds, "b")
		hasExactly(t, late.Expect(eds, "b is served from the cache"), "as it was", []string{"b"}, nil)
		for _, x := range []*relaytest.Client{c, d, late} {
			x.WantIdle(quiet)
			x.CheckClean()
		}
	}},
	{"DEL-4 DEL-5", "removals of what nobody has are ignored, and none is repeated", func(t *testing.T) {
		w := start(t, setup{scripted: true})
		c := w.client(relaytest.Delta)
		c.Subscribe(opaque, "*")
		set := w.origin.ExpectStream("the set is asked")
		set.ExpectNames(opaque, "by the wildcard")
		c.Subscribe(eds, "a", "b")
		set.ExpectNames(eds, "so are the names", "a", "b")
		set.ExpectACK(opaque, set.Respond(opaque, "1", opaqueResource("a", "1"), opaqueResource("b", "1")), "the set is accepted")
		ab := []relaytest.Resource{{Name: "a", Version: "1", Body: endpointsAt("a", "1")}, {Name: "b", Version: "1", Body: endpointsAt("b", "1")}}
		set.ExpectACK(eds, set.Respond(eds, "1", ab...), "the names are accepted")
		c.AwaitNames(eds, "both arrive", "a", "b")
		c.AwaitNames(opaque, "the set arrives", "a", "b")
		for _, typeURL := range []string{opaque, eds} {
			set.ExpectACK(typeURL, set.RespondRemoved(typeURL, "2", "never"), "a removal of nothing is no mistake")
			c.WantIdle(quiet)
			for range 2 {
				set.ExpectACK(typeURL, set.RespondRemoved(typeURL, "3", "a"), "a removal is accepted, the second as well")
			}
			hasExactly(t, c.Expect(typeURL, "the removal is passed on"), "once", nil, []string{"a"})
			c.WantIdle(quiet)
			b := relaytest.Resource{Name: "b", Version: "2", Body: bodyOf(typeURL, "b", "2")}
			set.ExpectACK(typeURL, set.Respond(typeURL, "4", b), "another change is accepted")
			hasExactly(t, c.Expect(typeURL, "another change arrives"), "without the removal", []string{"b"}, nil)
		}
		c.Subscribe(eds, "a")
		hasExactly(t, c.Expect(eds, "a new subscribe is answered"), "with the removal", nil, []string{"a"})

		set.End(nil)
		again := w.origin.ExpectStream("weir comes back")
		again.ExpectType(eds, "it asks anew")
		again.ExpectACK(eds, again.RespondRemoved(eds, "5", "a"), "the answer is the same")
		c.WantIdle(quiet)
		c.CheckClean()
	}},
	{"DEL-6 DELTA-20 DELTA-7", "random changes: no name twice in a response, in both its lists, or removed unasked; nor so upstream", func(t *testing.T) {
		rnd := seed.Rand(t)
		w := start(t, setup{})
		names := []string{"a", "b", "c", "d", "e", "f"}
		there := map[string]bool{}
		clients := []*relaytest.Client{w.client(relaytest.Delta), w.client(relaytest.Delta), w.client(relaytest.Delta)}
		for _, c := range clients[:2] {
			c.Subscribe(opaque, "*")
		}
		for i := range 600 {
			name := names[rnd.IntN(len(names))]
			switch c := clients[rnd.IntN(len(clients))]; rnd.IntN(6) {
			case 0:
				c.Subscribe(opaque, name)
			case 1:
				c.Unsubscribe(opaque, name)
			case 2:
				w.origin.Remove(opaque, name)
				delete(there, name)
			default:
				setOpaque(w.origin, fmt.Sprint(i), name)
				there[name] = true
			}
			if i%20 == 19 { // a moment for weir, of no certain length
				marker := fmt.Sprint("marker ", i%3)
				setOpaque(w.origin, fmt.Sprint(i), marker)
				there[marker] = true
				clients[0].Await(0, func(s *relaytest.State) bool {
					return s.Body(opaque, marker) == string(relaytest.Opaque(marker, fmt.Sprint(i)).Value)
				}, "the marker arrives")
			}
		}
		clients[2].Subscribe(opaque, "*")
		var want []string
		for name := range there {
			want = append(want, name)
		}
		slices.Sort(want)
		for _, c := range clients {
			c.AwaitNames(opaque, "every client ends with the origin's set", want...)
			c.CheckClean()
		}
		wantNoOverlap(t, w.origin)
	}},
}
