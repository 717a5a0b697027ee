package downstream

import (
	"bytes"
	"context"
	"net/netip"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/weir-xds/weir/relay/node"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// churn counts what a connection asks of weir, and what it is answered. Two things end a
// connection. One is opening more than churnMost streams within churnWindow, most of which are
// refused, reset or ended before an answer. The other is sending more than idleMost frames that
// carry nothing, except those that belong to what the connection is sent. It is sent GOAWAY with
// ENHANCE_YOUR_CALM, and closed a moment later (TestEnhanceYourCalm, TestFaultsAreCalmed,
// TestRefusedStreamsAreCounted, TestChatterIsCalmed). A client that waits at least half a second
// between attempts, as all clients do that follow gRPC's backoff, stays far below these limits. So
// do a hundred of them behind one proxy (TestCalmClientsAreLeftAlone).
type churn struct {
	mu               sync.Mutex // guards what follows; a leaf
	since            time.Time
	opened, answered int   // streams since then
	idle             int   // frames since then
	sent             int64 // frames that had been sent by then
	told             bool
}

const (
	churnWindow = 10 * time.Second
	churnMost   = 1_000
	// idleMost and idlePerSent are how many frames that carry nothing are too many. For each data
	// frame that it is sent, a client sends at most two frames that widen windows, and a ping to
	// measure the bandwidth.
	idleMost    = 10_000
	idlePerSent = 8
	// churnPause is how long the reading of a connection that was told to calm down pauses for each
	// further stream, or frame that carries nothing. So what it sends until it is closed costs
	// nothing.
	churnPause = 20 * time.Millisecond
)

// note counts what is incoming on a connection that was sent this number of frames so far. over:
// the connection is to have no more streams from now on. first: its client has not been told yet.
// It locks the count.
func (c *churn) note(now time.Time, a incoming, sent int64) (over, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.since) > churnWindow {
		c.since, c.opened, c.answered, c.idle, c.sent = now, 0, 0, 0, sent
	}
	c.opened += a.calls
	c.idle += a.idle
	many := c.opened > churnMost && 2*c.answered < c.opened
	idle := c.idle > idleMost && int64(c.idle) > idlePerSent*(sent-c.sent)
	first = !c.told && (many || idle)
	c.told = c.told || first
	return c.told, first
}

// chatter is how many of the last so many frames that carry nothing are more than a connection has
// for nothing, and for what it was sent. It locks the count.
func (c *churn) chatter(idle int, sent int64) int {
	if idle == 0 {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(0, min(idle, c.idle-idleFree-int(idlePerSent*(sent-c.sent))))
}

// over reports whether the connection was told to calm down. It locks the count.
func (c *churn) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.told
}

// answer counts a stream that got an answer. It locks the count.
func (c *churn) answer() {
	c.mu.Lock()
	c.answered++
	c.mu.Unlock()
}

const calmDown = "most streams of this connection were refused or reset before an answer, or most of its frames carry nothing: " +
	"send fewer, and wait between them"

var errCalmDown = status.Error(codes.ResourceExhausted, calmDown)

var goaway = goAway(http2.ErrCodeEnhanceYourCalm, calmDown)

// goAway is a GOAWAY frame. It names no last stream, since the open streams may still be answered.
func goAway(code http2.ErrCode, why string) []byte {
	var b bytes.Buffer
	if err := http2.NewFramer(&b, nil).WriteGoAway(1<<31-1, code, []byte(why)); err != nil {
		panic(err) // our own bug: a buffer takes everything
	}
	return b.Bytes()
}

// calm tells a connection to calm down, by a frame, and closes it a moment later. HTTP/1.1 has no
// frames (nil), and there the next request is refused.
func (s *Server) calm(now time.Time, c *connection, bye []byte) {
	s.cfg.Metrics.CalmedDown()
	s.limits.calm(now, c)
	s.calmed.note(now, peerOf(c.raw.RemoteAddr()))
	if bye != nil {
		time.AfterFunc(0, func() { c.framed.frames.send(c.framed.out, bye) })
	}
	time.AfterFunc(turnAway, func() { _ = c.raw.Close() }) // it may be closed already
}

// arrive is called for each stream that grpc accepts, before anything else is done for it.
func (s *Server) arrive(ctx context.Context, info *tap.Info) (context.Context, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ctx, nil
	}
	c := connectionOf(p)
	if c == nil {
		return ctx, nil
	}
	if s.cfg.Tiers {
		return newCall(ctx, p, info, node.ViaKey, node.GroupKey)
	}
	if c.churn.over() {
		return ctx, errCalmDown
	}
	s.paceHeaders(c, callerOf(p), info.Header, 0)
	return newCall(ctx, p, info, node.ViaKey)
}

// Calls of health and reflection count as answered if they end well. Discovery streams count their
// answers themselves (stream.send).

func countUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	resp, err := handle(ctx, req)
	countAnswer(ctx, err)
	return resp, err
}

func countStream(srv any, wire grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	err := handle(srv, wire)
	if strings.HasPrefix(info.FullMethod, "/grpc.") {
		countAnswer(wire.Context(), err)
	}
	return err
}

func countAnswer(ctx context.Context, err error) {
	if p, ok := peer.FromContext(ctx); ok && err == nil {
		if c := connectionOf(p); c != nil {
			c.churn.answer()
		}
	}
}

const (
	// calmedPeers bounds the peers that are remembered. New connections of a peer that is forgotten
	// do not wait.
	calmedPeers = 4096
	// calmedFor is how long a peer is remembered after one of its connections was sent
	// ENHANCE_YOUR_CALM.
	calmedFor = 10 * time.Second
	// calmedWait is how long a new connection of such a peer waits before it is accepted. The
	// connections wait in parallel. So other clients behind the same address are served a second
	// later, and no more (TestCalmedPeersAreGreetedLater).
	calmedWait = time.Second
)

// calmed remembers the peers that were sent ENHANCE_YOUR_CALM. Frames are counted per connection
// and a new connection starts at zero. Without the wait a peer that reconnects at once would never
// be slowed down.
type calmed struct {
	until *lru.Cache[netip.Prefix, time.Time]
}

func newCalmed() calmed {
	until, err := lru.New[netip.Prefix, time.Time](calmedPeers)
	if err != nil {
		panic(err) // our own bug: the size is positive
	}
	return calmed{until}
}

// note records a peer. A peer without an address, as over a Unix socket, is not remembered.
func (c calmed) note(now time.Time, peer netip.Prefix) {
	if peer.IsValid() {
		c.until.Add(peer, now.Add(calmedFor))
	}
}

// pinged reports that grpc cuts off a client that pings too often (ERR-12).
func (s *Server) pinged(c *connection) {
	s.cfg.Metrics.TooManyPings()
	s.limits.pinged(time.Now(), c)
}

// wait is how long a new connection of a peer has to wait.
func (c calmed) wait(now time.Time, peer netip.Prefix) time.Duration {
	if until, ok := c.until.Peek(peer); !ok || !now.Before(until) {
		return 0
	}
	return calmedWait
}

// greetLater delays a new connection whose peer is remembered. The delay ends early when the server
// stops.
func (s *Server) greetLater(peer netip.Prefix) {
	wait := s.calmed.wait(time.Now(), peer)
	if wait == 0 {
		return
	}
	s.greeting.Add(1)
	defer s.greeting.Add(-1)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.quit:
	}
}
