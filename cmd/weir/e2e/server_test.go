package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	router "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/xds"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/relay/relaytest"
)

// serverTemplate is what a gRPC server makes the name of its listener of: no xdstp name, though it
// looks like one (NAME-1).
const (
	serverTemplate = "grpc/server?xds.resource.listening_address=%s"
	serverRoute    = "server-routes"
)

// TestServerThroughWeir: a grpc-go server that is configured over xDS gets its listener and routes
// through weir, and clients that get theirs through weir reach it. The name of the listener, with ?
// and = and :, is at the origin what the server asked for.
func TestServerThroughWeir(t *testing.T) {
	matrix(t, func(t *testing.T, c cell) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		b := &backend{addr: l.Addr().String()}
		name := fmt.Sprintf(serverTemplate, b.addr)
		plane, weir := c.relay(t, mesh(b).put(serverListener(t, name, b.addr), serverRoutes()))
		b.serveXDS(t, l, weir.Addr)
		if err := call(dialMesh(t, weir.Addr, "app"), true); err != nil {
			t.Fatalf("an RPC to a server with weir as its control plane: %v", err)
		}
		if got := b.calls.Load(); got != 1 {
			t.Errorf("the server answered %d RPCs, want 1", got)
		}
		asked := plane.Asked()
		if asked.asked[relaytest.ListenerType][name] == 0 {
			t.Errorf("the origin was not asked for %s, but for %v", name, asked.asked[relaytest.ListenerType])
		}
		if len(asked.nacks) > 0 {
			t.Errorf("weir refused what go-control-plane sent: %q", asked.nacks)
		}
	})
}

// serveXDS serves on l as the listener of control plane addr says, until the test ends.
func (b *backend) serveXDS(tb testing.TB, l net.Listener, addr string) {
	tb.Helper()
	bootstrap, err := json.Marshal(map[string]any{
		"xds_servers": []any{map[string]any{
			"server_uri":      addr,
			"channel_creds":   []any{map[string]any{"type": "insecure"}},
			"server_features": []any{"xds_v3"},
		}},
		"node":                                   map[string]any{"id": "server", "cluster": "e2e"},
		"server_listener_resource_name_template": serverTemplate,
	})
	if err != nil {
		tb.Fatal(err)
	}
	serving := make(chan struct{}, 1)
	s, err := xds.NewGRPCServer(xds.BootstrapContentsForTesting(bootstrap), grpc.Creds(insecure.NewCredentials()),
		grpc.UnaryInterceptor(b.count), xds.ServingModeCallback(func(_ net.Addr, args xds.ServingModeChangeArgs) {
			if args.Mode == connectivity.ServingModeServing {
				select {
				case serving <- struct{}{}:
				default:
				}
			}
		}))
	if err != nil {
		tb.Fatal(err)
	}
	serveHealth(tb, s, l)
	select {
	case <-serving:
	case <-time.After(patience):
		tb.Fatalf("the server has no listener after %v", patience)
	}
}

// serverListener is a listener as gRPC servers want it, with its routes over ADS.
func serverListener(tb testing.TB, name, addr string) *anypb.Any {
	tb.Helper()
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	manager := relaytest.Body(&hcm.HttpConnectionManager{
		RouteSpecifier: &hcm.HttpConnectionManager_Rds{Rds: &hcm.Rds{
			RouteConfigName: serverRoute,
			ConfigSource: &core.ConfigSource{
				ResourceApiVersion:    core.ApiVersion_V3,
				ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}},
			},
		}},
		HttpFilters: []*hcm.HttpFilter{{
			Name: "router", ConfigType: &hcm.HttpFilter_TypedConfig{TypedConfig: relaytest.Body(&router.Router{})},
		}},
	})
	return relaytest.Body(&listener.Listener{
		Name: name,
		Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
			Address: tcp.IP.String(), PortSpecifier: &core.SocketAddress_PortValue{PortValue: uint32(tcp.Port)},
		}}},
		FilterChains: []*listener.FilterChain{{
			Name: "all", Filters: []*listener.Filter{{Name: "hcm", ConfigType: &listener.Filter_TypedConfig{TypedConfig: manager}}},
		}},
	})
}

// serverRoutes let every RPC in.
func serverRoutes() *anypb.Any {
	return relaytest.Body(&route.RouteConfiguration{
		Name: serverRoute,
		VirtualHosts: []*route.VirtualHost{{
			Name: "all", Domains: []string{"*"},
			Routes: []*route.Route{{
				Match:  &route.RouteMatch{PathSpecifier: &route.RouteMatch_Prefix{Prefix: "/"}},
				Action: &route.Route_NonForwardingAction{NonForwardingAction: &route.NonForwardingAction{}},
			}},
		}},
	})
}
