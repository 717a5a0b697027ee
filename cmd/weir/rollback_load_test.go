package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	pb "google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/relay/relaytest"
)

// The promise of a rollback, on two cores: a group of 100,000 resources and 1,000 clients.
const (
	promiseFirst = time.Second      // until the first client has the earlier state
	promiseAll   = 10 * time.Second // until all have
	promiseSlack = 5                // what is asserted is so many times as long
)

// largeGroup is an origin with clusters, listeners and routes as 8 to 1 to 1, and the clients of one
// group, which have all of it.
type largeGroup struct {
	t       *testing.T
	origin  *relaytest.Origin
	count   map[string]int // of resources, by type
	clients []*counter
}

// TestRollbackOfALargeGroup measures how long the clients of one group take to be at an earlier
// state, for bad pushes of a hundredth of the resources, of a tenth, and of all.
// WEIR_ROLLBACK_RESOURCES and WEIR_ROLLBACK_CLIENTS say how many there are.
func TestRollbackOfALargeGroup(t *testing.T) {
	resources, clients := numberOf(t, "WEIR_ROLLBACK_RESOURCES", 2000), numberOf(t, "WEIR_ROLLBACK_CLIENTS", 20)
	g := &largeGroup{t: t, origin: relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience, Behaviour: relaytest.Behaviour{Chunk: 5000}})}
	g.count = map[string]int{relaytest.ClusterType: resources * 8 / 10, relaytest.ListenerType: resources / 10, relaytest.RouteType: resources / 10}
	g.push(1, 1)
	bytes := max(64<<20, resources*2048)
	w := spawn(t, os.Args[0], "run", "-c", write(t, freePorts+rollingConfig(g.origin, relaytest.Delta, fmt.Sprintf("history: { bytes: %d }", bytes))))
	listener, adminPort := w.addresses()
	began := time.Now()
	g.connect(listener, clients)
	g.await("the first state")
	t.Logf("%d resources, %d clients: all have the first state after %s; weir has %d MB", resources, clients, since(began), memoryOf(t, w)>>20)
	for i, every := range []int{100, 10, 1} {
		before := time.Now()
		time.Sleep(10 * time.Millisecond)
		pushed := g.changed(every)
		g.expect(pushed)
		g.push(i+2, every)
		g.await("the push")
		took := g.roll(adminPort, "rollback?to="+moment(before), pushed)
		t.Logf("1 of %d changed: back after %s; weir has %d MB, history %s", every, took, memoryOf(t, w)>>20, historyOf(t, adminPort, bytes))
		if took.first > promiseSlack*promiseFirst || took.last > promiseSlack*promiseAll {
			t.Errorf("that is more than %d times %s and %s", promiseSlack, promiseFirst, promiseAll)
		}
		t.Logf("1 of %d changed: forward again after %s", every, g.roll(adminPort, "rollforward?", pushed))
	}
}

