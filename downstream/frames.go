package downstream

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/mem"
)

// frames follows the HTTP/2 frames that grpc or net/http writes to a connection, so that a frame of
// ours can be written between two of them. Neither library has a way for that. With HTTP/1.1 there
// are no frames, and nothing is written.
type frames struct {
	ours atomic.Pointer[[]byte] // a frame to write between two of grpc's; nil: there is none
	// unread is until when nothing is read, in nanoseconds of the epoch. The caller that asks for a
	// pause cannot wait itself: grpc calls it with a lock held that writing and closing need, and
	// net/http on another goroutine than that which reads.
	unread atomic.Int64

	sent atomic.Int64 // frames of headers and of data written so far
	// strict: grpc sent GOAWAY because the client pings too often. It says so to the client alone.
	strict atomic.Bool

	mu   sync.Mutex // held while something is written; guards what follows
	scan scanner
	// open: a block of headers is not complete, and only its next frame may follow (RFC 9113,
	// 6.10).
	open bool
}

// scanner finds the heads of frames in bytes that come in pieces.
type scanner struct {
	head [frameHead]byte
	have uint8 // bytes seen so far of a head that is incomplete
	left int32 // bytes of payload still to come
}

// frameHead is the length of a frame before its payload (RFC 9113, 4.1).
const frameHead = 9

// tooManyPings is the length of the GOAWAY with which grpc cuts off a client that pings too often:
// the last stream, a code, and this text. It sends none of another reason that is so long, but one
// for a broken protocol, whose text it makes up (TestPingsTooOften).
const tooManyPings = 8 + len("too_many_pings")

// pause makes reading wait for so long, unless it waits for longer already. A read that is under
// way goes on.
func (f *frames) pause(d time.Duration) {
	until := time.Now().Add(d).UnixNano()
	for old := f.unread.Load(); old < until && !f.unread.CompareAndSwap(old, until); old = f.unread.Load() {
	}
}

// rest waits for the end of a pause. Close does not cut it short.
func (f *frames) rest() {
	if until := f.unread.Load(); until != 0 {
		time.Sleep(time.Until(time.Unix(0, until)))
		f.unread.CompareAndSwap(until, 0)
	}
}

// between reports whether no frame is under way.
func (s *scanner) between() bool { return s.have == 0 && s.left == 0 }

// pass calls frame for each frame whose head is complete with b.
func (s *scanner) pass(b []byte, frame func(length int, kind http2.FrameType, flags http2.Flags)) {
	for len(b) > 0 {
		if s.left > 0 {
			n := min(int(s.left), len(b))
			s.left -= int32(n) //nolint:gosec // at most left
			b = b[n:]
			continue
		}
		n := copy(s.head[s.have:], b)
		s.have += uint8(n) //nolint:gosec // at most frameHead
		b = b[n:]
		if s.have < frameHead {
			return
		}
		s.have = 0
		s.left = int32(s.head[0])<<16 | int32(binary.BigEndian.Uint16(s.head[1:]))
		frame(int(s.left), http2.FrameType(s.head[3]), http2.Flags(s.head[4]))
	}
}

// write writes what grpc or net/http passes. It locks the frames.
func (f *frames) write(w net.Conn, b []byte) (int, error) {
	f.mu.Lock()
	n, err := w.Write(b)
	f.follow(b[:n])
	if err == nil {
		f.add(w)
	}
	f.mu.Unlock()
	if f.ours.Load() != nil { // send was called meanwhile, and left the frame to this write
		f.try(w)
	}
	return n, err
}

// send writes a frame between two of grpc's, at once if none is under way. If no write is under
// way, it waits for the peer to read.
func (f *frames) send(w net.Conn, frame []byte) {
	f.ours.Store(&frame)
	f.try(w)
}

// try writes the waiting frame, unless a write is under way, which then does it. It locks the
// frames if nobody else holds them.
func (f *frames) try(w net.Conn) {
	if f.mu.TryLock() {
		f.add(w)
		f.mu.Unlock()
	}
}

func (f *frames) add(w net.Conn) {
	if !f.scan.between() || f.open {
		return
	}
	if frame := f.ours.Swap(nil); frame != nil {
		_, _ = w.Write(*frame) // grpc finds out what is wrong with the connection
	}
}

// follow follows what was written.
func (f *frames) follow(b []byte) {
	f.scan.pass(b, func(length int, kind http2.FrameType, flags http2.Flags) {
		switch kind {
		case http2.FrameData:
			f.sent.Add(1)
		case http2.FrameGoAway:
			if length == tooManyPings {
				f.strict.Store(true)
			}
		// They have the same flag.
		case http2.FrameHeaders, http2.FramePushPromise, http2.FrameContinuation:
			f.sent.Add(1)
			f.open = !flags.Has(http2.FlagHeadersEndHeaders)
		}
	})
}

