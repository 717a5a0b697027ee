package conformance

import (
	"slices"
	"strings"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var dynShareCases = []testCase{
	{"RELAY-69", "maps that one live variant serves are one subscription where the origin is trusted so far, and each its own where it is not", sharing},
	{"RELAY-69 DYN-13", "maps do not share before there is an answer, on an absence, for sets and globs, nor what is not to be cached", notShared},
	{"RELAY-71", "the representative leaves: another is asked for before it is taken back, and nobody is told anything", representative},
	{"RELAY-70 RELAY-69", "a split moves a sharer from old to new without a removal between: it is asked for itself first", splitOfSharers},
}

// shares has every weir of a row share subscriptions.
func shares(c weirtest.Config) {
	tp2(c)
	c.Origin().Set("share", true)
	c.Set("cache.linger", "100ms")
}

func sharing(t *testing.T) {
	for _, share := range []bool{false, true} {
		w := start(t, setup{scripted: true, config: func(c weirtest.Config) {
			tp2(c)
			c.Origin().Set("share", share)
		}})
		first := w.seeker(relaytest.Delta)
		first.seek(eds, "n{env=prod,i=0}")
		s := w.upstream(eds, "the first map is asked", "n{env=prod,i=0}")
		s.Respond(eds, "1", variant{when("env=prod"), "1"}.of(eds, "n"))
		first.has(eds, "n{env=prod,i=0}", "1", "it arrives")
		want := []string{"n{env=prod,i=0}"}
		all := []*seeker{first}
		for _, i := range []string{"1", "2", "3"} {
			c := w.seeker(relaytest.SotW)
			c.seek(eds, "n{env=prod,i="+i+"}")
			c.has(eds, "n{env=prod,i="+i+"}", "1", "others are served at once")
			all = append(all, c)
			if !share {
				want = append(want, "n{env=prod,i="+i+"}")
			}
		}
		first.WantIdle(quiet)
		s = w.upstream(eds, "as many are asked as there have to be", want...)
		s.Respond(eds, "2", variant{when("env=prod"), "2"}.of(eds, "n"))
		for i, c := range all {
			c.has(eds, "n{env=prod,i="+string(rune('0'+i))+"}", "2", "a change reaches them all")
			c.CheckClean()
		}
	}
}

func notShared(t *testing.T) {
	w := start(t, setup{scripted: true, config: func(c weirtest.Config) { shares(c); answersA(c) }})
	glob := opaqueURN + "foo/*"
	first, second := w.seeker(relaytest.Delta), w.seeker(relaytest.Delta)
	ask := func(i string) []string {
		return []string{"early{i=" + i + "}", "absent{i=" + i + "}", "secretive{i=" + i + "}", glob + "{i=" + i + "}"}
	}
	first.seek(opaque, ask("0")...)
	first.seek(cds, "*{i=0}")
	s := w.upstream(opaque, "the first map is asked", ask("0")...)
	w.upstream(cds, "and its set", "*{i=0}")
	s.Respond(cds, "1", variant{nil, "1"}.of(cds, "in-the-set"))
	first.has(cds, "in-the-set{i=0}", "1", "what there is arrives")
	hidden := variant{nil, "1"}.of(opaque, "secretive")
	hidden.DoNotCache = true
	s.Respond(opaque, "1", hidden, variant{nil, "1"}.of(opaque, opaqueURN+"foo/1"))
	first.has(opaque, "secretive{i=0}", "1", "what there is arrives")
	replacing(s, opaque, "2", "absent", when("i=0"))
	second.seek(opaque, ask("1")...)
	second.seek(cds, "*{i=1}")
	w.upstream(opaque, "the second map is asked for each of them", slices.Concat(ask("0"), ask("1"))...)
	w.upstream(cds, "and its set", "*{i=0}", "*{i=1}")
	first.CheckClean()
	second.CheckClean()
}

func representative(t *testing.T) {
	w := start(t, setup{scripted: true, config: shares})
	first, second := w.seeker(relaytest.Delta), w.seeker(relaytest.SotW)
	first.seek(eds, "n{env=prod,i=0}")
	s := w.upstream(eds, "the first map is asked", "n{env=prod,i=0}")
	s.Respond(eds, "1", variant{when("env=prod"), "1"}.of(eds, "n"))
	first.has(eds, "n{env=prod,i=0}", "1", "it arrives")
	second.seek(eds, "n{env=prod,i=1}")
	second.has(eds, "n{env=prod,i=1}", "1", "the second shares it")
	second.WantIdle(quiet / 2)
	w.upstream(eds, "and is not asked for", "n{env=prod,i=0}")
	first.Cancel()
	s = w.upstream(eds, "the second takes its place", "n{env=prod,i=1}")
	asked := false
	for _, r := range s.Requests() {
		for _, l := range r.Delta.GetResourceLocatorsSubscribe() {
			asked = asked || relaytest.LocatorKey(l) == "n{env=prod,i=1}"
		}
		if len(r.Delta.GetResourceLocatorsUnsubscribe()) > 0 && !asked {
			t.Errorf("%v takes the old one back before the new one is asked", r)
		}
	}
	s.Respond(eds, "2", variant{when("env=prod"), "2"}.of(eds, "n"))
	second.has(eds, "n{env=prod,i=1}", "2", "and is followed")
	second.got(eds, "n{env=prod,i=1}", "1", "2")
	second.CheckClean()
}

func splitOfSharers(t *testing.T) {
	w := start(t, setup{scripted: true, config: shares})
	first, second := w.seeker(relaytest.Delta), w.seeker(relaytest.Delta)
	first.seek(eds, "n{env=prod,i=0}")
	s := w.upstream(eds, "the first map is asked", "n{env=prod,i=0}")
	s.Respond(eds, "1", variant{when("env=prod"), "whole"}.of(eds, "n"))
	first.has(eds, "n{env=prod,i=0}", "whole", "it arrives")
	second.seek(eds, "n{env=prod,i=1}")
	second.has(eds, "n{env=prod,i=1}", "whole", "the second shares it")
	second.WantIdle(quiet / 2)
	w.upstream(eds, "and is not asked for", "n{env=prod,i=0}")
	replacing(s, eds, "2", "n", when("env=prod"), variant{when("env=prod,i=0"), "half-0"}.of(eds, "n"))
	first.has(eds, "n{env=prod,i=0}", "half-0", "the representative has another in its place")
	s = w.upstream(eds, "the sharer is asked for itself", "n{env=prod,i=0}", "n{env=prod,i=1}")
	s.Respond(eds, "3", variant{when("env=prod,i=1"), "half-1"}.of(eds, "n"))
	second.has(eds, "n{env=prod,i=1}", "half-1", "and has its own")
	second.WantIdle(quiet)
	if got := strings.Join(told(second.Responses(eds), "n{env=prod,i=1}"), ", "); got != "whole, half-1" {
		t.Errorf("it was served %s", got)
	}
	first.CheckClean()
	second.CheckClean()
}
