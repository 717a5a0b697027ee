package xds

import "github.com/weir-xds/weir/relay/intern"

// contents are those that the process holds, for every table, origin and group in it, by digest.
var contents = intern.New[Digest, content]()

// contentOf is the content of r, which no later change of r reaches. version is what its origin
// calls it. Many groups are sent the same bodies, and each is stored once. Equal digests are no
// proof here: what is found is compared byte for byte, and so bodies that differ in what the digest
// leaves out are kept apart.
func contentOf(from *Provenance, r *Resource, version string) *content {
	d := from.Digest(r)
	equal := func(c *content) bool { return c.showsAs(from.Shown, version) && c.is(r) }
	if c := contents.Find(d, equal); c != nil {
		return c
	}
	return contents.Put(d, newContent(from, r, d, version), equal)
}
