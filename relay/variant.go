package relay

import (
	"bytes"
	"crypto/sha256"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
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
	// payloadType and payload are Any's two parts.
	payloadType, payload []byte
	Constraints          *constraints.Set
	// ResourceName message with the constraints as the origin wrote them (DYN-6)
	rawConstraints []byte
	metadata       []byte // core.Metadata as received (RELAY-10)
	TTL            time.Duration
	HasTTL         bool
	DoNotCache     bool
	// Nameless marks a SotW resource without a name, keyed by its content (RELAY-18).
	Nameless bool
}

// Variant is one immutable body of a name with its constraints. It never changes after it was made,
// so pointers are shared freely and comparing pointers detects change.
type Variant struct {
	Name        string     // canonical (NAME-4); see Spelling
	Digest      xds.Digest // of the content (VER-3)
	Constraints *constraints.Set
	DoNotCache  bool
	Nameless    bool // RELAY-18: only SotW wildcard clients can be told of it
	// orphaned: endpoints that were emptied with their Cluster, which goes (emptied.go). Set before
	// anybody can see it.
	orphaned bool

	// Offsets in buf, which is part of a message and so shorter than 4 GiB.
	inner uint32 // where the fields of the Resource begin
	sotw  uint32
	any   uint32 // where the encoded Any begins

	spelt         string // see Spelling; "" if that is Name
	originVersion string
	from          *provenance // the response it came in last
	aliases       []string
	rare          *rare      // nil: it has nothing of that, as nearly all
	endpoints     string     // see Endpoints
	end           *time.Time // provenance and TTL (RELAY-47); nil: it has none, as nearly all

	// buf is the `resources` field of a DeltaDiscoveryResponse, tag and length included, the
	// payload last. Its suffix from sotw on is the `resources` field of a DiscoveryResponse: both
	// are field 2, and so is Resource.resource.
	buf []byte
}

// rare is what few bodies have.
type rare struct {
	metadata []byte // core.Metadata as received (RELAY-10)
	// as the origin wrote them: the fields of a ResourceName but its name (DYN-6, DYN-7)
	constraints string
	// located are the located forms in SotW and in delta, without a TTL; nil: nobody was told of it
	// so.
	located [2]atomic.Pointer[[2][]byte]
}

// meta is the encoded core.Metadata; nil: there is none.
func (v *Variant) meta() []byte {
	if v.rare == nil {
		return nil
	}
	return v.rare.metadata
}

// provenance is what the bodies of one response have in common. It does not change once the first
// of them can be seen.
type provenance struct {
	typeURL string
	server  uint8 // of the origin, that gave the bodies and their versions
	// shown: clients are told the origin's versions (VER-5). canonical: equal content may be other
	// bytes (VER-6).
	shown, canonical bool
	// it is no response: the bodies are those of the last resort (fallback.go)
	fallback bool
	source   string // and that is where it has them from

	version string // version_info, or in delta system_version_info
	rev     uint64 // of the response
	came    int64  // when, in nanoseconds of Unix time; 0: not known
}

// newer is the provenance of the later response; either may be nil.
func newer(a, b *provenance) *provenance {
	if a == nil || b != nil && b.rev > a.rev {
		return b
	}
	return a
}

// namelessKey begins the key of a resource without a name. No origin can send such a name: it is
// refused in acceptance.
const namelessKey = "\x00"

// Field numbers of the wire messages this package reads and writes.
const (
	fieldResources = 2 // DiscoveryResponse and DeltaDiscoveryResponse
	fieldRemoved   = 6 // DeltaDiscoveryResponse

	resourceVersion     = 1
	resourcePayload     = 2
	resourceName        = 3
	resourceAliases     = 4
	resourceTTL         = 6
	resourceCacheCtl    = 7
	resourceNameWrapped = 8
	resourceMetadata    = 9
)

// digest is that of a resource's content.
func (from *provenance) digest(r *Resource) xds.Digest {
	content := r.payload
	if from.canonical {
		content = xds.CanonicalMessage(string(r.payloadType), content)
	}
	return xds.ContentDigest(from.typeURL, r.Name, r.Constraints.Key(), r.Aliases, r.payloadType, content)
}

// newVariant copies what it keeps of r. version is what the origin calls it.
func newVariant(from *provenance, r *Resource, version string) *Variant {
	v := &Variant{
		from:          from,
		Name:          r.Name,
		spelt:         r.spelt,
		Constraints:   r.Constraints,
		DoNotCache:    r.DoNotCache,
		Nameless:      r.Nameless,
		originVersion: version,
		aliases:       r.Aliases,
	}
	if len(r.metadata) > 0 || r.Constraints != nil {
		v.rare = &rare{metadata: bytes.Clone(r.metadata)}
		if r.Constraints != nil {
			v.rare.constraints = constraintFields(r.rawConstraints)
		}
	}
	v.Digest = from.digest(r)
	if from.typeURL == xds.ClusterType {
		v.endpoints = xds.EndpointsOf(r.payload)
	}
	v.encode(r.Any)
	return v
}

