package relay

import (
	"maps"
	"slices"
)

// takeDelta makes a delta answer: what changed, was removed or is owed, of sets and of names.
func (s *Sub) takeDelta(k Deferral) *Answer {
	s.endDeferrals(k)
	base, must, rev := s.takeSets()
	if len(s.dirty) == 0 && s.alias.none() {
		return s.taken(&Answer{Body: noBody, Rev: rev}, base, must)
	}
	a := newAnswer()
	own, errs, absences := a.Body, []*NameError(nil), 0
	s.eachDirty(func(r *record) {
		if r.defersEmpty(k) {
			return
		}
		had, held := r.mayDefer(), r.hasHeld()
		what, body, at := r.settle()
		if f := r.errorFor(what); f != nil {
			errs, at = append(errs, f), max(at, r.entry.rev)
			rev = max(rev, at)
		}
		switch what {
		case resource:
			own.Variants = append(own.Variants, body)
			r.flags &^= hadRemoved
		case heartbeat:
			own.Heartbeats = append(own.Heartbeats, body)
		case removal:
			own.Removed = append(own.Removed, r.entry.name)
			if had {
				r.flags |= hadRemoved
			}
			if !held {
				absences++
			}
		default:
			return
		}
		rev = max(rev, at)
	}, func() bool { return absences == mostAbsences })
	// tested here, since tidy's frame alone would make a new writer's stack grow
	if !s.alias.none() {
		base, errs = s.tidy(own, base, errs)
	}
	a.Errors, a.Rev = errs, rev
	return s.taken(a, base, must)
}

// taken adds the part of the sets to what is sent by name. It returns nil if both have nothing.
// must: an empty answer is sent, too.
func (s *Sub) taken(a *Answer, base *Body, must bool) *Answer {
	switch own := a.Body; {
	case base == nil:
	case own.empty():
		a.Body = base
	default:
		own.Variants = append(own.Variants, base.Variants...)
		own.Heartbeats = append(own.Heartbeats, base.Heartbeats...)
		own.Removed = append(own.Removed, base.Removed...)
		own.spell(base.spelt)
	}
	for p := s.sets.first; p != nil; p = p.also {
		s.addErrors(a, p)
	}
	if !must && a.emptyInDelta() && len(a.Errors) == 0 {
		return nil
	}
	return a
}

// addErrors adds the errors of a set's members and of the set itself. That a member does not exist
// is stated both as an error and as a removal, since older clients ignore errors (ABS-9).
func (s *Sub) addErrors(a *Answer, p *position) {
	if f := p.newCollectionError(); f != nil {
		a.Errors, a.Rev = append(a.Errors, f), max(a.Rev, s.shard.rev)
	}
	if p.fresh {
		return
	}
	errs, rev := s.takeErrors(p, a)
	if len(errs)+len(p.spared) == 0 {
		return
	}
	a.Errors, a.Rev = append(a.Errors, errs...), max(a.Rev, rev)
	removed := make(map[string]bool, len(a.Removed))
	for _, name := range a.Removed {
		removed[name] = true
		delete(p.spared, name)
	}
	all := &Body{ // a.Body may be shared
		Variants: a.Variants, Heartbeats: a.Heartbeats, Removed: slices.Clone(a.Removed), spelt: maps.Clone(a.spelt),
	}
	for _, name := range s.endSpared(p) {
		removed[name] = true
		all.remove(name, "")
	}
	for _, e := range errs {
		if s.shard.group.origin.ends(e) && !removed[e.Name] {
			all.remove(e.Name, e.Spelt)
		}
	}
	if len(all.Removed) > len(a.Removed) {
		a.Body = all
	}
}
