package downstream

import (
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
)

// turnAway is how long a connection without any stream stays open after one was refused on it: the
// client reads why, and may try once more.
const turnAway = time.Second

// connection is a client's connection, as far as streams need to know it. A client that is refused
// comes again over the connection it has, so a full replica behind a load balancer would keep it
// for ever: a connection that has only refused streams is closed, and the client gets to choose
// anew (TestRefusedClientsAreLetGo).
type connection struct {
	framed framedReady // first, for the processor's cache

	// Set once by handshaker, or restListener.
	id     uint64 // of all connections of the process
	raw    net.Conn
	server *Server

	info credentials.AuthInfo // set once by greet

	churn churn

	// Guarded by Server.mu.
	streams int  // discovery streams that were taken in
	closing bool // it is looked at in a moment
}

// connections numbers them.
var connections atomic.Uint64

// AuthType is part of credentials.AuthInfo: that is how a stream finds its connection.
func (c *connection) AuthType() string { return c.info.AuthType() }

// connectionOf is the connection of a stream; nil in tests that have none.
func connectionOf(p *peer.Peer) *connection {
	c, _ := p.AuthInfo.(*connection)
	return c
}

// handshaker notes each connection once its handshake is done.
type handshaker struct {
	credentials.TransportCredentials
	server *Server
}

func (s *Server) newHandshaker(lc *ListenerConfig) credentials.TransportCredentials {
	if lc.TLS != nil {
		return handshaker{credentials.NewTLS(lc.TLS), s}
	}
	return handshaker{insecure.NewCredentials(), s}
}

// ServerHandshake is part of credentials.TransportCredentials.
func (g handshaker) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c := &connection{id: connections.Add(1), raw: raw, server: g.server}
	conn, err := g.server.greet(c, g.TransportCredentials.ServerHandshake)
	return conn, c, err
}

// greet shakes hands with a client, and has what it says followed.
func (s *Server) greet(
	c *connection, shake func(net.Conn) (net.Conn, credentials.AuthInfo, error),
) (conn net.Conn, err error) {
	s.greetLater(peerOf(c.raw.RemoteAddr()))
	if conn, c.info, err = shake(c.raw); err != nil {
		s.handshakeFailed(err, c.raw.RemoteAddr())
		return conn, err
	}
	return c.follow(conn), nil
}

// Clone is part of credentials.TransportCredentials.
func (g handshaker) Clone() credentials.TransportCredentials {
	return handshaker{g.TransportCredentials.Clone(), g.server}
}

// letGo closes a connection in a moment, unless a stream is taken in on it until then. It locks the
// server.
func (s *Server) letGo(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.closing || c.streams > 0 {
		return
	}
	c.closing = true
	time.AfterFunc(turnAway, func() {
		s.mu.Lock()
		c.closing = false
		idle := c.streams == 0
		s.mu.Unlock()
		if idle {
			_ = c.raw.Close() // it may be closed already
		}
	})
}
