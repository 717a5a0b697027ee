package conformance

import (
	"testing"

	xdsv3 "github.com/cncf/xds/go/xds/core/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// collection is a list collection, a type that nobody has a descriptor of.
const collection = "type.googleapis.com/example.test.v1.OpaqueCollection"

// collectionBody is a payload with entries inline and by locator, which weir must not look at.
func collectionBody(name, body string) *anypb.Any {
	a := relaytest.Opaque(name, body)
	return &anypb.Any{TypeUrl: collection, Value: append(a.Value, "\x1a\x05\x0a\x03xyz"...)}
}

// redirectTo is a redirect: a locator in place of the resource.
func redirectTo(id string) *anypb.Any {
	return relaytest.Body(&xdsv3.ResourceLocator{Id: id, ResourceType: "example.test.v1.Opaque"})
}

var collListCases = []testCase{
	{"COLL-6", "a list collection is one resource of its own type, and passes as it is", inBoth(func(t *testing.T, dialect relaytest.Dialect) {
		w := start(t, setup{sotw: dialect == relaytest.SotW, config: answersA, origin: func(o *relaytest.Origin) {
			for _, name := range []string{"xdstp://a/example.test.v1.OpaqueCollection/list", "plain"} {
				o.Set(collection, name, "1", collectionBody(name, "1"))
			}
		}})
		// The name may have the type of the collection, or of what is in it (NAME-2).
		name := "xdstp://a/example.test.v1.OpaqueCollection/list"
		for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			c := w.client(d)
			c.Subscribe(collection, name, "plain")
			c.AwaitNames(collection, "both arrive", name, "plain")
			if got, want := c.Body(collection, name), string(collectionBody(name, "1").Value); got != want {
				t.Errorf("%s: the payload is %q, want %q", d, got, want)
			}
			c.CheckClean()
		}
		if asked := w.origin.Asked(collection); asked.Subscribed[name] != 1 {
			t.Errorf("the origin was asked for %v", asked.Subscribed)
		}
	})},
	{"COLL-7", "a collection that comes back with other context parameters is none that was asked for", inBoth(func(t *testing.T, dialect relaytest.Dialect) {
		w := start(t, setup{scripted: true, sotw: dialect == relaytest.SotW, config: answersA})
		name := "xdstp://a/example.test.v1.OpaqueCollection/list?node=x"
		c := w.client(relaytest.Delta)
		c.Subscribe(collection, name)
		up := w.origin.ExpectStream("weir asks")
		up.ExpectNames(collection, "the collection", name)
		for _, other := range []string{"xdstp://a/example.test.v1.OpaqueCollection/list?node=y", "xdstp://a/example.test.v1.OpaqueCollection/list"} {
			r := relaytest.Resource{Name: other, Version: "1", Body: collectionBody(other, "1")}
			up.ExpectACK(collection, up.Respond(collection, "1", r), "it is no error")
		}
		w.first.AwaitMetric(2, "they are counted", "weir_upstream_unrequested_total")
		c.WantIdle(quiet)
		up.Respond(collection, "2", relaytest.Resource{Name: name, Version: "1", Body: collectionBody(name, "1")})
		c.AwaitNames(collection, "the one that was asked for arrives", name)
		c.CheckClean()
	})},
	{"COLL-8 SOTW-15", "a redirect is cached and told under the name that was asked for, and not followed", inBoth(func(t *testing.T, dialect relaytest.Dialect) {
		w := start(t, setup{scripted: true, sotw: dialect == relaytest.SotW, config: answersA})
		c, s := w.client(relaytest.Delta), w.client(relaytest.SotW)
		c.Subscribe(opaque, "moved")
		up := w.origin.ExpectStream("weir asks")
		up.ExpectNames(opaque, "the name", "moved")
		to := redirectTo("elsewhere")
		nonce := up.Respond(opaque, "1", relaytest.Resource{Name: "moved", Version: "1", Wrapped: true, Body: to})
		up.ExpectACK(opaque, nonce, "it is accepted")
		r := c.Expect(opaque, "it arrives")
		if len(r.Items) != 1 || r.Items[0].Name != "moved" || r.Items[0].Body.TypeUrl != to.TypeUrl || string(r.Items[0].Body.Value) != string(to.Value) {
			t.Errorf("the client is told %v, want the redirect", r)
		}
		// In state of the world the Any alone is sent: who does not know the wrapper could not read
		// it (SOTW-14).
		s.Subscribe(opaque, "moved")
		r = s.Expect(opaque, "it arrives in state of the world")
		if got := r.SotW.GetResources(); len(got) != 1 || got[0].TypeUrl != to.TypeUrl || string(got[0].Value) != string(to.Value) {
			t.Errorf("the SotW client is told %v, want the redirect", r)
		}
		up.WantIdle(quiet)
		again := w.client(relaytest.Delta)
		again.SubscribeWith(opaque, c.Held(opaque), "moved")
		again.WantIdle(quiet) // it has a version like any other body
	})},
	{"NAME-7", "context parameters that are reserved pass as they are, and none is added", func(t *testing.T) {
		w := start(t, setup{config: answersA})
		name := opaqueURN + "x?xds.resource.listening_address=127.0.0.1:80&z=1"
		setOpaque(w.origin, "1", name, opaqueURN+"x?z=1")
		for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			c := w.client(d)
			c.Subscribe(opaque, name)
			c.AwaitNames(opaque, "it arrives", name)
			c.CheckClean()
		}
		if asked := w.origin.Asked(opaque); asked.Subscribed[name] != 1 || len(asked.Subscribed) != 1 {
			t.Errorf("the origin was asked for %v, want that name alone", asked.Subscribed)
		}
	}},
	{"NAME-8", "the endpoints of a cluster with an xdstp name are those it names, never those of its own name", func(t *testing.T) {
		w := start(t, setup{config: func(c weirtest.Config) {
			answersA(c)
			c.Set("timing.order_hold", "100ms")
		}})
		const without, with = "xdstp://a/envoy.config.cluster.v3.Cluster/without", "xdstp://a/envoy.config.cluster.v3.Cluster/with"
		const endpoints = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/e"
		put := func(version string) {
			w.origin.Batch(func() {
				w.origin.Set(cds, without, version, relaytest.EDSCluster(without, ""))
				w.origin.Set(cds, with, version, relaytest.EDSCluster(with, endpoints))
			})
		}
		w.origin.Set(eds, endpoints, "1", endpointsAt(endpoints, "1"))
		w.origin.Set(eds, "plain", "1", endpointsAt("plain", "1"))
		put("1")
		c := w.client(relaytest.Delta)
		c.Subscribe(cds, without, with)
		c.AwaitNames(cds, "the clusters arrive", without, with)
		c.Subscribe(eds, endpoints, "plain")
		c.AwaitNames(eds, "the endpoints arrive", endpoints, "plain")
		c.Skip()
		w.origin.Batch(func() {
			w.origin.Set(cds, without, "2", relaytest.Cluster(without, 0))
			w.origin.Set(cds, with, "2", relaytest.Cluster(with, 0))
		})
		c.Expect(cds, "the clusters change, and have no endpoints")
		c.WantIdle(quiet)
		put("3")
		c.Expect(cds, "they change back")
		hasExactly(t, c.Expect(eds, "what one of them names follows"), "alone", []string{endpoints}, nil)
		c.WantIdle(quiet)
		c.CheckClean()
	}},
}
