package real

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// pollingEnvoy is Envoy that polls for all its configuration (api_type: REST).
type pollingEnvoy struct{ envoy }

// Source is polled five times a second.
func (pollingEnvoy) Source() *core.ConfigSource {
	return &core.ConfigSource{
		ResourceApiVersion: core.ApiVersion_V3,
		ConfigSourceSpecifier: &core.ConfigSource_ApiConfigSource{ApiConfigSource: &core.ApiConfigSource{
			ApiType: core.ApiConfigSource_REST, TransportApiVersion: core.ApiVersion_V3, ClusterNames: []string{xdsCluster},
			RefreshDelay: durationpb.New(200 * time.Millisecond),
		}},
	}
}

// Listener polls for its routes.
func (e pollingEnvoy) Listener(routes string) *anypb.Any {
	return e.listener(managerOf(e.Source(), routes), nil)
}

// Start runs Envoy.
func (e pollingEnvoy) Start(tb testing.TB, id, server string, t *tally) client {
	tb.Helper()
	return e.start(tb, map[string]any{"id": id, "cluster": "edge"}, server, t)
}

// start runs Envoy as a node.
func (e pollingEnvoy) start(tb testing.TB, node map[string]any, server string, t *tally) client {
	tb.Helper()
	endpoint := map[string]any{"address": tree(xdsAddress(server))}
	return startEnvoy(tb, e.envoy, map[string]any{
		"node":  node,
		"admin": map[string]any{"address": map[string]any{"pipe": map[string]any{"path": "admin.sock"}}},
		"dynamic_resources": map[string]any{
			"cds_config": tree(e.Source()), "lds_config": tree(e.Source()),
		},
		"static_resources": map[string]any{"clusters": []any{map[string]any{
			"name": xdsCluster, "type": "STATIC", "connect_timeout": "5s",
			"load_assignment": map[string]any{
				"cluster_name": xdsCluster,
				"endpoints":    []any{map[string]any{"lb_endpoints": []any{map[string]any{"endpoint": endpoint}}}},
			},
		}}},
	}, t, func(c *http.Client) (string, error) { return get(c, "/") })
}

// TestPolling: an Envoy that polls weir lives through changes of the control plane, its death, and
// restarts of weir, and no request fails.
func TestPolling(t *testing.T) {
	for _, r := range []struct {
		envoy  string
		origin origin
		hold   string
	}{
		{"ENVOY_NEWEST", snapshotDelta, "0s"},
		{"ENVOY_NEWEST", linearSotW, "500ms"},
		{"ENVOY_OLDEST", snapshotADS, "0s"},
	} {
		t.Run(fmt.Sprintf("%s+%s-hold-%s", r.envoy, r.origin.name, r.hold), func(t *testing.T) {
			t.Parallel()
			b := newBed(t, row{
				program: pollingEnvoy{envoy{version: pinned(r.envoy)}}, origin: r.origin,
				weir: map[string]any{"listeners": []any{map[string]any{"rest": true}}, "timing.rest_hold": r.hold},
			})
			b.startWeir()
			b.startClient()
			b.pollsChange("first")

			b.dies()
			b.tally.More(t, 50, "requests go on without the control plane")
			b.another("late", "a client comes while the control plane is dead")
			b.weir.Stop()
			b.tally.More(t, 20, "requests go on without weir")
			b.startWeir()
			b.another("restored", "a client comes to a restored weir while the control plane is dead")
			b.returns()
			b.pollsChange("second")
			for i := range 4 {
				if i%2 == 0 {
					b.weir.Kill()
				} else {
					b.weir.Stop()
				}
				b.tally.More(t, 20, "requests go on without weir")
				b.change(func(m *mesh) { m.clusters[m.live] = &service{backends: b.backs(i + 2)} })
				b.startWeir()
				b.reach(i+2, "what changed while weir was away")
			}
			b.tally.More(t, 20, "requests go on at the end")
			if n, err := b.client.Refused(); err != nil || n != 0 {
				t.Errorf("Envoy refused %d updates, %v", n, err)
			}
			b.client.Stop()
			b.tally.Check(t)
		})
	}
}

// pollsChange changes endpoints, and clusters with their routes. Polls have no order between types,
// so each change is made before the next one breaks what was there.
func (b *bed) pollsChange(name string) {
	b.Helper()
	for i := range 5 {
		b.shift(i + 1)
	}
	for i := range times(5) {
		next := fmt.Sprintf("%s-%d", name, i)
		b.change(func(m *mesh) { m.clusters[next] = &service{backends: b.backs(i)} })
		b.holds(next, true)
		before := ""
		b.change(func(m *mesh) { before, m.live = m.live, next })
		b.reach(i, "the route goes to a new cluster")
		b.change(func(m *mesh) { delete(m.clusters, before) })
		b.holds(before, false)
	}
}

// holds waits until the client has a cluster with endpoints, or has it no more.
func (b *bed) holds(name string, wanted bool) {
	b.Helper()
	there := func() bool {
		held, err := b.client.Dump()
		has := strings.Contains(held["dynamic_active_clusters"], `"`+name+`"`)
		if wanted { // a cluster whose first poll of endpoints fails is warm without any
			_, endpoints, _ := strings.Cut(held["dynamic_endpoint_configs"], `"cluster_name": "`+name+`"`)
			endpoints, _, _ = strings.Cut(endpoints, `"cluster_name"`)
			has = has && strings.Contains(endpoints, `"lb_endpoints": [`)
		}
		return err == nil && has == wanted || !pause()
	}
	if !weirtest.Until(patience, there) {
		b.Fatalf("that the client has %s does not become %t", name, wanted)
	}
}
