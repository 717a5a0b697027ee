package relay

import "slices"

// The origin may state again what a client was sent already. That is no change to the client, so no
// order_hold is counted from it (ORD-5). The client's stream is woken all the same, since what was
// stated may end a wait of the client for something else.

// Restated reports whether all that is pending is known to be what the client was sent already. A
// client of `*` and of names beside it hears of a change twice, as the origin states it for each,
// and is sent it once (RELAY-25). A new upstream stream states again which names do not exist.
// False says nothing: some clients are not looked at, and names that are owed are not either. A
// Take clears what is pending.
func (s *Sub) Restated() bool {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	if s.records.len() == 0 || s.ttl || s.inUnion || s.insisted || s.removalDue || !s.alias.none() {
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
	switch {
	case p == nil:
		return true
	case p.also != nil || p.fresh || p.resend || p.blocked() || p.defersRemoval() || len(p.spared)+len(p.errorsUnsent) > 0,
		slices.ContainsFunc(p.view.set.nameErrors.since(p.errorsSent), statement.stands):
		return false
	case s.answersWhole():
		return s.listRepeats()
	case p.view.contentRev == p.sent:
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

// listRepeats reports whether the whole list of a client of `*` and names is the one that it was
// sent last.
func (s *Sub) listRepeats() bool {
	v := s.sets.first.view
	content := contentOf{view: v}
	for r := range s.records.all() {
		if f := r.entry.nameError; f != nil && f != r.lastError() && !r.repeats() {
			return false // whole looks at these, too
		}
		x, _, _ := r.effective()
		if x == nil {
			continue
		}
		it := v.item(x.Name)
		if it != nil && !it.dead && it.variant.Digest == x.Digest {
			continue
		}
		if it != nil && !it.dead {
			content.remove(it.variant.Digest)
		}
		content.add(x.Digest)
	}
	return s.listVersion(content) == s.whole
}

// repeats reports whether what is known of a name, its body or that it does not exist, is what the
// client was sent last.
func (r *record) repeats() bool {
	s, e := r.sub, r.entry
	if r.is(owed|claimed|unsubscribed|heartbeatDue|unavailableDue|revived) || e.aliasDropped {
		return false
	}
	v, absent, _ := r.effective()
	if v == nil {
		f := e.nameError
		return absent && !r.is(holds) && !e.inError && !r.remembersError() && (f == nil || f == r.lastError() || f.Own && s.delta)
	}
	return v.Digest == r.sent && e.nameError == nil && !r.is(errorSent) && !s.withholds(v)
}
