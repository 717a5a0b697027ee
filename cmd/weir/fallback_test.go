package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestFallbackIsShownAndReloaded: it is shown with what it serves. After a reload to other files
// clients have those, and without a fallback they keep what it gave them.
func TestFallbackIsShownAndReloaded(t *testing.T) {
	const cds = relaytest.ClusterType
	one, two, dead := newFiles(t), newFiles(t), deadAddress(t)
	one.put(t, "clusters.yaml", clusters("a", "b"))
	two.put(t, "clusters.yaml", clusters("b", "c"))
	text := func(fallback string) string {
		return freePorts + fmt.Sprintf("origins: [{ name: mesh, grpc: { addresses: [%q] }%s }]\n", dead, fallback) +
			"timing: { pause: 20ms, backoff: { base: 20ms, max: 100ms }, drain: 1s }\n"
	}
	at := func(path string) string { return fmt.Sprintf(", fallback: { files: { path: %q } }", path) }
	w := startReloading(t, text(at(string(one))))
	var clients []*relaytest.Client
	for _, dialect := range bothDialects {
		c := openClient(t, dial(t, w.listenAddress()), dialect)
		c.Request(cds, "*")
		c.AwaitNames(cds, "what the fallback has", "a", "b")
		clients = append(clients, c)
	}
	var shown struct{ Origins []admin.Origin }
	w.state("/origins", &shown)
	f := shown.Origins[0].Fallback
	if f == nil || f.Kind != "files" || f.Source != string(one) || !f.Ready || f.Serving != 2 || len(f.Files) != 1 {
		t.Errorf("the admin page shows %+v", f)
	}
	await(t, "the page says that the fallback is served", func() bool {
		_, body := w.get("/overview")
		return strings.Contains(body, `"serving": 2`) && strings.Contains(body, string(one)) && strings.Contains(body, "weir serves 2 resources of its fallback")
	})

	before := w.active.Load().origins[0]
	w.applied(text(at(string(one))) + "limits: { groups: 50 }\n")
	if w.active.Load().origins[0] != before {
		t.Error("a reload of limits.groups opens the origin anew")
	}
	w.applied(text(at(string(two))))
	for _, c := range clients {
		c.AwaitNames(cds, "what other files have", "b", "c")
	}
	w.applied(text(""))
	for _, c := range clients {
		c.WantIdle(time.Second)
		if !slices.Equal(c.Names(cds), []string{"b", "c"}) {
			t.Errorf("the client has %q when there is no fallback any more", c.Names(cds))
		}
		c.CheckClean()
	}
}

// TestFallbackNeedsItsFiles: a path that is missing is refused with its line.
func TestFallbackNeedsItsFiles(t *testing.T) {
	_, err := tryWeir(t, freePorts+`origins:
- name: mesh
  grpc: { addresses: ["localhost:1"] }
  fallback: { files: { path: /nowhere/last } }
`)
	if err == nil || !strings.Contains(err.Error(), "weir.yaml:7:") || !strings.Contains(err.Error(), "origins[0].fallback.files") {
		t.Errorf("a fallback without its files: %v", err)
	}
}

// TestFallbackOfPolled: an origin of rest may have one, too.
func TestFallbackOfPolled(t *testing.T) {
	last := newFiles(t)
	last.put(t, "clusters.yaml", clusters("a"))
	w := startWeir(t, freePorts+fmt.Sprintf("origins: [{ name: poll, rest: { urls: [%q] }, fallback: { files: { path: %q } } }]\n",
		"http://"+deadAddress(t), string(last))+"timing: { drain: 1s }\n")
	for _, dialect := range bothDialects {
		c := openClient(t, dial(t, w.listenAddress()), dialect)
		c.Request(relaytest.ClusterType, "*")
		c.AwaitNames(relaytest.ClusterType, "the file's cluster", "a")
	}
}
