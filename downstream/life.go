package downstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// errAged is UNAVAILABLE because clients handle that well: they reconnect at once, state what they
// hold, and log no warning.
var errAged = status.Error(codes.Unavailable, "the stream has reached timing.max_stream_age: connect again, and resume by version")

// lifespan is how long the streams of a connection may last (RELAY-59). A client chooses a replica
// when it connects, so this is what spreads clients over replicas (TestBalance).
type lifespan struct {
	told time.Time // when it is sent GOAWAY; zero: never
	ends time.Time // when its last stream ends
}

const (
	// upTimes is how many times as long as the process has been up a new connection may last. Those
	// who came while other replicas were restarted, or were full, choose again soon.
	upTimes = 3
	// ageParts is which part of the age it may last at least.
	ageParts = 6
)

// newLifespan is that of a connection that is made now, to a process that has been up for so long:
// a random time between a half and the whole of what it may last, so that clients that came
// together do not leave together. draw returns a random number below n. There is none if age is
// zero.
func newLifespan(now time.Time, up, age time.Duration, draw func(n int64) int64) lifespan {
	if age <= 0 {
		return lifespan{}
	}
	most := age
	if up < age/upTimes {
		most = max(upTimes*up, age/ageParts)
	}
	life := most/2 + time.Duration(draw(int64(most/2)+1))
	return lifespan{told: now.Add(life - life/10), ends: now.Add(life)}
}

// end returns when a stream ends that is opened now: a random time after its connection was told to
// go; zero: never.
func (l lifespan) end(now time.Time, draw func(n int64) int64) time.Time {
	if l.told.IsZero() {
		return time.Time{}
	}
	from := l.told
	if now.After(from) {
		from = now // its client opens streams on a connection that it was told to leave
	}
	return from.Add(time.Duration(draw(int64(max(0, l.ends.Sub(from))) + 1)))
}

// aged is GOAWAY with no error: the client opens no more streams on the connection, and those that
// are open go on.
var aged = goAway(http2.ErrCodeNo, "")

// grow gives the connection its lifespan. It is told to go, and closed when its streams have ended.
// What the client opens after that goes to a new connection, so none of its streams is reopened on
// one that is about to close. grpc's own MaxConnectionAge is one for all connections, and after its
// GOAWAY grpc sends no pings, so it would not notice a dead peer.
func (c *connection) grow(age time.Duration) {
	now := time.Now()
	if c.life = newLifespan(now, now.Sub(c.server.began), age, rand.Int64N); c.life.told.IsZero() {
		return
	}
	raw := c.raw // the second timer keeps this alone, which is small
	c.framed.bye = time.AfterFunc(c.life.told.Sub(now), func() {
		over := time.Until(c.life.ends) + turnAway
		time.AfterFunc(over, func() { _ = raw.Close() }) // it may be closed already
		c.framed.frames.send(c.framed.out, aged)
	})
}

// Close is part of net.Conn. What is closed need not be told to go.
func (c *framedConn) Close() error {
	c.client.server.receiving.end(c.client)
	if c.bye != nil {
		c.bye.Stop()
	}
	return c.Conn.Close()
}

// errExpired is UNAVAILABLE because a client that connects again shows its next certificate.
var errExpired = status.Error(codes.Unavailable,
	"the certificate that opened the connection ends: connect again with the next one, and resume by version")

// trustEnd returns when the streams of a connection end that begins now: at a random time in the
// last tenth of the life of the client's certificate, so that clients whose certificates end
// together do not reconnect together. A connection that begins in that tenth has nine tenths of
// what is left. It is zero if no certificate was verified.
func trustEnd(now time.Time, info credentials.AuthInfo) time.Time {
	over, _ := info.(credentials.TLSInfo)
	ends := verifiesUntil(&over.State)
	if ends.IsZero() {
		return time.Time{}
	}
	leaf := over.State.VerifiedChains[0][0]
	spread, left := leaf.NotAfter.Sub(leaf.NotBefore)/10, ends.Sub(now)
	if left < spread {
		spread = left / 10
	}
	return ends.Add(-rand.N(max(0, spread) + 1))
}

// verifiesUntil returns when the last of the chains ends by which the client was verified: with
// that one of its certificates that ends first.
func verifiesUntil(state *tls.ConnectionState) (last time.Time) {
	for _, chain := range state.VerifiedChains {
		if ends := chainEnds(chain); ends.After(last) {
			last = ends
		}
	}
	return last
}

func chainEnds(chain []*x509.Certificate) time.Time {
	ends := chain[0].NotAfter
	for _, cert := range chain[1:] {
		if cert.NotAfter.Before(ends) {
			ends = cert.NotAfter
		}
	}
	return ends
}

// expired reports whether the certificate that opened the connection has ended, for the streams of
// the connection.
func (c *connection) expired(now time.Time) bool { return !c.until.IsZero() && !now.Before(c.until) }

// expire has the stream end with the certificate that opened its connection, unless it is too old
// before.
func (s *session) expire(at time.Time) {
	if !at.IsZero() && (s.until.IsZero() || at.Before(s.until)) {
		s.until, s.expires = at, true
	}
}

// expire ends the stream with the certificate that opened its connection. stop ends the wait.
func (l *loadStream) expire() (stop func()) {
	if l.conn == nil || l.conn.until.IsZero() {
		return func() {}
	}
	timer := time.AfterFunc(time.Until(l.conn.until), func() { l.end(errExpired) })
	return func() { timer.Stop() }
}

