package downstream

import (
	"context"
	"time"

	"github.com/weir-xds/weir/relay/node"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/xds"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// fetch serves the unary method of a service (TRANS-11). Where REST answers 304 it sends the full
// answer: gRPC has no status for "not modified", and clients would take any as a failure.
func (s *Server) fetch(ln *listener, v *xds.Service, v2 bool) grpc.MethodHandler {
	return func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		from, ok := peer.FromContext(ctx)
		if !ok {
			return nil, status.Error(codes.Internal, "the caller is not known")
		}
		own, p := s.newPoll(ctx, ln, v, v2, callerOf(from), connectionOf(from), from.Addr)
		p.full = true
		p.stream.session.settings().compress(ctx)
		var out *response
		err := p.serve(own, node.ParseVia(metadata.ValueFromIncomingContext(ctx, node.ViaKey)),
			func() error { return p.receive(decode) },
			func(answer polled) error {
				out = answer.response
				s.sizes.response(time.Now(), out, p.stream)
				p.sent(answer, out.size)
				return nil
			})
		if err != nil {
			return nil, err
		}
		countAnswer(ctx, nil)
		return out, nil
	}
}

// receive decodes and checks the request of a Fetch method.
func (p *poll) receive(decode func(any) error) error {
	if err := decode(p.in); err != nil {
		return p.stream.reason(err)
	}
	p.stream.server.cfg.Metrics.Message(metrics.FromClient, p.in.size)
	err := p.stream.refused(p.in)
	if err != nil {
		p.done()
	}
	return err
}
