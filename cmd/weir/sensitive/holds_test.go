package sensitive

import (
	"encoding/base64"
	"fmt"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	extauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-xds/weir/relay/relaytest"
)

func inlineText(s string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: s}}
}

func inlineRaw(s string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: []byte(s)}}
}

func fileName(s string) *corev3.DataSource {
	return &corev3.DataSource{
		Specifier: &corev3.DataSource_Filename{Filename: s}, WatchedDirectory: &corev3.WatchedDirectory{Path: "/keys"},
	}
}

func socket(c *tlsv3.TlsCertificate) *corev3.TransportSocket {
	body := relaytest.Body(&tlsv3.DownstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{TlsCertificates: []*tlsv3.TlsCertificate{c}}})
	return &corev3.TransportSocket{Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: body}}
}

func listener(c *tlsv3.TlsCertificate) *anypb.Any {
	return relaytest.Body(&listenerv3.Listener{Name: "l", FilterChains: []*listenerv3.FilterChain{{}, {TransportSocket: socket(c)}}})
}

func provider(config *anypb.Any) *tlsv3.TlsCertificate {
	return &tlsv3.TlsCertificate{PrivateKeyProvider: &tlsv3.PrivateKeyProvider{
		ProviderName: "hsm", ConfigType: &tlsv3.PrivateKeyProvider_TypedConfig{TypedConfig: config},
	}}
}

// opaque is a message of a type that is not known.
func opaque(text string) *anypb.Any {
	return &anypb.Any{TypeUrl: "type.googleapis.com/acme.Filter", Value: append([]byte{0x0a, byte(len(text))}, text...)}
}

const pemKey = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----\n"

// TestHolds: what is a key, and what only looks like one.
func TestHolds(t *testing.T) {
	encoded := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	broken := listener(&tlsv3.TlsCertificate{})
	broken.Value = append(broken.Value, 0xff)
	route := func(s *extauthzv3.CheckSettings) *anypb.Any {
		per := relaytest.Body(&extauthzv3.ExtAuthzPerRoute{Override: &extauthzv3.ExtAuthzPerRoute_CheckSettings{CheckSettings: s}})
		return relaytest.Body(&routev3.RouteConfiguration{Name: "r", TypedPerFilterConfig: map[string]*anypb.Any{"authz": per}})
	}
	later := listener(&tlsv3.TlsCertificate{})
	later.Value = protowire.AppendString(protowire.AppendTag(later.Value, 9999, protowire.BytesType), "of a later API")
	for name, c := range map[string]struct {
		body *anypb.Any
		want bool
	}{
		"key, text":             {listener(&tlsv3.TlsCertificate{PrivateKey: inlineText("k")}), true},
		"key, bytes":            {listener(&tlsv3.TlsCertificate{PrivateKey: inlineRaw("k")}), true},
		"key in a file":         {listener(&tlsv3.TlsCertificate{PrivateKey: fileName("/keys/tls.key")}), false},
		"empty key":             {listener(&tlsv3.TlsCertificate{PrivateKey: inlineText("")}), false},
		"certificate":           {listener(&tlsv3.TlsCertificate{CertificateChain: inlineText("-----BEGIN CERTIFICATE-----")}), false},
		"password":              {listener(&tlsv3.TlsCertificate{PrivateKey: fileName("f"), Password: inlineText("p")}), true},
		"pkcs12":                {listener(&tlsv3.TlsCertificate{Pkcs12: inlineRaw("p")}), true},
		"provider, unknown":     {listener(provider(opaque("key"))), true},
		"provider, of a number": {listener(provider(relaytest.Body(durationpb.New(5)))), false},
		"provider, of a file":   {listener(provider(relaytest.Body(&tlsv3.TlsCertificate{PrivateKey: fileName("f")}))), false},
		"secret":                {relaytest.Secret("s", "value"), true},
		"cluster": {relaytest.Body(&clusterv3.Cluster{Name: "c", TransportSocketMatches: []*clusterv3.Cluster_TransportSocketMatch{
			{TransportSocket: socket(&tlsv3.TlsCertificate{PrivateKey: inlineText("k")})},
		}}), true},
		"plain cluster":      {relaytest.EDSCluster("c", "x"), false},
		"plain route":        {relaytest.Route("r", "c"), false},
		"endpoints":          {relaytest.Endpoints("e", "10.0.0.1:80"), false},
		"ext_authz":          {route(&extauthzv3.CheckSettings{ContextExtensions: map[string]string{"a": "b"}}), false},
		"any in any":         {relaytest.Body(listener(&tlsv3.TlsCertificate{PrivateKey: inlineText("k")})), true},
		"unknown":            {opaque("nothing"), false},
		"unknown, PEM":       {opaque(pemKey), true},
		"unknown, base64":    {opaque(encoded(pemKey)), true},
		"unknown, cert":      {opaque(encoded("-----BEGIN CERTIFICATE-----\n")), false},
		"unknown, public":    {opaque(encoded("-----BEGIN PUBLIC KEY-----\n")), false},
		"unknown, cert, key": {opaque(encoded("-----BEGIN CERTIFICATE-----\n") + encoded(pemKey)), true},
		"broken":             {broken, true},
		"of a later API":     {later, false},
	} {
		encoded, err := proto.Marshal(c.body)
		if err != nil {
			t.Fatal(err)
		}
		if got := Holds(encoded); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if Holds(nil) || !Holds([]byte{0xff}) {
		t.Error("nothing, or what is no message")
	}
}

// BenchmarkHolds looks at resources as they are, in nanoseconds and bytes a second. It allocates
// the type URLs of messages inside others, and nothing else.
func BenchmarkHolds(b *testing.B) {
	var hosts []string
	for i := range 100 {
		hosts = append(hosts, fmt.Sprintf("10.0.0.%d:80", i))
	}
	for name, body := range map[string]*anypb.Any{
		"cluster": relaytest.EDSCluster("c", "x"), "endpoints": relaytest.Endpoints("e", hosts...),
		"listener": listener(&tlsv3.TlsCertificate{CertificateChain: inlineText(pemKey[:20]), PrivateKey: fileName("f")}),
	} {
		b.Run(name, func(b *testing.B) {
			encoded, err := proto.Marshal(body)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(encoded)))
			b.ReportAllocs()
			for b.Loop() {
				Holds(encoded)
			}
		})
	}
}
