package xds

import (
	"time"

	"github.com/weir-xds/weir/relay/intern"
)

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
