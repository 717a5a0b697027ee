package relay

import "slices"

// Restated reports whether all that is pending is known to be what the client was sent already. A
// client of `*` and of names beside it hears of a change twice, as the origin states it for each,
// and is sent it once (RELAY-25). False says nothing: lists that are sent whole, and names that are
// owed, or were told an error, are not looked at. A Take clears what is pending.
func (s *Sub) Restated() bool {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	if s.sets.first == nil || s.records.len() == 0 || s.sets.first.also != nil || !s.delta || s.ttl || s.inUnion || !s.alias.none() {
		return false
	}
	if s.owed+len(s.sets.again)+len(s.claims.versions)+len(s.deferred) > 0 {
		return false
	}
	for _, r := range s.dirty {
		if !r.repeats() {
			return false
		}
	}
	p := s.sets.first
	if p.fresh || p.resend || p.blocked() || p.defersRemoval() || len(p.spared)+len(p.errorsUnsent) > 0 ||
		slices.ContainsFunc(p.view.set.nameErrors.since(p.errorsSent), statement.stands) {
		return false
	}
	if p.view.contentRev == p.sent {
		return true
	}
	b := p.view.since(p.sent)
	if len(b.Removed)+len(b.Heartbeats) > 0 || b.nameless {
		return false
	}
	for _, v := range b.Variants {
		if r := s.record(v.Name); r == nil || !r.repeats() {
			return false
		}
	}
	return true
}

// repeats reports whether the body of a name is the one that the client was sent.
func (r *record) repeats() bool {
	if r.is(owed|claimed|unsubscribed|errorSent|heartbeatDue|unavailableDue|revived) || r.entry.nameError != nil || r.entry.aliasDropped {
		return false
	}
	v, _, _ := r.effective()
	return v != nil && v.Digest == r.sent
}
