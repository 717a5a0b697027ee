//go:build gateway

package real

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// The addresses of Envoy Gateway that no setting changes.
const (
	gatewayXDS   = "127.0.0.1:18000"
	gatewayReady = "http://127.0.0.1:8081/readyz"
)

// gateway is an Envoy Gateway in its standalone mode. Its resources are a file in a folder, its
// certificates its own, and in place of its Envoy a script tells the arguments that it would have.
type gateway struct {
	tb   testing.TB
	dir  string
	port int // of its proxies' listener
	run  *child
}

// newGateway is one that has not started.
func newGateway(tb testing.TB) *gateway {
	tb.Helper()
	g := &gateway{tb: tb, dir: tb.TempDir()}
	free := loopback(tb)
	g.port = free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		tb.Fatal(err)
	}
	g.file("gateway.yaml", fmt.Sprintf(gatewayConfig, g.dir))
	g.file(filepath.Join("data", "envoy-versions", pinned("ENVOY_NEWEST"), "bin", "envoy"), fmt.Sprintf(standIn, g.dir))
	out, err := g.command("certgen", "--local", "--config-home", filepath.Join(g.dir, "config")).CombinedOutput()
	if err != nil {
		tb.Fatalf("certgen: %v\n%s", err, out)
	}
	return g
}

func (g *gateway) command(args ...string) *exec.Cmd {
	return exec.Command(installed(g.tb, "envoy-gateway-"+pinned("ENVOY_GATEWAY")), args...)
}

// file writes a file whole, so that nobody reads a part of it.
func (g *gateway) file(name, content string) {
	g.tb.Helper()
	to := filepath.Join(g.dir, name)
	// hidden files are nothing to the file provider
	next := filepath.Join(filepath.Dir(to), ".next")
	err := os.MkdirAll(filepath.Dir(to), 0o700)
	if err == nil {
		err = os.WriteFile(next, []byte(content), 0o700)
	}
	if err == nil {
		err = os.Rename(next, to)
	}
	if err != nil {
		g.tb.Fatal(err)
	}
}

// Publish makes one route with one backend all that the gateway has. A route's name is part of its
// cluster's name.
func (g *gateway) Publish(route string, b *backend) {
	g.tb.Helper()
	_, port, err := net.SplitHostPort(b.http)
	if err != nil {
		g.tb.Fatal(err)
	}
	fill := strings.NewReplacer("ENVOY", pinned("ENVOY_NEWEST"), "LISTENER", fmt.Sprint(g.port), "ROUTE", route, "BACKEND", port)
	g.file("resources/all.yaml", fill.Replace(gatewayResources))
}

// Start runs it until it is ready.
func (g *gateway) Start() {
	g.tb.Helper()
	cmd := g.command("server", "--config-path", filepath.Join(g.dir, "gateway.yaml"))
	cmd.Dir = g.dir
	g.run = start(g.tb, cmd)
	ready := func() bool {
		resp, err := http.Get(gatewayReady)
		if err != nil {
			return !pause()
		}
		defer func() { _ = resp.Body.Close() }()
		return resp.StatusCode == http.StatusOK || !pause()
	}
	if !weirtest.Until(patience, func() bool { return g.run.ended() || ready() }) || g.run.ended() {
		g.tb.Fatal("Envoy Gateway does not become ready")
	}
}

// Kill ends it.
func (g *gateway) Kill() {
	_ = g.run.cmd.Process.Kill() // it may have ended by itself
	<-g.run.done
}

// bootstrap is the configuration that Envoy Gateway gives its Envoy, with the control plane at
// server and the admin address where tests look for it.
func (g *gateway) bootstrap(server string) map[string]any {
	g.tb.Helper()
	var args []string
	told := func() bool {
		b, err := os.ReadFile(filepath.Join(g.dir, "arguments"))
		args = strings.Split(string(bytes.TrimSuffix(b, []byte{0})), "\x00")
		return err == nil || !pause()
	}
	if !weirtest.Until(patience, told) {
		g.tb.Fatal("Envoy Gateway starts no Envoy")
	}
	argument := func(name string) string {
		at := slices.Index(args, name)
		if at < 0 || at+1 == len(args) {
			g.tb.Fatalf("Envoy Gateway starts its Envoy without %s: %q", name, args)
		}
		return args[at+1]
	}
	var bootstrap map[string]any
	if err := yaml.Unmarshal([]byte(argument("--config-yaml")), &bootstrap); err != nil {
		g.tb.Fatal(err)
	}
	bootstrap["node"] = map[string]any{"id": argument("--service-node"), "cluster": argument("--service-cluster")}
	bootstrap["admin"] = map[string]any{"address": tree(pipe("admin.sock"))}
	delete(bootstrap, "overload_manager") // limits of the machine
	for _, c := range bootstrap["static_resources"].(map[string]any)["clusters"].([]any) {
		if c := c.(map[string]any); c["name"] == "xds_cluster" {
			c["load_assignment"] = map[string]any{"cluster_name": "xds_cluster", "endpoints": []any{map[string]any{
				"lb_endpoints": []any{map[string]any{"endpoint": map[string]any{"address": tree(address(server))}}},
			}}}
		}
	}
	return bootstrap
}

// startEnvoy runs an Envoy as Envoy Gateway would, with its control plane at server.
func (g *gateway) startEnvoy(server string, t *tally) client {
	g.tb.Helper()
	e := envoy{pinned("ENVOY_NEWEST"), relaytest.Delta, true}
	listener := &http.Client{Timeout: patience, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", g.port))
		},
		DisableKeepAlives: true,
	}}
	return startEnvoy(g.tb, e, g.bootstrap(server), t, func(*http.Client) (string, error) { return get(listener, "/") })
}

