package xds

import (
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/constraints"
	"google.golang.org/protobuf/encoding/protowire"
)

// Resource is one resource as an origin sent it: structurally checked (accept.go), not interpreted.
// Byte slices alias the response they were read from and are copied before they are kept.
type Resource struct {
	Name    string // canonical (NAME-4)
	spelt   string // as the origin writes it, if that is another
	Version string // the origin's own; may be empty (RELAY-91)
	Aliases []string
	// Any is the payload as received, an encoded google.protobuf.Any; nil for a heartbeat (TTL-2).
	Any []byte
	// PayloadType and payload are Any's two parts.
	PayloadType, Payload []byte
	Constraints          *constraints.Set
	// ResourceName message with the constraints as the origin wrote them (DYN-6)
	RawConstraints []byte
	Metadata       []byte // core.Metadata as received (RELAY-10)
	TTL            time.Duration
	HasTTL         bool
	DoNotCache     bool
	// Nameless marks a SotW resource without a name, keyed by its content (RELAY-18).
	Nameless bool
}

// Variant is one immutable body of a name with its constraints. It never changes after it was made,
// so pointers are shared freely and comparing pointers detects change. What many groups may hold is
// in its content, which equal bodies share; here is what its group's origin said of it.
type Variant struct {
	*content

	From *Provenance // the response it came in last
	own  *own        // nil: it has nothing of that, as nearly all
}

// own is what a Variant has of its own, besides its content. It is immutable once it is published.
type own struct {
	version  string    // what its origin calls it, if not as the content says
	end      time.Time // of its TTL (RELAY-47); zero: it has none
	orphaned bool
}

// namelessKey begins the key of a resource without a name. No origin can send such a name: it is
// refused in acceptance.
const namelessKey = "\x00"

// Field numbers of the messages that are read and written here. Those without a remark are of
// envoy.service.discovery.v3.Resource.
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

// NewVariant copies what it keeps of r, unless the process holds the same body already: then it
// shares that one. version is what the origin calls it.
func NewVariant(from *Provenance, r *Resource, version string) *Variant {
	v := &Variant{content: contentOf(from, r, version), From: from}
	v.setVersion(version)
	return v
}

// Same reports whether r is this body again: then the old value is kept and nothing is hashed
// (RELAY-45). The origin's version takes no part in it (VER-7).
func (v *Variant) Same(r *Resource) bool { return v.is(r) }

// WithOriginVersion is v as a later response brought it again (VER-8): content and digest are
// shared, and the bytes too unless they carry a version that changed.
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

// Version is the resource version clients are told (VER-3, VER-5).
func (v *Variant) Version() string {
	if v.From.Shown {
		return v.OriginVersion()
	}
	return v.Digest.String()
}

// ClaimedAs reports whether d, which Claim made of a version that a client says it holds, stands
// for this body (DELTA-11).
func (v *Variant) ClaimedAs(d Digest) bool {
	if v.From.Shown {
		return d != (Digest{}) && d == Claim(v.OriginVersion(), true)
	}
	return d == v.Digest
}

// Claim is a version a client says it holds: the zero Digest if it can stand for no body. An
// origin's version (VER-5) is only as good as its counter, and an empty one says nothing.
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

// Spelling is the name as the origin writes it.
func (r *Resource) Spelling() string { return Spelling(r.Name, r.spelt) }

// OriginVersion is the version the origin gave this body.
func (v *Variant) OriginVersion() string {
	if v.own == nil {
		return v.version
	}
	return v.own.version
}

// setVersion sets the version of a body that is not published yet.
func (v *Variant) setVersion(version string) {
	if v.OriginVersion() != version {
		v.change(func(o *own) { o.version = version })
	}
}

// change changes what a body that is not published yet has of its own.
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

// Orphaned reports whether these are endpoints that were emptied with their Cluster, which goes
// (emptied.go).
func (v *Variant) Orphaned() bool { return v.own != nil && v.own.orphaned }

// Orphan marks a body that nobody else can see yet as orphaned.
func (v *Variant) Orphan() { v.change(func(o *own) { o.orphaned = true }) }

// SharesBytes reports whether both are encoded in the same memory, as a body and its copy with
// another TTL are.
func (v *Variant) SharesBytes(x *Variant) bool { return &v.buf[0] == &x.buf[0] }

// GivenBy is the body as if it had come in another response, without an origin's version. It shares
// the bytes.
func (v *Variant) GivenBy(from *Provenance) *Variant {
	c := *v
	c.From = from
	c.change(func(o *own) { o.version, o.orphaned = "", false })
	return &c
}

// Size is the memory the encoded body takes, in bytes.
func (v *Variant) Size() int { return len(v.buf) }

// Delta is the encoded `resources` field of a DeltaDiscoveryResponse. The caller must not change
// it.
func (v *Variant) Delta() []byte { return v.buf }

// DeltaV2 is Delta without what a Resource lacks in v2: cache_control and metadata.
func (v *Variant) DeltaV2() []byte {
	if !v.DoNotCache && len(v.meta()) == 0 {
		return v.buf
	}
	b := AppendString(nil, FieldVersion, v.Version())
	if name := v.Spelling(); name != "" {
		b = AppendString(b, FieldName, name)
	}
	for _, a := range v.Aliases {
		b = AppendString(b, FieldAliases, a)
	}
	rest := v.buf[v.sotw:]
	return append(wrap(len(b)+len(rest), b), rest...)
}

// SotW is the encoded `resources` field of a DiscoveryResponse. The caller must not change it.
func (v *Variant) SotW() []byte { return v.buf[v.sotw:] }

// Endpoints is the name of the endpoints that must follow this body if it is a Cluster (WARM-1): ""
// if there are none, Wildcard if the body does not tell, and then it may be any.
func (v *Variant) Endpoints() string { return v.endpoints }

// NewNotice makes the statement that aliases did not resolve, as it is sent to clients. It has no
// content. Its version only has to differ each time it is sent (hosts.go).
func NewNotice(name string, aliases []string, version string) *Variant {
	v := &Variant{content: &content{Aliases: aliases}, From: &Provenance{}}
	v.Name, v.Spelt = Spell(name)
	inner := AppendString(nil, FieldName, name)
	if version != "" {
		inner = AppendString(inner, FieldVersion, version)
	}
	for _, alias := range aliases {
		inner = AppendString(inner, FieldAliases, alias)
	}
	v.buf = protowire.AppendBytes(protowire.AppendTag(nil, FieldResources, protowire.BytesType), inner)
	v.sotw, v.any = uint32(len(v.buf)), uint32(len(v.buf))
	return v
}

// Notice reports whether the variant has no body, and is the origin's statement that the aliases in
// it did not resolve (ALIAS-5).
func (v *Variant) Notice() bool { return int(v.any) == len(v.buf) }

// ListsAs reports whether the name is the resource's own, or one of its aliases.
func (v *Variant) ListsAs(name string) bool {
	return v.Name == name || slices.ContainsFunc(v.Aliases, func(alias string) bool { return NameKey(alias) == name })
}

func (v *Variant) HasEndpoints() bool {
	_, payload, err := AnyParts(v.Any())
	return err != nil || HasEndpoints(payload)
}

// Received is when the response came that brought the body last; zero: not known, as of what a
// snapshot or a file of last resort has. Of a member of a set it is right to the second (Share).
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

func IsNameless(key string) bool { return strings.HasPrefix(key, namelessKey) }
