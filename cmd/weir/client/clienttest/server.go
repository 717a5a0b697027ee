// Package clienttest has a scripted ADS server for tests of xDS clients. Only tests import it.
package clienttest

import (
	"net"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// DeltaStream is the server's side of a delta stream.
type DeltaStream = discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer

// SotWStream is the server's side of a SotW stream.
type SotWStream = discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer

// Server is an ADS server whose streams are handled by functions of the test. If the function of a
// dialect is nil, the server does not speak it.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	Delta func(DeltaStream) error
	SotW  func(SotWStream) error
}

// DeltaAggregatedResources calls the test's function.
func (s *Server) DeltaAggregatedResources(stream DeltaStream) error {
	if s.Delta == nil {
		return s.UnimplementedAggregatedDiscoveryServiceServer.DeltaAggregatedResources(stream)
	}
	return s.Delta(stream)
}

// StreamAggregatedResources calls the test's function.
func (s *Server) StreamAggregatedResources(stream SotWStream) error {
	if s.SotW == nil {
		return s.UnimplementedAggregatedDiscoveryServiceServer.StreamAggregatedResources(stream)
	}
	return s.SotW(stream)
}

// Serve serves on an address, such as 127.0.0.1:0 or unix:///dir/socket, until the test ends. It
// returns the address to dial.
func Serve(t *testing.T, s *Server, address string, opts ...grpc.ServerOption) string {
	t.Helper()
	network, at := "tcp", address
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		network, at = "unix", path
	}
	lis, err := net.Listen(network, at)
	if err != nil {
		t.Fatalf("opening the test server: %v", err)
	}
	g := grpc.NewServer(opts...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, s)
	done := make(chan error, 1)
	go func() { done <- g.Serve(lis) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-done; err != nil {
			t.Errorf("the test server: %v", err)
		}
	})
	if network == "unix" {
		return address
	}
	return lis.Addr().String()
}

// Any packs a message, with the same bytes in every run.
func Any(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	a := new(anypb.Any)
	if err := anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		t.Fatal(err)
	}
	return a
}
