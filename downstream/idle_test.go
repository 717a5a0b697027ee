package downstream

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// TestIdleBytes: what a delta client of `*` that has all of it and has acknowledged it keeps on our
// side of grpc: one goroutine, and on the heap about 4,000 bytes: the session, the stream, and for
// its type the stream-type, the cursor with its source, and the plan; 250 are the request that is
// read into next; the rest is what the client is called, the nonces, and the small arrays of each. A
// connection has some 100 more of ours (connection, countedConn), and grpc's own, which are 12 KiB
// on the heap and 18 of stacks.
func TestIdleBytes(t *testing.T) {
	const most = 4100
	each := idleHeap(t, nil, func(ctx context.Context, _ int) context.Context { return ctx })
	t.Logf("%d bytes", each)
	if each > most {
		t.Errorf("an idle client keeps %d bytes, want at most %d", each, most)
	}
}

// TestIdleBytesWithRules: with 100 rules, of which two fit, a client that has an identity of its own
// keeps some 700 bytes more: which rules these are, and what its node says. What it may have is
// shared with all who may have the same.
func TestIdleBytesWithRules(t *testing.T) {
	const most = 800
	local := func(ctx context.Context, i int) context.Context {
		c := &connection{id: uint64(i) + 1, info: credentials.TLSInfo{}, user: uint32(i), hasUser: true}
		return peer.NewContext(ctx, &peer.Peer{Addr: &net.UnixAddr{}, LocalAddr: &net.UnixAddr{}, AuthInfo: c})
	}
	rules := []authz.Rule{
		{Who: []string{"uid:{u}"}, Names: []string{"a", "user-*"}, Claims: map[string][]string{"node.id": {"envoy-{u}"}}}, {Who: []string{"uid:*"}, Types: []string{cds}, Names: []string{"b"}},
	}
	for i := range 98 {
		rules = append(rules, authz.Rule{Who: []string{fmt.Sprintf("spiffe://corp/ns/{ns}/sa/role-%d", i)}, Names: []string{"{ns}/*"}})
	}
	without, with := idleHeap(t, nil, local), idleHeap(t, compiled(t, rules...), local)
	t.Logf("%d bytes without rules, %d with", without, with)
	if with > without+most {
		t.Errorf("an idle client keeps %d bytes with rules and %d without, want at most %d more", with, without, most)
	}
}

// idleHeap is how much an idle client keeps.
func idleHeap(t *testing.T, rules *authz.Rules, of func(ctx context.Context, i int) context.Context) int64 {
	const clients = 2000
	r := newRig(t)
	r.cfg.Rules = rules
	s, ln := newServing(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wires := make([]*idleWire, clients+1)
	for i := range wires {
		w := &idleWire{id: i, say: make(chan string, 1), synced: make(chan struct{})}
		w.ctx = grpc.NewContextWithServerTransportStream(of(ctx, i), idleTransport{})
		if p, ok := peer.FromContext(w.ctx); ok && connectionOf(p) != nil {
			connectionOf(p).server = s
		}
		wires[i] = w
		wires[i].say <- ""
	}
	var serving sync.WaitGroup
	serve := func(wires []*idleWire) {
		for _, w := range wires {
			serving.Go(func() { _ = s.serve(ln, w, &xds.ADS, true, false) })
		}
	}
	warmGoroutines(2 * clients) // writers, too
	serve(wires[:1])
	await(t, "the first asks", func() bool { return len(s.Clients()) == 1 && len(s.Clients()[0].Types) == 1 })
	r.now = time.Now()
	r.says(cds, "a=1", "b=1")
	r.wait(time.Minute)
	<-wires[0].synced
	before, goroutines := liveHeap(), runtime.NumGoroutine()
	serve(wires[1:])
	for _, w := range wires[1:] {
		<-w.synced
	}
	await(t, "the only goroutine of a stream is its reader's", func() bool { return runtime.NumGoroutine() <= goroutines+clients })
	each := (liveHeap() - before) / clients
	cancel()
	serving.Wait()
	return each
}

// newServing is a server with a listener that listens nowhere.
func newServing(tb testing.TB, r *rig) (*Server, *listener) {
	tb.Helper()
	s, err := New(Config{Table: r.table, Instance: "here", Rules: r.cfg.Rules})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Stop)
	lc := ListenerConfig{Origin: r.origin}
	ln := s.newListener(nil, lc)
	if err := lc.normalize(r.table); err != nil {
		tb.Fatal(err)
	}
	ln.settings.Store(newSettings(s.cfg, lc))
	return s, ln
}

// warmGoroutines has the runtime keep what it needs for n goroutines.
func warmGoroutines(n int) {
	var all sync.WaitGroup
	stay := make(chan struct{})
	for range n {
		all.Go(func() { <-stay })
	}
	close(stay)
	all.Wait()
}

func liveHeap() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// idleWire is the wire of a client that asks for every cluster, acknowledges the answer, and says
// no more.
type idleWire struct {
	grpc.ServerStream

	ctx    context.Context //nolint:containedctx // it is what grpc's own stream holds
	id     int
	say    chan string // nonces to answer; "": the first request
	synced chan struct{}
}

func (w *idleWire) Context() context.Context { return w.ctx }

func (w *idleWire) RecvMsg(m any) error {
	select {
	case <-w.ctx.Done():
		return w.ctx.Err()
	case nonce := <-w.say:
		request := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, ResponseNonce: nonce}
		if nonce == "" {
			request.Node = &corev3.Node{Id: fmt.Sprint("envoy-", w.id), Cluster: "edge", UserAgentName: "envoy"}
		}
		b, err := proto.Marshal(request)
		if err != nil {
			return err
		}
		if err := (codec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, m); err != nil {
			return err
		}
		if nonce != "" {
			close(w.synced)
		}
		return nil
	}
}

func (w *idleWire) SendMsg(m any) error {
	out, err := codec{}.Marshal(m)
	if err != nil {
		return err
	}
	defer out.Free()
	var response discoveryv3.DeltaDiscoveryResponse
	if err := proto.Unmarshal(out.Materialize(), &response); err != nil {
		return err
	}
	w.say <- response.Nonce
	return nil
}

// idleTransport is the transport of an idleWire, which nobody ends.
type idleTransport struct{ grpc.ServerTransportStream }

func (idleTransport) WriteStatus(*status.Status) error { return nil }
