package real

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// trial is a bed with a canary beside the client, which is of the rest.
type trial struct {
	*bed
	canary client
	tried  *tally // of the canary's requests
	bakes  time.Duration
	check  map[string]any // canary.check.prometheus
}

// gateView is what weir says of the gate of the one group.
type gateView struct {
	Phase, Why, CheckSaid string
	Waiting               int
	Rejected              *struct{ Message string }
}

// startTrial starts a bed whose weir tries changes on the client with the node id canary. A
// Prometheus says how many of the canary's requests fail: a real one, if the client is an Envoy,
// which has counters for that.
func startTrial(t *testing.T, r row) *trial {
	t.Helper()
	x := &trial{bed: newBed(t, r), tried: newTally(), bakes: 2 * time.Second}
	_, counts := r.program.(envoy)
	var m *monitor
	if counts {
		m, x.bakes = newMonitor(t), 7*time.Second // more than the window and a scrape
		x.check = map[string]any{"url": "http://" + m.address, "query": pageQuery(t, "5s"), "threshold": 0.02, "interval": "1s"}
	} else {
		x.check = map[string]any{"url": x.standIn(), "query": "failed", "threshold": 0.5, "interval": "1s"}
	}
	c := weirConfig(x.plane, x.disk)
	for path, value := range r.weir {
		c.Set(path, value)
	}
	c.Origin()["nack_report"] = true
	c.Origin()["canary"] = map[string]any{
		"match": map[string]any{"id": "canary"}, "bake": x.bakes.String(), "check": map[string]any{"prometheus": x.check},
	}
	x.weir = weirtest.Start(t, c)
	x.front.To(x.weir.Addr)
	x.startClient()
	x.canary = r.program.Start(t, "canary", x.front.Addr(), x.tried)
	x.tried.More(t, 3, "the canary's first requests")
	if counts {
		m.start(t, x.canary.(*proxy), x.client.(*proxy))
	}
	x.awaits("the first state is the one to compare with", func(g *gateView) bool { return g.Phase == "idle" })
	return x
}

