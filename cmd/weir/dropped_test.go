package main

import (
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/relay/relaytest"
)

// droppingClient is a delta client that does as Envoy does: it asks by name for what it refers to,
// and drops the name with what referred to it, before it acknowledges that.
type droppingClient struct {
	*relaytest.Client
	acked map[string]int
}

func newDroppingClient(t *testing.T, w *running, cluster string) *droppingClient {
	t.Helper()
	c := &droppingClient{
		Client: relaytest.NewClient(t, dial(t, w.listenAddress()), relaytest.ClientConfig{Dialect: relaytest.Delta, Patience: patience, ManualACK: true}),
		acked:  map[string]int{},
	}
	c.Open(relaytest.Node(cluster+"-dropping", cluster))
	return c
}

// answers acknowledges all that has come of some types.
func (c *droppingClient) answers(types ...string) {
	for _, typeURL := range types {
		for ; c.acked[typeURL] < len(c.Responses(typeURL)); c.acked[typeURL]++ {
			c.ACK(typeURL)
		}
	}
}

// TestCanaryDropsWhatGoes: a revision changes one route, and removes a listener with its route.
// Canaries accept both and drop that route, so they have acknowledged the candidate, and it is
// promoted when it has baked.
func TestCanaryDropsWhatGoes(t *testing.T) {
	t.Parallel()
	w := newCanaryWorld(t, relaytest.Delta, "", "")
	for _, c := range w.clients.canaries {
		c.Close()
	}
	route := func(name, cluster string) {
		w.origin.Set(relaytest.RouteType, name, cluster, relaytest.Route(name, cluster))
	}
	w.origin.Batch(func() {
		for i, name := range []string{"l0", "l2"} {
			w.origin.Set(relaytest.ListenerType, name, "1", relaytest.Listener(name, 10000+i))
		}
		route("r0", "a")
		route("r2", "a")
	})
	canary, other := newDroppingClient(t, w.weir, "canary"), newDroppingClient(t, w.weir, "other")
	for _, c := range []*droppingClient{canary, other} {
		c.Request(relaytest.ListenerType)
		c.AwaitNames(relaytest.ListenerType, "the listeners come", "l0", "l2")
		c.answers(relaytest.ListenerType)
		c.Subscribe(relaytest.RouteType, "r0", "r2")
		c.AwaitNames(relaytest.RouteType, "their routes come", "r0", "r2")
		c.answers(relaytest.RouteType)
	}
	w.phase("idle")
	w.origin.Batch(func() {
		route("r0", "b")
		w.origin.Remove(relaytest.ListenerType, "l2")
		w.origin.Remove(relaytest.RouteType, "r2")
	})
	changed := string(relaytest.Route("r0", "b").GetValue())
	for _, c := range []*droppingClient{canary, other} {
		c.Await(0, func(s *relaytest.State) bool {
			return s.Body(relaytest.RouteType, "r0") == changed && s.Count(relaytest.ListenerType) == 1
		}, "the change comes, and the listener goes")
		c.Unsubscribe(relaytest.RouteType, "r2")
		c.answers(relaytest.RouteType, relaytest.ListenerType)
	}
	w.phase("idle")
}

// TestRemovedClusterLeavesNobodyBehind: a client of clusters drops the endpoints of one that goes,
// and counts as in sync without another response of endpoints. These may be the last that it had.
func TestRemovedClusterLeavesNobodyBehind(t *testing.T) {
	origin, w := explainedOrigin(t, "", "")
	for _, names := range [][]string{{"a", "b"}, {"a"}} {
		origin.Batch(func() {
			for _, name := range names {
				origin.Set(relaytest.ClusterType, name, "1", relaytest.EDSCluster(name, ""))
				origin.Set(relaytest.EndpointType, name, "1", relaytest.Endpoints(name, "127.0.0.1:80"))
			}
		})
		c := newDroppingClient(t, w, "edge")
		c.Request(relaytest.ListenerType)
		c.Request(relaytest.ClusterType)
		c.Await(0, func(s *relaytest.State) bool { return s.Count(relaytest.ClusterType) >= len(names) }, "the clusters come")
		c.answers(relaytest.ClusterType, relaytest.ListenerType)
		c.Subscribe(relaytest.EndpointType, names...)
		c.AwaitNames(relaytest.EndpointType, "their endpoints come", names...)
		c.answers(relaytest.EndpointType, relaytest.ListenerType)
		origin.Batch(func() {
			origin.Remove(relaytest.ClusterType, "a")
			origin.Remove(relaytest.EndpointType, "a")
		})
		c.Await(0, func(s *relaytest.State) bool { return s.Body(relaytest.ClusterType, "a") == "" }, "the cluster goes")
		c.Unsubscribe(relaytest.EndpointType, "a")
		c.answers(relaytest.ClusterType)
		await(t, "nobody is behind", func() bool {
			c.answers(relaytest.ListenerType, relaytest.EndpointType)
			var page struct {
				Clients []admin.Client `json:"clients"`
			}
			w.state("/clients?unsynced=1", &page)
			return len(page.Clients) == 0
		})
		c.WantIdle(100 * time.Millisecond)
		c.Close()
	}
}
