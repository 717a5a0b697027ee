package e2e

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestClusterSwap: again and again one change of the origin's adds a cluster and its endpoints,
// points the route to it and takes the cluster before it away. gRPC asks for clusters and endpoints
// by name, one round trip after the other, and goes on calling the old cluster until it has the new
// one. No call fails (ORD-10).
func TestClusterSwap(t *testing.T) {
	for _, kind := range []cacheKind{snapshot, linear} {
		for _, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			t.Run(string(kind)+"/"+string(dialect), func(t *testing.T) {
				b := [2]*backend{startBackend(t), startBackend(t)}
				c := cell{kind, dialect}
				plane, weir := c.relay(t, swapped(0, b[0]))
				l := startLoad(t, dialMesh(t, weir.Addr, "app"), dialMesh(t, weir.Addr, "app2"))
				for end, i := time.Now().Add(swapTime), 1; time.Now().Before(end); i++ {
					to := b[i%2]
					before := to.calls.Load()
					plane.Publish(swapped(i, to))
					if !weirtest.Until(patience, func() bool { return to.calls.Load() >= before+20 }) {
						t.Fatalf("no calls reach cluster %d (%d of %d calls failed)", i, l.failed.Load(), l.calls.Load())
					}
					l.rounds++
				}
				l.Stop()
			})
		}
	}
}

// swapTime is how long each combination swaps clusters.
const swapTime = 6 * time.Second

// swapped is the mesh with a cluster of its own for each round.
func swapped(round int, b *backend) world {
	name := fmt.Sprintf("%s-%d", meshCluster, round)
	return world{}.put(
		apiListener(service, meshRoute),
		relaytest.Route(meshRoute, name),
		relaytest.EDSCluster(name, ""),
		endpointsOf(name, b),
	)
}

// load is calls at a steady rate, whether or not those before have ended. None is patient.
type load struct {
	tb     testing.TB
	rounds int
	stop   chan struct{}
	done   chan struct{}
	calls  atomic.Int64
	early  atomic.Int64 // failed by grpc-go itself
	failed atomic.Int64 // all others
	first  atomic.Pointer[error]
}

// ownFailure is what grpc-go says of a call that its resolver gave to a new cluster before its
// balancer had a picker with it. That happens as often straight at a control plane that adds the
// cluster, waits, changes the route, waits, and then removes the old one.
const ownFailure = "unknown cluster selected for RPC"

func (l *load) count(err error) {
	if strings.Contains(err.Error(), ownFailure) {
		l.early.Add(1)
		return
	}
	l.failed.Add(1)
	l.first.CompareAndSwap(nil, &err)
}

// startLoad begins once each channel has made a call. tb ends it, and fails if a call did.
func startLoad(tb testing.TB, conns ...*grpc.ClientConn) *load {
	tb.Helper()
	for _, conn := range conns {
		if err := call(conn, true); err != nil {
			tb.Fatalf("the first call: %v", err)
		}
	}
	l := &load{tb: tb, stop: make(chan struct{}), done: make(chan struct{})}
	go l.run(conns)
	tb.Cleanup(l.Stop)
	return l
}

// callsPerSecond are what a load makes.
const callsPerSecond = 200

func (l *load) run(conns []*grpc.ClientConn) {
	defer close(l.done)
	var calls sync.WaitGroup
	defer calls.Wait()
	tick := time.NewTicker(time.Second / callsPerSecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		calls.Go(func() {
			l.calls.Add(1)
			if err := call(conns[i%len(conns)], false); err != nil {
				l.count(err)
			}
		})
	}
}

// Stop ends the load and judges it. Safe to call twice.
func (l *load) Stop() {
	l.tb.Helper()
	select {
	case <-l.stop:
		return
	default:
		close(l.stop)
	}
	<-l.done
	l.tb.Logf("%d calls in %d rounds, %d failed in grpc-go itself", l.calls.Load(), l.rounds, l.early.Load())
	if n := l.failed.Load(); n > 0 {
		l.tb.Errorf("%d of %d calls failed in %d rounds, the first: %v", n, l.calls.Load(), l.rounds, *l.first.Load())
	}
}
