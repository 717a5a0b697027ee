package conformance

import (
	"slices"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

func namelessListener(t *testing.T) {
	w := start(t, setup{scripted: true, sotw: true})
	whole, part := w.client(relaytest.SotW), w.client(relaytest.Delta)
	whole.Subscribe(lds, "*")
	part.Subscribe(lds, "*")
	s := w.origin.ExpectStream("weir asks")
	s.ExpectType(lds, "for listeners")
	nameless := relaytest.Resource{Body: relaytest.Body(&listener.Listener{StatPrefix: "nameless"})}
	named := relaytest.Resource{Name: "a", Body: relaytest.Listener("a", 80)}
	nonce := s.Respond(lds, "1", nameless, named)
	s.ExpectACK(lds, nonce, "a nameless listener is no error")
	r := whole.Expect(lds, "the set in SotW")
	if len(r.Items) != 2 || !slices.ContainsFunc(r.Items, func(i relaytest.Item) bool {
		return string(i.Body.Value) == string(nameless.Body.Value)
	}) {
		t.Errorf("want both listeners, the nameless one as it came, got %v", r)
	}
	part.AwaitNames(lds, "delta can name only one", "a")
	part.CheckClean()
	nonce = s.Respond(lds, "2", named)
	s.ExpectACK(lds, nonce, "the nameless one is gone")
	if r := whole.Expect(lds, "the set without it"); !slices.Equal(r.Names(), []string{"a"}) {
		t.Errorf("want the named listener alone, got %v", r)
	}
	part.Skip()
	part.WantIdle(quiet) // for delta nothing happened
}

func sharedSubscription(t *testing.T) {
	w := start(t, setup{})
	w.origin.Set(cds, "a", "1", bytesOf(cds, "a", "1"))
	w.origin.Set(eds, "a", "1", bytesOf(eds, "a", "1"))
	for i, d := range []relaytest.Dialect{relaytest.SotW, relaytest.Delta, relaytest.SotW, relaytest.Delta} {
		c := newClient(t, weirtest.Connect(t, w.weir.Addr), relaytest.ClientConfig{Dialect: d})
		node := relaytest.Node("client", "edge")
		node.UserAgentVersionType = &core.Node_UserAgentBuildVersion{UserAgentBuildVersion: &core.BuildVersion{
			Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: uint32(20 + i)},
		}}
		c.Open(node)
		if i < 2 {
			c.Request(cds) // the legacy wildcard
		} else {
			c.Subscribe(cds, "*")
		}
		c.AwaitNames(cds, "the clusters", "a")
		c.Subscribe(eds, "a")
		c.AwaitNames(eds, "the endpoints", "a")
		c.CheckClean()
	}
	if n := w.origin.Asked(cds).Subscribed["*"]; n != 1 {
		t.Errorf("the origin is asked for all clusters %d times", n)
	}
	if n := w.origin.Asked(eds).Subscribed["a"]; n != 1 {
		t.Errorf("the origin is asked for the endpoints %d times", n)
	}
	if n := len(w.origin.Streams()); n != 1 {
		t.Errorf("the origin sees %d streams", n)
	}
}

func bareNames(t *testing.T, d relaytest.Dialect) {
	types := []string{
		cds, eds, lds, rds, relaytest.ScopedRouteType, relaytest.RuntimeType, relaytest.ExtensionType,
		"type.googleapis.com/envoy.extensions.filters.network.thrift_proxy.v3.RouteConfiguration",
		"type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig", opaque,
	}
	w := start(t, setup{scripted: true, sotw: true})
	c := w.client(d)
	var s *relaytest.Stream
	for _, typeURL := range types {
		c.Subscribe(typeURL, "name", "other")
		if s == nil {
			s = w.origin.ExpectStream("weir asks")
		}
		w.origin.Await(0, func() bool { return s.Asked(typeURL).Subscribed["name"] == 1 }, "for the type")
		body := bytesOf(typeURL, "another", "not to be decoded as \xff anything")
		body = &anypb.Any{TypeUrl: typeURL, Value: append(body.Value, bytesOf(typeURL, "name", "").Value...)}
		// A script sends a body bare; nothing but its first field tells the name.
		s.Respond(typeURL, "1", relaytest.Resource{Body: body}, resource(typeURL, "other", "", "1"))
		c.AwaitNames(typeURL, "both are known by name", "name", "other")
		if got := c.Body(typeURL, "name"); got != string(body.Value) {
			t.Errorf("%s: the body is changed on its way: %q", typeURL, got)
		}
	}
	c.CheckClean()
}

func nothingPassesThrough(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{sotw: true, origin: func(o *relaytest.Origin) { o.SetVersionInfo(eds, "the origin's version") }})
	for _, name := range []string{"a", "b"} {
		w.origin.Set(eds, name, "1", bytesOf(eds, name, "1"))
	}
	one, two := w.client(d), w.client(d)
	one.Subscribe(eds, "a")
	two.Subscribe(eds, "b")
	one.AwaitNames(eds, "the one asked for", "a")
	two.AwaitNames(eds, "the one asked for", "b")
	one.Skip()
	two.Skip()
	w.origin.Batch(func() {
		for _, name := range []string{"a", "b"} {
			w.origin.Set(eds, name, "2", bytesOf(eds, name, "2"))
		}
	})
	for c, want := range map[*relaytest.Client]string{one: "a", two: "b"} {
		if r := c.Expect(eds, "one response upstream"); !slices.Equal(r.Names(), []string{want}) {
			t.Errorf("want %s alone, got %v", want, r)
		}
	}
	theirs := map[string]bool{}
	for _, r := range w.origin.Requests() {
		theirs[r.Nonce()] = true
	}
	for _, c := range []*relaytest.Client{one, two} {
		for _, r := range c.Responses("") {
			if theirs[r.Nonce()] {
				t.Errorf("a nonce of the origin crosses: %v", r)
			}
			// there it is for people (VER-10)
			if shown := r.Version() == "the origin's version"; shown != (d == relaytest.Delta) {
				t.Errorf("the version told is %q", r.Version())
			}
		}
		c.CheckClean()
	}
}
