package downstream

import (
	"math"
	"net"
	"net/netip"
	"sync"
	"time"
)

// connCount counts the connections of a server, and turns away those beyond its limits before
// anything is read of them (limits.connections, limits.connections_per_peer).
type connCount struct {
	// guards what follows; held for map work only; under countedListener.mu
	mu            sync.Mutex
	most, perPeer int
	open          int
	peers         map[netip.Prefix]int
}

// set changes the limits. It locks the count.
func (n *connCount) set(most, perPeer int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.most, n.perPeer = most, perPeer
}

// count is the number of open connections. It locks the count.
func (n *connCount) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.open
}

// full reports whether no connection may be added. It locks the count.
func (n *connCount) full() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.open >= n.most
}

// enter counts a connection, or gives the key of the limit that it is beyond, and what that is. It
// locks the count.
func (n *connCount) enter(peer netip.Prefix) (key string, limit int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.open >= n.most:
		return "connections", n.most
	case peer.IsValid() && n.peers[peer] >= n.perPeer:
		return "connections_per_peer", n.perPeer
	}
	n.open++
	if peer.IsValid() {
		n.peers[peer]++
	}
	return "", 0
}

// leave takes back what enter counted. It locks the count.
func (n *connCount) leave(peer netip.Prefix) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open--
	if !peer.IsValid() {
		return
	}
	if n.peers[peer]--; n.peers[peer] == 0 {
		delete(n.peers, peer)
	}
}

// peerOf is whom a connection is counted for: an address, of IPv6 its network of 64 bits, which is
// what one host is given. Who comes over a Unix socket is counted for nobody: the result is not
// valid.
func peerOf(a net.Addr) netip.Prefix {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := t.AddrPort().Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // not valid if ip is not
	return p
}

// countedListener is a listener of the server's. It knows its connections, to close them at the
// end: grpc waits for those that are on their way to HTTP/2, and knows no way to hurry them
// (TestStopWaitsForNobody).
type countedListener struct {
	net.Listener
	server *Server
	// unacknowledged is how long what was written may stay so before the connection counts as dead;
	// grpc sees to it itself only where it knows the net.Conn (gRFC A18).
	unacknowledged time.Duration

	mu     sync.Mutex // guards what follows; held for map work only
	conns  map[*countedConn]struct{}
	closed bool
}

func newCountedListener(s *Server, port net.Listener, k Keepalive) *countedListener {
	l := &countedListener{Listener: port, server: s, conns: map[*countedConn]struct{}{}}
	if k.Time < math.MaxInt64 { // or else nobody is to be found dead
		l.unacknowledged = k.Timeout
	}
	return l
}

// Accept is part of net.Listener.
func (l *countedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if counted := l.admit(c); counted != nil {
			return counted.asConn(), nil
		}
		_ = c.Close() // the client reads its end
	}
}

// admit counts a connection; nil: it is beyond a limit, or the listener is closed. It locks the
// listener.
func (l *countedListener) admit(c net.Conn) *countedConn {
	peer := peerOf(c.RemoteAddr())
	if key, limit := l.server.conns.enter(peer); key != "" {
		l.server.cfg.Metrics.LimitRejection(key)
		l.server.limits.connection(time.Now(), key, limit, c.RemoteAddr())
		return nil
	}
	counted := &countedConn{Conn: c, listener: l, peer: peer}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		l.server.conns.leave(peer)
		return nil
	}
	l.conns[counted] = struct{}{}
	return counted
}

// stop closes the connections there are, and has all that come refused. It locks the listener.
func (l *countedListener) stop() {
	l.mu.Lock()
	conns := l.conns
	l.conns, l.closed = nil, true
	l.mu.Unlock()
	for c := range conns {
		_ = c.Close() // most are about to be closed
	}
}

// countedConn is a connection that leaves the count when it is closed.
type countedConn struct {
	net.Conn
	listener *countedListener
	peer     netip.Prefix
	left     sync.Once
}

// Close is part of net.Conn.
func (c *countedConn) Close() error {
	c.left.Do(func() {
		l := c.listener
		l.mu.Lock()
		delete(l.conns, c)
		l.mu.Unlock()
		l.server.conns.leave(c.peer)
	})
	return c.Conn.Close()
}
