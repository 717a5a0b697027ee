package main

import (
	"context"
	"strconv"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// snapshots is go-control-plane's snapshot cache: each change makes a new snapshot of everything.
// All nodes share one, which is the best case for this cache: with a snapshot for each node every
// change would be set once for each node.
type snapshots struct {
	world.Counter
	cache cache.SnapshotCache
	world *world.World

	mu      sync.Mutex // guards what follows
	set     []types.Resource
	version int
}

// oneNode makes all nodes one.
type oneNode struct{}

// ID implements cache.NodeHash.
func (oneNode) ID(*corev3.Node) string { return "fleet" }

func newSnapshots(ctx context.Context, w *world.World) (*snapshots, error) {
	s := &snapshots{cache: cache.NewSnapshotCache(true, oneNode{}, nil), world: w, set: make([]types.Resource, w.Len())}
	for i := range s.set {
		s.set[i] = w.Message(i, 0)
	}
	return s, s.publish(ctx)
}

// Change implements world.Plane.
func (s *snapshots) Change(indices []int, stamp world.Stamp) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range indices {
		s.set[i] = s.world.Message(i, stamp)
	}
	return s.publish(context.Background())
}

func (s *snapshots) publish(ctx context.Context) error {
	s.version++
	next, err := cache.NewSnapshot(strconv.Itoa(s.version), map[string][]types.Resource{s.world.Kind().TypeURL(): s.set})
	if err != nil {
		return err
	}
	return s.cache.SetSnapshot(ctx, oneNode{}.ID(nil), next)
}

// linears is go-control-plane's linear cache, behind the mux that serves it beside caches of other
// types.
type linears struct {
	world.Counter
	cache *cache.LinearCache
	world *world.World
}

func newLinears(w *world.World) *linears {
	set := make(map[string]types.Resource, w.Len())
	for i := range w.Len() {
		set[world.Name(i)] = w.Message(i, 0)
	}
	return &linears{cache: cache.NewLinearCache(w.Kind().TypeURL(), cache.WithInitialResources(set)), world: w}
}

// Change implements world.Plane.
func (l *linears) Change(indices []int, stamp world.Stamp) error {
	changed := make(map[string]types.Resource, len(indices))
	for _, i := range indices {
		changed[world.Name(i)] = l.world.Message(i, stamp)
	}
	return l.cache.UpdateResources(changed, nil)
}

// mux returns the cache in the form that the server takes.
func (l *linears) mux() cache.Cache {
	return &cache.MuxCache{
		Classify:      func(r *cache.Request) string { return r.GetTypeUrl() },
		ClassifyDelta: func(r *cache.DeltaRequest) string { return r.GetTypeUrl() },
		Caches:        map[string]cache.Cache{l.world.Kind().TypeURL(): l.cache},
	}
}
