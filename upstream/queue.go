package upstream

import (
	"context"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay"
)

const (
	// A new stream counts as unanswered for answerWait at most, or for idleWait if nothing was
	// asked on it that must be answered.
	answerWait, idleWait = time.Second, 250 * time.Millisecond
	// unansweredShare is what part of the streams of a second may be unanswered at a time: a server
	// that takes long to answer, or delays requests because of a rate limit of its own, is asked no
	// faster than it answers.
	unansweredShare = 5
	// mostProbes is how many streams are tried at a time, at most, at a server that has refused
	// every stream so far.
	mostProbes = 20
)

// place is one lane's in the queue for a new stream (RELAY-98).
type place struct {
	// Set once by whoever joins.
	group    *relay.Group
	to       *server // the only server to go to; nil: choose says
	was      *server // where the lane's last stream went; nil: there was none
	failures int     // of the lane in a row
	brief    bool    // the lane's last streams were answered and ended soon after
	granted  chan *slot
	missed   chan struct{} // one slot: no server may be tried now

	// Guarded by pool.mu.
	uncached bool // for choose
	warned   bool // missed was signalled
}

// slot is leave to open one stream at a server, and then the stream's place on a connection.
// Guarded by pool.mu but for conn, which is set by the time that connect or take returns.
type slot struct {
	server *server
	conn   *conn // nil: whoever has the slot dials

	since      time.Time   // when it had a connection
	timer      *time.Timer // ends unanswered
	unanswered bool        // counted in server.unanswered
	answered   bool        // counted in server.answering
}

// miss is what the end of a stream without a response says of the server.
type miss uint8

const (
	noMiss    miss = iota
	unserved       // it cannot serve now: a lost connection, UNAVAILABLE, a limit
	refusedBy      // it can, and does not serve this stream
)

// join puts a lane into the queue. Its turn comes through q.granted. It locks the pool.
func (p *pool) join(q *place) {
	q.granted, q.missed = make(chan *slot, 1), make(chan struct{}, 1)
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, q)
	p.grant(now)
	p.warn(now, q)
}

// look takes up that the group has come to want what no server has answered yet, or no longer does.
// It locks the pool.
func (p *pool) look(q *place, uncached bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q.uncached != uncached {
		q.uncached = uncached
		p.grant(time.Now())
	}
}

// leave takes a lane out of the queue, or gives back the slot it was granted meanwhile. It locks
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

// giveBack ends a slot that was not used. It locks the pool.
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

// grant gives leave to those whose turn it is, and sees to it that the next are looked at in
// time.
func (p *pool) grant(now time.Time) {
	for len(p.queue) > 0 {
		again := p.rate(now)
		if again.IsZero() {
			var q *place
			var s *server
			if q, s, again = p.next(now); q != nil {
				// Asked once, as a connection may be lost at any moment: the slot either has this
				// one, or dials.
				c := s.free()
				if c == nil && s.dialling != nil {
					return // the end of that attempt looks at the queue again
				}
				p.queue = slices.DeleteFunc(p.queue, func(x *place) bool { return x == q })
				p.last = q.group
				q.granted <- p.slot(now, s, c)
				continue
			}
		}
		if again.IsZero() {
			return // something will happen
		}
		if p.timer == nil {
			p.timer = time.AfterFunc(again.Sub(now), p.turn)
		} else {
			p.timer.Reset(again.Sub(now))
		}
		return
	}
	for _, s := range p.servers {
		s.silences = 0 // whoever comes next begins anew
	}
}

// turn looks at the queue again. It locks the pool.
func (p *pool) turn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grant(time.Now())
}

// rate is when the rate allows another stream; zero: now.
func (p *pool) rate(now time.Time) (again time.Time) {
	if n := p.cfg.NewGroupsPerSecond; n > 0 && len(p.starts) == n {
		if at := p.starts[p.oldest].Add(time.Second); at.After(now) {
			return at
		}
	}
	return again
}

// next is whose turn it is, and where to go; nil: nobody's before the time given, or, if that
// is zero, before something happens.
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

// server is where a lane is to go, or when to look again.
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

// admits reports whether a stream may be opened at a server as far as those go that are not
// answered yet.
func (p *pool) admits(s *server, now time.Time) bool {
	most := s.window
	if n := p.cfg.NewGroupsPerSecond; most == 0 && n > 0 {
		most = max(n/unansweredShare, 1) + s.silences
	}
	return !s.until.After(now) && (most == 0 || s.unanswered < most) && (s.dialling == nil || s.free() != nil)
}

// before reports whether q comes before o. Where a server is being tried, whoever failed
// there gives way: it may be the group that is refused, and not all of them. So does whoever is
// ended again and again, as there may be groups that have never come to be answered in between. The
// streams of a group follow one another.
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
	return q.group.Clients() > o.group.Clients()
}

// slot makes a slot, on a connection that has room, or to dial if there is none; then nobody
// else dials.
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
		s.dialling = make(chan struct{})
	}
	return sl
}

// connect has a granted slot get its connection. If there is none to be had the slot is over. It
// locks the pool.
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

// owesNothing notes that nothing was asked on the stream that must be answered. It locks the pool.
func (p *pool) owesNothing(sl *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sl.unanswered && sl.timer != nil {
		sl.timer.Reset(max(idleWait, sl.server.patience))
	}
}

// silent gives up waiting for the first response of a stream. That it is open is all the proof
// there is. It locks the pool.
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

// missed notes a failed attempt at a server, which began at since.
func (p *pool) missed(s *server, since time.Time, m miss) {
	s.missed(since, m)
	p.last = nil // whoever failed is not to come first for that
	p.warn(time.Now(), p.queue...)
}

// warn tells those that have no server to be tried now, for what that means to the table
// (RELAY-4).
func (p *pool) warn(now time.Time, queue ...*place) {
	for _, q := range queue {
		if q.warned {
			continue
		}
		if s, _ := p.server(q, now); s == nil {
			q.warned = true
			q.missed <- struct{}{}
		}
	}
}
