package conformance

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// answersA has the origin asked for the names of authority a.
func answersA(c weirtest.Config) {
	settleFast(c)
	c.Origin().Set("authorities", []any{"a"})
}

const opaqueURN = "xdstp://a/example.test.v1.Opaque/"

var deltaSpellingCases = []testCase{
	{"DELTA-17 NAME-4 NAME-5 NAME-6 NAME-9", "a name that is written in several ways is one, and keeps the origin's spelling", func(t *testing.T) {
		w := start(t, setup{scripted: true, config: answersA})
		const (
			asked  = opaqueURN + "x?b=2&a=1"
			other  = opaqueURN + "%78?%61=1&b=2&a=7"
			origin = opaqueURN + "x?a=%31&b=2"
			less   = opaqueURN + "x?a=1"
		)
		d, s := w.client(relaytest.Delta), w.client(relaytest.SotW)
		d.Subscribe(opaque, asked)
		up := w.origin.ExpectStream("weir asks")
		up.ExpectNames(opaque, "as the client wrote it", asked)
		heardOf := func(c *relaytest.Client) { // a later name is asked, so this one is not
			t.Helper()
			up.ExpectNames(opaque, "nothing else is asked", less)
			up.RespondRemoved(opaque, "1", less)
		}
		s.Subscribe(opaque, other, less)
		heardOf(s)
		up.Respond(opaque, "1", opaqueResource(origin, "1"))
		hasExactly(t, d.Expect(opaque, "it arrives"), "under the origin's name", []string{origin}, nil)
		for {
			r := s.Expect(opaque, "it arrives here too")
			if len(r.Names()) > 0 {
				hasExactly(t, r, "under the origin's name", []string{origin}, nil)
				break
			}
			if len(r.Errors()) != 1 || r.Errors()[0].GetResourceName().GetName() != less {
				t.Errorf("other context parameters are another name, which does not exist: %v", r)
			}
		}
		var version string
		d.Look(func(s *relaytest.State) {
			all := s.Responses(opaque)
			version = all[len(all)-1].Items[0].Version
		})
		for name, versions := range map[string]map[string]string{
			asked: {asked: version}, other: {asked: version}, origin: {other: version},
		} {
			d.Open(relaytest.Node("client-1", "edge"))
			d.SubscribeWith(opaque, versions, name)
			d.WantIdle(quiet)
		}
		d.Subscribe(opaque, other)
		hasExactly(t, d.Expect(opaque, "the same name again is answered (DELTA-2)"), "once", []string{origin}, nil)
		up.RespondRemoved(opaque, "2", other)
		d.Await(0, func(s *relaytest.State) bool {
			return s.Absent(opaque, asked) || s.Absent(opaque, other) || s.Absent(opaque, origin)
		}, "what goes is removed, however it is written")
		d.WantIdle(quiet)
		d.CheckClean()
		s.CheckClean()
	}},
	{"DELTA-17 NAME-1 NAME-4", "members of the wildcard go by the origin's spelling, and what they mean", func(t *testing.T) {
		w := start(t, setup{config: answersA})
		const (
			odd, even    = opaqueURN + "odd?b=2&a=1", opaqueURN + "even?b=2&a=1"
			odd2, even2  = opaqueURN + "odd?a=1&b=2", opaqueURN + "even?a=1&b=2"
			old, old2    = "a?b=2&a=1", "a?a=1&b=2"
			glob, unread = "foo/*", "xdstp:what is this"
		)
		setOpaque(w.origin, "1", odd, even, old, glob, unread)
		c := w.client(relaytest.Delta)
		c.Subscribe(opaque, "*")
		c.AwaitNames(opaque, "the set arrives as it is named", old, glob, unread, even, odd)
		held := c.Held(opaque)
		c.Subscribe(opaque, glob)
		hasExactly(t, c.Expect(opaque, "without the scheme a star is a letter"), "of a plain name", []string{glob}, nil)
		w.origin.Remove(opaque, odd)
		hasExactly(t, c.Expect(opaque, "one goes"), "under the name it came", nil, []string{odd})

		again := w.client(relaytest.Delta)
		again.SubscribeWith(opaque, map[string]string{
			odd2: held[odd], even2: held[even], old2: held[old], glob: held[glob], unread: held[unread],
		}, "*")
		r := again.Expect(opaque, "a client returns with names in another spelling")
		hasExactly(t, r, "which only matters for names of the old style", []string{old}, []string{odd2, old2})
		again.WantIdle(quiet)
		c.CheckClean()
		again.CheckClean()
	}},
	{"NAME-1 NAME-2 NAME-3", "an xdstp name that cannot be one is refused alone, and never asked", func(t *testing.T) {
		w := start(t, setup{config: answersA})
		good := opaqueURN + "x"
		setOpaque(w.origin, "1", good, "y")
		for _, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			c := w.client(dialect)
			want := map[string]codes.Code{
				opaqueURN + "x#entry=y": codes.InvalidArgument, opaqueURN + "%": codes.InvalidArgument, "xdstp:": codes.InvalidArgument,
				"xdstp://a/x":               codes.InvalidArgument,
				"xdstp://a/example.Other/x": codes.InvalidArgument, "xdstp://b/example.test.v1.Opaque/x": codes.FailedPrecondition,
			}
			names := []string{good, "y"}
			for name := range want {
				names = append(names, name)
			}
			c.Subscribe(opaque, names...)
			c.AwaitNames(opaque, "the good ones are served", "y", good)
			c.Await(0, func(s *relaytest.State) bool {
				for name, code := range want {
					if e := s.Error(opaque, name); e == nil || e.Code != int32(code) || s.Absent(opaque, name) {
						return false
					}
				}
				return true
			}, "each of the others is in error, and none is removed")
			c.WantIdle(quiet)
			c.CheckClean()
		}
		for _, r := range w.origin.Requests() {
			for _, name := range r.Names() {
				if name != good && name != "y" {
					t.Errorf("the origin was asked for %q", name)
				}
			}
		}
	}},
}
