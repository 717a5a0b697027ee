package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// trusting is a weir whose listener goes by client_ca and crl, which the test changes.
type trusting struct {
	*running
	t    *testing.T
	root *weirtest.Authority
}

func newTrusting(t *testing.T) *trusting {
	root := weirtest.NewAuthority(t, "root")
	root.Issue("server", 1)
	root.Revoke()
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := startWeir(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\", %s }]\nadmin: { address: \"127.0.0.1:0\" }\n",
		tlsOf(root, fmt.Sprintf(", client_ca: %q, crl: %q", root.Path("ca.pem"), root.Path("crl.pem"))))+filesOrigin(dir))
	return &trusting{w, t, root}
}

// client is served with a certificate of an authority.
func (w *trusting) client(by *weirtest.Authority, serial int64) (*relaytest.Client, *grpc.ClientConn) {
	w.t.Helper()
	by.Issue("client", serial)
	conn := dial(w.t, w.listenAddress(), withTLS(&tls.Config{RootCAs: w.root.Pool, Certificates: []tls.Certificate{by.Pair("client")}}))
	c := openClient(w.t, conn, relaytest.Delta)
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "served", "a")
	return c, conn
}

// ends awaits the end of a stream and of its connection, and that weir refuses another one.
func (w *trusting) ends(c *relaytest.Client, conn *grpc.ClientConn, why string) {
	w.t.Helper()
	if code := c.AwaitEnd(why); code != codes.Unavailable || !strings.Contains(c.Err().Error(), why) {
		w.t.Errorf("ended with %v, want %s", c.Err(), why)
	}
	soon, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	if !conn.WaitForStateChange(soon, connectivity.Ready) {
		w.t.Fatal("the connection stays")
	}
	conn.Connect()
	for s := conn.GetState(); s != connectivity.TransientFailure; s = conn.GetState() {
		if !conn.WaitForStateChange(soon, s) {
			w.t.Fatalf("%s: it is let in again", why)
		}
	}
}

// TestTrustEnds: with a real weir streams end when a CRL names the certificate of their client, or
// an authority between it and the root, and when that authority is taken out of client_ca. Nobody
// ends while both the old and the new authority are in it. A CRL that cannot be used changes
// nothing, and is counted.
func TestTrustEnds(t *testing.T) {
	w := newTrusting(t)
	left, right := w.root.Intermediate("left", 10), w.root.Intermediate("right", 11)
	stays, _ := w.client(w.root, 20)
	leaf, leafConn := w.client(w.root, 21)
	below, belowConn := w.client(left, 22)
	besides, _ := w.client(right, 23)

	w.root.Revoke(21)
	w.ends(leaf, leafConn, "the certificate that opened the connection is revoked")
	w.root.Revoke(21, 10)
	w.ends(below, belowConn, "the certificate that opened the connection is revoked")
	if _, body := w.get("/metrics"); !strings.Contains(body, `weir_streams_ended_total{reason="certificate"} 2`) ||
		strings.Contains(body, `weir_handshake_failures_total{reason="revoked"} 0`) {
		t.Error("it is not counted")
	}
	if _, body := w.get("/metrics"); !strings.Contains(body, "weir_tls_crl_next_update_timestamp_seconds 1.") {
		t.Error("the metrics lack when the CRL is due")
	}
	if w.logs.FilterMessage("a TLS handshake with a client failed").FilterField(zap.String("reason", "revoked")).Len() == 0 {
		t.Error("no line of the log says who is refused")
	}

	const takenAt = "weir_tls_last_reload_success_timestamp_seconds"
	at := w.value(takenAt, "crl")
	if at < float64(time.Now().Add(-patience).Unix()) || w.value(takenAt, "listener") == 0 {
		t.Errorf("the CRL was taken at %v, the certificate at %v", at, w.value(takenAt, "listener"))
	}
	if err := os.WriteFile(w.root.Path("crl.pem"), []byte("-----BEGIN X509 CRL-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, "a bad CRL is counted", func() bool {
		_, body := w.get("/metrics")
		return strings.Contains(body, `weir_tls_reloads_total{result="error",role="crl"} 1`)
	})
	if now := w.value(takenAt, "crl"); now != at {
		t.Errorf("a CRL that cannot be used was taken at %v, it says", now)
	}
	if line := w.logs.FilterMessage(notUsable).All(); len(line) != 1 || line[0].ContextMap()["key"] != "listeners[0].tls.crl" ||
		!strings.Contains(fmt.Sprint(line[0].ContextMap()["error"]), w.root.Path("crl.pem")+" is cut off") {
		t.Errorf("the log has %v", line)
	}

	next := weirtest.NewAuthority(t, "next")
	both := func() []byte {
		var all []byte
		for _, a := range []*weirtest.Authority{w.root, next} {
			text, err := os.ReadFile(a.Path("ca.pem"))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text...)
		}
		return all
	}()
	taken := w.logs.FilterMessage(inUse).Len()
	if err := os.WriteFile(w.root.Path("ca.pem"), both, 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, "both authorities are in use", func() bool { return w.logs.FilterMessage(inUse).Len() > taken })
	fresh, _ := w.client(next, 2)
	time.Sleep(time.Second)
	for _, c := range []*relaytest.Client{stays, besides, fresh} {
		if c.Err() != nil {
			t.Errorf("ended while its authority is in client_ca: %v", c.Err())
		}
	}

	text, err := os.ReadFile(next.Path("ca.pem"))
	if err == nil {
		err = os.WriteFile(w.root.Path("ca.pem"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*relaytest.Client{stays, besides} {
		if code := c.AwaitEnd("its authority is gone"); code != codes.Unavailable || !strings.Contains(c.Err().Error(), "the authority of the certificate that opened the connection is no longer trusted") {
			t.Errorf("ended with %v", c.Err())
		}
	}
	if fresh.Err() != nil {
		t.Errorf("the new authority's ended: %v", fresh.Err())
	}
}

// TestBadCRLAtStart: weir does not start with a CRL that it cannot use, and says where and why.
func TestBadCRLAtStart(t *testing.T) {
	ca, other := weirtest.NewAuthority(t, "ca"), weirtest.NewAuthority(t, "other")
	ca.Issue("server", 1)
	other.Revoke(2)
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	_, err := tryWeir(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\", %s }]\nadmin: { address: \"127.0.0.1:0\" }\n",
		tlsOf(ca, fmt.Sprintf(", client_ca: %q, crl: %q", ca.Path("ca.pem"), other.Path("crl.pem"))))+filesOrigin(dir))
	if err == nil || !strings.Contains(err.Error(), "weir.yaml:1:") || !strings.Contains(err.Error(), "listeners[0].tls.crl: "+other.Path("crl.pem")+
		": CRL 1 of 1, by CN=other: that is no authority of client_ca") {
		t.Errorf("got %v", err)
	}
}

// TestAdminOfTheRevoked: on a kept connection to the admin port a client is refused once its
// certificate is revoked.
func TestAdminOfTheRevoked(t *testing.T) {
	ca := weirtest.NewAuthority(t, "ca")
	ca.Issue("server", 1)
	ca.Issue("client", 2)
	ca.Revoke()
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := startWeir(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\" }]\nadmin: { address: \"127.0.0.1:0\", %s }\n",
		tlsOf(ca, fmt.Sprintf(", client_ca: %q, crl: %q", ca.Path("ca.pem"), ca.Path("crl.pem"))))+filesOrigin(dir))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: ca.Pool, Certificates: []tls.Certificate{ca.Pair("client")},
	}}}
	defer client.CloseIdleConnections()
	ask := func() (code int, err error) {
		resp, err := client.Get("https://" + w.admin.listener.Addr().String() + "/clients")
		if err != nil {
			return 0, err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, resp.Body.Close()
	}
	if code, err := ask(); err != nil || code != http.StatusOK {
		t.Fatal(code, err)
	}
	ca.Revoke(2)
	await(t, "the CRL is in use", func() bool { return w.logs.FilterMessage(inUse).Len() == 1 })
	if code, err := ask(); err != nil || code != http.StatusForbidden {
		t.Error("on the connection from before", code, err)
	}
	if code, err := ask(); err == nil {
		t.Error("on a new connection", code)
	}
}

