package conformance

import (
	"slices"
	"strconv"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var collCases = slices.Concat(collGlobCases, collListCases, collHostCases)

const opaqueGlob = opaqueURN + "foo/*"

var collGlobCases = []testCase{
	{"COLL-1 COLL-4 RELAY-21 RELAY-22", "a glob brings what has one segment in place of its star, one by one, and nothing else", func(t *testing.T) {
		w := start(t, setup{config: answersA})
		setOpaque(w.origin, "1", opaqueURN+"foo/1", opaqueURN+"foo/2", opaqueURN+"bar/1", opaqueURN+"foo/deep/1", opaqueURN+"foo/1?k=v", "foo/1")
		c := w.client(relaytest.Delta)
		c.Subscribe(opaque, opaqueGlob)
		hasExactly(t, c.Expect(opaque, "the members come in one answer"), "of the glob", []string{opaqueURN + "foo/1", opaqueURN + "foo/2"}, nil)
		setOpaque(w.origin, "1", opaqueURN+"foo/3", opaqueURN+"bar/2")
		hasExactly(t, c.Expect(opaque, "one is created"), "alone", []string{opaqueURN + "foo/3"}, nil)
		setOpaque(w.origin, "2", opaqueURN+"foo/1")
		hasExactly(t, c.Expect(opaque, "one is changed"), "alone", []string{opaqueURN + "foo/1"}, nil)
		w.origin.Remove(opaque, opaqueURN+"foo/2")
		hasExactly(t, c.Expect(opaque, "one goes"), "under its own name", nil, []string{opaqueURN + "foo/2"})
		c.WantIdle(quiet)
		c.CheckClean()
		if asked := w.origin.Asked(opaque); asked.Subscribed[opaqueGlob] != 1 || len(asked.Subscribed) != 1 {
			t.Errorf("the origin was asked for %v, want the glob once, and no wildcard", asked.Subscribed)
		}
	}},
	{"COLL-1", "the context of a glob is that of its members", func(t *testing.T) {
		w := start(t, setup{config: answersA})
		member := opaqueURN + "foo/1?a=1&b=2"
		setOpaque(w.origin, "1", member, opaqueURN+"foo/1", opaqueURN+"foo/1?a=1")
		c := w.client(relaytest.Delta)
		c.Subscribe(opaque, opaqueGlob+"?a=1&b=2")
		c.AwaitNames(opaque, "the one of the same context arrives", member)
		c.WantIdle(quiet)
		c.CheckClean()
	}},
	{"COLL-2 SOTW-3", "a SotW client of a glob is sent what changed of its members", func(t *testing.T) {
		w := start(t, setup{config: answersA})
		setOpaque(w.origin, "1", opaqueURN+"foo/1", opaqueURN+"foo/2", "x")
		c := w.client(relaytest.SotW)
		c.Subscribe(opaque, opaqueGlob, "x")
		c.AwaitNames(opaque, "members and name arrive", opaqueURN+"foo/1", opaqueURN+"foo/2", "x")
		c.Skip()
		setOpaque(w.origin, "2", opaqueURN+"foo/2")
		hasExactly(t, c.Expect(opaque, "one changes"), "as a grouped type", []string{opaqueURN + "foo/2"}, nil)
		setOpaque(w.origin, "1", opaqueURN+"foo/3")
		hasExactly(t, c.Expect(opaque, "one is created"), "alone", []string{opaqueURN + "foo/3"}, nil)
		c.CheckClean()
	}},
	{"COLL-2 SOTW-2 SOTW-11", "a list that is sent whole has the glob's members in it, each once", func(t *testing.T) {
		const urn = "xdstp://a/envoy.config.cluster.v3.Cluster/foo/"
		w := start(t, setup{config: answersA})
		w.origin.Batch(func() {
			for _, name := range []string{urn + "1", urn + "2", "plain"} {
				w.origin.Set(cds, name, "1", bodyOf(cds, name, "1"))
			}
		})
		named, all := w.client(relaytest.SotW), w.client(relaytest.SotW)
		named.Subscribe(cds, urn+"*", "plain", urn+"2")
		all.Subscribe(cds, "*", urn+"*")
		for _, c := range []*relaytest.Client{named, all} {
			c.AwaitNames(cds, "all of it arrives", urn+"1", urn+"2", "plain")
		}
		w.origin.Remove(cds, urn+"1")
		for _, c := range []*relaytest.Client{named, all} {
			c.AwaitNames(cds, "what goes is left out", urn+"2", "plain")
			c.CheckClean()
		}
	}},
	{"COLL-2", "an origin that speaks state of the world is not asked for a glob", func(t *testing.T) {
		w := start(t, setup{sotw: true, config: answersA})
		setOpaque(w.origin, "1", opaqueURN+"foo/1", "x")
		for _, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			c := w.client(dialect)
			c.Subscribe(opaque, opaqueGlob, "x")
			c.Await(0, func(s *relaytest.State) bool {
				e := s.Error(opaque, opaqueGlob)
				return e != nil && e.Code == int32(codes.Unimplemented) && s.Count(opaque) == 1 && !s.Absent(opaque, opaqueGlob)
			}, "the glob is in error, and the name is served")
			c.CheckClean()
		}
		if asked := w.origin.Asked(opaque); asked.Subscribed[opaqueGlob] != 0 {
			t.Errorf("the origin was asked for %v", asked.Subscribed)
		}
	}},
	{"COLL-3 ABS-4", "an empty glob is answered with its own name, as the client writes it", func(t *testing.T) {
		w := start(t, setup{config: answersA})
		odd := opaqueURN + "f%6fo/*"
		plain := w.client(relaytest.Delta)
		plain.Subscribe(opaque, opaqueGlob)
		hasExactly(t, plain.Expect(opaque, "it is answered"), "as empty", nil, []string{opaqueGlob})
		c := w.client(relaytest.Delta)
		c.Subscribe(opaque, odd)
		hasExactly(t, c.Expect(opaque, "it is answered"), "as empty", nil, []string{odd})
		setOpaque(w.origin, "1", opaqueURN+"foo/1")
		hasExactly(t, c.Expect(opaque, "a member is created"), "under its name", []string{opaqueURN + "foo/1"}, nil)
		w.origin.Remove(opaque, opaqueURN+"foo/1")
		hasExactly(t, c.Expect(opaque, "it goes"), "under its name", nil, []string{opaqueURN + "foo/1"})
		s := w.client(relaytest.SotW)
		s.Subscribe(opaque, opaqueURN+"none/*")
		s.Await(0, func(s *relaytest.State) bool {
			e := s.Error(opaque, opaqueURN+"none/*")
			return e != nil && e.Code == int32(codes.NotFound)
		}, "in state of the world it is not found (ABS-10)")
		again := w.client(relaytest.Delta)
		again.Subscribe(opaque, odd)
		hasExactly(t, again.Expect(opaque, "who comes later is answered"), "as empty", nil, []string{odd})
		for _, c := range []*relaytest.Client{c, s, again} {
			c.WantIdle(quiet)
		}
		c.CheckClean()
		again.CheckClean()
	}},
	{"COLL-5 RELAY-28", "deeper members are ignored, unless the origin's globs are recursive", func(t *testing.T) {
		for _, recursive := range []bool{false, true} {
			w := start(t, setup{scripted: true, config: func(c weirtest.Config) {
				answersA(c)
				if recursive {
					c.Origin().Set("glob", "recursive")
				}
			}})
			c := w.client(relaytest.Delta)
			c.Subscribe(opaque, opaqueGlob)
			up := w.origin.ExpectStream("weir asks")
			up.ExpectNames(opaque, "the glob", opaqueGlob)
			up.Respond(opaque, "1", opaqueResource(opaqueURN+"foo/1", "1"), opaqueResource(opaqueURN+"foo/deep/2", "1"), opaqueResource(opaqueURN+"bar/3", "1"))
			want := []string{opaqueURN + "foo/1"}
			if recursive {
				want = append(want, opaqueURN+"foo/deep/2")
			}
			hasExactly(t, c.Expect(opaque, "the answer comes"), "recursive "+strconv.FormatBool(recursive), want, nil)
			c.WantIdle(quiet)
			c.CheckClean()
			w.first.AwaitMetric(float64(3-len(want)), "the others are counted", "weir_upstream_unrequested_total")
		}
	}},
	{"RELAY-6 RELAY-7", "the first answer of a glob is all of it, in delta as it comes to who holds nothing", func(t *testing.T) {
		w := start(t, setup{scripted: true, config: answersA})
		clients := []*relaytest.Client{w.client(relaytest.Delta), w.client(relaytest.SotW)}
		for _, c := range clients {
			c.Subscribe(opaque, opaqueGlob)
		}
		up := w.origin.ExpectStream("weir asks")
		up.ExpectNames(opaque, "the glob", opaqueGlob)
		for i := range 4 {
			up.Respond(opaque, "1", opaqueResource(opaqueURN+"foo/"+strconv.Itoa(i), "1"))
		}
		for _, c := range clients {
			r := c.Expect(opaque, "it is answered")
			if n := len(r.Names()); n != 4 && c == clients[1] {
				t.Errorf("the first answer is %v, want all four", r.Names())
			}
			c.Await(0, func(s *relaytest.State) bool { return s.Count(opaque) == 4 }, "all of them arrive")
			c.CheckClean()
		}
	}},
	{"DELTA-3 DELTA-9 RELAY-25", "a name beside a glob is answered when named, and when it is named no more", func(t *testing.T) {
		w := start(t, setup{config: answersA})
		one, none := opaqueURN+"foo/1", opaqueURN+"foo/none"
		setOpaque(w.origin, "1", one, opaqueURN+"foo/2")
		c := w.client(relaytest.Delta)
		c.Subscribe(opaque, opaqueGlob)
		c.AwaitNames(opaque, "the members arrive", one, opaqueURN+"foo/2")
		c.Skip()
		c.Subscribe(opaque, one)
		hasExactly(t, c.Expect(opaque, "what is covered is named"), "and answered", []string{one}, nil)
		c.Subscribe(opaque, none)
		hasExactly(t, c.Expect(opaque, "what is not there is named"), "and answered", nil, []string{none})
		setOpaque(w.origin, "2", one)
		hasExactly(t, c.Expect(opaque, "it changes"), "once", []string{one}, nil)
		c.WantIdle(quiet)
		c.Unsubscribe(opaque, one)
		hasExactly(t, c.Expect(opaque, "it is named no more"), "and still covered", []string{one}, nil)
		c.Unsubscribe(opaque, none)
		hasExactly(t, c.Expect(opaque, "neither is the other"), "and still not there", nil, []string{none})
		c.WantIdle(quiet)
		c.CheckClean()
	}},
	{"DELTA-11 DELTA-12", "a client that returns to a glob is told what went, and nothing of what it holds", func(t *testing.T) {
		w := start(t, setup{config: answersA})
		setOpaque(w.origin, "1", opaqueURN+"foo/same", opaqueURN+"foo/changed")
		c := w.client(relaytest.Delta)
		c.Subscribe(opaque, opaqueGlob)
		c.AwaitNames(opaque, "the members arrive", opaqueURN+"foo/same", opaqueURN+"foo/changed")
		held := c.Held(opaque)
		held[opaqueURN+"foo/gone"] = held[opaqueURN+"foo/same"]
		held[opaqueURN+"bar/other"] = held[opaqueURN+"foo/same"]
		setOpaque(w.origin, "2", opaqueURN+"foo/changed")
		again := w.client(relaytest.Delta)
		again.SubscribeWith(opaque, held, opaqueGlob)
		hasExactly(t, again.Expect(opaque, "the difference comes"), "and no more", []string{opaqueURN + "foo/changed"}, []string{opaqueURN + "foo/gone"})
		again.WantIdle(quiet)
		again.CheckClean()
	}},
	{"RELAY-20 RELAY-28 RELAY-25", "members of the wildcard are none of a glob, and the other way round", func(t *testing.T) {
		w := start(t, setup{scripted: true, config: answersA})
		star, glob, both := w.client(relaytest.Delta), w.client(relaytest.Delta), w.client(relaytest.Delta)
		star.Subscribe(opaque, "*")
		main := w.origin.ExpectStream("weir asks for everything")
		main.ExpectType(opaque, "as the legacy wildcard")
		glob.Subscribe(opaque, opaqueGlob)
		both.Subscribe(opaque, "*", opaqueGlob)
		side := w.origin.ExpectStream("and for the glob")
		side.ExpectNames(opaque, "on a stream of its own", opaqueGlob)
		one, two := opaqueURN+"foo/1", opaqueURN+"foo/2"
		main.Respond(opaque, "1", opaqueResource(one, "1"), opaqueResource("x", "1"))
		side.Respond(opaque, "1", opaqueResource(two, "1"))
		star.AwaitNames(opaque, "the wildcard's alone", "x", one)
		glob.AwaitNames(opaque, "the glob's alone", two)
		both.AwaitNames(opaque, "and both", "x", one, two)
		both.Skip()
		side.Respond(opaque, "2", opaqueResource(one, "1"))
		glob.AwaitNames(opaque, "the same one in both", one, two)
		both.WantIdle(quiet)
		main.RespondRemoved(opaque, "2", one)
		star.AwaitNames(opaque, "it goes from one", "x")
		both.WantIdle(quiet)
		side.RespondRemoved(opaque, "3", one)
		hasExactly(t, both.Expect(opaque, "it goes from the other"), "and so for good", nil, []string{one})
		for _, c := range []*relaytest.Client{star, glob, both} {
			c.CheckClean()
		}
	}},
	{"RELAY-41 RELAY-45 RELAY-46 RELAY-91", "virtual: a glob over a reconnect resumes by the versions of its members, or is swept", func(t *testing.T) {
		virtual(t, "../../../relay", "TestScripts/globs_away")
	}},
	{"RELAY-6 RELAY-7 COLL-3", "virtual: a glob settles as the wildcard does, an empty one by what is stated", func(t *testing.T) {
		virtual(t, "../../../relay", "TestScripts/globs")
		virtual(t, "../../../relay", "TestScripts/globs_empty")
	}},
	{"ABS-12", "an error of the glob's name reaches who asked for the glob, and nobody else", func(t *testing.T) {
		w := start(t, setup{scripted: true, config: answersA})
		glob, name, sotw := w.client(relaytest.Delta), w.client(relaytest.Delta), w.client(relaytest.SotW)
		one := opaqueURN + "foo/1"
		glob.Subscribe(opaque, opaqueGlob)
		up := w.origin.ExpectStream("weir asks")
		up.ExpectNames(opaque, "the glob", opaqueGlob)
		name.Subscribe(opaque, one)
		up.ExpectNames(opaque, "and the name", one)
		sotw.Subscribe(opaque, opaqueGlob)
		up.Respond(opaque, "1", opaqueResource(one, "1"))
		for _, c := range []*relaytest.Client{glob, name, sotw} {
			c.AwaitNames(opaque, "the member arrives", one)
		}
		faults(up, opaque, "2", codes.Unavailable, []string{opaqueGlob})
		for _, c := range []*relaytest.Client{glob, sotw} {
			c.Await(0, func(s *relaytest.State) bool {
				e := s.Error(opaque, opaqueGlob)
				return e != nil && e.Code == int32(codes.Unavailable) && s.Count(opaque) == 1
			}, "the collection is in error, and its member stays")
			c.Skip()
		}
		name.Skip()
		name.WantIdle(quiet)
		faults(up, opaque, "3", codes.Internal, []string{one})
		for _, c := range []*relaytest.Client{glob, name, sotw} {
			c.Await(0, func(s *relaytest.State) bool {
				e := s.Error(opaque, one)
				return e != nil && e.Code == int32(codes.Internal) && s.Count(opaque) == 1
			}, "an error of the member is the member's")
			c.CheckClean()
		}
	}},
}
