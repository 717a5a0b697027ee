package real

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/status"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	clusterservice "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	listenerservice "github.com/envoyproxy/go-control-plane/envoy/service/listener/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	routeservice "github.com/envoyproxy/go-control-plane/envoy/service/route/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/relay/relaytest"
)

// world is everything a control plane has, by type URL and name.
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

// open is the message inside an Any that this package made.
func open(body *anypb.Any) types.Resource {
	m, err := body.UnmarshalNew()
	if err != nil {
		panic("a resource of our own does not decode: " + err.Error())
	}
	return m
}

// origin is a control plane in one way of using it, and how weir is to speak to it.
type origin struct {
	name    string
	dialect relaytest.Dialect
	caches  func(*plane) (cache.Cache, func(world) error)
	// in place of caches: a program of its own (javaplane_test.go)
	program func(testing.TB) []string
	// settings of origins[] that it needs; nil: the defaults will do
	weir map[string]any
}

// The origins made of go-control-plane. Its snapshot cache has one version for everything and tells
// types in any order; in ADS mode it answers a SotW list only if that has every resource. Its
// linear cache has a version for each resource.
var (
	snapshotDelta = origin{name: "snapshot-delta", dialect: relaytest.Delta, caches: snapshots(false)}
	snapshotSotW  = origin{name: "snapshot-sotw", dialect: relaytest.SotW, caches: snapshots(false)}
	snapshotADS   = origin{name: "snapshot-ads-sotw", dialect: relaytest.SotW, caches: snapshots(true)}
	linearDelta   = origin{name: "linear-delta", dialect: relaytest.Delta, caches: linears}
	linearSotW    = origin{name: "linear-sotw", dialect: relaytest.SotW, caches: linears}
)

// plane is a control plane, of go-control-plane unless it is a program of its own, on an address
// that stays. Every Start is a new process as far as others can tell: new caches, version counters
// at 1 again.
type plane struct {
	tb     testing.TB
	origin origin
	addr   string

	// Of the present run; nil while stopped.
	server *grpc.Server
	cancel context.CancelFunc
	set    func(world) error
	served chan error
	asked  atomic.Int64 // requests

	program *planeRun // of a program of its own; nil while stopped

	mu      sync.Mutex // guards what follows
	said    []string   // warnings and errors of the caches
	refused []string   // what clients say of what they refuse

	loads *loadSink // what is reported to it
}

// planes numbers the control planes of this process.
var planes atomic.Uint32

// ownAddress is an address of this machine that nothing else has: on 127.0.0.1 any connection may be
// given the port of a control plane that is down, which then cannot come back.
func ownAddress() string {
	n := planes.Add(1)
	return net.IPv4(127, byte(1+os.Getpid()%250), byte(n>>8), byte(n)).String()
}

// newPlane starts a control plane that has w. tb stops it.
func newPlane(tb testing.TB, o origin, w world) *plane {
	tb.Helper()
	p := &plane{tb: tb, origin: o, addr: ownAddress() + ":0", loads: &loadSink{done: map[string]int64{}}}
	p.Start(w)
	tb.Cleanup(p.Stop)
	tb.Cleanup(p.tell)
	return p
}

// Addr is where the control plane is.
func (p *plane) Addr() string { return p.addr }

// Start runs the plane with new caches that hold w.
func (p *plane) Start(w world) {
	p.tb.Helper()
	if p.origin.program != nil {
		p.startProgram(w)
		return
	}
	var c cache.Cache
	c, p.set = p.origin.caches(p)
	p.Publish(w)
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		p.tb.Fatal(err)
	}
	p.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.server, p.served = cancel, grpc.NewServer(grpc.WaitForHandlers(true)), make(chan error, 1)
	p.asked.Store(0)
	s := server.NewServer(ctx, c, server.CallbackFuncs{
		StreamRequestFunc: func(_ int64, r *discovery.DiscoveryRequest) error { return p.hears(r.GetErrorDetail()) },
		StreamDeltaRequestFunc: func(_ int64, r *discovery.DeltaDiscoveryRequest) error {
			return p.hears(r.GetErrorDetail())
		},
	})
	discovery.RegisterAggregatedDiscoveryServiceServer(p.server, s)
	clusterservice.RegisterClusterDiscoveryServiceServer(p.server, s)
	endpointservice.RegisterEndpointDiscoveryServiceServer(p.server, s)
	listenerservice.RegisterListenerDiscoveryServiceServer(p.server, s)
	routeservice.RegisterRouteDiscoveryServiceServer(p.server, s)
	loadstats.RegisterLoadReportingServiceServer(p.server, p.loads)
	go func(s *grpc.Server, served chan<- error) { served <- s.Serve(l) }(p.server, p.served)
}

