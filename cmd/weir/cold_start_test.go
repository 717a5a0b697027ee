package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/relay/relaytest"
)

const cds, rds = relaytest.ClusterType, relaytest.RouteType

// TestColdStartWaits plays an Envoy that starts behind a weir that nobody has asked anything, in
// virtual time, where only waits cost any. If the origin speaks delta, a delta client is sent clusters
// and endpoints as they come, and its listeners and routes wait for `settle`, as more clusters may
// come (RELAY-84). A SotW client waits for `settle` for each of the two sets (RELAY-7). A SotW origin may be
// asked a list of endpoints twice, 10 ms apart (RELAY-24). Behind a weir that has everything nobody
// waits.
func TestColdStartWaits(t *testing.T) {
	const settle, list = 50 * time.Millisecond, 10 * time.Millisecond
	for _, row := range []struct {
		client, origin relaytest.Dialect
		canary         *node.Canary
		most           time.Duration
	}{
		{relaytest.Delta, relaytest.Delta, nil, settle},
		{relaytest.Delta, relaytest.SotW, nil, list},
		{relaytest.SotW, relaytest.Delta, nil, 2 * settle},
		{relaytest.SotW, relaytest.SotW, nil, list},
		{relaytest.Delta, relaytest.Delta, inCluster, settle},
		{relaytest.Delta, relaytest.SotW, inCluster, settle + list},
		{relaytest.SotW, relaytest.Delta, inCluster, 2 * settle},
		{relaytest.SotW, relaytest.SotW, inCluster, 2*settle + list},
	} {
		for _, clusters := range []int{10, 1500} {
			t.Run(fmt.Sprintf("%v client, %v origin, %d clusters, tiers %v", row.client, row.origin, clusters, row.canary.On()), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := coldOrigin(t, clusters)
					h := tieredHop(t, o.Net(), row.origin, row.canary)
					if took, steps := startup(t, h.net, row.client, clusters); took > row.most {
						t.Errorf("a cold start waits for %v, want at most %v: %s", took, row.most, steps)
					}
					if took, steps := startup(t, h.net, row.client, clusters); took > 0 {
						t.Errorf("a warm start waits for %v: %s", took, steps)
					}
				})
			})
		}
	}
}

func coldOrigin(t *testing.T, clusters int) *relaytest.Origin {
	o := relaytest.NewOrigin(t, relaytest.Memory(), relaytest.OriginConfig{Serving: true})
	o.Batch(func() {
		for i := range clusters {
			name := fmt.Sprintf("c-%04d", i)
			o.Set(cds, name, "1", relaytest.EDSCluster(name, ""))
			o.Set(eds, name, "1", relaytest.Endpoints(name, "10.0.0.1:80"))
		}
		o.Set(lds, "l", "1", relaytest.Listener("l", 80))
		o.Set(rds, "r", "1", relaytest.Route("r", "c-0000"))
	})
	return o
}

// startup asks as Envoy does, each type when it has all of the one before. It returns how long that
// took, and when it had each type.
func startup(t *testing.T, net *relaytest.Net, d relaytest.Dialect, clusters int) (took time.Duration, text string) {
	c := relaytest.NewClient(t, net.Connect(t), relaytest.ClientConfig{Dialect: d})
	began := time.Now()
	c.Open(relaytest.Node("c", "edge"))
	defer c.Close()
	var steps []string
	had := func(typeURL string, want int) {
		t.Helper()
		c.Await(0, func(s *relaytest.State) bool { return s.Count(typeURL) == want }, "a cold start goes on")
		steps = append(steps, fmt.Sprint(typeURL[strings.LastIndexByte(typeURL, '.')+1:], " ", time.Since(began)))
	}
	c.Subscribe(cds, "*")
	had(cds, clusters)
	var names []string
	c.Look(func(s *relaytest.State) { names = s.Names(cds) })
	slices.Sort(names)
	c.Subscribe(eds, names...)
	had(eds, clusters)
	c.Subscribe(lds, "*")
	had(lds, 1)
	c.Subscribe(rds, "r")
	had(rds, 1)
	return time.Since(began), strings.Join(steps, ", ")
}
