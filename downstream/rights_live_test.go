package downstream

import (
	"context"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/downstream/identity"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	loadstatsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

func compiled(t *testing.T, rules ...authz.Rule) *authz.Rules {
	t.Helper()
	out, problems := authz.Compile(rules)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return out
}

// rerule has a live server go on by other rules, as a reload does.
func (l *live) rerule(t *testing.T, rules *authz.Rules) {
	t.Helper()
	n, err := l.table.Prepare(relay.Config{Settle: 250 * time.Millisecond, Origins: []relay.OriginConfig{{Name: "mesh", Authorities: []string{"served"}}}})
	if err != nil {
		t.Fatal(err)
	}
	l.server.mu.Lock()
	port := l.server.listeners[0].port
	l.server.mu.Unlock()
	c, err := l.server.Reconfigure(Reconfiguration{
		Rules: rules, Change: n.Commit(time.Now()), Listeners: map[net.Listener]ListenerConfig{port: {Origin: l.table.Origin(l.origin.Name())}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.End(context.Background(), time.Hour) // they are ended at once all the same
}

// TestRulesOfALiveServer: streams whose clients lose by other rules are ended at once with
// UNAVAILABLE, counted as ended by a reload, and are given what they may have when they come again;
// streams that keep what they may have go on. So do streams of load reports.
func TestRulesOfALiveServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		reports := make(chan []byte, 10)
		everybody := authz.Rule{Who: []string{identity.Anonymous}}
		l := newLive(t, relaytest.Memory(), func(cfg *Config, _ *ListenerConfig) {
			cfg.Metrics = metrics.New(registry)
			cfg.Rules = compiled(t, authz.Rule{Who: everybody.Who, Claims: map[string][]string{"node.cluster": {"edge"}}, Names: []string{"a", "b"}})
			cfg.LoadReports = func(ctx context.Context, _ *relay.Origin, _ []string, _ string, _ []byte) (LoadStream, error) {
				return &heardLoads{originLoads{ctx, make(chan error, 1)}, reports}, nil
			}
		})
		client := l.open(t, relaytest.ClientConfig{Dialect: relaytest.Delta})
		client.Subscribe(eds, "a", "b")
		other := l.open(t, relaytest.ClientConfig{Dialect: relaytest.Delta})
		other.Subscribe(eds, "b")
		l.asked(t, 3)
		l.say(eds, "a=1", "b=1")
		client.AwaitNames(eds, "what it may have", "a", "b")
		other.AwaitNames(eds, "what it may have", "b")

		loads := func() *relaytest.Client {
			return l.open(t, relaytest.ClientConfig{Method: relaytest.LoadMethod, Patience: time.Minute})
		}
		report := func(c *relaytest.Client, n *corev3.Node) {
			c.SendRaw(encoded(t, &loadstatsv3.LoadStatsRequest{Node: n}))
		}
		stranger := loads()
		report(stranger, relaytest.Node("envoy-1", "core"))
		if code := stranger.AwaitEnd("no rule fits it"); code != codes.PermissionDenied {
			t.Errorf("load reports of a client that no rule fits end with %v", code)
		}
		reporter := loads()
		report(reporter, relaytest.Node("envoy-1", "edge"))
		report(reporter, nil)
		for range 2 {
			<-reports
		}

		// b is what both still may have, and a is lost.
		l.rerule(t, compiled(t, authz.Rule{Who: everybody.Who, Claims: map[string][]string{"node.cluster": {"ed*"}}, Names: []string{"b"}}))
		synctest.Wait()
		if code := client.AwaitEnd("it may have less"); code != codes.Unavailable {
			t.Errorf("ended with %v", code)
		}
		if code := other.AwaitEnd("it may have less, of what it did not ask for"); code != codes.Unavailable {
			t.Errorf("ended with %v", code)
		}
		if n := testutil.ToFloat64(counter(t, registry, "weir_streams_ended_total", "reconfigured")); n != 2 {
			t.Errorf("%v streams were ended by a reload, want 2", n)
		}
		client = l.open(t, relaytest.ClientConfig{Dialect: relaytest.Delta})
		client.Subscribe(eds, "a", "b")
		client.AwaitNames(eds, "what it may have now", "b")
		report(reporter, nil)
		<-reports // it goes on

		// What is set concerns the node that the groups were joined with, and the reports.
		l.rerule(t, compiled(t, authz.Rule{Who: everybody.Who, Set: map[string]string{"node.metadata.team": "x"}, Names: []string{"b"}}))
		synctest.Wait()
		for _, c := range []*relaytest.Client{client, reporter} {
			if code := c.AwaitEnd("its node would be another"); code != codes.Unavailable {
				t.Errorf("ended with %v", code)
			}
		}
		reporter = loads()
		report(reporter, relaytest.Node("envoy-1", "edge"))
		report(reporter, nil)
		report(reporter, relaytest.Node("envoy-1", "core"))
		for i, want := range []string{"x", "", "x"} {
			m := &loadstatsv3.LoadStatsRequest{}
			if err := proto.Unmarshal(<-reports, m); err != nil {
				t.Fatal(err)
			}
			if got := m.GetNode().GetMetadata().GetFields()["team"].GetStringValue(); got != want {
				t.Errorf("report %d says of the team %q, want %q", i, got, want)
			}
		}
		reporter.SendRaw([]byte{0xff})
		if code := reporter.AwaitEnd("it cannot be read"); code != codes.InvalidArgument {
			t.Errorf("ended with %v", code)
		}
		reporter = loads()
		report(reporter, relaytest.Node("envoy-1", "edge"))
		<-reports
		l.rerule(t, nil)
		if code := reporter.AwaitEnd("nothing is set any more"); code != codes.Unavailable {
			t.Errorf("ended with %v", code)
		}
		reporter = loads()
		report(reporter, relaytest.Node("envoy-1", "edge"))
		<-reports
		l.rerule(t, compiled(t, everybody))
		if code := reporter.AwaitEnd("what its node says was not kept"); code != codes.Unavailable {
			t.Errorf("ended with %v", code)
		}
	})
}

// heardLoads is a stream at an origin whose reports are looked at.
type heardLoads struct {
	originLoads
	reports chan []byte
}

func (h *heardLoads) Send(report []byte) error {
	h.reports <- slices.Clone(report)
	return nil
}

// TestSetIsWhatTheOriginIsTold: groups are joined with the node that the rules make of the client's,
// at each origin; a client that says its own node again says nothing new.
func TestSetIsWhatTheOriginIsTold(t *testing.T) {
	r := newRigWith(t, relay.Config{Origins: []relay.OriginConfig{
		{Name: "mesh", GroupBy: []string{"id", "cluster", "metadata.team"}}, {Name: "east", Authorities: []string{"east"}, GroupBy: []string{"metadata.team"}},
	}})
	r.configure(func(c *Config, _ *ListenerConfig) {
		c.Rules = compiled(t, authz.Rule{
			Who: []string{"uri:{team}/{name}"},
			Set: map[string]string{"node.id": "{name}", "node.cluster": "{team}/{name}", "node.metadata.team": "{team}", "node.metadata.a.b.c": "{name}"},
		})
	})
	claimed := func() *corev3.Node {
		n := relaytest.Node("somebody", "else")
		n.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"team": structpb.NewStringValue("ops")}}
		return n
	}
	asks := func(names ...string) *discoveryv3.DeltaDiscoveryRequest {
		return &discoveryv3.DeltaDiscoveryRequest{TypeUrl: eds, ResourceNamesSubscribe: names}
	}
	p := newPipe(r, true)
	p.session.from.identity, p.node = "uri:shop/web", claimed()
	if err := p.send(r.now, asks("a", long(eds, "//east/a"))); err != nil {
		t.Fatal(err)
	}
	for origin, want := range map[string]string{"mesh": "web shop/web shop", "east": "  shop"} {
		groups := inspect.Status(r.table.Origin(origin))
		if len(groups) != 1 {
			t.Fatalf("%s has %d groups", origin, len(groups))
		}
		n := groups[0].Node
		id := n.GetId()
		if origin == "east" {
			id = "" // weir's own
		}
		if got := id + " " + n.GetCluster() + " " + n.GetMetadata().GetFields()["team"].GetStringValue(); got != want {
			t.Errorf("%s is told %q, want %q", origin, got, want)
		}
	}
	p.node = claimed()
	if err := p.send(r.now, asks("b")); err != nil {
		t.Fatal(err)
	}
	p.node = relaytest.Node("web", "other")
	if err := p.send(r.now, asks("c")); err != nil || p.session.nodeChanges != 0 {
		t.Errorf("a node with the same set in it: %v, %d changes", err, p.session.nodeChanges)
	}
	if p.session.nodeID != "web" {
		t.Errorf("its id is %q", p.session.nodeID)
	}
}

