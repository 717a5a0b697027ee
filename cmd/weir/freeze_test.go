package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// Clients of a frozen origin stay at what they have, endpoints aside, and go on
// from there when an operator says so; who comes meanwhile gets the same.
func TestFreeze(t *testing.T) {
	for _, dialect := range bothDialects {
		t.Run(string(dialect), func(t *testing.T) { testFreeze(t, dialect) })
	}
}

func testFreeze(t *testing.T, dialect relaytest.Dialect) {
	const cds, eds, lds = relaytest.ClusterType, relaytest.EndpointType, relaytest.ListenerType
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	for _, name := range []string{"a", "b"} {
		origin.Set(cds, name, "1", relaytest.Cluster(name, time.Second))
		origin.Set(eds, name, "1", relaytest.Endpoints(name, "10.0.0.1:80"))
	}
	origin.Set(lds, "l", "1", relaytest.Listener("l", 80))
	config := strings.Replace(controlPlane(origin.Net().Addr()), "grpc: {", "grpc: { dialect: "+string(dialect)+",", 1)
	w := startWeir(t, freePorts+strings.Replace(config, "timing: {", "timing: { settle: 20ms, firm_settle: 200ms,", 1))
	port := w.admin.listener.Addr().String()
	say := func(want string, args ...string) {
		t.Helper()
		code, stdout, stderr := weir(t, append(args, "--admin", port)...)
		if code != exitOK || stdout != want+"\n" || stderr != "" {
			t.Fatalf("weir %s: %d, %q, %q, want %q", strings.Join(args, " "), code, stdout, stderr, want)
		}
	}
	open := func() *relaytest.Client {
		c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
		c.Request(cds)
		c.Request(eds, "a", "b")
		return c
	}
	c := open()
	c.AwaitNames(cds, "the clusters come", "a", "b")
	c.AwaitNames(eds, "and their endpoints", "a", "b")
	// firm_settle, and more: until then what comes is still the first answer
	c.WantIdle(500 * time.Millisecond)
	before := c.Held(cds)

	say("mesh is frozen"+notOnDisk, "freeze", "mesh")
	say("mesh was frozen already"+notOnDisk, "freeze", "mesh")
	origin.Set(cds, "a", "2", relaytest.Cluster("a", 2*time.Second))
	origin.Set(cds, "c", "1", relaytest.Cluster("c", time.Second))
	origin.Remove(cds, "b")
	origin.Remove(eds, "b")
	await(t, "the new version waits", func() bool {
		_, body := w.get("/origins")
		return strings.Contains(body, `"frozen_changes": 3`) || strings.Contains(body, `"frozen_changes": 4`)
	})
	origin.Set(eds, "a", "2", relaytest.Endpoints("a", "10.0.0.2:80"))
	moved := c.Held(eds)["a"]
	c.Await(0, func(s *relaytest.State) bool { return s.Held(eds)["a"] != moved }, "endpoints of what is known pass")
	late := open()
	late.AwaitNames(cds, "who comes now gets what the others have", "a", "b")
	late.AwaitNames(eds, "and its endpoints", "a", "b")
	late.Request(lds, "l")
	late.AwaitNames(lds, "a name that nobody had is answered", "l")
	if got := late.Held(cds); got["a"] != before["a"] || got["b"] != before["b"] {
		t.Errorf("it got %v, and the others had %v", got, before)
	}
	for _, part := range []string{`weir_upstream_frozen{origin="mesh"} 1`, `weir_upstream_frozen_changes{origin="mesh",type="cds"} 3`} {
		await(t, "the metrics have "+part, func() bool {
			_, body := w.get("/metrics")
			return strings.Contains(body, part)
		})
	}
	await(t, "the page shows it", func() bool {
		_, body := w.get("/overview")
		return strings.Contains(body, "Origin mesh is frozen by operator since ")
	})
	if _, stdout, _ := weir(t, "status", "--admin", port); !strings.Contains(stdout, "connected, frozen for ") {
		t.Errorf("weir status does not show it:\n%s", stdout)
	}
	origin.Restart()
	await(t, "the origin answers again", func() bool { return len(origin.Open()) > 0 })
	origin.Set(cds, "a", "3", relaytest.Cluster("a", 3*time.Second))
	for _, c := range []*relaytest.Client{c, late} {
		c.WantIdle(300 * time.Millisecond)
		if n := len(c.Responses(cds)); n != 1 {
			t.Errorf("%d responses of clusters, want the first alone", n)
		}
	}

	say("unfroze mesh", "unfreeze", "mesh")
	say("mesh was not frozen", "unfreeze", "mesh")
	for _, c := range []*relaytest.Client{c, late} {
		c.AwaitNames(cds, "they go on from there", "a", "c")
		c.Await(0, func(s *relaytest.State) bool { return s.Held(cds)["a"] != before["a"] }, "to what it is now")
		c.CheckClean()
	}
	if _, body := w.get("/metrics"); !strings.Contains(body, `weir_upstream_frozen{origin="mesh"} 0`) {
		t.Error("the metrics show it still")
	}
	code, _, stderr := weir(t, "freeze", "nobody", "--admin", port)
	if code != exitFailed || !strings.Contains(stderr, `there is no origin "nobody"; the only one is `) {
		t.Errorf("an origin that is not there: %d, %q", code, stderr)
	}
	if code, _, _ := weir(t, "freeze", "--admin", port); code != exitUsage {
		t.Errorf("without an origin: %d", code)
	}
}

