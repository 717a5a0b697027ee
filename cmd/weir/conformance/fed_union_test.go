package conformance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// soon gives up on an origin that cannot be reached after a second.
func soon(c weirtest.Config) { c.Set("timing.cold_wait", "1s") }

var fedUnionCases = []testCase{
	{"FED-5 SOTW-2", "the wildcard and a cluster of another origin are one set, and changes of either arrive", perDialect(
		func(t *testing.T, d relaytest.Dialect) {
			f := federate(t, setup{})
			far := urn("east", cds, "far")
			setAny(f.origin, cds, "1", "near", "other")
			setAny(f.east, cds, "1", far)
			c := f.client(d)
			c.Subscribe(cds, "*", far)
			c.AwaitNames(cds, "both origins' clusters are there", "near", "other", far)
			if d == relaytest.SotW {
				for _, r := range c.Responses(cds) {
					if !slices.Contains(r.Names(), "near") || !slices.Contains(r.Names(), far) {
						t.Errorf("a response is only a part: %v", r)
					}
				}
			}
			setAny(f.east, cds, "2", far)
			c.Await(0, func(s *relaytest.State) bool {
				return s.Body(cds, far) == string(bodyOf(cds, far, "2").Value) && s.Count(cds) == 3
			}, "a change of the one, with all that is of the other")
			f.origin.Remove(cds, "other")
			c.AwaitNames(cds, "a removal at the other", "near", far)
			f.east.Remove(cds, far)
			c.AwaitNames(cds, "and here", "near")
			f.origin.Remove(cds, "near")
			c.AwaitNames(cds, "until nothing is left")
			c.CheckClean()
		})},
	{"FED-5", "the second origin is dead: a fresh client gets the first's clusters, a returning one loses nothing", perDialect(
		func(t *testing.T, d relaytest.Dialect) {
			before := federate(t, setup{})
			far := urn("east", cds, "far")
			setAny(before.origin, cds, "1", "near")
			setAny(before.east, cds, "1", far)
			held := before.client(d)
			held.Subscribe(cds, "*", far)
			held.AwaitNames(cds, "a client holds both", "near", far)

			f := federate(t, setup{config: soon}, func(f *federation) { f.east.Stop() })
			setAny(f.origin, cds, "1", "near")
			fresh := f.client(d)
			fresh.Subscribe(cds, "*", far)
			fresh.AwaitNames(cds, "what is there", "near")
			back := f.client(d)
			returning(back, held, d, cds, "*", far)
			if d == relaytest.Delta { // in SotW a list would be without it
				hasExactly(t, back.Expect(cds, "the wildcard is answered"), "with nothing", nil, nil)
			}
			back.WantIdle(2 * time.Second)
			setAny(f.east, cds, "1", far)
			f.east.Start()
			fresh.AwaitNames(cds, "the other joins when it is back", "near", far)
			f.origin.Set(cds, "new", "1", bodyOf(cds, "new", "1"))
			back.Await(0, func(s *relaytest.State) bool { return s.Held(cds)["new"] != "" }, "and the returning client goes on")
			fresh.AwaitNames(cds, "with both", "near", "new", far)
			if d == relaytest.SotW {
				back.AwaitNames(cds, "with both", "near", "new", far)
			}
			fresh.CheckClean()
		})},
	{"FED-5 FED-1 RELAY-8", "a wildcard, names and a glob see exactly their own; one origin down blocks only its own names", perDialect(func(t *testing.T, d relaytest.Dialect) {
		f := federate(t, setup{config: soon})
		east, west := func(id string) string { return urn("east", opaque, id) }, func(id string) string { return urn("west", opaque, id) }
		setOpaque(f.origin, "1", "a")
		setOpaque(f.east, "1", east("a"), east("g/a"))
		setOpaque(f.west, "1", west("a"), west("g/a"))
		wild, named, glob := f.client(relaytest.Delta), f.client(d), f.client(d)
		glob.Subscribe(opaque, east("g/*"))
		glob.AwaitNames(opaque, "a client of a glob sees its members", east("g/a"))
		wild.Subscribe(opaque)
		wild.AwaitNames(opaque, "a wildcard client sees the default's", "a")
		named.Subscribe(opaque, "a", east("a"), west("a"))
		named.AwaitNames(opaque, "one that names sees what it names", "a", east("a"), west("a"))
		f.east.Stop()
		setOpaque(f.origin, "2", "a", "b")
		setOpaque(f.west, "2", west("a"), west("b"))
		wild.AwaitNames(opaque, "the wildcard goes on", "a", "b")
		glob.Subscribe(opaque, "b")
		glob.AwaitNames(opaque, "and what the glob's client names elsewhere, while it keeps its members", "b", east("g/a"))
		named.Subscribe(opaque, "b", east("b"), west("b"))
		named.Await(0, func(s *relaytest.State) bool {
			return s.Count(opaque) == 5 && s.Body(opaque, "a") == string(relaytest.Opaque("a", "2").Value) &&
				s.Body(opaque, west("a")) == string(relaytest.Opaque(west("a"), "2").Value)
		}, "the others go on, and of the dead one everything stays")
		refusedWith(t, named, opaque, east("b"), codes.Unavailable)
		setOpaque(f.east, "2", east("b"), east("g/b"))
		f.east.Start()
		glob.AwaitNames(opaque, "its members come and change again", "b", east("g/a"), east("g/b"))
		named.AwaitNames(opaque, "it is back", "a", "b", east("a"), east("b"), west("a"), west("b"))
		wild.AwaitNames(opaque, "and in no wildcard", "a", "b")
		wild.CheckClean()
		named.CheckClean()
		glob.CheckClean()
	})},
	{"STREAM-10", "a response is signed with the control plane that all of it is from", func(t *testing.T) {
		f := federate(t, setup{})
		for who, o := range map[string]*relaytest.Origin{"plane": f.origin, "east": f.east} {
			o.Behave(func(b *relaytest.Behaviour) { b.Identifier = who })
		}
		setOpaque(f.origin, "1", "a")
		setOpaque(f.east, "1", urn("east", opaque, "a"))
		c := f.client(relaytest.Delta)
		for name, who := range map[string]string{"a": "plane;weir=", urn("east", opaque, "a"): "east;weir="} {
			c.Subscribe(opaque, name)
			if r := c.Expect(opaque, "the name is answered"); !strings.HasPrefix(r.Identifier(), who) {
				t.Errorf("%s is signed %q, want %q...", name, r.Identifier(), who)
			}
		}
		c.CheckClean()
	}},
	{"SOTW-11 DELTA-20 WILD-10", "a name that one origin has in its wildcard and another is asked for is told once, as of the latter", perDialect(
		func(t *testing.T, d relaytest.Dialect) {
			f := federate(t, setup{})
			both := urn("east", cds, "both")
			setAny(f.origin, cds, "1", "near", both)
			setAny(f.east, cds, "2", both)
			c := f.client(d)
			c.Subscribe(cds, "*", both)
			c.AwaitNames(cds, "all is there", "near", both)
			east := func(version string) func(*relaytest.State) bool {
				return func(s *relaytest.State) bool { return s.Body(cds, both) == string(bodyOf(cds, both, version).Value) }
			}
			c.Await(0, east("2"), "the named one wins")
			c.Skip()
			setAny(f.origin, cds, "3", both)
			c.WantIdle(quiet)
			setAny(f.east, cds, "4", both)
			c.Await(0, east("4"), "and goes on")
			f.east.Remove(cds, both)
			c.Await(0, east("3"), "when it goes the wildcard's stands")
			f.origin.Remove(cds, both)
			c.AwaitNames(cds, "and then nothing does", "near")
			c.CheckClean()
		})},
	{
		"FED-5 SOTW-9 SOTW-11 DELTA-20 EC-2 RELAY-7 RELAY-8 WILD-10", "virtual: lists and names of several origins, away and back",
		func(t *testing.T) {
			for _, name := range []string{"delta", "globs", "names", "star", "whole"} {
				virtual(t, "../../../downstream", "TestScripts/origins_"+name)
			}
		},
	},
	{"ORD-1 ORD-2 ORD-3 ORD-4 RELAY-84 WARM-1 WARM-2 WARM-3", "virtual: order and warming hold across origins", func(t *testing.T) {
		virtual(t, "../../../downstream", "TestScripts/origins_order")
	}},
	{"EC-2 EC-4 SOTW-11 DELTA-20", "virtual: random worlds of three origins converge", func(t *testing.T) {
		virtual(t, "../../../relay/cursor", "TestModel")
	}},
	{"RELAY-67", "virtual: a group that cannot be had at another origin costs its names alone", func(t *testing.T) {
		virtual(t, "../../../downstream", "TestGroupsOfOthers")
	}},
}
