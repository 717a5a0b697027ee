package conformance

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var dynOriginCases = []testCase{
	{"DYN-17 DYN-18", "an origin that is not known to understand parameters sees none: names that have any are refused, or served without", inBoth(undeclared)},
	{"DYN-12 RELAY-28", "what an origin that takes locators for a wildcard has of a name is for all parameters, and counted", inBoth(ignoresLocators)},
	{"FED-1 DYN-17 DYN-18", "a locator goes to the origin that has its name's authority, and is judged by what that one understands", perDialect(byAuthority)},
	{"DYN-1 COLL-1 DYN-8", "a glob brings each map its variants", perDialect(globOfVariants)},
}

func undeclared(t *testing.T, origin relaytest.Dialect) {
	for _, otherwise := range []string{"refuse", "ignored"} {
		w := start(t, setup{sotw: origin == relaytest.SotW, config: func(c weirtest.Config) {
			c.Origin().Set("dynamic_parameters.otherwise", otherwise)
		}})
		w.vary(variant{nil, "all"})
		for _, c := range []*seeker{w.seeker(relaytest.Delta), w.seeker(relaytest.SotW)} {
			c.seek(eds, "m{}", "n{env=prod}")
			c.has(eds, "m{}", "all", "without parameters it is served, as it was asked")
			if otherwise == "refuse" {
				c.refused(eds, "n", codes.FailedPrecondition, "with parameters it is not")
				c.WantIdle(quiet / 2)
				c.got(eds, "n{env=prod}")
			} else {
				c.has(eds, "n{env=prod}", "all", "and so is the other, where parameters are ignored")
			}
			c.CheckClean()
		}
		for _, r := range w.origin.Requests() {
			if len(r.Locators())+len(r.Delta.GetResourceLocatorsUnsubscribe()) > 0 {
				t.Errorf("the origin was sent %v", r)
			}
		}
	}
}

// awaitFaults waits until weir has counted a sign that the origin does not know what it was asked.
func (w *world) awaitFaults(reason string) {
	w.t.Helper()
	counted := func() bool {
		n, _ := w.first.Metric("weir_upstream_locator_faults_total", `reason="`+reason+`"`)
		return n > 0
	}
	if !weirtest.Until(weirtest.Patience, counted) {
		w.t.Errorf("nothing is counted as %s", reason)
	}
}

// ignoresLocators: to such an origin the request named nothing, so it sends everything there is.
func ignoresLocators(t *testing.T, origin relaytest.Dialect) {
	w := start(t, setup{sotw: origin == relaytest.SotW, config: tp2})
	w.vary(variant{nil, "all"})
	w.origin.Set(eds, "never-asked-for", "1", relaytest.Endpoints("never-asked-for", "10.0.0.1:80"))
	clients := []*seeker{w.seeker(relaytest.Delta), w.seeker(relaytest.SotW)}
	for _, c := range clients {
		c.seek(eds, "n{env=prod}")
	}
	for _, c := range clients {
		c.has(eds, "n{env=prod}", "all", "it is served")
		c.got(eds, "n{env=prod}", "all")
		c.CheckClean()
	}
	w.awaitFaults("unconstrained")
	if !strings.Contains(w.first.Output(), "the origin answers locators with plain names") {
		t.Error("the log does not say so")
	}
}

func globOfVariants(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{tp2: true, config: answersA})
	glob := opaqueURN + "foo/*"
	one, two := opaqueURN+"foo/1", opaqueURN+"foo/2"
	w.origin.Batch(func() {
		w.origin.Put(opaque, variant{when("env=prod"), "prod"}.of(opaque, one))
		w.origin.Put(opaque, variant{when("env=test"), "test"}.of(opaque, one))
		w.origin.Put(opaque, variant{when("env=test"), "test"}.of(opaque, two))
	})
	prod, test := w.seeker(d), w.seeker(d)
	prod.seek(opaque, glob+"{env=prod}")
	test.seek(opaque, glob+"{env=test}")
	prod.has(opaque, one+"{env=prod}", "prod", "each map has its members")
	test.has(opaque, one+"{env=test}", "test", "each map has its members")
	test.has(opaque, two+"{env=test}", "test", "each map has its members")
	w.origin.Put(opaque, variant{when("env=prod"), "prod"}.of(opaque, two))
	prod.has(opaque, two+"{env=prod}", "prod", "a member more for one of them")
	test.WantIdle(quiet)
	if got := names(prod.Client, opaque); !slices.Equal(got, []string{one, two}) {
		t.Errorf("the first was sent %q", got)
	}
	prod.CheckClean()
	test.CheckClean()
}

// names are all that ever came of a type, each once.
func names(c *relaytest.Client, typeURL string) []string {
	all := map[string]bool{}
	for _, r := range c.Responses(typeURL) {
		for _, name := range r.Names() {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// byAuthority: of the three origins behind the first weir east alone understands parameters; to the
// next weir they are one that does.
func byAuthority(t *testing.T, d relaytest.Dialect) {
	f := federate(t, setup{config: func(c weirtest.Config) {
		if all := c["origins"].([]any); len(all) > 1 {
			weirtest.Config(all[1].(map[string]any)).Set("tp2", true)
		} else {
			tp2(c)
		}
	}}, func(f *federation) {
		f.east = relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, TP2: true, Patience: weirtest.Patience})
	})
	east, west := urn("east", opaque, "x"), urn("west", opaque, "x")
	f.east.Put(opaque, variant{when("env=prod"), "east"}.of(opaque, east))
	setOpaque(f.west, "1", west)
	setOpaque(f.origin, "1", "old")
	c := f.seeker(d)
	c.seek(opaque, east+"{env=prod}", west+"{}", west+"{env=prod}", "old{}", "old{env=prod}")
	c.has(opaque, east+"{env=prod}", "east", "who understands parameters is asked with them")
	c.has(opaque, west+"{}", "1", "who does not is asked without")
	c.has(opaque, "old{}", "1", "who does not is asked without")
	c.refused(opaque, west, codes.FailedPrecondition, "and not at all where there are any")
	c.refused(opaque, "old", codes.FailedPrecondition, "and not at all where there are any")
	for _, o := range []*relaytest.Origin{f.origin, f.west} {
		for _, r := range o.Requests() {
			if len(r.Locators()) > 0 {
				t.Errorf("an origin that does not understand them was sent %v", r)
			}
		}
	}
	c.CheckClean()
}
