package kube

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	router "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-xds/weir/relay/relaytest"
)

// What an origin has: clusters, some of them with endpoints of their own, a listener with routes.
const (
	clusters   = 200
	eds        = 20
	envoyPort  = 10000
	originPort = 18000
	routes     = "routes"
)

// origin is a control plane on the machine, behind a front that speaks TLS to those who do, and
// plain text to the others.
type origin struct {
	*relaytest.Origin
	listener net.Listener

	mu    sync.Mutex // guards all below
	cert  tls.Certificate
	conns map[net.Conn]bool
	ended bool
}

// newOrigin is reached by pods of the namespace as each of the services given, at port 18000.
func newOrigin(t *testing.T, namespace string, cert tls.Certificate, services ...string) *origin {
	t.Helper()
	o := &origin{
		Origin: relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true}),
		cert:   cert, conns: map[net.Conn]bool{},
	}
	o.fill("first")
	l, err := net.Listen("tcp", net.JoinHostPort(gateway, "0"))
	if err != nil {
		t.Fatal(err)
	}
	o.listener = l
	go o.serve()
	t.Cleanup(o.close)
	for _, name := range services {
		o.publish(t, namespace, name)
	}
	return o
}

// fill has the origin serve a state, told apart by a word.
func (o *origin) fill(word string) {
	o.Batch(func() {
		for i := range clusters {
			name := fmt.Sprintf("cluster-%03d", i)
			if i < eds {
				o.Set(relaytest.ClusterType, name, word, relaytest.EDSCluster(name, ""))
				o.Set(relaytest.EndpointType, name, word, relaytest.Endpoints(name, "127.0.0.1:1"))
			} else {
				o.Set(relaytest.ClusterType, name, word, relaytest.Cluster(name, time.Second))
			}
		}
		o.Set(relaytest.ListenerType, "in", word, httpListener())
		o.Set(relaytest.RouteType, routes, word, answers(word))
	})
}

// httpListener gets its routes over ADS.
func httpListener() *listener.Listener {
	manager := &hcm.HttpConnectionManager{
		StatPrefix: "in",
		RouteSpecifier: &hcm.HttpConnectionManager_Rds{Rds: &hcm.Rds{RouteConfigName: routes, ConfigSource: &core.ConfigSource{
			ResourceApiVersion:    core.ApiVersion_V3,
			ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}},
		}}},
		HttpFilters: []*hcm.HttpFilter{{
			Name: "router", ConfigType: &hcm.HttpFilter_TypedConfig{TypedConfig: relaytest.Body(&router.Router{})},
		}},
	}
	return &listener.Listener{
		Name: "in",
		Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
			Address: "0.0.0.0", PortSpecifier: &core.SocketAddress_PortValue{PortValue: envoyPort},
		}}},
		FilterChains: []*listener.FilterChain{{Filters: []*listener.Filter{{
			Name: "hcm", ConfigType: &listener.Filter_TypedConfig{TypedConfig: relaytest.Body(manager)},
		}}}},
	}
}

// answers are routes that answer every request with a word.
func answers(word string) *route.RouteConfiguration {
	return &route.RouteConfiguration{Name: routes, VirtualHosts: []*route.VirtualHost{{
		Name: "all", Domains: []string{"*"},
		Routes: []*route.Route{{
			Match: &route.RouteMatch{PathSpecifier: &route.RouteMatch_Prefix{Prefix: "/"}},
			Action: &route.Route_DirectResponse{DirectResponse: &route.DirectResponseAction{
				Status: 200, Body: &core.DataSource{Specifier: &core.DataSource_InlineString{InlineString: word}},
			}},
		}},
	}}}
}

// publish makes a service without a selector that leads to the front.
func (o *origin) publish(t *testing.T, namespace, name string) {
	t.Helper()
	ctx := context.Background()
	portName, port, protocol := "xds", int32(o.listener.Addr().(*net.TCPAddr).Port), corev1.ProtocolTCP
	_, err := cluster.core.Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: portName, Port: originPort, Protocol: protocol}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ready := true
	_, err = cluster.discovery.EndpointSlices(namespace).Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port, Protocol: &protocol}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{gateway}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// show has the front show another certificate, to connections that all begin anew.
func (o *origin) show(cert tls.Certificate) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cert = cert
	for conn := range o.conns {
		_ = conn.Close()
	}
}

func (o *origin) close() {
	_ = o.listener.Close()
	o.mu.Lock()
	o.ended = true
	for conn := range o.conns {
		_ = conn.Close()
	}
	o.mu.Unlock()
}

// serve ends when the listener is closed.
func (o *origin) serve() {
	for {
		conn, err := o.listener.Accept()
		if err != nil {
			return
		}
		o.mu.Lock()
		if o.ended {
			_ = conn.Close()
		}
		o.conns[conn] = true
		o.mu.Unlock()
		go func() {
			o.pass(conn)
			_ = conn.Close()
			o.mu.Lock()
			delete(o.conns, conn)
			o.mu.Unlock()
		}()
	}
}

// peeked is a connection whose first bytes were looked at.
type peeked struct {
	net.Conn
	r *bufio.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.r.Read(b) }

// pass is one connection.
func (o *origin) pass(conn net.Conn) {
	const handshake = 0x16 // the first byte of TLS
	from := peeked{conn, bufio.NewReader(conn)}
	first, err := from.r.Peek(1)
	if err != nil {
		return
	}
	client := net.Conn(from)
	if first[0] == handshake {
		o.mu.Lock()
		cert := o.cert
		o.mu.Unlock()
		client = tls.Server(from, &tls.Config{
			Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12,
		})
	}
	server, err := net.Dial("tcp", o.Net().Addr())
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(client, server) // the end of either is the end of both
		_ = conn.Close()
	}()
	_, _ = io.Copy(server, client)
	_ = server.Close()
}

// count is how many of a type the origin has.
func count(typeURL string) int {
	switch typeURL {
	case relaytest.ClusterType:
		return clusters
	case relaytest.EndpointType:
		return eds
	default:
		return 1
	}
}

// endpointNames are those of the clusters that have endpoints.
func endpointNames() (names []string) {
	for i := range eds {
		names = append(names, fmt.Sprintf("cluster-%03d", i))
	}
	return names
}
