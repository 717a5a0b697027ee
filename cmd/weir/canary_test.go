package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap/zaptest/observer"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/canary"
	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/relaytest"
)

// canaryWorld is a control plane whose clients of the cluster "canary" are canaries, all in one
// group, with a canary and another client of each dialect.
type canaryWorld struct {
	*testing.T
	origin  *relaytest.Origin
	weir    *running
	clients tieredClients
	dir     string      // of the snapshot
	text    string      // of the configuration
	rejects atomic.Bool // canaries reject what gives "a" a timeout of badTimeout
}

const (
	// badTimeout is what clients reject, in seconds.
	badTimeout = 66
	// canaryBake is how long canaries have a candidate.
	canaryBake = time.Second
)

// newCanaryWorld starts all of it. keys are added to canary, and origin to the origin.
func newCanaryWorld(t *testing.T, dialect relaytest.Dialect, keys, origin string) *canaryWorld {
	t.Helper()
	w := &canaryWorld{T: t, origin: relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true}), dir: t.TempDir()}
	w.set("a", 1)
	w.set("b", 1)
	text := strings.Replace(controlPlane(w.origin.Net().Addr()), "grpc: {",
		"group_by: [], "+origin+" canary: { match: { cluster: canary }, bake: "+canaryBake.String()+keys+" }, grpc: { dialect: "+string(dialect)+",", 1)
	w.text = freePorts + strings.Replace(text, "timing: {", "timing: { settle: 20ms, firm_settle: 200ms,", 1) +
		fmt.Sprintf("\ncache: { snapshot: { path: %q, interval: 100ms } }\n", filepath.Join(w.dir, "snapshot"))
	w.start()
	return w
}

// start starts weir and the clients, who get what there is.
func (w *canaryWorld) start() {
	w.weir = startWeir(w.T, w.text)
	w.clients = tieredClients{}
	for _, dialect := range bothDialects {
		w.clients.canaries = append(w.clients.canaries, w.client("canary", dialect))
		w.clients.rest = append(w.clients.rest, w.client("other", dialect))
	}
}

// client opens a client of a cluster.
func (w *canaryWorld) client(cluster string, dialect relaytest.Dialect) *relaytest.Client {
	c := relaytest.NewClient(w, dial(w.T, w.weir.listenAddress()), relaytest.ClientConfig{
		Dialect: dialect, Patience: patience,
		Reject: func(r *relaytest.Response) string {
			for _, e := range r.Items {
				if e.Name == "a" && w.rejects.Load() && string(e.Body.GetValue()) == bodyOf("a", badTimeout) {
					return "cluster a: the timeout is bad"
				}
			}
			return ""
		},
	})
	c.Open(relaytest.Node(cluster+"-"+string(dialect), cluster))
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "the clusters come", "a", "b")
	return c
}

// set has the origin give a Cluster a timeout, in seconds.
func (w *canaryWorld) set(name string, seconds int) {
	w.origin.Set(relaytest.ClusterType, name, fmt.Sprint(seconds), relaytest.Cluster(name, time.Duration(seconds)*time.Second))
}

func bodyOf(name string, seconds int) string {
	return string(relaytest.Cluster(name, time.Duration(seconds)*time.Second).GetValue())
}

// gate is how the gate stands.
func (w *canaryWorld) gate() (s canary.Status) {
	var all struct {
		Origins []admin.Origin `json:"origins"`
	}
	w.weir.state("/origins", &all)
	if len(all.Origins) == 1 && len(all.Origins[0].Canary) == 1 {
		s = all.Origins[0].Canary[0]
	}
	return s
}

func (w *canaryWorld) phase(want string) {
	w.Helper()
	await(w.T, "phase "+want, func() bool { return w.gate().Phase == want })
}

// has waits until clients have the Cluster "a" with a timeout.
func (w *canaryWorld) has(clients []*relaytest.Client, seconds int, sentence string) {
	w.Helper()
	for _, c := range clients {
		c.Await(0, func(s *relaytest.State) bool { return s.Body(relaytest.ClusterType, "a") == bodyOf("a", seconds) }, sentence)
	}
}

// never fails if one of the clients was ever sent the Cluster "a" with a timeout.
func (w *canaryWorld) never(clients []*relaytest.Client, seconds int) {
	w.Helper()
	for _, c := range clients {
		for _, r := range c.Responses(relaytest.ClusterType) {
			for _, e := range r.Items {
				if string(e.Body.GetValue()) == bodyOf("a", seconds) {
					w.Errorf("one of the rest was sent a timeout of %d s", seconds)
				}
			}
		}
	}
}

// sent is when one of the clients was sent the Cluster "a" with a timeout for the first time.
func (w *canaryWorld) sent(clients []*relaytest.Client, seconds int) (first time.Time) {
	for _, c := range clients {
		for _, r := range c.Responses(relaytest.ClusterType) {
			for _, e := range r.Items {
				if string(e.Body.GetValue()) == bodyOf("a", seconds) && (first.IsZero() || r.At.Before(first)) {
					first = r.At
				}
			}
		}
	}
	return first
}

