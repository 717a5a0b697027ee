package upstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

const (
	// maxAddresses bounds the servers of one origin: one byte tells them apart.
	maxAddresses = 254
	// lanesPerConnection is how many streams a connection carries before another one is opened: the
	// least number of concurrent streams that servers should allow (RELAY-26).
	lanesPerConnection = 100
	// connectTimeout bounds an attempt to connect, and one to open a stream on a connection.
	connectTimeout = 20 * time.Second
)

// pool has the connections to one origin. The first lane that needs a connection dials, and the
// others wait for the outcome, so a dead server costs one attempt however many lanes there are. A
// conn that went down is replaced. If it were used again, grpc would redial it by itself, with its
// own backoff on top of ours. server.go chooses the server of a lane.
type pool struct {
	// Set once by newPool.
	cfg            *Config
	counts         *metrics.Origin
	health         *Health[lane]
	rateLimitedLog *rateLimitedLog
	table          *relay.Origin
	servers        []*server // in order of preference
	trust          *Trust

	mu      sync.Mutex    // guards what follows and the servers; held for list work only
	ended   bool          // no idle connection is kept
	changed chan struct{} // closed when a lost server answers, or may be probed again
	// Lanes that wait to open a stream, first come first.
	queue  []*place
	last   *relay.Group // group of the last stream opened; nil after a failure
	timer  *time.Timer  // for the next look at the queue; nil: not needed yet
	starts []time.Time  // when the last streams were opened; a ring of NewGroupsPerSecond
	oldest int          // index in the ring, once it is full
}

// conn is one connection.
type conn struct {
	// Set once by dial.
	server   *server
	grpc     *grpc.ClientConn
	arrivals *relay.Arrivals

	// Guarded by pool.mu.
	lanes int
	gone  bool // takes no more lanes, and is closed after the last
}

func newPool(cfg *Config, table *relay.Origin, h *Health[lane], n *rateLimitedLog) *pool {
	p := &pool{cfg: cfg, counts: cfg.Metrics.Origin(cfg.Name), table: table, health: h, rateLimitedLog: n, changed: make(chan struct{}), trust: NewTrust(cfg.Trusts)}
	rests := cfg.Backoff
	rests.Max = max(rests.Max, longestSteady)
	for i, address := range cfg.Addresses {
		p.servers = append(p.servers, &server{
			at: i, address: address, trust: table.Server(cfg.serverKey(address)),
			backoff: waits{cfg: cfg.Backoff}, steady: waits{cfg: rests}, keepalive: cfg.Keepalive.Time,
		})
	}
	return p
}

// serverKey tells apart servers with different versions. A resource's version in one dialect is the
// version of the whole response in the other, so the dialect is part of it.
func (c *Config) serverKey(address string) string {
	switch {
	case c.Tiers:
		return relay.TierServer
	case c.SameVersions:
		address = relay.AllServers
	}
	return fmt.Sprintf("%s sotw=%v", address, c.SotW)
}

// take gets a slot at one server without queueing, or returns how long to wait before the next
// attempt. It locks the pool.
func (p *pool) take(ctx context.Context, s *server) (*slot, time.Duration) {
	p.mu.Lock()
	if c := s.free(); c != nil {
		c.lanes++
		p.mu.Unlock()
		return &slot{server: s, conn: c}, 0
	}
	if wait := time.Until(s.until); wait > 0 {
		p.mu.Unlock()
		return nil, wait
	}
	if under := s.dialling; under != nil {
		p.mu.Unlock()
		select {
		case <-under:
		case <-ctx.Done():
		}
		return nil, 0
	}
	s.dialling, s.dialUntil = make(chan struct{}), time.Now().Add(p.patience())
	p.mu.Unlock()
	sl := &slot{server: s}
	p.open(ctx, sl)
	if sl.conn == nil {
		return nil, 0
	}
	return sl, 0
}

// open dials for a slot whose server is marked as being dialled. If that fails, the slot is over.
// It locks the pool.
func (p *pool) open(ctx context.Context, sl *slot) {
	s := sl.server
	p.mu.Lock()
	interval := s.keepalive
	p.mu.Unlock()
	begun := time.Now()
	c, err := p.dial(ctx, s, interval)

	p.mu.Lock()
	if err == nil {
		c.lanes = 1
		s.conns = append(s.conns, c)
		sl.conn = c
	} else {
		p.settle(sl)
		if ctx.Err() == nil {
			p.missed(s, begun, unserved)
		}
	}
	p.dialled(s)
	p.grant(time.Now())
	p.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		p.counts.Attempt()
		p.failed(s, nil, err)
	}
}

// dialled records that an attempt to connect has ended.
func (p *pool) dialled(s *server) {
	close(s.dialling)
	s.dialling = nil
}

// failed reports a connectivity error of a lane or a connection. While another server answers, it
// does not count for the origin. It locks the pool.
func (p *pool) failed(s *server, l *lane, err error, fields ...zap.Field) {
	now := time.Now()
	why := FailureOf(err)
	p.counts.Failure(why)
	err = p.hinted(err)
	p.mu.Lock()
	others := s.answering > 0
	elsewhere := !others && p.answers(p.servers)
	p.mu.Unlock()
	if others {
		p.health.Refused(now, l, err)
		p.rateLimitedLog.warn(now, "stream", "the origin ends the stream of a group, and answers others", append(fields, zap.Error(err))...)
		return
	}
	if elsewhere {
		p.rateLimitedLog.warn(now, "server", "a server of the origin does not answer, and another one does",
			append(fields, zap.String("server", s.address), zap.Error(err))...)
		return
	}
	p.table.NoteFailure(why == FailedTLS)
	p.rateLimitedLog.failed(now, err, p.health.Failed(now, err), fields...)
}