// TestFreezeBeforeTheFirstIsFirm: what clients have been sent of a set is held by a freeze, also in the
// first seconds, in which the first answer may go on: only what they lack passes.
func TestFreezeBeforeTheFirstIsFirm(t *testing.T) {
	const cds = relaytest.ClusterType
	relaytest.KnownFault(t, "waits for the new core: until a set is firm its changes pass a freeze as parts of the first answer", func() string {
		origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
		origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
		w := startWeir(t, freePorts+controlPlane(origin.Net().Addr()))
		c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
		c.Request(cds)
		c.AwaitNames(cds, "the cluster comes", "a")
		before := c.Held(cds)["a"]
		w.ask("freeze", http.StatusOK, "mesh is frozen"+notOnDisk)
		origin.Set(cds, "a", "2", relaytest.Cluster("a", 2*time.Second))
		passed := func() bool { return c.Held(cds)["a"] != before }
		await(t, "the change waits, or is sent", func() bool { return w.mesh().FrozenChanges == 1 || passed() })
		if passed() {
			return "the client was sent the change"
		}
		return ""
	})
}

// What is held back of a mass removal is shown everywhere, and an operator lets
// it go.
func TestGuardIsShown(t *testing.T) {
	const cds = relaytest.ClusterType
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		origin.Set(cds, name, "1", relaytest.Cluster(name, time.Second))
	}
	w := startWeir(t, freePorts+strings.Replace(controlPlane(origin.Net().Addr()), "grpc: {", "guard: { min: 3, hold: 10m }, grpc: {", 1))
	port := w.admin.listener.Addr().String()
	c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	c.Request(cds)
	c.AwaitNames(cds, "the clusters come", names...)
	origin.Stop()
	origin.Replace(cds)
	origin.Start()
	await(t, "the removals are held", func() bool {
		_, body := w.get("/metrics")
		return strings.Contains(body, `weir_guard_held_removals{origin="mesh",type="cds"} 4`)
	})
	for path, part := range map[string]string{
		"/origins": `"held_removals": 4`, "/groups": `"held_removals": 4`, "/resources?type=cds": `"held": true`, "/overview": "The guard holds back 4 removals of ",
	} {
		await(t, path+" has "+part, func() bool {
			_, body := w.get(path)
			return strings.Contains(body, part)
		})
	}
	if _, stdout, _ := weir(t, "status", "--admin", port); !strings.Contains(stdout, "4 removals held for ") {
		t.Errorf("weir status does not show it:\n%s", stdout)
	}
	if n := w.logs.FilterMessageSnippet("the origin has come back without 4 of 4 resources").Len(); n != 1 {
		t.Errorf("the log says so %d times", n)
	}
	for query, want := range map[string]int{"?origin=nobody": http.StatusNotFound, "?type=xyz": http.StatusBadRequest, "?type=eds": http.StatusOK} {
		if code, body := fetch(t, http.MethodPost, "http://"+port+"/guard/release"+query); code != want {
			t.Errorf("%s: %d, %s", query, code, body)
		}
	}
	if _, body := fetch(t, http.MethodPost, "http://"+port+"/origins/mesh/freeze"); body != "mesh is frozen"+notOnDisk+"\n" {
		t.Error(body)
	}
	if _, body := fetch(t, http.MethodPost, "http://"+port+"/guard/release"); body != "no removals are held; mesh is frozen, and loses nothing\n" {
		t.Error(body)
	}
	if _, body := fetch(t, http.MethodPost, "http://"+port+"/origins/mesh/unfreeze"); body != "unfroze mesh\n" {
		t.Error(body)
	}
	c.WantIdle(200 * time.Millisecond)
	if _, body := fetch(t, http.MethodPost, "http://"+port+"/guard/release?origin=mesh&type=cds"); body != "removed 4 held resources\n" {
		t.Error(body)
	}
	c.AwaitNames(cds, "they go")
	c.CheckClean()
}

