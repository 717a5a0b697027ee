package upstream

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/weir-xds/weir/relay"
	"go.uber.org/zap"
	"google.golang.org/grpc/status"
)

// lane keeps one lane of the table open: one stream after the other, for as long as anything is
// wanted on it.
type lane struct {
	// Set once by newLane.
	origin *Origin
	table  *relay.Lane
	log    *zap.Logger

	// Owned by run.
	waits    waits
	opened   bool // some stream was opened before
	reopens  int  // in a row, on purpose
	failures int  // streams in a row that the server ended without a response
	// streams in a row that were answered, and ended by the origin within steadyStream
	brief      int
	saidSilent bool    // and not answered since
	next       *stream // to be gone over to; nil: a new one is opened

	mu       sync.Mutex // guards what follows and the types; held for map work only
	open     bool
	server   *server   // of the present stream, else of the last
	since    time.Time // of the last change of open
	attempts int
	heard    bool // the stream had a response
	// when something that must be answered was asked on it; zero once it was heard
	silentSince time.Time
	// of the present stream, else of the last; by type URL. Not changed in place by the lane
	types map[string]*typeState
}

func newLane(o *Origin, t *relay.Lane) *lane {
	return &lane{
		origin: o, table: t, waits: waits{cfg: o.cfg.Backoff}, types: map[string]*typeState{},
		log: o.log.With(zap.String("group", t.Group().Key()), zap.Bool("side", t.Side())),
	}
}

// run opens streams until nothing is wanted on the lane or ctx ends, and then leaves it to whoever
// runs the origin next.
func (l *lane) run(ctx context.Context) {
	defer l.origin.forget(l)
	defer func() {
		if l.next != nil {
			l.next.drop()
		}
	}()
	for ctx.Err() == nil {
		if l.table.Release() {
			return
		}
		s := l.next
		if l.next = nil; s == nil {
			slot := l.acquire(ctx)
			if slot == nil {
				continue
			}
			var err error
			l.attempt()
			if s, err = openStream(ctx, l, slot); err != nil {
				l.rest(ctx, l.failed(ctx, slot, err, unserved))
				continue
			}
		}
		l.rest(ctx, l.stream(ctx, s))
	}
	l.table.Abandon()
}

// acquire waits for the lane's turn to open a stream (RELAY-98), and for the connection. nil: there
// is none to be had, ctx has ended, or nothing is wanted any more. It locks the lane.
func (l *lane) acquire(ctx context.Context) *slot {
	pool := l.origin.pool
	l.mu.Lock()
	was := l.server
	l.mu.Unlock()
	q := &place{group: l.table.Group(), was: was, failures: l.failures, brief: l.brief > 1, uncached: l.uncached()}
	pool.join(q)
	for {
		select {
		case slot := <-q.granted:
			if !pool.connect(ctx, slot) {
				return nil
			}
			return slot
		case <-q.missed:
			l.table.Missed()
			continue
		case <-l.table.Wake():
			if l.table.Wanted() {
				pool.look(q, l.uncached())
				continue
			}
		case <-ctx.Done():
		}
		pool.leave(q)
		return nil
	}
}

// uncached reports whether the group wants what no server has answered yet. Where there is no
// choice of servers it does not matter.
func (l *lane) uncached() bool {
	return len(l.origin.cfg.Addresses) == 1 || l.table.Group().Uncached()
}

// attempt counts an attempt to open a stream. It locks the lane.
func (l *lane) attempt() {
	l.mu.Lock()
	l.attempts++
	l.mu.Unlock()
}

// rest waits for d, or until ctx ends or the lane may have become unwanted.
func (l *lane) rest(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-l.table.Wake():
			if !l.table.Wanted() {
				return
			}
		}
	}
}

// stream runs one stream and returns how long to wait before the next.
func (l *lane) stream(ctx context.Context, s *stream) time.Duration {
	start := time.Now()
	if l.opened && l.reopens == 0 {
		l.origin.counts.Reconnect()
	}
	l.opened = true
	l.turn(true, s.conn.server, start)
	l.origin.health.opened(start)
	if s.candidate != nil {
		l.table.Doubt() // it was presented nothing
	}
	l.table.Over(s.conn.arrivals)
	l.table.Open(start, s.conn.server.trust)
	if s.candidate != nil && !s.adopt(start) {
		l.table.Close()
		l.turn(false, s.conn.server, start)
		s.drop()
		return 0
	}
	why := l.speak(ctx, s)
	var refusal relay.StreamRejection
	if why.refused && l.origin.mayAccuse(time.Now(), l.table.Group()) {
		refusal = l.table.Refused(time.Now())
	} else {
		l.table.Close()
	}
	l.turn(false, s.conn.server, time.Now())
	if s.responses > 0 {
		l.origin.health.ended()
		l.saidSilent, l.failures = false, 0
	}
	if refusal.Quarantined {
		l.quarantined(s, why.err, &refusal)
		return 0
	}
	if len(refusal.Suspects) > 0 {
		l.suspects(s, why.err, refusal.Suspects)
	}
	why.accused = len(refusal.Suspects) > 0
	wait := l.after(ctx, s, why, time.Since(start))
	if refusal.Idle {
		return 0
	}
	return wait
}

