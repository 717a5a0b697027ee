package relaytest

import (
	"net"
	"sync/atomic"
)

// netConn is the accepted half of a connection, known to its Net until closed.
type netConn struct {
	net.Conn
	net   *Net
	holed atomic.Bool // once true, stays true: bytes are missing from the stream
}

// Read passes on what the peer sent, or discards it for ever once the connection is black-holed;
// then only Close ends it.
func (c *netConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.holed.Load() {
			return n, err
		}
	}
}

func (c *netConn) Write(b []byte) (int, error) {
	if c.holed.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *netConn) Close() error {
	c.net.mu.Lock()
	delete(c.net.conns, c)
	c.net.mu.Unlock()
	return c.Conn.Close()
}

// netListener registers what it accepts with its Net.
type netListener struct {
	net.Listener
	net *Net
}

func (l *netListener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	n := l.net
	c := &netConn{Conn: raw, net: n}
	n.mu.Lock()
	defer n.mu.Unlock()
	c.holed.Store(n.holed)
	n.conns[c] = struct{}{}
	n.accepted++
	return c, nil
}
