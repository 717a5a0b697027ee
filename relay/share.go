package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Sharing one upstream subscription between parameter maps (origins[].share, RELAY-69): a name that
// what another map has been answered with serves as well is not asked itself. That one represents
// it. When the two part, because the variant goes or is another, the name is asked, and keeps what
// it has until the origin has answered for its own map (RELAY-70).

// sharedWant is what a name has to do with that of other maps.
type sharedWant struct {
	rep      *entry       // is asked in this one's place
	heir     *entry       // takes the place of this one, which is given up
	retained *xds.Variant // is kept until the origin has answered for the map
}

func (e *entry) rep() *entry {
	if e.sharedWant == nil {
		return nil
	}
	return e.sharedWant.rep
}

func (e *entry) retained() *xds.Variant {
	if e.sharedWant == nil {
		return nil
	}
	return e.sharedWant.retained
}

// unshare has the name stand for itself. What it has came for another map: the first word that
// comes for its own takes the place of that, or casts doubt on it (stale.go).
func (e *entry) unshare() {
	if e.rep() != nil {
		e.sharedWant = nil
		e.onOwn()
	}
}

// representative is the entry of another map that may stand for this one; nil: none. Where it
// is never told that a variant has gone (DEL-3) nobody would learn that the two have parted.
func (n *namedTable) representative(e *entry) (rep *entry) {
	cfg := n.shard.group.origin.config()
	if !cfg.Share || cfg.SotW && !xds.FullState(n.shard.typeURL) || e.refresh || e.retained() != nil {
		return nil
	}
	n.shard.others(func(x *shard) {
		y := x.named.entries[e.name]
		if rep != nil || y == nil {
			return
		}
		if y.rep() == nil && n.shard.lists(y) && x.named.isAsked(y) && y.isAnswered() && y.serves(e) {
			rep = y
		}
	})
	return rep
}

// serves reports whether what the name was answered with is what the other has.
func (e *entry) serves(other *entry) bool {
	a, b := e.chosen, other.chosen
	return a != nil && b != nil && !e.isMute() && a.Digest == b.Digest && !a.DoNotCache && e.nameError == nil && other.nameError == nil &&
		!e.aliasDropped && a.Name == e.name
}

// askedOn reports whether the name is asked on the stream of generation gen, by itself or by who
// represents it.
func (e *entry) askedOn(gen uint32) bool {
	return e.asksOn(gen) || e.rep() != nil && e.rep().asksOn(gen)
}

// shares reports whether the name need not be asked, for there is one that stands for it.
func (n *namedTable) shares(e *entry) bool {
	if n.shard.represented(e) {
		return true
	}
	e.unshare()
	rep := n.representative(e)
	if rep != nil {
		e.sharedWant = &sharedWant{rep: rep}
	}
	return rep != nil
}

// represented reports whether the name is served by what stands for it.
func (k *store) represented(e *entry) bool {
	rep := e.rep()
	return rep != nil && k.lists(rep) && rep.rep() == nil && rep.serves(e)
}

// unshare has every map ask for the name itself that shares it with one that does not serve it
// any more.
func (k *store) unshare(name string) {
	for _, s := range k.all {
		e := s.named.entries[name]
		if e == nil {
			continue
		}
		if e.rep() != nil && !k.represented(e) {
			e.unshare()
			s.named.look(e)
		}
	}
}

// unshareTouched does so for names of which one map has lost something, not by a response, which
// other maps would have part in.
func (k *store) unshareTouched(touched ...*entry) {
	if !k.group.origin.config().Share {
		return
	}
	for _, e := range touched {
		k.unshare(e.name)
	}
}

// unshareAll does so for all names that a response speaks of.
func (k *store) unshareAll(u *update) {
	if !k.group.origin.config().Share || len(k.all) < 2 {
		return
	}
	for i := range u.Resources {
		k.unshare(u.Resources[i].Name)
	}
	for _, name := range u.Removed {
		k.unshare(name)
	}
	for _, r := range u.RemovedVariants {
		k.unshare(r.Name)
	}
	for _, e := range u.Errors {
		k.unshare(e.Name)
	}
	if !u.Full || u.Bad {
		return
	}
	for _, s := range k.all { // a list says something by what it leaves out
		for name := range s.named.entries {
			k.unshare(name)
		}
	}
}

