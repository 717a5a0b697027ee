package relay

import "github.com/weir-xds/weir/relay/xds"

// effective is the body that a name has for this client. If both a set and an entry hold the name,
// that is the one received last, and the name is gone only when neither holds it (RELAY-25).
func (r *record) effective() (v *xds.Variant, absent bool, rev uint64) {
	s := r.sub
	e := r.entry
	v, rev = r.body(), e.rev
	absent = r.absent()
	if r.unresolved(v) {
		return nil, false, rev
	}
	if s.sets.first == nil {
		return v, absent, rev
	}
	name := s.alias.resource(r)
	if v != nil {
		name = v.Name
	}
	own, gone, waits := v, false, false
	s.sets.covering(name, func(p *position) {
		it := p.view.item(name)
		switch {
		case p.blocked():
			waits = true
		case v == nil && it != nil && !it.dead && name != e.name && !it.variant.ListsAs(e.name):
			// The set has what the alias stood for. That says nothing of the alias.
		case v == nil && it != nil && !it.dead && name != e.name && s.shard.named.outdated(name, it):
			// A newer body came by name. It does not list the alias, or the alias's entry would
			// have it.
		case v == nil && it != nil && !it.dead && it.rev < s.alias.of[r].rev:
			// The set is older than what the client has by the alias, and so is its statement that
			// the alias stands for it.
		case it == nil:
			gone = gone || v == nil && r.is(holds) && !r.is(claimed) && !s.sets.spared(name)
		case it.dead:
			gone, rev = true, max(rev, it.rev)
			if v == own && e.chosen == nil {
				v = nil // what had retired by name is older than what the set states
			}
		case v == nil, v.Digest != it.variant.Digest && it.rev > rev, v.Digest == it.variant.Digest && it.variant.Outlasts(v):
			v, rev = it.variant, it.rev
		}
	})
	return v, (absent || gone && !waits) && v == nil, rev
}

// absent reports whether the client may be sent that the origin stated the name not to exist, or
// stated something of it that the client may not have. An
// absence that was stated before the upstream stream broke is not sent to a client that asks now
// (RELAY-38). A removal that a client was about to be sent still is, since it did happen.
func (r *record) absent() bool {
	e := r.entry
	return r.isDenied() || r.sub.shard.named.absent(e) || e.wasStatedAbsent() && r.is(holds) && !r.is(claimed)
}

// event is what a client must be sent of a name.
type event uint8

const (
	nothing event = iota
	resource
	heartbeat
	removal
)

// settle compares a record with what is known, and returns what the client must be sent of the
// name. body is set for a resource, which may be a notice (ALIAS-5), and for a heartbeat.
func (r *record) settle() (what event, body *xds.Variant, rev uint64) {
	s := r.sub
	r.recognize()
	v, absent, rev := r.effective()
	// A client that comes back may have missed a heartbeat.
	renewed := s.ttl && (r.is(heartbeatDue) || r.is(claimed) && v != nil && v.Timed())
	r.flags &^= heartbeatDue
	r.gave(v)
	switch {
	case v != nil:
		lost := v == r.entry.chosen && r.entry.aliasDropped
		if ended := r.lastError() != nil && r.entry.nameError == nil; !r.is(owed) && !ended &&
			(r.sent == v.Digest || r.is(claimed) && v.ClaimedAs(r.sent)) {
			r.setSent(v.Digest) // the claim may be in another form
			// The claim is true. The client holds what was live here, and has to be sent its
			// removal.
			r.flags &^= claimed
			if renewed {
				if what = r.renew(v); what != nothing {
					return what, v, rev
				}
			}
			return nothing, nil, 0
		}
		if lost && r.sent == v.Digest {
			r.answerSilent()
			return nothing, nil, 0 // the subscription waits for its answer (ALIAS-4)
		}
		r.standsFor(v, rev)
		r.setSent(v.Digest)
		s.newest = xds.Newer(s.newest, v.From)
		r.flags, r.at = r.flags&^claimed|holds, s.takes+1
		if !lost {
			r.owe(false)
		}
		return resource, v, rev
	case absent:
		tell := r.is(owed|holds) || s.delta && !r.entry.inError && r.remembersError()
		s.newest = xds.Newer(s.newest, s.shard.named.from)
		if tell && s.delta { // SotW has no removal, and an absence is sent once (WARM-7)
			r.setLastError(nil) // its error follows the removal, or is sent with it
		}
		switch {
		case tell && s.delta:
			what, body = r.ends()
		case tell:
			what = removal
		}
		s.alias.set(r, r.entry.name, "")
		r.setSent(xds.Digest{})
		r.flags &^= holds | claimed
		// If it has ended, only what a dropped alias stood for is gone. The alias itself still
		// waits for its answer (ALIAS-4).
		if !r.entry.isEnded() {
			r.owe(false)
		}
		return what, body, rev
	default:
		r.answerSilent()
	}
	return nothing, nil, 0
}

