package downstream

import (
	"math"
	"net"
	"net/netip"
	"sync"
	"time"
)

// door counts the connections of a server, and turns away those beyond its limits before anything is read of
// them (limits.connections, limits.connections_per_peer).
type door struct {
	mu            sync.Mutex // guards what follows; held for map work only; under entrance.mu
	most, perPeer int
	open          int
	peers         map[netip.Prefix]int
}

func (d *door) set(most, perPeer int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.most, d.perPeer = most, perPeer
}

func (d *door) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open
}

// enter counts a connection, or gives the key of the limit that it is beyond, and what that is.
func (d *door) enter(peer netip.Prefix) (key string, limit int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.open >= d.most:
		return "connections", d.most
	case peer.IsValid() && d.peers[peer] >= d.perPeer:
		return "connections_per_peer", d.perPeer
	}
	d.open++
	if peer.IsValid() {
		d.peers[peer]++
	}
	return "", 0
}

func (d *door) leave(peer netip.Prefix) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open--
	if !peer.IsValid() {
		return
	}
	if d.peers[peer]--; d.peers[peer] == 0 {
		delete(d.peers, peer)
	}
}

// peerOf is whom a connection is counted for: an address, of IPv6 its network of 64 bits, which is what one host
// is given. Who comes over a Unix socket is counted for nobody: the result is not valid.
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

// entrance is a listener of the server's. It knows its connections, to close them at the end: grpc waits for
// those that are on their way to HTTP/2, and knows no way to hurry them (TestStopWaitsForNobody).
type entrance struct {
	net.Listener
	server *Server
	// unacknowledged is how long what was written may stay so before the connection counts as dead; grpc sees to it
	// itself only where it knows the net.Conn (gRFC A18).
	unacknowledged time.Duration

	mu     sync.Mutex // guards what follows; held for map work only
	guests map[*guest]struct{}
	closed bool
}

func newEntrance(s *Server, l net.Listener, k Keepalive) *entrance {
	e := &entrance{Listener: l, server: s, guests: map[*guest]struct{}{}}
	if k.Time < math.MaxInt64 { // or else nobody is to be found dead
		e.unacknowledged = k.Timeout
	}
	return e
}

// Accept is part of net.Listener.
func (e *entrance) Accept() (net.Conn, error) {
	for {
		c, err := e.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g := e.admit(c); g != nil {
			return g.asConn(), nil
		}
		_ = c.Close() // the client reads its end
	}
}

func (e *entrance) admit(c net.Conn) *guest {
	peer := peerOf(c.RemoteAddr())
	if key, limit := e.server.door.enter(peer); key != "" {
		e.server.cfg.Metrics.LimitRejection(key)
		e.server.limits.connection(time.Now(), key, limit, c.RemoteAddr())
		return nil
	}
	g := &guest{Conn: c, entrance: e, peer: peer}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		e.server.door.leave(peer)
		return nil
	}
	e.guests[g] = struct{}{}
	return g
}

// stop closes the connections there are, and has all that come refused.
func (e *entrance) stop() {
	e.mu.Lock()
	guests := e.guests
	e.guests, e.closed = nil, true
	e.mu.Unlock()
	for g := range guests {
		_ = g.Close() // most are about to be closed
	}
}

// guest is a connection that is counted.
type guest struct {
	net.Conn
	entrance *entrance
	peer     netip.Prefix
	left     sync.Once
}

// Close is part of net.Conn.
func (g *guest) Close() error {
	g.left.Do(func() {
		e := g.entrance
		e.mu.Lock()
		delete(e.guests, g)
		e.mu.Unlock()
		e.server.door.leave(g.peer)
	})
	return g.Conn.Close()
}
