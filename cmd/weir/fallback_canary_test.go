package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestFallbackOfTiers: where changes are tried on canaries, a last resort stands in for the clients
// of all tiers. What it gives them is shown as that, is never on disk, is no state to go back to, and
// ends when the origin speaks.
func TestFallbackOfTiers(t *testing.T) {
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	origin.Set(relaytest.ClusterType, "a", "1", relaytest.Cluster("a", time.Second))
	origin.Stop()
	last, dir := newFiles(t), filepath.Join(t.TempDir(), "kept")
	last.put(t, "clusters.yaml", clusters("last"))
	text := strings.Replace(canaried(origin.Net().Addr(), relaytest.Delta), "group_by: []", fmt.Sprintf("fallback: { files: { path: %q } }, group_by: []", string(last)), 1) +
		fmt.Sprintf("\ncache: { snapshot: { path: %q, interval: 100ms } }\n", dir)
	w := startWeir(t, text)
	served := func(name string) (c tieredClients) {
		c = openTiered(t, w)
		for _, client := range c.all() {
			client.Request(relaytest.ClusterType)
			client.AwaitNames(relaytest.ClusterType, "what the last resort has", name)
		}
		return c
	}
	served("last")
	if _, body := w.get("/resources?type=cds"); strings.Count(body, `"name": "last"`) != strings.Count(body, `"fallback": true`) || !strings.Contains(body, `"fallback": true`) {
		t.Errorf("/resources: %s", body)
	}
	if _, body := w.get("/origins"); !strings.Contains(body, `"serving": 1`) {
		t.Errorf("/origins: %s", body)
	}
	time.Sleep(500 * time.Millisecond) // some intervals of the snapshot
	w.end()
	if c, err := snapshot.Read(snapshot.File(dir), nil); err == nil && c.Summary(false).Resources > 0 {
		t.Errorf("%d resources are on disk", c.Summary(false).Resources)
	}
	last.put(t, "clusters.yaml", clusters("other"))
	w = startWeir(t, text)
	c := served("other")
	origin.Restart()
	for _, client := range c.all() {
		client.AwaitNames(relaytest.ClusterType, "what the origin has", "a")
	}
}
