package real

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// monitor is a real Prometheus, which scrapes each Envoy it is given once a second.
type monitor struct{ address string }

// newMonitor has an address for a Prometheus that is started later.
func newMonitor(tb testing.TB) *monitor {
	tb.Helper()
	l, err := net.Listen("tcp", ownAddress()+":0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return &monitor{address: l.Addr().String()}
}

// start starts it, with a canary and one of the rest, which have the label that the page has.
func (m *monitor) start(tb testing.TB, canary, rest *proxy) {
	tb.Helper()
	dir := tb.TempDir()
	config := "global: { scrape_interval: 1s, scrape_timeout: 1s }\nscrape_configs:\n  - job_name: envoy\n    metrics_path: /stats/prometheus\n    static_configs:\n"
	for label, p := range map[string]*proxy{"true": canary, "false": rest} {
		config += fmt.Sprintf("      - { targets: [%q], labels: { canary: %q } }\n", exporter(tb, p), label)
	}
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yaml"), []byte(config), 0o600); err != nil {
		tb.Fatal(err)
	}
	child := start(tb, exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+m.address))
	ready := func() bool {
		_, err := getURL(http.DefaultClient, "http://"+m.address+"/-/ready")
		return err == nil || child.ended() || !pause()
	}
	if !weirtest.Until(patience, ready) || child.ended() {
		tb.Fatal("Prometheus does not become ready")
	}
}

// exporter is where an Envoy's admin socket is to be had by TCP, as Prometheus needs it.
func exporter(tb testing.TB, p *proxy) string {
	tb.Helper()
	s := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "envoy"}) },
		Transport: p.admin.Transport,
	})
	tb.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// pageQuery is the query that the page of canaries has, with a window of its own.
func pageQuery(tb testing.TB, window string) string {
	tb.Helper()
	page, err := os.ReadFile("../../deploy/docs/canary.md")
	if err != nil {
		tb.Fatal(err)
	}
	_, query, begins := strings.Cut(string(page), "query: |\n")
	query, _, ends := strings.Cut(query, "threshold:")
	windowed := strings.ReplaceAll(query, "[1m]", "["+window+"]")
	if !begins || !ends || windowed == query {
		tb.Fatalf("the page has no query with a window of a minute: %q", query)
	}
	return strings.Join(strings.Fields(windowed), " ")
}
