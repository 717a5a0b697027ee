package rest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/weir-xds/weir/upstream"
	"go.uber.org/zap"
)

// TestServersAreJudgedAgain: the kept connections to a server that is not trusted any more are
// closed, and the next poll shakes hands by what is trusted now.
func TestServersAreJudgedAgain(t *testing.T) {
	var opened, wrong atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	s.EnableHTTP2 = true
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	judge := func(state *tls.ConnectionState) error {
		if len(state.VerifiedChains) == 0 || wrong.Load() > 0 {
			return errors.New("of nobody we know")
		}
		return nil
	}
	trust := upstream.NewTrust(judge)
	client := newClient(&Config{TLS: func() *tls.Config {
		c := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		if wrong.Load() > 0 {
			c.RootCAs = x509.NewCertPool()
		}
		return c
	}}, trust)
	defer client.CloseIdleConnections()
	poll := func(sentence string, connections int64, good bool) {
		t.Helper()
		resp, err := client.Get(s.URL)
		if err == nil {
			if resp.ProtoMajor != 2 {
				t.Errorf("it speaks %s", resp.Proto)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		if (err == nil) != good || opened.Load() != connections {
			t.Errorf("%s: %v, %d connections, want %d", sentence, err, opened.Load(), connections)
		}
	}
	poll("at first", 1, true)
	trust.Recheck(zap.NewNop())
	poll("the server is trusted", 1, true)
	wrong.Store(1)
	trust.Recheck(zap.NewNop())
	for opened.Load() < 2 { // until it is noticed that the connection is closed
		if resp, err := client.Get(s.URL); err == nil {
			_ = resp.Body.Close()
			t.Fatal("the server is not")
		}
	}
	wrong.Store(0)
	poll("it is again", 3, true)
}
