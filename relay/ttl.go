package relay

import "github.com/weir-xds/weir/relay/xds"

// withheld is the error that a client is sent in place of a resource with a TTL, if it can be sent
// neither the TTL nor the removal (RELAY-51).
func withheld(name string) *NameError {
	const text = "it has a TTL, of which this client cannot be told, and the origin's ttl_unsupported is withhold"
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
