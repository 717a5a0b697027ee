package downstream

import (
	"math"
	"net"
	"net/netip"
	"sync"
	"time"
)

// connCount counts the connections of a server. It refuses those beyond limits.connections and
// limits.connections_per_peer before anything is read from them.
type connCount struct {
	// guards what follows; held for map work only; taken under countedListener.mu
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

// count returns the number of open connections. It locks the count.
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

// enter counts a connection, or returns the config key and the value of the limit that is reached.
// It locks the count.
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

// leave takes a connection out of the count. It locks the count.
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

// peerOf returns the peer that a connection counts for: an IPv4 address, or the IPv6 network of 64
// bits that a host is given. For a Unix socket it is the invalid prefix, which is not counted.
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
	p, _ := ip.Prefix(bits) // invalid if ip is
	return p
}

// countedListener is a listener that counts its connections, and closes them when it stops. grpc
// itself waits for connections that are still in their handshake, and has no way to end them
// (TestStopWaitsForNobody).
type countedListener struct {
	net.Listener
	server *Server
	// unacknowledged is how long TCP may have unacknowledged data before the connection counts as
	// dead. grpc sets it itself only on connections of types that it knows (gRFC A18).
	unacknowledged time.Duration
	trust          trust // in the certificates of clients

	mu     sync.Mutex // guards what follows; held for map work only
	conns  map[*countedConn]struct{}
	closed bool
}

func newCountedListener(s *Server, port net.Listener, k Keepalive) *countedListener {
	l := &countedListener{Listener: port, server: s, conns: map[*countedConn]struct{}{}}
	if k.Time < math.MaxInt64 { // otherwise keepalive is off
		l.unacknowledged = k.Timeout
	}
	return l
}

// Accept implements net.Listener.
func (l *countedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if counted := l.admit(c); counted != nil {
			return counted.asConn(), nil
		}
		_ = c.Close() // the client sees that it is closed
	}
}

// admit counts a connection and wraps it. It returns nil if a limit is reached or the listener is
// stopped. It locks the listener.
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

// stop closes all connections and refuses new ones. It locks the listener.
func (l *countedListener) stop() {
	l.mu.Lock()
	conns := l.conns
	l.conns, l.closed = nil, true
	l.mu.Unlock()
	for c := range conns {
		_ = c.Close() // most are closed anyway
	}
}

// countedConn is a connection that leaves the count when it is closed.
type countedConn struct {
	net.Conn
	listener *countedListener
	peer     netip.Prefix
	left     sync.Once
	client   *connection // guarded by the listener's mutex; nil: the handshake is not done
}

// self finds the countedConn of what embeds it.
func (c *countedConn) self() *countedConn { return c }

// Close implements net.Conn.
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
