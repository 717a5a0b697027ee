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

// A SotW client of a grouped type is sent a version of what it was sent by name and is still
// subscribed to, beside what it was sent of collections (VER-4). Of few names it is hashed when it
// is needed, from the records. Of more, the tree of the digests is kept from the first answer on,
// and clients that were sent the same share it. Delta has no such version, and lists that are sent
// whole have the version of the list.

// fewNames is the number of names up to which hashing all of them costs no more than a path in a
// tree (BenchmarkNamesVersion).
const fewNames = 64

// noteSent notes that the client holds something else of a name; the zero Digest is nothing.
func (s *Sub) noteSent(was, is xds.Digest) {
	if s.names == nil || was == is {
		return
	}
	if was != (xds.Digest{}) {
		s.names.Remove(was)
	}
	if is != (xds.Digest{}) {
		s.names.Add(is)
	}
}

// namesSent is the digest of what was sent by name. Each resource counts once.
func (s *Sub) namesSent() xds.SetDigest {
	var few [8]xds.Digest // most clients of names have no more
	switch n := s.records.len(); {
	case n <= len(few):
		return xds.SetOf(s.appendSent(few[:0]))
	case n <= fewNames || len(s.alias.of) > 0:
		return xds.SetOf(s.listSent())
	case s.names == nil:
		s.names = &xds.TrackedSet{}
	}
	return s.names.Tree(s.listSent).Digest()
}

func (s *Sub) listSent() []xds.Digest {
	return s.appendSent(make([]xds.Digest, 0, s.records.len()))
}

// appendSent appends the digests of what was sent by name.
func (s *Sub) appendSent(to []xds.Digest) []xds.Digest {
	var counted map[string]bool
	if len(s.alias.of) > 0 {
		counted = make(map[string]bool, s.records.len())
	}
	for r := range s.records.all() {
		switch {
		case r.sent == xds.Digest{}:
			continue
		case counted != nil && counted[s.alias.resource(r)]:
			continue
		case counted != nil:
			counted[s.alias.resource(r)] = true
		}
		to = append(to, r.sent)
	}
	return to
}

// heldSets lists the sets of content that the client has: what was sent by name, and of each
// collection.
func (s *Sub) heldSets(sets []xds.SetDigest) []xds.SetDigest {
	sets = append(sets, s.namesSent())
	for p := s.sets.first; p != nil; p = p.also {
		if !p.fresh {
			sets = append(sets, p.view.tree().Digest())
		}
	}
	return sets
}