func (v *Variant) encode(payload []byte) {
	version, name := v.Version(), v.Spelling()
	if v.Nameless {
		name = ""
	}
	inner := protowire.SizeTag(resourceVersion) + protowire.SizeBytes(len(version))
	if name != "" {
		inner += protowire.SizeTag(resourceName) + protowire.SizeBytes(len(name))
	}
	for _, a := range v.aliases {
		inner += protowire.SizeTag(resourceAliases) + protowire.SizeBytes(len(a))
	}
	if v.DoNotCache {
		inner += protowire.SizeTag(resourceCacheCtl) + protowire.SizeBytes(2)
	}
	if len(v.meta()) > 0 {
		inner += protowire.SizeTag(resourceMetadata) + protowire.SizeBytes(len(v.meta()))
	}
	sotw := protowire.SizeTag(fieldResources) + protowire.SizeBytes(len(payload))
	b := make([]byte, 0, protowire.SizeTag(fieldResources)+protowire.SizeBytes(inner+sotw))
	b = protowire.AppendTag(b, fieldResources, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(inner+sotw))
	v.inner = uint32(len(b))
	b = xds.AppendString(b, resourceVersion, version)
	if name != "" {
		b = xds.AppendString(b, resourceName, name)
	}
	for _, a := range v.aliases {
		b = xds.AppendString(b, resourceAliases, a)
	}
	if v.DoNotCache {
		b = protowire.AppendTag(b, resourceCacheCtl, protowire.BytesType)
		b = append(b, 2, 0x08, 0x01)
	}
	if len(v.meta()) > 0 {
		b = protowire.AppendTag(b, resourceMetadata, protowire.BytesType)
		b = protowire.AppendBytes(b, v.meta())
	}
	v.sotw = uint32(len(b))
	b = protowire.AppendTag(b, resourcePayload, protowire.BytesType)
	b = protowire.AppendBytes(b, payload)
	v.any = uint32(len(b) - len(payload))
	v.buf = b
}

// same reports whether r is this body again: then the old value is kept and nothing is hashed
// (RELAY-45). The origin's version takes no part in it (VER-7).
func (v *Variant) same(r *Resource) bool {
	if v.Name != r.Name || v.spelt != r.spelt || v.DoNotCache != r.DoNotCache || v.Nameless != r.Nameless ||
		v.Constraints.Key() != r.Constraints.Key() || len(v.aliases) != len(r.Aliases) ||
		!bytes.Equal(v.meta(), r.metadata) {
		return false
	}
	for i := range v.aliases {
		if v.aliases[i] != r.Aliases[i] {
			return false
		}
	}
	return bytes.Equal(v.Any(), r.Any)
}

// withOriginVersion is v as a later response brought it again (VER-8): content and digest are
// shared, and the bytes too unless they carry a version that changed.
func (v *Variant) withOriginVersion(from *provenance, version string) *Variant {
	if !from.shown && v.originVersion == version && v.from.server == from.server {
		return v
	}
	c := *v
	c.originVersion, c.from = version, from
	if from.shown && v.originVersion != version {
		c.encode(v.Any())
		if v.rare != nil {
			c.rare = &rare{metadata: v.rare.metadata, constraints: v.rare.constraints}
		}
	}
	return &c
}

// Version is the resource version clients are told (VER-3, VER-5).
func (v *Variant) Version() string {
	if v.from.shown {
		return v.originVersion
	}
	return v.Digest.String()
}

// stated reports whether d, which claim made of a version that a client says it holds, stands for
// this body (DELTA-11).
func (v *Variant) stated(d xds.Digest) bool {
	if v.from.shown {
		return d != (xds.Digest{}) && d == claim(v.originVersion, true)
	}
	return d == v.Digest
}

// claim is a version a client says it holds: the zero Digest if it can stand for no body. An
// origin's version (VER-5) is only as good as its counter, and an empty one says nothing.
func claim(version string, shown bool) (d xds.Digest) {
	switch {
	case !shown:
		d, _ = xds.ParseVersion(version)
	case version != "":
		sum := sha256.Sum256([]byte(version))
		copy(d[:], sum[:])
	}
	return d
}

// Spelling is the name as the origin writes it (DELTA-17).
func (v *Variant) Spelling() string { return xds.Spelling(v.Name, v.spelt) }

// Spelling is the name as the origin writes it.
func (r *Resource) Spelling() string { return xds.Spelling(r.Name, r.spelt) }

// Any is the payload as the origin sent it, an encoded google.protobuf.Any. The caller must not
// change it.
func (v *Variant) Any() []byte { return v.buf[v.any:] }

// OriginVersion is the version the origin gave this body.
func (v *Variant) OriginVersion() string { return v.originVersion }

// Size is the memory the encoded body takes, in bytes.
func (v *Variant) Size() int { return len(v.buf) }

// Delta is the encoded `resources` field of a DeltaDiscoveryResponse. The caller must not change
// it.
func (v *Variant) Delta() []byte { return v.buf }

// deltaV2 is Delta without what a Resource lacks in v2: cache_control and metadata.
func (v *Variant) deltaV2() []byte {
	if !v.DoNotCache && len(v.meta()) == 0 {
		return v.buf
	}
	b := xds.AppendString(nil, resourceVersion, v.Version())
	if name := v.Spelling(); name != "" {
		b = xds.AppendString(b, resourceName, name)
	}
	for _, a := range v.aliases {
		b = xds.AppendString(b, resourceAliases, a)
	}
	rest := v.buf[v.sotw:]
	return append(wrap(len(b)+len(rest), b), rest...)
}

// SotW is the encoded `resources` field of a DiscoveryResponse. The caller must not change it.
func (v *Variant) SotW() []byte { return v.buf[v.sotw:] }

// Endpoints is the name of the endpoints that must follow this body if it is a Cluster (WARM-1): ""
// if there are none, Wildcard if the body does not tell, and then it may be any.
func (v *Variant) Endpoints() string { return v.endpoints }