// setSent records the digest of what the client holds of a name.
func (r *record) setSent(d xds.Digest) {
	r.sub.noteSent(r.sent, d)
	r.sent = d
}

// eachDirty empties the dirty list and calls f for each name in it. f may add to the list. The
// array of a short list is reused, since nearly always one name has changed. If full is not nil and
// returns true, the rest is left for the next Take.
func (s *Sub) eachDirty(f func(*record), full func() bool) {
	var few [4]*record
	list := few[:0]
	if cap(s.dirty) <= len(few) {
		list = append(list, s.dirty...)
		clear(s.dirty)
		s.dirty = s.dirty[:0]
	} else {
		list, s.dirty = s.dirty, nil
	}
	for i, r := range list {
		if full != nil && full() {
			rest := make([]*record, 0, len(list)-i+len(s.dirty))
			s.dirty = append(append(rest, list[i:]...), s.dirty...)
			s.moreLeft = true
			return
		}
		r.flags &^= dirty
		if !r.is(unsubscribed) {
			f(r)
		}
	}
}

// withheld is the error that a client is sent in place of a resource with a TTL, if it can be sent
// neither the TTL nor the removal (RELAY-51).
func withheld(name string) *NameError {
	const text = "it has a TTL, the client does not support TTLs, and the origin's ttl_unsupported is withhold"
	return xds.NewNameError(name, codeFailedPrecondition, text)
}

// withholds reports whether a body is withheld from the client because its end could not be
// expressed: the client does not support TTLs, and SotW cannot remove a name of a grouped type
// (DEL-3). A type that is sent whole is removed by leaving it out.
func (s *Sub) withholds(v *xds.Variant) bool {
	return v != nil && v.Timed() && !s.ttl && !s.delta && s.shard.group.config().WithholdTTL
}

// isWithheld reports whether the body of a name is withheld from the client.
func (r *record) isWithheld() bool {
	v, _, _ := r.effective()
	return r.sub.withholds(v)
}

// withhold answers such a name with the error. It returns nil if the client was sent that before.
func (r *record) withhold() *NameError {
	r.owe(false)
	if r.lastError() != nil && r.lastError().Code == codeFailedPrecondition {
		return nil
	}
	r.setLastError(withheld(r.entry.name))
	return r.lastError()
}

// renew is what the client is sent when the TTL of a body that it was sent before has changed. If
// it accepted the body it is sent a heartbeat, if it rejected it nothing, and if it has not
// answered yet the resource (TTL-10). A TTL that has ended takes the resource, too (TTL-8).
func (r *record) renew(v *xds.Variant) event {
	s := r.sub
	switch s.unaccepted.verdict(func(x *span) bool { return x.first <= r.at && r.at <= x.last }) {
	case rejected:
		return nothing
	case accepted:
		if v.Timed() {
			return heartbeat
		}
	}
	r.at = s.takes + 1
	return resource
}

// renewed turns the heartbeats of b into what this client is to be sent: for a body that it has not
// accepted the resource, or nothing (TTL-10).
func (p *position) renewed(b *Body) *Body {
	s := p.sub
	if len(b.Heartbeats) == 0 || len(s.unaccepted) == 0 {
		return b
	}
	own := &Body{Variants: append([]*xds.Variant(nil), b.Variants...), Removed: b.Removed, spelt: b.spelt, nameless: b.nameless}
	for _, v := range b.Heartbeats {
		rev := p.view.item(v.Name).rev
		switch s.unaccepted.verdict(func(x *span) bool { return x.has(v.Name, rev) }) {
		case accepted:
			own.Heartbeats = append(own.Heartbeats, v)
		case unjudged:
			own.Variants = append(own.Variants, v)
		}
	}
	return own
}

// renewedInSet records that the TTL of the set's body, which answers the name, has changed.
func (r *record) renewedInSet(p *position) {
	it := p.view.item(r.sub.alias.resource(r))
	if it == nil || it.dead || it.last <= p.sent {
		return
	}
	if v, _, _ := r.effective(); v == it.variant {
		r.flags |= heartbeatDue
	}
}
