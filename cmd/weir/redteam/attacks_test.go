package redteam

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"sync/atomic"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"

	"github.com/weir-xds/weir/relay/relaytest"
)

// attacks by name. Each goes on until its context ends.
var attacks = map[string]func(context.Context, *attacker) error{
	"long headers":          longHeaders,
	"headers that stay":     headersThatStay,
	"idle connections":      idleConnections,
	"open and reset":        openAndReset,
	"reconnect loop":        reconnectLoop,
	"made-up groups":        madeUpGroups,
	"gzip bombs":            gzipBombs,
	"malformed messages":    malformed,
	"slow connections":      slowConnections,
	"frame floods":          frameFloods,
	"never reads":           neverReads,
	"many names":            manyNames,
	"refuses everything":    refusesEverything,
	"garbage":               garbage,
	"polls: long headers":   longHeaders,
	"polls: open and reset": openAndReset,
	"polls: frame floods":   frameFloods,
	"polls: one by one":     oneByOne,
	"polls: slow":           adminSlow,
	"admin: wrong tokens":   adminTokens,
	"admin: foreign hosts":  adminHosts,
	"admin: slow and large": adminSlow,
}

// longHeaders names a header of 4 KB once, and then 699,000 times by one byte.
func longHeaders(ctx context.Context, a *attacker) error {
	return a.raws(ctx, 4, func(c *raw) error {
		block := c.headers("x-long", strings.Repeat("a", 3500))
		again := c.headers("x-long", strings.Repeat("a", 3500)) // its last byte refers to the table
		block = append(block, bytes.Repeat(again[len(again)-1:], 699_000)...)
		a.add("streams", 1)
		_, err := c.call(block)
		if c.next > 40 { // a new table, now and then
			return io.EOF
		}
		return err
	})
}

// headersThatStay has as many streams as may be, with headers nearly as long as may be, and says no
// more.
func headersThatStay(ctx context.Context, a *attacker) error {
	return a.raws(ctx, 40, func(c *raw) error {
		for range 100 {
			c.patient()
			a.add("streams", 1)
			if _, err := c.call(c.headers("x-long", strings.Repeat("a", 14<<10))); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
		case <-c.gone:
		}
		return io.EOF
	})
}

// idleConnections are 10,000 that say hello and nothing else.
func idleConnections(ctx context.Context, a *attacker) error {
	var open atomic.Int64
	return a.each(ctx, 16, func(int) {
		if open.Load() >= 10_000 {
			pause(ctx, 10*time.Millisecond)
			return
		}
		c, err := dialRaw(ctx, a.target)
		if err != nil {
			a.add("connections refused", 1)
			return
		}
		a.add("connections", 1)
		open.Add(1)
		go func() {
			select {
			case <-ctx.Done():
			case <-c.gone:
				a.add("connections closed by weir", 1)
			}
			open.Add(-1)
			c.close()
		}()
	})
}

// openAndReset opens streams and resets them at once, on one connection.
func openAndReset(ctx context.Context, a *attacker) error {
	return a.raws(ctx, 1, func(c *raw) error {
		a.add("streams", 1)
		id, err := c.call(c.headers())
		if err != nil {
			return err
		}
		return c.framer.WriteRSTStream(id, http2.ErrCodeCancel)
	})
}

// aggregated is a client with a connection of its own.
func (a *attacker) aggregated() (discovery.AggregatedDiscoveryServiceClient, *grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+a.Addr, grpc.WithContextDialer(dialFrom(a.From)),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(math.MaxInt32)),
		grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
	if err != nil {
		return nil, nil, err
	}
	return discovery.NewAggregatedDiscoveryServiceClient(conn), conn, nil
}

// loops has goroutines do something with a client of their own again and again.
func (a *attacker) loops(ctx context.Context, n int, do func(i int, api discovery.AggregatedDiscoveryServiceClient) error) error {
	return a.each(ctx, n, func(i int) {
		api, conn, err := a.aggregated()
		if err != nil {
			a.add("clients that cannot be made", 1)
			return
		}
		defer func() { _ = conn.Close() }()
		for ctx.Err() == nil {
			if do(i, api) != nil && ctx.Err() == nil {
				a.add("streams refused or ended", 1)
				pause(ctx, time.Millisecond)
			}
		}
	})
}

