package relaytest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

func serveTP2(t *testing.T, n *Net) *Origin {
	return NewOrigin(t, n, OriginConfig{Serving: true, TP2: true})
}

// variant puts one variant of an Opaque resource in place; its body is the text.
func variant(o *Origin, name, body string, c *Constraints) {
	o.Put(OpaqueType, Resource{Name: name, Version: body, Body: Opaque(name, body), Constraints: c})
}

func TestMatches(t *testing.T) {
	prod, none := map[string]string{"env": "prod"}, map[string]string{}
	for _, x := range []struct {
		says   string
		c      *Constraints
		params map[string]string
		want   bool
	}{
		{"unset", nil, none, true},
		{"value, absent", Is("env", "prod"), none, false},
		{"value, equal", Is("env", "prod"), prod, true},
		{"value, other", Is("env", "test"), prod, false},
		{"exists, absent", Has("env"), none, false},
		{"exists", Has("env"), prod, true},
		{"not value, absent", Not(Is("env", "prod")), none, true},
		{"not exists", Not(Has("env")), prod, false},
		{"or of nothing", Or(), prod, false},
		{"and of nothing", And(), prod, true},
		{"or", Or(Is("env", "test"), Is("env", "prod")), prod, true},
		{"and", And(Has("env"), Is("env", "test")), prod, false},
		{"not unset", Not(&Constraints{}), prod, false},
		{"empty value, absent", Is("env", ""), none, false},
	} {
		if Matches(x.c, x.params) != x.want {
			t.Errorf("%s: want %v", x.says, x.want)
		}
	}
}

// Two maps of one name are two subscriptions, each with its variant.
func TestVariants(t *testing.T) {
	everywhere(t, func(t *testing.T, n *Net, d Dialect, idle time.Duration) {
		o := serveTP2(t, n)
		variant(o, "a", "prod1", Is("env", "prod"))
		variant(o, "a", "rest1", Not(Is("env", "prod")))
		c := open(t, n, d)
		prod, test := Locator("a", "env", "prod"), Locator("a", "env", "test")
		c.RequestBoth(OpaqueType, nil, prod, test)
		has := func(l *discovery.ResourceLocator, version string) {
			t.Helper()
			c.Await(0, func(s *State) bool {
				es := s.Located(OpaqueType, l)
				return len(es) > 0 && es[0].Version == version
			}, LocatorKey(l)+" has "+version)
		}
		has(prod, "prod1")
		has(test, "rest1")

		variant(o, "a", "prod2", Is("env", "prod"))
		has(prod, "prod2")
		c.UnsubscribeBoth(OpaqueType, nil, prod)
		o.Await(0, func() bool { return o.Asked(OpaqueType).Unsubscribed["a{env=prod}"] == 1 }, "the origin hears of it")
		variant(o, "a", "prod3", Is("env", "prod"))
		c.WantIdle(idle)
		c.SubscribeBoth(OpaqueType, nil, prod)
		has(prod, "prod3")
		if asked := o.Asked(OpaqueType); asked.Subscribed["a{env=prod}"] != 2 || asked.Subscribed["a{env=test}"] != 1 {
			t.Errorf("subscribed: %v", asked.Subscribed)
		}
		c.CheckClean()
	})
}

// A split is one response: the removal of the old variant, by its constraints, and its successors.
func TestSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := serveTP2(t, Memory())
		old := Is("env", "prod")
		variant(o, "a", "old", old)
		c := open(t, o.Net(), Delta)
		v1, v2 := Locator("a", "env", "prod", "version", "v1"), Locator("a", "env", "prod", "version", "v2")
		c.RequestBoth(OpaqueType, nil, v1, v2)
		c.Expect(OpaqueType, "one variant serves both")
		o.Batch(func() {
			o.Remove(OpaqueType, VariantKey("a", old))
			variant(o, "a", "new1", And(Is("env", "prod"), Is("version", "v1")))
			variant(o, "a", "new2", And(Is("env", "prod"), Is("version", "v2")))
		})
		r := c.Expect(OpaqueType, "the split arrives")
		if len(r.Items) != 2 || len(r.Delta.RemovedResourceNames) != 1 || len(r.Delta.RemovedResources) != 0 {
			t.Errorf("want two resources and one removal by constraints, got %v", r)
		}
		c.Look(func(s *State) {
			for want, l := range map[string]*discovery.ResourceLocator{"new1": v1, "new2": v2} {
				if es := s.Located(OpaqueType, l); len(es) != 1 || es[0].Version != want {
					t.Errorf("%s: %+v", LocatorKey(l), es)
				}
			}
		})
		c.CheckClean()
	})
}

