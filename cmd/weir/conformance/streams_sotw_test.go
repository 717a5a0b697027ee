package conformance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weir-xds/weir/relay/relaytest"

	"google.golang.org/protobuf/types/known/anypb"
)

const (
	scopedRoutes = relaytest.ScopedRouteType
	rateLimits   = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"
)

// namesIn are those of a response, sorted; a name that is in it twice is there twice.
func namesIn(r *relaytest.Response) string {
	return fmt.Sprint(slices.Sorted(slices.Values(r.Names())))
}

// expectNames waits for the next response of the type, which must have exactly these resources.
func expectNames(t *testing.T, c *relaytest.Client, typeURL, sentence string, want ...string) *relaytest.Response {
	t.Helper()
	r := c.Expect(typeURL, sentence)
	if namesIn(r) != fmt.Sprint(want) {
		t.Fatalf("%s: want %v, got %v", sentence, want, r)
	}
	return r
}

var sotwListCases = []testCase{
	{"SOTW-1", "a list replaces the one before", func(t *testing.T) {
		w := start(t, setup{})
		for _, name := range []string{"a", "b", "c"} {
			w.origin.Put(cds, cdsAt(name, 1))
			w.origin.Put(eds, edsAt(name, 1))
		}
		c := w.client(relaytest.SotW)
		for _, typeURL := range []string{cds, eds} {
			c.Request(typeURL, "a", "b")
			c.AwaitNames(typeURL, "what was asked first arrives", "a", "b")
			c.Request(typeURL, "b", "c")
			c.AwaitNames(typeURL, "what was asked last is held", "b", "c")
		}
		w.origin.Put(eds, edsAt("a", 2))
		w.origin.Put(cds, cdsAt("a", 2))
		c.WantIdle(quiet)
		w.origin.Put(cds, cdsAt("c", 2))
		expectNames(t, c, cds, "without what is no longer in the list", "b", "c")
		w.origin.Put(eds, edsAt("c", 2))
		expectNames(t, c, eds, "of endpoints, what changed", "c")
		c.CheckClean()
	}},
	{"SOTW-2", "one of a hundred clusters changes, and all are sent", func(t *testing.T) {
		w := start(t, setup{})
		var all []string
		w.origin.Batch(func() {
			for i := range 100 {
				all = append(all, fmt.Sprintf("c%02d", i))
				w.origin.Put(cds, cdsAt(all[i], 1))
				w.origin.Put(eds, edsAt(all[i], 1))
			}
		})
		wild, named := w.client(relaytest.SotW), w.client(relaytest.SotW)
		wild.Subscribe(cds)
		named.Subscribe(cds, all...)
		named.Subscribe(eds, all...)
		wild.AwaitNames(cds, "the clusters arrive", all...)
		named.AwaitNames(cds, "by name, too", all...)
		named.AwaitNames(eds, "and their endpoints", all...)
		w.origin.Put(cds, cdsAt("c50", 2))
		expectNames(t, wild, cds, "every one of the set is sent", all...)
		expectNames(t, named, cds, "and every one that was named", all...)
		w.origin.Put(eds, edsAt("c50", 2))
		expectNames(t, named, eds, "of endpoints, the one that changed", "c50")
		wild.CheckClean()
		named.CheckClean()
	}},
	{"SOTW-4", "scoped routes and any type's wildcard are sent whole", func(t *testing.T) {
		w := start(t, setup{})
		for _, typeURL := range []string{scopedRoutes, rateLimits} {
			body := func(name, text string) *anypb.Any {
				return &anypb.Any{TypeUrl: typeURL, Value: relaytest.Opaque(name, text).Value}
			}
			w.origin.Set(typeURL, "a", "1", body("a", "1"))
			w.origin.Set(typeURL, "b", "1", body("b", "1"))
			wild, named := w.client(relaytest.SotW), w.client(relaytest.SotW)
			wild.Subscribe(typeURL)
			wild.AwaitNames(typeURL, "the set arrives", "a", "b")
			named.Subscribe(typeURL, "a", "b")
			named.AwaitNames(typeURL, "by name, too", "a", "b")
			wild.Skip()
			w.origin.Set(typeURL, "b", "2", body("b", "2"))
			expectNames(t, wild, typeURL, "one changed, all are sent", "a", "b")
			if typeURL == scopedRoutes {
				expectNames(t, named, typeURL, "by name likewise", "a", "b")
			} else {
				expectNames(t, named, typeURL, "by name only what changed", "b")
			}
			wild.CheckClean()
			named.CheckClean()
		}
	}},
	{"SOTW-4", "virtual: so are secrets, which clients are not served yet", func(t *testing.T) {
		virtual(t, "../../../relay", "TestScripts/secrets_whole")
	}},
	{"SOTW-5 SOTW-6", "what is named anew is sent, though it was sent before and is unchanged", func(t *testing.T) {
		w := start(t, setup{})
		for _, name := range []string{"a", "b"} {
			w.origin.Put(cds, cdsAt(name, 1))
			w.origin.Put(eds, edsAt(name, 1))
			w.origin.Set(rds, name, "1", relaytest.Route(name, "a"))
		}
		c := w.client(relaytest.SotW)
		c.Request(cds, "a", "b")
		expectNames(t, c, cds, "the clusters arrive", "a", "b")
		c.Request(cds, "a")
		c.Skip()
		c.Request(cds, "a", "b")
		c.Await(0, func(s *relaytest.State) bool { return s.Count(cds) == 2 }, "the cluster named again arrives again")
		for _, typeURL := range []string{eds, rds} {
			c.Request(typeURL, "a")
			expectNames(t, c, typeURL, "the first name arrives", "a")
			c.Request(typeURL, "a", "b")
			expectNames(t, c, typeURL, "the added one arrives", "b")
			c.Request(typeURL, "a")
			c.WantIdle(quiet)
			c.Request(typeURL, "a", "b")
			expectNames(t, c, typeURL, "the one added again arrives again, unchanged", "b")
			c.Request(typeURL)
			c.WantIdle(quiet)
			c.Request(typeURL, "a")
			expectNames(t, c, typeURL, "after an empty list, too", "a")
		}
		c.Request(cds)
		c.Request(cds, "a")
		c.Await(0, func(s *relaytest.State) bool { return s.Count(cds) == 1 }, "clusters likewise")
		c.CheckClean()
	}},
	{"SOTW-5", "what came with the wildcard is sent when it is named", func(t *testing.T) {
		w := start(t, setup{})
		w.origin.Put(cds, cdsAt("a", 1))
		w.origin.Put(cds, cdsAt("b", 1))
		c := w.client(relaytest.SotW)
		c.Request(cds, "*")
		expectNames(t, c, cds, "everything arrives", "a", "b")
		c.Request(cds, "*", "a")
		expectNames(t, c, cds, "the name is answered, in the whole view", "a", "b")
		c.CheckClean()
	}},
	{"SOTW-7", "saying the same again is not answered", func(t *testing.T) {
		w := start(t, setup{})
		w.origin.Put(cds, cdsAt("a", 1))
		w.origin.Put(eds, edsAt("a", 1))
		c := w.client(relaytest.SotW)
		c.Request(cds)
		c.Request(eds, "a")
		r, e := c.Expect(cds, "the cluster arrives"), c.Expect(eds, "the endpoints arrive")
		for range 10 {
			c.Send(wish{typeURL: cds, version: r.Version(), nonce: r.Nonce()}.message(relaytest.SotW))
			c.Send(wish{typeURL: eds, version: e.Version(), nonce: e.Nonce(), names: []string{"a"}}.message(relaytest.SotW))
		}
		c.WantIdle(quiet)
		c.CheckClean()
	}},
	{"SOTW-8", "what is asked before it exists is sent when it does", func(t *testing.T) {
		w := start(t, setup{})
		w.origin.Put(cds, cdsAt("a", 1))
		w.origin.Put(eds, edsAt("a", 1))
		c := w.client(relaytest.SotW)
		c.Request(cds, "a", "b")
		c.Request(eds, "a", "b")
		expectNames(t, c, cds, "the cluster that exists", "a")
		expectNames(t, c, eds, "the endpoints that exist", "a")
		c.Await(0, func(s *relaytest.State) bool {
			return s.Error(cds, "b") != nil && s.Error(eds, "b") != nil
		}, "the others are said to be absent, with that or after it")
		c.Skip()
		c.WantIdle(quiet)
		w.origin.Put(cds, cdsAt("b", 1))
		expectNames(t, c, cds, "the cluster came into being", "a", "b")
		w.origin.Put(eds, edsAt("b", 1))
		expectNames(t, c, eds, "so did its endpoints", "b")
		c.CheckClean()
	}},
}
