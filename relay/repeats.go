package relay

import "github.com/weir-xds/weir/relay/xds"

// A repeat is a resource of a response that is held already, byte for byte: it is neither checked,
// copied nor hashed, and costs a compare (BenchmarkChange). Origins send whole lists for one
// change. Such a resource means nothing but that it is still there; where it could mean more, all
// goes the long way.

const (
	// fewestRepeats is how many resources a response must have for repeats to be looked for: a
	// single one is mostly what has changed.
	fewestRepeats = 2
	// stepNames is how many names are looked up in one go under the lock, while clients wait for
	// it.
	stepNames = 512
)

// FindRepeats looks what of a response is held byte for byte, for Accept and Apply to pass over.
// Only the reader of the lane's present stream calls it.
func (l *Lane) FindRepeats(r *xds.Response) {
	gen, k := l.gen.Load(), l.group.store(r.TypeURL)
	// versions are a part of what is told, and may have changed
	shown := l.group.origin.config().OriginVersions
	if k == nil || gen == 0 || r.Len() < fewestRepeats || shown || !r.Delta && !xds.Named(r.TypeURL) {
		return
	}
	all := make(repeated, r.Len())
	at := make([]xds.Peek, min(stepNames, r.Len()))
	for first := 0; first < r.Len(); first += len(at) {
		found := all[first:min(first+len(at), len(all))]
		for i := range found {
			at[i] = r.Peek(first + i)
		}
		if !k.lookUp(found, at, l.index, gen) {
			return
		}
		for i := range found {
			if v := found[i].body; v != nil && !at[i].Shows(v, uint8(l.server.Load())) {
				found[i] = lookup{}
			}
		}
	}
	r.Held = all
}

// lookUp finds what is held of the names. It reports false where nothing counts as a repeat. It
// locks the store.
func (k *store) lookUp(found []lookup, at []xds.Peek, i laneIndex, gen uint32) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.repeats(i, gen)
	if s == nil {
		return false
	}
	set := s.kind(i, gen) == kindSet
	for i := range found {
		x := &found[i]
		if set {
			x.member = s.star.members.getBytes(at[i].Name)
		} else {
			x.entry = s.named.entries[string(at[i].Name)]
		}
		if x.body = x.held(); x.body == nil || !x.stands(gen) {
			*x = lookup{}
		}
	}
	return true
}

// repeats is the shard for which what comes again on a lane's stream, and has come on it
// before, changes nothing. nil: it may, since there are several maps or collections, or somebody
// waits for the word that a resource is still there, or a list is judged by its names.
func (k *store) repeats(i laneIndex, gen uint32) *shard {
	if len(k.all) != 1 || k.constrained || k.byLocator() || k.group.origin.frozen.Load() != nil {
		return nil
	}
	s := k.all[0]
	if len(s.collections.byName)+len(s.frozen) > 0 {
		return nil
	}
	switch t := s.star; s.kind(i, gen) {
	case kindSet:
		if t.askedGen != gen || len(t.guard.held)+len(t.refetch)+len(t.nameErrors.byName)+len(t.badParts.names) > 0 {
			return nil
		}
	case kindNamed:
		listed := xds.FullState(s.typeURL) && s.group.origin.config().SotW
		if n := &s.named; listed || len(n.guard.held)+len(n.other.held)+len(n.doubts) > 0 {
			return nil
		}
	default:
		return nil
	}
	return s
}

// held is the one body that is held; nil: there is none, or there are several.
func (x *lookup) held() *xds.Variant {
	switch {
	case x.member != nil && len(x.member.variants) == 1:
		return x.member.variants[0]
	case x.entry != nil && len(x.entry.variants) == 1:
		return x.entry.variants[0]
	}
	return nil
}

// stands reports whether the body is still held, and the stream of generation gen has said so
// before: to hear it again changes nothing.
func (x *lookup) stands(gen uint32) bool {
	if x.held() != x.body {
		return false
	}
	if m := x.member; m != nil {
		// one that has left its set has no body, or was of an earlier stream
		return m.seenOn(gen)
	}
	return x.entry.notice == nil && x.entry.isSettled(x.body, gen)
}

// tickOff takes up the repeats of a response. What is none by now goes the long way with the
// other resources, as bodies.
func (k *store) tickOff(a *Applied, u *update, bodies []*xds.Variant, i laneIndex, gen uint32, rev uint64) []*xds.Variant {
	if len(u.Repeats) == 0 {
		return bodies
	}
	s := k.repeats(i, gen)
	for _, n := range u.Repeats {
		switch x := &u.repeats[n]; {
		case s == nil || !x.stands(gen):
			u.Resources, bodies = append(u.Resources, x.body.Again()), append(bodies, x.body)
			continue
		case x.member != nil:
			s.star.list(x.member, rev)
		}
		a.Resumed++
	}
	u.Repeats = nil
	return bodies
}

// list notes that the response of revision rev lists a member.
func (t *set) list(m *member, rev uint64) {
	if m.listed == rev {
		return
	}
	if t.listedRev != rev {
		t.listedRev, t.listed = rev, 0
	}
	m.listed = rev
	t.listed++
}

// listsAll reports whether the response of revision rev lists every member, so that none need
// be looked for that it leaves out.
func (t *set) listsAll(rev uint64) bool {
	return t.listedRev == rev && t.listed == t.members.len()
}
