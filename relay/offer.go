package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

// This file divides a response among the shards of a store. Each shard is offered what matches its
// parameter map (RELAY-72).

// updateShare is the share of a response that concerns one shard.
type updateShare struct {
	*update
	bodies []*xds.Variant
}

// silent reports whether the share states nothing. A full list always states something, by what it
// leaves out.
func (p *updateShare) silent() bool {
	return !p.Full && !p.Bad && len(p.Resources)+len(p.Repeats)+len(p.Removed)+len(p.RemovedVariants)+len(p.Errors)+len(p.Whole) == 0
}

// askers are the shards that have asked for something on a lane's stream.
func (k *store) askers(i laneIndex, gen uint32) []*shard {
	none := func(s *shard) bool { return s.kind(i, gen) == kindNone }
	if !slices.ContainsFunc(k.all, none) {
		return k.all // this slice is never changed, but replaced
	}
	return slices.DeleteFunc(slices.Clone(k.all), none)
}

// concerned are the shards that a response may concern. A delta response of variants alone concerns
// the shards whose maps match, and these are found by a look-up, however many maps there are
// (BenchmarkVariants). Any other response concerns each shard that asked for the type. rest: there
// are other shards, and they need not be offered the response at all.
func (k *store) concerned(u *update, i laneIndex, gen uint32) (asked []*shard, rest bool) {
	if k.restGen[i] != gen || !u.ofVariants() {
		return k.askers(i, gen), false
	}
	add := func(c *constraints.Set) {
		for _, s := range k.shardsMatching(c) {
			if s.kind(i, gen) != kindNone && !slices.Contains(asked, s) {
				asked = append(asked, s)
			}
		}
	}
	for j := range u.Resources {
		add(u.Resources[j].Constraints)
	}
	for _, r := range u.RemovedVariants {
		add(r.Set)
	}
	for _, e := range u.Errors {
		add(e.Constraints)
	}
	if len(asked) == 0 || len(asked) > len(k.all)/4 { // then a pass over all costs no more
		return k.askers(i, gen), false
	}
	return asked, true
}

// speaksOfVariants reports whether anything in the response has constraints.
func (u *update) speaksOfVariants() bool {
	for i := range u.Resources {
		if u.Resources[i].Constraints != nil {
			return true
		}
	}
	return len(u.RemovedVariants) > 0 || slices.ContainsFunc(u.Errors, func(e *NameError) bool { return e.Constraints != nil })
}

// ofVariants reports whether everything that the response states has constraints, and leaving
// something out states nothing.
func (u *update) ofVariants() bool {
	if u.Full || u.Bad || u.Heartbeats || u.For != nil || len(u.Whole)+len(u.Removed)+len(u.Repeats) > 0 || u.silent() {
		return false
	}
	for i := range u.Resources {
		if u.Resources[i].Constraints == nil {
			return false
		}
	}
	return !slices.ContainsFunc(u.RemovedVariants, func(r xds.RemovedVariant) bool { return r.Set == nil }) &&
		!slices.ContainsFunc(u.Errors, func(e *NameError) bool { return e.Constraints == nil })
}

// saysNothing reports whether a response that states nothing for these shards has no effect on them
// either: none of their sets waits for its first answer, or for the pause after it.
func saysNothing(asked []*shard, gen uint32) bool {
	return !slices.ContainsFunc(asked, func(s *shard) bool {
		return len(s.collections.byName) > 0 || s.star.askedGen == gen && (!s.star.firm || s.star.sweepGen == gen)
	})
}

