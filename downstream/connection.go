package downstream

import (
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
)

// turnAway is how long a connection without streams stays open after a stream was refused on it.
// The client reads the status, and may retry once.
const turnAway = time.Second

// connection is a client's connection, as far as streams need to know it. A refused client retries
// on the connection that it has, so a load balancer would never move it away from a full replica. A
// connection on which all streams were refused is therefore closed (TestRefusedClientsAreLetGo). So
// is one whose certificate has ended, since the next one is shown on another connection alone.
type connection struct {
	framed framedReady // first, for the CPU's cache

	// Set once by handshaker or restListener.
	id     uint64 // unique in the process
	raw    net.Conn
	server *Server

	// Set once by greet.
	info    credentials.AuthInfo
	until   time.Time // when its streams end with the client's certificate; zero: never
	user    uint32    // at the other end of a Unix socket
	hasUser bool      // user is known

	life lifespan // set once by grow

	// distrusted is the status of its streams since its certificate is not trusted any more; nil:
	// it is. Set once.
	distrusted atomic.Pointer[error]

	churn  churn
	flight unapplied

	// Guarded by Server.mu.
	streams int  // open discovery streams
	closing bool // it is checked in a moment (letGo)
}

// connections is the last id given.
var connections atomic.Uint64

// applied counts bytes of requests that are applied. c may be nil.
func (c *connection) applied(n int) {
	if c != nil {
		c.server.receiving.applied(c, n)
	}
}

// appliedAll is applied for all that the connection has sent. c may be nil.
func (c *connection) appliedAll() {
	if c != nil {
		c.server.receiving.applied(c, int(c.flight.bytes.Load()))
	}
}

// AuthType implements credentials.AuthInfo. A stream finds its connection through its AuthInfo.
func (c *connection) AuthType() string { return c.info.AuthType() }

// connectionOf returns the connection of a stream; nil in tests without one.
func connectionOf(p *peer.Peer) *connection {
	c, _ := p.AuthInfo.(*connection)
	return c
}

// handshaker makes the connection object once a handshake is done.
type handshaker struct {
	credentials.TransportCredentials
	server *Server
	age    time.Duration // Timing.MaxStreamAge
}

func (s *Server) newHandshaker(lc *ListenerConfig, age time.Duration) credentials.TransportCredentials {
	if lc.TLS != nil {
		return handshaker{credentials.NewTLS(lc.TLS), s, age}
	}
	return handshaker{insecure.NewCredentials(), s, age}
}

// ServerHandshake implements credentials.TransportCredentials.
func (g handshaker) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c := &connection{id: connections.Add(1), raw: raw, server: g.server}
	conn, err := g.server.greet(c, g.Info().SecurityProtocol == "tls", g.TransportCredentials.ServerHandshake)
	if err == nil {
		c.grow(g.age)
	}
	return conn, c, err
}

// greet does the handshake, which is that of TLS if secured, and wraps the connection so that its
// frames are counted.
func (s *Server) greet(
	c *connection, secured bool, shake func(net.Conn) (net.Conn, credentials.AuthInfo, error),
) (conn net.Conn, err error) {
	s.greetLater(peerOf(c.raw.RemoteAddr()))
	since := c.trustRound()
	raw, over := c.raw, (*tlsConn)(nil)
	if secured {
		over = newTLSConn(c.raw)
		raw = &over.records
	}
	if conn, c.info, err = shake(raw); err != nil {
		s.handshakeFailed(err, c.raw.RemoteAddr())
		return conn, err
	}
	if secured {
		over.Conn = conn
		conn = over
	}
	c.user, c.hasUser = userOf(c.raw)
	c.until = trustEnd(time.Now(), c.info)
	if err = c.enlist(since); err != nil {
		s.handshakeFailed(err, c.raw.RemoteAddr())
		return nil, err
	}
	return c.follow(conn), nil
}

// Clone implements credentials.TransportCredentials.
func (g handshaker) Clone() credentials.TransportCredentials {
	return handshaker{g.TransportCredentials.Clone(), g.server, g.age}
}

// leave tells the client to open no more streams on the connection, because what this process has
// not got, a replica may have. Many clients otherwise ask again on the same connection, for as long
// as it is open. Open streams go on.
func (c *connection) leave() {
	if c.framed.out != nil {
		// As long as the client does not read, this waits.
		time.AfterFunc(0, func() { c.framed.frames.send(c.framed.out, aged) })
	}
}

// letGo closes a connection after turnAway, unless it has a stream by then. It locks the server.
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
