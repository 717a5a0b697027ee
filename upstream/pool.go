package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/weir-xds/weir/relay"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

const (
	// maxAddresses bounds the servers of one origin, which are told apart by one byte.
	maxAddresses = 254
	// lanesPerConnection is how many streams a connection carries before another is opened: the least number of concurrent
	// streams servers should allow (RELAY-26).
	lanesPerConnection = 100
	// connectTimeout bounds an attempt to connect, and one to open a stream on a connection.
	connectTimeout = 20 * time.Second
)

// pool is the connections to one origin. Whichever lane needs one first dials, and the others wait for the outcome, so a dead
// origin costs one attempt however many lanes there are. A conn that went down is not used for new streams but replaced, so
// that the grpc library, which would dial again by itself, does not stack its backoff upon ours.
type pool struct {
	// Set once by newPool.
	cfg     *Config
	health  *health
	news    *news
	servers []uint8 // the numbers of cfg.Addresses (FED-7)

	mu        sync.Mutex // guards what follows; held for list work only
	conns     []*conn
	dialling  chan struct{} // closed when the attempt under way is over; nil: none is
	at        int           // the address to dial
	backoff   waits
	until     time.Time // no attempt before
	keepalive time.Duration
}

// conn is one connection.
type conn struct {
	// Set once by dial.
	address string
	server  uint8 // tells servers apart whose versions differ (FED-7)
	grpc    *grpc.ClientConn

	// Guarded by pool.mu.
	lanes  int
	gone   bool // takes no more lanes, and is closed with the last
	proven bool // brought a response
}

func newPool(cfg *Config, table *relay.Origin, h *health, n *news) *pool {
	p := &pool{cfg: cfg, health: h, news: n, backoff: waits{cfg: cfg.Backoff}, keepalive: cfg.Keepalive.Time}
	for _, address := range cfg.Addresses {
		p.servers = append(p.servers, table.Server(cfg.serverKey(address)))
	}
	return p
}

// serverKey tells servers apart whose versions differ. What is a resource's version in one dialect is the whole response's in the other.
func (c *Config) serverKey(address string) string {
	if c.SameVersions {
		address = "all"
	}
	return fmt.Sprintf("%s sotw=%v", address, c.SotW)
}

// acquire finds or makes a connection with room for a lane, which the caller gives back by release. If there is none to be
// had it says how long to wait before the next attempt.
func (p *pool) acquire(ctx context.Context) (*conn, time.Duration) {
	p.mu.Lock()
	c := p.freeLocked()
	if c != nil {
		c.lanes++
		p.mu.Unlock()
		return c, 0
	}
	if wait := time.Until(p.until); wait > 0 {
		p.mu.Unlock()
		return nil, wait
	}
	if under := p.dialling; under != nil {
		p.mu.Unlock()
		select {
		case <-under:
		case <-ctx.Done():
		}
		return nil, 0
	}
	done := make(chan struct{})
	p.dialling = done
	at, interval := p.at, p.keepalive
	p.mu.Unlock()

	c, err := p.dial(ctx, p.cfg.Addresses[at], interval)

	p.mu.Lock()
	p.dialling = nil
	if err == nil {
		c.lanes = 1
		c.server = p.servers[at]
		p.conns = append(p.conns, c)
	} else {
		p.missedLocked()
	}
	p.mu.Unlock()
	close(done)
	if err != nil && ctx.Err() == nil {
		p.failed(err)
	}
	return c, 0
}

// freeLocked is a connection that is up and has room.
func (p *pool) freeLocked() *conn {
	for _, c := range p.conns {
		if p.upLocked(c) && c.lanes < lanesPerConnection {
			return c
		}
	}
	return nil
}

// upLocked reports whether the connection takes lanes. After the loss of one that had worked, the preferred address is next.
func (p *pool) upLocked(c *conn) bool {
	if !c.gone && c.grpc.GetState() != connectivity.Ready {
		c.gone = true
		if c.proven {
			p.at = 0
		}
	}
	return !c.gone
}

// missedLocked is a failed attempt: the next goes to the next address, after a longer wait.
func (p *pool) missedLocked() {
	p.at = (p.at + 1) % len(p.cfg.Addresses)
	p.until = time.Now().Add(p.backoff.next())
}

