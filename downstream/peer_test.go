package downstream

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// TestClientsMayPing: neither Envoy's pings, every 30 s, nor the most that grpc clients do, every 10 s, are held against them, with a
// stream or without one (ERR-12).
func TestClientsMayPing(t *testing.T) {
	for _, every := range []time.Duration{30 * time.Second, 10 * time.Second} {
		for _, streams := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				l := newLive(t, relaytest.Memory(), nil)
				c := l.open(t, relaytest.ClientConfig{}, grpc.WithKeepaliveParams(keepalive.ClientParameters{
					Time: every, Timeout: 10 * time.Second, PermitWithoutStream: true,
				}), grpc.WithIdleTimeout(0))
				c.Subscribe(eds, "a")
				l.asked(t, 1)
				l.say(eds, "a=1")
				c.Expect(eds, "the resource")
				if !streams {
					c.Cancel()
				}
				time.Sleep(12 * time.Hour)
				if streams {
					l.say(eds, "a=2")
					c.Expect(eds, "the change, on the same stream")
				} else {
					c.Open(relaytest.Node("envoy-1", "edge"))
					c.Subscribe(eds, "a")
					c.Expect(eds, "the resource, on another stream")
				}
				if n := l.net.Accepted(); n != 1 {
					t.Errorf("pinging every %v, with a stream: %v, takes %d connections", every, streams, n)
				}
			})
		}
	}
}

// TestPingsArriveEarly: pings at the least interval that the config names are not held against a network that makes some of them
// arrive early; ten times as many are.
func TestPingsArriveEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, relaytest.Memory(), nil)
		p := newRaw(t, l)
		p.hello()
		for i := range 1000 {
			p.ping()
			time.Sleep(10*time.Second + time.Duration(i%2*2-1)*400*time.Millisecond)
		}
		if p.goAway() {
			t.Error("the connection is told to go")
		}
		for range 10 {
			p.ping()
			time.Sleep(time.Second)
		}
		if !p.goAway() {
			t.Error("nothing happens to who pings every second")
		}
	})
}

// raw is a client that speaks HTTP/2 by hand.
type raw struct {
	t      *testing.T
	conn   net.Conn
	framer *http2.Framer
	gone   chan struct{} // closed at GOAWAY
}

func newRaw(t *testing.T, l *live) *raw {
	t.Helper()
	conn, err := l.net.Dial(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	p := &raw{t: t, conn: conn, framer: http2.NewFramer(conn, conn), gone: make(chan struct{})}
	done := make(chan struct{})
	t.Cleanup(func() { _ = conn.Close(); <-done })
	go func() {
		defer close(done)
		p.read()
	}()
	return p
}

// read answers nothing, not even settings.
func (p *raw) read() {
	for {
		f, err := p.framer.ReadFrame()
		if err != nil {
			return
		}
		if _, ok := f.(*http2.GoAwayFrame); ok {
			close(p.gone)
			return
		}
	}
}

func (p *raw) hello() {
	p.t.Helper()
	if _, err := io.WriteString(p.conn, http2.ClientPreface); err != nil {
		p.t.Fatal(err)
	}
	if err := p.framer.WriteSettings(); err != nil {
		p.t.Fatal(err)
	}
}

func (p *raw) ping() { _ = p.framer.WritePing(false, [8]byte{1}) } // what became of it shows at the other end

func (p *raw) goAway() bool {
	synctest.Wait()
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// TestStopWaitsForNobody: who is in the middle of connecting does not hold up the end.
func TestStopWaitsForNobody(t *testing.T) {
	serverTLS, _ := certificates(t)
	for _, security := range []*tls.Config{nil, serverTLS} {
		synctest.Test(t, func(t *testing.T) {
			l := newLive(t, relaytest.Memory(), func(_ *Config, lc *ListenerConfig) { lc.TLS = security })
			for _, age := range []time.Duration{handshake - time.Second, time.Second} {
				conn, err := l.net.Dial(t.Context(), "")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				time.Sleep(age)
			}
			begin := time.Now()
			l.server.Drain(t.Context(), 30*time.Second)
			if took := time.Since(begin); took != 0 {
				t.Errorf("the end takes %v", took)
			}
		})
	}
}

// TestSilentConnections: who connects and does not get as far as HTTP/2 costs a descriptor for ten seconds, wherever it stops.
func TestSilentConnections(t *testing.T) {
	serverTLS, _ := certificates(t)
	for name, row := range map[string]struct {
		tls  *tls.Config
		says string
	}{
		"nothing":                      {nil, ""},
		"half of the preface":          {nil, http2.ClientPreface[:10]},
		"the preface and no settings":  {nil, http2.ClientPreface},
		"nothing, of TLS":              {serverTLS, ""},
		"the head of a hello":          {serverTLS, "\x16\x03\x01\x02\x00\x01\x00"},
		"HTTP/2 in plain text, to TLS": {serverTLS, http2.ClientPreface},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLive(t, relaytest.Memory(), func(_ *Config, lc *ListenerConfig) { lc.TLS = row.tls })
				conn, err := l.net.Dial(t.Context(), "")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				begin := time.Now()
				if _, err := io.WriteString(conn, row.says); err != nil {
					t.Fatal(err)
				}
				if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
					t.Fatal(err)
				}
				_, err = io.Copy(io.Discard, conn)
				var late net.Error
				if took := time.Since(begin); errors.As(err, &late) && late.Timeout() || took > handshake {
					t.Errorf("the connection is open for %v: %v", took, err)
				}
			})
		})
	}
}
