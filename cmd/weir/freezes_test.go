package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/relay/relaytest"
)

// declared is a configuration of an origin with freeze: as given, and short times.
func declared(config string, freeze bool) string {
	config = strings.Replace(config, "timing: {", "timing: { settle: 20ms, firm_settle: 200ms,", 1)
	if freeze {
		config = strings.Replace(config, "grpc: {", "freeze: true, grpc: {", 1)
	}
	return config
}

// mesh returns the state of the origin mesh.
func (r *running) mesh() (o admin.Origin) {
	r.t.Helper()
	var page struct{ Origins []admin.Origin }
	r.state("/origins", &page)
	return page.Origins[0]
}

// ask has an operator do something about the origin mesh.
func (r *running) ask(action string, code int, want string) {
	r.t.Helper()
	got, body := fetch(r.t, http.MethodPost, "http://"+r.admin.listener.Addr().String()+"/origins/mesh/"+action)
	if got != code || body != want+"\n" {
		r.t.Errorf("%s: %d %q, want %d %q", action, got, body, code, want)
	}
}

// TestFreezeByReload: freeze: in the file holds clients at what they have from its reload on, and
// lets them go with another one. An operator cannot end it, and has one that does not depend on it.
func TestFreezeByReload(t *testing.T) {
	const cds = relaytest.ClusterType
	for _, dialect := range bothDialects {
		t.Run(string(dialect), func(t *testing.T) {
			origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
			origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
			config := freePorts + strings.Replace(controlPlane(origin.Net().Addr()), "grpc: {", "grpc: { dialect: "+string(dialect)+",", 1)
			w := startReloading(t, declared(config, false))
			c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
			c.Request(cds)
			c.AwaitNames(cds, "the cluster comes", "a")
			c.WantIdle(500 * time.Millisecond) // firm_settle, and more
			before := c.Held(cds)["a"]
			frozen := func(by ...string) {
				t.Helper()
				if o := w.mesh(); strings.Join(o.FrozenBy, " and ") != strings.Join(by, " and ") || o.Frozen.IsZero() != (len(by) == 0) {
					t.Errorf("frozen since %s by %q, want by %q", o.Frozen, o.FrozenBy, by)
				}
			}

			w.applied(declared(config, true))
			frozen("config")
			origin.Set(cds, "a", "2", relaytest.Cluster("a", 2*time.Second))
			origin.Set(cds, "b", "1", relaytest.Cluster("b", time.Second))
			await(t, "the changes wait", func() bool { return w.mesh().FrozenChanges == 2 })
			w.ask("unfreeze", http.StatusConflict, "the configuration file freezes mesh: write freeze: false there")
			w.ask("freeze", http.StatusOK, "mesh was frozen already, by the configuration file; now by your order too, until weir unfreeze"+notOnDisk)
			w.ask("freeze", http.StatusOK, "mesh was frozen already"+notOnDisk)
			frozen("config", "operator")
			code, _, stderr := weir(t, "unfreeze", "mesh", "--admin", w.admin.listener.Addr().String())
			if code != exitFailed || !strings.Contains(stderr, "the configuration file freezes mesh") {
				t.Errorf("weir unfreeze: %d, %q", code, stderr)
			}
			await(t, "the page says by whom", func() bool {
				_, body := w.get("/overview")
				return strings.Contains(body, "Origin mesh is frozen by config and operator since ")
			})
			if _, stdout, _ := weir(t, "status", "--admin", w.admin.listener.Addr().String()); !strings.Contains(stdout, " by config and operator, 2 changes wait") {
				t.Errorf("weir status does not say by whom:\n%s", stdout)
			}
			w.applied(declared(config, false))
			frozen("operator")
			c.WantIdle(300 * time.Millisecond)
			if got := c.Held(cds); len(got) != 1 || got["a"] != before {
				t.Errorf("while it is frozen the client came to %v", got)
			}
			w.ask("unfreeze", http.StatusOK, "unfroze mesh")
			frozen()
			c.AwaitNames(cds, "the client goes on", "a", "b")

			w.applied(declared(config, true))
			origin.Remove(cds, "b")
			await(t, "the removal waits", func() bool { return w.mesh().FrozenChanges == 1 })
			w.applied(declared(config, false))
			frozen()
			c.AwaitNames(cds, "with the file the client is let go", "a")
			c.CheckClean()
		})
	}
}

