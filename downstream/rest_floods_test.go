package downstream

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestRESTFloods: a flood on a REST listener ends its connection, and makes it keep no more than some
// MB; whoever asks on another connection is answered. net/http itself ends a connection whose
// answers nobody reads, and a block of headers without end; those that remain are told to calm down
// (TestRESTFaultsAreCalmed, TestRESTChatterIsCalmed).
func TestRESTFloods(t *testing.T) {
	const most = 16 << 20 // of what is sent, and of what may be kept
	call := func(more ...string) []byte {
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		fields := append([]string{
			":method", http.MethodPost, ":scheme", "http", ":path", "/v3/discovery:clusters", ":authority", "weir",
		}, more...)
		// they refer to no table; a buffer takes everything, here and below
		for i := 0; i < len(fields); i += 2 {
			_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true})
		}
		return b.Bytes()
	}
	short, long := call(), call("x-long", strings.Repeat("a", headerList-1024))
	for _, flood := range []struct {
		name  string
		write func(f *http2.Framer, i uint32)
		deaf  bool // the client does not read
	}{
		{"pings", func(f *http2.Framer, _ uint32) { _ = f.WritePing(false, [8]byte{}) }, true},
		{"settings", func(f *http2.Framer, _ uint32) { _ = f.WriteSettings() }, false},
		{"endless headers", func(f *http2.Framer, i uint32) {
			if i == 0 {
				_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: short})
			}
			_ = f.WriteContinuation(1, false, call("x", strings.Repeat("a", 1000)))
		}, true},
		{"resets", func(f *http2.Framer, i uint32) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: short, EndHeaders: true})
			_ = f.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
		}, false},
		{"long headers", func(f *http2.Framer, i uint32) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: long, EndHeaders: true})
			_ = f.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
		}, false},
		{"streams", func(f *http2.Framer, i uint32) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: short, EndHeaders: true})
		}, false},
		{"windows", func(f *http2.Framer, _ uint32) { _ = f.WriteWindowUpdate(0, 0x100) }, false},
		{"priorities", func(f *http2.Framer, i uint32) {
			_ = f.WritePriority(2*i+1, http2.PriorityParam{Weight: 1})
		}, false},
	} {
		t.Run(flood.name, func(t *testing.T) {
			l := newLive(t, relaytest.TCP(), func(_ *Config, lc *ListenerConfig) { lc.REST = true })
			conn, err := net.Dial("tcp", l.net.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if !flood.deaf { // or else net/http would end it, too
				go func() { _, _ = io.Copy(io.Discard, conn) }()
			}
			before := liveHeap()
			ended := pour(t, conn, most, flood.write)
			if !ended {
				t.Errorf("the connection goes on after %d MiB", most>>20)
			}
			if kept := liveHeap() - before; kept > most/2 {
				t.Errorf("%d KiB are kept", kept>>10)
			}
			answered(t, l.net.Addr())
		})
	}
}

// pour writes frames on a new connection until it is ended or so many bytes were written.
func pour(t *testing.T, conn net.Conn, most int, write func(f *http2.Framer, i uint32)) (ended bool) {
	t.Helper()
	if err := conn.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	var batch bytes.Buffer
	f := http2.NewFramer(&batch, nil)
	batch.WriteString(http2.ClientPreface)
	_ = f.WriteSettings()
	for i, wrote := uint32(0), 0; wrote < most; i++ {
		write(f, i)
		if batch.Len() < 64<<10 {
			continue
		}
		n, err := conn.Write(batch.Bytes())
		if wrote += n; err != nil {
			return true
		}
		batch.Reset()
	}
	return false
}

// answered sees to it that a listener of polls answers on another connection.
func answered(t *testing.T, addr string) {
	t.Helper()
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + addr + "/v3/discovery:clusters")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("another client is answered %s", resp.Status)
	}
}
