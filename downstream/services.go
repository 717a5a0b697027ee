package downstream

import (
	"google.golang.org/grpc"

	// Reflection finds its descriptors among those that these packages register.
	_ "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/extension/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"github.com/weir-xds/weir/relay/xds"
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
