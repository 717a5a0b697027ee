package downstream

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/mem"
)

// frames follows the HTTP/2 frames that grpc writes to a connection, so that one of ours can be put between two of
// them, which grpc has no way for.
type frames struct {
	ours atomic.Pointer[[]byte] // a frame to be written between two of grpc's; nil: there is none

	mu   sync.Mutex // held while something is written; guards what follows
	head [frameHead]byte
	have int  // bytes of head that were written, of a frame whose head is under way
	left int  // bytes of payload that are still to be written of the frame
	open bool // a block of headers is not complete, and only its next frame may follow (RFC 9113, 6.10)
}

// frameHead is the length of what comes before a frame's payload (RFC 9113, 4.1).
const frameHead = 9

// write writes what grpc gives.
func (f *frames) write(w net.Conn, b []byte) (int, error) {
	f.mu.Lock()
	n, err := w.Write(b)
	f.followLocked(b[:n])
	if err == nil {
		f.addLocked(w)
	}
	f.mu.Unlock()
	if f.ours.Load() != nil { // send came meanwhile, and left it to us
		f.try(w)
	}
	return n, err
}

// send has a frame written between two of grpc's, at once if none is under way. It waits for the peer to read, if nobody
// else does.
func (f *frames) send(w net.Conn, frame []byte) {
	f.ours.Store(&frame)
	f.try(w)
}

func (f *frames) try(w net.Conn) {
	if f.mu.TryLock() {
		f.addLocked(w)
		f.mu.Unlock()
	}
}

func (f *frames) addLocked(w net.Conn) {
	if f.have > 0 || f.left > 0 || f.open {
		return
	}
	if frame := f.ours.Swap(nil); frame != nil {
		_, _ = w.Write(*frame) // grpc finds out what is wrong with the connection
	}
}

// followLocked takes note of what was written.
func (f *frames) followLocked(b []byte) {
	for len(b) > 0 {
		if f.left > 0 {
			n := min(f.left, len(b))
			f.left -= n
			b = b[n:]
			continue
		}
		n := copy(f.head[f.have:], b)
		f.have += n
		b = b[n:]
		if f.have < frameHead {
			return
		}
		f.have = 0
		f.left = int(f.head[0])<<16 | int(binary.BigEndian.Uint16(f.head[1:]))
		switch http2.FrameType(f.head[3]) {
		case http2.FrameHeaders, http2.FramePushPromise, http2.FrameContinuation: // they have the same flag
			f.open = !http2.Flags(f.head[4]).Has(http2.FlagHeadersEndHeaders)
		}
	}
}

// framedConn is what grpc is given to write to.
type framedConn struct {
	net.Conn
	frames *frames
}

// Write is part of net.Conn.
func (c *framedConn) Write(b []byte) (int, error) { return c.frames.write(c.Conn, b) }

// framedReady is a framedConn of which grpc reads without a buffer that waits (readyConn).
type framedReady struct {
	framedConn
	reader readyReader
}

// readyReader is grpc's word for what can be read so.
type readyReader interface {
	ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error)
}

// ReadOnReady is part of readyReader.
func (c *framedReady) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	return c.reader.ReadOnReady(size, pool)
}

// follow is conn for grpc to write to.
func (f *frames) follow(conn net.Conn) net.Conn {
	framed := framedConn{Conn: conn, frames: f}
	if r, ok := conn.(readyReader); ok {
		return &framedReady{framed, r}
	}
	return &framed
}
