package real

import (
	"testing"

	"github.com/weir-xds/weir/relay/relaytest"
)

// rows are the client programs, each before a control plane.
func rows() []row {
	newest, oldest := pinned("ENVOY_NEWEST"), pinned("ENVOY_OLDEST")
	return []row{
		{envoy{newest, relaytest.Delta, true}, snapshotDelta},
		{envoy{newest, relaytest.SotW, true}, snapshotSotW},
		{envoy{newest, relaytest.Delta, false}, snapshotSotW},
		{envoy{newest, relaytest.SotW, false}, linearDelta},
		{envoy{oldest, relaytest.Delta, true}, linearSotW},
		{envoy{oldest, relaytest.SotW, true}, linearDelta},
		{grpcGo, snapshotDelta},
		{grpcGo, snapshotSotW},
		{grpcGo, linearDelta},
	}
}

// TestScenarios: every client program lives through every scenario.
func TestScenarios(t *testing.T) {
	for _, r := range rows() {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			for _, s := range scenarios {
				t.Run(s.name, func(t *testing.T) { s.run(t, r) })
			}
		})
	}
}
