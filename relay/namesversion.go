package relay

import "github.com/weir-xds/weir/relay/xds"

// A SotW client of a grouped type is sent a version of what it was sent by name and is still
// subscribed to, beside what it was sent of collections (VER-4). Of few names it is hashed when it
// is needed, from the records. Of more, the tree of the digests is kept from the first answer on,
// and clients that were sent the same share it. Delta has no such version, and lists that are sent
// whole have the version of the list.

// fewNames is the number of names that cost no more to hash than to send one of them.
const fewNames = 128

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
