package xds

import (
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/constraints"
	"google.golang.org/protobuf/encoding/protowire"
)

// Resource is one resource as an origin sent it. Its structure was checked (accept.go), and its
// payload was not interpreted. Byte slices are parts of the response that they were read from, and
// are copied before they are kept.
type Resource struct {
	Name    string // canonical (NAME-4)
	spelt   string // the origin's spelling; empty: it is Name
	Version string // the origin's own; may be empty (RELAY-91)
	Aliases []string
	// Any is the payload as received, an encoded google.protobuf.Any; nil for a heartbeat (TTL-2).
	Any []byte
	// PayloadType and Payload are the two fields of Any.
	PayloadType, Payload []byte
	Constraints          *constraints.Set
	// RawConstraints is the ResourceName message with the constraints, as received (DYN-6).
	RawConstraints []byte
	Metadata       []byte // core.Metadata as received (RELAY-10)
	TTL            time.Duration
	HasTTL         bool
	DoNotCache     bool
	// Nameless marks a SotW resource without a name, keyed by its content (RELAY-18).
	Nameless bool
}

// Variant is one body of a name with its constraints. It is immutable, so pointers to it are
// shared, and another pointer means a change. Equal bodies share their content, also those of
// several groups. The other fields are what the origin of one group stated of it.
type Variant struct {
	*content

	From *Provenance // of the response that brought it last
	own  *own        // nil for nearly all variants
}

// own are the fields of a Variant that are rarely set. They are immutable once the Variant is
// published.
type own struct {
	version  string    // the origin's version, if it differs from the content's
	end      time.Time // of the TTL (RELAY-47); zero: it has none
	orphaned bool      // see Orphaned
}

// namelessKey begins the key of a resource without a name. Accept refuses names that begin with it.
const namelessKey = "\x00"

// Field numbers of messages of envoy.service.discovery.v3. Those without a comment are of Resource.
const (
	FieldResources = 2 // DiscoveryResponse and DeltaDiscoveryResponse
	FieldRemoved   = 6 // DeltaDiscoveryResponse

	FieldVersion      = 1
	FieldPayload      = 2
	FieldName         = 3
	FieldAliases      = 4
	FieldTTL          = 6
	FieldCacheControl = 7
	FieldResourceName = 8
	FieldMetadata     = 9
)

// NewVariant makes a variant of r. It copies what it keeps, or shares the content if the process
// holds the same body already. version is the origin's version.
func NewVariant(from *Provenance, r *Resource, version string) *Variant {
	v := &Variant{content: contentOf(from, r, version), From: from}
	v.setVersion(version)
	return v
}

// Same reports whether r is this body again. Then the Variant is kept, and nothing is hashed
// (RELAY-45). The origin's version is not compared (VER-7).
func (v *Variant) Same(r *Resource) bool { return v.is(r) }

// WithOriginVersion returns v as a later response brought it again (VER-8). It shares content and
// digest. It shares the encoded bytes, too, unless they have the origin's version and that changed.
func (v *Variant) WithOriginVersion(from *Provenance, version string) *Variant {
	if !from.Shown && v.OriginVersion() == version && v.From.Server == from.Server {
		return v
	}
	c := *v
	if c.From = from; from.Shown && v.OriginVersion() != version {
		c.content = v.withVersion(version)
	}
	c.setVersion(version)
	return &c
}

// Version is the resource version that clients are sent (VER-3, VER-5).
func (v *Variant) Version() string {
	if v.From.Shown {
		return v.OriginVersion()
	}
	return v.Digest.String()
}

// ClaimedAs reports whether a client that says it holds the version of d has this body (DELTA-11).
// d is the result of Claim.
func (v *Variant) ClaimedAs(d Digest) bool {
	if v.From.Shown {
		return d != (Digest{}) && d == Claim(v.OriginVersion(), true)
	}
	return d == v.Digest
}

// Claim makes a Digest of a version that a client says it holds. It is the zero Digest if the
// version can be that of no body. shown: clients are sent the origin's versions (VER-5). These are
// hashed: they are as good as the origin's counter, and an empty one says nothing.
func Claim(version string, shown bool) (d Digest) {
	switch {
	case !shown:
		d, _ = ParseVersion(version)
	case version != "":
		sum := sha256.Sum256([]byte(version))
		copy(d[:], sum[:])
	}
	return d
}

// Spelling is the name in the origin's spelling.
func (r *Resource) Spelling() string { return Spelling(r.Name, r.spelt) }

// OriginVersion is the version that the origin gave this body.
func (v *Variant) OriginVersion() string {
	if v.own == nil {
		return v.version
	}
	return v.own.version
}