// bequeath hands over what a name that is given up stands for: if no other that is asked may,
// one of those it represents is asked, and represents the rest (RELAY-71).
func (n *namedTable) bequeath(e *entry) {
	if !n.shard.group.origin.config().Share {
		return
	}
	var heir *entry
	n.shard.others(func(x *shard) {
		y := x.named.entries[e.name]
		switch {
		case y == nil || y.rep() != e:
		case heir == nil && x.named.shares(y):
		case heir == nil:
			heir = y
			y.unshare()
			x.named.look(y)
		default:
			y.sharedWant = &sharedWant{rep: heir}
		}
	})
	if heir != nil {
		e.sharedWant = &sharedWant{heir: heir}
	}
}

// waitsForHeir reports whether the name may not be unsubscribed yet: who takes its place has
// to be asked before (RELAY-71).
func (n *namedTable) waitsForHeir(e *entry) bool {
	if e.sharedWant == nil || e.sharedWant.heir == nil {
		return false
	}
	h := e.sharedWant.heir
	return h.rep() == nil && n.shard.lists(h) && h.asked() != e.asked()
}

// retains reports whether a removal is no word about what the shard holds of the name: it was
// never asked for this map. Then the name is asked, and what there is stays until the answer, or
// for cold_wait. gen is the stream's: on that of `*` it is a word about `*` alone.
func (n *namedTable) retains(p *updateShare, id xds.Identity, gen uint32, now time.Time) bool {
	e := n.entries[id.Name]
	if e == nil || !e.askedOn(gen) || find(e.variants, id.Constraints) == nil || p.brings(id.Name) {
		return false
	}
	if e.rep() == nil || e.chosen == nil || e.chosen.Constraints.Key() != id.Constraints {
		return false
	}
	e.sharedWant = &sharedWant{retained: e.chosen}
	n.look(e)
	n.shard.push(timer{at: now.Add(n.shard.cfg().ColdWait), kind: retainedEnd, shard: n.shard, entry: e})
	return true
}

// awaits reports whether the name was asked for its map at last, and what is kept of it waits
// for the answer.
func (n *namedTable) awaits(name string, gen uint32) bool {
	e := n.entries[name]
	return e != nil && e.retained() != nil && e.asksOn(gen)
}

// replaceRetained adds to what a response says the removal of what was kept, if it answers for
// the map.
func (p *updateShare) replaceRetained(s *shard, gen uint32) {
	answer := func(name string) {
		e := s.named.entries[name]
		if e == nil || e.retained() == nil || !e.asksOn(gen) {
			return
		}
		v := e.retained()
		e.sharedWant = nil
		listed := slices.ContainsFunc(p.Resources, func(r xds.Resource) bool {
			return r.Name == name && r.Constraints.Key() == v.Constraints.Key()
		})
		if !listed {
			p.RemovedVariants = append(p.RemovedVariants, xds.RemovedVariant{Name: name, Constraints: v.Constraints.Key(), Set: v.Constraints})
		}
	}
	for i := range p.Resources {
		answer(p.Resources[i].Name)
	}
	for _, name := range p.Removed {
		answer(name)
	}
}

// endRetained takes what was kept from a name for which the origin has not answered. It locks the
// shard.
func (n *namedTable) endRetained(e *entry, now time.Time) {
	s := n.shard
	s.mu.Lock()
	if v := e.retained(); v != nil && n.entries[e.name] == e {
		s.now, e.sharedWant = now, nil
		rev := s.nextRev()
		n.removeName(xds.Identity{Name: e.name, Constraints: v.Constraints.Key()})
		s.unshareTouched(n.offerTouched(rev, e.asked())...)
	}
	s.unlock()
}
