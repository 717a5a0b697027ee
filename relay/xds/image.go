package xds

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// BodyImage is a Variant as it is written down.
type BodyImage struct {
	// Resource is an encoded envoy.service.discovery.v3.Resource: the name as the origin spells it,
	// constraints, aliases, the origin's version, metadata and payload.
	Resource []byte
	// Server is the number of the origin's server that gave it, since its version is not presented
	// to another (FED-7). Numbers are of one process: Origin.Servers tells what they stand for, and
	// Origin.Server the number now. NoServer stands for one that is not known.
	Server uint8
	// Expires is the moment its TTL ends on the wall clock, and Left how long that was when the
	// image was made, so that a clock that was set back makes no promise longer. The zero time: it
	// has none.
	Expires time.Time
	Left    time.Duration
}

// Image is the body as it is written down. now is the table's time and wall that of the wall clock.
func (v *Variant) Image(now, wall time.Time) BodyImage {
	b := BodyImage{Server: v.From.Server, Resource: v.resource()}
	if v.Timed() {
		b.Left = v.end.Sub(now)
		// without its monotonic part, which means nothing after a restart
		b.Expires = wall.Add(b.Left).Round(0)
	}
	return b
}

// resource is the encoded Resource with the origin's own version.
func (v *Variant) resource() []byte {
	name := v.Spelling()
	b := make([]byte, 0, len(v.buf)+len(v.originVersion)+8)
	if v.originVersion != "" {
		b = AppendString(b, FieldVersion, v.originVersion)
	}
	switch {
	case v.Nameless:
	case v.Constraints != nil:
		b = AppendResourceName(b, FieldResourceName, name, v.Written())
	case name != "":
		b = AppendString(b, FieldName, name)
	}
	for _, a := range v.Aliases {
		b = AppendString(b, FieldAliases, a)
	}
	if len(v.meta()) > 0 {
		b = protowire.AppendTag(b, FieldMetadata, protowire.BytesType)
		b = protowire.AppendBytes(b, v.meta())
	}
	b = protowire.AppendTag(b, FieldPayload, protowire.BytesType)
	return protowire.AppendBytes(b, v.Any())
}

// Body makes the body again that was written down. It is judged as if the origin sent it: a damaged
// file may have anything in it. delta: the origin speaks delta, so a body without a name is none.
// now and wall are as in Image. The error names the resource.
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
