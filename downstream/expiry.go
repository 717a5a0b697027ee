package downstream

import (
	"crypto/tls"
	"crypto/x509"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

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

// overage is why a stream ends at its deadline.
func (s *session) overage() error {
	if s.expires {
		return errExpired
	}
	return errAged
}

// expire ends the stream with the certificate that opened its connection. stop ends the wait.
func (l *loadStream) expire() (stop func()) {
	if l.conn == nil || l.conn.until.IsZero() {
		return func() {}
	}
	timer := time.AfterFunc(time.Until(l.conn.until), func() { l.end(errExpired) })
	return func() { timer.Stop() }
}
