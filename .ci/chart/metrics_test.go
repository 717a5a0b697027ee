package chart

import (
	"bytes"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"testing"
	"time"
)

// scrape is /metrics of the probes' port, in a format.
func (w *weirRun) scrape(accept string) []byte {
	w.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		req, err := http.NewRequest(http.MethodGet, "http://"+w.probes+"/metrics", http.NoBody)
		if err != nil {
			w.t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		resp, err := http.DefaultClient.Do(req)
		if err == nil && resp.StatusCode == http.StatusOK {
			text, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close() // it was read
			if err != nil {
				w.t.Fatal(err)
			}
			return text
		}
		if err == nil {
			_ = resp.Body.Close() // nothing was asked for
		}
		if time.Now().After(end) {
			w.t.Fatalf("no metrics: %v", err)
		}
	}
}

// TestMetricsPassPromtool: promtool finds nothing to say of the names, the help and the units of what
// a running weir has, whose clients have series of their own.
func TestMetricsPassPromtool(t *testing.T) {
	program, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not here")
	}
	a := newAuthority(t)
	w := startWeir(t, `
listeners: [{ tls: { cert: /etc/weir/tls/tls.crt, key: /etc/weir/tls/tls.key } }]
origins: [{ name: mesh, grpc: {} }]
metrics: { exemplars: true }
`, startPlane(t, t.TempDir()), a)
	var text []byte
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		err := w.gets(0, a.flags()...)
		text = w.scrape("text/plain")
		if err == nil && bytes.Contains(text, []byte(`weir_upstream_answer_seconds_count{origin="mesh",type="cds"} 1`)) &&
			bytes.Contains(text, []byte(`weir_propagation_seconds_bucket{origin="mesh",stage="acked",type="cds"`)) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the client is not measured: %v\n%s", err, text)
		}
	}
	if names := regexp.MustCompile(`(?m)^# HELP weir_`).FindAll(text, -1); len(names) < 60 {
		t.Errorf("%d metrics are scraped", len(names))
	}
	cmd := exec.Command(program, "check", "metrics")
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	if open := w.scrape("application/openmetrics-text;version=1.0.0"); !bytes.HasSuffix(open, []byte("# EOF\n")) {
		t.Error("with exemplars on, there is no OpenMetrics")
	}
}
