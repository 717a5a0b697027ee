package real

import (
	"slices"
	"testing"

	"github.com/weir-xds/weir/relay/relaytest"
)

// rows are the client programs, each before a control plane.
func rows() []row {
	newest, oldest := pinned("ENVOY_NEWEST"), pinned("ENVOY_OLDEST")
	// Streams of one client have no order between them: gather is what gives them one, and no
	// removal can be told after a route on another stream. A control plane that takes its time
	// between the types of one change needs it too.
	gather, unordered := map[string]any{"timing.gather": "1s"}, []string{"swap", "restored-then-changed", "origin-changed"}
	return []row{
		{program: envoy{newest, relaytest.Delta, true}, origin: snapshotDelta},
		{program: envoy{newest, relaytest.SotW, true}, origin: snapshotSotW},
		{program: envoy{newest, relaytest.SotW, true}, origin: snapshotADS},
		{program: envoy{newest, relaytest.Delta, false}, origin: snapshotSotW, weir: gather, without: unordered},
		{program: envoy{newest, relaytest.SotW, false}, origin: linearDelta, weir: gather, without: unordered},
		{program: envoy{oldest, relaytest.Delta, true}, origin: linearSotW},
		{program: envoy{oldest, relaytest.SotW, true}, origin: linearDelta},
		{program: envoy{newest, relaytest.SotW, true}, origin: javaSotW, weir: gather, without: []string{"hollow"}},
		{program: envoy{newest, relaytest.Delta, true}, origin: javaDelta, weir: gather},
		{program: grpcGo, origin: snapshotDelta},
		{program: grpcGo, origin: snapshotSotW},
		{program: grpcGo, origin: linearDelta},
		{program: grpcCore, origin: linearSotW},
		// beside one it takes up nothing
		{program: grpcJS, origin: snapshotSotW, without: []string{"hollow"}},
		{program: grpcJava, origin: snapshotDelta},
		// it tells no names, and refuses nothing
		{program: tonicXDS, origin: linearDelta, without: []string{"removal", "refused"}},
	}
}

// TestScenarios: every client program lives through every scenario.
func TestScenarios(t *testing.T) {
	for _, r := range rows() {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			for _, s := range scenarios {
				if !slices.Contains(r.without, s.name) {
					t.Run(s.name, func(t *testing.T) { s.run(t, r) })
				}
			}
		})
	}
}