// reconnectLoop is a broken client: it asks, has its answer, and goes.
func reconnectLoop(ctx context.Context, a *attacker) error {
	return a.loops(ctx, 8, func(i int, api discovery.AggregatedDiscoveryServiceClient) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		a.add("streams", 1)
		s, err := api.StreamAggregatedResources(ctx)
		if err != nil {
			return err
		}
		node := &core.Node{Id: fmt.Sprintf("loop-%d", i), Cluster: "good"}
		if err := s.Send(&discovery.DiscoveryRequest{Node: node, TypeUrl: relaytest.ClusterType}); err != nil {
			return err
		}
		_, err = s.Recv()
		return err
	})
}

// madeUpGroups names another node.cluster on each stream.
func madeUpGroups(ctx context.Context, a *attacker) error {
	var n atomic.Int64
	return a.loops(ctx, 40, func(_ int, api discovery.AggregatedDiscoveryServiceClient) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var streams []discovery.AggregatedDiscoveryService_StreamAggregatedResourcesClient
		for range 100 {
			a.add("groups", 1)
			s, err := api.StreamAggregatedResources(ctx)
			if err != nil {
				return err
			}
			node := &core.Node{Id: "made-up", Cluster: fmt.Sprintf("made-up-%d", n.Add(1))}
			if err := s.Send(&discovery.DiscoveryRequest{Node: node, TypeUrl: relaytest.ClusterType}); err != nil {
				return err
			}
			streams = append(streams, s)
		}
		for _, s := range streams {
			if _, err := s.Recv(); err != nil {
				return err
			}
		}
		return nil
	})
}

// gzipBombs are requests of half a megabyte that become half a gigabyte.
func gzipBombs(ctx context.Context, a *attacker) error {
	b, err := newBomb()
	if err != nil {
		return err
	}
	encoding.RegisterCompressor(b)
	return a.loops(ctx, 4, func(_ int, api discovery.AggregatedDiscoveryServiceClient) error {
		s, err := api.StreamAggregatedResources(ctx, grpc.UseCompressor(b.Name()))
		if err != nil {
			return err
		}
		a.add("bombs", 1)
		if err := s.Send(&discovery.DiscoveryRequest{TypeUrl: relaytest.ClusterType}); err != nil {
			return err
		}
		_, err = s.Recv()
		return err
	})
}

// bomb compresses whatever it is given to the same bytes.
type bomb struct{ bytes.Buffer }

