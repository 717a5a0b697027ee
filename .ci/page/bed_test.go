package page

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

const (
	totalClients  = 2000
	totalGroups   = 20
	totalClusters = 30 // of each origin

	refusing        = 12 // clients of the group refusingGroup refuse refusedListener
	refusingGroup   = 0
	refusedListener = "ingress"
	// What they say, as Envoy does: its varying parts are the node's id and an address.
	refusal = "Error adding/updating listener(s) ingress: %s: route config 0x%x has an unknown cluster 'checkout-v2'"

	hostileCluster = `<script>window.pwned=1</script>`
	hostileReason  = `"><img src=x onerror="window.pwned=1"> cannot be 'accepted' & </script><script>window.pwned=1</script>`
)

var (
	originNames = []string{"mesh", "edge", "canary"}
	services    = []string{
		"checkout", "cart", "search", "payments", "catalog", "login", "profile", "orders", "shipping", "pricing",
		"reviews", "media", "mail", "ledger", "fraud", "stock", "tax", "offers", "gateway", "hostile",
	}
	hostileIDs = []string{
		`<img src=x onerror="window.pwned=1">`, `javascript:window.pwned=1`, "\u202egnp.live-\u05e9\u05dc\u05d5\u05dd\u202c",
		strings.Repeat("very-long-node-id-", 60), `"'&amp;<b>%2e%2e/../?#[]{}` + "`${window.pwned=1}`", "two\nlines\tand a tab",
		"\u0645\u0631\u062d\u0628\u0627", "#/config",
	}
	hostileNames = []string{
		`"><script>window.pwned=1</script>`, strings.Repeat("very-long-resource-", 50), "\u202eecruoser-\u05e9\u05dc\u05d5\u05dd", `a/b?c=d&e=f#g %41 '"`,
	}
)

// lenient has an origin bear weir's pings, however long nothing is sent.
var lenient = []grpc.ServerOption{
	grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
}

func clusterName(i int) string { return fmt.Sprintf("cluster-%02d", i%totalClusters) }

// bed is what all tests of the page share.
type bed struct {
	weir    *weirtest.Process
	origins []*relaytest.Origin // as originNames
	groups  []group
}

// newBed starts everything, and returns when all clients have all that they accept.
func newBed(t *testing.T) *bed { return newBedOf(t, fleet(), true) }

// newBedOf is the same with other clients. hostile: resources have hostile names, too.
func newBedOf(t *testing.T, groups []group, hostile bool) *bed {
	t.Helper()
	b := &bed{groups: groups}
	config := weirtest.Config{}
	var listeners, origins []any
	for _, name := range originNames {
		o := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Options: lenient})
		o.Batch(func() { fill(o) })
		b.origins = append(b.origins, o)
		listeners = append(listeners, map[string]any{"origin": name})
		origins = append(origins, map[string]any{
			"name": name, "group_by": []any{"cluster"},
			"grpc": map[string]any{"addresses": []any{o.Net().Addr()}},
		})
	}
	if hostile {
		o := b.origins[b.groups[totalGroups-1].origin]
		o.Batch(func() {
			for _, name := range hostileNames {
				o.Set(relaytest.ClusterType, name, "1", plainCluster(name, time.Second))
			}
		})
	}
	config["listeners"], config["origins"] = listeners, origins
	config.Set("limits.streams_per_connection", totalClients/totalGroups+1)
	config.Set("timing.drain", "200ms")
	begin := time.Now()
	b.weir = weirtest.Start(t, config)
	start(t, b.weir.Addrs, b.groups)
	if !weirtest.Until(2*patience, func() bool {
		got := b.clients(t)
		return got.Total == totalClients && got.Unsynced <= refusing+len(hostileIDs)
	}) {
		t.Fatalf("the fleet is not there after %v: %+v", time.Since(begin), b.clients(t))
	}
	t.Logf("%d clients were served after %v", totalClients, time.Since(begin).Round(time.Millisecond))
	return b
}

// fill gives an origin its resources.
func fill(o *relaytest.Origin) {
	for i := range totalClusters {
		name := clusterName(i)
		o.Set(relaytest.ClusterType, name, "1", plainCluster(name, 5*time.Second))
		o.Set(relaytest.EndpointType, name, "1", relaytest.Endpoints(name, fmt.Sprintf("10.0.0.%d:8080", i), fmt.Sprintf("10.0.1.%d:8080", i)))
	}
	for i, name := range []string{refusedListener, "egress", "health"} {
		o.Set(relaytest.ListenerType, name, "1", relaytest.Listener(name, 10000+i))
	}
}

func plainCluster(name string, timeout time.Duration) *cluster.Cluster {
	return &cluster.Cluster{
		Name: name, ConnectTimeout: durationpb.New(timeout), LbPolicy: cluster.Cluster_LEAST_REQUEST,
		ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS},
	}
}

// counted is what /clients says of the fleet.
type counted struct{ Total, Unsynced int }

func (b *bed) clients(t *testing.T) counted {
	t.Helper()
	var all struct{ Total int }
	var late struct{ Total int }
	b.get(t, "/clients?limit=1", &all)
	b.get(t, "/clients?limit=1&unsynced=1", &late)
	return counted{all.Total, late.Total}
}

// get decodes what the admin port says.
func (b *bed) get(t *testing.T, path string, into any) {
	t.Helper()
	text, err := weirtest.Fetch("http://" + b.weir.Admin + path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, text)
	}
}
