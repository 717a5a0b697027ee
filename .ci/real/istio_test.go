//go:build istio

package real

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// istio is istio's discovery server, a program of its own (origins/istio), with resources for
// sidecars of the namespace shop: services, and one route to one of them.
type istio struct {
	tb   testing.TB
	addr string
	run  *planeRun

	services map[string]*backend
	route    string // the service that requests go to
}

// Start runs it with what it is to have, until clients can ask.
func (i *istio) Start() {
	i.tb.Helper()
	i.run = startPlane(i.tb, []string{installed(i.tb, "istio")}, i.addr, new(atomic.Int64))
	i.Publish()
}

// Kill ends it.
func (i *istio) Kill() {
	_ = i.run.cmd.Process.Kill() // it may have ended by itself
	<-i.run.done
}

// Publish gives it what it is to have.
func (i *istio) Publish() {
	i.tb.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, istioMesh, i.route)
	for _, name := range slices.Sorted(maps.Keys(i.services)) {
		_, port, err := net.SplitHostPort(i.services[name].http)
		if err != nil {
			i.tb.Fatal(err)
		}
		fmt.Fprintf(&text, istioService, name, port)
	}
	if err := i.run.give([]byte(text.String())); err != nil {
		i.tb.Fatal(err)
	}
}

// Reroute adds a service with one backend and moves the route to it; of the others only the one
// that the route was to stays. A service that goes while a route is to it costs requests by istio
// itself, which takes its endpoints away before the route is told.
func (i *istio) Reroute(name string, b *backend) {
	i.services = map[string]*backend{i.route: i.services[i.route], name: b}
	i.route = name
}

// istioNode is a sidecar as istio's own agent describes it, without redirection of its traffic.
var istioNode = map[string]any{
	"id":      "sidecar~10.0.0.1~pod.shop~shop.svc.cluster.local",
	"cluster": "pod.shop",
	"metadata": map[string]any{
		"NAMESPACE": "shop", "INSTANCE_IPS": "10.0.0.1", "CLUSTER_ID": "Kubernetes", "ISTIO_VERSION": "1.31.0",
		"INTERCEPTION_MODE": "NONE",
	},
}

// startEnvoy runs a sidecar with its control plane at server.
func (i *istio) startEnvoy(server string, t *tally) client {
	i.tb.Helper()
	e := envoy{pinned("ENVOY_NEWEST"), relaytest.Delta, true}
	bootstrap := e.bootstrap("", server)
	bootstrap["node"] = istioNode
	return startEnvoy(i.tb, e, bootstrap, t, func(c *http.Client) (string, error) { return getURL(c, "http://front.shop.example/") })
}

// weirConfig is the page's recipe: istio tells each proxy what is for it, so every node is a group.
func (i *istio) weirConfig(disk string) weirtest.Config { return recipe(i.tb, "istiod", i.addr, disk) }

// TestIstio: no request fails behind weir whatever changes, ends and comes back, and an Envoy holds
// what it holds straight at istio.
func TestIstio(t *testing.T) {
	var backends []*backend
	for n := range 4 {
		backends = append(backends, startBackend(t, fmt.Sprintf("backend-%d", n)))
	}
	tally, at := newTally(), 0
	next := func() *backend { at++; return backends[at%4] }
	reach := func(sentence string) {
		t.Helper()
		tally.Reach(t, backends[at%4].name, sentence)
	}
	plane := &istio{tb: t, addr: freeAddress(t), route: "first", services: map[string]*backend{"first": backends[0]}}
	plane.Start()
	disk, front := filepath.Join(t.TempDir(), "snapshot"), newFront(t, "")
	weir := weirtest.Start(t, plane.weirConfig(disk))
	front.To(weir.Addr)
	behind := plane.startEnvoy(front.Addr(), tally)
	tally.More(t, 3, "the first requests")

	reroute := func() { plane.Reroute(fmt.Sprint("service-", at), next()) }
	rerouted := func(sentence string) {
		t.Helper()
		reroute()
		plane.Publish()
		reach(sentence)
	}
	for range times(10) {
		plane.services[plane.route] = next()
		plane.Publish()
		reach("the endpoints change")
	}
	for range times(25) {
		rerouted("a new service and the route to it, while the one before goes")
	}
	for range times(3) {
		before, err := behind.Counters()
		if err != nil {
			t.Fatal(err)
		}
		plane.Kill()
		tally.More(t, 50, "requests go on without istio")
		plane.Start()
		weir.AwaitMetric(1, "weir is connected again", "weir_upstream_connected")
		tally.More(t, 500, "requests go on after istio's return")
		after, err := behind.Counters()
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(before, after) {
			t.Errorf("Envoy was told something: its counters moved from\n%v to\n%v", before, after)
		}
		rerouted("a change after istio's return")
	}
	for range times(3) {
		plane.Kill()
		reroute()
		plane.Start()
		reach("istio came back with something else")
	}

	for _, end := range []func(){weir.Stop, func() { weir.Kill() }} {
		end()
		tally.More(t, 50, "requests go on without weir")
		weir = weirtest.Start(t, plane.weirConfig(disk))
		front.To(weir.Addr)
		rerouted("a change after weir's return")
	}
	plane.Kill()
	weir.Stop()
	weir = weirtest.Start(t, plane.weirConfig(disk))
	front.To(weir.Addr)
	tally.More(t, 50, "requests go on behind a restored weir, without istio")
	late := newTally()
	second := plane.startEnvoy(front.Addr(), late)
	late.More(t, 20, "an Envoy comes to a restored weir, without istio")
	second.Stop()
	late.Check(t)
	reroute()
	plane.Start()
	reach("istio came back with something else behind a restored weir")

	tally.More(t, 20, "requests go on at the end")
	direct := newTally()
	straight := plane.startEnvoy(plane.addr, direct)
	direct.More(t, 3, "requests of an Envoy straight at istio")
	equal(t, straight, behind)
	straight.Stop()
	behind.Stop()
	tally.Check(t)
}

// istioMesh is the listener of every sidecar, on a socket in the folder that its Envoy runs in, the
// service that is asked for, and its route. istio wants the socket's path to be absolute.
const istioMesh = `apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: { name: default, namespace: shop }
spec:
  egress:
  - port: { number: 0, protocol: HTTP, name: http }
    bind: unix:///proc/self/cwd/in.sock
    hosts: ["./*"]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: front, namespace: shop }
spec:
  hosts: [front.shop.example]
  ports: [{ number: 80, name: http, protocol: HTTP }]
  location: MESH_EXTERNAL
  resolution: STATIC
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: { name: front, namespace: shop }
spec:
  hosts: [front.shop.example]
  http: [{ route: [{ destination: { host: %s.shop.example } }] }]
`

const istioService = `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: %[1]s, namespace: shop }
spec:
  hosts: [%[1]s.shop.example]
  ports: [{ number: 80, name: http, protocol: HTTP }]
  location: MESH_EXTERNAL
  resolution: STATIC
  endpoints: [{ address: 127.0.0.1, ports: { http: %[2]s } }]
`
