package downstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"
)

// TestEnhanceYourCalm: a connection that opens and resets streams without end is sent GOAWAY with
// ENHANCE_YOUR_CALM, between two frames, and is closed; whoever is on another one notices nothing.
func TestEnhanceYourCalm(t *testing.T) {
	for _, secured := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain text", true: "TLS"}[secured], func(t *testing.T) {
			reg := prometheus.NewRegistry()
			ours, theirs := (*tls.Config)(nil), (*tls.Config)(nil)
			if secured {
				ours, theirs = certificates(t)
			}
			l := newLive(t, relaytest.TCP(), func(cfg *Config, lc *ListenerConfig) {
				cfg.Metrics, lc.TLS = metrics.New(reg), ours
			})
			conn, err := net.Dial("tcp", l.net.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if secured {
				theirs.NextProtos = []string{"h2"}
				conn = tls.Client(conn, theirs)
			}
			go resetStreams(conn)
			told := false
			if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
				t.Fatal(err)
			}
			for frames := http2.NewFramer(nil, conn); ; {
				f, err := frames.ReadFrame()
				if err != nil {
					if n := (*net.OpError)(nil); !told || !errors.Is(err, io.EOF) && !errors.As(err, &n) {
						t.Errorf("told to calm down: %v; the connection ends with %v", told, err)
					}
					break
				}
				if g, ok := f.(*http2.GoAwayFrame); ok && !told {
					if g.ErrCode != http2.ErrCodeEnhanceYourCalm {
						t.Errorf("told to go for %v", g.ErrCode)
					}
					told = true
				}
			}
			if n := counted(t, reg, "weir_connections_calmed_total", ""); n != 1 {
				t.Errorf("%v connections are counted", n)
			}
		})
	}
}

// resetStreams opens and resets streams until the connection is closed.
func resetStreams(conn net.Conn) {
	var head, batch bytes.Buffer
	e := hpack.NewEncoder(&head)
	for _, f := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", xds.ADS.Method(true)},
		{":authority", "weir"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		// as a literal, each time the same
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true})
	}
	frames := http2.NewFramer(&batch, nil)
	batch.WriteString(http2.ClientPreface)
	_ = frames.WriteSettings() // a buffer takes everything
	for id := uint32(1); ; id += 2 {
		_ = frames.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head.Bytes(), EndHeaders: true})
		_ = frames.WriteRSTStream(id, http2.ErrCodeCancel)
		if batch.Len() < 16<<10 {
			continue
		}
		if _, err := conn.Write(batch.Bytes()); err != nil {
			return
		}
		batch.Reset()
	}
}

// TestCalmClientsAreLeftAlone: clients that are refused, and come again as gRPC's backoff has it, a
// hundred of them on one connection, are not told to calm down; nor is a client that opens many
// streams that are answered.
func TestCalmClientsAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, func(l *Limits) { l.Streams, l.NewStreamsPerSecond = -1, 1 })
		conn := l.net.Connect(t)
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		var clients sync.WaitGroup
		for range 100 {
			clients.Go(func() {
				for wait := 500 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 30*time.Second) {
					one, reset := context.WithTimeout(ctx, 10*time.Millisecond)
					_, _ = conn.NewStream(one, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, xds.ADS.Method(true))
					sleep(ctx, wait)
					reset()
				}
			})
		}
		clients.Wait()
		synctest.Wait()
		if n := counted(t, l.reg, "weir_connections_calmed_total", ""); n != 0 || l.net.Accepted() != 1 {
			t.Errorf("%v connections are closed, and %d were made", n, l.net.Accepted())
		}
	})
	now, c := time.Now(), &churn{}
	for range 10 * churnMost {
		if over, _ := c.note(now, incoming{calls: 1}, 0); over {
			t.Fatal("too many answered streams are too many")
		}
		c.answer()
	}
}

// TestFrameBetweenFrames: what is put between grpc's frames is never within one, nor within a block
// of headers, however they are written, and comes once.
func TestFrameBetweenFrames(t *testing.T) {
	var stream bytes.Buffer
	f := http2.NewFramer(&stream, nil)
	for _, err := range []error{
		f.WriteSettings(), f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("abc"), EndHeaders: true}),
		f.WriteData(1, false, bytes.Repeat([]byte("x"), 300)),
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte("abc")}), f.WriteContinuation(3, false, nil),
		f.WriteContinuation(3, true, []byte("def")), f.WriteData(3, true, nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	all := stream.Bytes()
	for at := range len(all) + 1 {
		for _, step := range []int{1, 7, 64, len(all)} {
			var wire recordedConn
			fs := &frames{}
			write := func(b []byte) {
				for len(b) > 0 {
					n := min(step, len(b))
					if _, err := fs.write(&wire, b[:n]); err != nil {
						t.Fatal(err)
					}
					b = b[n:]
				}
			}
			write(all[:at])
			fs.send(&wire, goaway)
			write(all[at:])
			kinds, r := map[http2.FrameType]int{}, http2.NewFramer(nil, &wire)
			for {
				frame, err := r.ReadFrame()
				if errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("after %d bytes, in steps of %d: %v", at, step, err)
				}
				kinds[frame.Header().Type]++
			}
			if kinds[http2.FrameGoAway] != 1 || kinds[http2.FrameData] != 2 || kinds[http2.FrameContinuation] != 2 {
				t.Fatalf("after %d bytes, in steps of %d: %v", at, step, kinds)
			}
		}
	}
}

// recordedConn takes what is written, to be read.
type recordedConn struct {
	net.Conn
	bytes.Buffer
}

func (c *recordedConn) Write(b []byte) (int, error) { return c.Buffer.Write(b) }
func (c *recordedConn) Read(b []byte) (int, error)  { return c.Buffer.Read(b) }

// TestCalmedConnectionIsSlow: what a connection sends after it was told to calm down is read slowly
// until it is closed.
func TestCalmedConnectionIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, relaytest.Memory(), nil)
		ours, theirs := net.Pipe()
		defer func() { _ = theirs.Close() }()
		c := &connection{raw: ours, server: l.server}
		c.follow(ours)
		c.framed.receive([]byte(http2.ClientPreface))
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: theirs.RemoteAddr(), AuthInfo: c})
		call := []byte{0, 0, 0, byte(http2.FrameHeaders), byte(http2.FlagHeadersEndHeaders), 0, 0, 0, 1}
		began := time.Now()
		refused := 0
		for range churnMost + 10 {
			c.framed.receive(call)
			c.framed.frames.rest()
			if _, err := l.server.arrive(ctx, &tap.Info{}); err != nil {
				refused++
			}
		}
		if d := time.Since(began); refused != 10 || d != 10*churnPause {
			t.Errorf("%d streams were refused, and took %v; want 10 and %v", refused, d, 10*churnPause)
		}
		time.Sleep(turnAway) // it is closed
	})
}
