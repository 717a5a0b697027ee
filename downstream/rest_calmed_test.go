package downstream

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/metrics"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http2"
)

// pollBlock is a block of headers of a poll, with some that replace the usual ones or come after
// them.
func pollBlock(more ...string) []byte {
	return block(append([]string{":path", clustersPath, "content-type", "application/json"}, more...)...)
}

// TestRESTFaultsAreCalmed: on a listener of polls, too, calls that are none, that are reset before
// their answer, or that are beyond limits.streams_per_connection, are what a connection is told to
// calm down for.
func TestRESTFaultsAreCalmed(t *testing.T) {
	call := func(block []byte) func(*http2.Framer, uint32) {
		return func(f *http2.Framer, id uint32) { writeCall(f, id, block) }
	}
	open := pollBlock()
	for name, write := range map[string]func(*http2.Framer, uint32){
		"unknown paths":    call(pollBlock(":path", "/no/such/path")),
		"no POST":          call(pollBlock(":method", "GET")),
		"too long headers": call(pollBlock("x", strings.Repeat("x", headerList))),
		"too many":         call(open),
		"reset at once": func(f *http2.Framer, id uint32) {
			writeCall(f, id, open)
			_ = f.WriteRSTStream(id, http2.ErrCodeCancel) // a buffer takes everything
		},
		"no JSON": func(f *http2.Framer, id uint32) {
			writeCall(f, id, open)
			_ = f.WriteData(id, true, []byte("no JSON"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			if !calms(t, true, 3*churnMost, write) {
				t.Error("nobody told the client to calm down")
			}
		})
	}
}

// TestRESTChatterIsCalmed: frames that carry nothing for any stream, and pings, without end.
func TestRESTChatterIsCalmed(t *testing.T) {
	all := map[string]func(*http2.Framer){"pings": func(f *http2.Framer) { _ = f.WritePing(false, [8]byte{1}) }}
	for name, write := range chatter {
		all[name] = write
	}
	for name, write := range all {
		t.Run(name, func(t *testing.T) {
			open := pollBlock()
			if !calms(t, true, 3*idleMost, func(f *http2.Framer, id uint32) {
				if id == 1 {
					writeCall(f, id, open)
				}
				write(f)
			}) {
				t.Error("nobody told the client to calm down")
			}
		})
	}
}

// TestRESTOneByOneIsCalmed: with HTTP/1.1 it is the requests that count; and it is all the same
// with TLS.
func TestRESTOneByOneIsCalmed(t *testing.T) {
	frames := func() []byte {
		var b bytes.Buffer
		f := http2.NewFramer(&b, nil)
		b.WriteString(http2.ClientPreface)
		_ = f.WriteSettings() // a buffer takes everything
		for i := range uint32(3 * churnMost) {
			writeCall(f, 2*i+1, pollBlock(":method", "GET"))
		}
		return b.Bytes()
	}
	requests := func() []byte { return bytes.Repeat([]byte("GET / HTTP/1.1\r\nHost: weir\r\n\r\n"), 3*churnMost) }
	for _, row := range []struct {
		name  string
		proto string
		tls   bool
		says  []byte
	}{
		{"HTTP/1.1", "http/1.1", false, requests()},
		{"HTTP/1.1 with TLS", "http/1.1", true, requests()},
		{"HTTP/2 with TLS", "h2", true, frames()},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reg := prometheus.NewRegistry()
				serverTLS, clientTLS := certificates(t)
				p := newPolling(t, func(cfg *Config, lc *ListenerConfig) {
					if cfg.Metrics = metrics.New(reg); row.tls {
						lc.TLS = serverTLS
					}
				})
				conn, err := p.dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				if row.tls {
					clientTLS.NextProtos = []string{row.proto}
					conn = tls.Client(conn, clientTLS)
				}
				if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
					t.Fatal(err)
				}
				wrote := make(chan struct{})
				go func() {
					defer close(wrote)
					_, _ = conn.Write(row.says) // until it is closed
				}()
				_, err = io.Copy(io.Discard, conn)
				if late := net.Error(nil); errors.As(err, &late) && late.Timeout() {
					t.Error("the connection is not closed")
				}
				_ = conn.Close()
				<-wrote
				if n := counted(t, reg, "weir_connections_calmed_total", ""); n != 1 {
					t.Errorf("%v connections are counted", n)
				}
			})
		})
	}
}

// TestCalmPollersAreLeftAlone: whoever polls often on one connection, and is answered, is not told
// to calm down, whatever the answer is.
func TestCalmPollersAreLeftAlone(t *testing.T) {
	for _, two := range []bool{false, true} {
		t.Run(map[bool]string{false: "HTTP/1.1", true: "HTTP/2"}[two], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reg := prometheus.NewRegistry()
				p := newPolling(t, func(cfg *Config, _ *ListenerConfig) {
					cfg.Metrics, cfg.Limits.NewStreamsPerSecond = metrics.New(reg), -1
				})
				var protocols http.Protocols
				protocols.SetHTTP1(!two)
				protocols.SetUnencryptedHTTP2(two)
				p.http.Transport.(*http.Transport).Protocols = &protocols
				version := p.filled().version()
				for range churnMost { // two polls each time
					p.post(clustersPath, pollOf()).want(t, "a poll", http.StatusOK, "a", "b")
					p.post(clustersPath, pollOf(`"versionInfo": "`+version+`"`)).want(t, "another", http.StatusNotModified)
				}
				if n := counted(t, reg, "weir_connections_calmed_total", ""); n != 0 {
					t.Errorf("%v connections were told to calm down", n)
				}
			})
		})
	}
}

