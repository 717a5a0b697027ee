package downstream

import (
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/mem"
)

// readyConn is a counted connection that grpc reads without a buffer that waits with it, which
// would be 32 KiB for each connection: grpc does so of itself with a net.TCPConn or net.UnixConn,
// and with whatever has ReadOnReady (TestIdleConnectionBytes). Read by one goroutine.
type readyConn struct {
	*countedConn
	raw  syscall.RawConn
	read func(fd uintptr) (done bool) // fill; a field, to be made once

	size int
	pool mem.BufferPool
	buf  *[]byte
	n    int
	err  error
}

// asConn is what grpc is given.
func (c *countedConn) asConn() net.Conn {
	switch conn := c.Conn.(type) {
	case *net.TCPConn, *net.UnixConn:
		raw, err := conn.(syscall.Conn).SyscallConn()
		if err != nil {
			return c // it will show when it is read
		}
		if _, tcp := conn.(*net.TCPConn); tcp && c.listener.unacknowledged > 0 {
			// pings find a dead peer, too, unless something waits to be written
			_ = raw.Control(func(fd uintptr) {
				_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(c.listener.unacknowledged.Milliseconds()))
			})
		}
		r := &readyConn{countedConn: c, raw: raw}
		r.read = r.fill
		return r
	default:
		return c
	}
}

// below is where what is written to a connection goes: readyConn counts nothing that is written.
func below(c net.Conn) net.Conn {
	if r, ok := c.(*readyConn); ok {
		return r.countedConn.Conn
	}
	return c
}

// ReadOnReady waits until there is something to read, and only then takes a buffer from the pool
// for it. The buffer is the caller's.
func (r *readyConn) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	r.size, r.pool = size, pool
	err := r.raw.Read(r.read)
	buf, n := r.buf, r.n
	if err == nil {
		err = r.err
	}
	r.pool, r.buf, r.n, r.err = nil, nil, 0, nil
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil && buf != nil {
		pool.Put(buf)
		buf = nil
	}
	return buf, n, err
}

func (r *readyConn) fill(fd uintptr) bool {
	r.buf = r.pool.Get(r.size)
	for {
		r.n, r.err = syscall.Read(int(fd), *r.buf)
		switch r.err {
		case nil:
			return true
		case syscall.EINTR: //nolint:errorlint // a bare Errno, at each of the two looks of a read
			continue
		}
		r.pool.Put(r.buf)
		r.buf, r.n = nil, 0
		return r.err != syscall.EAGAIN //nolint:errorlint // as above
	}
}
