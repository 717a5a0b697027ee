package conformance

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// versionInfo is what a client was last told.
func versionInfo(c *relaytest.Client, typeURL string) string {
	all := c.Responses(typeURL)
	return all[len(all)-1].Version()
}

var deltaVersionCases = []testCase{
	{"VER-1", "equal versions of two types, or of two resources, have nothing to do with each other", func(t *testing.T) {
		w := start(t, setup{scripted: true, sotw: true})
		c := w.client(relaytest.SotW)
		c.Request(cds)
		s := w.origin.ExpectStream("weir asks")
		s.ExpectNames(cds, "for the clusters")
		s.Respond(cds, "7", relaytest.Resource{Name: "a", Body: bodyOf(cds, "a", "1")})
		if r := s.ExpectType(cds, "they are accepted"); r.SotW.VersionInfo != "7" {
			t.Errorf("want an ACK of version 7, got %v", r)
		}
		c.AwaitNames(cds, "the clusters arrive", "a")
		c.Request(eds, "a")
		if r := s.ExpectNames(eds, "weir asks for the endpoints", "a"); r.SotW.VersionInfo != "" {
			t.Errorf("another type's version is presented: %v", r)
		}
		bad := relaytest.Resource{Name: "a", Body: relaytest.Opaque("a", "1")}
		if r := s.ExpectNACK(eds, s.Respond(eds, "7", bad), "", "the wrong type is refused"); r.SotW.VersionInfo != "" {
			t.Errorf("a type of which nothing was accepted has a version: %v", r)
		}
		s.Respond(eds, "7", relaytest.Resource{Name: "a", Body: endpointsAt("a", "1")})
		c.AwaitNames(eds, "endpoints arrive under the clusters' version", "a")
		s.Respond(cds, "7", relaytest.Resource{Name: "a", Body: bodyOf(cds, "a", "2")})
		c.Expect(cds, "clusters change under the endpoints' version")
		c.CheckClean()
	}},
	{"VER-2", "versions have no order", func(t *testing.T) {
		for _, sotw := range []bool{false, true} {
			w := start(t, setup{sotw: sotw})
			c := w.client(relaytest.Delta)
			c.Subscribe(opaque, "a")
			for i, version := range []string{"9", "10", "2", "", "1"} {
				body := relaytest.Opaque("a", string(rune('a'+i)))
				w.origin.Batch(func() {
					w.origin.SetVersionInfo(opaque, version)
					w.origin.Set(opaque, "a", version, body)
				})
				c.Await(0, func(s *relaytest.State) bool { return s.Body(opaque, "a") == string(body.Value) }, "the next version arrives")
			}
			c.CheckClean()
		}
	}},
	{"VER-3 VER-4", "replicas with equal content give equal versions, whatever brought it to them", func(t *testing.T) {
		one := start(t, setup{})
		two := start(t, setup{
			sotw: true, behaviour: relaytest.Behaviour{WrapSotW: true, EmptyVersions: true},
		})
		put := func(o *relaytest.Origin, name, version, content string, ttl time.Duration, aliases ...string) {
			o.Put(opaque, relaytest.Resource{Name: name, Version: version, Body: relaytest.Opaque(name, content), TTL: ttl, Aliases: aliases})
		}
		put(one.origin, "a", "1", "x", 0, "n/p", "n/q")
		put(one.origin, "b", "2", "x", 0)
		put(two.origin, "b", "77", "x", time.Hour)
		put(two.origin, "a", "", "x", time.Hour, "n/q", "n/p")
		deltas := []*relaytest.Client{one.client(relaytest.Delta), two.client(relaytest.Delta)}
		sotws := []*relaytest.Client{one.client(relaytest.SotW), two.client(relaytest.SotW)}
		equal := func(sentence string, names ...string) (map[string]string, string) {
			t.Helper()
			for _, c := range deltas {
				c.AwaitNames(opaque, sentence, names...)
			}
			// the test's client does not drop what a whole set of such a type leaves out
			for _, c := range sotws {
				c.Await(0, func(s *relaytest.State) bool {
					all := s.Responses(opaque)
					return len(all) > 0 && slices.Equal(slices.Sorted(slices.Values(all[len(all)-1].Names())), names)
				}, sentence)
			}
			held, info := deltas[0].Held(opaque), versionInfo(sotws[0], opaque)
			if other := deltas[1].Held(opaque); !maps.Equal(held, other) {
				t.Errorf("%s: resource versions differ: %v, %v", sentence, held, other)
			}
			if other := versionInfo(sotws[1], opaque); info == "" || info != other {
				t.Errorf("%s: version_info differs: %q, %q", sentence, info, other)
			}
			return held, info
		}
		for _, c := range slices.Concat(deltas, sotws) {
			c.Subscribe(opaque, "*")
		}
		held, info := equal("the set arrives", "a", "b")
		if held["a"] == held["b"] || held["a"] == "" {
			t.Errorf("two resources have one version: %v", held)
		}
		for _, w := range []*world{one, two} {
			put(w.origin, "c", "1", "x", 0)
		}
		if _, more := equal("one more arrives", "a", "b", "c"); more == info {
			t.Errorf("version_info %q stands for two sets", info)
		}
		for _, w := range []*world{one, two} {
			w.origin.Remove(opaque, "c")
		}
		if _, back := equal("it is removed", "a", "b"); back != info {
			t.Errorf("one set has the version_info %q and %q", info, back)
		}
		// nothing but the TTL and the order of the aliases
		put(one.origin, "a", "3", "x", time.Hour, "n/q", "n/p")
		put(one.origin, "d", "1", "x", 0)
		deltas[0].AwaitNames(opaque, "a later change arrives", "a", "b", "d")
		if now := deltas[0].Held(opaque); now["a"] != held["a"] {
			t.Errorf("a TTL changed the version from %q to %q", held["a"], now["a"])
		}
		put(one.origin, "a", "3", "y", time.Hour, "n/q", "n/p")
		deltas[0].Await(0, func(s *relaytest.State) bool { return s.Held(opaque)["a"] != held["a"] }, "other content has another version")
		for _, c := range slices.Concat(deltas, sotws) {
			c.CheckClean()
		}
	}},
	{"VER-7 VER-8", "content decides what changed; the origin's own version is kept, and presented to it", func(t *testing.T) {
		w := start(t, setup{})
		setEndpoints(w.origin, "1", "a")
		setOpaque(w.origin, "1", "a")
		d, s := w.client(relaytest.Delta), w.client(relaytest.SotW)
		for _, c := range []*relaytest.Client{d, s} {
			c.Subscribe(eds, "a")
			c.Subscribe(opaque, "*")
			c.AwaitNames(eds, "the endpoints arrive", "a")
			c.AwaitNames(opaque, "the set arrives", "a")
		}
		restart := func(presented, version string) {
			t.Helper()
			w.origin.Skip()
			w.origin.Stop()
			w.origin.Set(eds, "a", version, endpointsAt("a", "1"))
			w.origin.Set(opaque, "a", version, relaytest.Opaque("a", "1"))
			w.origin.Start()
			again := w.origin.ExpectStream("weir comes back")
			for _, typeURL := range []string{eds, opaque} {
				r := again.ExpectType(typeURL, "it asks again")
				if got := r.Delta.InitialResourceVersions; !maps.Equal(got, map[string]string{"a": presented}) {
					t.Errorf("want the origin's own version %q presented, got %v", presented, got)
				}
			}
			for _, typeURL := range []string{eds, opaque} {
				w.origin.Await(0, func() bool { return again.Asked(typeURL).ACKs > 0 || presented == version }, "the answer is accepted")
			}
			d.WantIdle(quiet)
			s.WantIdle(quiet)
		}
		restart("1", "another counter")
		restart("another counter", "another counter")
		if held := d.Held(opaque)["a"]; held == "1" || held == "another counter" || held == "" {
			t.Errorf("the client holds %q, want a version that the content determines", held)
		}
		changed := func(sentence, body string) {
			t.Helper()
			for _, c := range []*relaytest.Client{d, s} {
				hasExactly(t, c.Expect(eds, sentence), sentence, []string{"a"}, nil)
				hasExactly(t, c.Expect(opaque, sentence), sentence, []string{"a"}, nil)
				if c.Body(eds, "a") != string(endpointsAt("a", body).Value) || c.Body(opaque, "a") != string(relaytest.Opaque("a", body).Value) {
					t.Errorf("%s: the client holds something else", sentence)
				}
			}
		}
		w.origin.Set(eds, "a", "another counter", endpointsAt("a", "2"))
		w.origin.Set(opaque, "a", "another counter", relaytest.Opaque("a", "2"))
		changed("new content under the version of before is a change", "2")
		w.origin.Behave(func(b *relaytest.Behaviour) { b.EmptyVersions = true })
		setEndpoints(w.origin, "3", "a")
		setOpaque(w.origin, "3", "a")
		changed("new content under an empty version is a change", "3")
		setEndpoints(w.origin, "4", "a")
		setOpaque(w.origin, "4", "a")
		changed("and so is the next, whose version is equal", "4")
		d.CheckClean()
		s.CheckClean()
	}},
	{"VER-7", "a SotW origin's version_info proves nothing either", func(t *testing.T) {
		w := start(t, setup{sotw: true})
		setAny(w.origin, cds, "1", "a")
		setEndpoints(w.origin, "1", "a")
		w.origin.SetVersionInfo(cds, "v")
		w.origin.SetVersionInfo(eds, "v")
		d, s := w.client(relaytest.Delta), w.client(relaytest.SotW)
		for _, c := range []*relaytest.Client{d, s} {
			c.Subscribe(cds, "*")
			c.Subscribe(eds, "a")
			c.AwaitNames(cds, "the clusters arrive", "a")
			c.AwaitNames(eds, "the endpoints arrive", "a")
		}
		w.origin.Skip()
		w.origin.Stop()
		w.origin.SetVersionInfo(cds, "w")
		w.origin.SetVersionInfo(eds, "w")
		w.origin.Start()
		again := w.origin.ExpectStream("weir comes back")
		w.origin.Await(0, func() bool { return again.Asked(cds).ACKs > 0 && again.Asked(eds).ACKs > 0 }, "the answers are accepted")
		d.WantIdle(quiet)
		s.WantIdle(quiet)
		for i, version := range []string{"w", "", ""} { // equal, other, equal
			body := string(rune('2' + i))
			for _, typeURL := range []string{cds, eds} {
				w.origin.Batch(func() {
					w.origin.SetVersionInfo(typeURL, version)
					w.origin.Set(typeURL, "a", body, bodyOf(typeURL, "a", body))
				})
			}
			for _, c := range []*relaytest.Client{d, s} {
				c.Await(0, func(s *relaytest.State) bool {
					return s.Body(cds, "a") == string(bodyOf(cds, "a", body).Value) && s.Body(eds, "a") == string(endpointsAt("a", body).Value)
				}, "new content arrives whatever its version_info")
			}
		}
		d.CheckClean()
		s.CheckClean()
	}},
	{"VER-10", "system_version_info is for people", func(t *testing.T) {
		w := start(t, setup{})
		setOpaque(w.origin, "1", "a", "b")
		w.origin.SetVersionInfo(opaque, "same")
		d, s := w.client(relaytest.Delta), w.client(relaytest.SotW)
		for _, c := range []*relaytest.Client{d, s} {
			c.Subscribe(opaque, "*")
			c.AwaitNames(opaque, "the set arrives", "a", "b")
		}
		seen := map[string]string{}
		for i, info := range []string{"same", "", "0", "same", ""} {
			version := string(rune('2' + i%2))
			w.origin.Batch(func() {
				w.origin.SetVersionInfo(opaque, info)
				w.origin.Set(opaque, "a", version, relaytest.Opaque("a", version))
			})
			hasExactly(t, d.Expect(opaque, "a change arrives"), "whatever the version of the response", []string{"a"}, nil)
			hasExactly(t, s.Expect(opaque, "a change arrives"), "in the whole set", []string{"a", "b"}, nil)
			held := d.Held(opaque)["a"]
			if was := seen[version]; was != "" && was != held {
				t.Errorf("one content has the versions %q and %q", was, held)
			}
			seen[version] = held
		}
		d.WantIdle(quiet)
		s.WantIdle(quiet)
		d.CheckClean()
		s.CheckClean()
	}},
}
