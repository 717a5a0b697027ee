//go:build consul

package real

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// The tokens of a consul: one for everything, and one that may do what its proxies may.
const (
	consulManagement = "4b5c5b0e-3b84-4d5c-8f0e-6d1a5d3c1f00"
	consulMesh       = "4b5c5b0e-3b84-4d5c-8f0e-6d1a5d3c1f01"
)

// consul is a Consul agent that is a server, with ACLs, TLS for xDS, and a mesh of two services:
// web asks api.
type consul struct {
	tb        testing.TB
	dir       string
	authority *weirtest.Authority
	http      string // address of its API
	grpc      string // address of xDS
	run       *child
}

// newConsul is one that has not started. It stays at an address of its own, and keeps its data.
func newConsul(tb testing.TB) *consul {
	tb.Helper()
	host := ownAddress()
	c := &consul{tb: tb, dir: tb.TempDir(), authority: weirtest.NewAuthority(tb, "consul")}
	c.authority.IssueDNS("server", 1, "server.dc1.consul")
	c.http, c.grpc = freeAt(tb, host), freeAt(tb, host)
	config, err := json.Marshal(map[string]any{
		"server": true, "bootstrap_expect": 1, "node_name": "server", "datacenter": "dc1", "data_dir": filepath.Join(c.dir, "data"),
		"bind_addr": host, "client_addr": host, "disable_update_check": true,
		"connect": map[string]any{"enabled": true},
		"ports": map[string]any{
			"http": portOf(c.http), "grpc_tls": portOf(c.grpc), "grpc": -1, "https": -1, "dns": -1, "serf_wan": -1,
			"serf_lan": portOf(freeAt(tb, host)), "server": portOf(freeAt(tb, host)),
		},
		"tls": map[string]any{"grpc": map[string]any{
			"ca_file": c.authority.Path("ca.pem"), "cert_file": c.authority.Path("server.pem"), "key_file": c.authority.Path("server.key"),
		}},
		"acl": map[string]any{
			"enabled": true, "default_policy": "deny",
			"tokens": map[string]any{"initial_management": consulManagement, "agent": consulManagement},
		},
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(c.dir, "consul.json"), config, 0o600)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// freeAt is an address of a host that is free.
func freeAt(tb testing.TB, host string) string {
	tb.Helper()
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func portOf(address string) int {
	a, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		panic(err)
	}
	return a.Port
}

func (c *consul) command(args ...string) *exec.Cmd {
	return exec.Command(installed(c.tb, "consul-"+pinned("CONSUL")), args...)
}

// Start runs it until its server has a leader.
func (c *consul) Start() {
	c.tb.Helper()
	c.run = start(c.tb, c.command("agent", "-config-file", filepath.Join(c.dir, "consul.json")))
	ready := func() bool {
		leader, err := getURL(http.DefaultClient, "http://"+c.http+"/v1/status/leader")
		return err == nil && len(leader) > 2 || c.run.ended() || !pause()
	}
	if !weirtest.Until(patience, ready) || c.run.ended() {
		c.tb.Fatal("Consul does not become ready")
	}
}

// Kill ends it.
func (c *consul) Kill() {
	_ = c.run.cmd.Process.Kill() // it may have ended by itself
	<-c.run.done
}

// put asks its API for a change, again until it takes it: ACLs are there some time after the
// leader.
func (c *consul) put(path string, body any) {
	c.tb.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		c.tb.Fatal(err)
	}
	var said string
	taken := func() bool {
		req, err := http.NewRequestWithContext(c.tb.Context(), http.MethodPut, "http://"+c.http+path, bytes.NewReader(text))
		if err != nil {
			c.tb.Fatal(err)
		}
		req.Header.Set("X-Consul-Token", consulManagement)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			said = err.Error()
			return !pause()
		}
		defer func() { _ = resp.Body.Close() }()
		answer, _ := io.ReadAll(resp.Body) // as much as there is
		said = resp.Status + " " + string(answer)
		return resp.StatusCode == http.StatusOK || !pause()
	}
	if !weirtest.Until(patience, taken) {
		c.tb.Fatalf("Consul does not take %s %s: %s", path, text, said)
	}
}

