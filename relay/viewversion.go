package relay

import "github.com/weir-xds/weir/relay/xds"

// The version of a view (VER-4) is for SotW clients alone. So a view that has none of them keeps no
// tree of its digests, and its first answer costs no tree before somebody asks. From then on a
// change costs its path (BenchmarkVersion). Groups that are sent the same share the tree.

// versionInfo is the version_info of the full view.
func (v *view) versionInfo() string {
	if v.version == "" {
		v.version = v.tree().Digest().Version()
	}
	return v.version
}

// tree is that of the digests of the live items.
func (v *view) tree() *xds.Tree { return v.digests.Tree(v.listDigests) }

func (v *view) listDigests() []xds.Digest {
	all := make([]xds.Digest, 0, v.live)
	for _, s := range v.segments.list {
		all = appendDigests(all, s.variants)
	}
	return all
}

func appendDigests(to []xds.Digest, vs []*xds.Variant) []xds.Digest {
	for _, v := range vs {
		to = append(to, v.Digest)
	}
	return to
}

// setOf is the digest of what a list has.
func setOf(vs []*xds.Variant) xds.SetDigest {
	return xds.SetOf(appendDigests(make([]xds.Digest, 0, len(vs)), vs))
}

// contentOf is what a list has, as far as its version goes: what a view has, after changes.
type contentOf struct {
	view    *view // nil: the list has what was added, and nothing else
	changes []xds.Change
}

func (c *contentOf) add(d xds.Digest)    { c.changes = append(c.changes, xds.Change{Member: d, In: true}) }
func (c *contentOf) remove(d xds.Digest) { c.changes = append(c.changes, xds.Change{Member: d}) }

// addAll adds bodies.
func (c *contentOf) addAll(vs []*xds.Variant) {
	for _, v := range vs {
		c.add(v.Digest)
	}
}

// version is the version_info of the list (VER-4).
func (c *contentOf) version() string {
	switch {
	case c.view == nil:
		all := make([]xds.Digest, len(c.changes))
		for i := range c.changes {
			all[i] = c.changes[i].Member
		}
		return xds.SetOf(all).Version()
	case len(c.changes) == 0:
		return c.view.versionInfo() // which clients share
	}
	return c.view.tree().Apply(c.changes).Digest().Version()
}
