package relay

import (
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// When a set is complete (RELAY-6). A delta origin never says so. A set has settled once no new
// name has come for a pause, and it is firm after a longer one. A full list of state of the world
// is complete by itself. The longer pause also ends a sweep, which removes what the stream has not
// mentioned (RELAY-46).

// answered updates settling after a response to the set. news: it brought a name that the set did
// not have.
func (t *set) answered(now time.Time, gen uint32, news bool, u *update) {
	if t.answeredGen != gen {
		t.shard.unretire(t.key()) // the origin speaks for itself
		if !t.firm {
			t.first = time.Time{} // what an earlier stream brought is no measure of this one
		}
		if t.standsIn() {
			t.settled = false // nobody new is given it from now on
		}
	}
	t.answeredGen = gen
	if t.note(u); u.Bad {
		// what was refused was not mentioned, and must stay, in error or not (RELAY-32)
		t.sweepGen = 0
	} else {
		t.awaited = time.Time{}
	}
	if u.Full && !u.Bad {
		t.settled, t.firm, t.revived = true, true, false
		t.wakeFresh()
		return
	}
	if t.firm && t.sweepGen != gen {
		return
	}
	if t.first.IsZero() {
		t.first, t.lastNew = now, now
	}
	if news {
		t.lastNew = now
	}
	if t.sweepGen == gen && t.sweepFirst.IsZero() {
		t.sweepFirst, t.sweepLastNew = now, now
	}
	t.startPause(now)
}

// pause checks whether the pause after the last new name has been long enough. It locks the shard.
func (t *set) pause(now time.Time) {
	s := t.shard
	s.mu.Lock()
	s.now = now
	if !t.pauseAt.After(now) {
		t.pauseAt = time.Time{}
	}
	if x := t.nameErrors.lackUntil; !x.IsZero() && !x.After(now) {
		t.noteLack()
		t.wakeFresh()
	}
	t.startPause(now)
	s.rejoinReleased()
	s.unlock()
}

func (t *set) startPause(now time.Time) {
	cfg := t.shard.cfg()
	if !t.lane().live(t.askedGen) {
		// The stream broke half-way: a pause after it says nothing about what was still to come.
		t.first, t.sweepFirst = time.Time{}, time.Time{}
	}
	if t.first.IsZero() && t.sweepFirst.IsZero() {
		return
	}
	var next time.Time
	at := func(x time.Time) {
		if next.IsZero() || x.Before(next) {
			next = x
		}
	}
	arrivals := t.lane().arrivals.Load()
	sweeps := t.revived && t.sweepGen != 0 // until then nobody new is given what had retired
	if !t.first.IsZero() && !t.settled && !sweeps {
		x := earlier(arrivals.Over(t.lastNew, cfg.Settle), t.first.Add(cfg.ColdWait))
		if t.badParts.bad {
			x = t.first.Add(cfg.ColdWait)
		}
		if x.After(now) {
			at(x)
		} else {
			t.settled = true
			t.wakeFresh()
		}
	}
	// What was restored and is to be swept is not confirmed by an answer before that.
	sweeps = sweeps || t.restored && t.sweepGen != 0 && !t.sweepFirst.IsZero()
	if !t.first.IsZero() && !t.firm && !t.badParts.bad && !sweeps {
		x := earlier(later(arrivals.Over(t.lastNew, cfg.FirmSettle), t.gathered), t.first.Add(firmMost))
		if x = t.badParts.over(x); x.After(now) {
			at(x)
		} else {
			t.firm = true
			t.wakeFresh()
		}
	}
	if t.sweepGen != 0 && !t.sweepFirst.IsZero() {
		if x := earlier(later(arrivals.Over(t.sweepLastNew, cfg.FirmSettle), t.gathered), t.sweepFirst.Add(firmMost)); x.After(now) {
			at(x)
		} else {
			t.sweep()
		}
	}
	if !next.IsZero() && (t.pauseAt.IsZero() || next.Before(t.pauseAt)) {
		t.pauseAt = next
		t.shard.push(timer{at: next, kind: setPause, set: t})
	}
}

// sweep removes the members that the present stream has not mentioned (RELAY-46). A stream
// that ended sweeps nothing.
func (t *set) sweep() {
	gen := t.sweepGen
	t.sweepGen = 0
	if !t.lane().live(gen) {
		return
	}
	rev := t.shard.nextRev()
	t.hears(gen)
	kept, _ := t.screen(t.unmentioned(gen), true, true)
	for _, m := range t.members {
		if t.swept(m, gen) && !m.isIn(kept) {
			m.variants = nil
			t.nameErrors.clear(m.name)
			t.offer(m, rev)
		}
	}
	t.refetch = nil
	ended := t.forgetErrors(gen, rev)
	t.markChanged(rev)
	if ended {
		t.stated(rev)
	}
	if t.revived || t.unconfirmed() {
		t.settled, t.firm, t.revived = true, true, false
		t.wakeFresh()
	}
}

// swept reports whether a sweep removes a member. What the guard holds back is not swept: it has a
// time of its own.
func (t *set) swept(m *member, gen uint32) bool {
	return (t.sweepAll || t.refetch[m.name]) && !m.seenOn(gen) && !t.guard.holdsAny(&m.held)
}

// unmentioned is what a sweep would remove.
func (t *set) unmentioned(gen uint32) (ps []pendingRemoval) {
	for _, m := range t.members {
		if t.swept(m, gen) {
			for _, v := range m.variants {
				ps = append(ps, pendingRemoval{Identity: xds.Identity{Name: m.name, Constraints: v.Constraints.Key()}})
			}
		}
	}
	return ps
}

// Arrivals are the bytes that a connection to an origin receives. While a message is still
// arriving, no pause says that a set is complete (RELAY-6): over a slow link a large response takes
// longer than any. Whoever reads the connection writes it, and the table looks at it when a pause
// would be over. Safe for concurrent use.
type Arrivals struct {
	at   atomic.Int64 // of the last bytes, in Unix nanoseconds
	part atomic.Int64 // bytes since the last whole message
}

// partOfMessage is how many bytes must have come to be part of a message and not what HTTP/2 says
// besides: pings, window updates, the headers of a stream.
const partOfMessage = 1 << 10

// Bytes notes that n bytes came.
func (a *Arrivals) Bytes(now time.Time, n int) {
	a.part.Add(int64(n))
	a.at.Store(now.UnixNano())
}

// Message notes that a whole message was received. What has come of the next by then is not
// counted, and so not seen before more of it comes.
func (a *Arrivals) Message() { a.part.Store(0) }

// Over is when a pause is over that began at since, or with the last bytes of a message that is
// still arriving.
func (a *Arrivals) Over(since time.Time, pause time.Duration) time.Time {
	if a != nil && a.part.Load() >= partOfMessage {
		if at := time.Unix(0, a.at.Load()); at.After(since) {
			since = at
		}
	}
	return since.Add(pause)
}

// Over says which connection the streams to come use.
func (l *Lane) Over(a *Arrivals) { l.arrivals.Store(a) }
