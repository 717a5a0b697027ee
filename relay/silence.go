package relay

import "time"

// Names that the origin leaves unanswered, or answers with an error.

// failLocked takes up what the origin says of a name instead of a resource: the body that is there goes or stays (ABS-8), and
// either counts as an answer.
func (s *shard) failLocked(e *entry, fault *NameError, rev uint64, gen uint32) {
	if s.group.origin.ends(fault) {
		s.confirmLocked(e) // any other error says nothing of the body
		for _, w := range e.wants {
			if !w.fault.same(fault) {
				w.fault = fault
				s.tellLocked(w, rev) // also those who know that it does not exist
			}
		}
		s.emptyLocked(e)
		e.notice = nil
		s.offerNamedLocked(e, rev, gen, true)
		return
	}
	for _, w := range e.wants {
		known := w.answered == gen && w.fault.same(fault)
		w.answered, w.faulted = gen, true
		if !w.fault.same(fault) {
			w.fault = fault
			w.rev = rev
		}
		if !known { // on a new stream the same is news to who came since the last (RELAY-38)
			s.tellLocked(w, rev)
		}
	}
}

// silentLocked starts the clock for the names just asked.
func (s *shard) silentLocked() {
	if s.named.silentAt.IsZero() && len(s.named.unheard) > 0 {
		s.named.silentAt = s.named.unheard[0].at.Add(s.group.origin.patience())
		s.push(timer{at: s.named.silentAt, kind: silentNames, shard: s})
	}
}

// silent looks at the names asked 15 s ago. What a healthy origin has left unanswered is absent if the origin speaks SotW
// (ABS-2, ABS-5), or in error if silence is to be nothing worse (ABS-6); otherwise it is counted and settles what waited
// (RELAY-6). Silence about a body whose version was
// presented means that it is current.
func (s *shard) silent(now time.Time) {
	s.mu.Lock()
	s.now = now
	t := &s.named
	t.silentAt = time.Time{}
	n, patience := 0, s.group.origin.patience()
	for ; n < len(t.unheard) && !t.unheard[n].at.Add(patience).After(now); n++ {
		if u := t.unheard[n]; u.want.asked == u.gen && s.isAskedLocked(u.want) {
			s.unheardLocked(u.want)
			s.partTouchedLocked(map[*entry]bool{u.want.entry: true}) // who has been silent of it stands for nobody
		}
		t.unheard[n] = unheard{}
	}
	t.unheard = t.unheard[n:]
	s.silentLocked()
	s.unlock()
}

func (s *shard) unheardLocked(w *want) {
	w.mute = w.answered != w.asked || w.faulted
	if w.entry.unconfirmed {
		s.reshowLocked(w) // lists that wait for it do so no longer
	}
	switch {
	case w.chosen != nil && !w.entry.lost:
		if w.answered != w.asked && w.fault != nil { // it would have been stated again
			w.curedLocked(s.rev)
			w.fault, w.faulted = nil, false
		}
		w.answered = w.asked
		return
	case w.answered == w.asked && !w.faulted:
		return
	case w.answered == w.asked:
		// In error and nothing else: a list that waits for it goes without it now, as it would for silence, and not before.
		w.unanswered = true
		s.tellLocked(w, s.rev)
		return
	}
	s.unanswered++
	w.entry.doubted = true
	w.fault, w.faulted = nil, false // of an earlier stream, and stated by this one no more
	switch cfg := s.group.origin.config(); {
	case cfg.SotW && cfg.AbsenceTransient:
		w.answered, w.faulted, w.fault, w.unanswered = w.asked, true, unanswered(w.entry.name), true
	case cfg.SotW:
		w.answered, w.absentGen, w.unanswered = w.asked, w.asked, true
	default:
		w.unanswered = true
	}
	s.tellLocked(w, s.rev)
}
