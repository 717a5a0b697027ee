package upstream

import (
	"context"
	"time"

	"google.golang.org/grpc/connectivity"
)

// proveWithin is how long a server that was unreachable may leave unanswered what must be answered,
// where there are others: as long as a client waits for a resource (ABS-1). Then it is as
// unreachable as before.
const proveWithin = 15 * time.Second

// steadyFor is how long a server must have been answering for its next loss to be the first of a
// row.
const steadyFor = 2 * time.Minute

// longestSteady is the longest a server that comes and goes is left alone before it is sought
// again.
const longestSteady = 5 * time.Minute

// server is one address of an origin. Guarded by pool.mu but for what is set once.
type server struct {
	// Set once by newPool.
	at      int // its place in the order of preference
	address string
	trust   uint8 // tells servers apart whose versions differ (FED-7)

	conns     []*conn
	dialling  chan struct{} // closed when the attempt under way is over; nil: none is
	backoff   waits
	until     time.Time // no attempt before
	keepalive time.Duration

	// unanswered is how many new streams wait for their first response, and window how many may,
	// after a miss; zero: as always. silences is how many of late have waited in vain: such a
	// server is not slow, but has nothing to say.
	unanswered, window, silences int
	// patience is how long a stream has to be open unanswered to count as accepted: twice as long
	// as the last one took to fail.
	patience time.Duration

	// lost is since when it cannot be reached: the first connectivity failure since it answered
	// last. Zero: it can, as far as is known.
	lost time.Time
	// answering is how many open streams had a response.
	answering int
	// sought: a lane that has its stream elsewhere is finding out whether the server answers again.
	// One does it for all.
	sought bool
	// returned is when it answered after it was lost, and steady the pauses before it is sought
	// again that follow from losing it once more soon after: a server that comes and goes must not
	// have everybody move with it.
	returned time.Time
	steady   waits
	rest     time.Time
}

// due is when a lane that has its stream elsewhere may try the server.
func (s *server) due() time.Time {
	if s.rest.After(s.until) {
		return s.rest
	}
	return s.until
}

// free is a connection that is up and has room.
func (s *server) free() *conn {
	for _, c := range s.conns {
		if c.up() && c.lanes < lanesPerConnection {
			return c
		}
	}
	return nil
}

// missed is a failed attempt, which began at since: the next comes after a longer wait.
// Attempts that were made together count once. A server that cannot serve is tried by one stream at
// a time; one that refuses by ever more, as it may serve other groups.
func (s *server) missed(since time.Time, m miss) {
	now := time.Now()
	if s.until.After(now) {
		return
	}
	s.until = now.Add(s.backoff.next())
	if m == refusedBy {
		s.window = min(max(2*s.window, 1), mostProbes)
	} else {
		s.window = 1
	}
	if !s.lost.IsZero() {
		return
	}
	s.lost, s.rest = since, time.Time{}
	if !s.returned.IsZero() && since.Sub(s.returned) < steadyFor {
		s.rest = now.Add(s.steady.next())
	} else {
		s.steady.reset()
	}
}

// up reports whether the connection takes lanes.
func (c *conn) up() bool {
	if !c.gone && c.grpc.GetState() != connectivity.Ready {
		c.gone = true
	}
	return !c.gone
}

// choose is the server for a lane without a stream (FED-6), or when to ask again. was is
// where the lane's last stream went, if it had any: as long as that one is not lost the lane goes
// there again, and from there to a better one by climb alone. Otherwise it is the first that is not
// lost. After one that is comes the next: at once for a group that wants something no server has
// answered yet, or else when that one has been lost for cold_wait. Until then, and while none of
// those below answers either, it is tried itself, whenever that is due.
func (p *pool) choose(now time.Time, was *server, uncached bool) (_ *server, again time.Time) {
	if was != nil && was.lost.IsZero() {
		return was, time.Time{}
	}
	for i, s := range p.servers {
		if s.lost.IsZero() || s.answering > 0 {
			return s, time.Time{}
		}
		held := !uncached && now.Sub(s.lost) < p.table.ColdWait()
		if held || !p.answers(p.servers[i+1:]) {
			if !s.until.After(now) {
				return s, time.Time{}
			}
		}
		again = sooner(again, s.until)
		if held {
			return nil, sooner(again, s.lost.Add(p.table.ColdWait()))
		}
	}
	return nil, again
}

// answers reports whether any of the servers answers somebody.
func (p *pool) answers(servers []*server) bool {
	for _, s := range servers {
		if s.answering > 0 {
			return true
		}
	}
	return false
}

// seek waits until one of the servers before the one in that place may be tried for a lane that has
// its stream at that one: because it answers others, or because it is due and nobody else is at it.
// Then alone is set, and the caller ends its turn by sought. nil: ctx ended. It locks the pool.
func (p *pool) seek(ctx context.Context, before int) (_ *server, alone bool) {
	for ctx.Err() == nil {
		now := time.Now()
		var again time.Time
		p.mu.Lock()
		for _, s := range p.servers[:before] {
			switch {
			case s.lost.IsZero():
				p.mu.Unlock()
				return s, false
			case s.sought:
			case s.due().After(now):
				again = sooner(again, s.due())
			default:
				s.sought = true
				p.mu.Unlock()
				return s, true
			}
		}
		changed := p.changed
		p.mu.Unlock()
		var due <-chan time.Time
		if !again.IsZero() {
			due = time.After(again.Sub(now))
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-due:
		}
	}
	return nil, false
}

// sought ends a turn of seek. silent: the server took the stream and did not answer, which is no
// failure and no reason to go there. It locks the pool.
func (p *pool) sought(s *server, silent bool) {
	p.mu.Lock()
	s.sought = false
	if silent {
		s.until = time.Now().Add(s.backoff.next())
		p.grant(time.Now())
	}
	p.wakeSeekers()
	p.mu.Unlock()
}

// wakeSeekers has everybody look again who waits in seek.
func (p *pool) wakeSeekers() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// doubtful reports whether the server of a new stream has to prove itself within proveWithin: it
// was unreachable, and there are others. It locks the pool.
func (p *pool) doubtful(s *server) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.servers) > 1 && !s.lost.IsZero()
}

// proved notes the first response on a stream. Only now are attempts counted from one again
// (ERR-2), and a server that was lost is preferred again. It locks the pool.
func (p *pool) proved(sl *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sl.answered {
		return // a candidate, when it was found
	}
	sl.answered = true
	sl.server.answering++
	p.settle(sl)
	p.reached(sl.server)
}

// held notes that a stream which owed nothing stayed open on a server that was unreachable: that is
// all the proof there can be. It locks the pool.
func (p *pool) held(s *server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reached(s)
}

func (p *pool) reached(s *server) {
	s.backoff.reset()
	s.until, s.rest = time.Time{}, time.Time{}
	s.window, s.patience = 0, 0
	now := time.Now()
	if !s.lost.IsZero() {
		s.lost, s.returned = time.Time{}, now
		p.wakeSeekers()
	}
	p.grant(now)
}

// inUse is the server that the origin is spoken to at: the first that answers, else the first
// with a connection, else the first.
func (p *pool) inUse() *server {
	for _, has := range []func(*server) bool{
		func(s *server) bool { return s.answering > 0 }, func(s *server) bool { return len(s.conns) > 0 },
	} {
		for _, s := range p.servers {
			if has(s) {
				return s
			}
		}
	}
	return p.servers[0]
}
