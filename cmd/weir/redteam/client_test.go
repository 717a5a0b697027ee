package redteam

import (
	"context"
	"fmt"
	"maps"
	"net"
	"sync"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// good is a client as it should be: it asks for all clusters and acknowledges at once. It keeps no
// more than what it holds and when each body came first.
type good struct {
	id     string
	cancel context.CancelFunc
	done   chan struct{} // closed when the stream has ended
	err    error         // what with; set before done is closed

	mu   sync.Mutex           // guards what follows
	held map[string]string    // bodies by name
	came map[string]time.Time // by body, which are all different
}

// open is a client with a connection of its own from a local address.
func open(t *testing.T, to, from, id string, dialect relaytest.Dialect) *good {
	t.Helper()
	conn := weirtest.Connect(t, to, grpc.WithContextDialer(dialFrom(from)))
	ctx, cancel := context.WithCancel(context.Background())
	g := &good{
		id: id, cancel: cancel, done: make(chan struct{}),
		held: map[string]string{}, came: map[string]time.Time{},
	}
	node := &core.Node{Id: id, Cluster: "good"}
	run := g.delta
	if dialect == relaytest.SotW {
		run = g.sotw
	}
	go func() {
		defer close(g.done)
		g.err = run(ctx, discovery.NewAggregatedDiscoveryServiceClient(conn), node)
	}()
	t.Cleanup(g.close)
	return g
}

func dialFrom(ip string) func(context.Context, string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	return func(ctx context.Context, to string) (net.Conn, error) { return d.DialContext(ctx, "tcp", to) }
}

func (g *good) close() {
	g.cancel()
	<-g.done
}

func (g *good) delta(ctx context.Context, api discovery.AggregatedDiscoveryServiceClient, node *core.Node) error {
	s, err := api.DeltaAggregatedResources(ctx, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	req := &discovery.DeltaDiscoveryRequest{Node: node, TypeUrl: relaytest.ClusterType}
	for {
		if err := s.Send(req); err != nil {
			_, err = s.Recv()
			return err
		}
		resp, err := s.Recv()
		if err != nil {
			return err
		}
		now := time.Now()
		g.mu.Lock()
		for _, r := range resp.GetResources() {
			g.note(r.GetName(), r.GetResource(), now)
		}
		for _, name := range resp.GetRemovedResources() {
			delete(g.held, name)
		}
		g.mu.Unlock()
		req = &discovery.DeltaDiscoveryRequest{TypeUrl: relaytest.ClusterType, ResponseNonce: resp.GetNonce()}
	}
}

func (g *good) sotw(ctx context.Context, api discovery.AggregatedDiscoveryServiceClient, node *core.Node) error {
	s, err := api.StreamAggregatedResources(ctx, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	req := &discovery.DiscoveryRequest{Node: node, TypeUrl: relaytest.ClusterType}
	for {
		if err := s.Send(req); err != nil {
			_, err = s.Recv()
			return err
		}
		resp, err := s.Recv()
		if err != nil {
			return err
		}
		now := time.Now()
		g.mu.Lock()
		clear(g.held)
		for _, r := range resp.GetResources() {
			g.note(nameOf(r), r, now)
		}
		g.mu.Unlock()
		req = &discovery.DiscoveryRequest{
			TypeUrl: relaytest.ClusterType, VersionInfo: resp.GetVersionInfo(), ResponseNonce: resp.GetNonce(),
		}
	}
}

func (g *good) note(name string, body *anypb.Any, now time.Time) {
	g.held[name] = string(body.GetValue())
	if _, known := g.came[string(body.GetValue())]; !known {
		g.came[string(body.GetValue())] = now
	}
}

// inherit has a client know when bodies came to one that has ended.
func (g *good) inherit(from *good) {
	from.close()
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.Copy(g.came, from.came)
}

// nameOf reads a cluster's name, which is its first field.
func nameOf(body *anypb.Any) string {
	b := body.GetValue()
	if len(b) < 2 || b[0] != 1<<3|2 || len(b) < 2+int(b[1]) {
		return fmt.Sprintf("no name: %x", b)
	}
	return string(b[2 : 2+int(b[1])])
}

// holds reports whether the client has exactly these bodies.
func (g *good) holds(world map[string]string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.held) != len(world) {
		return false
	}
	for name, body := range world {
		if g.held[name] != body {
			return false
		}
	}
	return true
}

// count is how many clusters the client holds.
func (g *good) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.held)
}

// hasEnded reports whether the stream has; err is set then.
func (g *good) hasEnded() bool {
	select {
	case <-g.done:
		return true
	default:
		return false
	}
}
