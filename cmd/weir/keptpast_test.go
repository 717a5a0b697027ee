package main

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestPastAfterRestart: the states of a group of before a restart are known after it, with their
// revisions and IDs, and an operator can go back to one of them.
func TestPastAfterRestart(t *testing.T) {
	const cds = relaytest.ClusterType
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
	origin.Set(cds, "b", "1", relaytest.Cluster("b", time.Second))
	dir := filepath.Join(t.TempDir(), "kept")
	config := declared(keptConfig(origin.Net().Addr(), "delta", dir), false)
	states := func(w *running) []relay.StateRow {
		part := w.table.Origin("mesh")
		for _, g := range part.Groups() {
			if rows := part.States(g.Key, 10); len(rows) > 0 {
				return rows
			}
		}
		return nil
	}

	w := startWeir(t, config)
	c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	c.Request(cds)
	c.AwaitNames(cds, "the clusters come", "a", "b")
	c.WantIdle(500 * time.Millisecond)
	first := c.Held(cds)
	origin.Set(cds, "a", "2", relaytest.Cluster("a", 2*time.Second))
	await(t, "the change is sent", func() bool { return c.Held(cds)["a"] != first["a"] })
	origin.Remove(cds, "b")
	c.AwaitNames(cds, "the removal is sent", "a")
	await(t, "there are three states", func() bool { return len(states(w)) == 3 })
	before := states(w)
	w.end() // which writes once more

	w = startWeir(t, config)
	c = openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	c.Request(cds)
	c.AwaitNames(cds, "the newest state is served", "a")
	after := states(w)
	if len(after) != 3 {
		t.Fatalf("after a restart the states are %+v, were %+v", after, before)
	}
	for i, x := range after {
		if y := before[i]; x.ID != y.ID || x.Revision != y.Revision || !x.At.Equal(y.At) || !x.Whole || x.Removed != y.Removed {
			t.Errorf("after a restart a state is %+v, was %+v", x, y)
		}
	}
	code, body := fetch(t, http.MethodPost, "http://"+w.admin.listener.Addr().String()+"/origins/mesh/rollback?to="+before[2].ID)
	if code != http.StatusOK {
		t.Fatalf("going back: %d %s", code, body)
	}
	c.AwaitNames(cds, "what was removed before the restart is back", "a", "b")
	if got := c.Held(cds); got["a"] != first["a"] || got["b"] != first["b"] {
		t.Errorf("the client has %v, want %v", got, first)
	}
	c.CheckClean()
}
