package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// ttlExpiryCases: the end of a TTL, with the origin there and away.
var ttlExpiryCases = slices.Concat(
	eachDialect("RELAY-49 RELAY-50 RELAY-51 RELAY-53 ABS-10", "what has a TTL vanishes during an outage, and nothing else", outage),
	[]testCase{
		{"RELAY-51", "ttl_unsupported: withhold keeps a TTL'd name from who can be told neither the TTL nor its end", func(t *testing.T) {
			w := start(t, setup{edge: func(c weirtest.Config) { c.Origin()["ttl_unsupported"] = "withhold" }})
			w.timed(eds, "a", relaytest.Endpoints("a", "10.0.0.1:80"), time.Hour)
			w.origin.Set(eds, "b", "v1", relaytest.Endpoints("b", "10.0.0.1:80"))
			for _, c := range []*relaytest.Client{w.knowing(relaytest.SotW), w.client(relaytest.Delta)} {
				c.Subscribe(eds, "a", "b")
				c.AwaitNames(eds, "who can be told has both", "a", "b")
				c.CheckClean()
			}
			c := w.client(relaytest.SotW)
			c.Subscribe(eds, "a", "b")
			c.AwaitNames(eds, "who cannot has what has no TTL", "b")
			c.Await(0, func(s *relaytest.State) bool { return s.Error(eds, "a") != nil }, "and is told why")
			if e := errorOf(c, eds, "a"); codes.Code(e.Code) == codes.NotFound {
				t.Errorf("the error says that it does not exist: %v", e)
			}
			c.WantIdle(quiet)
			c.CheckClean()
		}},
		{"RELAY-50 TTL-1", "with the origin there, an expired resource is removed everywhere, and counted", func(t *testing.T) {
			w := start(t, setup{})
			w.timed(cds, "x", relaytest.Cluster("x", time.Second), time.Second)
			w.origin.Set(cds, "y", "v1", relaytest.Cluster("y", time.Second))
			clients := append(each(w, func(*relaytest.Client) {}), w.knowing(relaytest.Delta), w.knowing(relaytest.SotW))
			for _, c := range clients {
				c.Subscribe(cds, "*")
			}
			for _, c := range clients {
				c.AwaitNames(cds, "what expires goes, what has no TTL stays", "y")
			}
			delta := clients[2]
			delta.Await(0, func(s *relaytest.State) bool { return s.Absent(cds, "x") }, "who knows TTLs is told as well")
			w.first.AwaitMetric(1, "it is counted", "weir_ttl_expirations_total", `type="cds"`)
			for _, c := range clients {
				c.CheckClean()
			}
		}},
		{"FILE-8", "a TTL in a file counts from the load", func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "eds.yaml")
			text := "resources:\n- {name: a, ttl: 2s, resource: {\"@type\": " + eds + ", cluster_name: a}}\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg := weirtest.NewConfig("", relaytest.Delta)
			delete(cfg.Origin(), "grpc")
			cfg.Origin()["files"] = map[string]any{"path": file}
			w := &world{t: t, weir: weirtest.Start(t, cfg)}
			w.first = w.weir
			c := w.client(relaytest.Delta)
			c.Subscribe(eds, "a")
			c.AwaitNames(eds, "it is served", "a")
			c.AwaitNames(eds, "and expires, since a file cannot renew it")
			w.first.AwaitMetric(1, "it is counted", "weir_ttl_expirations_total", `type="eds"`)
			c.CheckClean()
		}},
		{"FILE-8", "virtual: a file that is loaded again tells its TTLs again", func(t *testing.T) {
			virtual(t, "../../../upstream/file", "TestTTLCountsFromTheLoad")
		}},
	},
)

// named is a resource of the type that is asked by that name.
func named(typeURL, name string) *anypb.Any {
	if typeURL == cds {
		return relaytest.Cluster(name, time.Second)
	}
	return relaytest.Endpoints(name, "10.0.0.1:80")
}

