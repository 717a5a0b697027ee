package rest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-xds/weir/metrics"
)

// seriesOf are the values of a metric's series that are not 0, by their label values but the origin;
// of a histogram the sum.
func seriesOf(t *testing.T, reg *prometheus.Registry, metric string) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetName() != "origin" {
					labels = append(labels, l.GetValue())
				}
			}
			if v := m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum(); f.GetName() == metric && v != 0 {
				values[strings.Join(labels, " ")] = v
			}
		}
	}
	return values
}

// TestFailuresAreCountedByReason: as in package upstream, and by the status of HTTP.
func TestFailuresAreCountedByReason(t *testing.T) {
	says := func(code int, text string) func(*world) {
		return func(w *world) { w.answer(clusters, func(poll) (int, string) { return code, text }) }
	}
	for want, rows := range map[string][]func(*world){
		"unauthenticated":   {says(http.StatusUnauthorized, "who are you?")},
		"permission_denied": {says(http.StatusForbidden, "no")},
		"unimplemented":     {says(http.StatusNotFound, ""), says(http.StatusMethodNotAllowed, ""), says(http.StatusNotImplemented, "")},
		"limited":           {says(http.StatusTooManyRequests, "")},
		"unavailable":       {says(http.StatusBadGateway, "connection refused")},
		"bad_response":      {says(http.StatusOK, "<html>"), says(http.StatusNotModified, "")},
		"refused":           {func(w *world) { w.set(func() { w.down["a"] = true }) }},
		"timeout":           {says(0, "")},
		"other":             {says(http.StatusBadRequest, "EOF"), says(http.StatusFound, "")},
		"credentials":       {func(w *world) { w.up.cfg.TokenFile = "/nowhere/token" }},
		"loop":              {func(w *world) { w.asRelay(clusters, "weir-1", oneCluster) }},
	} {
		for _, does := range rows {
			reg := prometheus.NewPedanticRegistry()
			in(t, func(c *Config) { c.Metrics = metrics.New(reg) }, func(w *world) {
				does(w)
				w.want(cds, "*")
				sleep(15 * time.Second)
				failures := seriesOf(t, reg, "weir_upstream_failures_total")
				if failures[want] == 0 || len(failures) != 1 {
					t.Errorf("failures are %v, want %s", failures, want)
				}
				if n := seriesOf(t, reg, "weir_upstream_attempts_total")[""]; n < failures[want] {
					t.Errorf("%v attempts, and %v", n, failures)
				}
			})
		}
	}
}

// TestAnswerIsMeasured: of polls without a version, since the server may hold the others.
func TestAnswerIsMeasured(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	in(t, func(c *Config) { c.Metrics = metrics.New(reg) }, func(w *world) {
		const text = `{"versionInfo":"1","resources":[{"@type":"` + cds + `","name":"x"}]}`
		w.answer(clusters, func(p poll) (int, string) {
			time.Sleep(2 * time.Second)
			if p.GetVersionInfo() != "" {
				time.Sleep(5 * time.Second)
				return http.StatusNotModified, ""
			}
			return http.StatusOK, text
		})
		w.want(cds, "*")
		sleep(time.Minute)
		if got := seriesOf(t, reg, "weir_upstream_answer_seconds"); got["cds"] != 2 || len(got) != 1 {
			t.Errorf("answers took %v", got)
		}
		bytes := seriesOf(t, reg, "weir_upstream_bytes_total")
		if bytes["from_origin"] != float64(len(text)) || bytes["to_origin"] == 0 {
			t.Errorf("bytes are %v, and the only answer has %d", bytes, len(text))
		}
	})
}