// A freeze is the operator's alone: neither the end of the process nor the
// origin ends it.
func TestFreezeOutlivesTheProcess(t *testing.T) {
	const cds = relaytest.ClusterType
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
	dir := filepath.Join(t.TempDir(), "kept")
	config := strings.Replace(keptConfig(origin.Net().Addr(), "sotw", dir), "\ntiming: {", "\ntiming: { settle: 20ms, firm_settle: 200ms,", 1)
	w := startWeir(t, config)
	c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	c.Request(cds)
	c.AwaitNames(cds, "the cluster comes", "a")
	before := c.Held(cds)["a"]
	if code, _, stderr := weir(t, "freeze", "mesh", "--admin", w.admin.listener.Addr().String()); code != exitOK {
		t.Fatal(stderr)
	}
	origin.Set(cds, "a", "2", relaytest.Cluster("a", 2*time.Second))
	origin.Set(cds, "b", "1", relaytest.Cluster("b", time.Second))
	w.end()

	w = startWeir(t, config)
	if _, body := w.get("/origins"); !strings.Contains(body, `"frozen":`) {
		t.Fatalf("it is not frozen any more:\n%s", body)
	}
	c = openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	c.Request(cds)
	c.AwaitNames(cds, "what clients had is restored", "a")
	await(t, "what is new waits", func() bool {
		_, body := w.get("/origins")
		return strings.Contains(body, `"frozen_changes": 2`)
	})
	c.WantIdle(500 * time.Millisecond)
	if got := c.Held(cds)["a"]; got != before {
		t.Errorf("it holds %s, and clients had %s", got, before)
	}
	if code, _, stderr := weir(t, "unfreeze", "mesh", "--admin", w.admin.listener.Addr().String()); code != exitOK {
		t.Fatal(stderr)
	}
	c.AwaitNames(cds, "it goes on from there", "a", "b")
	w.end()
	w = startWeir(t, config)
	if _, body := w.get("/origins"); strings.Contains(body, `"frozen":`) {
		t.Errorf("it is frozen again:\n%s", body)
	}
}

// newest goes by the last order, wherever it was given.
func TestNewestOrder(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC) }
	froze := func(hour int) order { return order{frozen: at(hour), changed: at(hour)} }
	thawed := func(hour int) order { return order{changed: at(hour)} }
	for name, row := range map[string]struct {
		own      order
		siblings []order
		want     order
	}{
		"nobody said anything":                      {order{}, []order{{}, {}}, order{}},
		"no siblings":                               {froze(1), nil, froze(1)},
		"siblings that know nothing":                {froze(1), []order{{}}, froze(1)},
		"new here, frozen there":                    {order{}, []order{{}, froze(1)}, froze(1)},
		"thawed while this one was down":            {froze(1), []order{thawed(2), {}}, thawed(2)},
		"frozen while this one was down":            {thawed(1), []order{froze(2)}, froze(2)},
		"a sibling missed that it was thawed":       {thawed(2), []order{froze(1)}, thawed(2)},
		"a sibling missed that it was frozen":       {froze(2), []order{thawed(1)}, froze(2)},
		"siblings that disagree":                    {froze(1), []order{froze(1), thawed(3), froze(2)}, thawed(3)},
		"frozen again":                              {froze(1), []order{{frozen: at(1), changed: at(3)}, thawed(2)}, order{frozen: at(1), changed: at(3)}},
		"at the same time, and the freeze wins":     {thawed(2), []order{froze(2), thawed(2)}, froze(2)},
		"at the same time, and the freeze was here": {froze(2), []order{thawed(2)}, froze(2)},
	} {
		if got := newest(row.own, row.siblings); got != row.want {
			t.Errorf("%s: %+v, want %+v", name, got, row.want)
		}
	}
}
