package origin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// Serve serves on both listeners until ctx ends, and closes them.
func (o *Origin) Serve(ctx context.Context, xds, control net.Listener) error {
	s := grpc.NewServer(
		grpc.ForceServerCodecV2(codec{o}),
		// A request with the versions of 100,000 resources is long. With static windows grpc sends
		// no pings to estimate the bandwidth.
		grpc.MaxRecvMsgSize(64<<20),
		grpc.StaticStreamWindowSize(1<<20),
		grpc.StaticConnWindowSize(1<<20),
		grpc.WaitForHandlers(true),
	)
	for _, d := range o.services() {
		s.RegisterService(&d, nil)
	}
	web := &http.Server{Handler: world.Control(o.world, o), ReadHeaderTimeout: 10 * time.Second}
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return s.Serve(xds) })
	parts.Go(func() error {
		if err := web.Serve(control); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	parts.Go(func() error {
		<-ctx.Done()
		s.Stop()
		return web.Close()
	})
	return parts.Wait()
}

// services returns the descriptions of the aggregated service, and of those of the types of package
// world.
func (o *Origin) services() []grpc.ServiceDesc {
	const prefix = "envoy.service."
	clusters, endpoints := world.Clusters.TypeURL(), world.Endpoints.TypeURL()
	return []grpc.ServiceDesc{
		o.service(prefix+"discovery.v3.AggregatedDiscoveryService", "StreamAggregatedResources", "DeltaAggregatedResources", ""),
		o.service(prefix+"cluster.v3.ClusterDiscoveryService", "StreamClusters", "DeltaClusters", clusters),
		o.service(prefix+"endpoint.v3.EndpointDiscoveryService", "StreamEndpoints", "DeltaEndpoints", endpoints),
	}
}

func (o *Origin) service(name, sotw, delta, typeURL string) grpc.ServiceDesc {
	method := func(name string, isDelta bool) grpc.StreamDesc {
		handle := func(_ any, g grpc.ServerStream) error { return o.serve(g, isDelta, typeURL) }
		return grpc.StreamDesc{StreamName: name, Handler: handle, ServerStreams: true, ClientStreams: true}
	}
	return grpc.ServiceDesc{ServiceName: name, Streams: []grpc.StreamDesc{method(sotw, false), method(delta, true)}}
}

// serve reads requests, while another goroutine writes responses.
func (o *Origin) serve(g grpc.ServerStream, delta bool, typeURL string) error {
	o.counter.Streams.Add(1)
	s := newStream(o, delta)
	defer s.leave()
	parts, ctx := errgroup.WithContext(g.Context())
	parts.Go(func() error { return s.write(ctx, g) })
	parts.Go(func() error { return s.read(g, typeURL) })
	if err := parts.Wait(); !errors.Is(err, errEnd) {
		return err
	}
	return nil
}

// errEnd ends the writer when the client has half-closed the stream.
var errEnd = errors.New("the client has ended the stream")

func (s *stream) write(ctx context.Context, g grpc.ServerStream) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		}
		for _, a := range s.next() {
			if err := g.SendMsg(&a); err != nil {
				return err
			}
		}
	}
}

// read reads requests. typeURL is that of the service; "" on the aggregated one.
func (s *stream) read(g grpc.ServerStream, typeURL string) error {
	for {
		c, err := s.receive(g)
		if errors.Is(err, io.EOF) {
			return errEnd
		}
		if err != nil {
			return err
		}
		if c.typeURL == "" {
			c.typeURL = typeURL
		}
		if c.typeURL == "" || typeURL != "" && c.typeURL != typeURL { // TRANS-4, TRANS-5
			return status.Errorf(codes.InvalidArgument, "type_url is %q", c.typeURL)
		}
		s.origin.counter.Names.Add(int64(len(c.subscribe)))
		if c.refused {
			s.origin.counter.Nacks.Add(1)
		}
		switch {
		case c.typeURL != s.origin.typeURL:
			if !s.takeStrange(c) {
				return status.Error(codes.ResourceExhausted, "too many requests are unanswered")
			}
		case s.delta:
			s.takeDelta(c)
		default:
			s.takeSotW(c)
		}
	}
}

func (s *stream) receive(g grpc.ServerStream) (change, error) {
	if s.delta {
		var r discovery.DeltaDiscoveryRequest
		err := g.RecvMsg(&r)
		return deltaChange(&r), err
	}
	var r discovery.DiscoveryRequest
	err := g.RecvMsg(&r)
	return sotwChange(&r), err
}
