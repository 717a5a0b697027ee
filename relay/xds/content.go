package xds

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/weir-xds/weir/constraints"
	"google.golang.org/protobuf/encoding/protowire"
)

// content is what a body is, whoever gave it: immutable, and shared by all Variants in the process
// that are equal in every byte (contents.go).
type content struct {
	Name        string // canonical (NAME-4); see Spelling
	Digest      Digest // of the content (VER-3)
	Constraints *constraints.Set
	DoNotCache  bool
	Nameless    bool // RELAY-18: only SotW wildcard clients can be told of it
	// version is what its origin calls it, that of the one that sent it first if there are several.
	version string
	shows   bool // the version in buf is the origin's (VER-5), not the digest (VER-3)

	// Offsets in buf, which is part of a message and so shorter than 4 GiB.
	inner uint32 // where the fields of the Resource begin
	sotw  uint32
	any   uint32 // where the encoded Any begins

	counted atomic.Uint32 // number of the last count that it was in (CountedIn)

	Spelt     string // see Spelling; "" if that is Name
	Aliases   []string
	rare      *rare  // nil: it has nothing of that, as nearly all
	endpoints string // see Endpoints

	// given is the Variant that was shared last (Share); nil: none was.
	given atomic.Pointer[Variant]

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

// newContent copies what it keeps of r, whose digest is d. version is what its origin calls it.
func newContent(from *Provenance, r *Resource, d Digest, version string) *content {
	c := &content{
		Name:        r.Name,
		Digest:      d,
		Constraints: r.Constraints,
		DoNotCache:  r.DoNotCache,
		Nameless:    r.Nameless,
		Spelt:       r.spelt,
		Aliases:     r.Aliases,
		version:     version,
	}
	if len(r.Metadata) > 0 || r.Constraints != nil {
		c.rare = &rare{metadata: bytes.Clone(r.Metadata)}
		if r.Constraints != nil {
			c.rare.constraints = constraintFields(r.RawConstraints)
		}
	}
	if from.TypeURL == ClusterType {
		c.endpoints = EndpointsOf(r.Payload)
	}
	c.showAs(from.Shown, version, r.Any)
	return c
}

// is reports whether r is this content again, byte for byte. The origin's version takes no part in
// it (VER-7).
func (c *content) is(r *Resource) bool {
	return c.Name == r.Name && c.Spelt == r.spelt && c.DoNotCache == r.DoNotCache && c.Nameless == r.Nameless &&
		c.Constraints.Key() == r.Constraints.Key() && slices.Equal(c.Aliases, r.Aliases) &&
		bytes.Equal(c.meta(), r.Metadata) && bytes.Equal(c.Any(), r.Any)
}

// showsAs reports whether it is encoded with the version that clients are to be sent.
func (c *content) showsAs(shown bool, version string) bool {
	return c.shows == shown && (!shown || StringField(c.buf[c.inner:], FieldVersion) == version)
}

// withVersion is the content with another version of its origin's.
func (c *content) withVersion(version string) *content {
	n := content{
		Name: c.Name, Digest: c.Digest, Constraints: c.Constraints, DoNotCache: c.DoNotCache, Nameless: c.Nameless,
		Spelt: c.Spelt, Aliases: c.Aliases, endpoints: c.endpoints,
	}
	if c.rare != nil { // the located forms have the version in them
		n.rare = &rare{metadata: c.rare.metadata, constraints: c.rare.constraints}
	}
	n.version = version
	n.showAs(true, version, c.Any())
	return &n
}

// meta is the encoded core.Metadata; nil: there is none.
func (c *content) meta() []byte {
	if c.rare == nil {
		return nil
	}
	return c.rare.metadata
}

// Spelling is the name as the origin writes it (DELTA-17).
func (c *content) Spelling() string { return Spelling(c.Name, c.Spelt) }

// Any is the payload as the origin sent it, an encoded google.protobuf.Any. The caller must not
// change it.
func (c *content) Any() []byte { return c.buf[c.any:] }

// showAs encodes the content: with the digest as its version (VER-3), or, if shown, with the
// origin's (VER-5).
func (c *content) showAs(shown bool, version string, payload []byte) {
	if c.shows = shown; !shown {
		version = c.Digest.String()
	}
	name := c.Spelling()
	if c.Nameless {
		name = ""
	}
	inner := protowire.SizeTag(FieldVersion) + protowire.SizeBytes(len(version))
	if name != "" {
		inner += protowire.SizeTag(FieldName) + protowire.SizeBytes(len(name))
	}
	for _, a := range c.Aliases {
		inner += protowire.SizeTag(FieldAliases) + protowire.SizeBytes(len(a))
	}
	if c.DoNotCache {
		inner += protowire.SizeTag(FieldCacheControl) + protowire.SizeBytes(2)
	}
	if len(c.meta()) > 0 {
		inner += protowire.SizeTag(FieldMetadata) + protowire.SizeBytes(len(c.meta()))
	}
	sotw := protowire.SizeTag(FieldResources) + protowire.SizeBytes(len(payload))
	b := make([]byte, 0, protowire.SizeTag(FieldResources)+protowire.SizeBytes(inner+sotw))
	b = protowire.AppendTag(b, FieldResources, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(inner+sotw))
	c.inner = uint32(len(b))
	b = AppendString(b, FieldVersion, version)
	if name != "" {
		b = AppendString(b, FieldName, name)
	}
	for _, a := range c.Aliases {
		b = AppendString(b, FieldAliases, a)
	}
	if c.DoNotCache {
		b = protowire.AppendTag(b, FieldCacheControl, protowire.BytesType)
		b = append(b, 2, 0x08, 0x01)
	}
	if len(c.meta()) > 0 {
		b = protowire.AppendTag(b, FieldMetadata, protowire.BytesType)
		b = protowire.AppendBytes(b, c.meta())
	}
	c.sotw = uint32(len(b))
	b = protowire.AppendTag(b, FieldPayload, protowire.BytesType)
	b = protowire.AppendBytes(b, payload)
	c.any = uint32(len(b) - len(payload))
	c.buf = b
}
