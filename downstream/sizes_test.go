package downstream

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// TestSizesAreToldOfBefore: a line an hour for each type and direction, before a limit is passed
// (TRANS-10).
func TestSizesAreToldOfBefore(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	l, r := newSizeLog(zap.New(core)), newRig(t)
	st := &stream{session: newSession(r.set, false, r.now, relay.NewSubscriber())}
	clusters, endpoints := newStreamType(r.set, cds, "sotw"), newStreamType(r.set, eds, "sotw")
	request := func(bytes int) *request {
		return &request{content: &content{typeURL: []byte(cds)}, size: bytes, set: &settings{limits: Limits{RequestBytes: 1000}}}
	}
	for i, step := range []struct {
		do    func(now time.Time)
		after time.Duration
		lines int
	}{
		{func(now time.Time) { l.response(now, &response{kind: clusters, size: 4 << 20}, st) }, 0, 0},
		{func(now time.Time) { l.response(now, &response{kind: clusters, size: 4<<20 + 1}, st) }, 0, 1},
		{func(now time.Time) { l.response(now, &response{kind: clusters, size: 5 << 20}, st) }, time.Minute, 0},
		{func(now time.Time) { l.response(now, &response{kind: endpoints, size: 5 << 20}, st) }, time.Minute, 1},
		{func(now time.Time) { l.request(now, request(500), st) }, time.Minute, 0},
		{func(now time.Time) { l.request(now, request(501), st) }, time.Minute, 1},
		{func(now time.Time) { l.request(now, request(900), st) }, 2 * time.Minute, 0},
		{func(now time.Time) { l.response(now, &response{kind: clusters, size: 5 << 20}, st) }, time.Hour, 1},
	} {
		step.do(r.now.Add(step.after))
		if got := logs.TakeAll(); len(got) != step.lines {
			t.Errorf("step %d: %d lines, want %d: %v", i, len(got), step.lines, got)
		}
	}
}

// TestCompression: responses are compressed if the listener says so and the client takes it,
// requests are taken either way, and what the client sends decides nothing.
func TestCompression(t *testing.T) {
	for _, c := range []struct {
		listener, requests string
		want               string // grpc-encoding of the response
	}{
		{"", "", "identity"}, {"", "gzip", "identity"}, {"gzip", "", "gzip"}, {"gzip", "gzip", "gzip"},
	} {
		l := newLive(t, relaytest.TCP(), func(_ *Config, lc *ListenerConfig) { lc.Compression = c.listener })
		var options []grpc.CallOption
		if c.requests != "" {
			options = append(options, grpc.UseCompressor(c.requests))
		}
		seen := &compression{}
		wire := l.stream(t, options, grpc.WithStatsHandler(seen))
		if err := wire.SendMsg(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, ResourceNamesSubscribe: []string{"a"}}); err != nil {
			t.Fatal(err)
		}
		l.asked(t, 1)
		l.say(cds, "a="+strings.Repeat("1", 10_000))
		var response discoveryv3.DeltaDiscoveryResponse
		if err := wire.RecvMsg(&response); err != nil || len(response.Resources) != 1 {
			t.Errorf("listener %q, requests %q: %d resources, %v", c.listener, c.requests, len(response.Resources), err)
		}
		if got, short := seen.how.Load(), seen.wire.Load() < 1000; got != c.want || short != (c.want == "gzip") {
			t.Errorf("listener %q, requests %q: the response is %q of %d bytes, want %q", c.listener, c.requests, got, seen.wire.Load(), c.want)
		}
	}
	var lc ListenerConfig
	lc.Compression = "zstd"
	if err := lc.normalize(nil); err == nil || !strings.Contains(err.Error(), "compression") {
		t.Errorf("zstd: %v", err)
	}
}

// stream is a plain client stream of delta ADS.
func (l *live) stream(t *testing.T, options []grpc.CallOption, dial ...grpc.DialOption) grpc.ClientStream {
	t.Helper()
	desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	wire, err := l.net.Connect(t, dial...).NewStream(t.Context(), desc, xds.ADS.Method(true), options...)
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// compression sees how a client's responses are compressed.
type compression struct {
	how  atomic.Value // string: grpc-encoding
	wire atomic.Int64 // bytes of the last response
}

func (c *compression) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (c *compression) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (c *compression) HandleConn(context.Context, stats.ConnStats)                       {}

func (c *compression) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s := s.(type) {
	case *stats.InHeader:
		c.how.Store(s.Compression)
	case *stats.InPayload:
		c.wire.Store(int64(s.CompressedLength))
	}
}

// TestCompressedRequestIsBounded: what counts is how long a request is when it is decompressed, and
// what is too long is refused (ERR-7). No more than that is decompressed; the conformance suite
// looks at the memory.
func TestCompressedRequestIsBounded(t *testing.T) {
	const most = 1 << 20
	for _, size := range []int{most - 1000, most + 1000, 3 * most, 32 << 20} {
		l := newLive(t, relaytest.TCP(), func(c *Config, _ *ListenerConfig) {
			c.Limits.RequestBytes = most
		})
		wire := l.stream(t, []grpc.CallOption{grpc.UseCompressor(gzip.Name)})
		name := strings.Repeat("a", size)
		if err := wire.SendMsg(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, ResourceNamesSubscribe: []string{name}}); err != nil {
			t.Fatal(err)
		}
		err := wire.RecvMsg(&discoveryv3.DeltaDiscoveryResponse{})
		if size < most { // the name is too long, and that is all
			if err != nil {
				t.Errorf("%d bytes: %v", size, err)
			}
			continue
		}
		if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "limits.request_bytes") {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
