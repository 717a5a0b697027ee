package downstream

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// BenchmarkRefusedStream is what weir does for a stream that is not served, once grpc has read its
// headers: one that its client reset before its handler ran, one beyond limits.streams, and one
// that too many others wait before.
func BenchmarkRefusedStream(b *testing.B) {
	for _, k := range []struct {
		name    string
		prepare func(*Server, context.CancelFunc)
	}{
		{"reset", func(_ *Server, reset context.CancelFunc) { reset() }},
		{"full", func(s *Server, _ context.CancelFunc) { s.cfg.Limits.Streams = 0 }},
		{"crowded", func(s *Server, _ context.CancelFunc) { s.arrivals.rate = bucket{each: time.Hour} }},
	} {
		b.Run(k.name, func(b *testing.B) {
			s, ln := newServing(b, newRig(b))
			raw, _ := net.Pipe() // which is closed for the refusals
			c := &connection{id: 1, info: credentials.TLSInfo{}, server: s, raw: raw}
			from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
			ctx, reset := context.WithCancel(peer.NewContext(b.Context(), &peer.Peer{Addr: from, LocalAddr: from, AuthInfo: c}))
			defer reset()
			k.prepare(s, reset)
			w := &idleWire{ctx: grpc.NewContextWithServerTransportStream(ctx, idleTransport{})}
			b.ReportAllocs()
			for b.Loop() {
				if err := s.serve(ln, w, &xds.ADS, true, false); err == nil {
					b.Fatal("it is served")
				}
			}
		})
	}
}