// speak runs the stream. If it is not to the best server, a better one is sought meanwhile.
func (l *lane) speak(ctx context.Context, s *stream) ending {
	if s.sotw {
		probing, cancel := context.WithCancel(ctx)
		var done sync.WaitGroup
		done.Go(func() { l.probes(probing) })
		defer done.Wait()
		defer cancel()
	}
	if s.conn.server.at == 0 {
		return s.run(nil)
	}
	seeking, cancel := context.WithCancel(ctx)
	better, done := make(chan *stream), make(chan struct{})
	go func() {
		defer close(done)
		l.climb(seeking, ctx, s.conn.server, better)
	}()
	why := s.run(better)
	cancel()
	<-done
	l.next = why.next
	return why
}

// turn notes that the stream was opened or is over. It locks the lane.
func (l *lane) turn(open bool, to *server, now time.Time) {
	l.mu.Lock()
	l.open, l.server, l.since, l.heard, l.silentSince = open, to, now, false, time.Time{}
	l.mu.Unlock()
}

// steadyStream is how long a stream must last for its end not to be one of a row.
const steadyStream = 30 * time.Second

// maxReopens is how many streams in a row may be closed on purpose before there is a pause between
// them: a table that never comes to rest must not become a loop at the origin's expense.
const maxReopens = 5

// after judges how a stream ended: that is what ERR-2 to ERR-4 turn on.
func (l *lane) after(ctx context.Context, s *stream, why ending, lived time.Duration) time.Duration {
	if why.next != nil {
		l.origin.pool.release(s.slot, noMiss)
		l.log.Debug("the stream goes over to a better server, which answers", zap.String("from", s.conn.server.address),
			zap.String("to", why.next.conn.server.address))
		return 0
	}
	if why.reopen || why.unwanted || ctx.Err() != nil {
		l.origin.pool.release(s.slot, noMiss)
		l.reopens++
		if why.reopen && l.reopens > maxReopens {
			return pause(l.origin.cfg.Pause)
		}
		return 0
	}
	l.reopens = 0
	if s.looped {
		l.origin.counts.Loop()
		if l.table.Looped(time.Now(), status.Convert(why.err).Message()) {
			l.log.Info("the origin refuses the way of some clients, who are sent away; the others go on", zap.Error(why.err))
			l.origin.pool.release(s.slot, noMiss)
			return 0
		}
		l.origin.rateLimitedLog.warn(time.Now(), "loop", "the origin refuses the stream: it is a relay, and the stream has come through it before, "+
			"or through too many", zap.String("address", s.conn.server.address), zap.String("group", l.table.Group().Key()), zap.Error(why.err))
	}
	l.log.Debug("the stream ended", zap.Error(why.err), zap.Int("responses", s.responses), zap.Duration("lived", lived))
	if interval, changed := l.tooManyPings(s.conn, why.err); changed {
		l.origin.counts.TooManyPings()
		l.log.Warn("the origin closed the connection for pinging too often; it is pinged less often from now on: "+
			"set timing.keepalive.time to what its keepalive enforcement allows",
			zap.Duration("keepalive", interval), zap.String("address", s.conn.server.address))
	}
	// A stream that owed us nothing, as when every version presented is current, is not to be
	// blamed for its silence if it lasted: else an origin that closes quiet streams now and then
	// would look down.
	quiet := s.responses == 0 && !s.owed && lived > l.origin.cfg.Backoff.Max
	if (s.responses > 0 || quiet) && !why.broken {
		l.waits.reset()
		if l.brief++; lived > steadyStream {
			l.brief = 0
		}
		l.origin.pool.release(s.slot, noMiss)
		return pause(l.origin.cfg.Pause)
	}
	if lived > l.origin.cfg.Backoff.Max {
		l.waits.reset() // one bad message in days is not the last of a row
	}
	return l.failed(ctx, s.slot, why.err, why.miss())
}

// failed notes a connectivity error (ERR-4), and says how long the lane waits before it joins the
// queue for the next stream.
func (l *lane) failed(ctx context.Context, sl *slot, err error, m miss) time.Duration {
	counted := l.origin.pool.release(sl, m)
	if ctx.Err() != nil {
		return 0
	}
	node := l.table.Node()
	l.origin.pool.failed(sl.server, l, err, zap.String("address", sl.server.address), zap.String("group", l.table.Group().Key()),
		zap.String("node_id", node.GetId()), zap.String("node_cluster", node.GetCluster()))
	if counted {
		l.failures++
		return 0 // there may be another server to go to, or else the queue says how long to wait
	}
	l.table.Missed()
	return l.waits.next()
}

// tooManyPings doubles the keepalive interval if that is what the connection was closed for.
func (l *lane) tooManyPings(c *conn, err error) (interval time.Duration, changed bool) {
	if err == nil || !strings.Contains(err.Error(), "too_many_pings") {
		return 0, false
	}
	return l.origin.pool.slower(c)
}
