package relay

import "github.com/weir-xds/weir/relay/xds"

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
