package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Parameter maps can share an upstream subscription (origins[].share, RELAY-69). If the answer for
// one map serves another map as well, the name is not asked for the other map. The entry that is
// asked represents the one that is not. When the variant goes or is replaced by one that does not
// match both, the name is asked for its own map, and keeps its body until that is answered
// (RELAY-70). If the origin is silent, the body goes after cold_wait. That is counted from the
// question, on a stream that stays open: an origin that is away takes nothing from anyone
// (RELAY-2).

// sharedWant is how an entry shares a subscription with the entries of other maps.
type sharedWant struct {
	rep      *entry       // is asked in place of this one
	heir     *entry       // takes the place of this one, which is given up
	retained *xds.Variant // is kept until the origin has answered for the map
	asked    time.Time    // when the retained name was last asked for its own map
}

func (e *entry) rep() *entry {
	if e.sharedWant == nil {
		return nil
	}
	return e.sharedWant.rep
}

// unshare ends that the name is represented. What it holds came for another map: the first
// statement for its own map replaces it, or puts it in doubt (stale.go).
func (e *entry) unshare() {
	if e.rep() != nil {
		e.sharedWant = nil
		e.onOwn()
	}
}

// representative is the entry of another map that may represent this one; nil: none. Nothing is
// shared where the origin does not state that a variant is gone (DEL-3), since it would not be
// noticed that the maps need different variants by then.
func (n *namedTable) representative(e *entry) (rep *entry) {
	cfg := n.shard.group.config()
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

// serves reports whether the name was answered with what the other holds.
func (e *entry) serves(other *entry) bool {
	a, b := e.chosen, other.chosen
	return a != nil && b != nil && !e.isMute() && a.Digest == b.Digest && !a.DoNotCache && e.nameError == nil && other.nameError == nil &&
		!e.aliasDropped && a.Name == e.name
}

// askedOn reports whether the name is asked on the stream of generation gen, either itself or by
// its representative.
func (e *entry) askedOn(gen uint32) bool {
	return e.asksOn(gen) || e.rep() != nil && e.rep().asksOn(gen)
}

// shares reports whether the name need not be asked, because it is represented or can be.
func (n *namedTable) shares(e *entry) bool {
	if n.shard.represented(e) {
		return true
	}
	e.unshare()
	rep := n.representative(e)
	if rep == nil {
		return false
	}
	// A name that had left the request would wait for an answer of its own (RELAY-4), and it is not
	// asked: its representative's body is current, and is its own.
	old := e.isOld()
	e.sharedWant = &sharedWant{rep: rep}
	e.onCurrent()
	n.noteCurrent(e, old)
	return true
}

// represented reports whether the name has a representative that still serves it.
func (k *store) represented(e *entry) bool {
	rep := e.rep()
	return rep != nil && k.lists(rep) && rep.rep() == nil && rep.serves(e)
}

// unshare has the name asked for each map whose representative no longer serves it.
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

// unshareTouched does so for names of which one map has lost something in another way than by a
// response. Other maps had no part in that.
func (k *store) unshareTouched(touched ...*entry) {
	if !k.group.config().Share {
		return
	}
	for _, e := range touched {
		k.unshare(e.name)
	}
}

// unshareAll does so for all names that a response concerns.
func (k *store) unshareAll(u *update) {
	if !k.group.config().Share || len(k.all) < 2 {
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

// bequeath is called when a name is given up that represents others. If no other entry that is
// asked can represent them, one of them is asked, and represents the rest (RELAY-71).
func (n *namedTable) bequeath(e *entry) {
	if !n.shard.group.config().Share {
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

// waitsForHeir reports whether the name must not be unsubscribed yet, because the entry that takes
// its place is not asked yet (RELAY-71).
func (n *namedTable) waitsForHeir(e *entry) bool {
	if e.sharedWant == nil || e.sharedWant.heir == nil {
		return false
	}
	h := e.sharedWant.heir
	return h.rep() == nil && n.shard.lists(h) && h.asked() != e.asked()
}

// retains reports whether a removal does not apply to what the shard holds of a name, because the
// name was never asked for this map. Then it is asked, and its body stays until the answer, or
// until endRetained. gen is that of the stream: a removal on the stream of `*` concerns `*` alone.
func (n *namedTable) retains(p *updateShare, id xds.Identity, gen uint32) bool {
	e := n.entries[id.Name]
	if e == nil || !e.askedOn(gen) || find(e.variants, id.Constraints) == nil || p.brings(id.Name) {
		return false
	}
	if e.rep() == nil || e.chosen == nil || e.chosen.Constraints.Key() != id.Constraints {
		return false
	}
	e.sharedWant = &sharedWant{retained: e.chosen}
	n.look(e)
	return true
}

// awaits reports whether the name has been asked for its own map, and its retained body waits for
// the answer.
func (n *namedTable) awaits(name string, gen uint32) bool {
	e := n.entries[name]
	return e != nil && e.retained() != nil && e.asksOn(gen)
}

// replaceRetained adds to a response the removal of the retained body, if the response answers for
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

// askedRetained begins the wait for the answer if the name has a retained body.
func (n *namedTable) askedRetained(e *entry, now time.Time) {
	if e.retained() != nil {
		e.sharedWant.asked = now
		n.endRetainedAt(e, now.Add(n.shard.cfg().ColdWait))
	}
}

func (n *namedTable) endRetainedAt(e *entry, at time.Time) {
	n.shard.push(timer{at: at, kind: retainedEnd, shard: n.shard, entry: e})
}

// endRetained removes the retained body of a name if the stream on which it was asked has stayed
// open for cold_wait without an answer. Without a stream the next question begins the wait anew. It
// locks the shard.
func (n *namedTable) endRetained(e *entry, now time.Time) {
	s := n.shard
	s.mu.Lock()
	defer s.unlock()
	v := e.retained()
	if v == nil || n.entries[e.name] != e || !n.isAsked(e) {
		return
	}
	at := s.lane(n.lane).arrivals.Load().Over(e.sharedWant.asked, s.cfg().ColdWait)
	if at.After(now) {
		n.endRetainedAt(e, at)
		return
	}
	s.now, e.sharedWant = now, nil
	rev := s.nextRev()
	n.removeName(xds.Identity{Name: e.name, Constraints: v.Constraints.Key()})
	s.unshareTouched(n.offerTouched(rev, e.asked())...)
}
