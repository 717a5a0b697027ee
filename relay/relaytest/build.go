package relaytest

import (
	"bytes"
	"net"
	"strconv"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Type URLs of the resources built here and of those tests ask for by name only.
const (
	ListenerType     = "type.googleapis.com/envoy.config.listener.v3.Listener"
	RouteType        = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	ScopedRouteType  = "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration"
	VirtualHostType  = "type.googleapis.com/envoy.config.route.v3.VirtualHost"
	ClusterType      = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	EndpointType     = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	SecretType       = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
	RuntimeType      = "type.googleapis.com/envoy.service.runtime.v3.Runtime"
	ExtensionType    = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
	OpaqueType       = "type.googleapis.com/example.test.v1.Opaque" // no descriptor anywhere
	v2ListenerType   = "type.googleapis.com/envoy.api.v2.Listener"
	v2ClusterType    = "type.googleapis.com/envoy.api.v2.Cluster"
	defaultAnyPrefix = "type.googleapis.com/"
)

// fullState tells the types whose SotW responses carry the whole set.
func fullState(typeURL string) bool {
	switch typeURL {
	case ListenerType, ClusterType, v2ListenerType, v2ClusterType:
		return true
	}
	return false
}

// Body packs any message; the encoding is stable.
func Body(m proto.Message) *anypb.Any {
	return &anypb.Any{TypeUrl: defaultAnyPrefix + string(m.ProtoReflect().Descriptor().FullName()), Value: Marshal(m)}
}

// Cluster is a static cluster; the timeout is what tests change to make another content.
func Cluster(name string, connectTimeout time.Duration) *anypb.Any {
	return Body(&cluster.Cluster{Name: name, ConnectTimeout: durationpb.New(connectTimeout)})
}

// EDSCluster is a cluster whose endpoints come over ADS under the name service (empty: the
// cluster's own name).
func EDSCluster(name, service string) *anypb.Any {
	return Body(&cluster.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS},
		EdsClusterConfig: &cluster.Cluster_EdsClusterConfig{
			ServiceName: service,
			EdsConfig: &core.ConfigSource{
				ResourceApiVersion:    core.ApiVersion_V3,
				ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}},
			},
		},
	})
}

// Endpoints is a ClusterLoadAssignment with one locality of the given host:port addresses. It
// panics on a malformed one.
func Endpoints(name string, hostPorts ...string) *anypb.Any {
	locality := &endpoint.LocalityLbEndpoints{}
	for _, hp := range hostPorts {
		locality.LbEndpoints = append(locality.LbEndpoints, &endpoint.LbEndpoint{
			HostIdentifier: &endpoint.LbEndpoint_Endpoint{Endpoint: &endpoint.Endpoint{Address: address(hp)}},
		})
	}
	return Body(&endpoint.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpoint.LocalityLbEndpoints{locality}})
}

// Listener is a listener on the given port of loopback.
func Listener(name string, port int) *anypb.Any {
	return Body(&listener.Listener{Name: name, Address: address(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))})
}

// Route is a RouteConfiguration that sends everything to one cluster.
func Route(name, clusterName string) *anypb.Any {
	return Body(&route.RouteConfiguration{Name: name, VirtualHosts: []*route.VirtualHost{virtualHost("all", clusterName)}})
}

// VirtualHost is a virtual host that sends everything to one cluster.
func VirtualHost(name, clusterName string) *anypb.Any { return Body(virtualHost(name, clusterName)) }

// Secret is a generic secret with the value in it.
func Secret(name, value string) *anypb.Any {
	data := &core.DataSource{Specifier: &core.DataSource_InlineString{InlineString: value}}
	return Body(&tlsv3.Secret{Name: name, Type: &tlsv3.Secret_GenericSecret{GenericSecret: &tlsv3.GenericSecret{Secret: data}}})
}

// Opaque is a resource of OpaqueType: field 1 is the name, field 2 the body's bytes.
func Opaque(name, body string) *anypb.Any {
	b := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	b = protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), body)
	return &anypb.Any{TypeUrl: OpaqueType, Value: b}
}

// Node is a node of the given id and cluster that advertises features.
func Node(id, clusterName string, features ...string) *core.Node {
	return &core.Node{Id: id, Cluster: clusterName, UserAgentName: "relaytest", ClientFeatures: features}
}

func virtualHost(name, clusterName string) *route.VirtualHost {
	return &route.VirtualHost{Name: name, Domains: []string{"*"}, Routes: []*route.Route{{
		Match: &route.RouteMatch{PathSpecifier: &route.RouteMatch_Prefix{Prefix: "/"}},
		Action: &route.Route_Route{Route: &route.RouteAction{
			ClusterSpecifier: &route.RouteAction_Cluster{Cluster: clusterName},
		}},
	}}}
}

func address(hostPort string) *core.Address {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		panic("relaytest: " + err.Error())
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		panic("relaytest: " + err.Error())
	}
	return &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
		Address:       host,
		PortSpecifier: &core.SocketAddress_PortValue{PortValue: uint32(number)},
	}}}
}

// Field is an encoded message with one field, a string or a message.
func Field(number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

// Repeated is an encoded message that has a field n times.
func Repeated(number protowire.Number, value []byte, n int) []byte {
	return bytes.Repeat(Field(number, value), n)
}

// Nested is an encoded message that has itself in a field, so many times.
func Nested(number protowire.Number, times int) []byte {
	sizes, size := make([]int, times), 0
	for i := range times {
		sizes[i] = size
		size = protowire.SizeTag(number) + protowire.SizeBytes(size)
	}
	b := make([]byte, 0, size)
	for i := times - 1; i >= 0; i-- {
		b = protowire.AppendTag(b, number, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(sizes[i]))
	}
	return b
}

// AnyInAny is an empty Any in so many others.
func AnyInAny(times int) *anypb.Any {
	a := &anypb.Any{}
	for range times {
		b, err := proto.Marshal(a)
		if err != nil {
			panic(err) // cannot happen: it has no string but its type
		}
		a = &anypb.Any{TypeUrl: "type.googleapis.com/google.protobuf.Any", Value: b}
	}
	return a
}
