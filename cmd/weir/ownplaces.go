package main

import (
	"cmp"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
)

// The places of the ports that are not for clients. Few programs use them: kubelet, Prometheus,
// operators and the browsers of these, other replicas.
const (
	adminPlaces  = 256
	probesPlaces = 256
	seedPlaces   = 64
	// placesShare bounds the places of each port where the process may have few files: 1 in this.
	placesShare = 16
)

// ownPlaces bounds the connections of a port that is not for clients of xDS, so that it cannot use
// up the file descriptors of the process. A newcomer is never refused: beyond the bound a
// connection of the peer with most of them is closed, one without a request if there is one. So a
// flood from one address displaces itself, and kubelet and Prometheus get in.
type ownPlaces struct {
	net.Listener
	most int
	log  *zap.Logger

	mu     sync.Mutex // guards what follows; held for list work only
	conns  map[*ownConn]struct{}
	events uint64 // changes so far, which order the connections
	said   time.Time
}

// ownConn is an open connection of such a port.
type ownConn struct {
	net.Conn
	port *ownPlaces
	peer string

	// Guarded by port.mu.
	busy  bool   // a request is being served
	since uint64 // the event with which that began
}

func newOwnPlaces(l net.Listener, most int, log *zap.Logger) *ownPlaces {
	return &ownPlaces{Listener: l, most: most, log: log, conns: make(map[*ownConn]struct{})}
}

// Accept implements net.Listener.
func (p *ownPlaces) Accept() (net.Conn, error) {
	raw, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &ownConn{Conn: raw, port: p, peer: peerOfAddress(raw.RemoteAddr())}
	if gone, speak := p.enter(c, time.Now()); gone != nil {
		_ = gone.Close() // its server notices
		if speak {
			p.log.Warn("connection limit of a port reached; closing connections of the peer with the most",
				zap.Stringer("address", p.Addr()), zap.Int("connections", p.most), zap.String("peer", gone.peer))
		}
	}
	return c, nil
}

// enter adds a connection. It returns the one that has to make room, if one has, and whether to log
// it.
func (p *ownPlaces) enter(c *ownConn, now time.Time) (gone *ownConn, speak bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.conns) >= p.most {
		gone = p.leastLocked(c.peer)
		delete(p.conns, gone)
		if speak = now.Sub(p.said) >= rationSay; speak {
			p.said = now
		}
	}
	p.events++
	c.since = p.events
	p.conns[c] = struct{}{}
	return gone, speak
}

// leastLocked is the connection that makes room for one of a peer.
func (p *ownPlaces) leastLocked(newcomer string) (least *ownConn) {
	held := map[string]int{newcomer: 1}
	for c := range p.conns {
		held[c.peer]++
	}
	before := func(x, y *ownConn) int {
		byBusy := 0
		if x.busy != y.busy {
			byBusy = 1
			if y.busy {
				byBusy = -1
			}
		}
		return cmp.Or(cmp.Compare(held[y.peer], held[x.peer]), byBusy, cmp.Compare(x.since, y.since))
	}
	for c := range p.conns {
		if least == nil || before(c, least) < 0 {
			least = c
		}
	}
	return least
}

// NetConn returns the connection that was accepted, as that of tls.Conn does.
func (c *ownConn) NetConn() net.Conn { return c.Conn }

// Close implements net.Conn.
func (c *ownConn) Close() error {
	c.port.mu.Lock()
	delete(c.port.conns, c)
	c.port.mu.Unlock()
	return c.Conn.Close()
}

// state is http.Server.ConnState: it knows which connections have a request. One whose request is
// only being read has none.
func (p *ownPlaces) state(conn net.Conn, now http.ConnState) {
	if t, secured := conn.(*tls.Conn); secured {
		conn = t.NetConn()
	}
	c, ours := conn.(*ownConn)
	if !ours || now != http.StateActive && now != http.StateIdle {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events++
	c.busy, c.since = now == http.StateActive, p.events
}

// peerOfAddress is whom a connection counts for: its network, or all who use a Unix socket.
func peerOfAddress(a net.Addr) string {
	if peer, is := admin.NetworkOf(a.String()); is {
		return peer
	}
	return a.Network()
}

// ownFiles returns how many places the ports of a configuration have that are not for clients.
func ownFiles(cfg *config.Config, limit int) int {
	n := placesOf(adminPlaces, limit)
	if cfg.Probes.Address != "" {
		n += placesOf(probesPlaces, limit)
	}
	if cfg.Cache.Seed.Listen != "" {
		n += placesOf(seedPlaces, limit)
	}
	return n
}

// placesOf returns how many of most places a port has if the process may have so many files; 0: no
// limit is known.
func placesOf(most, limit int) int {
	if limit == 0 {
		return most
	}
	return max(1, min(most, limit/placesShare))
}