// setVersion sets the origin's version of a variant that is not published yet.
func (v *Variant) setVersion(version string) {
	if v.OriginVersion() != version {
		v.change(func(o *own) { o.version = version })
	}
}

// change changes the own fields of a variant that is not published yet.
func (v *Variant) change(f func(*own)) {
	o := own{version: v.OriginVersion()}
	if v.own != nil {
		o = *v.own
	}
	if f(&o); o == (own{version: v.version}) {
		v.own = nil
		return
	}
	v.own = &o
}

// Orphaned reports whether the variant is empty endpoints of a Cluster that is removed (package
// relay, emptied.go).
func (v *Variant) Orphaned() bool { return v.own != nil && v.own.orphaned }

// Orphan marks a variant that is not published yet as orphaned.
func (v *Variant) Orphan() { v.change(func(o *own) { o.orphaned = true }) }

// SharesBytes reports whether both have the same encoded bytes in memory. A body and its copy with
// another TTL have.
func (v *Variant) SharesBytes(x *Variant) bool { return &v.buf[0] == &x.buf[0] }

// Size is the length of the encoded body in bytes.
func (v *Variant) Size() int { return len(v.buf) }

// Delta is the encoded `resources` field of a DeltaDiscoveryResponse. The caller must not change
// it.
func (v *Variant) Delta() []byte { return v.buf }

// DeltaV2 is Delta without cache_control and metadata, fields that a Resource of v2 lacks.
func (v *Variant) DeltaV2() []byte {
	if !v.DoNotCache && len(v.meta()) == 0 {
		return v.buf
	}
	b := AppendString(nil, FieldVersion, v.Version())
	if name := v.Spelling(); name != "" {
		b = AppendString(b, FieldName, name)
	}
	b = v.appendAliases(b)
	rest := v.buf[v.sotw:]
	return append(wrap(len(b)+len(rest), b), rest...)
}

// SotW is the encoded `resources` field of a DiscoveryResponse. The caller must not change it.
func (v *Variant) SotW() []byte { return v.buf[v.sotw:] }

// Endpoints is the name of the endpoints that must follow the body if it is a Cluster (WARM-1). It
// is "" if there are none, and Wildcard if the body does not say which, so that they may be any.
func (v *Variant) Endpoints() string { return v.endpoints }

// NewNotice makes the statement that aliases did not resolve, in the form that clients are sent. It
// has no payload. version has to differ each time it is sent (package relay, hosts.go).
func NewNotice(name string, aliases []string, version string) *Variant {
	v := &Variant{content: &content{Aliases: aliases}, From: &Provenance{}}
	v.Name, v.Spelt = Spell(name)
	inner := AppendString(nil, FieldName, name)
	if version != "" {
		inner = AppendString(inner, FieldVersion, version)
	}
	inner = v.appendAliases(inner)
	v.buf = protowire.AppendBytes(protowire.AppendTag(nil, FieldResources, protowire.BytesType), inner)
	v.sotw, v.any = uint32(len(v.buf)), uint32(len(v.buf))
	return v
}

// Notice reports whether the variant has no payload, and states that its aliases did not resolve
// (ALIAS-5).
func (v *Variant) Notice() bool { return int(v.any) == len(v.buf) }

// ListsAs reports whether the name is the resource's own, or one of its aliases.
func (v *Variant) ListsAs(name string) bool {
	return v.Name == name || slices.ContainsFunc(v.Aliases, func(alias string) bool { return NameKey(alias) == name })
}

// HasEndpoints reports whether the variant, if it is endpoints, has any or may have some.
func (v *Variant) HasEndpoints() bool {
	_, payload, err := AnyParts(v.Any())
	return err != nil || HasEndpoints(payload)
}

// Received is when the response came that brought the body last. It is zero if that is not known,
// as for bodies of a snapshot or of a fallback file. For a member of a set it is right to the
// second (Share).
func (v *Variant) Received() time.Time {
	if v.From.Came == 0 {
		return time.Time{}
	}
	return time.Unix(0, v.From.Came)
}

// Located reports whether the resource was named by resource_name.
func (r Resource) Located() bool { return r.RawConstraints != nil || r.Constraints != nil }

// AnyName reports whether f holds for the name or one of the aliases.
func (r *Resource) AnyName(f func(name string) bool) bool {
	return f(r.Name) || slices.ContainsFunc(r.Aliases, func(alias string) bool { return f(NameKey(alias)) })
}

// IsNameless reports whether the key is that of a resource without a name.
func IsNameless(key string) bool { return strings.HasPrefix(key, namelessKey) }

// NamesOf is the set of the names of bodies.
func NamesOf(vs []*Variant) map[string]bool {
	names := make(map[string]bool, len(vs))
	for _, v := range vs {
		names[v.Name] = true
	}
	return names
}