func (p *pool) failed(err error, fields ...zap.Field) {
	now := time.Now()
	p.news.failed(now, err, p.health.failed(now, err), fields...)
}

// dial connects to one address and returns when the connection is up.
func (p *pool) dial(ctx context.Context, address string, interval time.Duration) (*conn, error) {
	own := p.cfg.Backoff
	options := []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return p.cfg.Dial(ctx, address) }),
		grpc.WithUserAgent("weir/" + p.cfg.Version),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: interval, Timeout: p.cfg.Keepalive.Timeout}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: own.Base, Multiplier: own.Factor, Jitter: own.Jitter, MaxDelay: own.Max},
			MinConnectTimeout: connectTimeout,
		}),
		grpc.WithIdleTimeout(0),
		grpc.WithDisableRetry(), // a stream is never replayed, so nothing need be kept for it
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(p.cfg.MaxMessage)),
	}
	serverName := ""
	if p.cfg.TLS != nil {
		t := p.cfg.TLS()
		options = append(options, grpc.WithTransportCredentials(credentials.NewTLS(t)))
		serverName = t.ServerName
	} else {
		options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	if strings.HasPrefix(address, unixScheme) && serverName == "" { // a path is no authority
		options = append(options, grpc.WithAuthority("localhost"))
	}
	cc, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return nil, err
	}
	if err := connect(ctx, cc); err != nil {
		_ = cc.Close() // it is being given up
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return &conn{address: address, grpc: cc}, nil
}

// connect waits until the connection is up or the first attempt has failed.
func connect(ctx context.Context, cc *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	cc.Connect()
	for tried := false; ; {
		s := cc.GetState()
		if s == connectivity.Idle && tried {
			return errors.New("the server closed the connection at once")
		}
		tried = tried || s != connectivity.Idle
		switch s {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure, connectivity.Shutdown:
			// The reason is only told to a stream, which fails at once.
			if _, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, relay.ADS.Method(true)); err != nil {
				return err
			}
			return errors.New("the connection failed")
		default:
			if !cc.WaitForStateChange(ctx, s) {
				return fmt.Errorf("not connected within %v: %w", connectTimeout, ctx.Err())
			}
		}
	}
}

// proved notes the first response on a connection: only now are attempts counted from one again (ERR-2).
func (p *pool) proved(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.proven = true
	p.backoff.reset()
	p.until = time.Time{}
}

// release gives a connection back. failed: the stream on it was a connectivity error.
func (p *pool) release(c *conn, failed bool) {
	p.mu.Lock()
	c.lanes--
	before := c.gone
	up := p.upLocked(c)
	if failed && !before && !c.proven && (!up || len(p.cfg.Addresses) > 1) {
		c.gone = true
		p.missedLocked()
	}
	idle := p.cutLocked(func(c *conn) bool { return c.gone })
	p.mu.Unlock()
	closeAll(idle)
}

// slower doubles the keepalive interval of connections to come, once for each connection that was closed for it (ERR-12).
func (p *pool) slower(c *conn) (interval time.Duration, changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.gone {
		c.gone, changed = true, true
		p.keepalive *= 2
	}
	return p.keepalive, changed
}

// trim closes connections that no lane uses, keeping one for lanes between two streams unless last is set.
func (p *pool) trim(last bool) {
	kept := 0
	p.mu.Lock()
	idle := p.cutLocked(func(*conn) bool { kept++; return last || kept > 1 })
	p.mu.Unlock()
	closeAll(idle)
}

// cutLocked takes out the connections without lanes that may go.
func (p *pool) cutLocked(may func(*conn) bool) (idle []*conn) {
	kept := p.conns[:0]
	for _, c := range p.conns {
		if c.lanes == 0 && may(c) {
			idle = append(idle, c)
		} else {
			kept = append(kept, c)
		}
	}
	clear(p.conns[len(kept):])
	p.conns = kept
	return idle
}

func closeAll(conns []*conn) {
	for _, c := range conns {
		_ = c.grpc.Close() // only ever says that it was closed before
	}
}
