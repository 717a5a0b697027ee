package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// TestDelaysAreShownOnceTheyMayBe: a type that nobody asks for costs no series, and one that somebody
// asks for has its series before the first change.
func TestDelaysAreShownOnceTheyMayBe(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := New(reg)
	of := func(family string) (series []string) {
		for name := range values(t, reg) {
			if strings.HasPrefix(name, family) {
				series = append(series, name)
			}
		}
		return series
	}
	o := m.Origin("mesh")
	if got := append(of("weir_propagation_seconds"), of("weir_upstream_answer_seconds")...); len(got) > 0 {
		t.Errorf("before anybody asks: %v", got)
	}
	o.Type("cds").Propagation()
	m.Origin("mesh").Type("cds").Propagation() // of the same series
	o.Type("eds").Asked()
	if got := of("weir_propagation_seconds"); len(got) != 2 {
		t.Errorf("a type that clients ask for has %v", got)
	}
	if got := of("weir_upstream_answer_seconds"); len(got) != 1 {
		t.Errorf("a type that the origin is asked for has %v", got)
	}
}

// scrape is what /metrics answers to those who ask for OpenMetrics.
func scrape(t *testing.T, reg *prometheus.Registry) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, r)
	body, lines := w.Body.String(), ""
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "weir_propagation_seconds") {
			lines += line
		}
	}
	return lines
}

// TestExemplars: they name the client of a measurement if that is switched on, and what a client says
// cannot make them too long.
func TestExemplars(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := New(reg)
	p := m.Origin("mesh").Type("cds").Propagation()
	e := Exemplar{Stream: 7, Node: "envoy-1", Trace: "0af7651916cd43dd8448eb211c80319c"}
	p.Acked(2*time.Second, e)
	if p.Exemplars() || strings.Contains(scrape(t, reg), "envoy-1") {
		t.Error("there are exemplars though they are off")
	}
	m.Exemplars(true)
	p.Acked(2*time.Second, e)
	p.Acked(200*time.Millisecond, Exemplar{})
	bucket := ""
	for line := range strings.Lines(scrape(t, reg)) {
		if strings.Contains(line, `stage="acked"`) && strings.Contains(line, " # ") {
			bucket += line
		}
	}
	for _, part := range []string{`le="2.5"} 3 # {`, `node_id="envoy-1"`, `stream="7"`, `trace_id="0af7651916cd43dd8448eb211c80319c"`, "} 2.0 "} {
		if !p.Exemplars() || strings.Count(bucket, "\n") != 1 || !strings.Contains(bucket, part) {
			t.Errorf("no %s in %s", part, bucket)
		}
	}
	const many = 1 << 63
	for _, node := range []string{strings.Repeat("n", 5000), strings.Repeat("ü", 5000), strings.Repeat("\xff", 5000), "a\n\"b\\"} {
		p.Sent(time.Second, Exemplar{Stream: many, Node: node, Trace: node}) // the library panics over what is too long
	}
	m.Exemplars(false)
	p.Acked(4500*time.Millisecond, e)
	if got := scrape(t, reg); strings.Contains(got, `} 4.5`) {
		t.Errorf("they were switched off: %s", got)
	}
}
