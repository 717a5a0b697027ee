package conformance

import (
	"maps"
	"slices"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// originVersions has clients told the origin's versions.
func originVersions(c weirtest.Config) {
	settleFast(c)
	c.Origin().Set("version_mode", "origin")
}

var deltaOriginVersionCases = []testCase{
	{"VER-5", "version_mode: origin gives the versions of a delta origin", func(t *testing.T) {
		w := start(t, setup{config: originVersions})
		put := func(info, name, version, body string) {
			w.origin.Batch(func() {
				w.origin.SetVersionInfo(opaque, info)
				w.origin.Set(opaque, name, version, relaytest.Opaque(name, body))
			})
		}
		put("i1", "a", "r1", "1")
		d, s := w.client(relaytest.Delta), w.client(relaytest.SotW)
		told := func(sentence, info string, versions map[string]string) {
			t.Helper()
			d.Await(0, func(s *relaytest.State) bool { return maps.Equal(s.Held(opaque), versions) }, sentence)
			s.Await(0, func(s *relaytest.State) bool {
				all := s.Responses(opaque)
				return len(all) > 0 && all[len(all)-1].Version() == info
			}, sentence)
		}
		for _, c := range []*relaytest.Client{d, s} {
			c.Subscribe(opaque, "*")
		}
		told("the set arrives", "i1", map[string]string{"a": "r1"})
		put("i2", "b", "r2", "1")
		told("one more arrives", "i2", map[string]string{"a": "r1", "b": "r2"})
		put("i3", "a", "r3", "1")
		d.WantIdle(quiet) // equal content is no event (VER-7)
		s.WantIdle(quiet)
		put("i4", "b", "r2", "2")
		hasExactly(t, d.Expect(opaque, "other content under an equal version is a change"), "alone", []string{"b"}, nil)
		told("other content under an equal version is a change", "i4", map[string]string{"a": "r1", "b": "r2"})
		if got := d.Body(opaque, "b"); got != string(relaytest.Opaque("b", "2").Value) {
			t.Errorf("b is %q", got)
		}

		named := w.client(relaytest.SotW)
		named.Subscribe(opaque, "a")
		named.AwaitNames(opaque, "by name", "a")
		if hops(t) == 1 { // what is no event is not passed on to a second weir
			d.Open(relaytest.Node("client-1", "edge"))
			d.Resume(opaque)
			hasExactly(t, d.Expect(opaque, "it says what it holds"), "what has another version now comes", []string{"a"}, nil)
			told("and has that version", "i4", map[string]string{"a": "r3", "b": "r2"})
		}
		d.Open(relaytest.Node("client-1", "edge"))
		d.Resume(opaque)
		hasExactly(t, d.Expect(opaque, "it returns once more"), "in sync", nil, nil)
		s.Open(relaytest.Node("client-1", "edge"))
		s.Resume(opaque)
		hasExactly(t, s.Expect(opaque, "RELAY-43 is off"), "an equal version_info proves nothing", []string{"a", "b"}, nil)
		for _, c := range []*relaytest.Client{d, s, named} {
			c.CheckClean()
		}
	}},
	{"VER-5", "version_mode: origin spares no answer for an empty version", func(t *testing.T) {
		w := start(t, setup{config: originVersions, behaviour: relaytest.Behaviour{EmptyVersions: true}})
		setOpaque(w.origin, "1", "a")
		setEndpoints(w.origin, "1", "a")
		c, s := w.client(relaytest.Delta), w.client(relaytest.SotW)
		c.Subscribe(opaque, "*")
		c.Subscribe(eds, "a")
		c.AwaitNames(opaque, "the set arrives", "a")
		c.AwaitNames(eds, "the endpoints arrive", "a")
		if v, ok := c.Held(opaque)["a"]; v != "" || !ok {
			t.Errorf("want the origin's empty version, got %q", v)
		}
		c.Open(relaytest.Node("client-1", "edge"))
		c.Resume(opaque)
		c.Resume(eds)
		hasExactly(t, c.Expect(opaque, "it says what it holds"), "and is sent it", []string{"a"}, nil)
		hasExactly(t, c.Expect(eds, "likewise by name"), "and is sent it", []string{"a"}, nil)
		s.Subscribe(opaque, "*")
		s.AwaitNames(opaque, "the set arrives", "a")
		if versionInfo(s, opaque) == "" {
			t.Error("an empty version_info would make the client look like one that holds nothing (RELAY-7)")
		}
		s.Open(relaytest.Node("client-1", "edge"))
		s.Resume(opaque)
		hasExactly(t, s.Expect(opaque, "RELAY-43 is off"), "the set comes again", []string{"a"}, nil)
		c.CheckClean()
		s.CheckClean()
	}},
	{"VER-5 VER-9", "version_mode: origin gives a SotW origin's own, and where a resource has none that of its response", func(t *testing.T) {
		w := start(t, setup{sotw: true, config: originVersions})
		w.origin.Batch(func() {
			w.origin.SetVersionInfo(cds, "i1")
			w.origin.Put(cds, relaytest.Resource{Name: "bare", Version: "not sent", Body: bodyOf(cds, "bare", "1")})
			w.origin.Put(cds, relaytest.Resource{Name: "wrapped", Version: "r1", Body: bodyOf(cds, "wrapped", "1"), Wrapped: true})
			w.origin.Put(cds, relaytest.Resource{Name: "empty", Body: bodyOf(cds, "empty", "1"), Wrapped: true})
		})
		d, s := w.client(relaytest.Delta), w.client(relaytest.SotW)
		for _, c := range []*relaytest.Client{d, s} {
			c.Subscribe(cds, "*")
			c.AwaitNames(cds, "the clusters arrive", "bare", "empty", "wrapped")
		}
		if got := d.Held(cds); !maps.Equal(got, map[string]string{"bare": "i1", "empty": "i1", "wrapped": "r1"}) {
			t.Errorf("delta: %v", got)
		}
		if got := versionInfo(s, cds); got != "i1" {
			t.Errorf("version_info is %q", got)
		}
		w.origin.Batch(func() {
			w.origin.SetVersionInfo(cds, "i2")
			w.origin.Remove(cds, "wrapped")
		})
		hasExactly(t, d.Expect(cds, "one goes"), "and only that", nil, []string{"wrapped"})
		hasExactly(t, s.Expect(cds, "one goes"), "from the set", []string{"bare", "empty"}, nil)
		if got := versionInfo(s, cds); got != "i2" {
			t.Errorf("version_info is %q", got)
		}
		d.CheckClean()
		s.CheckClean()
	}},
	{"VER-9", "a SotW origin's wrapped resources without a version of their own have one for every client", func(t *testing.T) {
		for _, info := range []string{"7", ""} {
			w := start(t, setup{sotw: true})
			w.origin.Batch(func() {
				w.origin.SetVersionInfo(cds, info)
				w.origin.Put(cds, relaytest.Resource{Name: "a", Body: bodyOf(cds, "a", "1"), Wrapped: true})
			})
			d, s := w.client(relaytest.Delta), w.client(relaytest.SotW)
			for _, c := range []*relaytest.Client{d, s} {
				c.Subscribe(cds, "*")
				c.AwaitNames(cds, "the cluster arrives", "a")
			}
			held, seen := d.Held(cds)["a"], versionInfo(s, cds)
			if held == "" || seen == "" {
				t.Errorf("version %q in delta, version_info %q in SotW", held, seen)
			}
			w.origin.Put(cds, relaytest.Resource{Name: "a", Body: bodyOf(cds, "a", "2"), Wrapped: true})
			hasExactly(t, d.Expect(cds, "it changes"), "for delta", []string{"a"}, nil)
			hasExactly(t, s.Expect(cds, "it changes"), "and for SotW", []string{"a"}, nil)
			if d.Held(cds)["a"] == held || versionInfo(s, cds) == seen {
				t.Error("and so does its version")
			}
			d.CheckClean()
			s.CheckClean()
		}
	}},
}

var deltaHashCases = []testCase{
	{"VER-6", "hash: canonical takes a map in another order for no change, and forwards it as received", func(t *testing.T) {
		// Encodings of one message may be joined; what is known within counts likewise.
		inner := func(key string) *anypb.Any {
			return relaytest.Body(&structpb.Struct{Fields: map[string]*structpb.Value{key: structpb.NewBoolValue(true)}})
		}
		one, two := inner("one"), inner("two")
		join := func(a, b *anypb.Any) *anypb.Any {
			return &anypb.Any{TypeUrl: a.TypeUrl, Value: slices.Concat(a.Value, b.Value)}
		}
		cluster := func(opaque string, first, second *anypb.Any, keys ...string) *anypb.Any {
			options := map[string]*anypb.Any{"options": join(first, second)}
			all := relaytest.Body(&clusterv3.Cluster{Name: "a", AltStatName: opaque, TypedExtensionProtocolOptions: options})
			for _, key := range keys {
				all = join(all, relaytest.Body(&clusterv3.Cluster{Metadata: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{key: {}}}}))
			}
			return all
		}
		a, b := cluster("1", one, two, "x", "y"), cluster("1", two, one, "y", "x")
		for _, canonical := range []bool{true, false} {
			for _, sotw := range []bool{false, true} {
				w := start(t, setup{sotw: sotw, config: func(c weirtest.Config) {
					if canonical {
						c.Origin().Set("hash", "canonical")
					}
				}})
				w.origin.Set(cds, "a", "1", a)
				d, s := w.client(relaytest.Delta), w.client(relaytest.SotW)
				clients := []*relaytest.Client{d, s}
				for _, c := range clients {
					c.Subscribe(cds, "*")
					c.AwaitNames(cds, "the cluster arrives", "a")
				}
				held := d.Held(cds)["a"]
				if w.origin.Set(cds, "a", "2", b); canonical {
					for _, c := range clients {
						c.WantIdle(quiet)
					}
					d.Open(relaytest.Node("client-1", "edge"))
					d.SubscribeWith(cds, nil, "*")
					d.Expect(cds, "a client that says nothing of what it holds is answered")
				}
				want := string(b.Value)
				if canonical && hops(t) > 1 {
					want = string(a.Value) // what is no event is not passed on to a second weir
				}
				d.Await(0, func(s *relaytest.State) bool { return s.Body(cds, "a") == want }, "the bytes of the origin arrive")
				if same := d.Held(cds)["a"] == held; same != canonical {
					t.Errorf("hash: canonical %v: the version is the same: %v", canonical, same)
				}
				w.origin.Set(cds, "a", "3", cluster("2", two, one, "y", "x"))
				for _, c := range clients {
					c.Await(0, func(s *relaytest.State) bool { return s.Body(cds, "a") != want && s.Body(cds, "a") != string(a.Value) }, "a change is one")
					c.CheckClean()
				}
			}
		}
	}},
}