// Fill gives it what the mesh is: what the token may that weir or proxies have, that api speaks
// HTTP, and that web may ask it.
func (c *consul) Fill() {
	c.tb.Helper()
	c.put("/v1/acl/policy", map[string]any{
		"Name": "mesh", "Rules": `service_prefix "" { policy = "write" } node_prefix "" { policy = "read" }`,
	})
	c.put("/v1/acl/token", map[string]any{"SecretID": consulMesh, "Policies": []any{map[string]any{"Name": "mesh"}}})
	c.put("/v1/config", map[string]any{"Kind": "service-defaults", "Name": "api", "Protocol": "http"})
	c.put("/v1/config", map[string]any{
		"Kind": "service-intentions", "Name": "api", "Sources": []any{map[string]any{"Name": "web", "Action": "allow"}},
	})
}

// Register adds an instance of a service with a sidecar, whose Envoy is to listen at the port. It
// is unhealthy until it is Started. The sidecar is a service of its own: what Consul makes of
// SidecarService has a check that is critical for up to 10 s after Consul's own start, and proxies
// are told that the instance is unhealthy. That is what Consul says, and no matter of weir's.
func (c *consul) Register(service, id string, app, sidecar int, upstreams ...any) {
	c.tb.Helper()
	c.put("/v1/agent/service/register", map[string]any{"Name": service, "ID": id, "Port": app})
	c.put("/v1/agent/service/register", map[string]any{
		"Kind": "connect-proxy", "Name": service + "-sidecar-proxy", "ID": id + "-sidecar-proxy", "Port": sidecar,
		"Proxy": map[string]any{
			"DestinationServiceName": service, "DestinationServiceID": id, "LocalServicePort": app, "Upstreams": upstreams,
		},
		"Check": map[string]any{"Name": "it starts", "CheckID": "starts-" + id, "TTL": "1h", "Status": "critical"},
	})
}

// Started waits until the Envoy of an instance listens, and tells Consul so.
func (c *consul) Started(id string, sidecar int) {
	c.tb.Helper()
	listens := func() bool {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", sidecar))
		if err != nil {
			return !pause()
		}
		_ = conn.Close() // it was to be seen only
		return true
	}
	if !weirtest.Until(patience, listens) {
		c.tb.Fatalf("the Envoy of %s does not listen", id)
	}
	c.put("/v1/agent/check/deregister/starts-"+id, nil)
}

// bootstrap is what Consul gives the Envoy of an instance, with the admin address where tests look
// for it.
func (c *consul) bootstrap(id string) map[string]any {
	c.tb.Helper()
	var bootstrap map[string]any
	var said string
	given := func() bool {
		cmd := c.command("connect", "envoy", "-bootstrap", "-sidecar-for", id, "-http-addr", c.http, "-token", consulMesh,
			"-grpc-addr", "https://"+c.grpc, "-grpc-ca-file", c.authority.Path("ca.pem"))
		var errors bytes.Buffer
		cmd.Stderr = &errors
		out, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(out, &bootstrap)
		}
		said = fmt.Sprint(err, errors.String())
		return err == nil || !pause()
	}
	if !weirtest.Until(patience, given) {
		c.tb.Fatalf("Consul gives no bootstrap for %s: %s", id, said)
	}
	bootstrap["admin"] = map[string]any{"address": tree(pipe("admin.sock"))}
	return bootstrap
}

// consulMeshBed is a Consul with its mesh, and a way for Envoys to their control plane.
type consulMeshBed struct {
	*testing.T
	*consul
	tally     *tally
	backends  []*backend
	upstream  string                       // where web's Envoy listens for requests to api
	adapt     func(map[string]any, string) // makes a bootstrap of Consul's for the way
	bootstrap map[string]map[string]any
	web       client
	api       client // the Envoy of the instance at
	at        int
}

// newConsulMesh has an instance of each service. Envoys ask Consul itself, if adapt changes
// nothing.
func newConsulMesh(t *testing.T) *consulMeshBed {
	t.Helper()
	b := &consulMeshBed{
		T: t, consul: newConsul(t), tally: newTally(), upstream: freeAddress(t),
		bootstrap: map[string]map[string]any{}, adapt: func(map[string]any, string) {},
	}
	for n := range 4 {
		b.backends = append(b.backends, startBackend(t, fmt.Sprintf("backend-%d", n)))
	}
	b.consul.Start()
	b.Fill()
	b.Register("web", "web", portOf(freeAddress(t)), portOf(freeAddress(t)), map[string]any{
		"DestinationName": "api", "LocalBindPort": portOf(b.upstream),
	})
	return b
}

