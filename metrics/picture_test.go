package metrics

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestPicture(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := New(reg)
	if n, err := testutil.GatherAndCount(reg, "weir_groups", "weir_downstream_streams"); n != 0 || err != nil {
		t.Errorf("before Gauges: %d series (%v), want none", n, err)
	}
	m.Gauges(func() Picture {
		return Picture{
			Origins: []OriginPicture{
				{
					Origin: "mesh", Connected: true, LastProof: time.Unix(1700000000, 500e6), LastUpdate: time.Unix(1600000000, 0),
					Streams: 2, Wanted: 12, Groups: 3, Views: 4, Stale: 5, ParameterSets: 6, Frozen: true, RolledBack: 2,
					Differing: map[string]int{"metadata.NAMESPACE": 2, "a client's": 1, "another": 1},
					Types: []TypePicture{
						{Type: clusterURL, Subscriptions: 1, Entries: 10, Bytes: 1000, Held: 9, FrozenChanges: 7},
						{Type: "vendor.A", Subscriptions: 2, Entries: 20, Bytes: 2000},
						{Type: "vendor.B", Subscriptions: 3, Entries: 30, Bytes: 3000},
					},
				},
				{Origin: "files"},
			},
			Dialects: []DialectPicture{
				{Dialect: "delta", Streams: 7, Subscriptions: map[string]int{clusterURL: 7, "vendor.A": 1, "vendor.B": 2}},
			},
			Unsynced: 6, Connections: 12,
			Retired: 8, HistoryBytes: 13, HistoryVersions: 14,
			Memory: 9, MemoryLimit: 10,
			Lag:     1500 * time.Millisecond,
			Waiting: map[WaitReason]int{WaitAck: 2, WaitGuard: 1},
		}
	})

	want := map[string]float64{
		"weir_cache_bytes mesh cds":                         1000,
		"weir_cache_bytes mesh other":                       5000,
		"weir_cache_entries mesh cds":                       10,
		"weir_cache_entries mesh other":                     50,
		"weir_cache_retired_entries":                        8,
		"weir_history_bytes":                                13,
		"weir_history_versions":                             14,
		"weir_memory_used_bytes":                            9,
		"weir_memory_limit_bytes":                           10,
		"weir_cache_stale_entries files":                    0,
		"weir_cache_stale_entries mesh":                     5,
		"weir_connections":                                  12,
		"weir_downstream_lag_seconds":                       1.5,
		"weir_downstream_streams delta":                     7,
		"weir_downstream_streams sotw":                      0,
		"weir_downstream_subscriptions delta cds":           7,
		"weir_downstream_subscriptions delta other":         3,
		"weir_downstream_unsynced_streams":                  6,
		"weir_parameter_sets files":                         0,
		"weir_parameter_sets mesh":                          6,
		"weir_groups files":                                 0,
		"weir_groups mesh":                                  3,
		"weir_groups_differing metadata.NAMESPACE mesh":     2,
		"weir_groups_differing other mesh":                  2,
		"weir_guard_held_removals mesh cds":                 9,
		"weir_guard_held_removals mesh other":               0,
		"weir_upstream_frozen files":                        0,
		"weir_upstream_frozen mesh":                         1,
		"weir_rolled_back_groups files":                     0,
		"weir_rolled_back_groups mesh":                      2,
		"weir_upstream_frozen_changes mesh cds":             7,
		"weir_upstream_frozen_changes mesh other":           0,
		"weir_upstream_connected files":                     0,
		"weir_upstream_connected mesh":                      1,
		"weir_upstream_last_proof_timestamp_seconds files":  0,
		"weir_upstream_last_proof_timestamp_seconds mesh":   1.7000000005e+09,
		"weir_upstream_last_update_timestamp_seconds files": 0,
		"weir_upstream_last_update_timestamp_seconds mesh":  1.6e+09,
		"weir_upstream_streams files":                       0,
		"weir_upstream_streams mesh":                        2,
		"weir_upstream_wanted_streams files":                0,
		"weir_upstream_wanted_streams mesh":                 12,
		"weir_upstream_subscriptions mesh cds":              1,
		"weir_upstream_subscriptions mesh other":            5,
		"weir_views files":                                  0,
		"weir_views mesh":                                   4,
	}
	for _, r := range WaitReasons() {
		want["weir_waiting "+r.String()] = 0
	}
	want["weir_waiting ack"], want["weir_waiting guard"] = 2, 1
	got := values(t, reg)
	for series, v := range want {
		if got[series] != v {
			t.Errorf("%s is %v, want %v", series, got[series], v)
		}
		delete(got, series)
	}
	for series, v := range got {
		if slices.ContainsFunc(pictureGauges, func(g gauge) bool { return strings.Contains(g.String(), strings.Fields(series)[0]) }) {
			t.Errorf("%s is %v, want no such series", series, v)
		}
	}
}

// A later call replaces the source; each scrape asks anew, and several may at once.
func TestGaugesAreComputedAtScrape(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := New(reg)
	m.Gauges(func() Picture { panic("replaced") })
	var mu sync.Mutex
	calls := 0
	m.Gauges(func() Picture {
		mu.Lock()
		defer mu.Unlock()
		calls++
		return Picture{Unsynced: calls}
	})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := reg.Gather(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if calls != 4 {
		t.Errorf("4 scrapes took %d pictures", calls)
	}
}