// framedConn is the connection that grpc or net/http reads from and writes to. It is a part of its
// connection, and begins with what each message needs. With thousands of clients nothing of a
// connection is in the processor's cache when its turn comes, and each object on the way costs as
// much as all the rest (BenchmarkDelivery; the scenario "delta" of make compare).
type framedConn struct {
	net.Conn
	// out is where writes go: Conn, or for plain text the connection below the one that counts.
	out    net.Conn
	client *connection // the connection that it is part of
	bye    *time.Timer // sends GOAWAY at its age; nil: it has none; set once by grow
	frames frames
	inward inward // owned by its reader
}

// framedReady is a framedConn that grpc reads from without holding a buffer while it waits
// (readyConn).
type framedReady struct {
	framedConn
	reader readyReader // nil: reads need a waiting buffer
}

// readyReader is the interface by which grpc recognises such a connection.
type readyReader interface {
	ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error)
}

// Write is part of net.Conn.
func (c *framedConn) Write(b []byte) (int, error) {
	n, err := c.frames.write(c.out, b)
	if c.frames.strict.Load() && c.frames.strict.CompareAndSwap(true, false) {
		c.client.server.pinged(c.client)
	}
	return n, err
}

// Read is part of net.Conn.
func (c *framedConn) Read(b []byte) (int, error) {
	c.frames.rest()
	c.client.server.receiving.wait(c.client)
	n, err := c.Conn.Read(b)
	c.receive(b[:n])
	return n, err
}

// ReadOnReady is part of readyReader.
func (c *framedReady) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	c.frames.rest()
	c.client.server.receiving.wait(c.client)
	buf, n, err := c.reader.ReadOnReady(size, pool)
	if buf != nil {
		c.receive((*buf)[:n])
	}
	return buf, n, err
}

// follow is the connection for grpc, over conn.
func (c *connection) follow(conn net.Conn) net.Conn {
	f := &c.framed
	f.Conn, f.out, f.client = conn, conn, c
	if r, ok := conn.(readyReader); ok {
		f.reader = r
		f.out = below(conn)
		return f
	}
	return &f.framedConn
}

// inward parses the frames that a client sends, before grpc or net/http reads them. Neither library
// reports streams that it refuses itself, nor frames that belong to no stream. The zero value is
// ready for a new connection.
type inward struct {
	scan    scanner
	preface int8 // bytes of the HTTP/2 preface seen (RFC 9113, 3.4); -1: the connection began with something else
}

// opens consumes the preface from b and returns the rest. For a connection that begins otherwise,
// as HTTP/1.1 does, it returns nothing: there are no frames.
func (f *inward) opens(b []byte) []byte {
	if f.preface == int8(len(http2.ClientPreface)) {
		return b
	}
	if f.preface < 0 {
		return nil
	}
	rest := http2.ClientPreface[f.preface:]
	n := min(len(rest), len(b))
	if string(b[:n]) != rest[:n] {
		f.preface = -1
		return nil
	}
	f.preface += int8(n) //nolint:gosec // at most the preface
	return b[n:]
}

// incoming counts what some bytes contained.
type incoming struct {
	// Streams that the client opens; trailers, which gRPC clients never send; HTTP/1.1 requests.
	calls int
	idle  int // frames without content for any stream
}

// leastData is the length of the shortest gRPC message. A shorter DATA frame carries nothing.
const leastData = 5

// pass returns what some bytes contained, and how many of them are data of requests. With HTTP/1.1
// all are.
func (f *inward) pass(b []byte) (a incoming, data int) {
	frames := f.opens(b)
	if f.preface < 0 {
		return a, len(b)
	}
	f.scan.pass(frames, func(length int, kind http2.FrameType, flags http2.Flags) {
		if kind == http2.FrameData {
			data += length
		}
		switch {
		case kind == http2.FrameHeaders:
			a.calls++
		case kind == http2.FrameContinuation && length > 0:
		case kind != http2.FrameData, length < leastData && !flags.Has(http2.FlagDataEndStream):
			a.idle++
		}
	})
	return a, data
}

// receive is called with bytes read from the connection, before grpc or net/http gets them.
func (c *framedConn) receive(b []byte) {
	in, data := c.inward.pass(b)
	c.client.server.receiving.add(c.client, data)
	if in != (incoming{}) {
		c.client.note(in, goaway)
	}
}

// note counts what a connection sent and delays it if that is too much. bye is what the client is
// sent when it is cut off for it.
func (c *connection) note(in incoming, bye []byte) {
	if c.server.cfg.Tiers {
		return
	}
	now, sent := time.Now(), c.framed.frames.sent.Load()
	over, first := c.churn.note(now, in, sent)
	if first {
		c.server.calm(now, c, bye)
	}
	if over {
		c.framed.frames.pause(min(time.Duration(in.calls+in.idle)*churnPause, turnAway))
		return
	}
	if bytes := in.calls*c.server.headers.least() + c.churn.chatter(in.idle, sent)*idleBytes; bytes > 0 {
		c.server.pace(c, c.caller(), bytes)
	}
}
