package downstream

import (
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// ErrRevoked is, or is wrapped by, the error of ListenerConfig.Trusts and of a handshake if a
// certificate of the client was revoked.
var ErrRevoked = errors.New("is revoked")

// Both are UNAVAILABLE because a client that connects again may show another certificate.
var (
	errRevoked = status.Error(codes.Unavailable,
		"the certificate that opened the connection is revoked: connect again with another one, and resume by version")
	errUntrusted = status.Error(codes.Unavailable, "the certificate that opened the connection is of no authority "+
		"that is trusted now: connect again with another one, and resume by version")
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

// trustRound returns the present round of the connection's listener.
func (c *connection) trustRound() uint64 {
	if _, listener := c.counted(); listener != nil {
		return listener.trust.round()
	}
	return 0
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
	s.cfg.Log.Warn("clients are connected whose certificates are not trusted any more: their streams end",
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