// hears counts a request, and notes the refusal in it.
func (p *plane) hears(refusal *status.Status) error {
	p.asked.Add(1)
	if refusal != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.refused = append(p.refused, refusal.GetMessage())
	}
	return nil
}

// Refused is what clients have said of what they refuse.
func (p *plane) Refused() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.refused)
}

// Publish makes w all the plane has, in one change.
func (p *plane) Publish(w world) {
	p.tb.Helper()
	if err := p.set(w); err != nil {
		p.tb.Errorf("the plane's %s cache: %v", p.origin.name, err)
	}
}

// Stop ends the run as a kill would: listener, connections and streams are gone when it returns.
func (p *plane) Stop() {
	if p.program != nil {
		p.program.Stop()
		p.program = nil
	}
	if p.server == nil {
		return
	}
	p.cancel()
	p.server.Stop()
	if err := <-p.served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		p.tb.Errorf("the plane stopped accepting: %v", err)
	}
	p.server = nil
}

// everybody gives one snapshot to all nodes.
type everybody struct{}

func (everybody) ID(*core.Node) string { return "all" }

// snapshots is a snapshot cache, and a func that replaces its one snapshot. Versions count from 1.
func snapshots(ads bool) func(*plane) (cache.Cache, func(world) error) {
	return func(p *plane) (cache.Cache, func(world) error) {
		c := cache.NewSnapshotCache(ads, everybody{}, p)
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
			return c.SetSnapshot(context.Background(), everybody{}.ID(nil), s)
		}
	}
}

// linearTypes is the order in which the linear caches are changed: before anything is named it is
// there, and nothing goes before what names it.
var linearTypes = []string{relaytest.ClusterType, relaytest.EndpointType, relaytest.ListenerType, relaytest.RouteType}

// linears is a linear cache for each type, and a func that makes them hold a world by the fewest
// changes: first what is new, then what goes.
func linears(p *plane) (cache.Cache, func(world) error) {
	caches := map[string]*cache.LinearCache{}
	mux := &cache.MuxCache{
		Classify:      func(r *cache.Request) string { return r.GetTypeUrl() },
		ClassifyDelta: func(r *cache.DeltaRequest) string { return r.GetTypeUrl() },
		Caches:        map[string]cache.Cache{},
	}
	for _, typeURL := range linearTypes {
		caches[typeURL] = cache.NewLinearCache(typeURL, cache.WithLogger(p))
		mux.Caches[typeURL] = caches[typeURL]
	}
	before := world{}
	return mux, func(w world) error {
		var errs []error
		for _, typeURL := range linearTypes {
			if update := news(before[typeURL], w[typeURL]); len(update) > 0 {
				errs = append(errs, caches[typeURL].UpdateResources(update, nil))
			}
		}
		for _, typeURL := range slices.Backward(linearTypes) {
			if gone := leaving(before[typeURL], w[typeURL]); len(gone) > 0 {
				errs = append(errs, caches[typeURL].UpdateResources(nil, gone))
			}
		}
		before = w
		return errors.Join(errs...)
	}
}

// news is what a set has that another had not, or not so.
func news(from, to map[string]*anypb.Any) map[string]types.Resource {
	update := map[string]types.Resource{}
	for name, body := range to {
		if string(from[name].GetValue()) != string(body.Value) || from[name] == nil {
			update[name] = open(body)
		}
	}
	return update
}

// leaving are the names that a set had and another has not.
func leaving(from, to map[string]*anypb.Any) []string {
	var gone []string
	for name := range from {
		if to[name] == nil {
			gone = append(gone, name)
		}
	}
	return gone
}

// tell shows the caches' complaints after a failure.
func (p *plane) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tb.Failed() {
		p.tb.Logf("complaints of the %s plane: %q", p.origin.name, p.said)
	}
}

// The caches log through the plane.

// Debugf drops a message.
func (p *plane) Debugf(string, ...any) {}

// Infof drops a message.
func (p *plane) Infof(string, ...any) {}

// Warnf keeps a message for the report of a failed test.
func (p *plane) Warnf(format string, args ...any) { p.complain(format, args...) }

// Errorf keeps a message for the report of a failed test.
func (p *plane) Errorf(format string, args ...any) { p.complain(format, args...) }

func (p *plane) complain(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.said) < 100 {
		p.said = append(p.said, fmt.Sprintf(format, args...))
	}
}