// Every subscribe is answered, with what there is or with its absence; a name that is absent for
// one map is not for another.
func TestLocatorsAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := serveTP2(t, Memory())
		variant(o, "a", "1", Is("env", "prod"))
		c := open(t, o.Net(), Delta)
		prod, test := Locator("a", "env", "prod"), Locator("a", "env", "test")
		c.RequestBoth(OpaqueType, nil, prod, test)
		if r := c.Expect(OpaqueType, "both are answered"); len(r.Items) != 1 || len(r.Removed()) != 1 {
			t.Errorf("want one resource and one absence, got %v", r)
		}
		c.SubscribeBoth(OpaqueType, nil, prod)
		if r := c.Expect(OpaqueType, "a second subscribe is answered"); len(r.Items) != 1 {
			t.Errorf("want the resource again, got %v", r)
		}
		variant(o, "a", "2", Is("env", "test"))
		c.Await(0, func(s *State) bool { return s.BodyAt(OpaqueType, test) != "" }, "it is created")
		c.CheckClean()
	})
}

// A wildcard has a map too.
func TestLocatedWildcard(t *testing.T) {
	virtually(t, func(t *testing.T, n *Net, d Dialect) {
		o := serveTP2(t, n)
		variant(o, "a", "prod", Is("env", "prod"))
		variant(o, "a", "test", Is("env", "test"))
		variant(o, "b", "all", nil)
		c := open(t, n, d)
		c.RequestBoth(OpaqueType, nil, Locator("*", "env", "prod"))
		c.AwaitNames(OpaqueType, "what matches arrives", VariantKey("a", Is("env", "prod")), "b{}")
		c.CheckClean()
	})
}

// An origin without TP2 does not see locators: it takes the request for a wildcard (DYN-17).
func TestOriginThatKnowsNoLocators(t *testing.T) {
	virtually(t, func(t *testing.T, n *Net, d Dialect) {
		o := serve(t, n)
		o.Set(OpaqueType, "a", "1", Opaque("a", "x"))
		o.Set(OpaqueType, "b", "1", Opaque("b", "x"))
		c := open(t, n, d)
		c.RequestBoth(OpaqueType, nil, Locator("a", "env", "prod"))
		r := c.Expect(OpaqueType, "it answers")
		if !slices.Equal(r.Names(), []string{"a", "b"}) {
			t.Errorf("want everything, got %v", r)
		}
		if len(c.Violations()) == 0 {
			t.Error("the client does not object")
		}
	})
}

// On a new stream the client asks again by locator, and states no versions of variants (DYN-20).
func TestResumeWithLocators(t *testing.T) {
	virtually(t, func(t *testing.T, n *Net, d Dialect) {
		o := serveTP2(t, n)
		variant(o, "a", "prod", Is("env", "prod"))
		c := open(t, n, d)
		at := Locator("a", "env", "prod")
		c.RequestBoth(OpaqueType, nil, at)
		c.Await(0, func(s *State) bool { return s.BodyAt(OpaqueType, at) != "" }, "it arrives")
		o.ExpectStream("the first stream")
		c.Open(Node("n1", "edge"))
		c.Resume(OpaqueType)
		r := o.ExpectStream("the second stream").ExpectLocators(OpaqueType, "it asks again", nil, at)
		if initial := r.Delta.GetInitialResourceVersions(); len(initial) > 0 {
			t.Errorf("initial versions: %v", initial)
		}
		c.CheckClean()
	})
}
