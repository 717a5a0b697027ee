package upstream

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/credentials"

	"github.com/weir-xds/weir/relay"
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
	open := slices.Collect(maps.Keys(t.open))
	t.mu.Unlock()
	for _, c := range open {
		if err := t.judge(c.state); err != nil {
			log.Warn("the certificate of an origin's server is no longer trusted: reconnecting; the cache stays",
				zap.Stringer("address", c.RemoteAddr()), zap.Error(err))
			_ = c.Close() // it may be closed already
		}
	}
}

// watched is a connection that tells the table when bytes arrive (RELAY-6). There are few
// connections to origins, so the cost of the wrapper does not matter.
type watched struct {
	net.Conn
	arrivals *relay.Arrivals
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if n > 0 {
		w.arrivals.Bytes(time.Now(), n)
	}
	return n, err
}

// withoutALPN is TLS with a server that may select no protocol by ALPN, as gRPC servers did before
// they enforced it. The client knows that the server speaks HTTP/2. grpc itself refuses such a
// server, and its only switch is for the whole process.
type withoutALPN struct {
	credentials.TransportCredentials // grpc's, for all but the handshake
	config                           *tls.Config
}

func newWithoutALPN(c *tls.Config) credentials.TransportCredentials {
	c = c.Clone()
	c.NextProtos = []string{"h2"}
	for _, suite := range tls.CipherSuites() {
		if !strings.Contains(suite.Name, "_CBC_") { // not for HTTP/2 (RFC 9113, appendix A)
			c.CipherSuites = append(c.CipherSuites, suite.ID)
		}
	}
	return withoutALPN{credentials.NewTLS(c), c}
}

// ClientHandshake implements credentials.TransportCredentials.
func (c withoutALPN) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	config := c.config.Clone()
	config.ServerName = authority
	if host, _, err := net.SplitHostPort(authority); err == nil {
		config.ServerName = host
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // it is given up
		return nil, nil, err
	}
	level := credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}
	return conn, credentials.TLSInfo{State: conn.ConnectionState(), CommonAuthInfo: level}, nil
}

// Clone implements credentials.TransportCredentials.
func (c withoutALPN) Clone() credentials.TransportCredentials { return newWithoutALPN(c.config) }
