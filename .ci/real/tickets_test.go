package real

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestEnvoyResumes: an Envoy with a client certificate takes up its session at another weir if they
// have a file of ticket keys, and shakes hands in full otherwise. An Envoy does so by itself; it
// remembers one session for each cluster. In TLS 1.3 it uses a session once, also for a connection
// that fails: if weir was away, and Envoy tried, it shakes hands in full. In TLS 1.2 it does not.
func TestEnvoyResumes(t *testing.T) {
	for _, version := range []string{"TLSv1_2", "TLSv1_3"} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, keys in a file %v", version, shared), func(t *testing.T) { envoyResumes(t, version, shared) })
		}
	}
}

func envoyResumes(t *testing.T, version string, shared bool) {
	ca := weirtest.NewAuthority(t, "ca")
	ca.Issue("server", 1)
	ca.Issue("client", 2)
	secured := map[string]any{
		"cert": ca.Path("server.pem"), "key": ca.Path("server.key"), "client_ca": ca.Path("ca.pem"), "min_version": "1.2",
	}
	if shared {
		keys := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(keys, []byte(strings.Repeat("A", 43)+"=\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		secured["tickets"] = keys
	}
	e := envoy{pinned("ENVOY_NEWEST"), relaytest.Delta, true}
	b := mounted(t, e)
	bootstrap := securedBootstrap(e, ca, "client", b.front.Addr())
	tlsOf(bootstrap)["tls_params"] = map[string]any{"tls_minimum_protocol_version": version, "tls_maximum_protocol_version": version}
	start := func(disk string) *weirtest.Process {
		config := weirConfig(b.plane, disk)
		config.Listener()["tls"] = secured
		return weirtest.Start(t, config)
	}
	b.weir = start(b.disk)
	b.front.To(b.weir.Addr)
	p := startEnvoy(t, e, bootstrap, b.tally, func(c *http.Client) (string, error) { return get(c, "/") })
	b.client = p
	b.reach(0, "an Envoy with a client certificate")
	want := int64(0)
	resumes := func(n int, sentence string) {
		t.Helper()
		if shared {
			want++
		}
		b.shift(n) // it has come back
		if reused, all := p.counter(t, "ssl.session_reused"), p.counter(t, "ssl.handshake"); reused != want || all != int64(n+1) {
			t.Errorf("%s: %d sessions are taken up in %d handshakes, want %d in %d", sentence, reused, all, want, n+1)
		}
	}

	old := b.weir
	b.weir = start(b.disk + "-2")
	b.front.To(b.weir.Addr)
	old.Stop()
	resumes(1, "another process replaces the first")
	if version == "TLSv1_2" {
		b.weir.Stop()
		b.tally.More(t, 50, "requests go on without weir")
		b.weir = start(b.disk)
		b.front.To(b.weir.Addr)
		resumes(2, "weir is away for a while")
	}
	b.client.Stop()
	b.tally.Check(t)
}

// securedBootstrap is that of an Envoy with the client certificate of a name, before a weir with TLS.
func securedBootstrap(e envoy, ca *weirtest.Authority, name, server string) map[string]any {
	bootstrap := e.bootstrap("client", server)
	bootstrap["static_resources"].(map[string]any)["clusters"].([]any)[0].(map[string]any)["transport_socket"] = map[string]any{
		"name": "envoy.transport_sockets.tls", "typed_config": map[string]any{
			"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
			"common_tls_context": map[string]any{
				"validation_context": map[string]any{"trusted_ca": map[string]any{"filename": ca.Path("ca.pem")}},
				"tls_certificates": []any{map[string]any{
					"certificate_chain": map[string]any{"filename": ca.Path(name + ".pem")},
					"private_key":       map[string]any{"filename": ca.Path(name + ".key")},
				}},
			},
		},
	}
	return bootstrap
}

// tlsOf is the common TLS context of a securedBootstrap.
func tlsOf(bootstrap map[string]any) map[string]any {
	socket := bootstrap["static_resources"].(map[string]any)["clusters"].([]any)[0].(map[string]any)["transport_socket"].(map[string]any)
	return socket["typed_config"].(map[string]any)["common_tls_context"].(map[string]any)
}

// counter is one of those of the cluster that is the control plane.
func (p *proxy) counter(t *testing.T, name string) int64 {
	t.Helper()
	name = "cluster." + xdsCluster + "." + name
	body, err := get(p.admin, "/stats?filter=^"+name+"$")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(body), name+":")), 10, 64)
	if err != nil {
		t.Fatalf("%s: %v in %q", name, err, body)
	}
	return n
}
