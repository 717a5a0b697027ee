package xds

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// leastTTL is the shortest TTL that is sent: a body with less counts as expired (TTL-13).
const leastTTL = time.Millisecond

// Expiry returns when a resource that is received now expires; zero: never. over: it has expired
// already (TTL-13).
func (r *Resource) Expiry(now time.Time) (at time.Time, over bool) {
	if !r.HasTTL {
		return time.Time{}, false
	}
	return now.Add(r.TTL), r.TTL <= 0
}

// Timed reports whether the body has a TTL.
func (v *Variant) Timed() bool { return v.own != nil && !v.own.end.IsZero() }

// Expires returns when the body expires unless the origin renews it; zero: it has no TTL.
func (v *Variant) Expires() time.Time {
	if v.own == nil {
		return time.Time{}
	}
	return v.own.end
}

// Expired reports whether the body's TTL has ended.
func (v *Variant) Expired(now time.Time) bool { return v.Timed() && !v.own.end.After(now) }

// EndAt sets the end of a body that is not published yet. The zero time: it has no TTL.
func (v *Variant) EndAt(expires time.Time) {
	if !v.Expires().Equal(expires) {
		v.change(func(o *own) { o.end = expires })
	}
}

// SamePromise is by how much the end may differ when a TTL is merely repeated: remaining times are
// rounded, and travel takes time. A SotW heartbeat for one listener repeats those of all others
// (TTL-11), and the next relay must not be sent a heartbeat for each (RELAY-49).
const SamePromise = 10 * time.Millisecond

// Lasting returns the body with another end, or none. Content and version stay (TTL-7), and the
// bytes are shared.
func (v *Variant) Lasting(expires time.Time) *Variant {
	if had, has := v.Timed(), !expires.IsZero(); had == has && (!has || v.own.end.Sub(expires).Abs() < SamePromise) {
		return v
	}
	c := *v
	c.EndAt(expires)
	return &c
}

// Outlasts reports whether v expires after x.
func (v *Variant) Outlasts(x *Variant) bool {
	return x.Timed() && (!v.Timed() || v.own.end.After(x.own.end))
}

// Remaining returns what is left of the TTL, rounded down to milliseconds (RELAY-47). ok is false
// if there is no TTL or nothing is left.
func (v *Variant) Remaining(now time.Time) (d time.Duration, ok bool) {
	d = v.Expires().Sub(now).Truncate(time.Millisecond)
	return d, d >= leastTTL
}

// A form with a TTL is a head, and the bytes that all forms share: each client is sent a different
// remaining time.

// TimedParts returns the body with a TTL, in two parts, for delta or SotW. In SotW it is wrapped
// (TTL-6), and has the resource version (VER-9).
func (v *Variant) TimedParts(delta bool, ttl time.Duration) (head, rest []byte) {
	field, rest := AppendTTL(nil, ttl), v.buf[v.inner:]
	if delta {
		return wrap(len(field)+len(rest), field), rest
	}
	return wrapAny(len(field)+len(rest), field), rest
}

// Heartbeat returns a `resources` field that renews the TTL of a body, and has no payload (TTL-2).
func (v *Variant) Heartbeat(delta bool, ttl time.Duration) []byte {
	b := AppendString(AppendString(nil, FieldVersion, v.Version()), FieldName, v.Spelling())
	b = AppendTTL(b, ttl)
	if delta {
		return wrap(len(b), b)
	}
	return wrapAny(len(b), b)
}

func AppendTTL(b []byte, ttl time.Duration) []byte {
	var d []byte
	if s := ttl / time.Second; s != 0 {
		d = protowire.AppendVarint(protowire.AppendTag(d, 1, protowire.VarintType), uint64(s))
	}
	if ns := ttl % time.Second; ns != 0 {
		d = protowire.AppendVarint(protowire.AppendTag(d, 2, protowire.VarintType), uint64(ns))
	}
	return protowire.AppendBytes(protowire.AppendTag(b, FieldTTL, protowire.BytesType), d)
}

// wrap begins a `resources` field of size bytes with fields.
func wrap(size int, fields []byte) []byte {
	b := protowire.AppendVarint(protowire.AppendTag(nil, FieldResources, protowire.BytesType), uint64(size))
	return append(b, fields...)
}

// wrapAny is wrap for SotW, where the Resource is in an Any.
func wrapAny(size int, fields []byte) []byte {
	head := AppendString(nil, 1, ResourceType)
	head = protowire.AppendVarint(protowire.AppendTag(head, 2, protowire.BytesType), uint64(size))
	return append(wrap(len(head)+size, head), fields...)
}
