package rest

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/node"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// asRelay has the server at a path be a relay: polls that have come through it are refused
// (RELAY-87).
func (w *world) asRelay(path, name, text string) {
	w.answer(path, func(p poll) (int, string) {
		if err := node.CheckVia(node.ParseVia(p.header.Values(node.ViaKey)), name); err != nil {
			return http.StatusBadRequest, err.Error() + "\n"
		}
		return http.StatusOK, text
	})
}

// loops is how many refusals were counted.
func loops(t *testing.T, reg *prometheus.Registry) float64 {
	t.Helper()
	n, err := testutil.GatherAndCount(reg, "weir_upstream_loops_total")
	if err != nil || n == 0 {
		t.Fatalf("weir_upstream_loops_total: %d, %v", n, err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "weir_upstream_loops_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

const oneCluster = `{"versionInfo":"1","resources":[{"@type":"` + cds + `","name":"x"}]}`

// TestRefusedWay: where the way that a relay refuses was a client's, the client is told so, and the
// next poll comes at once and without it (RELAY-88).
func TestRefusedWay(t *testing.T) {
	reg := prometheus.NewRegistry()
	in(t, func(c *Config) { c.Metrics = metrics.New(reg) }, func(w *world) {
		w.asRelay(clusters, "plane", oneCluster)
		w.want(cds, "*")
		sleep(time.Second)
		if got := w.one("the first").header.Values(node.ViaKey); !slices.Equal(got, []string{"weir-1"}) {
			t.Errorf("it has come through %q", got)
		}
		owner := relay.NewSubscriber()
		way, err := w.group.Join(time.Now(), []string{"plane"}, owner)
		if err != nil {
			t.Fatal(err)
		}
		sleep(time.Second)
		ps := w.taken()
		if len(ps) != 2 {
			t.Fatalf("%d polls, want one by the client's way, and one without", len(ps))
		}
		for i, want := range [][]string{{"plane", "weir-1"}, {"weir-1"}} {
			if got := ps[i].header.Values(node.ViaKey); !slices.Equal(got, want) {
				t.Errorf("poll %d has come through %q, want %q", i, got, want)
			}
		}
		if !node.LoopRefused(way.Refused()) {
			t.Errorf("the client is told %q", way.Refused())
		}
		if n := loops(t, reg); n != 1 {
			t.Errorf("%v refusals were counted", n)
		}
		w.wantHeld(cds, "nothing is lost", "x")
		sleep(time.Minute)
		if n := len(w.taken()); n < 10 || n > 14 {
			t.Errorf("%d polls in the minute after", n)
		}
	})
}

// TestLoop: where the relay that refuses is passed on the way to itself whoever asks, that is a
// connectivity error, said by name, and another server is taken.
func TestLoop(t *testing.T) {
	reg := prometheus.NewRegistry()
	two := func(c *Config) {
		c.Metrics = metrics.New(reg)
		c.URLs = []string{"http://a", "http://b"}
	}
	in(t, two, func(w *world) {
		w.asRelay("a "+clusters, "weir-1", oneCluster)
		w.serve("b "+clusters, "1", cluster("y"))
		w.want(cds, "*")
		sleep(time.Second)
		w.wantHeld(cds, "the second server is asked", "y")
		if n := w.lines("the origin is a relay and refuses the poll"); n != 1 {
			t.Errorf("%d lines say what is wrong", n)
		}
		sleep(time.Minute)
		asked := map[string]int{}
		for _, p := range w.taken() {
			asked[p.host]++
		}
		if asked["a"] < 2 || asked["a"] > 30 || asked["b"] < 10 {
			t.Errorf("polls in a minute: %v", asked)
		}
		if n := loops(t, reg); int(n) != asked["a"] {
			t.Errorf("%v refusals were counted, of %d", n, asked["a"])
		}
	})
}
