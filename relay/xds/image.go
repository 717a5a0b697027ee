package xds

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

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
