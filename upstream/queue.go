package upstream

import (
	"context"
	"slices"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
)

const (
	// How long a new stream counts as unanswered at most. idleWait is for a stream with no question
	// that requires an answer.
	answerWait, idleWait = time.Second, 250 * time.Millisecond
	// longTurn is from when on a wait for its turn is logged.
	longTurn = time.Second
	// unansweredShare: at most one in so many of a second's new streams may be unanswered at a
	// time. So a server that is slow, or limits the rate by itself, is asked no faster than it
	// answers.
	unansweredShare = 5
	// mostProbes is how many streams are tried at the same time at a server that has refused all so
	// far.
	mostProbes = 20
)

// place is a lane's place in the queue for new streams (RELAY-98).
type place struct {
	// Set once by whoever joins.
	group    *relay.Group
	lane     *relay.Lane // for which it is; nil: it has a stream elsewhere
	to       *server     // the only server to use; nil: choose decides
	was      *server     // server of the lane's last stream; nil: there was none
	failures int         // of the lane, in a row
	brief    bool        // the lane's last streams were answered, and ended soon after
	// failed: the lane's last streams failed, or ended soon. It waits for an origin that is out of
	// its reach, and not just for its turn.
	failed  bool
	granted chan *slot
	missed  chan struct{} // one slot: no server can be tried now

	// Guarded by pool.mu.
	uncached bool // argument of choose
	warned   bool // missed was signalled
	why      metrics.WaitReason
	since    time.Time // of why
	until    time.Time // of why; zero: an event ends it
	// turn is how long it waited for its turn. Set before granted is sent to.
	turn time.Duration
}

// waits notes what the lane waits for.
func (q *place) waits(now time.Time, why metrics.WaitReason, until time.Time, text string) {
	if q.lane != nil {
		q.lane.Waiting(now, why, until, text)
	}
}

// slot is the permission to open one stream at a server, and then the stream's place on a
// connection. Guarded by pool.mu, except conn, which is set before connect or take returns.
type slot struct {
	server *server
	conn   *conn // nil: the slot's owner dials

	since      time.Time   // when it got a connection
	timer      *time.Timer // ends the state unanswered
	unanswered bool        // counted in server.unanswered
	answered   bool        // counted in server.answering
}

// miss says what the end of a stream without a response means for the server.
type miss uint8

const (
	noMiss    miss = iota
	unserved       // it cannot serve now: connection lost, UNAVAILABLE, a limit
	refusedBy      // it is up, and refuses this stream
)

// join queues a lane, which is served through q.granted. It locks the pool.
func (p *pool) join(q *place) {
	q.granted, q.missed = make(chan *slot, 1), make(chan struct{}, 1)
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, q)
	p.explain(now, q)
	p.grant(now)
	p.warn(now, q)
}

// explain notes what a lane in the queue waits for, if that has changed. s is its server; nil: none
// can be tried now.
func (p *pool) explain(now time.Time, q *place) (s *server) {
	s, again := p.server(q, now)
	why, at := metrics.WaitQueue, ""
	switch {
	case s == nil, q.failed, s.window > 0:
		why = metrics.WaitBackoff
	case s.dialling != nil && s.free() == nil:
		why, again, at = metrics.WaitConnect, s.dialUntil, s.address
	}
	if q.why != why || !q.until.Equal(again) {
		q.why, q.since, q.until = why, now, again
		q.waits(now, why, again, at)
	}
	return s
}

// look records whether the group wants what no server has answered yet. It locks the pool.
func (p *pool) look(q *place, uncached bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q.uncached != uncached {
		q.uncached = uncached
		p.grant(time.Now())
	}
}

// leave removes a lane from the queue, or gives back a slot that was granted meanwhile. It locks
// the pool.
func (p *pool) leave(q *place) {
	p.mu.Lock()
	if i := slices.Index(p.queue, q); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
	}
	p.mu.Unlock()
	select {
	case sl := <-q.granted:
		p.giveBack(sl)
	default:
	}
}

// giveBack ends an unused slot. It locks the pool.
func (p *pool) giveBack(sl *slot) {
	if sl.conn != nil {
		p.release(sl, noMiss)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(sl)
	p.dialled(sl.server)
	p.grant(time.Now())
}

// grant gives slots to the lanes whose turn it is, and notes what the others wait for.
func (p *pool) grant(now time.Time) {
	p.serve(now)
	if p.troubleChanged(now) {
		for _, q := range p.queue {
			p.explain(now, q)
		}
	}
}

// troubleChanged reports whether a server has come into reach, or out of it, since the last call.
func (p *pool) troubleChanged(now time.Time) (changed bool) {
	for _, s := range p.servers {
		is := s.until.After(now) || s.window > 0 || s.dialling != nil && s.free() == nil
		changed = changed || is != s.troubled
		s.troubled = is
	}
	return changed
}

// serve gives slots to the lanes whose turn it is, and sets the timer for the next look.
func (p *pool) serve(now time.Time) {
	for len(p.queue) > 0 {
		again := p.rate(now)
		if again.IsZero() {
			var q *place
			var s *server
			if q, s, again = p.next(now); q != nil {
				// Asked once, since a connection may be lost at any moment: the slot has this one,
				// or dials.
				c := s.free()
				if c == nil && s.dialling != nil {
					return // the queue is looked at again when that attempt ends
				}
				p.queue = slices.DeleteFunc(p.queue, func(x *place) bool { return x == q })
				p.last = q.group
				if q.why == metrics.WaitQueue {
					q.turn = now.Sub(q.since)
				}
				q.waits(now, metrics.WaitConnect, now.Add(p.patience()), s.address)
				q.granted <- p.slot(now, s, c)
				continue
			}
		}
		if again.IsZero() {
			return // an event will lead to the next look
		}
		if p.timer == nil {
			p.timer = time.AfterFunc(again.Sub(now), p.turn)
		} else {
			p.timer.Reset(again.Sub(now))
		}
		return
	}
	for _, s := range p.servers {
		s.silences = 0 // the count of silent streams begins again
	}
}

// turn is the timer's function. It locks the pool.
func (p *pool) turn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grant(time.Now())
}