// apply applies a response to every shard that asked for the type, under one revision.
func (k *store) apply(a *Applied, now time.Time, u *update, bodies []*xds.Variant, lane laneIndex, gen uint32, from *xds.Provenance) {
	asked, rest := k.concerned(u, lane, gen)
	if len(asked) == 0 { // whoever asked has left (RELAY-28)
		for i := range u.Resources {
			a.stray(u.Resources[i].Name)
		}
		return
	}
	if u.For != nil {
		asked = slices.DeleteFunc(slices.Clone(asked), func(s *shard) bool { return s.params.Key() != u.For.Key() })
	}
	if len(asked) == 0 {
		return // nobody wants it any more
	}
	a.Unconstrained += k.unconstrained(asked, u, gen)
	from.Revision = asked[0].nextRev()
	bodies = k.applyUnchanged(a, u, bodies, lane, gen, from.Revision)
	divided := k.divide(asked, u, bodies, from.Revision, gen, now)
	several := rest || len(asked) > 1
	if several {
		a.strays = map[xds.Identity]int{}
	}
	for _, s := range asked {
		p := s.updateShare
		switch {
		case p == nil && several && !u.silent():
			s.noteUnrelated(now, lane, gen, u)
			continue
		case p == nil:
			p = s.shareOf(u)
		}
		if p.Full && several && s.askedLast(gen) {
			part := *p.update
			part.Full = false
			p = &updateShare{&part, p.bodies}
			s.updateShare = p
		}
		s.now, s.rev = now, from.Revision
		s.edited()
		s.takeUp(a, p, lane, gen, from)
	}
	k.countOverlaps(a, asked)
	if several || divided {
		k.countStrays(a, asked, u)
	}
	for _, s := range asked {
		s.updateShare = nil
	}
	k.undivided = updateShare{}
	if !rest {
		if k.restGen[lane] = 0; saysNothing(k.all, gen) {
			k.restGen[lane] = gen
		}
	}
}

// askedLast reports whether the shard's `*` was asked after that of another map and is not answered
// yet. A list that comes now may have been made before it was asked.
func (s *shard) askedLast(gen uint32) bool {
	if s.star.askedGen != gen || s.star.answeredGen == gen {
		return false
	}
	return slices.ContainsFunc(s.store.all, func(x *shard) bool { return x.star.askedGen == gen && x.star.askedAt.Before(s.star.askedAt) })
}

// silent reports whether the response states nothing. It still is the first answer for a shard that
// waits for one (DELTA-13).
func (u *update) silent() bool { return (&updateShare{update: u}).silent() }

// takeUp applies a share of a response to the shard.
func (s *shard) takeUp(a *Applied, p *updateShare, lane laneIndex, gen uint32, from *xds.Provenance) {
	if s.kind(lane, gen) == kindSet {
		s.applySets(a, p.update, p.bodies, gen, from)
		return
	}
	waiting := a.Waiting
	s.named.apply(a, p.update, p.bodies, gen)
	s.collections.apply(a, p.update, p.bodies, gen)
	if !p.Heartbeats && (a.Waiting == waiting || !p.Full) {
		// Otherwise the version is that of a list which clients do not have in that form (VER-5).
		s.named.from = from
	}
}

// shareOf is the share of the response that the shard has so far. If it has none, an empty one is
// made.
func (s *shard) shareOf(u *update) *updateShare {
	if s.updateShare == nil {
		part := *u
		part.found, part.holder = nil, nil
		part.Resources, part.Removed, part.RemovedVariants, part.Errors = nil, nil, nil, nil
		s.updateShare = &updateShare{update: &part}
	}
	return s.updateShare
}

// divide divides a response of revision rev among the shards. If nothing has constraints, and no
// removal may be meant for one of several maps alone (early), all shards share the response itself.
// Otherwise a shard has a share only if something concerns it, since a variant may not concern most
// of many shards (BenchmarkVariants).
func (k *store) divide(asked []*shard, u *update, bodies []*xds.Variant, rev uint64, gen uint32, now time.Time) (divided bool) {
	k.constrained = k.constrained || u.variants
	several := len(asked) > 1 && k.byLocator() && len(u.Removed) > 0
	if !k.constrained && !several {
		k.undivided = updateShare{u, bodies}
		for _, s := range asked {
			s.updateShare = &k.undivided
		}
		return false
	}
	for _, s := range asked {
		// It states something by what it leaves out.
		if s.turn = rev; u.Full || u.Bad || len(u.Whole) > 0 {
			s.shareOf(u)
		}
	}
	for i := range u.Resources {
		for _, s := range k.shardsMatching(u.Resources[i].Constraints) {
			if s.turn == rev {
				p := s.shareOf(u)
				p.Resources, p.bodies = append(p.Resources, u.Resources[i]), append(p.bodies, bodies[i])
			}
		}
	}
	for _, s := range asked {
		switch {
		case u.Bad, s.updateShare == nil:
		case k.group.config().SotW:
			s.updateShare.supersede(s.variants)
		default:
			s.updateShare.supersede(func(name string) []*xds.Variant { return s.stale(name, gen) })
		}
	}
	for _, r := range u.RemovedVariants {
		for _, s := range k.shardsMatching(r.Set) {
			id := xds.Identity{Name: r.Name, Constraints: r.Constraints}
			if s.turn == rev && !s.named.doubt(now, id, gen) {
				p := s.shareOf(u)
				p.RemovedVariants = append(p.RemovedVariants, r)
			}
		}
	}
	for _, e := range u.Errors {
		for _, s := range k.shardsMatching(e.Constraints) {
			if s.turn == rev {
				p := s.shareOf(u)
				p.Errors = append(p.Errors, e)
			}
		}
	}
	for _, name := range u.Removed {
		for _, s := range asked {
			if !s.named.doubt(now, xds.Identity{Name: name}, gen) && !s.holdsConstrained(name, gen) {
				p := s.shareOf(u)
				p.Removed = append(p.Removed, name)
			}
		}
	}
	return true
}