// TestOriginIsTrustedNoMore: when the ca of an origin changes, weir hears nothing more of a server
// whose certificate it does not verify. Clients keep what they have, and new ones are served it.
// Once the server shows another certificate they are sent the difference.
func TestOriginIsTrustedNoMore(t *testing.T) {
	old, next := weirtest.NewAuthority(t, "old"), weirtest.NewAuthority(t, "next")
	old.Issue("server", 1)
	next.Issue("server", 2)
	var shown atomic.Pointer[weirtest.Authority]
	shown.Store(old)
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Options: []grpc.ServerOption{
		grpc.Creds(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair := shown.Load().Pair("server")
			return &pair, nil
		}})),
	}})
	origin.Set(relaytest.ClusterType, "a", "1", relaytest.Cluster("a", time.Second))
	file := filepath.Join(t.TempDir(), "ca.pem")
	trust := func(authorities ...*weirtest.Authority) {
		t.Helper()
		var all []byte
		for _, a := range authorities {
			text, err := os.ReadFile(a.Path("ca.pem"))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text...)
		}
		if err := os.WriteFile(file, all, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trust(old)
	w := startWeir(t, fmt.Sprintf(`
listeners: [{ address: "127.0.0.1:0" }]
admin: { address: "127.0.0.1:0" }
origins: [{ name: mesh, grpc: { addresses: [%q], tls: { ca: %q, server_name: 127.0.0.1 } } }]
timing: { pause: 50ms, backoff: { base: 50ms, max: 200ms } }
`, origin.Net().Addr(), file))
	first := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	first.Request(relaytest.ClusterType)
	first.AwaitNames(relaytest.ClusterType, "served", "a")

	trust(old, next)
	await(t, "both are in use", func() bool { return w.logs.FilterMessage(inUse).Len() == 1 })
	if n := len(origin.Streams()); n != 1 || !w.origin(t).Connected {
		t.Errorf("with both authorities the origin saw %d streams", n)
	}

	trust(next)
	await(t, "weir is not connected", func() bool { return !w.origin(t).Connected })
	origin.Set(relaytest.ClusterType, "b", "1", relaytest.Cluster("b", time.Second))
	second := openClient(t, dial(t, w.listenAddress()), relaytest.SotW)
	second.Request(relaytest.ClusterType)
	second.AwaitNames(relaytest.ClusterType, "served from the cache", "a")
	if names := first.Names(relaytest.ClusterType); first.Err() != nil || !slices.Equal(names, []string{"a"}) {
		t.Errorf("the first client has %v: %v", names, first.Err())
	}

	shown.Store(next)
	for _, c := range []*relaytest.Client{first, second} {
		c.AwaitNames(relaytest.ClusterType, "the server shows a certificate that is trusted", "a", "b")
		c.CheckClean()
	}
}
