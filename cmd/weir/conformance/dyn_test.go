package conformance

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// dynCases are about dynamic parameters: section 12, and what the relay adds to it.
var dynCases = slices.Concat(
	dynFormCases, dynTableCases, dynChoiceCases, dynSplitCases, dynNodeCases, dynLimitCases, dynOriginCases, dynKeepCases,
)

var dynFormCases = []testCase{
	{
		"DYN-1 DYN-2 DYN-4 DYN-7 DYN-15 DYN-16 WILD-6 SOTW-13",
		"plain names and locators in one request: each in the form it was asked, with the origin's constraints; nothing else comes",
		inBoth(eachForm),
	},
	{"DYN-19 DYN-2", "another map is another subscription, and the old one stays until it is taken back", perDialect(anotherMap)},
	{"DYN-14 DYN-13", "a removal has the form in which the variant was sent, and is about nobody else", removalForms},
}

// eachForm: the origin answers with two variants of one name in one response.
func eachForm(t *testing.T, origin relaytest.Dialect) {
	for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
		t.Run(string(d), func(t *testing.T) { eachFormTo(t, origin, d) })
	}
}

func eachFormTo(t *testing.T, origin, d relaytest.Dialect) {
	w := start(t, setup{scripted: true, sotw: origin == relaytest.SotW, config: tp2})
	c := w.seeker(d)
	plain := "m"
	if d == relaytest.SotW {
		plain = "p" // one resource in both forms would be twice in one list (SOTW-11)
	}
	c.seek(eds, plain, "n{env=prod}", "n{env=test}", "m{env=prod}")
	s := w.upstream(eds, "all of it is asked", plain, "n{env=prod}", "n{env=test}", "m{env=prod}")
	prod, test := variant{when("env=prod"), "prod"}, variant{relaytest.And(when("env=test")), "test"}
	all := variant{nil, "all"}
	s.ExpectACK(eds, s.Respond(eds, "1", prod.of(eds, "n"), test.of(eds, "n"), all.of(eds, "m"), all.of(eds, "p")), "two variants are no duplicate")
	c.has(eds, "n{env=prod}", "prod", "each map has its variant")
	c.has(eds, "n{env=test}", "test", "each map has its variant")
	c.has(eds, plain, "all", "a plain name has the one for all")
	c.has(eds, "m{env=prod}", "all", "and so has a map that nothing constrains")
	constraints := map[string]*constraint{"prod": prod.when, "test": test.when, "all": nil}
	for _, r := range c.Responses(eds) {
		for _, i := range r.Items {
			if want := constraints[labelOf(i.Body)]; i.HasLocator && !(want == nil && proto.Size(i.Constraints) == 0) && !proto.Equal(i.Constraints, want) {
				t.Errorf("%s came with the constraints %v, want the origin's, %v", i.Name, i.Constraints, want)
			}
			if d == relaytest.SotW && i.Wrapped != i.HasLocator {
				t.Errorf("%s came wrapped: %v, by locator: %v", i.Key, i.Wrapped, i.HasLocator)
			}
		}
	}
	for _, r := range w.origin.Requests() {
		if r.TypeURL() == eds && slices.Contains(r.Names(), "*") {
			t.Errorf("%v asks for everything", r)
		}
	}
	c.WantIdle(quiet)
	c.CheckClean()
}

func anotherMap(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{scripted: true, config: func(c weirtest.Config) { tp2(c); c.Set("cache.linger", "100ms") }})
	c := w.seeker(d)
	c.seek(eds, "n{env=prod}")
	s := w.upstream(eds, "the first map is asked", "n{env=prod}")
	prod, test := variant{when("env=prod"), "prod-1"}, variant{when("env=test"), "test-1"}
	s.Respond(eds, "1", prod.of(eds, "n"))
	c.has(eds, "n{env=prod}", "prod-1", "it is answered")
	c.seek(eds, "n{env=test}")
	s = w.upstream(eds, "the second beside it", "n{env=prod}", "n{env=test}")
	s.Respond(eds, "2", test.of(eds, "n"))
	c.has(eds, "n{env=test}", "test-1", "so is this one")
	prod.label, test.label = "prod-2", "test-2"
	s.Respond(eds, "3", prod.of(eds, "n"), test.of(eds, "n"))
	c.has(eds, "n{env=prod}", "prod-2", "both are followed")
	c.has(eds, "n{env=test}", "test-2", "both are followed")
	c.leave(eds, "n{env=prod}")
	s = w.upstream(eds, "the first is taken back", "n{env=test}")
	prod.label, test.label = "prod-3", "test-3"
	s.Respond(eds, "4", prod.of(eds, "n"), test.of(eds, "n"))
	c.has(eds, "n{env=test}", "test-3", "the second goes on")
	c.got(eds, "n{env=prod}", "prod-1", "prod-2")
	c.got(eds, "n{env=test}", "test-1", "test-2", "test-3")
	c.CheckClean()
}

func removalForms(t *testing.T) {
	w := start(t, setup{scripted: true, config: tp2})
	located, both := w.seeker(relaytest.Delta), w.seeker(relaytest.Delta)
	located.seek(eds, "n{env=prod}")
	both.seek(eds, "n", "n{env=test}")
	s := w.upstream(eds, "all of it is asked", "n", "n{env=prod}", "n{env=test}")
	prod, rest := variant{when("env=prod"), "prod"}, variant{nil, "rest"}
	s.ExpectACK(eds, s.Respond(eds, "1", prod.of(eds, "n"), rest.of(eds, "n")), "both variants are accepted")
	located.has(eds, "n{env=prod}", "prod", "the more specific one is chosen") // DYN-9
	both.has(eds, "n", "rest", "the other in plain form")
	both.has(eds, "n{env=test}", "rest", "and as a locator")
	located.Skip()

	s.ExpectACK(eds, s.RespondRemoved(eds, "2", "n"), "the plain removal is accepted")
	both.has(eds, "n", "", "the variant without constraints goes")
	both.has(eds, "n{env=test}", "", "in either form")
	both.Skip()
	located.WantIdle(quiet) // DYN-13: the removal of what it has must name its constraints

	s.ExpectACK(eds, replacing(s, eds, "3", "n", prod.when), "and so is the one by constraints")
	located.has(eds, "n{env=prod}", "", "the variant whose constraints are named goes")
	both.WantIdle(quiet)
	located.got(eds, "n{env=prod}", "prod", "")
	both.got(eds, "n", "rest", "")
	both.got(eds, "n{env=test}", "rest", "")
	for _, r := range located.Responses(eds) {
		if len(r.Delta.RemovedResources) > 0 {
			t.Errorf("%v removes %q from a client that named no plain name (DYN-14)", r, r.Delta.RemovedResources)
		}
	}
	for _, r := range both.Responses(eds) {
		for _, n := range r.Delta.RemovedResourceNames {
			if n.Name != "n" || proto.Size(n.DynamicParameterConstraints) != 0 {
				t.Errorf("%v removes %v, want what was sent: n without constraints", r, n)
			}
		}
	}
	located.CheckClean()
	both.CheckClean()
}
