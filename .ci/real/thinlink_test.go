package real

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	_ "google.golang.org/grpc/encoding/gzip" // the control plane answers compressed to who asks compressed
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

const (
	thinRate = 10_000_000 / 8 // bytes a second
	// The world has 2,000 assignments of 10 endpoints, and one of 5,000.
	thinAssignments = 2000
	thinEndpoints   = 10
	thinLarge       = 5000
	largeName       = "large"
)

// thinLink carries connections to a target. What the target sends is held to thinRate, over all
// connections.
type thinLink struct {
	target string
	sent   atomic.Int64 // bytes, by the target

	mu   sync.Mutex // guards what follows
	free time.Time  // when the link has carried what it was given
}

// newThinLink returns the address to connect to. The end of tb closes the link.
func newThinLink(tb testing.TB, target string) (*thinLink, string) {
	tb.Helper()
	t := &thinLink{target: target}
	l := loopback(tb)
	var done sync.WaitGroup
	var open sync.Map
	done.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				_ = near.Close()
				continue
			}
			open.Store(near, far)
			done.Go(func() { t.carry(far, near, false) })
			done.Go(func() { t.carry(near, far, true) })
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		open.Range(func(near, far any) bool {
			_, _ = near.(net.Conn).Close(), far.(net.Conn).Close()
			return true
		})
		done.Wait()
	})
	return t, l.Addr().String()
}

// carry copies until either side ends, and then ends both. thin: at the rate of the link.
func (t *thinLink) carry(to, from net.Conn, thin bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 8<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if thin {
				t.sent.Add(int64(n))
				t.wait(n)
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait returns when the link has carried n more bytes.
func (t *thinLink) wait(n int) {
	t.mu.Lock()
	if now := time.Now(); t.free.Before(now) {
		t.free = now
	}
	t.free = t.free.Add(time.Duration(n) * time.Second / thinRate)
	at := t.free
	t.mu.Unlock()
	time.Sleep(time.Until(at))
}

// TestThinLink fills a weir over a link of 10 Mbit/s, and sends it a change of an assignment of
// 5,000 endpoints: straight from a control plane and from another weir, plain and with gzip.
// Compressed must be less than half of the bytes. Times are logged, and not judged.
func TestThinLink(t *testing.T) {
	for _, behind := range []string{"control plane", "weir"} {
		t.Run(behind, func(t *testing.T) {
			p := newPlane(t, linearDelta, thinWorld(1))
			source := func(string) string { return p.Addr() }
			if behind == "weir" {
				source = func(compression string) string {
					region := weirConfig(p, "")
					region.Listener()["compression"] = compression
					w := weirtest.Start(t, region)
					fill(t, w.Addr).Close() // so that the link alone is measured
					return w.Addr
				}
			}
			plain := overThinLink(t, p, source(""), "")
			zipped := overThinLink(t, p, source("gzip"), "gzip")
			for i, what := range []string{"first fill", "change of 5,000 endpoints"} {
				a, b := plain[i], zipped[i]
				t.Logf("NOTE %s: %s: plain %d bytes in %v, gzip %d bytes in %v: %.2f of the bytes, %.2f of the time", t.Name(), what,
					a.bytes, a.took.Round(time.Millisecond), b.bytes, b.took.Round(time.Millisecond),
					float64(b.bytes)/float64(a.bytes), b.took.Seconds()/a.took.Seconds())
				if 2*b.bytes > a.bytes {
					t.Errorf("%s: gzip takes %d bytes, want less than half of %d", what, b.bytes, a.bytes)
				}
			}
		})
	}
}

// crossing is what one thing took on the link.
type crossing struct {
	bytes int64
	took  time.Duration
}

// overThinLink runs a weir that has its origin behind a thin link.
func overThinLink(t *testing.T, p *plane, source, compression string) (all [2]crossing) {
	t.Helper()
	p.Publish(thinWorld(1))
	link, addr := newThinLink(t, source)
	config := weirConfig(p, "")
	config.Origin()["grpc"] = map[string]any{"addresses": []any{addr}, "dialect": "delta", "compression": compression}
	edge := weirtest.Start(t, config)
	defer edge.Stop()
	began := time.Now()
	c := fill(t, edge.Addr)
	all[0] = crossing{link.sent.Load(), time.Since(began)}
	before := largeVersion(c)
	began = time.Now()
	p.Publish(thinWorld(2))
	c.Await(patience, func(s *relaytest.State) bool {
		e, _ := s.Entry(relaytest.EndpointType, largeName)
		return e.Version != before
	}, "the change arrives")
	all[1] = crossing{link.sent.Load() - all[0].bytes, time.Since(began)}
	c.Close()
	return all
}

func largeVersion(c *relaytest.Client) (version string) {
	c.Look(func(s *relaytest.State) {
		e, _ := s.Entry(relaytest.EndpointType, largeName)
		version = e.Version
	})
	return version
}

// fill is a client that has all assignments.
func fill(t *testing.T, server string) *relaytest.Client {
	t.Helper()
	names := []string{largeName}
	for i := range thinAssignments {
		names = append(names, fmt.Sprintf("cluster-%04d", i))
	}
	c := relaytest.NewClient(t, weirtest.Connect(t, server), relaytest.ClientConfig{})
	c.Open(relaytest.Node("client", "edge"))
	c.Subscribe(relaytest.EndpointType, names...)
	c.Await(patience, func(s *relaytest.State) bool { return s.Count(relaytest.EndpointType) == len(names) }, "a client has all assignments")
	return c
}

// thinWorld is assignments whose addresses look drawn. Generations differ in one weight of the
// large one.
func thinWorld(generation uint32) world {
	drawn := rand.New(rand.NewPCG(1, 2))
	w := world{}
	put := func(name string, endpoints int, weight uint32) {
		load := &endpoint.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpoint.LocalityLbEndpoints{{}}}
		for range endpoints {
			ip := drawn.Uint32()
			load.Endpoints[0].LbEndpoints = append(load.Endpoints[0].LbEndpoints, &endpoint.LbEndpoint{
				HostIdentifier: &endpoint.LbEndpoint_Endpoint{Endpoint: &endpoint.Endpoint{
					Address: address(fmt.Sprintf("10.%d.%d.%d:8080", byte(ip>>16), byte(ip>>8), byte(ip))),
				}},
				LoadBalancingWeight: wrapperspb.UInt32(weight),
			})
			weight = 1
		}
		w.put(relaytest.Body(load))
	}
	for i := range thinAssignments {
		put(fmt.Sprintf("cluster-%04d", i), thinEndpoints, 1)
	}
	put(largeName, thinLarge, generation)
	return w
}
