package downstream

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// TestBadClientsHoldNothing: a client that reads nothing, one that answers nothing and one that
// reads a response now and then cost what they cost at first and no more: over 10,000 changes, some
// of them removals, the live heap of the process stays as it is. The removals are fewer than those
// for which a stream that lags is ended.
func TestBadClientsHoldNothing(t *testing.T) {
	const good, names, changes = 4, 200, 10_000
	const warm = 40_000 // until the history is full
	l := newLive(t, relaytest.TCP(), func(c *Config, _ *ListenerConfig) {
		// as many responses as are remembered are unanswered before the first look
		c.Timing.OrderHold = 10 * time.Millisecond
	})
	for i := range good {
		watch(t, l, fmt.Sprint("good-", i), i%2 == 0, nil)
	}
	slow := make(chan struct{}, 1)
	for _, sotw := range []bool{false, true} {
		watch(t, l, "deaf", sotw, make(chan struct{}))
		watch(t, l, "slow", sotw, slow)
	}
	mute(t, l)
	l.asked(t, good+5)
	var all []string
	for i := range names {
		all = append(all, word(i, 0))
	}
	l.say(cds, all...)
	l.settle()
	change := func(n int) {
		for i := range n {
			name := i % names
			if l.say(cds, word(name, i)); i%50 == 0 {
				l.say(cds, fmt.Sprint("-n", name))
			}
			if i%100 == 99 { // the good ones keep pace
				select {
				case slow <- struct{}{}:
				default:
				}
				await(t, "the good clients have it all", l.synced)
			}
		}
	}
	change(warm)
	before := restingHeap()
	change(changes)
	after := restingHeap()
	t.Logf("live heap %d KiB, and after %d changes %d KiB", before>>10, changes, after>>10)
	if after > before+before/10 {
		t.Errorf("the live heap grew from %d to %d bytes over %d changes", before, after, changes)
	}
}

// restingHeap is the least live heap in half a second: buffers of grpc's are in use while something
// is on its way.
func restingHeap() int64 {
	least := liveHeap()
	for range 10 {
		time.Sleep(50 * time.Millisecond)
		least = min(least, liveHeap())
	}
	return least
}

// word is a resource of about a hundred bytes.
func word(name, body int) string { return fmt.Sprintf("n%d=%0100d", name, body) }

// synced reports whether the good clients have accepted all there is.
func (l *live) synced() bool {
	for _, c := range l.server.Clients() {
		for _, typ := range c.Types {
			if strings.HasPrefix(c.NodeID, "good-") && !typ.UnsyncedSince.IsZero() {
				return false
			}
		}
	}
	return true
}

// watch opens a client of all clusters that keeps nothing of what it is sent, until the test ends.
// It reads one response for each value of pace; nil: all.
func watch(t *testing.T, l *live, id string, sotw bool, pace <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	open := deltaTurn
	if sotw {
		open = sotwTurn
	}
	turn := open(ctx, t, l, id)
	var reading sync.WaitGroup
	t.Cleanup(func() { cancel(); reading.Wait() })
	reading.Go(func() {
		for {
			if pace != nil {
				select {
				case <-ctx.Done():
					return
				case <-pace:
				}
			}
			if turn() != nil {
				return
			}
		}
	})
}

// deltaTurn subscribes; each call of what it gives reads a response and acknowledges it.
func deltaTurn(ctx context.Context, t *testing.T, l *live, id string) func() error {
	t.Helper()
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(l.net.Connect(t)).DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, Node: &corev3.Node{Id: id}}); err != nil {
		t.Fatal(err)
	}
	return func() error {
		m, err := s.Recv()
		if err != nil {
			return err
		}
		return s.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, ResponseNonce: m.Nonce})
	}
}

// sotwTurn is deltaTurn in the other dialect.
func sotwTurn(ctx context.Context, t *testing.T, l *live, id string) func() error {
	t.Helper()
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(l.net.Connect(t)).StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&discoveryv3.DiscoveryRequest{TypeUrl: cds, Node: &corev3.Node{Id: id}}); err != nil {
		t.Fatal(err)
	}
	return func() error {
		m, err := s.Recv()
		if err != nil {
			return err
		}
		return s.Send(&discoveryv3.DiscoveryRequest{TypeUrl: cds, ResponseNonce: m.Nonce, VersionInfo: m.VersionInfo})
	}
}

// mute is a client that reads all and answers nothing.
func mute(t *testing.T, l *live) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(l.net.Connect(t)).DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, Node: &corev3.Node{Id: "mute"}}); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	t.Cleanup(func() { cancel(); reading.Wait() })
	reading.Go(func() {
		for {
			if _, err := s.Recv(); err != nil {
				return
			}
		}
	})
}

// TestStuckClientsShareBodies: clients that are stuck in the middle of different revisions of one
// large list, of which a resource changed at a time, hold what differs and not a list each.
func TestStuckClientsShareBodies(t *testing.T) {
	const clients, resources = 50, 10_000
	r := newRig(t)
	var ends []*clientEnd
	for range clients {
		p := r.client(false)
		p.asks(cds)
		ends = append(ends, p)
	}
	var all []string
	for i := range resources {
		all = append(all, fmt.Sprintf("n%d=%0400d", i, 0))
	}
	r.settled(cds, all...)
	size := 0
	for _, p := range ends {
		for _, x := range p.session.take(p.now) {
			size = x.size
			p.nonces[cds] = p.nonceOf(x)
			p.session.wrote(p.now, []*response{x})
		}
		p.asks(cds)
	}
	before := liveHeap()
	held := make([][]any, 0, clients)
	for i, p := range ends {
		r.says(cds, fmt.Sprintf("n%d=%0400d", i*resources/clients, i+1))
		var bodies []any
		for _, x := range p.session.take(p.now) {
			data, err := codec{}.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			bodies = append(bodies, data)
		}
		held = append(held, bodies)
	}
	grown := liveHeap() - before
	t.Logf("%d clients at as many revisions of %d KiB hold %d KiB", clients, size>>10, grown>>10)
	if most := int64(clients * 256 << 10); grown > most {
		t.Errorf("%d stuck clients hold %d bytes, more than %d", clients, grown, most)
	}
	runtime.KeepAlive(held)
}
