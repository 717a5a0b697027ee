package conformance

import (
	"slices"
	"strings"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var dynChoiceCases = []testCase{
	{
		"RELAY-68 RELAY-72 DYN-8 DYN-3",
		"one locator for a map, however many ask; whom a live variant matches is served it at once, and asked for all the same",
		perDialect(oneLocator),
	},
	{"DYN-5", "variants of one name change on their own", perDialect(onTheirOwn)},
	{"DYN-6 DYN-7", "equal constraints in another spelling are the same variant", anotherSpelling},
	{"DYN-9", "variants that overlap: every replica chooses the most specific one, counts it and says so", perDialect(overlap)},
	{"DYN-8 DYN-13", "what one map is told to be absent says nothing about another", perDialect(absentForOne)},
	{"RELAY-72 DYN-12", "a variant for all that came by a plain name serves who asks by locator, and the other way round", byEitherName},
}

func oneLocator(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{scripted: true, config: tp2})
	first, second := w.seeker(d), w.seeker(d)
	first.seek(eds, "n{env=prod}")
	second.seek(eds, "n{env=prod}")
	s := w.upstream(eds, "the map is asked", "n{env=prod}")
	s.Respond(eds, "1", variant{when("env=prod"), "1"}.of(eds, "n"))
	first.has(eds, "n{env=prod}", "1", "the first is served")
	second.has(eds, "n{env=prod}", "1", "so is the second")
	third := w.seeker(d)
	third.seek(eds, "n{env=prod,zone=a}")
	third.has(eds, "n{env=prod,zone=a}", "1", "the live variant matches the third, and the origin has not said a word")
	w.upstream(eds, "its map is asked, too", "n{env=prod}", "n{env=prod,zone=a}")
	fourth := w.seeker(d)
	fourth.seek(eds, "n{env=test}")
	s = w.upstream(eds, "and one that nothing matches", "n{env=prod}", "n{env=prod,zone=a}", "n{env=test}")
	s.Respond(eds, "2", variant{when("env=prod"), "2"}.of(eds, "n"))
	for _, c := range []*seeker{first, second} {
		c.has(eds, "n{env=prod}", "2", "a change reaches all whom it matches")
	}
	third.has(eds, "n{env=prod,zone=a}", "2", "a change reaches all whom it matches")
	fourth.WantIdle(quiet) // a miss is not absence
	for want, n := range w.origin.Asked(eds).Subscribed {
		if n != 1 {
			t.Errorf("%s was asked %d times", want, n)
		}
	}
	for _, c := range []*seeker{first, second, third, fourth} {
		c.CheckClean()
	}
}

func onTheirOwn(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{scripted: true, config: tp2})
	c, other := w.seeker(d), w.seeker(d)
	c.seek(eds, "n{env=prod}")
	other.seek(eds, "n{env=test}")
	s := w.upstream(eds, "both maps are asked", "n{env=prod}", "n{env=test}")
	prod, test := variant{when("env=prod"), "prod-1"}, variant{when("env=test"), "test-1"}
	s.Respond(eds, "1", prod.of(eds, "n"), test.of(eds, "n"))
	c.has(eds, "n{env=prod}", "prod-1", "each has its own")
	other.has(eds, "n{env=test}", "test-1", "each has its own")
	prod.label = "prod-2"
	s.Respond(eds, "2", prod.of(eds, "n"), test.of(eds, "n"))
	c.has(eds, "n{env=prod}", "prod-2", "one changes")
	other.WantIdle(quiet)
	c.got(eds, "n{env=prod}", "prod-1", "prod-2")
	for _, r := range c.Responses(eds) {
		for _, i := range r.Items {
			if strings.HasPrefix(labelOf(i.Body), "test") {
				t.Errorf("%v has a variant of another map", r)
			}
		}
	}
	c.CheckClean()
	other.CheckClean()
}

func anotherSpelling(t *testing.T) {
	w := start(t, setup{scripted: true, config: tp2})
	c, late := w.seeker(relaytest.Delta), w.seeker(relaytest.SotW)
	c.seek(eds, "n{env=prod,zone=a}")
	s := w.upstream(eds, "the map is asked", "n{env=prod,zone=a}")
	one := relaytest.And(relaytest.Is("env", "prod"), relaytest.Is("zone", "a"))
	other := relaytest.And(relaytest.Is("zone", "a"), relaytest.And(relaytest.Not(relaytest.Not(relaytest.Is("env", "prod"))), relaytest.Is("zone", "a")))
	s.ExpectACK(eds, s.Respond(eds, "1", variant{one, "same"}.of(eds, "n")), "a variant is accepted")
	c.has(eds, "n{env=prod,zone=a}", "same", "it arrives")
	c.Skip()
	s.ExpectACK(eds, s.Respond(eds, "2", variant{other, "same"}.of(eds, "n")), "the other spelling is accepted")
	c.WantIdle(quiet)
	late.seek(eds, "n{zone=a,env=prod}")
	late.has(eds, "n{env=prod,zone=a}", "same", "there is one")
	replacing(s, eds, "3", "n", one)
	c.has(eds, "n{env=prod,zone=a}", "", "it goes by either spelling")
	c.got(eds, "n{env=prod,zone=a}", "same", "")
	c.CheckClean()
	late.CheckClean()
}

