package origin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// Server returns the server of the origin.
func (o *Origin) Server(security credentials.TransportCredentials) *grpc.Server {
	s := grpc.NewServer(
		grpc.Creds(security),
		grpc.ForceServerCodecV2(codec{o}),
		grpc.MaxConcurrentStreams(math.MaxUint32),
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
	return s
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

// codec hands grpc the shared bytes of resources, and counts messages.
type codec struct{ origin *Origin }

// Name is the content subtype on the wire: protobuf.
func (codec) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	a, ok := v.(*answer)
	if !ok {
		return nil, fmt.Errorf("%T is no answer", v)
	}
	head := a.head()
	out := make(mem.BufferSlice, 0, 1+len(a.pieces))
	out = append(out, mem.SliceBuffer(head))
	for _, p := range a.pieces {
		out = append(out, mem.SliceBuffer(p))
	}
	c.origin.counter.BytesOut.Add(int64(out.Len()))
	return out, nil
}

// head returns every field except the resources. The numbers are the same in both dialects, and
// only delta has removals.
func (a *answer) head() []byte {
	b := appendBytes(make([]byte, 0, 160), 1, a.version)
	b = appendBytes(b, 4, a.typeURL)
	b = appendBytes(b, 5, a.nonce)
	for _, name := range a.removed {
		b = appendBytes(b, 6, name)
	}
	return b
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(protobuf.Message)
	if !ok {
		return fmt.Errorf("%T is no message", v)
	}
	c.origin.counter.Requests.Add(1)
	c.origin.counter.BytesIn.Add(int64(data.Len()))
	return encoding.GetCodecV2(proto.Name).Unmarshal(data, m)
}