// TestRESTHeadersArePaced: the connection of a peer that polls with long headers is not read for as
// long as they are beyond the pace of limits.new_streams_per_second; another peer's is.
func TestRESTHeadersArePaced(t *testing.T) {
	request := "GET / HTTP/1.1\r\nHost: weir\r\nX-Long: " + strings.Repeat("x", 14<<10) + "\r\n\r\n"
	synctest.Test(t, func(t *testing.T) {
		p := newPolling(t, func(cfg *Config, _ *ListenerConfig) { cfg.Limits.NewStreamsPerSecond = 100 })
		ask := func(conn net.Conn, in *bufio.Reader) {
			t.Helper()
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		open := func() (net.Conn, *bufio.Reader) {
			conn, err := p.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			return conn, bufio.NewReader(conn)
		}
		conn, in := open()
		began := time.Now()
		for range 28 { // 401 KB at 410 KB/s, after a second's worth
			ask(conn, in)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("a second's worth of headers takes %v", took)
		}
		for range 28 {
			ask(conn, in)
		}
		if took := time.Since(began); took < 900*time.Millisecond || took > 1100*time.Millisecond {
			t.Errorf("as many once more take %v, want about a second", took)
		}
		began = time.Now()
		ask(open())
		if took := time.Since(began); took != 0 {
			t.Errorf("another peer waits for %v", took)
		}
	})
}

// TestRESTSilentConnections: whoever does not get as far as a request in 10 s is let go, on
// whichever protocol, and so is whoever does not go on with a block of headers in connection_idle.
func TestRESTSilentConnections(t *testing.T) {
	const idle = time.Minute
	serverTLS, _ := certificates(t)
	begun := bytes.Buffer{}
	f := http2.NewFramer(&begun, nil)
	begun.WriteString(http2.ClientPreface)
	_ = f.WriteSettings() // a buffer takes everything
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: pollBlock()})
	more := bytes.Buffer{}
	f = http2.NewFramer(&more, nil)
	_ = f.WriteContinuation(1, false, []byte{0x00, 0x01, 'x', 0x00})
	for name, row := range map[string]struct {
		tls  *tls.Config
		says string
		more string // again and again, each second
		most time.Duration
	}{
		"nothing":                           {nil, "", "", handshake},
		"half of a request":                 {nil, "POST /v3/discovery:clusters HTTP/1.1\r\nHost: weir\r\n", "", handshake},
		"headers, slowly":                   {nil, "POST /v3/discovery:clusters HTTP/1.1\r\n", "A: b\r\n", handshake},
		"a second request, slowly":          {nil, "GET / HTTP/1.1\r\nHost: weir\r\n\r\nGET / HTTP/1.1\r\n", "A: b\r\n", handshake},
		"half of the preface":               {nil, http2.ClientPreface[:16], "", handshake},
		"the preface alone":                 {nil, http2.ClientPreface, "", handshake},
		"nothing, of TLS":                   {serverTLS, "", "", handshake},
		"the head of a hello":               {serverTLS, "\x16\x03\x01\x02\x00\x01\x00", "", handshake},
		"a hello, slowly":                   {serverTLS, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "\x03", handshake},
		"plain text, to TLS":                {serverTLS, http2.ClientPreface, "", handshake},
		"a block of headers without end":    {nil, begun.String(), "", idle + 2*time.Second},
		"a block of headers, very slowly":   {nil, begun.String(), more.String(), idle + 2*time.Second},
		"half of the head of a frame":       {nil, begun.String()[:len(http2.ClientPreface)+9+5], "", idle + 2*time.Second},
		"a body that never comes, HTTP/1.1": {nil, "POST /v3/discovery:clusters HTTP/1.1\r\nHost: weir\r\nContent-Length: 9\r\n\r\n", "", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPolling(t, func(cfg *Config, lc *ListenerConfig) { lc.TLS, cfg.Limits.ConnectionIdle = row.tls, idle })
				conn, err := p.dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				began := time.Now()
				wrote := make(chan struct{})
				go func() {
					defer close(wrote)
					_, err := io.WriteString(conn, row.says)
					for err == nil && row.more != "" {
						time.Sleep(time.Second)
						_, err = io.WriteString(conn, row.more)
					}
				}()
				if err := conn.SetReadDeadline(began.Add(10 * time.Minute)); err != nil {
					t.Fatal(err)
				}
				_, err = io.Copy(io.Discard, conn)
				late := net.Error(nil)
				if took := time.Since(began); errors.As(err, &late) && late.Timeout() || took > row.most {
					t.Errorf("the connection is open for %v: %v", took, err)
				}
				_ = conn.Close()
				<-wrote
			})
		})
	}
}