// standIn answers as Prometheus answers an instant query: how many requests of the canary have
// failed lately. It returns its URL.
func (x *trial) standIn() string {
	x.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/query" || r.FormValue("query") == "" {
			http.Error(w, "no such query", http.StatusBadRequest)
			return
		}
		before := x.tried.failedSoFar()
		time.Sleep(500 * time.Millisecond)
		fresh := x.tried.failedSoFar() - before
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[%d,"%d"]}]}}`, time.Now().Unix(), fresh)
	}))
	x.Cleanup(s.Close)
	return s.URL
}

// gate is what weir says of the gate.
func (x *trial) gate() (*gateView, error) {
	body, err := getURL(http.DefaultClient, "http://"+x.weir.Admin+"/origins")
	if err != nil {
		return nil, err
	}
	var of struct {
		Origins []struct {
			Canary []struct {
				Phase     string `json:"phase"`
				Why       string `json:"why"`
				CheckSaid string `json:"check_said"`
				Waiting   int    `json:"waiting"`
				Rejected  *struct {
					Message string `json:"message"`
				} `json:"rejected"`
			} `json:"canary"`
		} `json:"origins"`
	}
	if err := json.Unmarshal([]byte(body), &of); err != nil {
		return nil, fmt.Errorf("%w: %s", err, body)
	}
	all := of.Origins
	if len(all) != 1 || len(all[0].Canary) != 1 {
		return nil, fmt.Errorf("no gate of one group: %s", body)
	}
	g := &all[0].Canary[0]
	v := &gateView{Phase: g.Phase, Why: g.Why, CheckSaid: g.CheckSaid, Waiting: g.Waiting}
	if g.Rejected != nil {
		v.Rejected = &struct{ Message string }{g.Rejected.Message}
	}
	return v, nil
}

// awaits waits until the gate is as it should be.
func (x *trial) awaits(sentence string, is func(*gateView) bool) *gateView {
	x.Helper()
	var last *gateView
	var err error
	if !weirtest.Until(patience, func() bool {
		last, err = x.gate()
		return err == nil && is(last) || !pause()
	}) {
		x.Fatalf("%s: the gate has %+v, %v", sentence, last, err)
	}
	return last
}

// tries publishes a change that leads requests to a cluster, and waits until the canary's get there.
func (x *trial) tries(n int, name, sentence string) (began time.Time) {
	x.Helper()
	began = time.Now()
	x.change(func(m *mesh) {
		m.clusters[name] = &service{backends: x.backs(n)}
		m.live = name
	})
	x.tried.Reach(x.T, x.backend(n).name, sentence+", of the canary")
	if got := x.tally.By(x.backend(n).name); got > 0 {
		x.Errorf("%s: %d requests of the rest are there as soon", sentence, got)
	}
	return began
}

// TestCanary: a good change reaches the canary and, once it has baked, all. One that the canary
// rejects, and one that it takes and that breaks its traffic, reach nobody else: of the others no
// request fails.
func TestCanary(t *testing.T) {
	newest := pinned("ENVOY_NEWEST")
	for _, r := range []row{
		{program: envoy{newest, relaytest.Delta, true}, origin: snapshotDelta},
		{program: envoy{newest, relaytest.SotW, true}, origin: snapshotADS},
		{program: grpcGo, origin: snapshotSotW},
	} {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			x := startTrial(t, r)
			began := x.tries(1, "good", "a good change")
			x.reach(1, "a good change reaches all")
			t.Logf("a good change reaches all %s after it was made, of which %s are the bake", time.Since(began).Round(time.Millisecond), x.bakes)
			if time.Since(began) < x.bakes {
				t.Error("it has not baked")
			}
			x.rejected()
			x.breaks()
			x.canary.Stop()
			x.finish()
		})
	}
}

// rejected: the canary rejects a version. The rest are not given it, and the origin is told why.
func (x *trial) rejected() {
	x.Helper()
	x.change(func(m *mesh) {
		m.clusters["bad"] = &service{refused: true}
		m.paths["/bad"] = "bad"
		m.clusters["second"] = &service{backends: x.backs(2)}
		m.live = "second"
	})
	g := x.awaits("the canary rejects it", func(g *gateView) bool { return g.Phase == "stopped" })
	if g.Rejected == nil || g.Rejected.Message == "" || g.Waiting == 0 {
		x.Errorf("the gate says %+v", g)
	}
	x.tally.More(x.T, 30, "the rest go on")
	x.tried.Reach(x.T, x.backend(1).name, "the canary is back")
	if n := x.tally.By(x.backend(2).name); n > 0 {
		x.Errorf("%d requests of the rest were led by what was rejected", n)
	}
	told := func() bool {
		return strings.Contains(strings.Join(x.plane.Refused(), "\n"), g.Rejected.Message) || !pause()
	}
	if g.Rejected != nil && !weirtest.Until(patience, told) {
		x.Errorf("the origin is not told %q, but %q", g.Rejected.Message, x.plane.Refused())
	}
	x.change(func(m *mesh) {
		delete(m.clusters, "bad")
		delete(m.paths, "/bad")
	})
	x.reach(2, "what was mended reaches all")
}

// breaks: the canary takes a version that leads its requests to where nobody is. The check objects,
// and goes on to for a while after the canary is back: what was mended passes all the same.
func (x *trial) breaks() {
	x.Helper()
	x.awaits("it is over", func(g *gateView) bool { return g.Phase == "idle" })
	before := x.tried.failedSoFar()
	x.change(func(m *mesh) {
		m.clusters["nowhere"] = &service{backends: []*backend{nobody(x.T)}}
		m.live = "nowhere"
	})
	x.awaits("it is tried", func(g *gateView) bool { return g.Phase == "baking" })
	began := time.Now()
	g := x.awaits("the check objects", func(g *gateView) bool { return strings.Contains(g.Why, "the check objects") })
	x.Logf("stopped after %s of %s: %s", time.Since(began).Round(time.Millisecond), x.bakes, g.Why)
	if x.tried.failedSoFar() == before || g.Rejected != nil || !strings.Contains(g.Why, "the query's value") {
		x.Errorf("the gate says %+v; %d requests of the canary have failed", g, x.tried.failedSoFar()-before)
	}
	x.tally.More(x.T, 30, "the rest go on")
	x.tried.Reach(x.T, x.backend(2).name, "the canary is back")
	x.change(func(m *mesh) {
		delete(m.clusters, "nowhere")
		m.clusters["third"] = &service{backends: x.backs(3)}
		m.live = "third"
	})
	g = x.awaits("what was mended is tried", func(g *gateView) bool { return g.Phase == "baking" && g.CheckSaid != "" })
	x.Logf("when what was mended begins the check says: %s", g.CheckSaid)
	x.reach(3, "what was mended reaches all")
}

// nobody is a backend at which nobody listens.
func nobody(t *testing.T) *backend {
	t.Helper()
	l, err := net.Listen("tcp", ownAddress()+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return &backend{name: "nobody", http: l.Addr().String(), grpc: l.Addr().String()}
}

// failedSoFar is how many requests nobody answered.
func (t *tally) failedSoFar() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int64(t.failures)
}
