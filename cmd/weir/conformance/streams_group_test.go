package conformance

import (
	"crypto/tls"
	"strings"
	"testing"

	xdsv3 "github.com/cncf/xds/go/xds/core/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// groupCases are about who a client is: what its node says, and what its certificate does.
var groupCases = []testCase{
	{"STREAM-4", "other dynamic parameters that are part of the group's key end the stream, and the next has them upstream", regrouped},
	{"STREAM-4", "other dynamic parameters change nothing where the key has none", notRegrouped},
	{"STREAM-5", "a node's claim opens no door, and a certificate does whatever the node says", certified},
}

// shard is the usual client, told by a dynamic parameter of clusters.
func shard(value string) *corev3.Node {
	n := relaytest.Node("client-1", "edge")
	n.DynamicParameters = map[string]*xdsv3.ContextParams{cds: {Params: map[string]string{"shard": value}}}
	return n
}

// shardsUpstream are the shards of the streams' nodes at the origin, each once, in the order they
// came.
func (w *world) shardsUpstream() string {
	var shards []string
	for _, s := range w.origin.Streams() {
		for _, r := range s.Requests() {
			if r.Node() != nil {
				shards = append(shards, r.Node().GetDynamicParameters()[cds].GetParams()["shard"])
			}
		}
	}
	return strings.Join(shards, " ")
}

var regrouped = perDialect(func(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{config: func(c weirtest.Config) {
		c.Origin().Set("group_by", []any{"cluster", "dynamic_parameters"})
		c.Set("cache.linger", "1m") // the group that is left stays, and its lane
	}})
	w.origin.Put(cds, cdsAt("a", 1))
	w.origin.Set(rds, "r", "1", relaytest.Route("r", "a"))
	c := w.client(d)
	c.Open(shard("1"))
	c.Subscribe(cds, "*")
	c.AwaitNames(cds, "the first shard's clusters arrive", "a")
	other := shard("1")
	other.Id = "somebody-else"
	c.Send(wish{typeURL: rds, names: []string{"r"}, node: other}.message(d))
	c.AwaitNames(rds, "another id with the same parameters changes nothing", "r")
	c.Send(wish{typeURL: eds, names: []string{"a"}, node: &corev3.Node{Id: "client-1"}}.message(d))
	w.origin.Await(0, func() bool { return w.origin.Asked(eds).Subscribed["a"] > 0 }, "nor does a thinner node (RELAY-94)")
	c.Send(wish{typeURL: eds, names: []string{"a", "b"}, node: shard("2")}.message(d))
	if code := c.AwaitEnd("another shard ends the stream"); code != codes.Unavailable || !strings.Contains(c.Err().Error(), "dynamic_parameters") {
		t.Errorf("it ended with %v", c.Err())
	}
	if got := w.shardsUpstream(); got != "1" {
		t.Errorf("the origin saw the shards %q before the client came back", got)
	}
	c.Open(shard("2"))
	c.Subscribe(cds, "*")
	w.origin.Await(0, func() bool { return w.shardsUpstream() == "1 2" }, "the client comes back, and the origin is asked for its shard")
	w.origin.Put(cds, cdsAt("a", 2))
	c.Await(0, func(s *relaytest.State) bool { return s.Body(cds, "a") == string(cdsAt("a", 2).Body.Value) }, "which it is served")
	c.CheckClean()
})

var notRegrouped = perDialect(func(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{config: func(c weirtest.Config) { c.Origin().Set("group_by", []any{"cluster"}) }})
	w.origin.Put(cds, cdsAt("a", 1))
	w.origin.Set(rds, "r", "1", relaytest.Route("r", "a"))
	c := w.client(d)
	c.Open(shard("1"))
	c.Subscribe(cds, "*")
	c.AwaitNames(cds, "the clusters arrive", "a")
	c.Send(wish{typeURL: rds, names: []string{"r"}, node: shard("2")}.message(d))
	c.AwaitNames(rds, "the stream goes on with another shard", "r")
	w.origin.Put(cds, cdsAt("a", 2))
	c.Expect(cds, "and gets what changes")
	if got := strings.TrimSpace(w.shardsUpstream()); got != "" {
		t.Errorf("parameters that are not in the key went upstream: %q", got)
	}
	c.CheckClean()
})

// certified: who is served is decided by the certificate alone. Rules about which peer may see what
// (`authorization`) are not here yet; they will have to go by the peer as well.
func certified(t *testing.T) {
	ca, stranger := weirtest.NewAuthority(t, "ca"), weirtest.NewAuthority(t, "stranger")
	ca.Issue("server", 1)
	ca.Issue("client", 2)
	stranger.Issue("client", 3)
	w := start(t, setup{edge: func(c weirtest.Config) {
		c.Listener().Set("tls", map[string]any{"cert": ca.Path("server.pem"), "key": ca.Path("server.key"), "client_ca": ca.Path("ca.pem")})
		c.Origin().Set("group_by", []any{"id"})
	}})
	w.origin.Put(cds, cdsAt("a", 1))
	connect := func(cert *tls.Certificate) *grpc.ClientConn {
		creds := credentials.NewTLS(&tls.Config{
			RootCAs: ca.Pool, MinVersion: tls.VersionTLS13,
			// Shown even if weir asks for those of another authority.
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil },
		})
		return weirtest.Connect(t, w.weir.Addr, grpc.WithTransportCredentials(creds))
	}
	good, strange := ca.Pair("client"), stranger.Pair("client")
	c := newClient(t, connect(&good), relaytest.ClientConfig{})
	for _, id := range []string{"legit", "", "somebody-else"} {
		c.Open(relaytest.Node(id, "edge"))
		c.Subscribe(cds, "*")
		c.Expect(cds, "a client with a certificate of the CA is served, as "+id)
	}
	c.CheckClean()
	streams := len(w.origin.Streams())
	for who, cert := range map[string]*tls.Certificate{"no certificate": {}, "another CA's certificate": &strange} {
		stream, err := discovery.NewAggregatedDiscoveryServiceClient(connect(cert)).StreamAggregatedResources(t.Context())
		if err == nil {
			_ = stream.Send(&discovery.DiscoveryRequest{TypeUrl: cds, Node: relaytest.Node("legit", "edge")})
			_, err = stream.Recv()
		}
		// of no stream: the connection does not come about
		if status.Code(err) != codes.Unavailable {
			t.Errorf("a client with %s and the node of one who is served: want no connection, got %v", who, err)
		}
	}
	if n := len(w.origin.Streams()); n != streams {
		t.Errorf("the origin sees %d streams after the refusals, %d before", n, streams)
	}
}
