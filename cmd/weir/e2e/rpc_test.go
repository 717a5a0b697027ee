package e2e

import (
	"testing"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestRPCThroughWeir: a gRPC application whose bootstrap names weir gets its listener, routes,
// cluster and endpoints from it and reaches a real backend. The same channel straight to the origin
// shows that origin and client agree without weir.
func TestRPCThroughWeir(t *testing.T) {
	matrix(t, func(t *testing.T, c cell) {
		b := startBackend(t)
		plane, weir := c.relay(t, mesh(b))
		if err := call(dialMesh(t, plane.net.Addr(), nodeID), true); err != nil {
			t.Fatalf("an RPC with the origin as its control plane: %v", err)
		}
		if err := call(dialMesh(t, weir.Addr, "app"), true); err != nil {
			t.Fatalf("an RPC with weir as its control plane: %v", err)
		}
		if got := b.calls.Load(); got != 2 {
			t.Errorf("the backend answered %d RPCs, want 2", got)
		}
		if nacks := plane.Asked().nacks; len(nacks) > 0 {
			t.Errorf("weir refused what go-control-plane sent: %q", nacks)
		}
	})
}

// TestEndpointChangeMovesTraffic: while RPCs run, the endpoints change from one backend to another;
// the traffic moves and not one RPC fails.
func TestEndpointChangeMovesTraffic(t *testing.T) {
	matrix(t, func(t *testing.T, c cell) {
		a, b := startBackend(t), startBackend(t)
		w := mesh(a)
		plane, weir := c.relay(t, w)
		tr := startTraffic(t, dialMesh(t, weir.Addr, "app"))
		tr.More(50, "RPCs reach the first backend")

		plane.Publish(w.clone().put(meshEndpoints(b)))
		tr.Await(func() bool { return b.calls.Load() >= 50 }, "RPCs move to the second backend")
		before := a.calls.Load()
		tr.More(50, "RPCs go on at the second backend")
		if late := a.calls.Load() - before; late != 0 {
			t.Errorf("%d RPCs reached the first backend after the traffic had moved", late)
		}

		plane.Publish(w.clone().put(relaytest.Route(meshRoute, meshCluster), meshEndpoints(a, b)))
		before = a.calls.Load()
		tr.Await(func() bool { return a.calls.Load() >= before+20 }, "RPCs reach both backends")
	})
}
