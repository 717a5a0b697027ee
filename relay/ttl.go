package relay

import "github.com/weir-xds/weir/relay/xds"

// withheld is what is said of a resource with a TTL to a client who can be told neither the TTL nor
// the removal (RELAY-51).
func withheld(name string) *NameError {
	const text = "it has a TTL, of which this client cannot be told, and the origin's ttl_unsupported is withhold"
	return xds.NewNameError(name, codeFailedPrecondition, text)
}

// withholds reports whether a body is kept from the client because there is no way to say
// that it has gone: it is not told TTLs, and in SotW a name of a grouped type is not removed
// (DEL-3). What is sent whole says so by leaving it out.
func (s *Sub) withholds(v *xds.Variant) bool {
	return v != nil && v.Timed() && !s.ttl && !s.delta && s.shard.group.origin.config().WithholdTTL
}

// isWithheld reports whether what the client would be sent of a name is withheld.
func (r *record) isWithheld() bool {
	v, _, _ := r.effective()
	return r.sub.withholds(v)
}

// withhold answers for such a name, once.
func (r *record) withhold() *NameError {
	r.owe(false)
	if r.lastError() != nil && r.lastError().Code == codeFailedPrecondition {
		return nil
	}
	r.setLastError(withheld(r.entry.name))
	return r.lastError()
}

// renew is what is told of a body the client was sent before, when its TTL is another. Who
// accepted it is told a heartbeat, who refused it nothing, who has not said anything the resource
// (TTL-10). That it has no TTL any more takes the resource, too (TTL-8).
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

// renewed is a difference for this client: of what it has not accepted it is sent the
// resource, or nothing (TTL-10).
func (p *position) renewed(b *Body) *Body {
	s := p.sub
	if len(b.Heartbeats) == 0 || len(s.unaccepted) == 0 {
		return b
	}
	own := &Body{Variants: append([]*xds.Variant(nil), b.Variants...), Removed: b.Removed, spelt: b.spelt, nameless: b.nameless}
	for _, v := range b.Heartbeats {
		rev := p.view.item(v.Name).rev
		switch s.unaccepted.verdict(func(x *span) bool { return x.from < rev && rev <= x.to }) {
		case accepted:
			own.Heartbeats = append(own.Heartbeats, v)
		case unjudged:
			own.Variants = append(own.Variants, v)
		}
	}
	return own
}

// renewedInSet notes that the set's body, with which the name is answered, has a new TTL.
func (r *record) renewedInSet(p *position) {
	it := p.view.item(r.sub.alias.resource(r))
	if it == nil || it.dead || it.last <= p.sent {
		return
	}
	if v, _, _ := r.effective(); v == it.variant {
		r.flags |= heartbeatDue
	}
}
