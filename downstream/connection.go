package downstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
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
	since := uint64(0)
	if _, listener := c.counted(); listener != nil {
		since = listener.trust.round()
	}
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

// recordText is the most text that a TLS record has (RFC 8446, 5.1).
const recordText = 16 << 10

// tlsConn is a TLS connection that writes several records with one system call. crypto/tls makes
// one for each record. A write of 64 KiB by grpc took five then, which cost more than encrypting
// it: a SotW delivery of 436 KB took 591 us of CPU, and 473 us now (TestRecordsGoTogether).
type tlsConn struct {
	net.Conn // of crypto/tls, over records
	records  records
}

// records is the connection that crypto/tls reads from and writes to.
type records struct {
	net.Conn
	out net.Conn // where writes go, see below
	// more: another record follows at once. It is set by who writes to the tlsConn; an alert or the
	// answer to a KeyUpdate may read it on another goroutine, and then goes along.
	more atomic.Bool
	// broken: a write has failed. crypto/tls still says goodbye when it is closed then, and gives
	// that a deadline of its own. But the record before it never went, or not whole, so the client
	// would take the goodbye for a forged record (TestNothingFollowsAFailedWrite).
	broken bool
	held   *[]byte // records that wait for the last one; nil: there are none. crypto/tls writes one at a time
}

// heldRecords has the buffers of writes that are under way: at most one for each connection, of
// about the size of grpc's write buffer.
var heldRecords = sync.Pool{New: func() any {
	b := make([]byte, 0, writeBuffer+writeBuffer/8)
	return &b
}}

func newTLSConn(raw net.Conn) *tlsConn {
	c := &tlsConn{}
	c.records.Conn, c.records.out = raw, below(raw)
	return c
}

// Write is part of net.Conn. It is called by one goroutine at a time.
func (c *tlsConn) Write(b []byte) (n int, err error) {
	for last := false; !last; {
		text := b[n:]
		if last = len(text) <= recordText; !last {
			text = text[:recordText]
		}
		c.records.more.Store(!last)
		m, err := c.Conn.Write(text)
		if n += m; err != nil {
			return n, err // TLS refuses all further writes
		}
	}
	return n, nil
}

// Write is part of net.Conn. A single record is not copied.
func (r *records) Write(record []byte) (int, error) {
	if r.broken {
		return 0, net.ErrClosed
	}
	more := r.more.Load()
	if r.held == nil {
		if !more {
			return r.send(record)
		}
		r.held = heldRecords.Get().(*[]byte)
	}
	*r.held = append(*r.held, record...)
	if more {
		return len(record), nil
	}
	_, err := r.send(*r.held)
	*r.held = (*r.held)[:0]
	heldRecords.Put(r.held)
	r.held = nil
	if err != nil {
		return 0, err
	}
	return len(record), nil
}

// send writes records. After an error it is not called again.
func (r *records) send(b []byte) (int, error) {
	n, err := r.out.Write(b)
	r.broken = err != nil
	return n, err
}

// handshakeFailure says why a TLS handshake with a client failed. It is a closed set
// (metrics.HandshakeFailure).
type handshakeFailure string

const (
	// The client closed the connection, as probes of load balancers do.
	handshakeClosed        handshakeFailure = "closed"
	handshakeTimeout       handshakeFailure = "timeout" // the client stopped sending
	handshakeNotTLS        handshakeFailure = "not_tls"
	handshakeNoCertificate handshakeFailure = "no_certificate"
	handshakeCertificate   handshakeFailure = "bad_certificate" // the client's
	handshakeRevoked       handshakeFailure = "revoked"         // the client's certificate
	handshakeNotAllowed    handshakeFailure = "not_allowed"     // ErrNotAllowed
	handshakeAlert         handshakeFailure = "refused_by_client"
	handshakeVersion       handshakeFailure = "no_common_version"
	handshakeProtocol      handshakeFailure = "no_http2"
	handshakeOther         handshakeFailure = "other"
)

// ErrNotAllowed is wrapped by the error of ListenerConfig.TLS if it refuses a client whose
// certificate it has verified.
var ErrNotAllowed = errors.New("who the certificate is for may not connect")

// failedBy classifies the error of a handshake by its text where the libraries have no type for it;
// net/http has none at all.
func failedBy(err error) handshakeFailure {
	var (
		header  tls.RecordHeaderError
		cert    *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
		remote  *net.OpError
		netErr  net.Error
	)
	text := err.Error()
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	switch {
	case errors.As(err, &header), says("does not look like a TLS handshake", "HTTP request to an HTTPS server"):
		return handshakeNotTLS
	case errors.Is(err, ErrRevoked):
		return handshakeRevoked
	case errors.Is(err, ErrNotAllowed):
		return handshakeNotAllowed
	case errors.As(err, &cert), errors.As(err, &unknown), says("failed to verify certificate"):
		return handshakeCertificate
	case says("didn't provide a certificate"):
		return handshakeNoCertificate
	case errors.As(err, &remote) && remote.Op == "remote error", says("remote error"):
		return handshakeAlert
	case says("unsupported versions", "unsupported version", "no cipher suite supported"):
		return handshakeVersion
	case says("ALPN", "application protocol"):
		return handshakeProtocol
	case errors.As(err, &netErr) && netErr.Timeout(), says("i/o timeout"):
		return handshakeTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed), says("EOF", "reset by peer", "broken pipe"):
		return handshakeClosed
	}
	return handshakeOther
}

// handshakeFailed counts a failed handshake and logs one of each kind a minute. It does not log
// clients that merely close the connection.
func (s *Server) handshakeFailed(err error, from net.Addr) {
	why := failedBy(err)
	s.cfg.Metrics.HandshakeFailure(string(why))
	if ce := s.cfg.Log.Check(zap.DebugLevel, "a TLS handshake failed"); ce != nil {
		ce.Write(zap.String("reason", string(why)), zap.Stringer("peer", from), zap.String("error", clip(err.Error(), maxNackText)))
	}
	if why == handshakeClosed {
		return
	}
	if more, write := s.limits.rate.admit("handshake "+string(why), time.Now()); write {
		s.cfg.Log.Warn("a TLS handshake with a client failed", zap.String("reason", string(why)), zap.Stringer("peer", from),
			zap.String("error", clip(err.Error(), maxNackText)), zap.Int("not_logged", more))
	}
}