// TestReloadDropsNoFreeze: a file that would drop what clients are kept at by itself, or by the one
// before, is refused; one that ends its own freeze is not.
func TestReloadDropsNoFreeze(t *testing.T) {
	near, east := newFiles(t), newFiles(t)
	east.put(t, "cds.yaml", clusters(far("east", "e")))
	w := startReloading(t, twoOrigins(near, east, "", ""))
	refused := func(text, at string) {
		t.Helper()
		want := at + ": origin \"east\" is frozen, and this would drop the resources that its clients are kept at: a file with freeze: false has to be in force first"
		if s := w.again(text); len(s.Problems) != 1 || !strings.HasSuffix(s.Problems[0], want) {
			t.Errorf("%q, want one that ends with %q", s.Problems, want)
		}
	}
	gone := freePorts + "origins: [{ name: near, files: { path: " + string(near) + " } }]\n"
	refused(twoOrigins(near, east, ", freeze: true, version_mode: origin", ""), "origins[1].version_mode")
	w.applied(twoOrigins(near, east, ", freeze: true", ""))
	refused(twoOrigins(near, east, ", freeze: true, version_mode: origin", ""), "origins[1].version_mode")
	refused(gone, "origins")
	w.applied(twoOrigins(near, east, ", version_mode: origin", ""))
	if _, frozen := w.table.Origin("east").Frozen(); frozen {
		t.Error("its part of the table that is new is frozen")
	}
	w.applied(gone)
	w.applied(twoOrigins(near, east, ", freeze: true", ""))
	if _, frozen := w.table.Origin("east").Frozen(); !frozen {
		t.Error("an origin that is added with freeze: true is not frozen")
	}
}

// TestFrozenColdStart: with freeze: true and nothing restored, clients get the origin's first
// answers, and stay at them.
func TestFrozenColdStart(t *testing.T) {
	const cds, eds = relaytest.ClusterType, relaytest.EndpointType
	for _, dialect := range bothDialects {
		t.Run(string(dialect), func(t *testing.T) {
			origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
			for _, name := range []string{"a", "b"} {
				origin.Set(cds, name, "1", relaytest.Cluster(name, time.Second))
			}
			origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
			config := freePorts + strings.Replace(controlPlane(origin.Net().Addr()), "grpc: {", "grpc: { dialect: "+string(dialect)+",", 1)
			w := startWeir(t, declared(config, true))
			c := openClient(t, dial(t, w.listenAddress()), dialect)
			c.Request(cds)
			c.AwaitNames(cds, "the first answer passes", "a", "b")
			c.Request(eds, "a")
			c.AwaitNames(eds, "and that to a name", "a")
			c.WantIdle(500 * time.Millisecond)
			before := c.Held(cds)
			origin.Set(cds, "a", "2", relaytest.Cluster("a", 2*time.Second))
			origin.Remove(cds, "b")
			await(t, "what comes after that waits", func() bool { return w.mesh().FrozenChanges == 2 })
			late := openClient(t, dial(t, w.listenAddress()), dialect)
			late.Request(cds)
			late.AwaitNames(cds, "who comes now gets what the others have", "a", "b")
			c.WantIdle(300 * time.Millisecond)
			for _, c := range []*relaytest.Client{c, late} {
				if got := c.Held(cds); got["a"] != before["a"] || got["b"] != before["b"] {
					t.Errorf("a client has %v, want %v", got, before)
				}
				c.CheckClean()
			}
		})
	}
}

