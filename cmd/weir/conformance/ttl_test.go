package conformance

import (
	"slices"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// ttlCases are sections TTL and FEAT, and TTLs across the relay.
var ttlCases = slices.Concat(ttlTellingCases, ttlHeartbeatCases, ttlExpiryCases, ttlFeatureCases)

// A client says what it can be told by these features, in whichever spelling (FEAT-3, FEAT-4).
const (
	knowsTTLs    = "xds.config.supports-resource-ttl"
	knowsWrapper = "xds.config.resource-in-sotw"
)

// featured is a client with these features.
func (w *world) featured(cfg relaytest.ClientConfig, features ...string) *relaytest.Client {
	w.t.Helper()
	c := newClient(w.t, weirtest.Connect(w.t, w.weir.Addr), cfg)
	c.Open(relaytest.Node("client-1", "edge", features...))
	return c
}

// knowing is a client that can be told TTLs.
func (w *world) knowing(d relaytest.Dialect) *relaytest.Client {
	return w.featured(relaytest.ClientConfig{Dialect: d}, knowsTTLs, knowsWrapper)
}

// timed has the origin serve a resource with a TTL.
func (w *world) timed(typeURL, name string, body *anypb.Any, ttl time.Duration) {
	w.origin.Put(typeURL, relaytest.Resource{Name: name, Version: "v1", Body: body, TTL: ttl})
}

// beat has the origin send a heartbeat of a version to whoever asked for the type, in SotW under
// the version_info it sent last.
func (w *world) beat(typeURL, name, version string, ttl time.Duration) {
	w.t.Helper()
	beats := 0
	for _, s := range w.origin.Open() {
		info, asked := "", false
		for _, m := range s.Sent() {
			switch m := m.(type) {
			case *discovery.DeltaDiscoveryResponse:
				asked = asked || m.TypeUrl == typeURL
			case *discovery.DiscoveryResponse:
				if m.TypeUrl == typeURL {
					info, asked = m.VersionInfo, true
				}
			}
		}
		if asked {
			s.Respond(typeURL, info, relaytest.Resource{Name: name, Version: version, TTL: ttl})
			beats++
		}
	}
	if beats == 0 {
		w.t.Fatalf("nobody was answered for %s", typeURL)
	}
}

// item is the resource of that name in a response.
func item(t *testing.T, r *relaytest.Response, name string) *relaytest.Item {
	t.Helper()
	i := slices.IndexFunc(r.Items, func(i relaytest.Item) bool { return i.Name == name })
	if i < 0 {
		t.Fatalf("%s is not in %v", name, r)
	}
	return &r.Items[i]
}

// ttlTellingCases: who is told a TTL, and how.
var ttlTellingCases = []testCase{
	{"TTL-5 TTL-6 SOTW-14 VER-9", "a TTL is told to those alone who can be told it, and in SotW in a wrapper", func(t *testing.T) {
		w := start(t, setup{})
		w.timed(cds, "x", relaytest.Cluster("x", time.Second), time.Hour)
		w.origin.Set(cds, "y", "v1", relaytest.Cluster("y", time.Second))
		for _, c := range []struct {
			dialect  relaytest.Dialect
			features []string
			told     bool
		}{
			{relaytest.Delta, nil, false},
			{relaytest.Delta, []string{knowsWrapper}, false},
			{relaytest.Delta, []string{knowsTTLs}, true},
			{relaytest.SotW, nil, false},
			{relaytest.SotW, []string{knowsWrapper}, false},
			{relaytest.SotW, []string{knowsTTLs}, false},
			{relaytest.SotW, []string{knowsTTLs, knowsWrapper}, true},
		} {
			client := w.featured(relaytest.ClientConfig{Dialect: c.dialect}, c.features...)
			client.Subscribe(cds, "*")
			r := client.Expect(cds, "the set is served")
			x, y := item(t, r, "x"), item(t, r, "y")
			if told := x.TTL != nil; told != c.told || x.Wrapped != (c.told && c.dialect == relaytest.SotW) {
				t.Errorf("%v client with %v: TTL %v, wrapped %v", c.dialect, c.features, x.TTL, x.Wrapped)
			}
			if y.TTL != nil || y.Wrapped {
				t.Errorf("%v client with %v: what has no TTL comes with TTL %v, wrapped %v", c.dialect, c.features, y.TTL, y.Wrapped)
			}
			if x.Version == "" || x.Wrapped && x.Version == r.Version() {
				t.Errorf("%v client with %v: the resource has version %q in a response of %q", c.dialect, c.features, x.Version, r.Version())
			}
			client.CheckClean()
		}
	}},
	{"RELAY-47", "who comes later is told what is left", func(t *testing.T) {
		w := start(t, setup{})
		w.timed(cds, "x", relaytest.Cluster("x", time.Second), time.Minute)
		first := w.knowing(relaytest.Delta)
		first.Subscribe(cds, "*")
		begin := first.Expect(cds, "the set is served").At
		first.WantIdle(quiet)
		for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			c := w.knowing(d)
			c.Subscribe(cds, "*")
			r := c.Expect(cds, "so it is to who comes later")
			ttl, past := *item(t, r, "x").TTL, r.At.Sub(begin)
			if ttl > time.Minute-past+quiet/2 || ttl%time.Millisecond != 0 {
				t.Errorf("%v after the first, a %v client is told a TTL of %v", past, d, ttl)
			}
			c.CheckClean()
		}
	}},
	{"TTL-8", "the end of a TTL is told with the resource", func(t *testing.T) {
		w := start(t, setup{})
		body := relaytest.Cluster("x", time.Second)
		w.timed(cds, "x", body, 2*time.Second)
		clients := []*relaytest.Client{w.knowing(relaytest.Delta), w.knowing(relaytest.SotW)}
		for _, c := range clients {
			c.Subscribe(cds, "*")
			c.Expect(cds, "the set is served")
		}
		w.origin.Open()[0].Respond(cds, "2", relaytest.Resource{Name: "x", Version: "v1", Body: body})
		for _, c := range clients {
			if i := item(t, c.Expect(cds, "it is told"), "x"); i.Heartbeat() || i.TTL != nil {
				t.Errorf("it is told with TTL %v, heartbeat %v", i.TTL, i.Heartbeat())
			}
			c.WantIdle(2*time.Second + quiet)
			c.AwaitNames(cds, "and it stays", "x")
			c.CheckClean()
		}
	}},
	{"TTL-7 VER-3", "a TTL is no part of a version", func(t *testing.T) {
		w := start(t, setup{})
		body := relaytest.Cluster("x", time.Second)
		w.origin.Set(cds, "x", "v1", body)
		delta, sotw, plain := w.knowing(relaytest.Delta), w.knowing(relaytest.SotW), w.client(relaytest.Delta)
		versions := map[*relaytest.Client]string{}
		for _, c := range []*relaytest.Client{delta, sotw, plain} {
			c.Subscribe(cds, "*")
			r := c.Expect(cds, "the set is served")
			versions[c] = item(t, r, "x").Version
			if c == sotw {
				versions[c] = r.Version()
			}
		}
		w.origin.Open()[0].Respond(cds, "2", relaytest.Resource{Name: "x", Version: "v2", Body: body, TTL: time.Hour})
		if i := item(t, delta.Expect(cds, "the TTL is told"), "x"); !i.Heartbeat() || i.Version != versions[delta] {
			t.Errorf("heartbeat %v of version %q, before it was %q", i.Heartbeat(), i.Version, versions[delta])
		}
		if r := sotw.Expect(cds, "the TTL is told"); r.Version() != versions[sotw] {
			t.Errorf("version_info is %q, before it was %q", r.Version(), versions[sotw])
		}
		plain.WantIdle(quiet)
	}},
	{"TTL-13", "a TTL of zero or less is over already", func(t *testing.T) {
		w := start(t, setup{})
		for _, name := range []string{"a", "b", "c"} {
			w.origin.Set(cds, name, "v1", relaytest.Cluster(name, time.Second))
		}
		clients := each(w, func(c *relaytest.Client) {
			c.Subscribe(cds, "*")
			c.AwaitNames(cds, "the set is served", "a", "b", "c")
		})
		gone := func(name string, ttl time.Duration) *discovery.Resource {
			return &discovery.Resource{Name: name, Version: "v1", Resource: relaytest.Cluster(name, time.Second), Ttl: durationpb.New(ttl)}
		}
		w.origin.Open()[0].Send(&discovery.DeltaDiscoveryResponse{
			TypeUrl: cds, Nonce: "n", Resources: []*discovery.Resource{gone("a", 0), gone("b", -time.Second)},
		})
		for _, c := range clients {
			c.AwaitNames(cds, "both are removed", "c")
			c.CheckClean()
		}
		w.first.AwaitMetric(2, "they are counted", "weir_ttl_expirations_total", `type="cds"`)
	}},
}
