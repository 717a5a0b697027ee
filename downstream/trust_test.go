package downstream

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/relaytest"
)

// issuer signs certificates of clients.
type issuer struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newIssuer(t *testing.T, name string) *issuer {
	t.Helper()
	i := &issuer{t: t}
	i.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
	}
	i.cert, i.key = i.sign(i.cert)
	return i
}

func (i *issuer) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	i.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	signer := i.key
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, i.cert, key.Public(), signer)
	if err != nil {
		i.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		i.t.Fatal(err)
	}
	return cert, key
}

// client is a certificate of a client.
func (i *issuer) client(serial int64) tls.Certificate {
	i.t.Helper()
	cert, key := i.sign(&x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: fmt.Sprint("client-", serial)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
	})
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

func (i *issuer) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(i.cert)
	return pool
}

// distrust is a listener's trust: nobody with a serial number up to these.
type distrust struct{ revoked, untrusted atomic.Int64 }

func (d *distrust) judge(state *tls.ConnectionState) error {
	switch serial := state.VerifiedChains[0][0].SerialNumber.Int64(); {
	case serial <= d.revoked.Load():
		return fmt.Errorf("serial %d %w", serial, ErrRevoked)
	case serial <= d.untrusted.Load():
		return x509.UnknownAuthorityError{}
	}
	return nil
}

// TestStreamsEndWithTrust: what is open on connections whose certificates are revoked ends at once,
// and what is on those of an authority that is gone within some seconds, at random times. Nothing
// new is served on these connections, and they are closed; others go on. All of it is counted and
// logged.
func TestStreamsEndWithTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newIssuer(t, "ca")
		ours, theirs := certificates(t)
		ours.ClientAuth, ours.ClientCAs = tls.RequireAndVerifyClientCert, ca.pool()
		reg, trust := prometheus.NewRegistry(), &distrust{}
		core, logs := observer.New(zap.InfoLevel)
		net := relaytest.Memory()
		l := newLive(t, net, func(c *Config, lc *ListenerConfig) {
			c.Metrics, c.Log, lc.TLS, lc.Trusts = metrics.New(reg), zap.New(core), ours, trust.judge
			c.LoadReports = silentLoads
		})
		const revoked, untrusted, many = 3, 43, 46
		clients, conns := make([]*relaytest.Client, many), make([]*grpc.ClientConn, many)
		for i := range clients {
			own := theirs.Clone()
			own.Certificates = []tls.Certificate{ca.client(int64(i + 1))}
			conns[i] = l.net.Connect(t, grpc.WithTransportCredentials(credentials.NewTLS(own)))
			clients[i] = relaytest.NewClient(t, conns[i], relaytest.ClientConfig{Patience: time.Minute})
			clients[i].Open(relaytest.Node("envoy-1", "edge"))
			clients[i].Subscribe(eds, "a")
		}
		loads := relaytest.NewClient(t, conns[0], relaytest.ClientConfig{Method: relaytest.LoadMethod, Patience: time.Minute})
		loads.Open(nil)
		loads.SendRaw(nil)
		l.asked(t, many)
		l.say(eds, "a=1")
		for _, c := range clients {
			c.Expect(eds, "the resource")
		}
		port := l.server.listeners[0].port
		l.server.Recheck(port)
		synctest.Wait()
		if n := len(l.server.Clients()); n != many || loads.Err() != nil {
			t.Fatalf("%d streams while all are trusted, want %d; load reports: %v", n, many, loads.Err())
		}

		trust.revoked.Store(revoked)
		trust.untrusted.Store(untrusted)
		begin := time.Now()
		l.server.Recheck(port)
		synctest.Wait()
		if n := len(l.server.Clients()); n != many-revoked {
			t.Fatalf("%d streams at once, want %d", n, many-revoked)
		}
		for i, want := range map[int]string{0: "is revoked", revoked: "the authority of the certificate that opened the connection is no longer trusted"} {
			again := relaytest.NewClient(t, conns[i], relaytest.ClientConfig{Patience: time.Minute})
			again.Open(relaytest.Node("envoy-1", "edge"))
			if code := again.AwaitEnd("a new stream on the connection"); code != codes.Unavailable || !strings.Contains(again.Err().Error(), want) {
				t.Errorf("a new stream on the connection ends with %v, want %s", again.Err(), want)
			}
			err := conns[i].Invoke(t.Context(), "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters",
				&discoveryv3.DiscoveryRequest{}, &discoveryv3.DiscoveryResponse{})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("a Fetch on the connection ends with %v, want %s", err, want)
			}
		}
		if waited := time.Since(begin); waited > 0 {
			t.Fatalf("they are refused after %v", waited)
		}
		var ends []time.Duration
		for open := many - revoked; open > many-untrusted; open = len(l.server.Clients()) {
			time.Sleep(50 * time.Millisecond)
			for range open - len(l.server.Clients()) {
				ends = append(ends, time.Since(begin))
			}
			if time.Since(begin) > trustSpread+time.Second {
				t.Fatalf("%d streams after %v", open, time.Since(begin))
			}
		}
		if spread := ends[len(ends)*3/4] - ends[len(ends)/4]; spread < trustSpread/5 {
			t.Errorf("half of the streams end within %v of one another", spread)
		}
		for i, c := range append(clients[:untrusted:untrusted], loads) {
			want := errUntrusted
			if i < revoked || i == untrusted {
				want = errRevoked
			}
			if c.AwaitEnd("the stream ends"); c.Err().Error() != want.Error() {
				t.Errorf("%d ends with %v, want %v", i, c.Err(), want)
			}
		}
		if n := counted(t, reg, "weir_streams_ended_total", "certificate"); n != untrusted+3 {
			t.Errorf("%v ends are counted, want %d", n, untrusted+3)
		}
		line := logs.FilterFieldKey("revoked").All()
		if len(line) != 1 || line[0].ContextMap()["revoked"] != int64(revoked) || line[0].ContextMap()["connections"] != int64(untrusted) {
			t.Errorf("the log has %v", line)
		}
		time.Sleep(2 * turnAway)
		for i, conn := range conns {
			if open := conn.GetState() == connectivity.Ready; open != (i >= untrusted) {
				t.Errorf("connection %d: open %v", i, open)
			}
		}
		l.say(eds, "a=2")
		for _, c := range clients[untrusted:] {
			c.Expect(eds, "the others go on")
		}
	})
}