// weirConfig is the page's recipe: towards its proxies weir is the gateway, with the same certificate
// and name, and towards the gateway a proxy.
func (g *gateway) weirConfig(disk string) weirtest.Config {
	return recipe(g.tb, "envoy-gateway", gatewayXDS, disk, "/etc/weir/", filepath.Join(g.dir, "config", "certs")+"/")
}

// TestEnvoyGateway: no request fails behind weir whatever ends and comes back, and an Envoy
// holds what it holds straight at Envoy Gateway.
func TestEnvoyGateway(t *testing.T) {
	g := newGateway(t)
	var backends []*backend
	for i := range 4 {
		backends = append(backends, startBackend(t, fmt.Sprintf("backend-%d", i)))
	}
	tally, route, at := newTally(), "first", 0
	publish := func() { g.Publish(route, backends[at%4]) }
	shift := func(sentence string) {
		t.Helper()
		at++
		publish()
		tally.Reach(t, backends[at%4].name, sentence)
	}
	reroute := func(sentence string) {
		t.Helper()
		route = fmt.Sprint("route-", at)
		shift(sentence)
	}
	publish()
	g.Start()
	disk, front := filepath.Join(t.TempDir(), "snapshot"), newFront(t, "")
	weir := weirtest.Start(t, g.weirConfig(disk))
	front.To(weir.Addr)
	behind := g.startEnvoy(front.Addr(), tally)
	tally.More(t, 3, "the first requests")

	for range times(10) {
		shift("the endpoints shift")
	}
	for range times(25) {
		reroute("a route to another cluster")
	}
	for range times(3) {
		before := told(t, behind)
		g.Kill()
		tally.More(t, 50, "requests go on without Envoy Gateway")
		g.Start()
		weir.AwaitMetric(1, "weir is connected again", "weir_upstream_connected")
		tally.More(t, 50, "requests go on after Envoy Gateway's return")
		if after := told(t, behind); !maps.Equal(before, after) {
			t.Errorf("Envoy was told something: its counters moved from\n%v to\n%v", before, after)
		}
		reroute("a route after Envoy Gateway's return")
	}
	for range times(2) {
		weir.Kill()
		tally.More(t, 50, "requests go on without weir")
		weir = weirtest.Start(t, g.weirConfig(disk))
		front.To(weir.Addr)
		reroute("a route after weir's return")
	}
	g.Kill()
	weir.Stop()
	weir = weirtest.Start(t, g.weirConfig(disk))
	front.To(weir.Addr)
	tally.More(t, 50, "requests go on behind a restored weir, without Envoy Gateway")
	at, route = at+1, "back"
	publish()
	g.Start()
	tally.Reach(t, backends[at%4].name, "Envoy Gateway came back with another route")

	tally.More(t, 20, "requests go on at the end")
	held, err := behind.Dump()
	if err != nil {
		t.Fatal(err)
	}
	behind.Stop() // two Envoys would share the listener's port
	tally.Check(t)
	direct := newTally()
	straight := g.startEnvoy(gatewayXDS, direct)
	direct.More(t, 3, "requests of an Envoy straight at Envoy Gateway")
	want, err := straight.Dump()
	if err != nil {
		t.Fatal(err)
	}
	if d := difference(want, held); d != "" {
		t.Errorf("the Envoy behind weir held something else than the one straight at Envoy Gateway:\n%s", d)
	}
}

// told are the counters that move when an Envoy is told something. Those of listeners are left out:
// Envoy Gateway writes a Listener with other bytes at each change and at each start.
func told(t *testing.T, c client) map[string]int64 {
	t.Helper()
	counters, err := c.Counters()
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(counters, func(name string, _ int64) bool {
		return strings.HasPrefix(name, "listener_manager.lds.") || strings.HasPrefix(name, "cluster.xds_cluster.")
	})
	return counters
}

// standIn is the script in place of Envoy. It ends with Envoy Gateway.
const standIn = `#!/bin/sh
printf '%%s\0' "$@" >"%[1]s/arguments.next"
mv "%[1]s/arguments.next" "%[1]s/arguments"
while kill -0 $PPID; do sleep 1; done
`

const gatewayConfig = `apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyGateway
gateway:
  controllerName: gateway.envoyproxy.io/gatewayclass-controller
provider:
  type: Custom
  custom:
    resource:
      type: File
      file: { paths: ["%[1]s/resources"] }
    infrastructure:
      type: Host
      host: { configHome: "%[1]s/config", dataHome: "%[1]s/data", stateHome: "%[1]s/state", runtimeDir: "%[1]s/run" }
extensionApis: { enableBackend: true }
telemetry: { metrics: { prometheus: { disable: true } } }
`

const gatewayResources = `apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: eg }
spec:
  controllerName: gateway.envoyproxy.io/gatewayclass-controller
  parametersRef: { group: gateway.envoyproxy.io, kind: EnvoyProxy, name: proxy, namespace: default }
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyProxy
metadata: { name: proxy, namespace: default }
spec:
  provider: { type: Host, host: { envoyVersion: ENVOY } }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: eg, namespace: default }
spec:
  gatewayClassName: eg
  listeners: [{ name: http, protocol: HTTP, port: LISTENER }]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: ROUTE, namespace: default }
spec:
  parentRefs: [{ name: eg }]
  rules: [{ backendRefs: [{ group: gateway.envoyproxy.io, kind: Backend, name: backend }] }]
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: Backend
metadata: { name: backend, namespace: default }
spec:
  endpoints: [{ ip: { address: 127.0.0.1, port: BACKEND } }]
`