// ErrRevoked is, or is wrapped by, the error of ListenerConfig.Trusts and of a handshake if a
// certificate of the client was revoked.
var ErrRevoked = errors.New("is revoked")

// Both are UNAVAILABLE because a client that connects again may show another certificate.
var (
	errRevoked = status.Error(codes.Unavailable,
		"the certificate that opened the connection is revoked: connect again with another one, and resume by version")
	errUntrusted = status.Error(codes.Unavailable, "the authority of the certificate that opened the connection is no longer trusted: reconnect with another one, and resume by version")
)

// trustSpread is how long it takes to end the connections of an authority that is not trusted any
// more: all of its clients do not come back together. Revoked certificates are few.
const trustSpread = 5 * time.Second

// trust judges the client certificates of a listener's connections.
type trust struct {
	judge   func(*tls.ConnectionState) error // ListenerConfig.Trusts, set once; nil: time alone ends trust
	changes atomic.Uint64                    // calls of Recheck
}

// round returns which Recheck was the last one.
func (t *trust) round() uint64 { return t.changes.Load() }

// distrust returns the status of the streams of a connection whose certificate is not trusted; nil:
// it is.
func (t *trust) distrust(info credentials.AuthInfo) (why, ends error) {
	over, secured := info.(credentials.TLSInfo)
	if t.judge == nil || !secured || len(over.State.VerifiedChains) == 0 {
		return nil, nil
	}
	switch why = t.judge(&over.State); {
	case why == nil:
		return nil, nil
	case errors.Is(why, ErrRevoked):
		return why, errRevoked
	}
	return why, errUntrusted
}

// enlist lets Recheck find the connection. since is the round in which the handshake began: the
// certificate is judged again if a Recheck may have missed it. It locks the listener.
func (c *connection) enlist(since uint64) error {
	counted, listener := c.counted()
	if counted == nil || listener.trust.judge == nil {
		return nil
	}
	listener.mu.Lock()
	counted.client = c
	listener.mu.Unlock()
	if listener.trust.round() == since {
		return nil
	}
	why, _ := listener.trust.distrust(c.info)
	return why
}

// counted returns what the listener knows the connection as; nil in tests without one.
func (c *connection) counted() (*countedConn, *countedListener) {
	if raw, ok := c.raw.(interface{ self() *countedConn }); ok {
		return raw.self(), raw.self().listener
	}
	return nil, nil
}

// clients returns the connections whose handshakes are done. It locks the listener.
func (l *countedListener) clients() (all []*connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if c.client != nil {
			all = append(all, c.client)
		}
	}
	return all
}

// over returns the status of all streams that are opened on the connection, since its certificate
// has ended or is not trusted any more; nil: it is good. c may be nil.
func (c *connection) over(now time.Time) error {
	if c == nil {
		return nil
	}
	if why := c.distrusted.Load(); why != nil {
		return *why
	}
	if c.expired(now) {
		return errExpired
	}
	return nil
}

// endable is a stream or a stream of load reports.
type endable interface{ end(reason error) }

// Recheck judges the client certificates of a listener's open connections again, by
// ListenerConfig.Trusts, which the caller has changed. On a connection that is not trusted any more
// nothing new is served from now on. Its streams end at once if the certificate was revoked, and
// otherwise within trustSpread. Then it is closed. Recheck takes no lock while it judges.
func (s *Server) Recheck(port net.Listener) {
	s.mu.Lock()
	i := slices.IndexFunc(s.listeners, func(ln *listener) bool { return ln.port == port })
	if i < 0 {
		s.mu.Unlock()
		return // it serves nobody yet, or nobody any more
	}
	counted := s.listeners[i].counted
	s.mu.Unlock()
	counted.trust.changes.Add(1)
	open := map[*connection][]endable{}
	revoked := 0
	for _, c := range counted.clients() {
		if _, ends := counted.trust.distrust(c.info); ends != nil && c.distrusted.CompareAndSwap(nil, &ends) {
			open[c] = nil
			if errors.Is(ends, errRevoked) {
				revoked++
			}
		}
	}
	if len(open) == 0 {
		return
	}
	s.cfg.Log.Warn("ending streams of clients whose certificates are no longer trusted",
		zap.Stringer("address", port.Addr()), zap.Int("connections", len(open)), zap.Int("revoked", revoked))
	s.mu.Lock() // streams that are not in the lists yet are refused (enter)
	for st := range s.streams {
		if _, ends := open[st.conn]; ends {
			open[st.conn] = append(open[st.conn], st)
		}
	}
	for l := range s.loads {
		if _, ends := open[l.conn]; ends {
			open[l.conn] = append(open[l.conn], l)
		}
	}
	s.mu.Unlock()
	for c, streams := range open {
		if why := *c.distrusted.Load(); errors.Is(why, errRevoked) {
			c.close(streams, why)
		} else {
			time.AfterFunc(rand.N(trustSpread), func() { c.close(streams, why) })
		}
	}
}

// close ends the streams of the connection, and closes it when their clients had time to read why.
func (c *connection) close(streams []endable, why error) {
	for _, st := range streams {
		st.end(why)
	}
	time.AfterFunc(turnAway, func() { _ = c.raw.Close() }) // it may be closed already
}
