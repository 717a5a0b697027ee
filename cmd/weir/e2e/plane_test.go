package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/relay/relaytest"
)

// nodeID is what weir presents as upstream: go-control-plane keeps its snapshots by it.
const nodeID = "e2e"

// worldTypes are the types the planes serve, parents before children.
var worldTypes = []string{relaytest.ClusterType, relaytest.EndpointType, relaytest.ListenerType, relaytest.RouteType}

// world is everything an origin has, by type URL and name.
type world map[string]map[string]*anypb.Any

// put adds or replaces resources; the name is read from each.
func (w world) put(bodies ...*anypb.Any) world {
	for _, body := range bodies {
		if w[body.TypeUrl] == nil {
			w[body.TypeUrl] = map[string]*anypb.Any{}
		}
		w[body.TypeUrl][cache.GetResourceName(open(body))] = body
	}
	return w
}

func (w world) clone() world {
	c := world{}
	for typeURL, set := range w {
		c[typeURL] = maps.Clone(set)
	}
	return c
}

// open is the message inside an Any that this package made.
func open(body *anypb.Any) types.Resource {
	m, err := body.UnmarshalNew()
	if err != nil {
		panic("a resource of our own does not decode: " + err.Error())
	}
	return m
}

// cacheKind is one of go-control-plane's two caches.
type cacheKind string

const (
	snapshot cacheKind = "snapshot" // one set per node id, which never states absence
	linear   cacheKind = "linear"   // one cache per type, for everybody
)

// plane is a control plane made of go-control-plane: its caches and its server on a port that stays
// the same. Every Start is a new process as far as clients can tell: new caches, version counters
// at 1 again.
type plane struct {
	tb   testing.TB
	kind cacheKind
	net  *relaytest.Net

	// Of the present run; nil while stopped.
	server *grpc.Server
	cancel context.CancelFunc
	set    func(world) error
	served chan struct{}

	mu     sync.Mutex // guards all below
	tally  tally
	wanted map[listKey]map[string]bool // by the streams open now
	said   []string                    // warnings and errors of the caches
}

// newPlane starts a control plane that has w. tb stops it.
func newPlane(tb testing.TB, kind cacheKind, w world) *plane {
	tb.Helper()
	p := &plane{tb: tb, kind: kind, net: relaytest.TCP(), tally: newTally(), wanted: map[listKey]map[string]bool{}}
	p.Start(w)
	tb.Cleanup(p.tell)
	tb.Cleanup(p.Stop)
	return p
}

// Start runs the plane with new caches that hold w.
func (p *plane) Start(w world) {
	p.tb.Helper()
	var c cache.Cache
	if p.kind == snapshot {
		c, p.set = p.snapshots()
	} else {
		c, p.set = p.linears()
	}
	p.Publish(w)
	l, err := p.net.Listen()
	if err != nil {
		p.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.server = grpc.NewServer(grpc.WaitForHandlers(true))
	discovery.RegisterAggregatedDiscoveryServiceServer(p.server, server.NewServer(ctx, c, p.callbacks()))
	p.served = make(chan struct{})
	go p.serve(p.server, l, p.served)
}

// Publish makes w all the plane has.
func (p *plane) Publish(w world) {
	p.tb.Helper()
	if err := p.set(w); err != nil {
		p.tb.Fatalf("the plane's %s cache: %v", p.kind, err)
	}
}

// Stop ends the run as a kill would: listener, connections and streams are gone when it returns.
func (p *plane) Stop() {
	if p.server == nil {
		return
	}
	p.cancel()
	p.server.Stop()
	<-p.served
	p.server = nil
}

// snapshots is a snapshot cache, and a func that replaces its one snapshot. Versions count from 1.
func (p *plane) snapshots() (cache.Cache, func(world) error) {
	c := cache.NewSnapshotCache(false, cache.IDHash{}, p)
	version := 0
	return c, func(w world) error {
		version++
		all := map[string][]types.Resource{}
		for typeURL, set := range w {
			for _, name := range slices.Sorted(maps.Keys(set)) {
				all[typeURL] = append(all[typeURL], open(set[name]))
			}
		}
		s, err := cache.NewSnapshot(fmt.Sprint(version), all)
		if err != nil {
			return err
		}
		return c.SetSnapshot(context.Background(), nodeID, s)
	}
}

// linears is a linear cache for each type, and a func that makes them hold a world by the fewest
// changes, parents first.
func (p *plane) linears() (cache.Cache, func(world) error) {
	caches := map[string]*cache.LinearCache{}
	mux := &cache.MuxCache{
		Classify:      func(r *cache.Request) string { return r.GetTypeUrl() },
		ClassifyDelta: func(r *cache.DeltaRequest) string { return r.GetTypeUrl() },
		Caches:        map[string]cache.Cache{},
	}
	for _, typeURL := range worldTypes {
		caches[typeURL] = cache.NewLinearCache(typeURL, cache.WithLogger(p))
		mux.Caches[typeURL] = caches[typeURL]
	}
	before := world{}
	return mux, func(w world) error {
		var errs []error
		for _, typeURL := range worldTypes {
			update, gone := difference(before[typeURL], w[typeURL])
			if len(update)+len(gone) > 0 {
				errs = append(errs, caches[typeURL].UpdateResources(update, gone))
			}
		}
		before = w.clone()
		return errors.Join(errs...)
	}
}

// difference is what turns one set into another. Bodies are shared and never modified, so comparing
// pointers will do.
func difference(from, to map[string]*anypb.Any) (update map[string]types.Resource, gone []string) {
	update = map[string]types.Resource{}
	for name, body := range to {
		if from[name] != body {
			update[name] = open(body)
		}
	}
	for name := range from {
		if to[name] == nil {
			gone = append(gone, name)
		}
	}
	return update, gone
}