// TestFrozenRestart: with freeze: true in the file, a weir that starts with a snapshot and a dead
// origin serves what was restored, and stays at it when the origin is back with something else. The
// file's freeze is not kept in the snapshot, and ends with the file.
func TestFrozenRestart(t *testing.T) {
	const cds = relaytest.ClusterType
	for _, dialect := range bothDialects {
		t.Run(string(dialect), func(t *testing.T) {
			origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
			origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
			dir := filepath.Join(t.TempDir(), "kept")
			config := keptConfig(origin.Net().Addr(), string(dialect), dir)
			w := startWeir(t, declared(config, false))
			c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
			c.Request(cds)
			c.AwaitNames(cds, "the cluster comes", "a")
			before := c.Held(cds)["a"]
			await(t, "it is on disk", func() bool {
				s := w.kept.status()
				return s.Resources == 1 && !s.SavedAt.IsZero() && wholeOnDisk(t, dir)
			})
			w.end()
			origin.Stop()

			w = startWeir(t, declared(config, true))
			c = openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
			c.Request(cds)
			c.AwaitNames(cds, "what was restored is served", "a")
			origin.Set(cds, "a", "2", relaytest.Cluster("a", 2*time.Second))
			origin.Set(cds, "b", "1", relaytest.Cluster("b", time.Second))
			origin.Start()
			await(t, "what is new waits", func() bool { return w.mesh().FrozenChanges == 2 })
			c.WantIdle(300 * time.Millisecond)
			if got := c.Held(cds); len(got) != 1 || got["a"] != before {
				t.Errorf("the client has %v, want what was restored", got)
			}
			w.end()

			w = startWeir(t, declared(config, false))
			if o := w.mesh(); !o.Frozen.IsZero() || !o.FrozenChanged.IsZero() {
				t.Errorf("the snapshot has kept the file's freeze: %+v", o)
			}
			c = openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
			c.Request(cds)
			c.AwaitNames(cds, "clients are let go", "a", "b")
		})
	}
}

// TestFreezeWhileDown: a replica that comes back with its snapshot is frozen as its siblings are
// now, whatever an operator said to them while it was down. Orders that none of them knows hold.
func TestFreezeWhileDown(t *testing.T) {
	const cds = relaytest.ClusterType
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	origin.Set(cds, "a", "1", relaytest.EDSCluster("a", "first"))
	dir := filepath.Join(t.TempDir(), "kept")
	stays := startWeir(t, replica(origin.Net().Addr(), "", answers)).up()
	back := func() *running {
		return startWeir(t, declared(replica(origin.Net().Addr(), dir, answers+", "+asks(stays.seedAddress())), false)).up()
	}
	w := back()
	c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	c.Request(cds)
	c.AwaitNames(cds, "the cluster comes", "a")
	await(t, "it is on disk", func() bool {
		s := w.kept.status()
		return s.Resources == 1 && !s.SavedAt.IsZero() && wholeOnDisk(t, dir)
	})
	before := c.Body(cds, "a")

	stays.ask("freeze", http.StatusOK, "mesh is frozen"+notOnDisk)
	w.ask("freeze", http.StatusOK, "mesh is frozen")
	saved := func() {
		t.Helper()
		await(t, "the order is on disk", func() bool {
			c, err := snapshot.Read(snapshot.File(dir), nil)
			return err == nil && c.Summary(false).Origins[0].FrozenChanged.Equal(w.mesh().FrozenChanged)
		})
		w.end()
	}
	saved()
	stays.ask("unfreeze", http.StatusOK, "unfroze mesh")
	origin.Set(cds, "a", "2", relaytest.EDSCluster("a", "second"))
	w = back()
	if o := w.mesh(); !o.Frozen.IsZero() || !o.FrozenChanged.Equal(stays.mesh().FrozenChanged) {
		t.Errorf("it is frozen still: %+v", o)
	}
	if n := w.logs.FilterMessage("unfroze the origin").Len(); n != 1 {
		t.Errorf("the log says so %d times", n)
	}
	c = openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	c.Request(cds)
	await(t, "what is new comes", func() bool { return c.Body(cds, "a") != "" && c.Body(cds, "a") != before })
	await(t, "it is on disk", func() bool { return w.kept.status().Resources == 1 && wholeOnDisk(t, dir) })
	before = c.Body(cds, "a")
	saved()

	stays.ask("freeze", http.StatusOK, "mesh is frozen"+notOnDisk)
	origin.Set(cds, "a", "3", relaytest.EDSCluster("a", "third"))
	w = back()
	c = openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	c.Request(cds)
	c.AwaitNames(cds, "it serves what it had", "a")
	await(t, "what is new waits", func() bool { o := w.mesh(); return !o.Frozen.IsZero() && o.FrozenChanges == 1 })
	if got := c.Body(cds, "a"); got != before {
		t.Errorf("a client has %s, want %s", got, before)
	}
	w.ask("unfreeze", http.StatusOK, "unfroze mesh")
	saved()
	if o := back().mesh(); !o.Frozen.IsZero() {
		t.Errorf("an older order of a sibling is obeyed: %+v", o)
	}
}
