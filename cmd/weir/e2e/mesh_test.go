package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	router "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/xds"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// service is the name that grpc-go clients dial as xds:///service; it is also the listener's name.
const service = "greeter.e2e"

// The other names of the mesh.
const (
	meshRoute   = "greeter-routes"
	meshCluster = "greeter-cluster"
)

// mesh is what a grpc-go client needs to reach the backends: an API listener, a route, a cluster
// and its endpoints.
func mesh(backends ...*backend) world {
	return world{}.put(
		apiListener(service, meshRoute),
		relaytest.Route(meshRoute, meshCluster),
		relaytest.EDSCluster(meshCluster, ""),
		meshEndpoints(backends...),
	)
}

// apiListener is a listener as gRPC clients want it, with its routes over ADS.
func apiListener(name, route string) *anypb.Any {
	ads := &core.ConfigSource{
		ResourceApiVersion:    core.ApiVersion_V3,
		ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}},
	}
	manager := &hcm.HttpConnectionManager{
		RouteSpecifier: &hcm.HttpConnectionManager_Rds{Rds: &hcm.Rds{RouteConfigName: route, ConfigSource: ads}},
		HttpFilters: []*hcm.HttpFilter{{
			Name:       "router",
			ConfigType: &hcm.HttpFilter_TypedConfig{TypedConfig: relaytest.Body(&router.Router{})},
		}},
	}
	return relaytest.Body(&listener.Listener{
		Name:        name,
		ApiListener: &listener.ApiListener{ApiListener: relaytest.Body(manager)},
	})
}

// meshEndpoints are the endpoints of the mesh's cluster.
func meshEndpoints(backends ...*backend) *anypb.Any { return endpointsOf(meshCluster, backends...) }

// endpointsOf are endpoints with what gRPC insists on: a locality and its weight.
func endpointsOf(cluster string, backends ...*backend) *anypb.Any {
	locality := &endpoint.LocalityLbEndpoints{
		Locality:            &core.Locality{Region: "here"},
		LoadBalancingWeight: wrapperspb.UInt32(1),
	}
	for _, b := range backends {
		host, port, err := net.SplitHostPort(b.addr)
		if err != nil {
			panic("a backend's address: " + err.Error())
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			panic("a backend's port: " + err.Error())
		}
		locality.LbEndpoints = append(locality.LbEndpoints, &endpoint.LbEndpoint{
			HostIdentifier: &endpoint.LbEndpoint_Endpoint{Endpoint: &endpoint.Endpoint{
				Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
					Address:       host,
					PortSpecifier: &core.SocketAddress_PortValue{PortValue: uint32(number)},
				}}},
			}},
		})
	}
	return relaytest.Body(&endpoint.ClusterLoadAssignment{
		ClusterName: cluster,
		Endpoints:   []*endpoint.LocalityLbEndpoints{locality},
	})
}

// clusterWith is a cluster that carries any text, for bodies of a chosen size.
func clusterWith(name, text string) *anypb.Any {
	return relaytest.Body(&cluster.Cluster{Name: name, AltStatName: text})
}

// backend is a gRPC server that counts the calls it answers.
type backend struct {
	addr  string
	calls atomic.Int64
}

// startBackend serves the health service until the test ends.
func startBackend(tb testing.TB) *backend {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	b := &backend{addr: l.Addr().String()}
	s := grpc.NewServer(grpc.UnaryInterceptor(b.count))
	serveHealth(tb, s, l)
	return b
}

// healthServer is grpc.Server, or the one of package xds.
type healthServer interface {
	grpc.ServiceRegistrar
	Serve(l net.Listener) error
	Stop()
}

// serveHealth serves the health service on l until the test ends.
func serveHealth(tb testing.TB, s healthServer, l net.Listener) {
	healthpb.RegisterHealthServer(s, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	tb.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			tb.Errorf("a backend stopped accepting: %v", err)
		}
	})
}

func (b *backend) count(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	b.calls.Add(1)
	return next(ctx, req)
}

// dialMesh is a grpc-go channel to the service whose xDS client of its own talks to addr. tb closes
// it.
func dialMesh(tb testing.TB, addr, id string) *grpc.ClientConn {
	tb.Helper()
	bootstrap, err := json.Marshal(map[string]any{
		"xds_servers": []any{map[string]any{
			"server_uri":      addr,
			"channel_creds":   []any{map[string]any{"type": "insecure"}},
			"server_features": []any{"xds_v3"},
		}},
		"node": map[string]any{"id": id, "cluster": "e2e"},
	})
	if err != nil {
		tb.Fatal(err)
	}
	xdsResolver, err := xds.NewXDSResolverWithConfigForTesting(bootstrap)
	if err != nil {
		tb.Fatal(err)
	}
	conn, err := grpc.NewClient("xds:///"+service,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithResolvers(xdsResolver), grpc.WithNoProxy())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return conn
}

// call makes one RPC. A patient one waits for the channel to become ready; any other fails as an
// application's would.
func call(conn *grpc.ClientConn, patient bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(patient))
	return err
}

// traffic is a loop of RPCs on one channel, one after the other, none of them patient.
type traffic struct {
	tb     testing.TB
	conn   *grpc.ClientConn
	stop   chan struct{}
	done   chan struct{}
	calls  atomic.Int64
	failed atomic.Pointer[error] // the first failure
}

// startTraffic begins the loop once a first, patient RPC succeeded. tb ends it.
func startTraffic(tb testing.TB, conn *grpc.ClientConn) *traffic {
	tb.Helper()
	if err := call(conn, true); err != nil {
		tb.Fatalf("the first RPC: %v", err)
	}
	tr := &traffic{tb: tb, conn: conn, stop: make(chan struct{}), done: make(chan struct{})}
	go tr.run()
	tb.Cleanup(tr.Stop)
	return tr
}

func (tr *traffic) run() {
	defer close(tr.done)
	for {
		select {
		case <-tr.stop:
			return
		case <-time.After(time.Millisecond): // leave the other goroutines some of the machine
		}
		if err := call(tr.conn, false); err != nil {
			tr.failed.CompareAndSwap(nil, &err)
			return
		}
		tr.calls.Add(1)
	}
}

// More waits for n further RPCs to succeed.
func (tr *traffic) More(n int64, sentence string) {
	tr.tb.Helper()
	want := tr.calls.Load() + n
	tr.Await(func() bool { return tr.calls.Load() >= want }, sentence)
}

// Await waits for a condition while the loop goes on; a failed RPC fails the test.
func (tr *traffic) Await(cond func() bool, sentence string) {
	tr.tb.Helper()
	ok := weirtest.Until(patience, func() bool { return tr.failed.Load() != nil || cond() })
	if err := tr.failed.Load(); err != nil {
		tr.tb.Fatalf("%s: an RPC failed after %d that did not: %v", sentence, tr.calls.Load(), *err)
	}
	if !ok {
		tr.tb.Fatalf("not within %v: %s (%d RPCs)", patience, sentence, tr.calls.Load())
	}
}

// Stop ends the loop. Safe to call twice.
func (tr *traffic) Stop() {
	select {
	case <-tr.stop:
	default:
		close(tr.stop)
	}
	<-tr.done
}
