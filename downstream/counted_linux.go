package downstream

import (
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/mem"
)

// readyConn lets grpc read without holding a buffer while it waits: 32 KiB per connection
// otherwise. grpc does so for net.TCPConn, net.UnixConn and whatever has ReadOnReady
// (TestIdleConnectionBytes). It is used by one reading goroutine.
type readyConn struct {
	*countedConn
	raw  syscall.RawConn
	read func(fd uintptr) (done bool) // the method fill; a field, so that it is allocated once

	size int
	pool mem.BufferPool
	buf  *[]byte
	n    int
	err  error
}

// asConn returns the connection as grpc is given it.
func (c *countedConn) asConn() net.Conn {
	switch conn := c.Conn.(type) {
	case *net.TCPConn, *net.UnixConn:
		raw, err := conn.(syscall.Conn).SyscallConn()
		if err != nil {
			return c // the first read returns the error
		}
		if _, tcp := conn.(*net.TCPConn); tcp && c.listener.unacknowledged > 0 {
			// Keepalive pings detect a dead peer, but not while data waits to be written.
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

// below returns what writes go to: readyConn adds nothing to them.
func below(c net.Conn) net.Conn {
	if r, ok := c.(*readyConn); ok {
		return r.countedConn.Conn
	}
	return c
}

// ReadOnReady waits until there is data, and only then takes a buffer from the pool. The caller
// owns the buffer.
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

// userOf is the user at the other end of a Unix socket; false: it is none, or the system does not
// say.
func userOf(c net.Conn) (uid uint32, ok bool) {
	wire, is := below(c).(*net.UnixConn)
	if !is {
		return 0, false
	}
	raw, err := wire.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		if ok = err == nil; ok {
			uid = cred.Uid
		}
	})
	return uid, ok && err == nil
}