func numberOf(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func since(at time.Time) time.Duration { return time.Since(at).Round(time.Millisecond) }

// changed is how many of each type are one of so many.
func (g *largeGroup) changed(every int) map[string]int {
	n := map[string]int{}
	for typeURL, count := range g.count {
		n[typeURL] = (count + every - 1) / every
	}
	return n
}

// push has one of so many resources of each type come with another content.
func (g *largeGroup) push(version, every int) {
	text := strconv.Itoa(version)
	g.origin.Batch(func() {
		for typeURL, n := range g.count {
			for i := 0; i < n; i += every {
				name := fmt.Sprintf("resource-%06d", i)
				switch typeURL {
				case relaytest.ClusterType:
					g.origin.Set(typeURL, name, text, relaytest.EDSCluster(name, strings.Repeat("x", 100)+text))
				case relaytest.ListenerType:
					g.origin.Set(typeURL, name, text, relaytest.Listener(name, 1000+version))
				default:
					g.origin.Set(typeURL, name, text, relaytest.Route(name, "resource-"+text))
				}
			}
		}
	})
}

// rolled is how long it took from an order until it was answered, and until clients had what it is
// about.
type rolled struct{ answered, first, half, last time.Duration }

func (r rolled) String() string {
	return fmt.Sprintf("%s (the first client), %s (half of them), %s (all), the order is answered after %s", r.first, r.half, r.last, r.answered)
}

// roll gives an order and waits until all clients have got so many resources of each type.
func (g *largeGroup) roll(adminPort, order string, expected map[string]int) (r rolled) {
	g.t.Helper()
	g.expect(expected)
	began := time.Now()
	code, body := fetch(g.t, http.MethodPost, "http://"+adminPort+"/origins/mesh/"+order)
	if code != http.StatusOK {
		g.t.Fatalf("%s: %d %s", order, code, body)
	}
	r.answered = since(began)
	g.await(order)
	var took []time.Duration
	for _, c := range g.clients {
		took = append(took, time.Duration(c.done.Load()-began.UnixNano()).Round(time.Millisecond))
	}
	slices.Sort(took)
	r.first, r.half, r.last = took[0], took[len(took)/2], took[len(took)-1]
	return r
}

// expect has all clients count anew, until they have so many resources of each type.
func (g *largeGroup) expect(n map[string]int) {
	for _, c := range g.clients {
		c.expect(n)
	}
}

// await waits until all clients have what they expect.
func (g *largeGroup) await(what string) {
	g.t.Helper()
	deadline := time.Now().Add(10 * time.Minute)
	for _, c := range g.clients {
		for c.done.Load() == 0 {
			if time.Now().After(deadline) {
				g.t.Fatalf("%s: a client still waits for %v", what, c.left)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// connect has clients ask for all of each type, twenty on a connection.
func (g *largeGroup) connect(listener string, n int) {
	ctx, cancel := context.WithCancel(g.t.Context())
	var streams errgroup.Group
	g.t.Cleanup(func() {
		cancel()
		if err := streams.Wait(); err != nil {
			g.t.Error(err)
		}
	})
	var conn *grpc.ClientConn
	for i := range n {
		if i%20 == 0 {
			conn = dial(g.t, listener)
		}
		c, conn := &counter{}, conn
		c.expect(g.count)
		g.clients = append(g.clients, c)
		streams.Go(func() error {
			err := c.run(ctx, conn, fmt.Sprint("counter-", i))
			if ctx.Err() != nil {
				return nil
			}
			g.t.Errorf("a client has ended: %v", err)
			return err
		})
	}
}

// deltaMethod is the service that counters ask.
const deltaMethod = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"

// counter is a client that counts what it gets, and keeps nothing.
type counter struct {
	done atomic.Int64 // when it had all that it expects, in Unix nanoseconds; 0: it has not

	mu   sync.Mutex
	left map[string]int // by type: how many resources have not come
}

func (c *counter) expect(n map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = maps.Clone(n)
	c.done.Store(0)
}

func (c *counter) note(got *counted) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left[got.typeURL] -= got.resources
	for _, n := range c.left {
		if n > 0 {
			return
		}
	}
	c.done.CompareAndSwap(0, time.Now().UnixNano())
}

// run has the client ask for all of each type, and acknowledge what comes.
func (c *counter) run(ctx context.Context, conn *grpc.ClientConn, id string) error {
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, deltaMethod, grpc.ForceCodecV2(countingCodec{}))
	if err != nil {
		return err
	}
	send := func(r *discovery.DeltaDiscoveryRequest) error {
		b, err := pb.Marshal(r)
		if err != nil {
			return err
		}
		return s.SendMsg(b)
	}
	node := &core.Node{Id: id, Cluster: "edge"}
	for _, typeURL := range []string{relaytest.ClusterType, relaytest.ListenerType, relaytest.RouteType} {
		if err := send(&discovery.DeltaDiscoveryRequest{Node: node, TypeUrl: typeURL, ResourceNamesSubscribe: []string{"*"}}); err != nil {
			return err
		}
		node = nil
	}
	for {
		var got counted
		if err := s.RecvMsg(&got); err != nil {
			return err
		}
		if err := send(&discovery.DeltaDiscoveryRequest{TypeUrl: got.typeURL, ResponseNonce: got.nonce}); err != nil {
			return err
		}
		c.note(&got)
	}
}

// counted is what a counter reads of a delta response.
type counted struct {
	typeURL, nonce string
	resources      int
}

// countingCodec sends encoded requests, and walks over responses.
type countingCodec struct{}

func (countingCodec) Name() string { return proto.Name }

func (countingCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (countingCodec) Unmarshal(data mem.BufferSlice, v any) error {
	got := v.(*counted)
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	for b := buffer.ReadOnlyData(); len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 || kind != protowire.BytesType {
			return fmt.Errorf("a response that is not understood: field %d", number)
		}
		value, m := protowire.ConsumeBytes(b[n:])
		if m < 0 {
			return protowire.ParseError(m)
		}
		switch number {
		case 2:
			got.resources++
		case 4:
			got.typeURL = string(value)
		case 5:
			got.nonce = string(value)
		}
		b = b[n+m:]
	}
	return nil
}

// memoryOf is how much memory a process takes, in bytes.
func memoryOf(t *testing.T, c *child) (bytes int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	if _, rest, ok := strings.Cut(string(text), "VmRSS:"); ok {
		kb, _ := strconv.Atoi(strings.Fields(rest)[0])
		return kb << 10
	}
	return 0
}

// historyOf says how much history weir keeps, which has to be within its bound.
func historyOf(t *testing.T, adminPort string, bound int) string {
	t.Helper()
	var all struct{ Kept struct{ Versions, Bytes int } }
	if _, body := fetch(t, http.MethodGet, "http://"+adminPort+"/history?limit=1"); json.Unmarshal([]byte(body), &all) != nil {
		t.Fatal(body)
	}
	if all.Kept.Bytes > bound {
		t.Errorf("the history has %d bytes, and is bounded by %d", all.Kept.Bytes, bound)
	}
	return fmt.Sprintf("has %d changes, %d of %d MB", all.Kept.Versions, all.Kept.Bytes>>20, bound>>20)
}
