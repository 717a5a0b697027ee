package relay

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/xds"
)

// TestLookupsThatMissByParameters are told from those of names of which nothing is held.
func TestLookupsThatMissByParameters(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	r := storeRig{newRig(t, Config{Origins: []OriginConfig{{Name: "mesh", TP2: true}}, Metrics: metrics.New(reg)})}
	r.sub(xds.EndpointType, "env=prod", true, "n", "m")
	r.open()
	r.says(mainLane, zero, xds.EndpointType, "n{env=prod}=1")
	r.sub(xds.EndpointType, "env=test", true, "n", "m")
	r.sub(xds.ClusterType, "env=prod", true, xds.Wildcard)
	r.group.lanes[mainLane].Take(zero, false)
	r.says(mainLane, zero, xds.ClusterType, "c{env=prod}=1")
	r.sub(xds.ClusterType, "env=test", true, "c")
	want := `# HELP weir_cache_lookups_total Names and wildcards that clients asked for, by what was there at that moment.
# TYPE weir_cache_lookups_total counter
weir_cache_lookups_total{result="absent"} 0
weir_cache_lookups_total{result="live"} 0
weir_cache_lookups_total{result="mismatch"} 2
weir_cache_lookups_total{result="miss"} 4
weir_cache_lookups_total{result="retired"} 0
weir_cache_lookups_total{result="stale"} 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "weir_cache_lookups_total"); err != nil {
		t.Error(err)
	}
}
