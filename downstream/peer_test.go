package downstream

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/relaytest"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// TestClientsMayPing: neither Envoy's pings, every 30 s, nor the most that grpc clients do, every
// 10 s, are held against them, with a stream or without one (ERR-12).
func TestClientsMayPing(t *testing.T) {
	for _, every := range []time.Duration{30 * time.Second, 10 * time.Second} {
		for _, streams := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				l := newLive(t, relaytest.Memory(), func(cfg *Config, _ *ListenerConfig) { cfg.Limits.ConnectionIdle = -1 })
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

// TestPingsArriveEarly: pings at the least interval that the config names are not held against a
// network that makes some of them arrive early; ten times as many are.
func TestPingsArriveEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, relaytest.Memory(), func(cfg *Config, _ *ListenerConfig) { cfg.Limits.ConnectionIdle = -1 })
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
	out    *bufio.Writer // what goes to conn
	framer *http2.Framer
	gone   chan struct{} // closed at GOAWAY
	reset  chan uint32   // streams that were reset
}

func newRaw(t *testing.T, l *live) *raw {
	t.Helper()
	return newRawOver(t, l, nil)
}

// newRawOver is newRaw over TLS; nil: in plain text.
func newRawOver(t *testing.T, l *live, secure *tls.Config) *raw {
	t.Helper()
	conn, err := l.net.Dial(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if secure != nil {
		conn = tls.Client(conn, secure)
	}
	out := bufio.NewWriterSize(conn, 1<<20)
	p := &raw{t: t, conn: conn, out: out, framer: http2.NewFramer(out, conn), gone: make(chan struct{}), reset: make(chan uint32, 10)}
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
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			close(p.gone)
			return
		case *http2.RSTStreamFrame:
			p.reset <- f.StreamID
		}
	}
}

func (p *raw) hello() {
	p.t.Helper()
	if _, err := io.WriteString(p.out, http2.ClientPreface); err != nil {
		p.t.Fatal(err)
	}
	if err := p.framer.WriteSettings(); err != nil {
		p.t.Fatal(err)
	}
	p.flush()
}

// flush has all that was written go in one piece, or in pieces of the size the other end reads.
func (p *raw) flush() { _ = p.out.Flush() } // what became of it shows at the other end

func (p *raw) ping() {
	_ = p.framer.WritePing(false, [8]byte{1})
	p.flush()
}

// call opens a discovery stream with a header of so many bytes, that many times: the bytes go to
// the wire once (RFC 7541, 6.1).
func (p *raw) call(stream uint32, size, times int) {
	p.t.Helper()
	p.prepare(stream, size, times)
	p.flush()
}

// prepare is call, before it goes out.
func (p *raw) prepare(stream uint32, size, times int) {
	p.t.Helper()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	field := func(name, value string) {
		if err := enc.WriteField(hpack.HeaderField{Name: name, Value: value}); err != nil {
			p.t.Fatal(err)
		}
	}
	field(":method", "POST")
	field(":scheme", "http")
	field(":authority", "weir")
	field(":path", "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources")
	field("content-type", "application/grpc")
	field("te", "trailers")
	for range times {
		field("x", strings.Repeat("x", size))
	}
	if block.Len() > 16<<10 {
		p.t.Fatalf("%d bytes do not go into one frame", block.Len())
	}
	if err := p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
		p.t.Fatal(err)
	}
}

// TestLongHeaders: what is a few bytes on the wire may be a hundred megabytes of headers. A stream
// with more than 16 KiB of them is reset, and its connection and all others go on.
func TestLongHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, relaytest.Memory(), nil)
		p := newRaw(t, l)
		p.hello()
		p.call(1, 3000, 5)
		p.call(3, 3000, 6)
		p.call(5, 3000, 5000)
		p.call(7, 10, 1)
		synctest.Wait()
		var reset []uint32
		for len(p.reset) > 0 {
			reset = append(reset, <-p.reset)
		}
		if !slices.Equal(reset, []uint32{3, 5}) {
			t.Errorf("of four streams, with 15, 18 and 15,000 KB of headers and with few, these are reset: %v; want 3 and 5", reset)
		}
		if n := len(l.server.list()); n != 2 {
			t.Errorf("%d streams are open, want 2", n)
		}
	})
}

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

// TestSilentConnections: who connects and does not get as far as HTTP/2 costs a descriptor for ten
// seconds, wherever it stops.
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

// TestPingsTooOften: a client that is cut off for its pings is counted, and the log says who it is
// and what to set, once a minute; GOAWAYs for other reasons are not counted. With TLS as without.
func TestPingsTooOften(t *testing.T) {
	for _, secured := range []bool{false, true} {
		ours, theirs := (*tls.Config)(nil), (*tls.Config)(nil)
		if secured {
			ours, theirs = certificates(t)
			theirs.NextProtos = []string{"h2"}
			valid := time.Now() // a bubble begins long before
			ours.Time = func() time.Time { return valid }
			theirs.Time = ours.Time
		}
		synctest.Test(t, func(t *testing.T) {
			log, lines := observer.New(zap.WarnLevel)
			reg := prometheus.NewRegistry()
			l := newLive(t, relaytest.Memory(), func(cfg *Config, lc *ListenerConfig) {
				cfg.Log, cfg.Metrics, lc.TLS = zap.New(log), metrics.New(reg), ours
			})
			for range 3 {
				p := newRawOver(t, l, theirs)
				p.hello()
				p.call(1, 10, 1)
				for range 10 {
					p.ping()
					time.Sleep(time.Second)
				}
				if !p.goAway() {
					t.Fatal("nothing happens to who pings every second")
				}
			}
			l.server.Drain(t.Context(), time.Second)
			if n := counted(t, reg, "weir_connections_too_many_pings_total", ""); n != 3 {
				t.Errorf("TLS: %v; %v connections are counted, want 3", secured, n)
			}
			said := lines.FilterMessageSnippet("pings more often").All()
			if len(said) != 1 || !strings.Contains(said[0].Message, "timing.keepalive.min_client_interval") || said[0].ContextMap()["peer"] == "" {
				t.Errorf("TLS: %v; the log says %v", secured, said)
			}
		})
	}
}
