// Command idplane is a stock go-control-plane as newcomers write it: a snapshot cache that knows
// one node by its id (cache.IDHash) and never answers another.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os/signal"
	"syscall"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	router "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

func main() {
	address := flag.String("listen", "127.0.0.1:18000", "where it listens")
	node := flag.String("node", "my-node", "the node id that has a snapshot")
	port := flag.Uint("port", 10000, "of the listener that Envoys are given")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	c := cache.NewSnapshotCache(false, cache.IDHash{}, nil)
	s, err := cache.NewSnapshot("1", map[resource.Type][]types.Resource{
		resource.ClusterType:  {&cluster.Cluster{Name: "backend", ConnectTimeout: durationpb.New(time.Second)}},
		resource.ListenerType: {hello(uint32(*port))},
	})
	if err == nil {
		err = c.SetSnapshot(ctx, *node, s)
	}
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	g := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(g, server.NewServer(ctx, c, nil))
	go func() {
		<-ctx.Done()
		g.Stop()
	}()
	log.Printf("listening on %s", l.Addr())
	if err := g.Serve(l); err != nil {
		log.Fatal(err)
	}
}

// hello is a listener that answers every request by itself.
func hello(port uint32) *listener.Listener {
	return &listener.Listener{
		Name:    "hello",
		Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{Address: "127.0.0.1", PortSpecifier: &core.SocketAddress_PortValue{PortValue: port}}}},
		FilterChains: []*listener.FilterChain{{Filters: []*listener.Filter{{
			Name: "envoy.filters.network.http_connection_manager",
			ConfigType: &listener.Filter_TypedConfig{TypedConfig: packed(&hcm.HttpConnectionManager{
				StatPrefix: "hello",
				RouteSpecifier: &hcm.HttpConnectionManager_RouteConfig{RouteConfig: &route.RouteConfiguration{VirtualHosts: []*route.VirtualHost{{
					Name: "all", Domains: []string{"*"}, Routes: []*route.Route{{
						Match: &route.RouteMatch{PathSpecifier: &route.RouteMatch_Prefix{Prefix: "/"}},
						Action: &route.Route_DirectResponse{DirectResponse: &route.DirectResponseAction{
							Status: 200, Body: &core.DataSource{Specifier: &core.DataSource_InlineString{InlineString: "hello through weir\n"}},
						}},
					}},
				}}}},
				HttpFilters: []*hcm.HttpFilter{{
					Name: "envoy.filters.http.router", ConfigType: &hcm.HttpFilter_TypedConfig{TypedConfig: packed(&router.Router{})},
				}},
			})},
		}}}},
	}
}

func packed(m proto.Message) *anypb.Any {
	a, err := anypb.New(m)
	if err != nil {
		panic(err)
	}
	return a
}
