package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// scrape is what the admin port answers to a Prometheus that takes OpenMetrics.
func (r *reloading) scrape() (kind, body string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.admin.listener.Addr().String()+"/metrics", http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Close = true // or the connection outlives the test
	req.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	kind, _, _ = strings.Cut(resp.Header.Get("Content-Type"), ";")
	return kind, string(text)
}

// value is a gauge, with a label's value or without labels; 0: there is none.
func (r *running) value(name string, label ...string) float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (len(label) == 0 || m.GetLabel()[0].GetValue() == label[0]) {
				return m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// TestExemplars: they name the node of a client that was slow, once the file says so, and no longer
// than it does. Without them /metrics is what it ever was.
func TestExemplars(t *testing.T) {
	near, east := newFiles(t), newFiles(t)
	near.put(t, "cds.yaml", clusters("a"))
	w := startReloading(t, twoOrigins(near, east, "", ""))
	if kind, _ := w.scrape(); kind != "text/plain" {
		t.Errorf("without exemplars /metrics is %s", kind)
	}
	w.applied(twoOrigins(near, east, "", "metrics: { exemplars: true }\n"))
	c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	c.Subscribe(cds, "*")
	c.Expect(cds, "the cluster")
	near.put(t, "cds.yaml", clusters("a", "b"))
	c.Expect(cds, "the change")
	await(t, "the change has an exemplar of the client's", func() bool {
		kind, body := w.scrape()
		for line := range strings.Lines(body) {
			if kind == "application/openmetrics-text" && strings.HasPrefix(line, "weir_propagation_seconds_bucket{") &&
				strings.Contains(line, `origin="near",stage="acked",type="cds"`) && strings.Contains(line, ` # {`) && strings.Contains(line, `node_id="client-delta"`) {
				return true
			}
		}
		return false
	})
	w.applied(twoOrigins(near, east, "", "metrics: { exemplars: false }\n"))
	if kind, body := w.scrape(); kind != "text/plain" || strings.Contains(body, "node_id") {
		t.Errorf("they are off again, and /metrics is %s", kind)
	}
}

// TestReloadIsDated: the metrics say when the file in force was read, which a refusal does not change.
func TestReloadIsDated(t *testing.T) {
	near, east := newFiles(t), newFiles(t)
	before := float64(time.Now().Add(-time.Second).Unix())
	w := startReloading(t, twoOrigins(near, east, "", ""))
	const name = "weir_config_last_reload_success_timestamp_seconds"
	started := w.value(name)
	if started < before || started > float64(time.Now().Unix()+1) {
		t.Errorf("the start is dated %v, and it was after %v", started, before)
	}
	if s := w.again("origins: []\n"); s.Refused.IsZero() || w.value(name) != started {
		t.Errorf("after a refusal the file in force is of %v, not of %v", w.value(name), started)
	}
	time.Sleep(5 * time.Millisecond) // the metric has milliseconds
	w.applied(twoOrigins(near, east, "", "limits: { streams: 7 }\n"))
	await(t, "the date is that of the reload", func() bool { return w.value(name) > started })
}

// TestWantedAndNotConnected: an origin that is away is one whose streams are wanted and not open, and
// why they are not is counted. Files have as many as are wanted.
func TestWantedAndNotConnected(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := startReloading(t, fmt.Sprintf("%sorigins: [{ name: away, grpc: { addresses: [%q] } }, { name: disk, files: { path: %q }, authorities: [disk] }]\n",
		freePorts, deadAddress(t), string(dir)))
	c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	c.Subscribe(cds, "a", far("disk", "b"))
	const wanted, open = "weir_upstream_wanted_streams", "weir_upstream_streams"
	await(t, "a stream is wanted of each, and open to the files", func() bool {
		return w.value(wanted, "away") == 1 && w.value(open, "away") == 0 && w.value(wanted, "disk") == 1 && w.value(open, "disk") == 1
	})
	await(t, "it is counted why", func() bool {
		_, body := w.get("/metrics")
		return strings.Contains(body, `weir_upstream_failures_total{origin="away",reason="refused"} `) &&
			!strings.Contains(body, `weir_upstream_failures_total{origin="away",reason="refused"} 0`)
	})
	if _, body := w.get("/origins"); !strings.Contains(body, `"wanted_streams": 1`) {
		t.Errorf("/origins does not have it: %s", body)
	}
}