func newBomb() (*bomb, error) {
	b := &bomb{}
	w, err := gzip.NewWriterLevel(b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(make([]byte, 8<<20)); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	member := bytes.Clone(b.Bytes())
	for range 63 { // members of one stream
		if _, err := b.Write(member); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (*bomb) Name() string { return "gzip" }

func (b *bomb) Compress(w io.Writer) (io.WriteCloser, error) { return fuse{w, b.Bytes()}, nil }

func (*bomb) Decompress(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }

// fuse writes the bomb when all was written.
type fuse struct {
	w io.Writer
	b []byte
}

func (fuse) Write(p []byte) (int, error) { return len(p), nil }

func (f fuse) Close() error {
	_, err := f.w.Write(f.b)
	return err
}

// malformed sends messages that are none, and lengths that are not true.
func malformed(ctx context.Context, a *attacker) error {
	return a.raws(ctx, 4, func(c *raw) error {
		id, err := c.call(c.headers())
		if err != nil {
			return err
		}
		a.add("messages", 1)
		b := noise(200)
		length := uint32(len(b))
		if id%8 == 1 {
			length = math.MaxUint32
		}
		return c.message(id, id%16 == 3, length, b)
	})
}

// slowConnections say hello a byte at a time, or never end their headers, or open a stream and
// wait.
func slowConnections(ctx context.Context, a *attacker) error {
	return a.each(ctx, 600, func(i int) {
		conn, err := dialFrom(a.From)(ctx, a.Addr)
		if err != nil {
			a.add("connections refused", 1)
			pause(ctx, 10*time.Millisecond)
			return
		}
		defer func() { _ = conn.Close() }()
		a.add("connections", 1)
		hello := []byte(http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00")
		if i%2 == 0 { // says hello, and begins a frame of headers
			hello = append(hello, "\x00\x40\x00\x01\x00\x00\x00\x00\x01"...)
			if _, err := conn.Write(hello); err != nil {
				return
			}
			hello = make([]byte, 16<<10)
		}
		for _, b := range hello {
			if _, err := conn.Write([]byte{b}); err != nil {
				return
			}
			pause(ctx, 100*time.Millisecond)
			if ctx.Err() != nil {
				return
			}
		}
	})
}

// frameFloods send what the server must answer, or what changes nothing, as fast as they can.
func frameFloods(ctx context.Context, a *attacker) error {
	var kind atomic.Int64
	return a.raws(ctx, 5, func(c *raw) error {
		if c.next == 1 {
			c.next += uint32(2 * (kind.Add(1) % 5))
		}
		a.add("frames", 1)
		switch c.next / 2 % 5 {
		case 0:
			return c.framer.WritePing(false, [8]byte{1})
		case 1:
			return c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 65_535})
		case 2:
			return c.framer.WriteWindowUpdate(0, 1)
		case 3:
			return c.framer.WritePriority(c.next, http2.PriorityParam{Weight: 1})
		default:
			return c.framer.WriteRawFrame(0xbe, 0, 0, noise(64))
		}
	})
}

// neverReads asks for everything, and reads nothing.
func neverReads(ctx context.Context, a *attacker) error {
	return a.loops(ctx, 10, func(i int, api discovery.AggregatedDiscoveryServiceClient) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for n := range 100 {
			a.add("streams", 1)
			s, err := api.StreamAggregatedResources(ctx)
			if err != nil {
				return err
			}
			node := &core.Node{Id: fmt.Sprintf("deaf-%d-%d", i, n), Cluster: "good"}
			if err := s.Send(&discovery.DiscoveryRequest{Node: node, TypeUrl: relaytest.ClusterType}); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return nil
	})
}

// manyNames asks for names that do not exist, 200,000 in all. A million take weir and the origin
// some seconds, and what the origin states meanwhile waits behind them on its one stream.
func manyNames(ctx context.Context, a *attacker) error {
	var n atomic.Int64
	return a.loops(ctx, 2, func(_ int, api discovery.AggregatedDiscoveryServiceClient) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s, err := api.DeltaAggregatedResources(ctx)
		if err != nil {
			return err
		}
		node := &core.Node{Id: "curious", Cluster: "good"}
		for range 10 {
			names := make([]string, 10_000)
			for i := range names {
				names[i] = fmt.Sprintf("no-such-name-%d", n.Add(1))
			}
			a.add("names", len(names))
			if err := s.Send(&discovery.DeltaDiscoveryRequest{
				Node: node, TypeUrl: relaytest.EndpointType, ResourceNamesSubscribe: names,
			}); err != nil {
				return err
			}
			node = nil
			pause(ctx, 100*time.Millisecond)
		}
		return s.CloseSend()
	})
}

// refusesEverything refuses each response, and asks again and again with every nonce that it knows.
func refusesEverything(ctx context.Context, a *attacker) error {
	return a.loops(ctx, 8, func(i int, api discovery.AggregatedDiscoveryServiceClient) error {
		s, err := api.StreamAggregatedResources(ctx)
		if err != nil {
			return err
		}
		node := &core.Node{Id: fmt.Sprintf("nay-%d", i), Cluster: "good"}
		if err := s.Send(&discovery.DiscoveryRequest{Node: node, TypeUrl: relaytest.ClusterType}); err != nil {
			return err
		}
		resp, err := s.Recv()
		if err != nil {
			return err
		}
		for {
			a.add("refusals", 1)
			if err := s.Send(&discovery.DiscoveryRequest{
				TypeUrl: relaytest.ClusterType, ResponseNonce: resp.GetNonce(),
				ErrorDetail: refusal(),
			}); err != nil {
				return err
			}
		}
	})
}

// oneByOne asks over HTTP/1.1 for what is not there, without a look at the answers.
func oneByOne(ctx context.Context, a *attacker) error {
	requests := bytes.Repeat([]byte("GET / HTTP/1.1\r\nHost: weir\r\n\r\n"), 100)
	return a.each(ctx, 4, func(int) {
		conn, err := dialFrom(a.From)(ctx, a.Addr)
		if err != nil {
			a.add("connections refused", 1)
			pause(ctx, 10*time.Millisecond)
			return
		}
		a.add("connections", 1)
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(io.Discard, conn) // or weir would wait for it
		}()
		for ctx.Err() == nil && err == nil {
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second)) // as with raw.patient
			if _, err = conn.Write(requests); err == nil {
				a.add("requests", 100)
			}
		}
		_ = conn.Close()
		<-read
	})
}

// garbage is bytes that are no HTTP/2.
func garbage(ctx context.Context, a *attacker) error {
	return a.each(ctx, 8, func(int) {
		conn, err := dialFrom(a.From)(ctx, a.Addr)
		if err != nil {
			a.add("connections refused", 1)
			pause(ctx, 10*time.Millisecond)
			return
		}
		a.add("connections", 1)
		_, _ = conn.Write(noise(4096)) // it may be closed already
		_ = conn.Close()
	})
}
