package relay

import (
	"time"

	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/encoding/protowire"
)

// leastTTL is the shortest time that is told: what has less is as good as expired (TTL-13).
const leastTTL = time.Millisecond

// expiry is when a resource that is received now expires; zero: never. over: it has expired already
// (TTL-13).
func (r *Resource) expiry(now time.Time) (at time.Time, over bool) {
	if !r.HasTTL {
		return time.Time{}, false
	}
	return now.Add(r.TTL), r.TTL <= 0
}

// timed reports whether the body has a TTL.
func (v *Variant) timed() bool { return v.end != nil }

// Expires is when the body ends unless the origin renews it; the zero time: it has no TTL.
func (v *Variant) Expires() time.Time {
	if v.end == nil {
		return time.Time{}
	}
	return *v.end
}

// endAt is for a body that nobody has seen yet. The zero time: it has no TTL.
func (v *Variant) endAt(expires time.Time) {
	if v.end = nil; !expires.IsZero() {
		end := expires // the parameter itself would be allocated for every body
		v.end = &end
	}
}

// samePromise is how much the end may move when a promise is only repeated: what is left is
// rounded, and takes its time on the way. In SotW a heartbeat for one listener repeats those for
// all others (TTL-11), and to the next relay that must not be one for each (RELAY-49).
const samePromise = 10 * time.Millisecond

// lasting is the body with another end, or none: the content, and so the version, stay (TTL-7), and
// the bytes are shared.
func (v *Variant) lasting(expires time.Time) *Variant {
	if had, has := v.timed(), !expires.IsZero(); had == has && (!has || v.end.Sub(expires).Abs() < samePromise) {
		return v
	}
	c := *v
	c.endAt(expires)
	return &c
}

// outlasts reports whether the promise for v ends after that for x.
func (v *Variant) outlasts(x *Variant) bool {
	return x.timed() && (!v.timed() || v.end.After(*x.end))
}

// remaining is what is left of the TTL, rounded down to milliseconds (RELAY-47); ok is false if
// that is nothing.
func (v *Variant) remaining(now time.Time) (d time.Duration, ok bool) {
	d = v.Expires().Sub(now).Truncate(time.Millisecond)
	return d, d >= leastTTL
}

// Rare forms (a remaining TTL is another one each time) are a head of their own and the shared
// bytes after it.

// timedParts is Delta or SotW with a TTL, in two parts. In SotW it is wrapped (TTL-6), and has the
// resource version (VER-9).
func (v *Variant) timedParts(delta bool, ttl time.Duration) (head, rest []byte) {
	field, rest := appendTTL(nil, ttl), v.buf[v.inner:]
	if delta {
		return wrap(len(field)+len(rest), field), rest
	}
	return wrapAny(len(field)+len(rest), field), rest
}

// heartbeat is the `resources` field that says how long a body lasts, and nothing else (TTL-2).
func (v *Variant) heartbeat(delta bool, ttl time.Duration) []byte {
	b := xds.AppendString(xds.AppendString(nil, resourceVersion, v.Version()), resourceName, v.Spelling())
	b = appendTTL(b, ttl)
	if delta {
		return wrap(len(b), b)
	}
	return wrapAny(len(b), b)
}

func appendTTL(b []byte, ttl time.Duration) []byte {
	var d []byte
	if s := ttl / time.Second; s != 0 {
		d = protowire.AppendVarint(protowire.AppendTag(d, 1, protowire.VarintType), uint64(s))
	}
	if ns := ttl % time.Second; ns != 0 {
		d = protowire.AppendVarint(protowire.AppendTag(d, 2, protowire.VarintType), uint64(ns))
	}
	return protowire.AppendBytes(protowire.AppendTag(b, resourceTTL, protowire.BytesType), d)
}

// wrap is a `resources` field of size bytes that begins with fields.
func wrap(size int, fields []byte) []byte {
	b := protowire.AppendVarint(protowire.AppendTag(nil, fieldResources, protowire.BytesType), uint64(size))
	return append(b, fields...)
}

// wrapAny is the same in SotW, where the resource is in an Any.
func wrapAny(size int, fields []byte) []byte {
	head := xds.AppendString(nil, 1, xds.ResourceType)
	head = protowire.AppendVarint(protowire.AppendTag(head, 2, protowire.BytesType), uint64(size))
	return append(wrap(len(head)+size, head), fields...)
}

// withheld is what is said of a resource with a TTL to a client who can be told neither the TTL nor
// the removal (RELAY-51).
func withheld(name string) *NameError {
	const text = "it has a TTL, of which this client cannot be told, and the origin's ttl_unsupported is withhold"
	return xds.NewNameError(name, codeFailedPrecondition, text)
}

// withholds reports whether a body is kept from the client because there is no way to say
// that it has gone: it is not told TTLs, and in SotW a name of a grouped type is not removed
// (DEL-3). What is sent whole says so by leaving it out.
func (s *Sub) withholds(v *Variant) bool {
	return v != nil && v.timed() && !s.ttl && !s.delta && s.shard.group.origin.config().WithholdTTL
}

// withhold answers for such a name, once.
func (s *Sub) withhold(r *record) *NameError {
	s.owe(r, false)
	if r.lastError() != nil && r.lastError().Code == codeFailedPrecondition {
		return nil
	}
	r.setLastError(withheld(r.entry.name))
	return r.lastError()
}

// renew is what is told of a body the client was sent before, when its TTL is another. Who
// accepted it is told a heartbeat, who refused it nothing, who has not said anything the resource
// (TTL-10). That it has no TTL any more takes the resource, too (TTL-8).
func (s *Sub) renew(r *record, v *Variant) event {
	switch s.judged(func(x *span) bool { return x.first <= r.at && r.at <= x.last }) {
	case rejected:
		return nothing
	case accepted:
		if v.timed() {
			return heartbeat
		}
	}
	r.at = s.takes + 1
	return resource
}

// renewed is a difference for this client: of what it has not accepted it is sent the
// resource, or nothing (TTL-10).
func (s *Sub) renewed(p *position, b *Body) *Body {
	if len(b.Heartbeats) == 0 || len(s.unaccepted) == 0 {
		return b
	}
	own := &Body{Variants: append([]*Variant(nil), b.Variants...), Removed: b.Removed, spelt: b.spelt, nameless: b.nameless}
	for _, v := range b.Heartbeats {
		rev := p.view.items[v.Name].rev
		switch s.judged(func(x *span) bool { return x.from < rev && rev <= x.to }) {
		case accepted:
			own.Heartbeats = append(own.Heartbeats, v)
		case unjudged:
			own.Variants = append(own.Variants, v)
		}
	}
	return own
}

// renewedInSet notes that the set's body, with which a name is answered, has a new TTL.
func (s *Sub) renewedInSet(p *position, r *record, first bool) {
	if !s.ttl || first {
		return
	}
	it := p.view.items[s.alias.resource(r)]
	if it == nil || it.dead || it.last <= p.sent {
		return
	}
	if v, _, _ := s.effective(r); v == it.variant {
		r.flags |= heartbeatDue
	}
}
