package relay

import "time"

// A set that has been waited for in vain for cold_wait holds back no other type any more, for any
// client, until its origin answers it (ORD-8): an origin may never answer a type. So it is the set
// that knows since when it is waited for, and not each stream.

// await notes that somebody waits for the set.
func (t *set) await(now time.Time) {
	if t.awaited.IsZero() {
		t.awaited = now
	}
}

// settlesUntil is Union.SettlesUntil of one part. It locks the shard.
func (s *Sub) settlesUntil(now time.Time) (until time.Time) {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	for p := s.pos; p != nil; p = p.also {
		if t := p.view.set; p.settles() {
			t.await(now)
			if x := t.awaited.Add(t.shard.cfg().ColdWait); x.After(until) {
				until = x
			}
		}
	}
	return until
}

// settles reports whether a position waits for its set, and something is to come.
func (p *position) settles() bool {
	t := p.view.set
	return p.blocked() && (!p.heldBack() || t.lane().live(t.askedGen))
}

// SettlesUntil is until when other types may wait for the sets that the client waits for; zero: it
// waits for none. A time that has passed says that the wait was in vain.
func (u *Union) SettlesUntil(now time.Time) (until time.Time) {
	for i := range u.Len() {
		if x := u.Part(i).settlesUntil(now); x.After(until) {
			until = x
		}
	}
	return until
}

// Unreached has the next answer say of every name, or collection, that still waits for its first
// one that the origin cannot be reached (RELAY-8). The names stay wanted, and are answered when it
// can. None that is in error already is told so again. It reports whether there is any. A SotW
// answer that is sent whole cannot carry it: do not call it for those.
func (s *Sub) Unreached() bool {
	s.shard.mu.Lock()
	defer s.shard.unlock()
	told := false
	for p := s.pos; p != nil; p = p.also {
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
			s.markDirty(r, s.shard.rev)
		}
	}
	return told
}
