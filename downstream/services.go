package downstream

import (
	"context"
	"time"

	"google.golang.org/grpc"

	// Reflection finds its descriptors among those that these packages register.
	_ "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/extension/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// register adds the discovery services to a listener: ADS, and one for each type that has its own
// (TRANS-2). Other methods are UNIMPLEMENTED (TRANS-12). With v2 it adds the v2 names as well.
func (s *Server) register(ln *listener, v2 bool) {
	ln.grpc.RegisterService(s.describe(ln, &xds.ADS, false), nil)
	for i := range xds.Services {
		ln.grpc.RegisterService(s.describe(ln, &xds.Services[i], false), nil)
	}
	s.registerLoads(ln, false)
	if !v2 { // V2-1
		return
	}
	ln.grpc.RegisterService(s.describe(ln, &xds.ADSV2, true), nil)
	for i := range xds.ServicesV2 {
		ln.grpc.RegisterService(s.describe(ln, &xds.ServicesV2[i], true), nil)
	}
	s.registerLoads(ln, true)
}

// describe makes the grpc description of a service. The full method name decides the dialect and,
// on a service of one type, the type (TRANS-3, TRANS-4).
func (s *Server) describe(ln *listener, v *xds.Service, v2 bool) *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{ServiceName: v.Name, HandlerType: (*any)(nil), Metadata: v.File}
	if v.Fetch != "" {
		d.Methods = append(d.Methods, grpc.MethodDesc{MethodName: v.Fetch, Handler: s.fetch(ln, v, v2)})
	}
	for _, delta := range []bool{false, true} {
		name := v.SotW
		if delta {
			name = v.Delta
		}
		if name == "" {
			continue
		}
		serve := func(_ any, wire grpc.ServerStream) error { return s.serve(ln, wire, v, delta, v2) }
		d.Streams = append(d.Streams, grpc.StreamDesc{StreamName: name, Handler: serve, ServerStreams: true, ClientStreams: true})
	}
	return d
}

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