// TestConnectionsWithoutStreamsEndWithTrust: a connection on which nothing is open is closed.
func TestConnectionsWithoutStreamsEndWithTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newIssuer(t, "ca")
		ours, theirs := certificates(t)
		ours.ClientAuth, ours.ClientCAs = tls.RequireAndVerifyClientCert, ca.pool()
		theirs.Certificates = []tls.Certificate{ca.client(1)}
		trust := &distrust{}
		l := newLive(t, relaytest.Memory(), func(_ *Config, lc *ListenerConfig) { lc.TLS, lc.Trusts = ours, trust.judge })
		conn := l.net.Connect(t, grpc.WithTransportCredentials(credentials.NewTLS(theirs)))
		conn.Connect()
		synctest.Wait()
		if conn.GetState() != connectivity.Ready {
			t.Fatal(conn.GetState())
		}
		trust.revoked.Store(1)
		l.server.Recheck(l.server.listeners[0].port)
		time.Sleep(turnAway + time.Millisecond)
		synctest.Wait()
		if conn.GetState() == connectivity.Ready {
			t.Error("the connection stays")
		}
	})
}

// TestHandshakeBesideRecheck: a handshake that began before trust changed, and ends after it, is
// judged by the trust of now.
func TestHandshakeBesideRecheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newIssuer(t, "ca")
		ours, theirs := certificates(t)
		ours.ClientAuth, ours.ClientCAs = tls.RequireAndVerifyClientCert, ca.pool()
		theirs.Certificates = []tls.Certificate{ca.client(1)}
		trust, l := &distrust{}, (*live)(nil)
		ours.VerifyConnection = func(tls.ConnectionState) error { // it was judged by the old trust
			trust.revoked.Store(1)
			l.server.Recheck(l.server.listeners[0].port)
			return nil
		}
		reg := prometheus.NewRegistry()
		l = newLive(t, relaytest.Memory(), func(c *Config, lc *ListenerConfig) {
			c.Metrics, lc.TLS, lc.Trusts = metrics.New(reg), ours, trust.judge
		})
		conn := l.net.Connect(t, grpc.WithTransportCredentials(credentials.NewTLS(theirs)))
		conn.Connect()
		synctest.Wait()
		if conn.GetState() == connectivity.Ready {
			t.Error("it is let in")
		}
		if n := counted(t, reg, "weir_handshake_failures_total", "revoked"); n == 0 {
			t.Error("it is not counted")
		}
	})
}

