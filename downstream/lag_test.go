package downstream

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
)

// newLagRig is a table of two origins that is measured. The second is that of the authority east.
func newLagRig(t *testing.T) (r, east *rig, reg *prometheus.Registry, m *metrics.Metrics) {
	t.Helper()
	reg = prometheus.NewRegistry()
	m = metrics.New(reg)
	r = newRigWith(t, relay.Config{Metrics: m, Origins: []relay.OriginConfig{{Name: "mesh"}, {Name: "east", Authorities: []string{"east"}}}})
	r.configure(func(c *Config, _ *ListenerConfig) { c.Metrics = m })
	return r, &rig{tb: t, table: r.table, origin: r.table.Origin("east"), now: r.now}, reg, m
}

// took are the sums of the propagations that were measured, by origin, stage and type, in seconds.
func took(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if h := m.GetHistogram(); f.GetName() == "weir_propagation_seconds" && h.GetSampleCount() > 0 {
				sums[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()+" "+m.GetLabel()[2].GetValue()] = h.GetSampleSum()
			}
		}
	}
	return sums
}

// TestPropagationIsOfTheOrigin: a change counts for the origin it comes from, from its receipt, though
// the client's names belong to several origins.
func TestPropagationIsOfTheOrigin(t *testing.T) {
	for _, delta := range []bool{true, false} {
		r, east, reg, _ := newLagRig(t)
		far := long(eds, "//east/far")
		p := r.client(delta)
		again := func() {
			if delta {
				p.acks(eds)
			} else {
				p.asks(eds, "near", far)
			}
		}
		if delta {
			p.subscribes(eds, "near", far)
		} else {
			p.asks(eds, "near", far)
		}
		east.up()
		r.says(eds, "near=1")
		east.says(eds, far+"=1")
		p.gets("both", "eds near=1 "+far+"=1")
		again()
		before := took(t, reg)

		r.wait(time.Second)
		east.now = r.now
		east.says(eds, far+"=2")
		r.wait(2 * time.Second)
		p.now = r.now
		p.gets("the change of the other origin", "eds "+far+"=2")
		r.wait(3 * time.Second)
		p.now = r.now
		again()
		after := took(t, reg)
		for series, want := range map[string]float64{"east sent eds": 2, "east acked eds": 5, "mesh sent eds": 0, "mesh acked eds": 0} {
			if got := after[series] - before[series]; got != want {
				t.Errorf("delta %v: %s took %v s, want %v, in %v", delta, series, got, want, after)
			}
		}
	}
}

// TestLateClientIsTheOrigins: who has not accepted a change counts for the origin it comes from.
func TestLateClientIsTheOrigins(t *testing.T) {
	r, east, _, _ := newLagRig(t)
	far := long(eds, "//east/far")
	p := r.client(true)
	p.subscribes(eds, "near", far)
	east.up()
	behind := func(want string) {
		t.Helper()
		if got := p.session.status(time.Now()).Types[0].Behind; got != want {
			t.Errorf("it is behind %s, want %s", got, want)
		}
	}
	r.says(eds, "near=1")
	east.says(eds, far+"=1")
	p.gets("both", "eds near=1 "+far+"=1")
	p.acks(eds)
	behind("mesh") // nobody, really
	east.says(eds, far+"=2")
	behind("east")
	p.gets("the change", "eds "+far+"=2")
	behind("east")
	p.acks(eds)
	r.says(eds, "near=2")
	behind("mesh")
}

// TestExemplarNamesTheClient: with exemplars /metrics says which stream took so long, and whose trace
// it is.
func TestExemplarNamesTheClient(t *testing.T) {
	r, _, reg, m := newLagRig(t)
	asked := ""
	r.configure(func(c *Config, _ *ListenerConfig) {
		c.TraceID = func(typeURL string, received time.Time) string {
			asked = typeURL + received.UTC().Format(" 15:04:05")
			return "0af7651916cd43dd8448eb211c80319c"
		}
	})
	p := r.client(true)
	p.session.id = 7
	p.subscribes(cds, "a")
	r.says(cds, "a=1")
	p.gets("it", "cds a=1")
	p.acks(cds)
	if asked != "" {
		t.Errorf("exemplars are off, and the trace of %s was asked for", asked)
	}
	m.Exemplars(true)
	r.says(cds, "a=2")
	at := r.now
	p.gets("the change", "cds a=2")
	p.acks(cds)
	if want := cds + at.UTC().Format(" 15:04:05"); asked != want {
		t.Errorf("the trace of %s was asked for, want %s", asked, want)
	}
	req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	req.Header.Set("Accept", "application/openmetrics-text")
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, req)
	for _, stage := range []string{"sent", "acked"} {
		found := ""
		for line := range strings.Lines(w.Body.String()) {
			if strings.Contains(line, `stage="`+stage+`"`) && strings.Contains(line, " # ") {
				found += line
			}
		}
		for _, part := range []string{`stream="7"`, `node_id="` + p.session.nodeID + `"`, `trace_id="0af7651916cd43dd8448eb211c80319c"`} {
			if !strings.Contains(found, part) {
				t.Errorf("%s: no %s in %q", stage, part, found)
			}
		}
	}
	if n, err := testutil.GatherAndCount(reg, "weir_propagation_seconds"); n != 2 || err != nil {
		t.Errorf("exemplars make %d series, %v", n, err)
	}
}