// rate returns when the rate limit allows another stream; zero: now.
func (p *pool) rate(now time.Time) (again time.Time) {
	if n := p.cfg.NewGroupsPerSecond; n > 0 && len(p.starts) == n {
		if at := p.starts[p.oldest].Add(time.Second); at.After(now) {
			return at
		}
	}
	return again
}

// next returns the lane whose turn it is, and its server. best is nil if no lane can be served
// before the time again, or, if that is zero, before some event.
func (p *pool) next(now time.Time) (best *place, to *server, again time.Time) {
	admits, any := make([]bool, len(p.servers)), false
	for i, s := range p.servers {
		admits[i] = p.admits(s, now)
		any = any || admits[i]
	}
	for _, q := range p.queue {
		s, at := p.server(q, now)
		switch {
		case s == nil:
			again = sooner(again, at)
		case admits[s.at]:
			if best == nil || p.before(q, best, s.window > 0) {
				best, to = q, s
			}
		}
		if !any && len(p.servers) == 1 {
			return nil, nil, again // all wait for the same
		}
	}
	return best, to, again
}

// server returns the server for a lane, or when to ask again.
func (p *pool) server(q *place, now time.Time) (s *server, again time.Time) {
	if q.to == nil {
		if s, again = p.choose(now, q.was, q.uncached); s == nil {
			return nil, again
		}
	} else {
		s = q.to
	}
	if s.until.After(now) {
		return nil, s.until
	}
	return s, time.Time{}
}

// admits reports whether a server has few enough unanswered streams to open another.
func (p *pool) admits(s *server, now time.Time) bool {
	most := s.window
	if n := p.cfg.NewGroupsPerSecond; most == 0 && n > 0 {
		most = max(n/unansweredShare, 1) + s.silences
	}
	return !s.until.After(now) && (most == 0 || s.unanswered < most) && (s.dialling == nil || s.free() != nil)
}

// before reports whether q is served before o. At a server that is being tried, lanes that failed
// there come last: it may refuse their group only. So do lanes whose streams keep ending soon, or
// other groups might never get an answer in between. Otherwise the lanes of a group are served one
// after another.
func (p *pool) before(q, o *place, tried bool) bool {
	switch {
	case tried && q.failures != o.failures:
		return q.failures < o.failures
	case q.brief != o.brief:
		return o.brief
	case q.group == o.group:
		return false
	case q.group == p.last || o.group == p.last:
		return q.group == p.last
	case q.group.Seen() != o.group.Seen():
		return q.group.Seen()
	}
	return q.group.Behind() > o.group.Behind()
}

// slot makes a slot on a connection that has room. Without one the slot's owner dials, and nobody
// else does.
func (p *pool) slot(now time.Time, s *server, c *conn) *slot {
	if n := p.cfg.NewGroupsPerSecond; len(p.starts) < n {
		p.starts = append(p.starts, now)
	} else if n > 0 {
		p.starts[p.oldest] = now
		p.oldest = (p.oldest + 1) % n
	}
	sl := &slot{server: s, conn: c, unanswered: true}
	s.unanswered++
	if c != nil {
		c.lanes++
	} else {
		s.dialling, s.dialUntil = make(chan struct{}), now.Add(p.patience())
	}
	return sl
}

// connect gets the connection of a granted slot. If there is none, the slot is over. It locks the
// pool.
func (p *pool) connect(ctx context.Context, sl *slot) bool {
	if sl.conn == nil {
		p.open(ctx, sl)
	}
	if sl.conn == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	sl.since = time.Now()
	sl.timer = time.AfterFunc(max(answerWait, sl.server.patience), func() { p.silent(sl) })
	return true
}

// owesNothing records that nothing was asked that requires an answer. It locks the pool.
func (p *pool) owesNothing(sl *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sl.unanswered && sl.timer != nil {
		sl.timer.Reset(max(idleWait, sl.server.patience))
	}
}

// silent stops waiting for the first response of a stream. An open stream is the best proof there
// can be. It locks the pool.
func (p *pool) silent(sl *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sl.unanswered {
		sl.server.window = 0
		sl.server.silences++
	}
	p.settle(sl)
	p.grant(time.Now())
}

// settle ends the wait for the first response.
func (p *pool) settle(sl *slot) {
	if sl.timer != nil {
		sl.timer.Stop()
	}
	if sl.unanswered {
		sl.unanswered = false
		sl.server.unanswered--
	}
}

// missed records a failed attempt at a server, begun at since.
func (p *pool) missed(s *server, since time.Time, m miss) {
	s.missed(since, m)
	p.last = nil // the group does not go first after a failure
	p.warn(time.Now(), p.queue...)
}

// warn signals lanes that no server can be tried now; the table needs to know (RELAY-4).
func (p *pool) warn(now time.Time, queue ...*place) {
	for _, q := range queue {
		if s := p.explain(now, q); s == nil && !q.warned {
			q.warned = true
			q.missed <- struct{}{}
		}
	}
}
