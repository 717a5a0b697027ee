package downstream

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// churn counts the streams that a connection opens, and how many of them get an answer. A connection that opens more
// than churnMost within churnWindow, most of which are refused, reset or ended before that, does nobody any good: it is
// sent GOAWAY with ENHANCE_YOUR_CALM, and closed a moment later (TestEnhanceYourCalm). A client that waits half a second
// and more between attempts, as all do that follow gRPC's backoff, is far from that, and so are a hundred of them behind
// one proxy (TestCalmClientsAreLeftAlone).
type churn struct {
	mu               sync.Mutex // guards what follows; a leaf
	since            time.Time
	opened, answered int // since then
	told             bool
}

const (
	churnWindow = 10 * time.Second
	churnMost   = 1_000
	// churnPause is how long a connection that was told to calm down is not read for each further
	// stream, so that what it sends until it is closed costs nothing.
	churnPause = 20 * time.Millisecond
)

// open counts a stream. over: from now on the connection is to have no more; first: nobody has told its client yet.
func (c *churn) open(now time.Time) (over, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.since) > churnWindow {
		c.since, c.opened, c.answered = now, 0, 0
	}
	c.opened++
	first = !c.told && c.opened > churnMost && 2*c.answered < c.opened
	c.told = c.told || first
	return c.told, first
}

// answer counts a stream that got an answer.
func (c *churn) answer() {
	c.mu.Lock()
	c.answered++
	c.mu.Unlock()
}

const calmDown = "most streams of this connection were refused or reset before an answer: open fewer, and wait between them"

var errCalmDown = status.Error(codes.ResourceExhausted, calmDown)

// goaway is GOAWAY with ENHANCE_YOUR_CALM. It names no last stream: those there are may still be answered.
var goaway = func() []byte {
	var b bytes.Buffer
	if err := http2.NewFramer(&b, nil).WriteGoAway(1<<31-1, http2.ErrCodeEnhanceYourCalm, []byte(calmDown)); err != nil {
		panic(err) // our own bug: a buffer takes everything
	}
	return b.Bytes()
}()

// arrive is told of each stream before anything else is done for it. The connection is not read until it returns.
func (s *Server) arrive(ctx context.Context, _ *tap.Info) (context.Context, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ctx, nil
	}
	c := connectionOf(p)
	if c == nil {
		return ctx, nil
	}
	now := time.Now()
	over, first := c.churn.open(now)
	if first {
		s.cfg.Metrics.CalmedDown()
		s.limits.calm(now, p)
		time.AfterFunc(0, func() { c.frames.send(c.conn, goaway) })
		time.AfterFunc(turnAway, func() { _ = c.raw.Close() }) // it may be closed already
	}
	if over {
		select {
		case <-ctx.Done():
		case <-time.After(churnPause):
		}
		return ctx, errCalmDown
	}
	return ctx, nil
}

// Calls of health and reflection are answered if they end well; discovery streams say so themselves (stream.send).

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
