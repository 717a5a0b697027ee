package real

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// keyNode is a node with metadata.
func keyNode(id, cluster string, metadata map[string]any) *core.Node {
	fields, err := structpb.NewStruct(metadata)
	if err != nil {
		panic(err)
	}
	return &core.Node{Id: id, Cluster: cluster, Metadata: fields}
}

// keyClients are clients whose answers are compared: a node each, which asks for `*` of types.
type keyClients struct {
	dialect relaytest.Dialect
	types   []string
	nodes   []*core.Node
}

// answers are what each node is answered at a server, as text; "" for one that is not answered
// within wait. All are connected at the same time.
func (k keyClients) answers(t *testing.T, server string, wait time.Duration, options ...grpc.DialOption) []string {
	t.Helper()
	clients := make([]*relaytest.Client, len(k.nodes))
	conn := weirtest.Connect(t, server, options...)
	for i, n := range k.nodes {
		clients[i] = relaytest.NewClient(t, conn, relaytest.ClientConfig{Dialect: k.dialect})
		clients[i].Open(n)
		for _, typeURL := range k.types {
			clients[i].Request(typeURL)
		}
	}
	defer func() {
		for _, c := range clients {
			c.Cancel()
		}
	}()
	all := make([]string, len(k.nodes))
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	// A control plane may answer in several pieces: what has been the same for a second is the answer.
	for same := 0; same < 10; same++ {
		if ctx.Err() != nil {
			break
		}
		for i, c := range clients {
			if text := k.held(c); text != all[i] {
				all[i], same = text, 0
			}
			if all[i] == "" {
				same = 0
			}
		}
		pause()
	}
	return all
}

// held is what a client has: names, and bodies.
func (k keyClients) held(c *relaytest.Client) string {
	var text strings.Builder
	for _, typeURL := range k.types {
		for _, name := range c.Names(typeURL) {
			fmt.Fprintf(&text, "%s %s %x\n", typeURL, name, c.Body(typeURL, name))
		}
	}
	return text.String()
}

// keyTrial is a key, and what is measured of it.
type keyTrial struct {
	groupBy []any // nil: the default
	node    map[string]any
	groups  int
	wrong   int // nodes that are answered otherwise than straight at the control plane
}

// try measures keys before a control plane that answers straight, with an own weir for each.
func (k keyClients) try(t *testing.T, trials []keyTrial, config func() weirtest.Config, straight []string) {
	t.Helper()
	for _, x := range trials {
		c := config()
		c.Set("timing.drain", "200ms")
		c.Set("log.level", logLevel())
		if x.groupBy != nil {
			c.Origin()["group_by"] = x.groupBy
		}
		if x.node != nil {
			c.Origin()["node"] = x.node
		}
		weir := weirtest.Start(t, c)
		wait := patience
		if x.wrong == len(k.nodes) {
			wait = 3 * time.Second // they are never answered
		}
		behind := k.answers(t, weir.Addr, wait)
		groups, _ := weir.Metric("weir_groups")
		wrong := 0
		for i := range k.nodes {
			if behind[i] != straight[i] {
				wrong++
			}
		}
		t.Logf("group_by %v, node %v: %d nodes, %v groups, %d answered otherwise than straight", x.groupBy, x.node, len(k.nodes), groups, wrong)
		if int(groups) != x.groups || wrong != x.wrong {
			t.Errorf("group_by %v, node %v: %v groups and %d wrong answers, want %d and %d", x.groupBy, x.node, groups, wrong, x.groups, x.wrong)
		}
		weir.Stop()
	}
}

// byNodeID is a snapshot cache with cache.IDHash: nodes of one id have one snapshot. A resource is
// for the id that its name begins with.
func byNodeID(p *plane) (cache.Cache, func(world) error) {
	c := cache.NewSnapshotCache(false, cache.IDHash{}, p)
	return c, func(w world) error {
		all := map[string]map[string][]types.Resource{}
		for typeURL, set := range w {
			for _, name := range slices.Sorted(maps.Keys(set)) {
				id, _, _ := strings.Cut(name, "-")
				if all[id] == nil {
					all[id] = map[string][]types.Resource{}
				}
				all[id][typeURL] = append(all[id][typeURL], open(set[name]))
			}
		}
		for id, resources := range all {
			s, err := cache.NewSnapshot("1", resources)
			if err == nil {
				err = c.SetSnapshot(context.Background(), id, s)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// keyWorld has a cluster for nodes of the ids a and b each.
func keyWorld() world {
	w := world{}
	for _, id := range []string{"a", "b"} {
		w.put(relaytest.Cluster(id+"-cluster", time.Second))
	}
	return w
}

// TestKeysByNodeID: go-control-plane's snapshot cache with IDHash, and java-control-plane with a
// NodeGroup by node id, go by the node id and nothing else. group_by: [id] is one group for each
// id, which is answered as straight there. The default key has a group for each pod, and none is
// answered; one id for all gives each what is that id's.
func TestKeysByNodeID(t *testing.T) {
	var nodes []*core.Node
	for i := range 6 {
		pod := map[string]any{"pod": fmt.Sprint("pod-", i), "NAMESPACE": fmt.Sprint("ns-", i%3)}
		nodes = append(nodes, keyNode([]string{"a", "b"}[i%2], "edge", pod))
	}
	clusters := []string{relaytest.ClusterType} // a listener of a snapshot that has none is never answered by all of them
	for _, o := range []origin{
		{name: "snapshot-delta by id", dialect: relaytest.Delta, caches: byNodeID},
		{name: "snapshot-sotw by id", dialect: relaytest.SotW, caches: byNodeID},
		javaDelta, javaSotW,
	} {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			clients := keyClients{o.dialect, clusters, nodes}
			p := newPlane(t, o, keyWorld())
			if p.program != nil {
				for _, id := range []string{"a", "b"} {
					all := &discovery.DiscoveryResponse{VersionInfo: "1", ControlPlane: &core.ControlPlane{Identifier: id}}
					all.Resources = append(all.Resources, keyWorld()[relaytest.ClusterType][id+"-cluster"])
					b, err := proto.Marshal(all)
					if err == nil {
						err = p.program.give(b)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			straight := clients.answers(t, p.Addr(), patience)
			if straight[0] == straight[1] || straight[0] != straight[2] || straight[0] == "" {
				t.Fatalf("straight at it: %q", straight)
			}
			clients.try(t, []keyTrial{
				{groupBy: []any{"id"}, groups: 2},
				{groups: 6, wrong: 6},
				{groupBy: []any{}, node: map[string]any{"id": "a"}, groups: 1, wrong: 3},
			}, func() weirtest.Config {
				c := weirtest.Config{"listeners": []any{map[string]any{}}, "origins": []any{map[string]any{
					"name": "mesh",
					"grpc": map[string]any{"addresses": []any{p.Addr()}, "dialect": string(o.dialect)},
				}}}
				maps.Copy(c.Origin(), o.weir)
				return c
			}, straight)
		})
	}
}
