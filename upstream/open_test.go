package upstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

func TestHeaders(t *testing.T) {
	headers := func(c *Config) {
		c.Headers = map[string]string{"x-tenant": "blue", "authorization": "Bearer fixed"}
		c.Version = "1.2.3"
	}
	both(t, options{config: headers}, func(w *world) {
		w.want(opaque, "a")
		md := w.origin.ExpectStream("a stream").Metadata
		if got := md.Get("x-tenant"); !slices.Equal(got, []string{"blue"}) {
			t.Errorf("x-tenant is %q", got)
		}
		if got := md.Get("authorization"); !slices.Equal(got, []string{"Bearer fixed"}) {
			t.Errorf("authorization is %q", got)
		}
		if got := md.Get("user-agent"); len(got) != 1 || !strings.HasPrefix(got[0], "weir/1.2.3") {
			t.Errorf("user-agent is %q", got)
		}
	})
}

// keyPair makes a certificate for the host memory, valid in the bubble's year and in ours.
func keyPair(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "memory"}, DNSNames: []string{"memory"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

func TestTokenFileIsReadForEachStream(t *testing.T) {
	pair, roots := keyPair(t)
	token := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(token, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	secure := relaytest.OriginConfig{Options: []grpc.ServerOption{
		grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13})),
	}}
	in(t, options{origin: secure, config: func(c *Config) {
		c.TLS = func() *tls.Config { return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13} }
		c.TokenFile = token
	}}, func(w *world) {
		w.want(opaque, "a")
		s := w.origin.ExpectStream("a stream over TLS, to the host the address names")
		if got := s.Metadata.Get("authorization"); !slices.Equal(got, []string{"Bearer one"}) {
			t.Errorf("authorization is %q", got)
		}
		s.Expect("the request")
		s.Respond(opaque, "1", res("a", "1"))
		s.Expect("the ACK")
		write("two")
		s.End(nil)
		s, _ = w.gap(s, "the next stream")
		if got := s.Metadata.Get("authorization"); !slices.Equal(got, []string{"Bearer two"}) {
			t.Errorf("authorization is %q", got)
		}
		s.Expect("the request")
		s.Respond(opaque, "1", res("a", "1"))
		s.Expect("the ACK")
		if err := os.Remove(token); err != nil {
			t.Fatal(err)
		}
		s.End(nil)
		w.origin.WantNoStream(5 * time.Second)
		w.wantLines(1, "token_file", "without the file no stream is opened, and the log says why")
		for _, e := range w.logs.All() {
			for _, f := range e.Context {
				if strings.Contains(f.String, "two") {
					t.Errorf("the token is in the log: %v", e)
				}
			}
		}
	})
}

func TestUntrustedServer(t *testing.T) {
	pair, _ := keyPair(t)
	secure := relaytest.OriginConfig{Options: []grpc.ServerOption{
		grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13})),
	}}
	in(t, options{origin: secure, config: func(c *Config) {
		c.TLS = func() *tls.Config { return &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS13} }
	}}, func(w *world) {
		w.want(opaque, "a")
		w.origin.WantNoStream(time.Second)
		w.wantLines(1, "certificate", "the log says what is wrong with the connection")
	})
}

// TestAddressForms is over real sockets, with the dialler of our own.
func TestAddressForms(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	for _, n := range []*relaytest.Net{relaytest.TCP(), relaytest.Unix(socket)} {
		origin := relaytest.NewOrigin(t, n, relaytest.OriginConfig{})
		address := n.Addr()
		if address == socket {
			address = unixScheme + socket
		}
		w := startOn(t, origin, address)
		w.want(opaque, "a")
		s := origin.ExpectStream("a stream comes to " + address)
		s.ExpectNames(opaque, "and asks", "a")
		s.ExpectACK(opaque, s.Respond(opaque, "1", res("a", "1")), "and is answered")
		w.stop()
	}
}

// startOn is begin without a bubble.
func startOn(t *testing.T, origin *relaytest.Origin, address string) *world {
	t.Helper()
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "mesh"}}})
	if err != nil {
		t.Fatal(err)
	}
	up, err := New(Config{Name: "mesh", Addresses: []string{address}}, table.Origin("mesh"))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, origin: origin, table: table, up: up}
	w.group = w.groupOf("edge")
	w.run()
	return w
}

func TestCounts(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	in(t, options{config: func(c *Config) { c.Metrics = metrics.New(reg) }}, func(w *world) {
		s := w.asked()
		s.Respond(opaque, "1", res("a", "1"), res("stray", "1"))
		s.Expect("the ACK")
		s.Respond(opaque, "1", relaytest.Resource{Name: "b", Body: relaytest.Cluster("b", time.Second)})
		s.Expect("the NACK")
		s.Respond(cds, "1", relaytest.Resource{Name: "b", Version: "1", Body: relaytest.Cluster("b", time.Second)})
		s.End(nil)
		_, _ = w.gap(s, "a new stream")
		w.want(lds, "*") // which is always answered
		time.Sleep(11 * time.Second)
		synctest.Wait()
		for metric, want := range map[string]float64{
			"weir_upstream_reconnects_total": 1, "weir_upstream_nacks_total": 1, "weir_upstream_unrequested_total": 2,
			"weir_upstream_rejected_resources_total": 1, "weir_upstream_silent_total": 1,
		} {
			if got := total(t, reg, metric); got != want {
				t.Errorf("%s is %v, want %v", metric, got, want)
			}
		}
	})
}

// total is the sum of a metric's series.
func total(t *testing.T, reg *prometheus.Registry, metric string) (sum float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != metric {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum
}

func TestConfigProblemsAreAllReported(t *testing.T) {
	_, err := New(Config{
		Addresses: make([]string, maxAddresses+1), TokenFile: "token",
		Headers: map[string]string{"X": "", "grpc-x": "", "authorization": ""},
	}, nil)
	if err == nil {
		t.Fatal("want problems")
	}
	for _, want := range []string{
		"addresses: 255 are more than 254", `"X"`, `"grpc-x"`, "authorization", "no such origin",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not reported:\n%v", want, err)
		}
	}
}

func TestZeroConfigHasTheDocumentedDefaults(t *testing.T) {
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "mesh"}}})
	if err != nil {
		t.Fatal(err)
	}
	o, err := New(Config{Name: "mesh", Addresses: []string{"unix:///run/x.sock"}}, table.Origin("mesh"))
	if err != nil {
		t.Fatal(err)
	}
	c := o.cfg
	if c.MaxMessage != 64<<20 || c.Pause != time.Second || c.Batch != 10*time.Millisecond ||
		c.Backoff != (Backoff{Base: time.Second, Factor: 1.6, Jitter: 0.2, Max: 5 * time.Second}) ||
		c.Keepalive != (Keepalive{Time: 5 * time.Minute, Timeout: 10 * time.Second}) {
		t.Errorf("got %+v", c)
	}
	if st := o.Status(); st.Connected || st.Address != "unix:///run/x.sock" || len(st.Lanes) != 0 {
		t.Errorf("before Run nothing is known: %+v", st)
	}
}
