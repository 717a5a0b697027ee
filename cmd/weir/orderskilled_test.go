package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/canary"
	"github.com/weir-xds/weir/relay/relaytest"
)

// ordered is a weir in a process of its own, whose snapshot is written once an hour, in front of an
// origin; with a canary, if it has any, and another proxy, of the same group.
type ordered struct {
	*testing.T
	origin *relaytest.Origin
	config string
	dir    string // of the snapshot
	weir   *child
	admin  string
	listen string

	canary, rest *proxy // canary is nil if the origin has none
}

func newOrdered(t *testing.T, keys string) *ordered {
	t.Helper()
	o := &ordered{T: t, origin: relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true}), dir: filepath.Join(t.TempDir(), "snapshot")}
	push(o.origin, 1)
	o.config = write(t, freePorts+fmt.Sprintf(`
origins: [{ name: mesh, grpc: { addresses: [%q] }, group_by: []%s }]
cache: { snapshot: { path: %q, interval: 1h } }
timing: { settle: 20ms, firm_settle: 200ms, gather: 20ms, pause: 20ms, backoff: { base: 20ms, max: 100ms }, drain: 200ms }
`, o.origin.Net().Addr(), keys, o.dir))
	o.start()
	o.connect(strings.Contains(keys, "canary"))
	o.at(1, 1, "the first state comes")
	o.rest.WantIdle(500 * time.Millisecond) // firm_settle, and more
	if o.canary != nil {
		o.phase("idle")
	}
	return o
}

func (o *ordered) start() {
	o.weir = spawn(o.T, os.Args[0], "run", "-c", o.config)
	o.listen, o.admin = o.weir.addresses()
}

func (o *ordered) connect(canaries bool) {
	o.rest = openProxyAt(o.T, o.listen, relaytest.Delta, "rest")
	if canaries {
		o.canary = openProxyAt(o.T, o.listen, relaytest.SotW, "canary")
	}
}

// at waits until the proxies are at states of the origin.
func (o *ordered) at(canary, rest int, sentence string) {
	o.Helper()
	if o.canary != nil {
		o.canary.at(canary, sentence+", for the canary")
	}
	o.rest.at(rest, sentence)
}

// order has an operator give an order, which is carried out.
func (o *ordered) order(path string) string {
	o.Helper()
	code, said := fetch(o.T, http.MethodPost, "http://"+o.admin+path)
	if code != http.StatusOK {
		o.Fatalf("%s: %d %s", path, code, said)
	}
	return said
}

func (o *ordered) mesh() (x admin.Origin) {
	o.Helper()
	var page struct{ Origins []admin.Origin }
	if _, body := fetch(o.T, http.MethodGet, "http://"+o.admin+"/origins"); json.Unmarshal([]byte(body), &page) != nil || len(page.Origins) != 1 {
		o.Fatal(body)
	}
	return page.Origins[0]
}

// gate is how the gate stands.
func (o *ordered) gate() (s canary.Status) {
	if all := o.mesh().Canary; len(all) == 1 {
		return all[0]
	}
	return s
}

func (o *ordered) phase(want string) {
	o.Helper()
	await(o.T, "phase "+want, func() bool { return o.gate().Phase == want })
}

// killed kills weir, has the world change, and has weir and its proxies come back.
func (o *ordered) killed(change func()) {
	o.Helper()
	o.again(syscall.SIGKILL, change)
}

// again ends weir by a signal, and has it and its proxies come back.
func (o *ordered) again(how os.Signal, change func()) {
	o.Helper()
	o.weir.signal(how)
	o.weir.waitEnd()
	change()
	o.start()
	o.connect(o.canary != nil)
}

// wasSent reports whether a proxy was ever sent a cluster.
func wasSent(p *proxy, name string) bool {
	for _, r := range p.Responses(relaytest.ClusterType) {
		for _, i := range r.Items {
			if i.Name == name {
				return true
			}
		}
	}
	return false
}

