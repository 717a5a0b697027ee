//go:build istio

package real

import (
	"fmt"
	"sync/atomic"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// istioPod is a proxy as istio's agent describes it.
func istioPod(kind, ip, name, namespace, app string) *core.Node {
	return keyNode(fmt.Sprintf("%s~%s~%s.%s~%s.svc.cluster.local", kind, ip, name, namespace, namespace), app+"."+namespace, map[string]any{
		"NAMESPACE": namespace, "INSTANCE_IPS": ip, "NAME": name, "CLUSTER_ID": "Kubernetes", "ISTIO_VERSION": "1.31.0",
		"LABELS": map[string]any{"app": app},
	})
}

// TestIstioKeys: with id, cluster and metadata in the key each proxy is a group, and is answered as
// straight at istio; there proxies of one workload are answered the same, and others are not. With
// a fixed id and the cluster alone in the key the groups are fewer, and no proxy is answered as
// straight. Gateways of one workload are one group with a fixed id of a gateway and in the key all
// that istio reads of them besides.
func TestIstioKeys(t *testing.T) {
	nodes := []*core.Node{
		istioPod("sidecar", "10.0.0.1", "web-0", "shop", "web"), istioPod("sidecar", "10.0.0.2", "web-1", "shop", "web"),
		istioPod("sidecar", "10.0.1.1", "pay-0", "bill", "pay"),
		istioPod("router", "10.0.2.1", "in-0", "edge", "in"), istioPod("router", "10.0.2.2", "in-1", "edge", "in"),
	}
	addr := freeAddress(t)
	run := startPlane(t, []string{installed(t, "istio")}, addr, new(atomic.Int64))
	if err := run.give([]byte(istioKeys)); err != nil {
		t.Fatal(err)
	}
	all := keyClients{relaytest.Delta, []string{relaytest.ClusterType, relaytest.ListenerType}, nodes}
	straight := all.answers(t, addr, patience)
	for i := range nodes {
		for j := range i {
			same := straight[i] == straight[j]
			if same != (nodes[i].Cluster == nodes[j].Cluster) {
				t.Errorf("straight at istio %s and %s are answered the same: %v", nodes[j].Id, nodes[i].Id, same)
			}
		}
	}
	config := func() weirtest.Config {
		return weirtest.Config{"listeners": []any{map[string]any{}}, "origins": []any{map[string]any{
			"name": "istio", "grpc": map[string]any{"addresses": []any{addr}},
		}}}
	}
	all.try(t, []keyTrial{
		{groupBy: []any{"id", "cluster", "metadata"}, groups: 5},
		{groupBy: []any{"cluster"}, node: map[string]any{"id": nodes[0].Id}, groups: 3, wrong: 5},
	}, config, straight)
	workload := []any{"cluster", "metadata.NAMESPACE", "metadata.CLUSTER_ID", "metadata.LABELS", "metadata.ISTIO_VERSION"}
	gateways := keyClients{all.dialect, all.types, nodes[3:]}
	gateways.try(t, []keyTrial{
		{groupBy: workload, node: map[string]any{"id": nodes[3].Id}, groups: 1},
	}, config, straight[3:])
}

// istioKeys is a service in each of two namespaces, of which one keeps its own to itself, and a
// gateway.
const istioKeys = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: web, namespace: shop }
spec:
  hosts: [web.shop.example]
  ports: [{ number: 80, name: http, protocol: HTTP }]
  location: MESH_INTERNAL
  resolution: STATIC
  endpoints: [{ address: 10.0.0.1 }, { address: 10.0.0.2 }]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: pay, namespace: bill }
spec:
  hosts: [pay.bill.example]
  exportTo: ["."]
  ports: [{ number: 80, name: http, protocol: HTTP }]
  location: MESH_INTERNAL
  resolution: STATIC
  endpoints: [{ address: 10.0.1.1 }]
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: { name: in, namespace: edge }
spec:
  selector: { app: in }
  servers: [{ port: { number: 8080, name: http, protocol: HTTP }, hosts: ["*"] }]
`
