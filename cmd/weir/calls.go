package main

import (
	"context"

	"github.com/weir-xds/weir/cmd/weir/csds"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

// callBytes bounds a request to the admin port's gRPC services, in bytes.
const callBytes = 1 << 20

// operatorCalls makes the gRPC services of the admin port: client status, health and reflection.
// The port itself does HTTP, and decides who may call.
func (p *process) operatorCalls(clients *csds.Server) *grpc.Server {
	s := grpc.NewServer(grpc.MaxRecvMsgSize(callBytes))
	statusv3.RegisterClientStatusDiscoveryServiceServer(s, clients)
	healthpb.RegisterHealthServer(s, health{p: p})
	reflection.Register(s)
	return s
}

// health answers like /readyz, over gRPC. Watch is UNIMPLEMENTED.
type health struct {
	healthpb.UnimplementedHealthServer
	p *process
}

func (h health) Check(_ context.Context, req *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	switch req.GetService() {
	case "", statusv3.ClientStatusDiscoveryService_ServiceDesc.ServiceName:
	default:
		return nil, status.Errorf(codes.NotFound, "%q is no service of this port", req.GetService())
	}
	if h.p.readiness().Ready {
		return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_NOT_SERVING}, nil
}
