package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/relay/relaytest"
)

var bothDialects = []relaytest.Dialect{relaytest.Delta, relaytest.SotW}

// Files reach clients of either dialect, and so does a change of them.
func TestServesFiles(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a", "b"))
	w := startWeir(t, freePorts+filesOrigin(dir))
	var clients []*relaytest.Client
	for _, dialect := range bothDialects {
		c := openClient(t, dial(t, w.listenAddress()), dialect)
		c.Request(relaytest.ClusterType)
		c.AwaitNames(relaytest.ClusterType, "both clusters are in the files", "a", "b")
		clients = append(clients, c)
	}
	dir.put(t, "cds.yaml", clusters("b", "c"))
	for _, c := range clients {
		c.AwaitNames(relaytest.ClusterType, "a file took another's place", "b", "c")
		c.CheckClean()
	}
}

// A chain of two weirs serves, and goes on serving when the origin goes.
func TestTwoWeirsInARow(t *testing.T) {
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	origin.Set(relaytest.ClusterType, "a", "1", relaytest.Cluster("a", time.Second))
	origin.Set(relaytest.EndpointType, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	first := startWeir(t, freePorts+controlPlane(origin.Net().Addr()))
	second := startWeir(t, freePorts+controlPlane(first.listenAddress()))

	var clients []*relaytest.Client
	for _, dialect := range bothDialects {
		c := openClient(t, dial(t, second.listenAddress()), dialect)
		c.Request(relaytest.ClusterType)
		c.Request(relaytest.EndpointType, "a")
		c.AwaitNames(relaytest.ClusterType, "the origin's cluster comes through both", "a")
		c.AwaitNames(relaytest.EndpointType, "and its endpoints", "a")
		clients = append(clients, c)
	}
	origin.Set(relaytest.ClusterType, "b", "1", relaytest.Cluster("b", time.Second))
	for _, c := range clients {
		c.AwaitNames(relaytest.ClusterType, "a new cluster comes through both", "a", "b")
	}
	if asked := origin.Asked(relaytest.ClusterType); asked.Subscribed["*"] != 1 {
		t.Errorf("the origin was asked for clusters %d times by two clients behind two weirs, want once", asked.Subscribed["*"])
	}

	origin.Stop()
	await(t, "the first weir notices that the origin is gone", func() bool { return !first.origin(t).Connected })
	for _, c := range clients {
		c.WantIdle(50 * time.Millisecond)
	}
	if o := second.origin(t); !o.Connected || o.Stale != 0 {
		t.Errorf("the second weir's origin, the first, is there: %+v", o)
	}
	if o := first.origin(t); o.Stale == 0 || !o.Reached || o.Error == "" {
		t.Errorf("the first weir's origin is gone, and the page says %+v", o)
	}
	late := openClient(t, dial(t, second.listenAddress()), relaytest.Delta)
	late.Request(relaytest.ClusterType)
	late.AwaitNames(relaytest.ClusterType, "a new client is served from the cache", "a", "b")

	origin.Set(relaytest.ClusterType, "c", "1", relaytest.Cluster("c", time.Second))
	origin.Start()
	for _, c := range append(clients, late) {
		c.AwaitNames(relaytest.ClusterType, "what changed meanwhile arrives", "a", "b", "c")
		c.CheckClean()
	}
}

// origin is the state of the only one.
func (r *running) origin(t *testing.T) admin.Origin {
	t.Helper()
	var state struct{ Origins []admin.Origin }
	r.state("/origins", &state)
	if len(state.Origins) != 1 {
		t.Fatalf("got %d origins, want one", len(state.Origins))
	}
	return state.Origins[0]
}

// The end is in order: clients are told to go elsewhere, the process is not
// ready any more, and nothing is left.
func TestDrains(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	for _, how := range []string{"signal", "request"} {
		t.Run(how, func(t *testing.T) {
			w := startWeir(t, freePorts+filesOrigin(dir))
			c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
			c.Request(relaytest.ClusterType)
			c.AwaitNames(relaytest.ClusterType, "the client is served", "a")
			if how == "signal" {
				w.cancel()
			} else if code, body := fetch(t, http.MethodPost, "http://"+w.admin.listener.Addr().String()+"/drain"); code != http.StatusAccepted {
				t.Fatalf("POST /drain: %d %s", code, body)
			}
			if code := c.AwaitEnd("a drain ends the stream"); code != codes.Unavailable {
				t.Errorf("the stream ended with %s, want Unavailable", code)
			}
			w.waitEnd()
			if r := w.readiness(); r.Ready || r.State != "draining" {
				t.Errorf("still ready: %+v", r)
			}
			for _, message := range []string{"listening", "draining", "ended"} {
				if w.logs.FilterMessage(message).Len() == 0 {
					t.Errorf("the log lacks %q", message)
				}
			}
		})
	}
}

// Without its origin a process becomes ready when ready_wait is over, and with
// it as soon as it is reached, although no client asks for anything.
func TestReadiness(t *testing.T) {
	start := func(t *testing.T, address, wait string) *running {
		return startWeir(t, ports+strings.Replace(controlPlane(address), "timing: {", "timing: { ready_wait: "+wait+",", 1))
	}
	t.Run("origin dead", func(t *testing.T) {
		code, body := start(t, deadAddress(t), "1h").get("/readyz")
		if code != http.StatusServiceUnavailable || !strings.Contains(body, "not reached yet: mesh") {
			t.Errorf("before ready_wait: %d %s", code, body)
		}
	})
	t.Run("origin dead for longer", func(t *testing.T) {
		w := start(t, deadAddress(t), "1s")
		var code int
		var body string
		await(t, "ready_wait makes it ready", func() bool {
			code, body = w.get("/readyz")
			return code == http.StatusOK
		})
		if since := time.Since(w.started); since < time.Second {
			t.Errorf("ready after %s, before ready_wait", since)
		}
		if !strings.Contains(body, "never reached") {
			t.Errorf("the body does not say what is wrong: %s", body)
		}
		if code, body := w.get("/healthz"); code != http.StatusOK || body != "alive\n" {
			t.Errorf("/healthz: %d %q", code, body)
		}
	})
	t.Run("origin alive, then gone", func(t *testing.T) {
		origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
		w := startWeir(t, ports+controlPlane(origin.Net().Addr()))
		await(t, "the origin is found", func() bool { code, _ := w.get("/readyz"); return code == http.StatusOK })
		origin.Stop()
		c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
		c.Request(relaytest.ClusterType)
		await(t, "the outage and the unanswered type show in the body, not in the code", func() bool {
			code, body := w.get("/readyz")
			return code == http.StatusOK && strings.Contains(body, `"connected": false`) && strings.Contains(body, `"cds"`)
		})
	})
}

// The probes' port has the probes only.
func TestProbesPort(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := startWeir(t, freePorts+filesOrigin(dir)+"probes: { address: \"127.0.0.1:0\" }\n")
	base := "http://" + w.probes.listener.Addr().String()
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/config": 404, "/": 404} {
		if code, _ := fetch(t, http.MethodGet, base+path); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
}

// What the admin port says is what is.
func TestAdminPort(t *testing.T) {
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	origin.Set(relaytest.ClusterType, "a", "1", relaytest.Cluster("a", time.Second))
	origin.Set(relaytest.ListenerType, "in", "1", relaytest.Listener("in", 80))
	w := startWeir(t, freePorts+strings.Replace(controlPlane(origin.Net().Addr()), "grpc: {", `grpc: { headers: { x-key: hush },`, 1))
	c := relaytest.NewClient(t, dial(t, w.listenAddress()), relaytest.ClientConfig{
		Patience: patience,
		Reject: func(r *relaytest.Response) string {
			if r.TypeURL() == relaytest.ListenerType {
				return "not to my taste"
			}
			return ""
		},
	})
	c.Open(relaytest.Node("node-7", "edge"))
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "the cluster arrives", "a")
	c.Request(relaytest.ListenerType, "in")
	c.Expect(relaytest.ListenerType, "the listener arrives and is refused")
	await(t, "the refusal is listed", func() bool {
		_, body := w.get("/nacks")
		return strings.Contains(body, "not to my taste")
	})
	await(t, "the set has settled, before which a delta client was told of it (RELAY-7)", func() bool {
		_, body := w.get("/groups")
		return strings.Contains(body, `"settled": true`)
	})
	await(t, "the overview, which may be a second old, has it", func() bool {
		_, body := w.get("/overview")
		return strings.Contains(body, "not to my taste")
	})
	for path, parts := range map[string][]string{
		"/clients":                   {`"node_id": "node-7"`, `"node_cluster": "edge"`, `"dialect": "delta"`, `"type": "cds"`, `"wildcard": true`, `"nacks": 1`},
		"/origins":                   {`"name": "mesh"`, `"connected": true`, `"resources": 2`, origin.Net().Addr()},
		"/groups":                    {`"clients": 1`, `"settled": true`, `"node_cluster": "edge"`},
		"/resources":                 {`"name": "a"`, `"name": "in"`},
		"/resources?type=cds&name=a": {`"@type": "` + relaytest.ClusterType, `"live": true`},
		"/resources?bodies=true":     {`"connect_timeout": "1s"`},
		"/config":                    {"x-key: '***'", "ready_wait: 30s", origin.Net().Addr()},
		"/overview":                  {"node-7", "mesh", "connected", "not to my taste"},
		"/metrics": {
			`weir_upstream_connected{origin="mesh"} 1`, `weir_downstream_streams{dialect="delta"} 1`,
			`weir_cache_entries{origin="mesh",type="cds"} 1`, `weir_downstream_nacks_total{dialect="delta",type="lds"} 1`,
			`weir_downstream_subscriptions{dialect="delta",type="cds"} 1`, `weir_upstream_subscriptions{origin="mesh",type="cds"} 1`,
			"weir_build_info{", "go_goroutines", "process_cpu_seconds_total",
		},
	} {
		code, body := w.get(path)
		if code != http.StatusOK {
			t.Errorf("%s: %d", path, code)
		}
		for _, part := range parts {
			if !strings.Contains(body, part) {
				t.Errorf("%s lacks %s:\n%s", path, part, body)
			}
		}
		if strings.Contains(body, "hush") {
			t.Errorf("%s shows a secret:\n%s", path, body)
		}
	}
}

// Listeners may differ in the origin that answers.
func TestListenerOrigin(t *testing.T) {
	one, two := newFiles(t), newFiles(t)
	one.put(t, "cds.yaml", clusters("from-one"))
	two.put(t, "cds.yaml", clusters("from-two"))
	w := startWeir(t, fmt.Sprintf(`
listeners: [{ address: "127.0.0.1:0" }, { address: "127.0.0.1:0", origin: one }]
admin: { address: "127.0.0.1:0" }
origins:
  - { name: one, files: { path: %q } }
  - { name: two, files: { path: %q }, default: true }
`, string(one), string(two)))
	for i, want := range []string{"from-two", "from-one"} {
		c := openClient(t, dial(t, w.active.Load().ports[i].Addr().String()), relaytest.SotW)
		c.Request(relaytest.ClusterType)
		c.AwaitNames(relaytest.ClusterType, "the listener's own origin answers", want)
	}
}
