package relay

import "time"

// If a set has been waited for in vain for cold_wait, no other type of any client waits for it any
// longer, until its origin answers it (ORD-8), since an origin may never answer a type. So the time
// at which the wait began is a field of the set, and not of each stream.

// await records that a client waits for the set.
func (t *set) await(now time.Time) {
	if t.awaited.IsZero() {
		t.awaited = now
	}
}

// settlesUntil is Union.SettlesUntil for one Sub. It locks the shard.
func (s *Sub) settlesUntil(now time.Time) (until time.Time) {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	for p := s.sets.first; p != nil; p = p.also {
		if t := p.view.set; p.settles() {
			t.await(now)
			if x := t.awaited.Add(t.shard.cfg().ColdWait); x.After(until) {
				until = x
			}
		}
	}
	return until
}

// settles reports whether a position waits for its set, and an answer may still come.
func (p *position) settles() bool {
	t := p.view.set
	return p.blocked() && (!p.heldBack() || t.lane().live(t.askedGen))
}

// SettlesUntil is the time until which other types may wait for the sets that the client waits for;
// zero: it waits for none. If the time has passed, the wait was in vain.
func (u *Union) SettlesUntil(now time.Time) (until time.Time) {
	for i := range u.Len() {
		if x := u.Part(i).settlesUntil(now); x.After(until) {
			until = x
		}
	}
	return until
}

// Unreached makes the next answer state, for every name or collection that still waits for its
// first answer, that the origin cannot be reached (RELAY-8). The names stay subscribed, and are
// answered when it can. Names that were sent an error already are left out. The result reports
// whether there are any names to state it of. A SotW answer that is sent whole cannot carry the
// statement, so do not call Unreached for such a Sub.
func (s *Sub) Unreached() bool {
	s.shard.mu.Lock()
	defer s.shard.unlock()
	told := false
	for p := s.sets.first; p != nil; p = p.also {
		if p.fresh && p.collectionError == nil && p.view.set.kind != wild && !p.heldBack() { // `*` carries no error (ABS-12)
			told, p.unavailableDue = true, true
			s.mark(s.shard.rev)
		}
	}
	if s.owed == 0 {
		return told
	}
	for r := range s.records.all() {
		if r.is(owed) && r.lastError() == nil && !r.heldBack() {
			told = true
			r.flags |= unavailableDue
			r.markDirty(s.shard.rev)
		}
	}
	return told
}
