package main

import (
	"context"
	"time"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/csds"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	channelz "google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

// healthEvery is how often the health of whoever watches it is looked at.
const healthEvery = time.Second

// operatorCalls makes the gRPC services of the admin port: client status, channelz, health and
// reflection. The port itself does HTTP, and decides who may call.
//
// channelz shows the connections of the listeners and to origins. grpc-go begins to note these
// because the service is linked, whoever asks: some 60 bytes for each connection, and two
// atomic additions for each message.
func (p *process) operatorCalls(clients *csds.Server) *grpc.Server {
	s := grpc.NewServer(admin.CallOptions()...)
	statusv3.RegisterClientStatusDiscoveryServiceServer(s, clients)
	channelz.RegisterChannelzServiceToServer(s)
	healthpb.RegisterHealthServer(s, health{ready: func() bool { return p.readiness().Ready }, services: s.GetServiceInfo})
	reflection.Register(s)
	return s
}

// health answers like /readyz, over gRPC, for the port and each of its services alike.
type health struct {
	healthpb.UnimplementedHealthServer
	ready    func() bool
	services func() map[string]grpc.ServiceInfo
}

// Check answers once. A service that the port does not have is NOT_FOUND.
func (h health) Check(_ context.Context, req *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	now := h.status(req.GetService())
	if now == healthpb.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, status.Errorf(codes.NotFound, "%q is no service of this port", req.GetService())
	}
	return &healthpb.HealthCheckResponse{Status: now}, nil
}

// Watch answers at once and after each change, until the caller or the process ends. A service that
// the port does not have is SERVICE_UNKNOWN, as the health protocol has it.
func (h health) Watch(req *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	last := healthpb.HealthCheckResponse_UNKNOWN
	for {
		if now := h.status(req.GetService()); now != last {
			last = now
			if err := stream.Send(&healthpb.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

// status is the state of a service of the port; "": of all.
func (h health) status(service string) healthpb.HealthCheckResponse_ServingStatus {
	if _, known := h.services()[service]; service != "" && !known {
		return healthpb.HealthCheckResponse_SERVICE_UNKNOWN
	}
	if h.ready() {
		return healthpb.HealthCheckResponse_SERVING
	}
	return healthpb.HealthCheckResponse_NOT_SERVING
}