// baked fails if one of the rest was sent a timeout before a canary was, or sooner than after the
// bake of a candidate that began at a time at the earliest.
func (w *canaryWorld) baked(began time.Time, seconds int) {
	w.Helper()
	canaries, rest := w.sent(w.clients.canaries, seconds), w.sent(w.clients.rest, seconds)
	if d := rest.Sub(began); d < canaryBake || rest.Before(canaries) {
		w.Errorf("one of the rest was sent it %v after it can have begun, and %v after the canaries", d, rest.Sub(canaries))
	}
}

// act has an operator act, and returns the answer.
func (w *canaryWorld) act(action string) (code int, said string) {
	w.Helper()
	return fetch(w.T, http.MethodPost, "http://"+w.weir.admin.listener.Addr().String()+"/origins/mesh/canary?action="+action)
}

// TestCanary: what an origin says reaches canaries first, and all others only when it is good.
func TestCanary(t *testing.T) {
	for _, dialect := range bothDialects {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			testCanary(t, dialect)
		})
	}
}

func testCanary(t *testing.T, dialect relaytest.Dialect) {
	w := newCanaryWorld(t, dialect, "", "nack_report: true,")
	w.phase("idle")
	before := time.Now()
	w.set("a", 2)
	w.has(w.clients.canaries, 2, "canaries get it first")
	w.has(w.clients.rest, 2, "the rest get it when it has baked")
	w.baked(before.Add(gate.CanarySettle), 2)
	w.phase("idle")

	w.rejects.Store(true)
	w.set("a", badTimeout)
	w.phase("stopped")
	w.has(w.clients.canaries, 2, "canaries return")
	if s := w.gate(); !strings.Contains(s.Why, "the timeout is bad") || s.Rejected == nil || s.Rejected.Resources[0] != "a" {
		t.Errorf("%+v", s)
	}
	w.origin.Await(0, func() bool {
		return slices.ContainsFunc(w.origin.Requests(), func(r *relaytest.Request) bool {
			said := r.Detail().GetMessage() // by one of them or by both, which is sent back at the first word
			return strings.Contains(said, `"a"`) && strings.Contains(said, "cluster a: the timeout is bad")
		})
	}, "the origin is told")
	w.weir.end()
	w.start()
	w.phase("stopped")
	w.has(w.clients.canaries, 2, "after a restart they have what they had")
	time.Sleep(4 * time.Second)
	w.never(w.clients.all(), badTimeout)

	stopped := w.gate().Candidate
	w.set("b", 3)
	await(t, "another one is stopped, which has the bad one, too", func() bool {
		s := w.gate()
		return s.Phase == "stopped" && s.Candidate != stopped
	})
	w.set("a", 4)
	w.has(w.clients.rest, 4, "the next good one reaches all")
	w.never(w.clients.rest, badTimeout)
	late := w.client("other", relaytest.Delta)
	w.has([]*relaytest.Client{late}, 4, "who comes later has the same")
	await(t, "the metrics show it", func() bool {
		_, body := w.weir.get("/metrics")
		return strings.Contains(body, `weir_canary_candidates_total{origin="mesh",result="stopped"} 1`) &&
			strings.Contains(body, `weir_canary_groups{origin="mesh",phase="idle"} 1`)
	})
}

// TestCanaryThatCrashes: who rejects a version and is gone has stopped it all the same, canaries
// that stay have it, and an operator decides in the end.
func TestCanaryThatCrashes(t *testing.T) {
	t.Parallel()
	w := newCanaryWorld(t, relaytest.Delta, ", on_stop: stay", "")
	w.phase("idle")
	for _, c := range w.clients.canaries[1:] {
		c.Close()
	}
	crashing := w.clients.canaries[0]
	w.rejects.Store(true)
	w.set("a", badTimeout)
	await(t, "it is tried, and rejected", func() bool { // or else its end may come before its word
		_, body := w.weir.get("/nacks/book")
		return strings.Contains(body, "the timeout is bad")
	})
	crashing.Close()
	w.phase("stopped")
	w.rejects.Store(false)
	back := w.client("canary", relaytest.Delta)
	w.has([]*relaytest.Client{back}, badTimeout, "canaries stay")
	w.never(w.clients.rest, badTimeout)
	if code, said := w.act("dance"); code != http.StatusBadRequest || !strings.Contains(said, "promote, stop, retry") {
		t.Errorf("%d %s", code, said)
	}
	if code, said := w.act("promote"); code != http.StatusOK || !strings.Contains(said, "promoted") {
		t.Errorf("%d %s", code, said)
	}
	w.has(w.clients.rest, badTimeout, "an operator has decided so")
	w.phase("idle")
	if code, said := w.act("stop"); code != http.StatusConflict || !strings.Contains(said, "no candidate") {
		t.Errorf("%d %s", code, said)
	}
}