// supersede adds to the share the removals of held variants that the response replaces without
// naming them: those of a name that it brings, with constraints that it does not list. In SotW
// these are all held variants of the name. A SotW response brings the variant that matches, it can
// state no removal, and a relay that connected later would know the new variant alone (DYN-9). In
// delta these are the variants that the stream has not stated yet (silence.go).
func (p *updateShare) supersede(held func(name string) []*xds.Variant) {
	listed := make(map[xds.Identity]bool, len(p.Resources))
	for i := range p.Resources {
		listed[xds.Identity{Name: p.Resources[i].Name, Constraints: p.Resources[i].Constraints.Key()}] = p.Resources[i].Any != nil
	}
	for id, body := range listed {
		for _, v := range held(id.Name) {
			old := xds.Identity{Name: id.Name, Constraints: v.Constraints.Key()}
			if _, there := listed[old]; body && !there {
				listed[old] = false
				p.RemovedVariants = append(p.RemovedVariants, xds.RemovedVariant{Name: old.Name, Constraints: old.Constraints, Set: v.Constraints})
			}
		}
	}
}

// variants are all variants of a name that the shard holds.
func (s *shard) variants(name string) (vs []*xds.Variant) {
	if e := s.named.entries[name]; e != nil {
		vs = append(vs, e.variants...)
	}
	s.sets(func(t *set) {
		if m := t.members.get(name); m != nil {
			vs = append(vs, m.variants...)
		}
	})
	return vs
}

// holdsConstrained reports whether the shard holds only variants with constraints of a name, by
// what it asked on the stream of generation gen. A removal of the plain name does not concern these
// (DYN-13).
func (s *shard) holdsConstrained(name string, gen uint32) bool {
	held, plain := false, false
	look := func(vs []*xds.Variant) {
		held = held || len(vs) > 0
		plain = plain || find(vs, "") != nil
	}
	if e := s.named.entries[name]; e != nil && e.asksOn(gen) {
		look(e.variants)
	}
	s.sets(func(t *set) {
		if m := t.members.get(name); m != nil && t.askedGen == gen {
			look(m.variants)
		}
	})
	return held && !plain
}

// noteUnrelated records a response that has nothing for the map. It may be the whole answer to the
// map's sets, but that is less certain than it is of a response with something for the map.
func (s *shard) noteUnrelated(now time.Time, lane laneIndex, gen uint32, u *update) {
	s.now = now
	s.sets(func(t *set) {
		if t.askedGen != gen || t.laneIndex() != lane {
			return
		}
		if !t.settled && t.first.IsZero() {
			t.first, t.lastNew = now, now.Add(s.cfg().FirmSettle-s.cfg().Settle)
		}
		t.noteUnrelated(gen, u)
	})
}

// countStrays counts what none of several maps applied (RELAY-28), and how many of these variants
// match no map at all.
func (k *store) countStrays(a *Applied, asked []*shard, u *update) {
	offered := map[xds.Identity]int{}
	for _, s := range asked {
		if s.updateShare == nil {
			continue
		}
		for i := range s.updateShare.Resources {
			offered[s.updateShare.Resources[i].Identity()]++
		}
		for _, e := range s.updateShare.Errors {
			offered[xds.IdentityOf(e)]++
		}
	}
	stray := func(id xds.Identity) bool {
		n := offered[id]
		if n > 0 && (a.strays == nil || a.strays[id] < n) {
			return false // for a single map, ignore has counted it
		}
		a.stray(id.Name)
		asked[0].unrequested++
		return true
	}
	for i := range u.Resources {
		r := &u.Resources[i]
		if stray(r.Identity()) && r.Constraints != nil && len(k.shardsMatching(r.Constraints)) == 0 {
			a.Unmatched++
		}
	}
	for _, e := range u.Errors {
		stray(xds.IdentityOf(e))
	}
}
