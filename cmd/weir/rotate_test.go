package main

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// volume is a directory as Kubernetes mounts a Secret: files are links through
// ..data, which one rename turns to the next version.
type volume struct {
	t   *testing.T
	dir string
	n   int
}

func newVolume(t *testing.T) *volume { return &volume{t: t, dir: t.TempDir()} }

func (v *volume) path(name string) string { return filepath.Join(v.dir, name) }

// swap puts the named files in place, all at once.
func (v *volume) swap(files map[string]string) {
	v.t.Helper()
	v.n++
	version := fmt.Sprintf("..v%d", v.n)
	must := func(err error) {
		v.t.Helper()
		if err != nil {
			v.t.Fatal(err)
		}
	}
	must(os.Mkdir(v.path(version), 0o700))
	for name, from := range files {
		text, err := os.ReadFile(from)
		must(err)
		must(os.WriteFile(filepath.Join(v.path(version), name), text, 0o600))
		if v.n == 1 {
			must(os.Symlink("..data/"+name, v.path(name)))
		}
	}
	must(os.Symlink(version, v.path("..data_tmp")))
	must(os.Rename(v.path("..data_tmp"), v.path("..data")))
	if v.n > 1 {
		must(os.RemoveAll(v.path(fmt.Sprintf("..v%d", v.n-1))))
	}
}

func serverFiles(a *weirtest.Authority) map[string]string {
	return map[string]string{"tls.crt": a.Path("server.pem"), "tls.key": a.Path("server.key"), "ca.crt": a.Path("ca.pem")}
}

// Both sides change from one authority to another while a client is served: no
// stream is cut while both are trusted, and new connections go by what is new.
func TestRotation(t *testing.T) {
	old, next := weirtest.NewAuthority(t, "old"), weirtest.NewAuthority(t, "next")
	for _, a := range []*weirtest.Authority{old, next} {
		a.Issue("server", 1)
		a.Issue("client", 2)
	}
	pair := func(a *weirtest.Authority, name string) *tls.Certificate {
		p := a.Pair(name)
		return &p
	}
	var shown atomic.Pointer[tls.Certificate] // by the origin
	shown.Store(pair(old, "server"))
	var shownByWeir atomic.Value
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Options: []grpc.ServerOption{
		grpc.Creds(credentials.NewTLS(&tls.Config{
			MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAnyClientCert,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return shown.Load(), nil },
			VerifyConnection: func(s tls.ConnectionState) error {
				shownByWeir.Store(s.PeerCertificates[0].Issuer.CommonName)
				return nil
			},
		})),
	}})
	origin.Set(relaytest.ClusterType, "a", "1", relaytest.Cluster("a", time.Second))
	ours, theirs := newVolume(t), newVolume(t)
	ours.swap(serverFiles(old))
	theirs.swap(map[string]string{"ca.crt": old.Path("ca.pem"), "tls.crt": old.Path("client.pem"), "tls.key": old.Path("client.key")})
	w := startWeir(t, fmt.Sprintf(`
listeners: [{ address: "127.0.0.1:0", tls: { cert: %q, key: %q, client_ca: %q } }]
admin: { address: "127.0.0.1:0" }
origins: [{ name: mesh, grpc: { addresses: [%q], tls: { ca: %q, cert: %q, key: %q, server_name: 127.0.0.1 } } }]
timing: { pause: 50ms, backoff: { base: 50ms, max: 200ms } }
`, ours.path("tls.crt"), ours.path("tls.key"), ours.path("ca.crt"), origin.Net().Addr(),
		theirs.path("ca.crt"), theirs.path("tls.crt"), theirs.path("tls.key")))
	client := func(a *weirtest.Authority) *relaytest.Client {
		c := openClient(t, dial(t, w.listenAddress(), withTLS(&tls.Config{RootCAs: a.Pool, Certificates: []tls.Certificate{*pair(a, "client")}})), relaytest.Delta)
		c.Request(relaytest.ClusterType)
		return c
	}
	first := client(old)
	first.AwaitNames(relaytest.ClusterType, "served under the old authority", "a")

	var text []byte
	for _, a := range []*weirtest.Authority{old, next} {
		one, err := os.ReadFile(a.Path("ca.pem"))
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, one...)
	}
	both := filepath.Join(t.TempDir(), "both.pem")
	if err := os.WriteFile(both, text, 0o600); err != nil {
		t.Fatal(err)
	}
	files := serverFiles(next)
	files["ca.crt"] = both
	ours.swap(files)
	theirs.swap(map[string]string{"ca.crt": both, "tls.crt": next.Path("client.pem"), "tls.key": next.Path("client.key")})
	await(t, "all four files are taken, two of them as one pair each", func() bool { return w.logs.FilterMessage(inUse).Len() == 4 })
	second := client(next)
	second.AwaitNames(relaytest.ClusterType, "a client of the new authority is served", "a")
	if n := len(origin.Streams()); n != 1 || !w.origin(t).Connected {
		t.Errorf("the origin saw %d streams: a change of files cuts no connection", n)
	}
	if by := shownByWeir.Load(); by != "old" {
		t.Errorf("the origin was shown a certificate of %v", by)
	}

	shown.Store(pair(next, "server"))
	origin.CloseConns()
	origin.Set(relaytest.ClusterType, "b", "1", relaytest.Cluster("b", time.Second))
	for _, c := range []*relaytest.Client{first, second} {
		c.AwaitNames(relaytest.ClusterType, "the origin shows the new authority's and is believed", "a", "b")
		c.CheckClean()
	}
	if by := shownByWeir.Load(); by != "next" {
		t.Errorf("the origin was shown a certificate of %v", by)
	}
	if _, body := w.get("/metrics"); !strings.Contains(body, `weir_tls_certificate_expiry_timestamp_seconds{role="origin_ca"} 1.`) {
		t.Error("the metrics lack when the origin's authority ends")
	}
	ours.swap(serverFiles(next))
	if code := first.AwaitEnd("the old authority is gone"); code != codes.Unavailable {
		t.Errorf("the client of the old authority ends with %v", first.Err())
	}
	if second.Err() != nil || len(origin.Streams()) != 2 {
		t.Errorf("the other one: %v; the origin saw %d streams", second.Err(), len(origin.Streams()))
	}
	if n := w.logs.FilterMessage(notUsable).Len(); n != 0 {
		t.Errorf("%d times files could not be used: a volume changes all at once", n)
	}
}
