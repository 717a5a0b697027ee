package downstream

import (
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestEndsAreCounted: each stream's end is counted by why, and of a thousand that end badly the log
// tells a few.
func TestEndsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, func(l *Limits) { l.Streams = 2 })
		conn := l.net.Connect(t)
		open := func() *relaytest.Client {
			c := relaytest.NewClient(t, conn, relaytest.ClientConfig{Patience: time.Minute})
			c.Open(relaytest.Node("a", "c"))
			return c
		}
		start := time.Now()
		for range 1000 {
			c := open()
			c.SendRaw([]byte{0xff})
			c.AwaitEnd("it is no request")
			c.Cancel()
			time.Sleep(20 * time.Millisecond) // an honest client would wait for longer
		}
		took := time.Since(start)
		lines := l.logs.FilterMessage("a client stream was ended")
		if n := lines.Len(); n == 0 || n > int(took/endLogEvery)+1 {
			t.Errorf("%d lines of log in %v", n, took)
		}
		told := lines.Len()
		for _, e := range lines.All() {
			told += int(e.ContextMap()["not_logged"].(int64))
		}
		if told < 500 {
			t.Errorf("the lines stand for %d of 1000 ends", told)
		}
		open().AwaitEnd("first_request")
		cold := open()
		cold.Subscribe(eds, "a")
		cold.AwaitEnd("cold_wait")
		gone := open()
		gone.Subscribe(eds, "a")
		synctest.Wait()
		gone.Cancel()
		synctest.Wait() // its place is free: else the limit refuses one of those that stay
		stay := []*relaytest.Client{open(), open()}
		synctest.Wait()
		other := l.open(t, relaytest.ClientConfig{})
		other.AwaitEnd("one too many")
		l.server.Stop()
		for _, c := range stay {
			c.AwaitEnd("the end")
		}
		synctest.Wait()
		for reason, want := range map[string]float64{
			"bad_request": 1000, "first_request": 1, "unavailable": 1, "client": 1, "limit": 1, "drain": 2, "other": 0,
		} {
			if n := counted(t, l.reg, "weir_streams_ended_total", reason); n != want {
				t.Errorf("%v ended by %s, want %v", n, reason, want)
			}
		}
	})
}

// TestHandshakeFailures: TLS handshakes that fail are counted by why, and of many of a kind one
// line is logged; a client that just goes away, as probes do, costs none.
func TestHandshakeFailures(t *testing.T) {
	ours, theirs := certificates(t)
	ours.ClientAuth, ours.ClientCAs, ours.MinVersion = tls.RequireAndVerifyClientCert, theirs.RootCAs, tls.VersionTLS12
	strange, _ := certificates(t)
	shake := func(change func(*tls.Config)) func(net.Conn) {
		return func(c net.Conn) {
			cfg := theirs.Clone()
			cfg.NextProtos, cfg.Certificates = []string{"h2"}, ours.Certificates
			change(cfg)
			secured := tls.Client(c, cfg)
			if secured.Handshake() == nil {
				_, _ = secured.Read(make([]byte, 1)) // until the server has looked
			}
		}
	}
	const each = 20
	reg := prometheus.NewRegistry()
	core, logs := observer.New(zap.InfoLevel)
	l := newLive(t, relaytest.TCP(), func(cfg *Config, lc *ListenerConfig) {
		cfg.Metrics, cfg.Log, lc.TLS = metrics.New(reg), zap.New(core), ours
	})
	for reason, client := range map[string]func(net.Conn){
		"not_tls":         func(c net.Conn) { _, _ = c.Write([]byte("GET / HTTP/1.1\r\nHost: weir\r\n\r\n")) },
		"closed":          func(net.Conn) {},
		"no_certificate":  shake(func(c *tls.Config) { c.Certificates = nil }),
		"bad_certificate": shake(func(c *tls.Config) { c.Certificates = nil; c.GetClientCertificate = always(strange) }),
		"refused_by_client": shake(func(c *tls.Config) {
			c.ServerName = "another"
		}),
		"no_common_version": shake(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }),
		"no_http2":          shake(func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }),
	} {
		t.Run(reason, func(t *testing.T) {
			for range each {
				c, err := net.Dial("tcp", l.net.Addr())
				if err != nil {
					t.Fatal(err)
				}
				if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
					t.Fatal(err)
				}
				client(c)
				if tcp := c.(*net.TCPConn); reason == "not_tls" {
					_ = tcp.CloseWrite()
					_, _ = c.Read(make([]byte, 16))
				}
				_ = c.Close()
			}
			await(t, "each is counted", func() bool {
				return counted(t, reg, "weir_handshake_failures_total", reason) == each
			})
			lines, want := logs.FilterField(zap.String("reason", reason)).Len(), 1
			if reason == "closed" {
				want = 0
			}
			if lines != want {
				t.Errorf("%d lines of log, want %d", lines, want)
			}
		})
	}
	if n := counted(t, reg, "weir_handshake_failures_total", "other"); n != 0 {
		t.Errorf("%v failed for reasons that have no name", n)
	}
}

// always shows a certificate whatever is asked for.
func always(cfg *tls.Config) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cfg.Certificates[0], nil }
}