// TestCanaryCheck: an objection of the check stops a candidate, and a freeze pauses the gate.
func TestCanaryCheck(t *testing.T) {
	t.Parallel()
	objects, silent := atomic.Bool{}, atomic.Bool{}
	server := serveCheck(t, func(w http.ResponseWriter, _ *http.Request) {
		switch {
		case silent.Load():
			panic(http.ErrAbortHandler)
		case objects.Load():
			http.Error(w, "5 % of requests fail\nmore", http.StatusTeapot)
		}
	})
	w := newCanaryWorld(t, relaytest.SotW, fmt.Sprintf(", check: { http: { url: %q, interval: 1s } }", server), "")
	w.phase("idle")
	w.set("a", 2)
	w.has(w.clients.rest, 2, "no objection")
	objects.Store(true)
	w.set("a", 3)
	w.phase("stopped")
	if s := w.gate(); !strings.Contains(s.Why, "5 % of requests fail") {
		t.Errorf("%+v", s)
	}
	w.has(w.clients.canaries, 2, "canaries return")
	w.never(w.clients.rest, 3)
	objects.Store(false)
	silent.Store(true) // so that it bakes until the freeze
	if code, said := w.act("retry"); code != http.StatusOK {
		t.Errorf("%d %s", code, said)
	}
	w.has(w.clients.canaries, 3, "it is tried again")
	code, said := fetch(t, http.MethodPost, "http://"+w.weir.admin.listener.Addr().String()+"/origins/mesh/freeze")
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, said)
	}
	w.phase("paused")
	silent.Store(false)
	time.Sleep(3 * time.Second)
	w.never(w.clients.rest, 3)
	fetch(t, http.MethodPost, "http://"+w.weir.admin.listener.Addr().String()+"/origins/mesh/unfreeze")
	w.has(w.clients.rest, 3, "it goes on")
	if !slices.ContainsFunc(w.weir.logs.All(), func(e observer.LoggedEntry) bool { return strings.Contains(e.Message, "a candidate is stopped") }) {
		t.Error("it is not logged")
	}
}

// TestCanaryRestart: a restart while a candidate bakes, and while the origin is away, gives the rest
// what they had. The candidate is tried anew when the origin is back.
func TestCanaryRestart(t *testing.T) {
	for _, dialect := range bothDialects {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			w := newCanaryWorld(t, dialect, ", acks: 9, max_hold: 0", "")
			w.phase("idle")
			w.set("a", 2)
			w.has(w.clients.canaries, 2, "it is tried")
			w.phase("baking")
			w.weir.end()
			w.origin.Stop()
			w.start()
			w.has(w.clients.canaries, 2, "canaries have what is tried")
			w.has(w.clients.rest, 1, "the rest have what they had")
			w.origin.Restart()
			await(t, "the origin answers again", func() bool { return len(w.origin.Open()) > 0 })
			w.phase("baking")
			time.Sleep(time.Second)
			w.never(w.clients.rest, 2)
			w.set("b", 2)
			time.Sleep(4 * time.Second)
			if s := w.gate(); s.Phase != "baking" || s.Waiting == 0 {
				t.Errorf("%+v", s)
			}
			if code, said := w.act("promote"); code != http.StatusOK {
				t.Errorf("%d %s", code, said)
			}
			w.has(w.clients.rest, 2, "an operator promotes it")
			w.phase("baking") // the next
		})
	}
}

// TestCanaryRollback: a rollback takes canaries and the rest back, and pauses the gate. Forward it
// goes by way of the canaries.
func TestCanaryRollback(t *testing.T) {
	t.Parallel()
	w := newCanaryWorld(t, relaytest.Delta, "", "")
	post := func(path string) {
		t.Helper()
		if code, said := fetch(t, http.MethodPost, "http://"+w.weir.admin.listener.Addr().String()+"/origins/mesh/"+path); code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, code, said)
		}
	}
	w.phase("idle")
	first := w.gate().Stable
	w.set("a", 2)
	w.has(w.clients.rest, 2, "it is good")
	w.phase("idle")
	post("rollback?to=" + first)
	w.has(w.clients.all(), 1, "all go back")
	w.phase("paused")
	if s := w.gate(); s.Why == "" || s.Stable != first {
		t.Errorf("%+v", s)
	}
	w.set("a", 3)
	time.Sleep(4 * time.Second)
	w.has(w.clients.all(), 1, "and stay")
	forward := time.Now()
	post("rollforward")
	w.has(w.clients.canaries, 3, "canaries go forward first")
	w.has(w.clients.rest, 3, "and then the rest")
	w.baked(forward, 3)
}
