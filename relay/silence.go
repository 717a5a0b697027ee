package relay

import "time"

// Names that the origin leaves unanswered, or answers with an error.

// fail takes up what the origin says of a name instead of a resource: the body that is there
// goes or stays (ABS-8), and either counts as an answer.
func (n *namedTable) fail(e *entry, nameError *NameError, rev uint64, gen uint32) {
	if n.shard.group.origin.ends(nameError) {
		n.markConfirmed(e) // any other error says nothing of the body
		known := e.answeredOn(gen) && e.nameError.Same(nameError)
		e.onWords(nameError)
		// also to those who know that it does not exist; the same is news to who came since it was
		// asked anew (RELAY-99)
		if !known {
			n.notify(e, rev)
		}
		n.empty(e)
		e.notice = nil
		n.offer(e, rev, gen, true)
		return
	}
	known := e.answeredOn(gen) && e.nameError.Same(nameError)
	if !e.nameError.Same(nameError) {
		e.rev = rev
	}
	e.onError(nameError, gen)
	if !known { // on a new stream the same is news to who came since the last (RELAY-38)
		n.notify(e, rev)
	}
}

// startSilence starts the clock for the names just asked.
func (s *shard) startSilence() {
	if s.named.silentAt.IsZero() && len(s.named.unheard) > 0 {
		s.named.silentAt = s.named.unheard[0].at.Add(s.group.origin.patience())
		s.push(timer{at: s.named.silentAt, kind: silentNames, shard: s})
	}
}

// silent looks at the names asked 15 s ago. What a healthy origin has left unanswered is absent if
// the origin speaks SotW (ABS-2, ABS-5), or in error if silence is to be nothing worse (ABS-6);
// otherwise it is counted and settles what waited (RELAY-6). Silence about a body whose version was
// presented means that it is current. It locks the shard.
func (s *shard) silent(now time.Time) {
	s.mu.Lock()
	s.now = now
	t := &s.named
	t.silentAt = time.Time{}
	i, patience := 0, s.group.origin.patience()
	for ; i < len(t.unheard) && !t.unheard[i].at.Add(patience).After(now); i++ {
		if u := t.unheard[i]; u.isLast() && s.named.isAsked(u.entry) {
			s.unheard(u.entry)
			s.unshareTouched(u.entry) // who has been silent of it stands for nobody
		}
		t.unheard[i] = unheard{}
	}
	t.unheard = t.unheard[i:]
	s.startSilence()
	s.unlock()
}

// isLast reports whether the question is the last of its name, and no other is about to be asked:
// that one has 15 s of its own (testdata/uncached_asked_anew.txt).
func (u *unheard) isLast() bool {
	return u.entry.asksOn(u.gen) && u.entry.asks == u.asks && !u.entry.refresh
}

// unheard takes up that nothing was said of a name for patience.
func (s *shard) unheard(e *entry) {
	waited, nameError := !e.isAnswered(), e.nameError
	news := e.onSilence(s.quiet())
	if e.unconfirmed {
		s.named.markRecords(e) // lists that wait for it do so no longer
	}
	switch {
	case news:
		if waited {
			s.unanswered++
		}
		s.named.notify(e, s.rev)
	case e.chosen != nil && !e.aliasDropped:
		if nameError != e.nameError {
			e.cured(s.rev)
		}
		s.named.lapsedSilent(e)
	}
}

// quiet is what the silence of the origin means.
func (s *shard) quiet() quiet {
	switch cfg := s.group.origin.config(); {
	case cfg.SotW && cfg.AbsenceTransient:
		return meansError
	case cfg.SotW:
		return meansAbsent
	default:
		return meansNothing
	}
}
