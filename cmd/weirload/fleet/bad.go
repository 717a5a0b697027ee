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

// smallWindow is the flow-control window of a bad client: the usual one, so that it soon blocks its
// server.
const smallWindow = 64 << 10

// errNoPorts is a limit of this machine, not a failure of the server.
var errNoPorts = errors.New("no local port is left for another connection: one address can have about as many as " +
	"net.ipv4.ip_local_port_range holds; use --per-connection, or fewer clients")

// dialer opens connections. It ends the run if there are no local ports left.
type dialer struct {
	manner manner
	rate   int // bytes a second, for slow
	fail   context.CancelCauseFunc
	hush   chan struct{} // for deaf: the client closes it when it reads no more
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
		_ = tcp.SetReadBuffer(smallWindow) // otherwise the system would buffer megabytes
	}
	return &hinderedConn{Conn: conn, hush: d.hush, rate: d.rate, closed: make(chan struct{})}, nil
}

// hinderedConn is a connection that is read slowly, or no more.
type hinderedConn struct {
	net.Conn
	hush   chan struct{}
	rate   int // bytes a second; 0: unlimited
	once   sync.Once
	closed chan struct{}
}

// Read implements net.Conn.
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

// Close implements net.Conn.
func (c *hinderedConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