// TestOrdersSurviveAKill: each order of an operator is in force after weir was killed the moment that
// it was answered, long before the next snapshot: both what it says and what clients are kept at.
func TestOrdersSurviveAKill(t *testing.T) {
	const gated = ", canary: { match: { cluster: canary }, bake: 1h, max_hold: 0s }"
	same := func() {}
	for story, c := range map[string]struct {
		keys string
		play func(o *ordered)
	}{
		"freeze": {"", func(o *ordered) {
			o.order("/origins/mesh/freeze")
			o.killed(func() { push(o.origin, 2) })
			o.at(0, 1, "frozen")
			await(o.T, "the origin's changes wait", func() bool { x := o.mesh(); return !x.Frozen.IsZero() && x.FrozenChanges > 0 })
			o.at(0, 1, "it stays frozen")
		}},
		"unfreeze": {"", func(o *ordered) {
			o.order("/origins/mesh/freeze")
			o.again(syscall.SIGTERM, same)
			o.at(0, 1, "frozen")
			o.order("/origins/mesh/unfreeze")
			o.killed(func() { push(o.origin, 2) })
			o.at(0, 2, "not frozen")
		}},
		"rollback": {"", func(o *ordered) {
			at := moment(time.Now())
			push(o.origin, 2)
			o.at(0, 2, "pushed")
			o.order("/origins/mesh/rollback?to=" + at)
			o.killed(same)
			o.at(0, 1, "rolled back")
			await(o.T, "the origin's state waits", func() bool { x := o.mesh(); return x.Rollback != nil && x.Rollback.Waiting > 0 })
			o.at(0, 1, "it stays rolled back")
			if wasSent(o.rest, clusterName(2)) {
				o.Error("it was sent what was rolled back")
			}
		}},
		"rollforward": {"", func(o *ordered) {
			at := moment(time.Now())
			push(o.origin, 2)
			o.at(0, 2, "pushed")
			o.order("/origins/mesh/rollback?to=" + at)
			o.again(syscall.SIGTERM, same)
			o.at(0, 1, "rolled back")
			o.order("/origins/mesh/rollforward")
			o.killed(same)
			o.at(0, 2, "gone on")
			if x := o.mesh(); x.Rollback != nil || !x.Frozen.IsZero() {
				o.Errorf("it is rolled back: %+v", x)
			}
		}},
		"promote": {gated, func(o *ordered) {
			push(o.origin, 2)
			o.canary.at(2, "canaries get it first")
			o.order("/origins/mesh/canary?action=promote")
			o.killed(o.origin.Stop)
			o.at(2, 2, "promoted")
		}},
		"stop": {gated, func(o *ordered) {
			push(o.origin, 2)
			o.canary.at(2, "canaries get it first")
			o.order("/origins/mesh/canary?action=stop")
			o.killed(same)
			o.phase("stopped")
			o.at(1, 1, "stopped")
			o.rest.WantIdle(4 * time.Second)
			o.phase("stopped")
			if wasSent(o.canary, clusterName(2)) {
				o.Error("what was stopped is tried again")
			}
		}},
		"retry": {gated, func(o *ordered) {
			push(o.origin, 2)
			o.canary.at(2, "canaries get it first")
			o.order("/origins/mesh/canary?action=stop")
			o.canary.at(1, "they return")
			o.order("/origins/mesh/canary?action=retry")
			o.killed(same)
			o.at(2, 1, "it is tried again")
		}},
		"guard release": {", guard: { min: 1, share: 0.1, hold: 1h }", func(o *ordered) {
			o.origin.Stop()
			o.origin.Replace(relaytest.ClusterType)
			o.origin.Start()
			await(o.T, "the removal is held", func() bool { return o.mesh().HeldRemovals > 0 })
			if said := o.order("/guard/release"); said != "removed 1 held resource\n" {
				o.Error(said)
			}
			o.killed(o.origin.Stop)
			c := openClient(o.T, dial(o.T, o.listen), relaytest.SotW)
			c.Request(relaytest.ListenerType)
			c.AwaitNames(relaytest.ListenerType, "what was restored comes", "l")
			c.Request(relaytest.ClusterType)
			c.AwaitNames(relaytest.ClusterType, "the cluster is gone")
		}},
	} {
		t.Run(story, func(t *testing.T) {
			t.Parallel()
			c.play(newOrdered(t, c.keys))
		})
	}
}

// notOnDisk is what an order's answer has without a snapshot.
const notOnDisk = "; this is not on disk, as cache.snapshot.path is not set: weir forgets it at a restart"

// TestOrderThatIsNotOnDisk: an order that cannot be written is carried out, and its answer says what
// is wrong; so does one of a weir that has no snapshot.
func TestOrderThatIsNotOnDisk(t *testing.T) {
	o := newOrdered(t, "")
	if err := os.RemoveAll(o.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if said := o.order("/origins/mesh/freeze"); !strings.HasPrefix(said, "mesh is frozen; this is in force, but not on disk: ") || !strings.Contains(said, "not a directory") {
		t.Error(said)
	}
	if o.mesh().Frozen.IsZero() {
		t.Error("it is not frozen")
	}
	if err := os.Remove(o.dir); err != nil {
		t.Fatal(err)
	}
	if said := o.order("/origins/mesh/freeze"); said != "mesh was frozen already\n" {
		t.Error(said)
	}
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := startWeir(t, freePorts+filesOrigin(dir))
	_, body := w.get("/origins")
	var page struct{ Origins []admin.Origin }
	if json.Unmarshal([]byte(body), &page) != nil || len(page.Origins) != 1 {
		t.Fatal(body)
	}
	w.says(exitOK, "is frozen"+notOnDisk, "freeze", page.Origins[0].Name)
}
