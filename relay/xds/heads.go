package xds

import (
	"fmt"
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

// Located returns the body in located form: a head, and the bytes that it shares with the other
// forms. All clients of the variant share the head, too. delta or SotW; beat: a heartbeat, which is
// only a head; ttl 0: without a TTL.
func (v *Variant) Located(delta bool, ttl time.Duration, heartbeat bool) [][]byte {
	if v.rare == nil || ttl > 0 || heartbeat {
		head, rest := v.locatedParts(delta, ttl, heartbeat)
		if heartbeat {
			return [][]byte{head}
		}
		return [][]byte{head, rest}
	}
	kept := &v.rare.located[0]
	if delta {
		kept = &v.rare.located[1]
	}
	parts := kept.Load()
	if parts == nil {
		parts = &[2][]byte{}
		parts[0], parts[1] = v.locatedParts(delta, 0, false)
		kept.Store(parts) // of two that are made at the same time either may stay
	}
	return parts[:]
}

func (v *Variant) locatedParts(delta bool, ttl time.Duration, beat bool) (head, rest []byte) {
	name := v.Spelling()
	if v.Nameless {
		name = ""
	}
	var b []byte
	if !v.Notice() {
		b = AppendString(b, FieldVersion, v.Version())
	}
	b = AppendResourceName(b, FieldResourceName, name, v.Written())
	if !beat {
		b = v.appendMeta(v.appendCacheControl(v.appendAliases(b)))
		rest = v.buf[v.sotw:] // both are field number 2
	}
	if ttl > 0 {
		b = AppendTTL(b, ttl)
	}
	if delta {
		return wrap(len(b)+len(rest), b), rest
	}
	return wrapAny(len(b)+len(rest), b), rest
}

// Written returns the constraints as the origin wrote them: the encoded fields of a ResourceName
// without the name.
func (v *Variant) Written() string {
	if v.rare == nil {
		return ""
	}
	return v.rare.constraints
}

const constraintsField = 2 // of ResourceName

// constraintFields returns the fields of an encoded ResourceName other than the name.
func constraintFields(resourceName []byte) string {
	var b []byte
	for f := Walk(resourceName); f.Next(); { // it decoded before
		if f.IsBytes(constraintsField) {
			b = protowire.AppendBytes(protowire.AppendTag(b, constraintsField, protowire.BytesType), f.Bytes)
		}
	}
	return string(b)
}

// BodyImage is a Variant in the form of a snapshot.
type BodyImage struct {
	// Resource is an encoded envoy.service.discovery.v3.Resource: the name in the origin's
	// spelling, constraints, aliases, the origin's version, metadata and payload.
	Resource []byte
	// Server is the number of the origin's server that sent it, since its version is not presented
	// to other servers (FED-7). Numbers are those of one process: Origin.Servers tells what they
	// stand for, and Origin.Server the current number. NoServer: unknown.
	Server uint8
	// Expires is the wall-clock time at which the TTL ends; zero: no TTL. Left is how long that was
	// when the image was made, so that a clock that was set back does not prolong the TTL.
	Expires time.Time
	Left    time.Duration
}

// Image returns the image of the body. now is the table's time, and wall the wall clock's.
func (v *Variant) Image(now, wall time.Time) BodyImage {
	b := BodyImage{Server: v.From.Server, Resource: v.resource()}
	if v.Timed() {
		b.Left = v.Expires().Sub(now)
		// without the monotonic reading, which means nothing after a restart
		b.Expires = wall.Add(b.Left).Round(0)
	}
	return b
}

// resource returns the encoded Resource, with the origin's own version.
func (v *Variant) resource() []byte {
	name := v.Spelling()
	version := v.OriginVersion()
	b := make([]byte, 0, len(v.buf)+len(version)+8)
	if version != "" {
		b = AppendString(b, FieldVersion, version)
	}
	switch {
	case v.Nameless:
	case v.Constraints != nil:
		b = AppendResourceName(b, FieldResourceName, name, v.Written())
	case name != "":
		b = AppendString(b, FieldName, name)
	}
	b = v.appendMeta(v.appendAliases(b))
	b = protowire.AppendTag(b, FieldPayload, protowire.BytesType)
	return protowire.AppendBytes(b, v.Any())
}

// Body makes the body of an image. It checks it like one from an origin, since the file may be
// damaged. delta: the origin speaks delta, where a body has to have a name. now and wall are as in
// Image. The error names the resource.
func (b BodyImage) Body(from *Provenance, delta bool, now, wall time.Time) (*Variant, error) {
	a := acceptance{Update: Update{TypeURL: from.TypeURL}, delta: delta}
	var r Resource
	if err := ParseResource(b.Resource, &r); err != nil {
		return nil, fmt.Errorf("resource %s of %s: does not decode: %w", Quote(r.Name), Quote(from.TypeURL), err)
	}
	why := a.check(&r)
	switch {
	case why != "":
	case r.Any == nil:
		why = "has no payload"
	case r.HasTTL, r.DoNotCache:
		why = "is nothing that was written down"
	}
	if why != "" {
		return nil, fmt.Errorf("resource %s of %s: %s", Quote(r.Name), Quote(from.TypeURL), why)
	}
	v := NewVariant(from, &r, r.Version)
	if !b.Expires.IsZero() {
		v.EndAt(now.Add(min(b.Left, b.Expires.Sub(wall.Round(0)))))
	}
	return v, nil
}
