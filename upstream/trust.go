package upstream

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
)

// Trust has the open TLS connections to one origin, so that those can be closed whose server is not
// trusted any more. What follows is what follows a lost connection: the lanes connect again, by the
// authorities of now, and what is held stays.
type Trust struct {
	judge   func(*tls.ConnectionState) error // nil: servers are trusted for as long as a connection lasts
	changes atomic.Uint64                    // calls of recheck

	mu   sync.Mutex // guards open; held for map work only
	open map[*Secured]struct{}
}

// NewTrust makes a Trust. judge says why a certificate that a handshake verified is not trusted any
// more; nil: it is.
func NewTrust(judge func(*tls.ConnectionState) error) *Trust {
	return &Trust{judge: judge, open: map[*Secured]struct{}{}}
}

// Secured is a connection below TLS.
type Secured struct {
	net.Conn
	trust *Trust
	since uint64               // Trust.changes before the handshake
	state *tls.ConnectionState // set once, before the connection is in open
}

// Secure wraps a connection before its handshake.
func (t *Trust) Secure(conn net.Conn) *Secured {
	return &Secured{Conn: conn, trust: t, since: t.changes.Load()}
}

// Shown returns the end of the handshake, for tls.Config.VerifyConnection. It goes by next first;
// nil: by nothing else. It locks the trust.
func (t *Trust) Shown(conn func() *Secured, next func(tls.ConnectionState) error) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		if next != nil {
			if err := next(state); err != nil {
				return err
			}
		}
		c := conn()
		if t.judge == nil {
			return nil
		}
		c.state = &state
		t.mu.Lock()
		t.open[c] = struct{}{}
		t.mu.Unlock()
		if t.changes.Load() != c.since { // Recheck may have missed it
			return t.judge(&state)
		}
		return nil
	}
}

// Close implements net.Conn. It locks the trust.
func (c *Secured) Close() error {
	c.trust.mu.Lock()
	delete(c.trust.open, c)
	c.trust.mu.Unlock()
	return c.Conn.Close()
}

// Recheck judges the servers of all open connections again, and closes those that are not trusted
// any more. It locks the trust, but not while it judges.
func (t *Trust) Recheck(log *zap.Logger) {
	t.changes.Add(1)
	t.mu.Lock()
	open := make([]*Secured, 0, len(t.open))
	for c := range t.open {
		open = append(open, c)
	}
	t.mu.Unlock()
	for _, c := range open {
		if err := t.judge(c.state); err != nil {
			log.Warn("the certificate of a server of the origin is not trusted any more: weir connects again, and keeps what it has",
				zap.Stringer("address", c.RemoteAddr()), zap.Error(err))
			_ = c.Close() // it may be closed already
		}
	}
}
