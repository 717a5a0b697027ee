package upstream

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
)

// lane keeps a stream of one of the table's lanes open for as long as the lane has subscriptions.
type lane struct {
	// Set once by newLane.
	origin *Origin
	table  *relay.Lane
	log    *zap.Logger

	// Owned by run.
	waits    waits
	opened   bool // a stream was opened before
	reopens  int  // in a row, by us
	failures int  // streams in a row that the server ended without a response
	// Streams in a row that were answered, and then ended by the origin within steadyStream.
	brief         int
	loggedSilence bool    // the silence was logged, and lasts
	asideSaid     string  // what the last line about unanswered names was about; owned by probes
	next          *stream // to switch to; nil: a new one is opened

	mu       sync.Mutex // guards what follows, and the types; held for map work only
	open     bool
	server   *server   // of the current stream, or else of the last
	since    time.Time // when open changed last
	attempts int
	heard    bool // the stream had a response
	// When the first question was asked that requires an answer; zero once there was a response.
	silentSince time.Time
	// Of the current stream, or else of the last; by type URL. The lane does not change it in
	// place.
	types map[string]*typeState
}

func newLane(o *Origin, t *relay.Lane) *lane {
	return &lane{
		origin: o, table: t, waits: waits{cfg: o.cfg.Backoff}, types: map[string]*typeState{},
		log: o.log.With(zap.String("group", t.Group().Key()), zap.Bool("side", t.Side())),
	}
}

// run opens streams until the lane has no subscriptions or ctx ends. Then the lane waits for the
// next Run of the origin.
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

// acquire waits until the lane may open a stream (RELAY-98), and for a connection. It returns nil
// if there is no connection, ctx has ended, or the lane has no subscriptions any more. It locks the
// lane.
func (l *lane) acquire(ctx context.Context) *slot {
	pool := l.origin.pool
	l.mu.Lock()
	was := l.server
	l.mu.Unlock()
	q := &place{group: l.table.Group(), lane: l.table, was: was, failures: l.failures, brief: l.brief > 1, uncached: l.uncached()}
	q.failed = q.brief || l.failures+l.waits.failures > 0
	pool.join(q)
	for {
		select {
		case slot := <-q.granted:
			l.hadTurn(q)
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

// hadTurn logs that groups wait long for their turn to open a stream (RELAY-98).
func (l *lane) hadTurn(q *place) {
	if q.turn >= longTurn {
		l.origin.rateLimitedLog.info(time.Now(), "turn", "groups wait for their turn to open a stream to the origin: streams are opened at "+
			"limits.new_groups_per_second, and more slowly if the origin answers slowly",
			zap.Int("new_groups_per_second", l.origin.cfg.NewGroupsPerSecond), zap.Duration("waited", q.turn), zap.String("group", q.group.Key()))
	}
}

// uncached reports whether the group wants what no server has answered yet. With one server it does
// not matter, and is true.
func (l *lane) uncached() bool {
	return len(l.origin.cfg.Addresses) == 1 || l.table.Group().Uncached()
}

// attempt counts an attempt to open a stream. It locks the lane.
func (l *lane) attempt() {
	l.mu.Lock()
	l.attempts++
	l.mu.Unlock()
}

// rest waits for d, or until ctx ends or the lane may have lost its last subscription.
func (l *lane) rest(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	now := time.Now()
	l.table.Waiting(now, metrics.WaitBackoff, now.Add(d), "the last stream has ended")
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
	l.origin.health.Opened(start)
	if s.candidate != nil {
		l.table.Doubt() // no initial versions were presented
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
	switch {
	case !why.refused:
		if why.err != nil {
			l.table.Unserved()
		}
		l.table.Close()
	case l.origin.health.EverHeard():
		refusal = l.table.Refused(time.Now())
	default:
		refusal = l.table.RefusedCold(time.Now())
	}
	l.turn(false, s.conn.server, time.Now())
	if s.responses > 0 {
		l.origin.health.Ended()
		l.loggedSilence, l.failures = false, 0
	}
	if refusal.Quarantined {
		l.quarantined(s, why.err, &refusal)
		return 0
	}
	if len(refusal.Suspects) > 0 {
		l.suspects(s, why.err, &refusal)
	}
	why.accused = len(refusal.Suspects) > 0 && !refusal.Cold
	wait := l.after(ctx, s, why, time.Since(start))
	if refusal.Idle {
		return 0
	}
	return wait
}

// speak runs the stream. If it is not at the most preferred server, it looks for a better one
// meanwhile.
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
		l.failBack(seeking, ctx, s.conn.server, better)
	}()
	why := s.run(better)
	cancel()
	<-done
	l.next = why.next
	return why
}

// turn records that the stream was opened or has ended. It locks the lane.
func (l *lane) turn(open bool, to *server, now time.Time) {
	l.mu.Lock()
	l.open, l.server, l.since, l.heard, l.silentSince = open, to, now, false, time.Time{}
	l.mu.Unlock()
}

// steadyStream is how long a stream must last for its end not to count as one of a row.
const steadyStream = 30 * time.Second

// maxReopens is how many streams in a row may be closed by us before there is a pause between them,
// so that a table that keeps asking for it does not load the origin with new streams.
const maxReopens = 5

// after decides what the end of a stream means (ERR-2 to ERR-4), and returns how long to wait
// before the next.
func (l *lane) after(ctx context.Context, s *stream, why ending, lived time.Duration) time.Duration {
	if why.next != nil {
		l.origin.pool.release(s.slot, noMiss)
		l.log.Debug("the stream moves to a preferred server", zap.String("from", s.conn.server.address),
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
			l.log.Info("the origin refuses clients because of the relays on their way; ending their streams", zap.Error(why.err))
			l.origin.pool.release(s.slot, noMiss)
			return 0
		}
		l.origin.rateLimitedLog.warn(time.Now(), "loop", "the origin refuses the stream: it is a relay, and the stream has come through it before, "+
			"or through too many", zap.String("address", s.conn.server.address), zap.String("group", l.table.Group().Key()), zap.Error(why.err))
	}
	l.log.Debug("the stream ended", zap.Error(why.err), zap.Int("responses", s.responses), zap.Duration("lived", lived))
	if interval, changed := l.tooManyPings(s.conn, why.err); changed {
		l.origin.counts.TooManyPings()
		l.log.Warn("the origin closed the connection because of too many pings; pinging it less often from now on: set timing.keepalive.time to an interval that it allows",
			zap.Duration("keepalive", interval), zap.String("address", s.conn.server.address))
	}
	// A stream may have nothing to answer, as when every version presented is current. Its silence
	// is no failure if it lasted. Otherwise an origin that closes quiet streams would look down.
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
		l.waits.reset() // a single bad message in days is not one of a row
	}
	return l.failed(ctx, s.slot, why.err, why.miss())
}

// failed records a connectivity error (ERR-4), and returns how long the lane waits before it queues
// for the next stream.
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
		return 0 // there may be another server; if not, the queue knows how long to wait
	}
	l.table.Missed()
	return l.waits.next()
}

