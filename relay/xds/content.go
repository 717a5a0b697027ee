package xds

import (
	"bytes"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"
	"weak"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/intern"
	"google.golang.org/protobuf/encoding/protowire"
)

// content is what a body is, whoever gave it: immutable, and shared by all Variants in the process
// that are equal in every byte.
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
	var room [512]byte
	head := AppendString(room[:0], FieldVersion, version)
	if name != "" {
		head = AppendString(head, FieldName, name)
	}
	head = c.appendMeta(c.appendCacheControl(c.appendAliases(head)))
	inner := len(head) + protowire.SizeTag(FieldPayload) + protowire.SizeBytes(len(payload))
	b := make([]byte, 0, protowire.SizeTag(FieldResources)+protowire.SizeBytes(inner))
	b = protowire.AppendTag(b, FieldResources, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(inner))
	c.inner = uint32(len(b))
	b = append(b, head...)
	c.sotw = uint32(len(b))
	b = protowire.AppendTag(b, FieldPayload, protowire.BytesType)
	b = protowire.AppendBytes(b, payload)
	c.any = uint32(len(b) - len(payload))
	c.buf = b
}

func (c *content) appendAliases(b []byte) []byte {
	for _, a := range c.Aliases {
		b = AppendString(b, FieldAliases, a)
	}
	return b
}

func (c *content) appendCacheControl(b []byte) []byte {
	if c.DoNotCache {
		b = append(protowire.AppendTag(b, FieldCacheControl, protowire.BytesType), 2, 0x08, 0x01)
	}
	return b
}

func (c *content) appendMeta(b []byte) []byte {
	if meta := c.meta(); len(meta) > 0 {
		b = protowire.AppendBytes(protowire.AppendTag(b, FieldMetadata, protowire.BytesType), meta)
	}
	return b
}

// contents are those that the process holds, for every table, origin and group in it, by digest.
var contents = intern.New[Digest, content]()

// Share is the Variant to hold for one of a set. Groups are sent the same at nearly the same time,
// and hold one Variant then, that of the group that took it in first. So the revision of its
// response, its time to the second, and its version where the body has one, may be those of another
// group's. One with a TTL is not shared, nor one with constraints or a version that clients are
// sent (VER-5): there the response decides. v must be complete.
func (v *Variant) Share() *Variant {
	if v.Timed() || v.Orphaned() || v.From.Among == nil || v.From.Shown || v.Constraints != nil {
		return v
	}
	if other := v.given.Load(); other != nil && v.isLike(other) {
		return other
	}
	v.given.Store(v)
	return v
}

// isLike reports whether the responses say the same of the one body of both.
func (v *Variant) isLike(other *Variant) bool {
	if v.OriginVersion() != other.OriginVersion() {
		return false
	}
	x, y := *v.From, *other.From
	if y.Revision = x.Revision; v.OriginVersion() != "" {
		y.Version = x.Version
	}
	apart := max(x.Came-y.Came, y.Came-x.Came)
	y.Came = x.Came
	return x == y && apart < int64(time.Second)
}

// contentOf is the content of r, which no later change of r reaches. version is what its origin
// calls it. Many groups are sent the same bodies, and each is stored once. Equal digests are no
// proof here: what is found is compared byte for byte, and so bodies that differ in what the digest
// leaves out are kept apart.
func contentOf(from *Provenance, r *Resource, version string) *content {
	equal := func(c *content) bool { return c.showsAs(from.Shown, version) && c.is(r) }
	if c := recent.find(from, r, equal); c != nil {
		return c
	}
	d := from.Digest(r)
	if c := contents.Find(d, equal); c != nil {
		recent.note(from, r, c)
		return c
	}
	return contents.Put(d, newContent(from, r, d, version), equal)
}

// recent are contents that came from several groups lately, by a hash of their bytes. Groups that
// are answered the same are so within moments. All but the first two find the content here without
// a digest, which is slow for a long body, and needs the body decoded where equal content may have
// other bytes (VER-6). What is found is compared byte for byte. Nothing is kept alive.
var recent recentContents

type recentContents struct {
	slots [1 << 13]atomic.Pointer[recentContent]
	// credit is how many bodies in a row may still be looked for in vain. It is nothing while no
	// body is that of another group, so that a single group pays nothing.
	credit atomic.Int32
}

// recentContent is immutable. type and canonical are of the digest, and not of the content.
type recentContent struct {
	typeURL   string
	canonical bool
	content   weak.Pointer[content]
}

// recentCredit is the credit after a body was found that the process held.
const recentCredit = 64

var recentSeed = maphash.MakeSeed()

func (x *recentContents) slot(r *Resource) *atomic.Pointer[recentContent] {
	return &x.slots[maphash.Bytes(recentSeed, r.Any)%uint64(len(x.slots))]
}

// find is the content of r; nil: it is not known.
func (x *recentContents) find(from *Provenance, r *Resource, equal func(*content) bool) *content {
	if x.credit.Load() <= 0 {
		return nil
	}
	if e := x.slot(r).Load(); e != nil && e.typeURL == from.TypeURL && e.canonical == from.Canonical {
		if c := e.content.Value(); c != nil && equal(c) {
			return c
		}
	}
	x.credit.Add(-1)
	return nil
}

// note notes that r is a content that another group was sent as well.
func (x *recentContents) note(from *Provenance, r *Resource, c *content) {
	x.slot(r).Store(&recentContent{from.TypeURL, from.Canonical, weak.Make(c)})
	if x.credit.Load() < recentCredit {
		x.credit.Store(recentCredit)
	}
}
