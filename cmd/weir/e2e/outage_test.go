package e2e

import (
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestOriginKilled: the control plane dies. RPCs go on, recording clients are sent nothing, and an
// application started during the outage works from what weir has.
func TestOriginKilled(t *testing.T) {
	matrix(t, func(t *testing.T, c cell) {
		b := startBackend(t)
		w := mesh(b)
		plane, weir := c.relay(t, w)
		tr := startTraffic(t, dialMesh(t, weir.Addr, "app"))
		clients := weir.pair(t)
		for _, client := range clients {
			client.Subscribe(relaytest.EndpointType, meshCluster)
			awaitSet(client, relaytest.EndpointType, w, "the endpoints arrive before the outage")
		}

		plane.Stop()
		weir.AwaitMetric(0, "weir notices that the origin is gone", "weir_upstream_connected")
		tr.More(200, "RPCs go on without an origin")
		for _, client := range clients {
			client.WantIdle(time.Second)
		}

		if err := call(dialMesh(t, weir.Addr, "late-app"), true); err != nil {
			t.Errorf("an RPC of an application started during the outage: %v", err)
		}
		late := weir.open(t, "late", relaytest.ClientConfig{})
		late.Subscribe(relaytest.EndpointType, meshCluster)
		awaitSet(late, relaytest.EndpointType, w, "a client started during the outage gets the endpoints")
		tr.More(50, "RPCs still go on")
		for _, client := range clients {
			client.CheckClean()
		}
	})
}

// returning is a test of an origin that went away and comes back: the world it has before, and
// clients that hold it.
type returning struct {
	cell
	before  world
	plane   *plane
	weir    *process
	clients map[relaytest.Dialect]*relaytest.Client
}

// settleBefore brings up origin, weir and clients, which end up with everything.
func settleBefore(t *testing.T, c cell) *returning {
	t.Helper()
	w := world{}.put(
		clusterWith("stays", "v1"), clusterWith("changes", "v1"), clusterWith("goes", "v1"),
		relaytest.Listener("front", 8080),
		relaytest.Endpoints("stays", "10.0.0.1:80"), relaytest.Endpoints("changes", "10.0.0.2:80"),
		relaytest.Route("routes", "stays"),
	)
	r := &returning{cell: c, before: w}
	r.plane, r.weir = c.relay(t, w)
	r.clients = r.weir.pair(t)
	for _, client := range r.clients {
		client.Subscribe(relaytest.ClusterType)
		client.Subscribe(relaytest.ListenerType)
		client.Subscribe(relaytest.EndpointType, "stays", "changes")
		client.Subscribe(relaytest.RouteType, "routes")
	}
	r.await(w, "everything arrives")
	return r
}

// await waits until every client holds w.
func (r *returning) await(w world, sentence string) {
	for _, client := range r.clients {
		for _, typeURL := range worldTypes {
			awaitSet(client, typeURL, w, sentence)
		}
	}
}

// comeBack kills the origin and starts it again with w, its version counters at their beginning,
// and waits until it was asked for every type again.
func (r *returning) comeBack(t *testing.T, w world) {
	t.Helper()
	r.plane.Stop()
	r.weir.AwaitMetric(0, "weir notices that the origin is gone", "weir_upstream_connected")
	before := r.plane.Asked().asked
	r.plane.Start(w)
	again := func() bool {
		now := r.plane.Asked().asked
		for typeURL, names := range before {
			for name, n := range names {
				if now[typeURL][name] <= n {
					return false
				}
			}
		}
		return true
	}
	if !weirtest.Until(patience, again) {
		t.Fatalf("weir did not ask the returned origin for everything: before %v, now %v", before, r.plane.Asked().asked)
	}
}

// TestOriginReturns: what an origin that comes back has is what clients end up with, whatever it
// calls the version, and what did not change is not sent again.
func TestOriginReturns(t *testing.T) {
	t.Run("changed", func(t *testing.T) {
		matrix(t, func(t *testing.T, c cell) {
			r := settleBefore(t, c)
			w := r.before.clone().put(
				clusterWith("changes", "v2"), clusterWith("comes", "v1"),
				relaytest.Listener("front", 9090),
				relaytest.Endpoints("changes", "10.0.0.9:80"),
				relaytest.Route("routes", "changes"),
			)
			delete(w[relaytest.ClusterType], "goes")
			r.comeBack(t, w) // under version "1", as before
			r.await(w, "the changes made while the origin was away arrive, the removal included")
			for _, client := range r.clients {
				client.CheckClean()
			}
		})
	})
	t.Run("same", func(t *testing.T) {
		matrix(t, func(t *testing.T, c cell) {
			r := settleBefore(t, c)
			r.comeBack(t, r.before)
			r.weir.AwaitMetric(1, "weir is connected again", "weir_upstream_connected")
			for _, client := range r.clients {
				client.WantIdle(2 * time.Second)
			}
			// A change shows that the silence was not deafness.
			w := r.before.clone().put(relaytest.Endpoints("stays", "10.0.0.8:80"))
			r.plane.Publish(w)
			r.await(w, "a change after the return arrives")
			for _, client := range r.clients {
				client.CheckClean()
			}
		})
	})
	t.Run("version used before", testVersionUsedBefore)
}

// testVersionUsedBefore: an origin that went from v1 to v2 dies and returns with other content
// under v1 again.
func testVersionUsedBefore(t *testing.T) {
	for _, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
		t.Run(string(dialect), func(t *testing.T) {
			origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience})
			publish := func(version string, w world) {
				origin.Batch(func() {
					for typeURL, set := range w {
						origin.SetVersionInfo(typeURL, version)
						for name, body := range set {
							origin.Set(typeURL, name, version, body)
						}
					}
				})
			}
			first := world{}.put(clusterWith("a", "one"), relaytest.Endpoints("a", "10.0.0.1:80"))
			second := world{}.put(clusterWith("a", "two"), relaytest.Endpoints("a", "10.0.0.2:80"))
			third := world{}.put(clusterWith("a", "three"), relaytest.Endpoints("a", "10.0.0.3:80"))
			publish("1", first)
			weir := startWeir(t, config(origin.Net().Addr(), dialect))
			clients := weir.pair(t)
			await := func(w world, sentence string) {
				for _, client := range clients {
					awaitSet(client, relaytest.ClusterType, w, sentence)
					awaitSet(client, relaytest.EndpointType, w, sentence)
				}
			}
			for _, client := range clients {
				client.Subscribe(relaytest.ClusterType)
				client.Subscribe(relaytest.EndpointType, "a")
			}
			await(first, "version 1 arrives")
			publish("2", second)
			await(second, "version 2 arrives")
			origin.Stop()
			publish("1", third)
			origin.Start()
			await(third, "other content under version 1 arrives")
			for _, client := range clients {
				client.CheckClean()
			}
		})
	}
}
