package relay

import "time"

// Until the origin has confirmed what was restored, it is told only to clients that do not hold it.
// A set is firm once it was answered and a pause has passed, or where there is no answer the pause
// after it was asked (set.go). A name is confirmed by what the origin says of it, or by the same
// pause. Silence about what it was not told that we hold says nothing, though: then a set takes the
// longest pause, and a name is held back until the origin speaks of it, or for 15 s where a list
// waits for it.

// unconfirmed reports whether the members were restored and no stream has confirmed them.
func (t *set) unconfirmed() bool { return t.restored && !t.firm }

// heldBack reports whether the client waits for what was restored because it says that it
// holds something.
func (p *position) heldBack() bool {
	t := p.view.set
	return p.fresh && p.sub.holds && t.unconfirmed() && t.ready(false)
}

// heldBack reports whether the client is to be told nothing of a name that was restored because it
// says that it holds it, or may by an alias. A list that is sent whole does not wait for a name for
// ever (RELAY-6).
func (r *record) heldBack() bool {
	e := r.entry
	if !e.unconfirmed {
		return false
	}
	// by the alias it would have what it says it holds by the name
	if !r.is(claimed | returned | maybeAlias) {
		if own := e.chosen; own != nil && own.Name != e.name {
			named := r.sub.record(own.Name)
			return named != nil && named.is(claimed|returned)
		}
		return false
	}
	return !e.isMute() || !r.sub.answersWhole() || !r.sub.shard.isAsked(e)
}

// answersSoon reports whether a name that was restored is about to be asked, or was just
// asked, of a SotW origin that answers. It left the request with its last client (RELAY-99), so a
// client may have been told something newer before the restart, and have let go of it: it waits for
// the answer, and is not given what is older (EC-4; the chaos schedule "weir killed, snapshot").
func (s *shard) answersSoon(e *entry) bool {
	l := s.lane(s.named.lane)
	gen := l.gen.Load()
	return s.group.origin.config().SotW && gen != 0 && l.heard.Load() == gen && !e.isMute() && (!e.asksOn(gen) || !e.answeredOn(gen))
}

// notSoon: the stream has ended on which names were about to be answered. Who waits for that
// is given what was restored.
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

// markConfirmed: the origin has spoken of the name, if only by its silence.
func (s *shard) markConfirmed(e *entry) {
	if !e.unconfirmed {
		return
	}
	e.onRestored(false)
	s.markRecords(e)
}

// confirmFrom: names were just asked, all of them on a new stream, or some that came later.
// Their silence counts from now, but what comes later does not put off the others.
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

// confirmLater: a response came to the names' stream, so there may be more to come. What it
// lacks may be what was refused of it (RELAY-32).
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

// confirmLater keeps silence from confirming what was restored while a response waits for clusters
// (gather.go): a client that has a newer route or listener would be sent back to the restored one
// just before it is taken up (testdata/restored_gather.txt). It is bounded as ever, by firmMost. It
// locks the store.
func (x *arrival) confirmLater() {
	x.store.mu.Lock()
	defer x.store.mu.Unlock()
	for _, s := range x.store.all {
		switch s.kind(x.lane.index, x.gen) {
		case kindSet:
			s.sets(func(t *set) {
				if t.askedGen == x.gen && t.unconfirmed() && !t.gathered.After(x.at) {
					t.gathered = x.at.Add(1) // it is taken up before
				}
			})
		case kindNamed:
			s.now = x.came
			s.confirmLater(x.gen, x.u.Bad)
		}
	}
}

// confirm looks whether silence about the names that were restored has been long enough. It locks
// the shard.
func (s *shard) confirm(now time.Time) {
	s.mu.Lock()
	defer s.unlock()
	s.now = now
	t := &s.named
	t.confirming = false
	gen := t.firstGen[t.lane]
	switch {
	case !t.unconfirmed, !s.lane(t.lane).live(gen): // the next stream asks anew
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
