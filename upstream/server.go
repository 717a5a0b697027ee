package upstream

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/connectivity"
)

// proveWithin is how long a server that was unreachable may leave a question unanswered if there
// are other servers: as long as a client waits for a resource (ABS-1). After that it counts as
// unreachable still.
const proveWithin = 15 * time.Second

// steadyFor is how long a server must have answered for its next loss to count as the first.
const steadyFor = 2 * time.Minute

// longestSteady is the longest pause before a server that keeps getting lost is probed again.
const longestSteady = 5 * time.Minute

// server is one address of an origin. Guarded by pool.mu, except what is set once.
type server struct {
	// Set once by newPool.
	at      int // index in the order of preference
	address string
	trust   uint8 // equal for servers that share versions (FED-7)

	conns     []*conn
	dialling  chan struct{} // closed when the current attempt ends; nil: there is none
	dialUntil time.Time     // of dialling: when it ends at the latest
	backoff   waits
	until     time.Time // no attempt before; zero: at any time
	keepalive time.Duration

	// unanswered is how many new streams wait for their first response. window bounds them after a
	// failure; zero: no such bound. silences counts recent streams that got no response in time:
	// such a server is not slow, it has nothing to send.
	unanswered, window, silences int
	// patience is how long an unanswered stream must be open to count as accepted: twice the time
	// that the last one took to fail.
	patience time.Duration

	// troubled: it was out of reach, or about to be tried, when troubleChanged looked last.
	troubled bool

	// lost is the first connectivity failure since the last answer; zero: the server is reachable,
	// as far as is known.
	lost time.Time
	// answering is the number of open streams that had a response.
	answering int
	// sought: a lane with a stream elsewhere is probing the server. One lane does it for all.
	sought bool
	// returned is when it answered again after it was lost. steady is the pause before it is probed
	// again if it is lost soon after that: not all lanes should move each time a server comes and
	// goes.
	returned time.Time
	steady   waits
	rest     time.Time
}

// due returns when a lane with a stream elsewhere may try the server.
func (s *server) due() time.Time {
	if s.rest.After(s.until) {
		return s.rest
	}
	return s.until
}

// free returns a connection that is up and has room; nil: there is none.
func (s *server) free() *conn {
	for _, c := range s.conns {
		if c.up() && c.lanes < lanesPerConnection {
			return c
		}
	}
	return nil
}

// missed records a failed attempt, begun at since, and prolongs the backoff. Simultaneous attempts
// count once. A server that cannot serve is tried by one stream at a time, and one that refuses by
// ever more, since it may serve other groups.
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

// up reports whether the connection accepts lanes.
func (c *conn) up() bool {
	if !c.gone && c.grpc.GetState() != connectivity.Ready {
		c.gone = true
	}
	return !c.gone
}

// choose returns the server for a lane without a stream (FED-6), or when to ask again. was is the
// server of the lane's last stream. The lane returns to it unless it is lost; only failBack moves a
// lane to a better one. Otherwise the first server that is not lost is used.
//
// The one after a lost server is used at once for a group that wants what no server has answered
// yet, and for others once the lost one has been unreachable for cold_wait. Until then, and while
// none of the later ones answers either, the lost server is tried itself when its backoff ends.
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

// answers reports whether one of the servers answers any lane.
func (p *pool) answers(servers []*server) bool {
	return slices.ContainsFunc(servers, func(s *server) bool { return s.answering > 0 })
}

// seek waits until one of the servers preferred to index before may be tried by a lane with a
// stream elsewhere: it answers other lanes, or its backoff has ended and nobody probes it. In the
// second case alone is set, and the caller has to call sought afterwards. It returns nil when ctx
// ends. It locks the pool.
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

// sought ends a probe begun by seek. silent: the server accepted the stream and did not answer.
// That is no failure, but no reason to move either. It locks the pool.
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

// wakeSeekers wakes the callers of seek.
func (p *pool) wakeSeekers() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// doubtful reports whether the server of a new stream has to answer within proveWithin: it was
// unreachable, and there are others. It locks the pool.
func (p *pool) doubtful(s *server) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.servers) > 1 && !s.lost.IsZero()
}

// proved records the first response of a stream. Only that resets the backoff (ERR-2) and makes a
// lost server preferred again. It locks the pool.
func (p *pool) proved(sl *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sl.answered {
		return // for a candidate that was done when it was opened
	}
	sl.answered = true
	sl.server.answering++
	p.settle(sl)
	p.reached(sl.server)
}

// held records that a stream without questions stayed open on a server that was unreachable. There
// can be no better proof. It locks the pool.
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

// inUse returns the server in use: the first that answers, else the first with a connection, else
// the first.
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
