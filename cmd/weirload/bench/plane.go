package main

import (
	"context"
	"io"
	"math"
	"strconv"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	sotwserver "github.com/envoyproxy/go-control-plane/pkg/server/sotw/v3"
	xdsserver "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/weir-xds/weir/cmd/weirload/mtls"
	"github.com/weir-xds/weir/cmd/weirload/world"
)

func newPlaneCommand(kind, short string) *cobra.Command {
	var o world.Options
	var files mtls.Files
	c := &cobra.Command{
		Use: kind, Short: "Serve " + short, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return servePlane(c.Context(), kind, o, files, c.OutOrStdout())
		},
	}
	o.AddFlags(c.Flags())
	files.AddFlags(c.Flags())
	return c
}

// servePlane serves one of the caches until ctx ends. It has no keepalive, interceptors or stats
// handler.
func servePlane(ctx context.Context, kind string, o world.Options, files mtls.Files, out io.Writer) error {
	security, err := files.Server()
	if err != nil {
		return err
	}
	w, err := world.New(o)
	if err != nil {
		return err
	}
	if kind == linear {
		l := newLinears(w)
		return world.Serve(ctx, w, l, controlPlane(ctx, l.mux(), &l.Counter, security), o.Listen, out)
	}
	s, err := newSnapshots(ctx, w)
	if err != nil {
		return err
	}
	return world.Serve(ctx, w, s, controlPlane(ctx, s.cache, &s.Counter, security), o.Listen, out)
}

// controlPlane serves a cache of go-control-plane as its documentation recommends: with ADS in
// order. It counts streams and requests.
func controlPlane(ctx context.Context, c cache.Cache, counter *world.Counter, security credentials.TransportCredentials) *grpc.Server {
	opened := func(context.Context, int64, string) error { counter.Streams.Add(1); return nil }
	counted := xdsserver.CallbackFuncs{
		StreamOpenFunc: opened, DeltaStreamOpenFunc: opened,
		StreamRequestFunc:      func(int64, *discoveryv3.DiscoveryRequest) error { counter.Requests.Add(1); return nil },
		StreamDeltaRequestFunc: func(int64, *discoveryv3.DeltaDiscoveryRequest) error { counter.Requests.Add(1); return nil },
	}
	s := grpc.NewServer(grpc.Creds(security), grpc.MaxConcurrentStreams(math.MaxUint32))
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, xdsserver.NewServer(ctx, c, counted, sotwserver.WithOrderedADS()))
	return s
}

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