// TestWhoMayHaveNothingAsksNothing: names, sets and locators of which a client may have nothing open
// no stream at any origin, whatever the client knows of them; what there is to say it is told, and
// the origins that are down have no part in it.
func TestWhoMayHaveNothingAsksNothing(t *testing.T) {
	far := func(typeURL, id string) string { return long(typeURL, "//far/"+id) }
	for _, dialect := range []string{"delta", "sotw", "poll"} {
		for _, rules := range [][]authz.Rule{
			{{Who: []string{"anonymous"}, Names: []string{"{nobody}/*"}}},
			{{Who: []string{"anonymous"}, Types: []string{sds}}},
			{{Who: []string{"anonymous"}, Names: []string{"mine/*", "xdstp://far/*/mine/*"}}},
			{{Who: []string{"anonymous"}, Claims: map[string][]string{"parameters.env": {"prod"}}}},
		} {
			r := newRigWith(t, relay.Config{Origins: []relay.OriginConfig{{Name: "mesh", TP2: true}, {Name: "far", Authorities: []string{"far"}, TP2: true}}})
			problems := []authz.Problem(nil)
			r.configure(func(c *Config, _ *ListenerConfig) { c.Rules, problems = authz.Compile(rules) })
			star := rules[0].Names == nil || rules[0].Names[0] == "{nobody}/*" // nothing of it either
			for _, p := range problems {
				if !p.Warning {
					t.Fatal(p)
				}
			}
			for _, typeURL := range []string{cds, eds, rds, vhd} {
				names := []string{"theirs/a", "shared", far(typeURL, "theirs/a")}
				if dialect == "delta" {
					names = append(names, far(typeURL, "theirs/*"))
				}
				if star && typeURL != vhd {
					names = append(names, xds.Wildcard)
				}
				located := []*discoveryv3.ResourceLocator{{Name: "theirs/a", DynamicParameters: map[string]string{"env": "test"}}}
				switch dialect {
				case "poll":
					session := newPollSession(r.set, &pollers{}, typeURL, false, caller{}, r.now)
					wire := encoded(t, &discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: names, ResourceLocators: located})
					if _, err := takeIn(t, session, r.now, wire); err != nil {
						t.Error(err)
					}
					session.close(r.now)
				case "sotw":
					p := newPipe(r, false)
					if err := p.send(r.now, &discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: names, ResourceLocators: located, VersionInfo: "before"}); err != nil {
						t.Error(err)
					}
				default:
					p := newPipe(r, true)
					err := p.send(r.now, &discoveryv3.DeltaDiscoveryRequest{
						TypeUrl: typeURL, ResourceNamesSubscribe: names, ResourceLocatorsSubscribe: located, InitialResourceVersions: map[string]string{"theirs/a": "before"},
					})
					if err != nil {
						t.Error(err)
					}
					batch, err := p.take(r.now)
					if err != nil || len(batch) == 0 {
						t.Errorf("%s %s: is told nothing of %v: %v", dialect, typeURL, names, err)
					}
				}
				for _, name := range []string{"mesh", "far"} {
					for _, l := range r.table.Origin(name).TakeLanes() {
						if l.Wanted() {
							t.Errorf("%s, %s of %v, by %v: %s is asked", dialect, typeURL, names, rules, name)
						}
					}
				}
			}
			if err := r.table.Check(); err != nil {
				t.Error(err)
			}
		}
	}
}