// tooManyPings lengthens the keepalive interval if the connection was closed for too many pings.
func (l *lane) tooManyPings(c *conn, err error) (interval time.Duration, changed bool) {
	if err == nil || !strings.Contains(err.Error(), "too_many_pings") {
		return 0, false
	}
	return l.origin.pool.slower(c)
}

// longestRest is the longest pause between two attempts to ask for a type in quarantine (RELAY-92).
const longestRest = 10 * time.Minute

// suspects logs that the next stream leaves out some types.
func (l *lane) suspects(s *stream, err error, r *relay.StreamRejection) {
	typeURLs, how := r.Suspects, "they are left out, and tried apart from the others"
	if r.Cold {
		how = "it has answered nothing yet, and each type is tried apart from the others until one is answered"
	}
	l.origin.rateLimitedLog.warn(time.Now(), "suspects", "the origin ended the stream just after it was asked for types it never answered: "+how,
		zap.String("group", l.table.Group().Key()), zap.String("type_url", printable(typeURLs[0])), zap.Int("types", len(typeURLs)),
		zap.String("address", s.conn.server.address), zap.Error(err))
}

// quarantined logs and counts that the origin ended the stream of a type in quarantine, which then
// backs off. The origin responded, so this is no connectivity error.
func (l *lane) quarantined(s *stream, err error, r *relay.StreamRejection) {
	o, now, typeURL := l.origin, time.Now(), l.table.OnlyType()
	o.pool.release(s.slot, noMiss)
	o.counts.Failure(FailureOf(err))
	wait := o.restAfter(r.Failures)
	l.table.RetryAt(now.Add(wait), printable(err.Error()))
	if !r.First {
		l.log.Debug("the type stays in quarantine", zap.String("type_url", printable(typeURL)), zap.Duration("wait", wait), zap.Error(err))
		return
	}
	o.counts.Type(typeURL).Quarantined()
	others := "and no other type is answered at the moment"
	if o.health.Answering() {
		others = "and all other types go on"
	}
	o.rateLimitedLog.warn(now, "quarantine "+metrics.ShortName(typeURL), "the origin ends each stream on which it is asked for this type: it is in "+
		"quarantine, its clients wait, "+others+"; see origins[].types if the origin is not to be asked for it",
		zap.String("group", l.table.Group().Key()), zap.String("type_url", printable(typeURL)),
		zap.String("address", s.conn.server.address), zap.Error(err))
}

// restAfter returns how long a type backs off after a number of refusals in a row.
func (o *Origin) restAfter(failures int) time.Duration {
	w := waits{cfg: o.cfg.Backoff, failures: failures - 1}
	w.cfg.Max = longestRest
	return min(w.next(), longestRest)
}
