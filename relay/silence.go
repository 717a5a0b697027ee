package relay

import "time"

// Names that the origin leaves unanswered, or answers with an error.

// failLocked takes up what the origin says of a name instead of a resource: the body that is there
// goes or stays (ABS-8), and either counts as an answer.
func (s *shard) failLocked(e *entry, fault *NameError, rev uint64, gen uint32) {
	if s.group.origin.ends(fault) {
		s.confirmLocked(e) // any other error says nothing of the body
		known := e.answered == gen && e.fault.same(fault)
		if !e.fault.same(fault) {
			e.fault = fault
		}
		// also to those who know that it does not exist; the same is news to who came since it was
		// asked anew (RELAY-99)
		if !known {
			s.tellLocked(e, rev)
		}
		s.emptyLocked(e)
		e.notice = nil
		s.offerNamedLocked(e, rev, gen, true)
		return
	}
	known := e.answered == gen && e.fault.same(fault)
	e.answered, e.faulted = gen, true
	if !e.fault.same(fault) {
		e.fault = fault
		e.rev = rev
	}
	if !known { // on a new stream the same is news to who came since the last (RELAY-38)
		s.tellLocked(e, rev)
	}
}

// silentLocked starts the clock for the names just asked.
func (s *shard) silentLocked() {
	if s.named.silentAt.IsZero() && len(s.named.unheard) > 0 {
		s.named.silentAt = s.named.unheard[0].at.Add(s.group.origin.patience())
		s.push(timer{at: s.named.silentAt, kind: silentNames, shard: s})
	}
}

// silent looks at the names asked 15 s ago. What a healthy origin has left unanswered is absent if
// the origin speaks SotW (ABS-2, ABS-5), or in error if silence is to be nothing worse (ABS-6);
// otherwise it is counted and settles what waited (RELAY-6). Silence about a body whose version was
// presented means that it is current.
func (s *shard) silent(now time.Time) {
	s.mu.Lock()
	s.now = now
	t := &s.named
	t.silentAt = time.Time{}
	n, patience := 0, s.group.origin.patience()
	for ; n < len(t.unheard) && !t.unheard[n].at.Add(patience).After(now); n++ {
		if u := t.unheard[n]; u.isLast() && s.isAskedLocked(u.entry) {
			s.unheardLocked(u.entry)
			s.partTouchedLocked(u.entry) // who has been silent of it stands for nobody
		}
		t.unheard[n] = unheard{}
	}
	t.unheard = t.unheard[n:]
	s.silentLocked()
	s.unlock()
}

// isLast reports whether the question is the last of its name, and no other is about to be asked:
// that one has 15 s of its own (testdata/uncached_asked_anew.txt).
func (u *unheard) isLast() bool {
	return u.entry.asked == u.gen && u.entry.asks == u.asks && !u.entry.refresh
}

func (s *shard) unheardLocked(e *entry) {
	e.mute = e.answered != e.asked || e.faulted
	if e.unconfirmed {
		s.reshowLocked(e) // lists that wait for it do so no longer
	}
	switch {
	case e.chosen != nil && !e.lost:
		if e.answered != e.asked && e.fault != nil { // it would have been stated again
			e.curedLocked(s.rev)
			e.fault, e.faulted = nil, false
		}
		e.answered = e.asked
		s.lapsedSilentLocked(e)
		return
	case e.answered == e.asked && !e.faulted:
		return
	case e.answered == e.asked:
		// In error and nothing else: a list that waits for it goes without it now, as it would for
		// silence, and not before.
		e.unanswered = true
		s.tellLocked(e, s.rev)
		return
	}
	s.unanswered++
	e.doubted = true
	e.fault, e.faulted = nil, false // of an earlier stream, and stated by this one no more
	switch cfg := s.group.origin.config(); {
	case cfg.SotW && cfg.AbsenceTransient:
		e.answered, e.faulted, e.fault, e.unanswered = e.asked, true, unanswered(e.name), true
	case cfg.SotW:
		e.answered, e.absentGen, e.unanswered = e.asked, e.asked, true
	default:
		e.unanswered = true
	}
	s.tellLocked(e, s.rev)
}
