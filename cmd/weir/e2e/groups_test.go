package e2e

import (
	"context"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// byNode is a snapshot cache with another world for each node id, served at an address; a node it
// does not know it leaves unanswered.
func byNode(t *testing.T, worlds map[string]world) (address string, publish func(id, version string, w world)) {
	t.Helper()
	snapshots := cache.NewSnapshotCache(false, cache.IDHash{}, nil)
	publish = func(id, version string, w world) {
		t.Helper()
		all := map[string][]types.Resource{}
		for typeURL, set := range w {
			for _, body := range set {
				all[typeURL] = append(all[typeURL], open(body))
			}
		}
		s, err := cache.NewSnapshot(version, all)
		if err == nil {
			err = snapshots.SetSnapshot(context.Background(), id, s)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for id, w := range worlds {
		publish(id, "1", w)
	}
	net := relaytest.TCP()
	l, err := net.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := grpc.NewServer(grpc.WaitForHandlers(true))
	discovery.RegisterAggregatedDiscoveryServiceServer(s, server.NewServer(ctx, snapshots, nil))
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		cancel()
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return net.Addr(), publish
}

// TestSnapshotsByNode: a control plane that keeps a snapshot for each node id serves clients by
// their own ids, through one upstream stream for each, where the id is part of the group or the
// types are dedicated; and all by one where it is fixed (RELAY-29, RELAY-62).
func TestSnapshotsByNode(t *testing.T) {
	mine := func(id string, timeout time.Duration) world {
		return world{}.put(relaytest.Cluster("of-"+id, timeout), relaytest.Endpoints("of-"+id, "10.0.0.1:80"))
	}
	for name, c := range map[string]struct {
		config func(weirtest.Config)
		served map[string]string // by client, whose snapshot it is served
	}{
		"group_by id":      {func(c weirtest.Config) { c.Origin().Set("group_by", []any{"id"}) }, map[string]string{"one": "one", "two": "two"}},
		"dedicated":        {func(c weirtest.Config) { c.Listener().Set("dedicated", []any{"cds", "eds"}) }, map[string]string{"one": "one", "two": "two"}},
		"fixed, one group": {func(c weirtest.Config) { c.Origin().Set("node.id", "all") }, map[string]string{"one": "all", "two": "all"}},
		"fixed, two groups": {func(c weirtest.Config) {
			c.Origin().Set("node.id", "all").Set("group_by", []any{"id"})
		}, map[string]string{"one": "all", "two": "all"}},
	} {
		for _, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			t.Run(name+"/"+string(dialect), func(t *testing.T) {
				worlds := map[string]world{}
				for _, id := range []string{"one", "two", "all"} {
					worlds[id] = mine(id, time.Second)
				}
				address, publish := byNode(t, worlds)
				file := weirtest.NewConfig(address, dialect)
				c.config(file)
				weir := startWeir(t, file)
				clients := map[string][]*relaytest.Client{}
				for id, of := range c.served {
					for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
						x := weir.open(t, id, relaytest.ClientConfig{Dialect: d})
						x.Subscribe(relaytest.ClusterType)
						x.Subscribe(relaytest.EndpointType, "of-"+of)
						clients[of] = append(clients[of], x)
					}
				}
				await := func(sentence string) {
					t.Helper()
					for of, xs := range clients {
						for _, x := range xs {
							awaitSet(x, relaytest.ClusterType, worlds[of], sentence)
							awaitSet(x, relaytest.EndpointType, worlds[of], sentence)
						}
					}
				}
				await("every client is served the snapshot of its node")
				for of := range clients {
					worlds[of] = mine(of, 2*time.Second)
					publish(of, "2", worlds[of])
				}
				await("and what changes of it")
				for _, xs := range clients {
					for _, x := range xs {
						x.CheckClean()
					}
				}
			})
		}
	}
}
