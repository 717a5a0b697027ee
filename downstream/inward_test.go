package downstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// block is a block of headers of a call, with some that replace the usual ones or come after them.
// It refers to no table.
func block(more ...string) []byte {
	fields := []string{
		":method", "POST", ":scheme", "http", ":path", xds.ADS.Method(true), ":authority", "weir",
		"content-type", "application/grpc", "te", "trailers",
	}
	for i := 0; i < len(more); i += 2 {
		usual := false
		for j := 0; j < len(fields) && more[i] != "te"; j += 2 {
			if fields[j] == more[i] {
				fields[j+1], usual = more[i+1], true
			}
		}
		if !usual {
			fields = append(fields, more[i], more[i+1])
		}
	}
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		// a buffer takes everything
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true})
	}
	return b.Bytes()
}

// writeCall writes the headers of a call.
func writeCall(f *http2.Framer, id uint32, block []byte) {
	const most = 16 << 10
	first := block[:min(most, len(block))]
	rest := block[len(first):]
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndHeaders: len(rest) == 0})
	if len(rest) > 0 {
		_ = f.WriteContinuation(id, true, rest)
	}
}

// calms reports whether a connection on which something is written again and again is told to calm
// down, before so many times. It is in a bubble: how fast frames come must not depend on how fast a
// machine takes them.
func calms(t *testing.T, rest bool, times int, write func(f *http2.Framer, id uint32)) (told bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		var conn net.Conn
		var err error
		if rest {
			conn, err = newPolling(t, func(cfg *Config, _ *ListenerConfig) { cfg.Metrics = metrics.New(reg) }).dial(t.Context(), "", "")
		} else {
			l := newLive(t, relaytest.Memory(), func(cfg *Config, _ *ListenerConfig) { cfg.Metrics = metrics.New(reg) })
			conn, err = l.net.Dial(t.Context(), "")
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		wrote := make(chan struct{})
		defer func() { <-wrote }()
		go func() {
			defer close(wrote)
			writeFrames(conn, times, write)
		}()
		if err := conn.SetReadDeadline(time.Now().Add(3 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		for frames := http2.NewFramer(nil, conn); ; {
			f, err := frames.ReadFrame()
			if n := net.Error(nil); errors.As(err, &n) && n.Timeout() {
				t.Fatal("nothing happens any more")
			} else if err != nil {
				told = counted(t, reg, "weir_connections_calmed_total", "") > 0
				return
			}
			if p, ok := f.(*http2.PingFrame); ok && p.IsAck() && p.Data == [8]byte{42} {
				_ = conn.Close()
			}
		}
	})
	return told
}

// writeFrames opens a connection, writes something so many times, and then a ping, or until the
// connection is closed.
func writeFrames(conn net.Conn, times int, write func(f *http2.Framer, id uint32)) {
	var batch bytes.Buffer
	f := http2.NewFramer(&batch, nil)
	batch.WriteString(http2.ClientPreface)
	_ = f.WriteSettings() // a buffer takes everything
	for i := range times {
		write(f, uint32(2*i+1))
		if batch.Len() < 16<<10 && i < times-1 {
			continue
		}
		if _, err := conn.Write(batch.Bytes()); err != nil {
			return
		}
		batch.Reset()
	}
	_ = f.WritePing(false, [8]byte{42})
	_, _ = conn.Write(batch.Bytes())
}

// TestFaultsAreCalmed: calls that are none are what a connection is told to calm down for, whoever
// refuses them.
func TestFaultsAreCalmed(t *testing.T) {
	for name, fault := range map[string][]byte{
		"unknown methods": block(":path", "/no.such.Service/Method"), "no gRPC": block("content-type", "text/html"),
		"no POST": block(":method", "GET"), "too long headers": block("x", strings.Repeat("x", headerList)),
		"a timeout that is none": block("grpc-timeout", "soon"),
	} {
		t.Run(name, func(t *testing.T) {
			if !calms(t, false, 3*churnMost, func(f *http2.Framer, id uint32) { writeCall(f, id, fault) }) {
				t.Error("nobody told the client to calm down")
			}
		})
	}
}

// TestRefusedStreamsAreCounted: so are streams beyond limits.streams_per_connection, which grpc
// resets and tells nobody of.
func TestRefusedStreamsAreCounted(t *testing.T) {
	open := block()
	if !calms(t, false, 3*churnMost, func(f *http2.Framer, id uint32) { writeCall(f, id, open) }) {
		t.Error("nobody told the client to calm down")
	}
}

// chatter is frames that carry nothing for any stream.
var chatter = map[string]func(*http2.Framer){
	"settings":     func(f *http2.Framer) { _ = f.WriteSettings() },
	"acks":         func(f *http2.Framer) { _ = f.WriteSettingsAck() },
	"windows":      func(f *http2.Framer) { _ = f.WriteWindowUpdate(3, 1) },
	"priorities":   func(f *http2.Framer) { _ = f.WritePriority(3, http2.PriorityParam{Weight: 1}) },
	"resets":       func(f *http2.Framer) { _ = f.WriteRSTStream(1, http2.ErrCodeCancel) },
	"empty data":   func(f *http2.Framer) { _ = f.WriteData(1, false, nil) },
	"unknown ones": func(f *http2.Framer) { _ = f.WriteRawFrame(0xbe, 0, 0, make([]byte, 64)) },
}

// TestChatterIsCalmed: frames that carry nothing for any stream, without end.
func TestChatterIsCalmed(t *testing.T) {
	for name, write := range chatter {
		t.Run(name, func(t *testing.T) {
			open := block()
			if !calms(t, false, 3*idleMost, func(f *http2.Framer, id uint32) {
				if id == 1 {
					writeCall(f, id, open)
				}
				write(f)
			}) {
				t.Error("nobody told the client to calm down")
			}
		})
	}
	now, c := time.Now(), &churn{}
	for i := range int64(10 * idleMost) {
		if over, _ := c.note(now, incoming{idle: 3}, i); over {
			t.Fatal("a client that widens windows for what it is sent is told to calm down")
		}
	}
}

// TestHeadersAreNotKept: of the headers of a stream nothing is kept but what is read of them later.
func TestHeadersAreNotKept(t *testing.T) {
	const streams, most = 100, 5_000 // grpc's own of a stream, and ours, before its first request
	many := make([]string, 0, 600)
	for i := range 300 {
		many = append(many, fmt.Sprintf("x%d", i), "")
	}
	for name, headers := range map[string][]byte{
		"few":                  block(),
		"a long one":           block("x", strings.Repeat("x", 14_336)),
		"many":                 block(many...),
		"many of one name":     block(strings.Split(strings.Repeat("te,trailers,", 250)+"te,trailers", ",")...),
		"a long list of codes": block("grpc-accept-encoding", strings.Repeat("x", 14_336)),
		"a long content type":  block("content-type", "application/grpc+"+strings.Repeat("x", 14_336)),
	} {
		t.Run(name, func(t *testing.T) {
			l := newLive(t, relaytest.TCP(), nil)
			conn, err := net.Dial("tcp", l.net.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			var batch bytes.Buffer
			f := http2.NewFramer(&batch, nil)
			batch.WriteString(http2.ClientPreface)
			_ = f.WriteSettings() // a buffer takes everything
			pong := make(chan struct{}, 2)
			read := make(chan struct{})
			defer func() { _ = conn.Close(); <-read }()
			go func() {
				defer close(read)
				for frames := http2.NewFramer(io.Discard, conn); ; {
					f, err := frames.ReadFrame()
					if err != nil {
						return
					}
					if p, ok := f.(*http2.PingFrame); ok && p.IsAck() {
						pong <- struct{}{}
					}
				}
			}()
			flush := func() {
				_ = f.WritePing(false, [8]byte{1})
				if _, err := conn.Write(batch.Bytes()); err != nil {
					t.Error(err)
				}
				batch.Reset()
				<-pong
			}
			writeCall(f, 1, block())
			flush()
			warmGoroutines(2 * streams)
			before := liveHeap()
			for i := range uint32(streams - 1) {
				writeCall(f, 2*i+3, headers)
			}
			flush()
			await(t, "they wait for their first request, or are refused", func() bool {
				n := len(l.server.list())
				return n == streams || n == 1
			})
			if each := (liveHeap() - before) / streams; each > most {
				t.Errorf("a stream keeps %d bytes, want at most %d", each, most)
			} else {
				t.Logf("%d bytes", each)
			}
		})
	}
}

// TestCallsAreCountedByTheirFirstFrame: a call counts when its headers begin, in however many frames
// they come, and also if they never end; what follows of them is neither a call nor idle, unless it
// is empty.
func TestCallsAreCountedByTheirFirstFrame(t *testing.T) {
	half := []byte("half of it")
	for _, row := range []struct {
		name  string
		write func(f *http2.Framer)
		want  incoming
	}{
		{"in one frame", func(f *http2.Framer) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: half, EndHeaders: true})
		}, incoming{calls: 1}},
		{"in three", func(f *http2.Framer) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: half})
			_ = f.WriteContinuation(1, false, half)
			_ = f.WriteContinuation(1, true, half)
		}, incoming{calls: 1}},
		{"without end", func(f *http2.Framer) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: half})
		}, incoming{calls: 1}},
		{"with empty frames behind", func(f *http2.Framer) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: half})
			_ = f.WriteContinuation(1, false, nil)
			_ = f.WriteContinuation(1, true, nil)
		}, incoming{calls: 1, idle: 2}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var b bytes.Buffer
			b.WriteString(http2.ClientPreface)
			row.write(http2.NewFramer(&b, nil)) // a buffer takes everything
			in, got := inward{}, incoming{}
			for _, c := range b.Bytes() { // however it arrives
				a, _ := in.pass([]byte{c})
				got.calls, got.idle = got.calls+a.calls, got.idle+a.idle
			}
			if got != row.want {
				t.Errorf("it is %+v, want %+v", got, row.want)
			}
		})
	}
}
