package fleet

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// manner is how a client behaves.
type manner int

const (
	good manner = iota
	deaf        // reads nothing once it has subscribed
	mute        // reads, and acknowledges nothing
	slow        // reads at a fixed rate
)

// smallWindow is what a bad client grants its server, as is usual, so that it stands in its
// server's way soon.
const smallWindow = 64 << 10

// errNoPorts is an error of the machine, not of the server.
var errNoPorts = errors.New("no local port is left for another connection: one address can have about as many as " +
	"net.ipv4.ip_local_port_range holds; use --per-connection, or fewer clients")

// dialer opens connections, and ends the run when none can be had for want of ports.
type dialer struct {
	manner manner
	rate   int // bytes a second, for slow
	fail   context.CancelCauseFunc
	hush   chan struct{} // closed by the client when it reads no more, for deaf
}

func (d *dialer) dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			d.fail(errNoPorts)
		}
		return nil, err
	}
	if d.manner != deaf && d.manner != slow {
		return conn, nil
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(smallWindow) // else megabytes would be taken in by the system
	}
	return &hinderedConn{Conn: conn, hush: d.hush, rate: d.rate, closed: make(chan struct{})}, nil
}

// hinderedConn is read slowly, or no more.
type hinderedConn struct {
	net.Conn
	hush   chan struct{}
	rate   int // bytes a second; 0: any
	once   sync.Once
	closed chan struct{}
}

// Read is part of net.Conn.
func (c *hinderedConn) Read(b []byte) (int, error) {
	if c.rate > 0 {
		b = b[:min(len(b), max(c.rate/10, 1))]
	}
	n, err := c.Conn.Read(b)
	select {
	case <-c.hush:
		<-c.closed
		return 0, net.ErrClosed
	default:
	}
	if c.rate > 0 && n > 0 {
		pause := time.NewTimer(time.Duration(n) * time.Second / time.Duration(c.rate))
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-c.closed:
		}
	}
	return n, err
}

// Close is part of net.Conn.
func (c *hinderedConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
