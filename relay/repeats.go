package relay

import (
	"sync"

	"github.com/weir-xds/weir/relay/xds"
)

// A repeat is a resource of a response that is held already, byte for byte. Origins send whole
// lists for one change. A repeat is compared, and neither checked, copied nor hashed
// (BenchmarkChange). It only states that the resource still exists. Where it could state more, the
// whole response is applied without repeats.

const (
	// fewestRepeats is the least number of resources for which repeats are looked for. A single
	// resource has mostly changed.
	fewestRepeats = 2
	// stepNames is how many names are looked up while the lock is held once, since clients wait for
	// it.
	stepNames = 512
)

// peeked are what is read of the resources of one step. Garbage of that length for each response of
// each group would cost more than the comparing (BenchmarkChange). What is in the pool is empty.
var peeked = sync.Pool{New: func() any { return new([stepNames]xds.Peek) }}

// FindRepeats finds the resources of a response that are held byte for byte. Accept and Apply pass
// over them. Only the reader of the lane's present stream calls it.
func (l *Lane) FindRepeats(r *xds.Response) {
	gen, k := l.gen.Load(), l.group.store(r.TypeURL)
	// clients are sent the versions, which may have changed
	shown := l.group.config().OriginVersions
	if k == nil || gen == 0 || r.Len() < fewestRepeats || shown || !r.Delta && !xds.Named(r.TypeURL) {
		return
	}
	all := make(repeated, r.Len())
	step := peeked.Get().(*[stepNames]xds.Peek)
	at := step[:min(stepNames, r.Len())]
	defer func() {
		clear(at) // it shares the response
		peeked.Put(step)
	}()
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

// repeats is the shard in which a resource that the lane's stream states again changes nothing. It
// is nil where it may change something: there are several maps or collections, something waits for
// the statement that a resource still exists, or a list counts by its names.
func (k *store) repeats(i laneIndex, gen uint32) *shard {
	if len(k.all) != 1 || k.constrained || k.byLocator() || k.group.kept() {
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
		listed := xds.FullState(s.typeURL) && s.group.config().SotW
		if n := &s.named; listed || len(n.guard.held)+len(n.other.held) > 0 {
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

// stands reports whether the body is still held, and the stream of generation gen has stated it
// before, so that stating it again changes nothing.
func (x *lookup) stands(gen uint32) bool {
	if x.held() != x.body {
		return false
	}
	if m := x.member; m != nil {
		// A member that was removed from its set has no body, or was stated on an earlier stream.
		return m.seenOn(gen)
	}
	return x.entry.notice == nil && x.entry.isSettled(x.body, gen)
}

// applyUnchanged applies the repeats of a response. Those that are none any more, since the lookup,
// are added to the response's resources and to bodies.
func (k *store) applyUnchanged(a *Applied, u *update, bodies []*xds.Variant, i laneIndex, gen uint32, rev uint64) []*xds.Variant {
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

// find looks up what is held of each resource, wherever it is. It reports false if the type was not
// asked on the stream. It locks the store, for stepNames resources at a time.
//
// A type that was asked by locator counts as asked although the shard that asked is gone. A shard
// goes with its last client, and an answer may be under way (RELAY-31).
func (k *store) find(u *update, lane laneIndex, gen uint32) bool {
	k.mu.Lock()
	asked, _ := k.concerned(u, lane, gen)
	known := len(asked) > 0 || k.byLocator() && k.askedGen[lane] == gen && k.lane(lane).live(gen)
	k.mu.Unlock()
	if !known {
		return false
	}
	if u.holder = nil; len(asked) == 1 {
		u.holder = asked[0]
	}
	u.found = make([]lookup, len(u.Resources))
	for first := 0; first < len(u.found); first += stepNames {
		k.mu.Lock()
		k.findStep(asked, u, first, lane, gen)
		k.mu.Unlock()
	}
	return true
}

// findStep looks up the next stepNames resources from first on: others wait for the lock
// meanwhile.
func (k *store) findStep(asked []*shard, u *update, first int, lane laneIndex, gen uint32) {
	for i := first; i < min(first+stepNames, len(u.found)); i++ {
		r := &u.Resources[i]
		of := asked
		if r.Constraints != nil {
			of = k.shardsMatching(r.Constraints)
		}
		for _, s := range of {
			if u.found[i] = s.lookup(r, lane, gen); u.found[i].body != nil {
				break
			}
		}
	}
}

// lookup is what a shard holds of a resource that a response on the stream may speak of.
func (s *shard) lookup(r *xds.Resource, lane laneIndex, gen uint32) (x lookup) {
	var held []*xds.Variant
	switch s.kind(lane, gen) {
	case kindSet:
		x.member = s.star.members.get(r.Name)
		held = x.member.bodies()
	case kindNamed:
		x.entry = s.named.entry(r.Name)
		held = x.entry.bodies()
	default:
		return x
	}
	if len(held) == 0 {
		held = s.collections.memberBodies(gen, r.Name)
	}
	x.body = find(held, r.Constraints.Key())
	return x
}

// entry is the shard's entry for a resource of a response. With 100,000 names a look-up is
// what most of the time under the lock goes into (BenchmarkHold), so it is not done twice.
func (u *update) entry(s *shard, i int) *entry {
	if u.holder == s && i < len(u.found) && len(s.named.other.held) == 0 {
		if e := u.found[i].entry; e != nil && !e.gone {
			return e
		}
	}
	return s.named.entry(u.Resources[i].Name)
}

// member is the same for the set of `*`: one that has left it has no body, or was of an
// earlier stream.
func (u *update) member(t *set, i int, gen uint32) *member {
	if u.holder == t.shard && i < len(u.found) {
		if m := u.found[i].member; m != nil && len(m.variants) > 0 && m.seenOn(gen) {
			return m
		}
	}
	return t.members.get(u.Resources[i].Name)
}
