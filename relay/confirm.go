package relay

import "time"

// Restored content is sent only to clients that do not hold it, until the origin has confirmed it.
// A set is firm once it was answered and a pause has passed; if there is no answer, once a pause
// has passed since it was asked (set.go). A name is confirmed by what the origin says of it, or by
// the same pause. Silence confirms nothing that was not presented to the origin. Then a set takes
// the longest pause. A name is held back until the origin speaks of it, or for 15 s if a list waits
// for it.

// unconfirmed reports whether the members were restored and no stream has confirmed them.
func (t *set) unconfirmed() bool { return t.restored && !t.firm }

// heldBack reports whether restored content is held back from the client because the client says
// that it holds something.
func (p *position) heldBack() bool {
	t := p.view.set
	return p.fresh && p.sub.holds && t.unconfirmed() && t.ready(false)
}

// heldBack reports whether a restored name is held back from the client, because the client says
// that it holds the name or may hold it by an alias. A list that is sent whole does not wait for a
// name for ever (RELAY-6).
func (r *record) heldBack() bool {
	e := r.entry
	if !e.unconfirmed {
		return false
	}
	// An alias is held back if the client says that it holds the resource by its own name.
	if !r.is(claimed | returned | maybeAlias) {
		if own := e.chosen; own != nil && own.Name != e.name {
			named := r.sub.record(own.Name)
			return named != nil && named.is(claimed|returned)
		}
		return false
	}
	return !e.isMute() || !r.sub.answersWhole() || !r.sub.shard.isAsked(e)
}

// answersSoon reports whether a restored name was just asked, or is about to be, of a SotW origin
// that answers. Such a name left the request with its last client (RELAY-99). A client may then
// have been sent something newer before the restart, and have unsubscribed since. So it waits for
// the answer, and is not sent what is older (EC-4; the chaos schedule "weir killed, snapshot").
func (s *shard) answersSoon(e *entry) bool {
	l := s.lane(s.named.lane)
	gen := l.gen.Load()
	return s.group.origin.config().SotW && gen != 0 && l.heard.Load() == gen && !e.isMute() && (!e.asksOn(gen) || !e.answeredOn(gen))
}

// notSoon is called when the stream has ended on which names were about to be answered. Clients
// that wait for them are sent what was restored.
func (s *shard) notSoon(l *Lane) {
	if !s.group.origin.config().SotW || s.lane(s.named.lane) != l {
		return
	}
	for _, e := range s.named.entries {
		if e.unconfirmed {
			s.markRecords(e)
		}
	}
}

// markConfirmed is called when the origin has confirmed a name, which its silence may do.
func (s *shard) markConfirmed(e *entry) {
	if !e.unconfirmed {
		return
	}
	e.onRestored(false)
	s.markRecords(e)
}

// confirmFrom is called when names were just asked: all of them on a new stream, or some that came
// later. The time in which silence confirms begins now. Names that come later do not begin it
// again.
func (s *shard) confirmFrom(now time.Time, all bool) {
	t := &s.named
	if t.unconfirmed && (all || !t.confirming) {
		t.confirmAt = now.Add(s.cfg().FirmSettle)
		s.confirmTimer()
	}
}

func (s *shard) confirmTimer() {
	if t := &s.named; !t.confirming {
		t.confirming = true
		s.push(timer{at: t.confirmAt, kind: confirmations, shard: s})
	}
}

// confirmLater is called on each response of the names' stream, since more may follow. After a
// response with a bad part the longest pause applies: what the responses lack may be what was
// refused (RELAY-32).
func (s *shard) confirmLater(gen uint32, bad bool) {
	t := &s.named
	if !t.unconfirmed {
		return
	}
	most := t.firstAt[t.lane].Add(firmMost)
	if bad {
		t.refusedGen = gen
	}
	if t.confirmAt = earlier(s.now.Add(s.cfg().FirmSettle), most); t.refusedGen == gen {
		t.confirmAt = most
	}
}

// confirmLater postpones confirmation by silence while a response waits for clusters (gather.go).
// Otherwise a client with a newer route or listener would be sent the restored one, just before the
// newer one is applied (testdata/restored_gather.txt). The delay is bounded by firmMost. It locks
// the store.
func (x *arrival) confirmLater() {
	x.store.mu.Lock()
	defer x.store.mu.Unlock()
	for _, s := range x.store.all {
		switch s.kind(x.lane.index, x.gen) {
		case kindSet:
			s.sets(func(t *set) {
				if t.askedGen == x.gen && t.unconfirmed() && !t.gathered.After(x.at) {
					t.gathered = x.at.Add(1) // the response is applied before then
				}
			})
		case kindNamed:
			s.now = x.came
			s.confirmLater(x.gen, x.u.Bad)
		}
	}
}

// confirm checks whether the origin has been silent about the restored names for long enough. It
// locks the shard.
func (s *shard) confirm(now time.Time) {
	s.mu.Lock()
	defer s.unlock()
	s.now = now
	t := &s.named
	t.confirming = false
	gen := t.firstGen[t.lane]
	switch {
	case !t.unconfirmed, !s.lane(t.lane).live(gen): // the next stream asks again
	case t.confirmAt.After(now):
		s.confirmTimer()
	default:
		t.unconfirmed = false
		for _, e := range t.entries {
			if t.presented && len(e.variants) > 0 && e.asksOn(gen) && !e.kept(gen) {
				s.markConfirmed(e)
			}
			t.unconfirmed = t.unconfirmed || e.unconfirmed
		}
	}
}
