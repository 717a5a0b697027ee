package relay

import (
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// When a set is complete (RELAY-6). A delta origin never says so: a set has settled once no new
// name has come for a pause, and it is firm after a longer one. A full list of state of the world
// is complete by itself. The longer pause also ends a sweep: what the stream has not mentioned by
// then goes (RELAY-46).

// answered updates settling after a response to the set. news: the response brought a name that the
// set did not have.
func (t *set) answered(now time.Time, gen uint32, news bool, u *update) {
	if t.answeredGen != gen {
		t.shard.unretire(t.key()) // the origin speaks for itself
		if !t.firm {
			t.first = time.Time{} // the pause of an earlier stream does not count for this one
		}
		if t.standsIn() {
			t.settled = false // from now on it is not sent to new clients
		}
	}
	t.answeredGen = gen
	t.revise()
	if t.note(u); u.Bad {
		// A refused resource counts as not mentioned, and must not be swept (RELAY-32).
		t.sweepGen = 0
	} else {
		t.awaited = time.Time{}
	}
	switch {
	case u.Full && !u.Bad:
		t.settled, t.firm, t.revived = true, true, false
		t.wakeFresh()
		return
	case u.Full && !t.settled && !t.onlyBad():
		t.settled = true // of the list only what was refused is missing, and nothing more comes
		t.wakeFresh()
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

// pause is called when a pause after the last new name may be over. It locks the shard.
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
	t.noteInSync(now)
	t.startPause(now)
	s.rejoinReleased()
	s.unlock()
}

// startPause checks which pauses are over by now, and sets the timer for the next that is not:
// until the set has settled, until it is firm, and until the sweep.
func (t *set) startPause(now time.Time) {
	cfg := t.shard.cfg()
	if !t.lane().live(t.askedGen) {
		// The stream ended half-way, so a pause after it does not mean that everything has come.
		t.first, t.sweepFirst = time.Time{}, time.Time{}
		t.revise()
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
	sweeps := t.revived && t.sweepGen != 0 // until then new clients are not sent the retired members
	if !t.first.IsZero() && !t.settled && !sweeps {
		x := earlier(arrivals.Over(t.lastNew, cfg.Settle), t.first.Add(cfg.ColdWait))
		if t.onlyBad() {
			x = t.first.Add(cfg.ColdWait)
		}
		if x.After(now) {
			at(x)
		} else {
			t.settled = true
			t.wakeFresh()
		}
	}
	// A restored set that is to be swept is confirmed by the sweep, and not by an answer before it.
	sweeps = sweeps || t.restored && t.sweepGen != 0 && !t.sweepFirst.IsZero()
	if !t.first.IsZero() && !t.firm && !t.badParts.bad && !sweeps {
		x := earlier(later(arrivals.Over(t.lastNew, cfg.FirmSettle), t.gathered), t.first.Add(firmMost))
		if x = t.badParts.over(x); t.restored {
			x = t.shard.confirmsAt(x)
		}
		if x.After(now) {
			at(x)
		} else {
			t.firm = true
			t.wakeFresh()
		}
	}
	if t.sweepGen != 0 && !t.sweepFirst.IsZero() {
		x := earlier(later(arrivals.Over(t.sweepLastNew, cfg.FirmSettle), t.gathered), t.sweepFirst.Add(firmMost))
		if t.restored {
			x = t.shard.confirmsAt(x)
		}
		if x.After(now) {
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

// sweep removes the members that the present stream has not mentioned (RELAY-46). It does nothing
// if that stream has ended.
func (t *set) sweep() {
	gen := t.sweepGen
	t.sweepGen = 0
	if !t.lane().live(gen) {
		return
	}
	rev := t.shard.nextRev()
	t.hears(gen)
	kept, _ := t.screen(t.unmentioned(gen), true, true)
	for m := range t.members.all() {
		if t.swept(m, gen) && !m.isIn(kept) {
			was := t.given(m)
			m.variants = nil
			t.clearError(m.name)
			t.offer(m, rev)
			t.noteChange(m, was)
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

// swept reports whether a sweep removes the member. What the guard holds back is not swept, since
// it has a time of its own.
func (t *set) swept(m *member, gen uint32) bool {
	return (t.sweepAll || t.refetch[m.name]) && !m.seenOn(gen) && !t.guard.holdsAny(&m.held)
}

// unmentioned are the removals that a sweep would make.
func (t *set) unmentioned(gen uint32) (ps []pendingRemoval) {
	for m := range t.members.all() {
		if t.swept(m, gen) {
			for _, v := range m.variants {
				id := xds.Identity{Name: m.name, Constraints: v.Constraints.Key()}
				ps = append(ps, pendingRemoval{Identity: id, restored: t.unvouched()})
			}
		}
	}
	return ps
}

// Arrivals counts the bytes that a connection to an origin receives. While a message is still
// arriving no pause ends, and no set counts as complete (RELAY-6): over a slow link a large
// response takes longer than any pause. The reader of the connection writes it. The table reads it
// when a pause would be over. It is safe for concurrent use.
type Arrivals struct {
	at   atomic.Int64 // of the last bytes, in Unix nanoseconds
	part atomic.Int64 // bytes since the last whole message
}

// partOfMessage is how many bytes count as part of a message. Fewer may be what HTTP/2 sends
// besides: pings, window updates, the headers of a stream.
const partOfMessage = 1 << 10

// Bytes notes that n bytes came.
func (a *Arrivals) Bytes(now time.Time, n int) {
	a.part.Add(int64(n))
	a.at.Store(now.UnixNano())
}

// Message notes that a whole message was received. Bytes of the next message that have come by then
// are not counted, so it is not seen before more of it comes.
func (a *Arrivals) Message() { a.part.Store(0) }

// Over is when a pause ends that began at since, or with the last bytes of a message that is still
// arriving.
func (a *Arrivals) Over(since time.Time, pause time.Duration) time.Time {
	if a != nil && a.part.Load() >= partOfMessage {
		if at := time.Unix(0, a.at.Load()); at.After(since) {
			since = at
		}
	}
	return since.Add(pause)
}

// Over tells which connection the next streams use.
func (l *Lane) Over(a *Arrivals) { l.arrivals.Store(a) }