// patience returns the bound of an attempt to connect. It is shorter if there is another server.
func (p *pool) patience() time.Duration {
	if len(p.servers) == 1 {
		return connectTimeout
	}
	return min(connectTimeout, max(p.table.ColdWait()/2, time.Second))
}

// dial connects to one server, and returns once the connection is up.
func (p *pool) dial(ctx context.Context, s *server, interval time.Duration) (*conn, error) {
	own, address, arrivals := p.cfg.Backoff, s.address, new(relay.Arrivals)
	var raw atomic.Pointer[Secured]
	options := []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			c, err := p.cfg.Dial(ctx, address)
			if err != nil {
				return nil, err
			}
			secured := p.trust.Secure(c)
			raw.Store(secured)
			return &watched{Conn: secured, arrivals: arrivals}, nil
		}),
		grpc.WithUserAgent("weir/" + p.cfg.Version),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: interval + min(interval/clockSlack, math.MaxInt64-interval), Timeout: p.cfg.Keepalive.Timeout}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: own.Base, Multiplier: own.Factor, Jitter: own.Jitter, MaxDelay: own.Max},
			// grpc divides it among the addresses of a name
			MinConnectTimeout: p.patience(),
		}),
		grpc.WithIdleTimeout(0),
		grpc.WithDisableRetry(), // streams are never replayed, so nothing is buffered for it
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{p.counts}), grpc.MaxCallRecvMsgSize(p.cfg.MaxMessage)),
	}
	serverName := ""
	if p.cfg.TLS != nil {
		t := p.cfg.TLS().Clone()
		t.VerifyConnection = p.trust.Shown(raw.Load, t.VerifyConnection)
		secure := credentials.NewTLS
		if p.cfg.ALPNOptional {
			secure = newWithoutALPN
		}
		options = append(options, grpc.WithTransportCredentials(secure(t)))
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
	if err := connect(ctx, cc, p.patience()); err != nil {
		_ = cc.Close() // the connection is given up
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return &conn{server: s, grpc: cc, arrivals: arrivals}, nil
}

// connect waits until the connection is up or the first attempt has failed.
func connect(ctx context.Context, cc *grpc.ClientConn, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
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
			// Only a stream returns the reason. It fails at once.
			if _, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, xds.ADS.Method(true)); err != nil {
				return err
			}
			return errors.New("the connection failed")
		default:
			if !cc.WaitForStateChange(ctx, s) {
				return fmt.Errorf("not connected within %v: %w", patience, ctx.Err())
			}
		}
	}
}

// release ends a slot whose stream has ended. counted: the failure counts for the server, whose
// backoff says when the next attempt is. While the server answers others, it counts for the lane
// only. It locks the pool.
func (p *pool) release(sl *slot, m miss) (counted bool) {
	c, s := sl.conn, sl.server
	now := time.Now()
	p.mu.Lock()
	c.lanes--
	if sl.answered {
		sl.answered = false
		s.answering--
	}
	before, several := c.gone, len(p.servers) > 1
	up := c.up()
	if m != noMiss {
		s.silences = 0
	}
	if m != noMiss && s.answering == 0 {
		counted = true
		if several {
			c.gone = true
		}
		if !before {
			if !sl.since.IsZero() && up {
				s.patience = min(2*now.Sub(sl.since), proveWithin)
			}
			p.missed(s, now, m)
		}
	}
	p.settle(sl)
	idle := p.cut(func(c *conn) bool { return p.ended || c.gone || p.answers(p.servers[:c.server.at]) })
	p.grant(now)
	p.mu.Unlock()
	closeAll(idle)
	return counted
}

// slower doubles the keepalive interval of future connections, to what servers allow by default at
// least, once for each connection that was closed for too many pings (ERR-12). It locks the pool.
func (p *pool) slower(c *conn) (interval time.Duration, changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.gone {
		c.gone, changed = true, true
		c.server.keepalive = max(2*c.server.keepalive, lenientKeepalive)
	}
	return c.server.keepalive, changed
}

// trim closes connections without lanes. It keeps one for lanes that are between two streams,
// unless last is set. It locks the pool.
func (p *pool) trim(last bool) {
	kept := 0
	p.mu.Lock()
	idle := p.cut(func(*conn) bool { kept++; return last || kept > 1 })
	p.mu.Unlock()
	closeAll(idle)
}

// cut removes the connections without lanes for which may returns true.
func (p *pool) cut(may func(*conn) bool) (idle []*conn) {
	for _, s := range p.servers {
		s.conns = slices.DeleteFunc(s.conns, func(c *conn) bool {
			cut := c.lanes == 0 && may(c)
			if cut {
				idle = append(idle, c)
			}
			return cut
		})
	}
	return idle
}

func closeAll(conns []*conn) {
	for _, c := range conns {
		_ = c.grpc.Close() // the only error is that it is closed
	}
}