// envoy starts the Envoy of an instance. Only web's makes requests, to api.
func (b *consulMeshBed) envoy(id string, t *tally) client {
	b.Helper()
	if b.bootstrap[id] == nil {
		b.bootstrap[id] = b.consul.bootstrap(id)
		b.adapt(b.bootstrap[id], id)
	}
	ask := func(c *http.Client) (string, error) { return get(c, "/") } // at a socket that there is none
	if id == "web" {
		fresh := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
		ask = func(*http.Client) (string, error) { return getURL(fresh, "http://"+b.upstream+"/") }
	}
	return startEnvoy(b.T, envoy{version: pinned("ENVOY_NEWEST")}, b.bootstrap[id], t, ask)
}

// begin starts the Envoys of both services.
func (b *consulMeshBed) begin() {
	b.Helper()
	b.add()
	b.web = b.envoy("web", b.tally)
	b.reach("the first requests")
}

// instance is the id of the instance of api at, and its backend.
func (b *consulMeshBed) instance() (string, *backend) {
	return fmt.Sprint("api-", b.at), b.backends[b.at%len(b.backends)]
}

// add registers the instance at, and starts its Envoy.
func (b *consulMeshBed) add() {
	b.Helper()
	id, back := b.instance()
	sidecar := portOf(freeAddress(b.T))
	b.Register("api", id, portOf(back.http), sidecar)
	b.api = b.envoy(id, newTally())
	b.Started(id, sidecar)
}

func (b *consulMeshBed) reach(sentence string) {
	b.Helper()
	_, back := b.instance()
	b.tally.Reach(b.T, back.name, sentence)
}

// swap adds an instance of api, and takes the one before away: first out of Consul, and its Envoy
// once no request comes to it.
func (b *consulMeshBed) swap(sentence string) {
	b.Helper()
	id, back := b.instance()
	before := b.api
	b.at++
	b.add()
	b.reach(sentence)
	b.put("/v1/agent/service/deregister/"+id+"-sidecar-proxy", nil)
	b.put("/v1/agent/service/deregister/"+id, nil)
	quiet := func() bool {
		n := b.tally.By(back.name)
		b.tally.More(b.T, 50, sentence)
		return b.tally.By(back.name) == n
	}
	if !weirtest.Until(patience, quiet) {
		b.Fatalf("%s: requests go on to the instance that is gone", sentence)
	}
	before.Stop()
}

// asked waits for n more requests, answered or not.
func (b *consulMeshBed) asked(n int) {
	b.Helper()
	done := func() int { return b.tally.total() + int(b.tally.failedSoFar()) }
	before := done()
	if !weirtest.Until(2*patience, func() bool { return done() >= before+n || !pause() }) {
		b.Fatalf("of %d requests only %d were made", n, done()-before)
	}
}

// phase counts the requests of what it does.
func (b *consulMeshBed) phase(name string, do func()) {
	b.Helper()
	answered, failed := b.tally.total(), b.tally.failedSoFar()
	do()
	answered, failed = b.tally.total()-answered, b.tally.failedSoFar()-failed
	b.Logf("%s: %d of %d requests failed", name, failed, int64(answered)+failed)
}

// lives is what the mesh goes through while Consul is there again and again.
func (b *consulMeshBed) lives() {
	b.Helper()
	b.phase("six swaps of the upstream's instance", func() {
		for range times(6) {
			b.swap("another instance")
		}
	})
	for range times(3) {
		b.phase("Consul is killed", func() {
			b.consul.Kill()
			b.asked(500)
		})
		b.phase("Consul is back", func() {
			b.consul.Start()
			b.asked(3000)
		})
		b.phase("a swap after that", func() { b.swap("another instance, after Consul's return") })
	}
}