// TestPollsEndWithTrust: a poll that waits on a kept connection ends with the trust in the client's
// certificate, and another one on it is refused.
func TestPollsEndWithTrust(t *testing.T) {
	for _, idle := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ca := newIssuer(t, "ca")
			ours, theirs := certificates(t)
			ours.ClientAuth, ours.ClientCAs = tls.RequireAndVerifyClientCert, ca.pool()
			theirs.Certificates = []tls.Certificate{ca.client(1)}
			theirs.NextProtos = []string{"http/1.1"}
			trust := &distrust{}
			p := newPolling(t, func(_ *Config, lc *ListenerConfig) { lc.TLS, lc.Trusts = ours, trust.judge })
			raw, err := p.dial(context.Background(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			conn := tls.Client(raw, theirs)
			defer func() { _ = raw.Close() }()
			answers := bufio.NewReader(conn)
			poll := func() {
				body := `{"node":{"id":"envoy-1","cluster":"edge"}}`
				if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: weir\r\nContent-Length: %d\r\n\r\n%s", clustersPath, len(body), body); err != nil {
					t.Fatal(err)
				}
			}
			answer := func() (int, bool, string) {
				resp, err := http.ReadResponse(answers, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = resp.Body.Close() }()
				text, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				return resp.StatusCode, resp.Close, string(text)
			}
			if poll(); idle {
				if code, ends, text := answer(); code != http.StatusServiceUnavailable || ends {
					t.Fatalf("before: %d %v %s", code, ends, text)
				}
			}
			synctest.Wait()
			trust.revoked.Store(1)
			begin := time.Now()
			p.server.Recheck(p.server.listeners[0].port)
			if idle {
				poll()
			}
			if code, ends, text := answer(); code != http.StatusServiceUnavailable || !ends || !strings.Contains(text, "is revoked") {
				t.Errorf("answered %d, closed %v: %s", code, ends, text)
			}
			if waited := time.Since(begin); waited > 0 {
				t.Errorf("after %v", waited)
			}
		})
	}
}

// BenchmarkRecheck looks at the connections of many clients again, all of which are trusted still.
func BenchmarkRecheck(b *testing.B) {
	s, err := New(Config{Table: newRig(b).table, Instance: "here"})
	if err != nil {
		b.Fatal(err)
	}
	ln := &listener{port: &pipes{}}
	ln.counted = newCountedListener(s, ln.port, Keepalive{})
	ln.counted.conns = map[*countedConn]struct{}{}
	ln.counted.trust.judge = func(*tls.ConnectionState) error { return nil }
	s.listeners = []*listener{ln}
	info := credentials.TLSInfo{State: tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{}}}}}
	for range 10_000 {
		counted := &countedConn{listener: ln.counted}
		counted.client = &connection{info: info}
		ln.counted.conns[counted] = struct{}{}
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Recheck(ln.port)
	}
}
