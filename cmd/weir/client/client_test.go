package client

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/weir-xds/weir/cmd/weir/client/clienttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const loopback = "127.0.0.1:0"

// dial connects for one test, whose context ends long before the test binary's.
func dial(t *testing.T, config Config) (*Client, context.Context) {
	t.Helper()
	c, err := Dial(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return c, ctx
}

func TestDialReportsAll(t *testing.T) {
	_, err := Dial(Config{
		Dialect: "rest",
		Headers: map[string]string{"grpc-timeout": "1S"},
		TLS:     &TLS{CA: "testdata/none.pem"},
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{`address: "" is neither`, `dialect: "rest"`, `"grpc-timeout"`, "certificate authority: "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

// once yields the first response and ends the stream.
func once(ctx context.Context, t *testing.T, c *Client) *Response {
	t.Helper()
	for r, err := range c.Watch(ctx, Subscription{TypeURL: clusterURL}) {
		if err != nil {
			t.Fatalf("the stream ended: %v", err)
		}
		return r
	}
	t.Fatal("the context ended before a response came")
	return nil
}

// sayPeer answers with what the server sees of the connection.
func sayPeer(see func(context.Context) string) *clienttest.Server {
	return &clienttest.Server{Delta: func(s clienttest.DeltaStream) error {
		if _, err := s.Recv(); err != nil {
			return err
		}
		if err := s.Send(deltaResponse("1", see(s.Context()))); err != nil {
			return err
		}
		<-s.Context().Done()
		return nil
	}}
}

func TestUnixSocketAndHeaders(t *testing.T) {
	dir, err := os.MkdirTemp("", "weir") // t.TempDir may be longer than a socket's path can be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	address := clienttest.Serve(t, sayPeer(func(ctx context.Context) string {
		md, _ := metadata.FromIncomingContext(ctx)
		return strings.Join(md["authorization"], ",")
	}), "unix://"+filepath.Join(dir, "s"))
	c, ctx := dial(t, Config{Address: address, Headers: map[string]string{"Authorization": "Bearer x"}})
	if r := once(ctx, t, c); r.Version != "Bearer x" {
		t.Errorf("the server saw authorization %q", r.Version)
	}
}

func TestMutualTLS(t *testing.T) {
	dir := t.TempDir()
	cert, pool := selfSigned(t, dir)
	creds := credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{cert},
		ClientCAs:    pool,
		ClientAuth:   tls.RequireAndVerifyClientCert,
		MinVersion:   tls.VersionTLS13,
	})
	address := clienttest.Serve(t, sayPeer(func(ctx context.Context) string {
		p, _ := peer.FromContext(ctx)
		return p.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0].DNSNames[0]
	}), loopback, grpc.Creds(creds))
	ca, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")

	c, ctx := dial(t, Config{Address: address, TLS: &TLS{CA: ca, Cert: ca, Key: key, ServerName: "weir.test"}})
	if r := once(ctx, t, c); r.Version != "weir.test" {
		t.Errorf("the server saw %q", r.Version)
	}

	c, ctx = dial(t, Config{Address: address, TLS: &TLS{CA: ca, Cert: ca, Key: key, ServerName: "other.test"}})
	for _, err := range c.Watch(ctx, Subscription{TypeURL: clusterURL}) {
		if err == nil || !strings.Contains(err.Error(), "other.test") {
			t.Errorf("a server by another name: got %v", err)
		}
	}
}

// selfSigned makes a certificate for weir.test that is its own authority.
func selfSigned(t *testing.T, dir string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		DNSNames: []string{"weir.test"}, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	for name, data := range map[string][]byte{"cert.pem": certPEM, "key.pem": keyPEM} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return cert, pool
}