// TestConsul: behind weir no request of a mesh fails, whatever changes, ends and comes back, and an
// Envoy starts while Consul is dead. What is logged of an Envoy straight at Consul is to compare.
func TestConsul(t *testing.T) {
	t.Run("straight", func(t *testing.T) {
		b := newConsulMesh(t)
		b.begin()
		b.lives()
		b.consul.Kill()
		b.web.Stop()
		late := newTally()
		b.web = b.envoy("web", late)
		for range 100 {
			pause()
		}
		t.Logf("an Envoy that comes while Consul is dead: %d requests were answered in 10 s", late.total())
	})
	t.Run("weir", func(t *testing.T) {
		b := newConsulMesh(t)
		disk, front := filepath.Join(t.TempDir(), "snapshot"), newFront(t, "")
		files := b.weirFiles()
		startWeir := func() *weirtest.Process {
			w := weirtest.Start(t, recipe(t, "consul", b.grpc, disk, "/etc/weir/", files+"/"))
			front.To(w.Addr)
			return w
		}
		t.Setenv("CONSUL_TOKEN", consulMesh)
		weir := startWeir()
		b.adapt = func(bootstrap map[string]any, id string) { b.behind(bootstrap, id, front.Addr()) }
		b.begin()
		b.lives()
		b.phase("weir is killed, and comes back", func() {
			weir.Kill()
			b.tally.More(t, 50, "requests go on without weir")
			weir = startWeir()
			b.swap("another instance, after weir's return")
		})
		b.consul.Kill()
		b.cold("an Envoy comes while Consul is dead")
		weir.Stop()
		startWeir()
		b.cold("an Envoy comes to a restored weir, without Consul")
		b.tally.Check(t)
		b.consul.Start()
		b.swap("Consul is back")
		b.compare()
		b.tally.Check(t)
	})
}

// cold exchanges web's Envoy for another one.
func (b *consulMeshBed) cold(sentence string) {
	b.Helper()
	b.web.Stop()
	b.web = b.envoy("web", b.tally)
	b.tally.More(b.T, 50, sentence)
}

// compare holds what web's Envoy has against what it has straight at Consul.
func (b *consulMeshBed) compare() {
	b.Helper()
	held, err := b.web.Dump()
	if err != nil {
		b.Fatal(err)
	}
	b.web.Stop() // two Envoys would share the listener's port
	b.adapt = func(map[string]any, string) {}
	delete(b.bootstrap, "web")
	straight := b.envoy("web", newTally())
	var differ string
	same := func() bool {
		want, err := straight.Dump()
		if err == nil {
			differ = difference(want, held)
		} else {
			differ = err.Error()
		}
		return differ == "" || !pause()
	}
	if !weirtest.Until(patience, same) {
		b.Errorf("web's Envoy behind weir held something else than it has straight at Consul:\n%s", differ)
	}
}

// weirFiles is a folder with the files that the recipe names.
func (b *consulMeshBed) weirFiles() string {
	b.Helper()
	dir := b.TempDir()
	b.authority.Issue("weir", 2)
	for to, from := range map[string]string{
		"tls/tls.crt": "weir.pem", "tls/tls.key": "weir.key", "tls/ca.crt": "ca.pem", "consul/ca.crt": "ca.pem",
	} {
		text, err := os.ReadFile(b.authority.Path(from))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), text, 0o600)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "snapshot.key"), []byte(strings.Repeat("0", 64)), 0o600); err != nil {
		b.Fatal(err)
	}
	return dir
}

// behind makes a bootstrap of Consul's one for weir at server: with its address, the proxy's
// certificate, and no token.
func (b *consulMeshBed) behind(bootstrap map[string]any, id, server string) {
	b.Helper()
	proxy := id + "-sidecar-proxy"
	b.authority.IssueDNS(proxy, int64(100+len(b.bootstrap)), proxy+".proxies.example.com")
	file := func(name string) map[string]any { return map[string]any{"filename": b.authority.Path(name)} }
	const tls = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
	for _, c := range bootstrap["static_resources"].(map[string]any)["clusters"].([]any) {
		c := c.(map[string]any)
		if c["name"] != "local_agent" {
			continue
		}
		c["load_assignment"] = map[string]any{"cluster_name": "local_agent", "endpoints": []any{map[string]any{
			"lb_endpoints": []any{map[string]any{"endpoint": map[string]any{"address": tree(address(server))}}},
		}}}
		c["transport_socket"] = map[string]any{"name": "envoy.transport_sockets.tls", "typed_config": map[string]any{
			"@type": tls, "common_tls_context": map[string]any{
				"tls_params":         map[string]any{"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
				"alpn_protocols":     []any{"h2"},
				"tls_certificates":   []any{map[string]any{"certificate_chain": file(proxy + ".pem"), "private_key": file(proxy + ".key")}},
				"validation_context": map[string]any{"trusted_ca": file("ca.pem")},
			},
		}}
	}
	ads := bootstrap["dynamic_resources"].(map[string]any)["ads_config"].(map[string]any)
	delete(ads["grpc_services"].(map[string]any), "initial_metadata")
}
