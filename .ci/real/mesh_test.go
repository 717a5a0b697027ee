package real

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-xds/weir/relay/relaytest"
)

// backend answers every request with its name, over HTTP in the body and over gRPC in the header
// "backend".
type backend struct {
	name string
	http string // address
	grpc string // address

	hold sync.RWMutex // while it is locked no request is answered
}

func startBackend(tb testing.TB, name string) *backend {
	tb.Helper()
	web, rpc := loopback(tb), loopback(tb)
	b := &backend{name: name, http: web.Addr().String(), grpc: rpc.Addr().String()}
	hs := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		b.hold.RLock()
		defer b.hold.RUnlock()
		_, _ = w.Write([]byte(name))
	})}
	gs := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		b.hold.RLock()
		defer b.hold.RUnlock()
		if err := grpc.SetHeader(ctx, metadata.Pairs("backend", name)); err != nil {
			return nil, err
		}
		return next(ctx, r)
	}))
	healthpb.RegisterHealthServer(gs, health.NewServer())
	served := make(chan error, 2)
	go func() { served <- hs.Serve(web) }()
	go func() { served <- gs.Serve(rpc) }()
	tb.Cleanup(func() {
		_ = hs.Close()
		gs.Stop()
		for range 2 {
			if err := <-served; err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, grpc.ErrServerStopped) {
				tb.Errorf("a backend stopped accepting: %v", err)
			}
		}
	})
	return b
}

func loopback(tb testing.TB) net.Listener {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func (b *backend) addr(p protocol) string {
	if p == speaksGRPC {
		return b.grpc
	}
	return b.http
}

// routes is the name of the route configuration of every mesh.
const routes = "routes"

// mesh is what a control plane is to have for one client program: a listener, its routes, and
// clusters with endpoints.
type mesh struct {
	client   program
	clusters map[string]*service
	live     string            // the cluster that requests go to
	paths    map[string]string // further routes: clusters by prefix
}

// service is one cluster.
type service struct {
	backends []*backend // none: its endpoints are nowhere
	refused  bool       // clients refuse it
	spare    uint32     // what is changed to make another body, which all clients read
}

func (m mesh) clone() mesh {
	m.clusters, m.paths = maps.Clone(m.clusters), maps.Clone(m.paths)
	return m
}

// world are the resources of the mesh.
func (m mesh) world() world {
	w := world{}.put(m.client.Listener(routes), m.routeConfiguration())
	for name, s := range m.clusters {
		w.put(m.cluster(name, s))
		if len(s.backends) > 0 {
			w.put(m.endpoints(name, s.backends))
		}
	}
	return w
}

func (m mesh) routeConfiguration() *anypb.Any {
	host := &route.VirtualHost{Name: "all", Domains: []string{"*"}}
	for _, prefix := range slices.Sorted(maps.Keys(m.paths)) {
		host.Routes = append(host.Routes, routeTo(prefix, m.paths[prefix]))
	}
	host.Routes = append(host.Routes, routeTo("/", m.live))
	return relaytest.Body(&route.RouteConfiguration{Name: routes, VirtualHosts: []*route.VirtualHost{host}})
}

func routeTo(prefix, name string) *route.Route {
	return &route.Route{
		Match:  &route.RouteMatch{PathSpecifier: &route.RouteMatch_Prefix{Prefix: prefix}},
		Action: &route.Route_Route{Route: &route.RouteAction{ClusterSpecifier: &route.RouteAction_Cluster{Cluster: name}}},
	}
}

func (m mesh) cluster(name string, s *service) *anypb.Any {
	c := &cluster.Cluster{
		Name:                 name,
		ConnectTimeout:       durationpb.New(5 * time.Second),
		ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS},
		EdsClusterConfig:     &cluster.Cluster_EdsClusterConfig{EdsConfig: m.sourceOfEndpoints(name)},
		CircuitBreakers: &cluster.CircuitBreakers{Thresholds: []*cluster.CircuitBreakers_Thresholds{
			{MaxRequests: wrapperspb.UInt32(1000 + s.spare)},
		}},
	}
	if s.refused {
		c.EdsClusterConfig = nil // where its endpoints are from: every client wants to know
	}
	return relaytest.Body(c)
}

// sourceOfEndpoints is where the client is to have a cluster's endpoints from.
func (m mesh) sourceOfEndpoints(name string) *core.ConfigSource {
	if p, ok := m.client.(fileEnvoy); ok {
		return p.file("eds." + name)
	}
	return m.client.Source()
}

// endpoints have what gRPC insists on: a locality and its weight.
func (m mesh) endpoints(name string, backends []*backend) *anypb.Any {
	locality := &endpoint.LocalityLbEndpoints{
		Locality: &core.Locality{Region: "here"}, LoadBalancingWeight: wrapperspb.UInt32(1),
	}
	for _, b := range backends {
		locality.LbEndpoints = append(locality.LbEndpoints, &endpoint.LbEndpoint{
			HostIdentifier: &endpoint.LbEndpoint_Endpoint{Endpoint: &endpoint.Endpoint{Address: address(b.addr(m.client.Protocol()))}},
		})
	}
	return relaytest.Body(&endpoint.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpoint.LocalityLbEndpoints{locality}})
}

// address is a host:port in xDS.
func address(hostPort string) *core.Address {
	a, err := net.ResolveTCPAddr("tcp", hostPort)
	if err != nil {
		panic(fmt.Sprintf("an address of our own: %v", err))
	}
	return &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
		Address: a.IP.String(), PortSpecifier: &core.SocketAddress_PortValue{PortValue: uint32(a.Port)},
	}}}
}
