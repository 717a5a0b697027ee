package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// TestServersAreJudgedAgain: the connection to a server that is no longer trusted is closed, and
// weir connects again. What is held stays, and only differences are asked for.
func TestServersAreJudgedAgain(t *testing.T) {
	pair, roots := keyPair(t)
	var wrong atomic.Bool
	var trusted atomic.Pointer[x509.CertPool]
	trusted.Store(roots)
	secure := relaytest.OriginConfig{Options: []grpc.ServerOption{
		grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13})),
	}}
	in(t, options{origin: secure, config: func(c *Config) {
		c.TLS = func() *tls.Config { return &tls.Config{RootCAs: trusted.Load(), MinVersion: tls.VersionTLS13} }
		c.Trusts = func(state *tls.ConnectionState) error {
			if len(state.VerifiedChains) == 0 {
				return errors.New("nothing was verified")
			}
			if wrong.Load() {
				return errors.New("of nobody we know")
			}
			return nil
		}
	}}, func(w *world) {
		w.want(opaque, "a")
		s := w.origin.ExpectStream("a stream")
		s.Expect("the request")
		s.Respond(opaque, "1", res("a", "1"))
		s.Expect("the ACK")
		w.up.Recheck()
		w.origin.WantNoStream(5 * time.Second)
		if n := w.dials.Load(); n != 1 || !w.up.Status().Connected {
			t.Errorf("it was trusted, and weir connected %d times", n)
		}

		wrong.Store(true)
		trusted.Store(x509.NewCertPool())
		w.up.Recheck()
		s.ExpectEnd("the stream")
		w.origin.WantNoStream(20 * time.Second)
		if w.up.Status().Connected {
			t.Error("weir is connected to a server that it does not trust")
		}
		w.wantLines(1, "is no longer trusted", "the log says why")

		wrong.Store(false)
		trusted.Store(roots)
		s = w.origin.ExpectStream("the server is trusted again")
		if m := s.Expect("the request"); m.Delta.GetInitialResourceVersions()["a"] == "" {
			t.Errorf("it asks with %v", m.Delta)
		}
	})
}

// TestHandshakeBesideChange: a handshake that began before whom to trust changed is judged by what
// is trusted now.
func TestHandshakeBesideChange(t *testing.T) {
	pair, roots := keyPair(t)
	var trusted atomic.Bool
	secure := relaytest.OriginConfig{Options: []grpc.ServerOption{
		grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13})),
	}}
	w := (*world)(nil)
	in(t, options{origin: secure, late: true, config: func(c *Config) {
		c.TLS = func() *tls.Config {
			return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13, VerifyConnection: func(tls.ConnectionState) error {
				if !trusted.Load() {
					w.up.Recheck()
				}
				return nil
			}}
		}
		c.Trusts = func(*tls.ConnectionState) error {
			if trusted.Load() {
				return nil
			}
			return errors.New("of nobody we know")
		}
	}}, func(inside *world) {
		w = inside
		w.run()
		w.want(opaque, "a")
		w.origin.WantNoStream(5 * time.Second)
		trusted.Store(true)
		w.origin.ExpectStream("a stream")
	})
}