func overlap(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{scripted: true, config: tp2})
	variants := []variant{
		{when("env=prod"), "by-env"},
		{relaytest.And(relaytest.Has("env"), relaytest.Is("zone", "a")), "by-both"},
		{relaytest.Or(relaytest.Is("zone", "a"), relaytest.Is("env", "prod")), "by-either"},
		{nil, "all"},
	}
	var served []string
	for replica := range 2 {
		if replica == 1 { // which is told in the reverse order
			file := weirtest.NewConfig(w.origin.Net().Addr(), relaytest.Delta).Set("instance", "replica")
			tp2(file)
			w.weir = weirtest.Start(t, file)
			w.first = w.weir
			slices.Reverse(variants)
		}
		c := w.seeker(d)
		c.seek(eds, "n{env=prod,zone=a}")
		s := w.origin.ExpectStream("weir asks")
		s.ExpectType(eds, "for the map")
		var rs []relaytest.Resource
		for _, v := range variants {
			rs = append(rs, v.of(eds, "n"))
		}
		s.ExpectACK(eds, s.Respond(eds, "1", rs...), "an overlap is no reason to refuse")
		c.Await(0, func(st *relaytest.State) bool { return len(told(st.Responses(eds), "n{env=prod,zone=a}")) > 0 }, "one is chosen")
		c.WantIdle(quiet)
		served = append(served, strings.Join(told(c.Responses(eds), "n{env=prod,zone=a}"), ", then "))
		if n, _ := w.first.Metric("weir_variant_ambiguity_total"); n < 1 {
			t.Error("it is not counted")
		}
		if !strings.Contains(w.first.Output(), "several variants of one name match the same parameters") {
			t.Error("the log does not say so")
		}
		c.CheckClean()
	}
	if served[0] != served[1] || served[0] != "by-both" && served[0] != "by-either" {
		t.Errorf("the replicas chose %q, want one of those with two keys, and the same", served)
	}
}

func absentForOne(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{scripted: true, config: tp2})
	c, other := w.seeker(d), w.seeker(d)
	c.seek(eds, "n{env=prod}")
	other.seek(eds, "n{env=test}")
	s := w.upstream(eds, "both maps are asked", "n{env=prod}", "n{env=test}")
	replacing(s, eds, "1", "n", when("env=prod"))
	other.WantIdle(quiet) // the origin has not spoken of this one
	other.Look(func(st *relaytest.State) {
		if st.Absent(eds, "n") || st.Error(eds, "n") != nil {
			t.Error("the other map is told that there is nothing")
		}
	})
	s.Respond(eds, "2", variant{when("env=test"), "test"}.of(eds, "n"))
	other.has(eds, "n{env=test}", "test", "until it is")
	s.Respond(eds, "3", variant{when("env=prod"), "prod"}.of(eds, "n"))
	c.has(eds, "n{env=prod}", "prod", "the absent one comes into being")
	other.WantIdle(quiet)
	c.got(eds, "n{env=prod}", "prod")
	other.got(eds, "n{env=test}", "test")
	c.CheckClean()
	other.CheckClean()
}

func byEitherName(t *testing.T) {
	w := start(t, setup{scripted: true, config: tp2})
	plain, located := w.seeker(relaytest.Delta), w.seeker(relaytest.SotW)
	plain.seek(eds, "n")
	s := w.upstream(eds, "the plain name is asked", "n")
	s.Respond(eds, "1", variant{nil, "1"}.of(eds, "n"))
	plain.has(eds, "n", "1", "it is served")
	located.seek(eds, "n{env=prod}")
	located.has(eds, "n{env=prod}", "1", "so is the locator, at once")
	s = w.upstream(eds, "and asked", "n", "n{env=prod}")
	s.Respond(eds, "2", relaytest.Resource{Name: "n", Version: "2", Body: labelled(eds, "n", "2"), Constraints: new(constraint)})
	plain.has(eds, "n", "2", "one that comes with empty constraints is the same")
	located.has(eds, "n{env=prod}", "2", "for both")
	plain.got(eds, "n", "1", "2")
	located.got(eds, "n{env=prod}", "1", "2")
	plain.CheckClean()
	located.CheckClean()
}
