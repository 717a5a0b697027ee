package admin

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/sensitive"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay/relaytest"
)

func TestResources(t *testing.T) {
	w := newWorld(t)
	w.hold(map[string]*anypb.Any{
		"a": relaytest.Cluster("a", time.Second), "b": relaytest.Cluster("b", time.Second),
	}, relaytest.ClusterType)

	list := w.get("/resources")
	want(t, list, http.StatusOK, `"name": "a"`, `"name": "b"`, `"type": "cds"`, `"truncated": false`)
	if strings.Contains(list.Body.String(), "connectTimeout") {
		t.Errorf("bodies in a list that did not ask for them:\n%s", list.Body)
	}
	want(t, w.get("/resources?bodies=true"), http.StatusOK, "connectTimeout")
	one := w.get("/resources?type=cds&origin=mesh&name=a")
	want(t, one, http.StatusOK, `"name": "a"`, "connectTimeout")
	if strings.Contains(one.Body.String(), `"b"`) {
		t.Errorf("b was not asked for:\n%s", one.Body)
	}
	for _, nothing := range []string{"type=eds", "name=x"} {
		want(t, w.get("/resources?"+nothing), http.StatusOK, `"resources": []`)
	}
	for _, wrong := range []string{"type=bogus", "limit=0", "limit=x", "bodies=x", "bodies=", "origin=x", "group=x", "nam=x", "name=a&name=b"} {
		want(t, w.get("/resources?"+wrong), http.StatusBadRequest, strings.SplitN(wrong, "=", 2)[0])
	}
}

func TestLimit(t *testing.T) {
	w := newWorld(t)
	bodies := map[string]*anypb.Any{}
	for i := range defaultLimit + 1 {
		name := fmt.Sprintf("c%04d", i)
		bodies[name] = relaytest.Cluster(name, time.Second)
		w.clients = append(w.clients, downstream.ClientStatus{Stream: uint64(i), Types: []downstream.TypeStatus{{Nacks: 1}}})
	}
	w.hold(bodies, relaytest.ClusterType)
	for path, item := range map[string]string{
		"/resources": `"bytes"`, "/clients": `"synced"`, "/nacks": `"nonce"`,
	} {
		for query, n := range map[string]int{"": defaultLimit, "?limit=2": 2, "?limit=5000": defaultLimit + 1} {
			rec := w.get(path + query)
			want(t, rec, http.StatusOK, fmt.Sprintf(`"truncated": %v`, n <= defaultLimit))
			if got := strings.Count(rec.Body.String(), item); got != n {
				t.Errorf("%s%s: %d items, want %d", path, query, got, n)
			}
		}
	}
	if rec := w.get("/overview"); strings.Contains(rec.Body.String(), "c0001") || strings.Contains(rec.Body.String(), `"synced"`) {
		t.Errorf("the overview has lists:\n%s", rec.Body)
	}
}

// TestMatch: resources are found by a part of their name, as the search of the page does.
func TestMatch(t *testing.T) {
	w := newWorld(t)
	w.hold(map[string]*anypb.Any{"web-1": relaytest.Cluster("web-1", time.Second), "db-1": relaytest.Cluster("db-1", time.Second)}, relaytest.ClusterType)
	for query, n := range map[string]int{"match=*eb*": 1, "match=*-1": 2, "match=web": 0, "match=db-1": 1, "match=": 2} {
		if got := strings.Count(w.get("/resources?"+query).Body.String(), `"bytes"`); got != n {
			t.Errorf("%s: %d resources, want %d", query, got, n)
		}
	}
}

func TestSecretsAreNeverShown(t *testing.T) {
	w := newWorld(t)
	w.hold(map[string]*anypb.Any{"s": relaytest.Secret("s", "hush-hush")}, relaytest.SecretType)
	rec := w.get("/resources?type=sds&name=s&bodies=true")
	want(t, rec, http.StatusOK, `"secret": true`, `"name": "s"`)
	for _, part := range []string{`"body"`, "hush", `"version":`} {
		if strings.Contains(rec.Body.String(), part) {
			t.Errorf("%s is shown:\n%s", part, rec.Body)
		}
	}
}

// A private key inside a cluster's transport socket, which is an Any of its
// own, is blanked; the rest stays.
func TestSensitiveFieldsAreBlanked(t *testing.T) {
	const blanked = "[blanked]"
	inline := func(s string) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: s}}
	}
	socket, err := anypb.New(&tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		TlsCertificates: []*tlsv3.TlsCertificate{{
			CertificateChain: inline("PUBLIC"), PrivateKey: inline("HUSH"), Password: inline("HUSH"),
			PrivateKeyProvider: &tlsv3.PrivateKeyProvider{
				ProviderName: "hsm",
				ConfigType:   &tlsv3.PrivateKeyProvider_TypedConfig{TypedConfig: relaytest.Opaque("HUSH", "HUSH")},
			},
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	body, err := anypb.New(&clusterv3.Cluster{Name: "a", TransportSocket: &corev3.TransportSocket{
		Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: socket},
	}})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.hold(map[string]*anypb.Any{"a": proto.Clone(body).(*anypb.Any)}, relaytest.ClusterType)
	shown := w.get("/resources?name=a")
	want(t, shown, http.StatusOK, blanked, "PUBLIC")
	if strings.Contains(shown.Body.String(), "HUSH") {
		t.Errorf("what is sensitive is shown: %s", shown.Body)
	}

	sensitive.Blank(body)
	text, err := protojson.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "HUSH") || strings.Count(string(text), blanked) != 2 {
		t.Errorf("sensitive fields are not blanked: %s", text)
	}
	for _, part := range []string{"PUBLIC", "hsm", `"a"`, "privateKey"} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s is lost: %s", part, text)
		}
	}
}