func outage(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{sotw: d == relaytest.SotW})
	const ttl = 2 * time.Second
	for _, typeURL := range []string{cds, eds} {
		w.origin.Set(typeURL, "y", "v1", named(typeURL, "y"))
	}
	clients := append(each(w, func(*relaytest.Client) {}), w.knowing(relaytest.Delta), w.knowing(relaytest.SotW))
	for _, c := range clients {
		c.Subscribe(cds, "*")
		c.Subscribe(eds, "x", "y")
		c.AwaitNames(cds, "the set is served", "y")
		c.AwaitNames(eds, "so is the name", "y")
	}
	begin := time.Now()
	for _, typeURL := range []string{cds, eds} {
		w.timed(typeURL, "x", named(typeURL, "x"), ttl)
	}
	for _, c := range clients {
		c.AwaitNames(cds, "the new cluster arrives", "x", "y")
		c.AwaitNames(eds, "the new endpoints arrive", "x", "y")
	}
	w.origin.Stop()
	for i, c := range clients {
		c.AwaitNames(cds, "the cluster expires", "y")
		// rounded down at every hop (RELAY-47)
		if lived := time.Since(begin); lived < ttl-time.Duration(hops(t))*time.Millisecond {
			t.Errorf("client %d lost it after %v of %v", i, lived, ttl)
		}
		if sotw := i%2 == 1; sotw {
			c.Await(0, func(s *relaytest.State) bool { return s.Error(eds, "x").GetCode() == int32(codes.NotFound) }, "of the endpoints it is told")
		} else {
			c.Await(0, func(s *relaytest.State) bool { return s.Absent(eds, "x") }, "the endpoints are removed")
		}
		c.Await(0, func(s *relaytest.State) bool { return slices.Contains(s.Names(eds), "y") }, "what has no TTL stays")
		c.Skip()
		c.WantIdle(quiet)
		c.CheckClean()
	}
}

// ttlFeatureCases: what a client's features mean here and upstream.
var ttlFeatureCases = []testCase{
	{"FEAT-3 FEAT-4", "every spelling of the features is understood", func(t *testing.T) {
		w := start(t, setup{})
		w.timed(cds, "x", relaytest.Cluster("x", time.Second), time.Hour)
		for _, ttl := range []string{"xds.config.supports-resource-ttl", "envoy.config.supports-resource-ttl"} {
			for _, wrapper := range []string{
				"xds.config.resource-in-sotw", "xds.config.supports-resource-in-sotw", "envoy.config.resource-in-sotw",
			} {
				c := w.featured(relaytest.ClientConfig{Dialect: relaytest.SotW}, ttl, wrapper)
				c.Subscribe(cds, "*")
				if i := item(t, c.Expect(cds, "the set is served"), "x"); i.TTL == nil || !i.Wrapped {
					t.Errorf("with %s and %s it comes with TTL %v, wrapped %v", ttl, wrapper, i.TTL, i.Wrapped)
				}
				c.Cancel()
			}
			c := w.featured(relaytest.ClientConfig{}, ttl)
			c.Subscribe(cds, "*")
			if i := item(t, c.Expect(cds, "the set is served"), "x"); i.TTL == nil {
				t.Errorf("with %s it comes without TTL in delta", ttl)
			}
			c.Cancel()
		}
	}},
	{"FEAT-6", "upstream weir says what it can handle, in both spellings, whatever its clients can", func(t *testing.T) {
		w := start(t, setup{})
		w.origin.Set(cds, "x", "v1", relaytest.Cluster("x", time.Second))
		c := w.client(relaytest.Delta)
		c.Subscribe(cds, "*")
		got := w.origin.ExpectStream("the set is asked for").ExpectType(cds, "with a node").Node().GetClientFeatures()
		for _, f := range []string{
			"xds.config.resource-in-sotw", "xds.config.supports-resource-in-sotw",
			"xds.config.supports-resource-ttl", "envoy.config.supports-resource-ttl",
		} {
			if !slices.Contains(got, f) {
				t.Errorf("the node has %v, and not %s", got, f)
			}
		}
	}},
}
