package relay

import (
	"maps"
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// changes makes an answer of what changed, was removed or is owed, of sets and of names. It is for
// delta, and for SotW of a grouped type (SOTW-3, COLL-2), which cannot express a removal
// (RELAY-16).
func (t *take) changes() *Answer {
	s := t.sub
	t.endDeferrals()
	base, must, rev := s.takeSets() // first, since it may mark names as dirty
	if !s.delta {
		t.a = newAnswer()
		t.names()
		s.sets.prune() // names look at what left the sets
		t.members(base, rev)
		t.setErrors()
		return t.finishChanged()
	}
	if len(s.dirty) == 0 && s.alias.none() {
		t.a = &Answer{Body: noBody, Rev: rev}
	} else {
		t.a = newAnswer()
		t.names()
		t.a.Rev = max(t.a.Rev, rev)
		// tested here, since tidy's frame alone would make a new writer's stack grow
		if !s.alias.none() {
			base, t.a.Errors = s.tidy(t.a.Body, base, t.a.Errors)
		}
		s.takeBack(t.a.Variants)
	}
	s.sets.prune()
	switch own := t.a.Body; {
	case base == nil:
	case own.empty():
		t.a.Body = base
	default:
		own.Variants = append(own.Variants, base.Variants...)
		own.Heartbeats = append(own.Heartbeats, base.Heartbeats...)
		own.Removed = append(own.Removed, base.Removed...)
		own.spell(base.spelt)
	}
	t.setErrors()
	if !must && t.a.emptyInDelta() && len(t.a.Errors) == 0 {
		return nil
	}
	return t.a
}

// names adds what the client has to be sent of the names that were marked.
func (t *take) names() {
	s, a := t.sub, t.a
	absences, size := 0, 0 // size is that of the errors
	s.eachDirty(func(r *record) {
		full := !s.delta && size > errorBytes // more errors come with the next answer (TRANS-10)
		if !s.delta && r.isWithheld() {
			if full {
				r.lookAgain()
			} else if f := r.withhold(); f != nil {
				a.Errors, size = append(a.Errors, f), size+f.Size()
			}
			return
		}
		if r.defersEmpty(t) {
			return
		}
		name, had, back, held := r.entry.name, r.mayDefer(), r.back(), r.hasHeld()
		what, body, rev := r.settle()
		switch {
		case what == resource:
			a.Variants = append(a.Variants, body)
			r.flags &^= hadRemoved
		case what == heartbeat:
			a.Heartbeats = append(a.Heartbeats, body)
			if !s.delta {
				t.renewed = append(t.renewed, r)
			}
		case what == removal && s.delta:
			a.Removed = append(a.Removed, name)
			if had {
				r.flags |= hadRemoved
			}
			if !held {
				absences++
			}
		case what == removal && had && t.deferRemoval(name, deferredRemoval{named: true, returned: back}),
			what == nothing && s.deferred.has(name):
			return // it is sent when the deferral ends
		default:
			rev = 0
		}
		a.Rev = max(a.Rev, rev)
		if full {
			r.lookAgain()
		} else if f := r.errorFor(what); f != nil {
			a.Errors, a.Rev, size = append(a.Errors, f), max(a.Rev, r.entry.rev), size+f.Size()
		}
	}, func() bool { return absences == mostAbsences })
	if !s.delta && len(s.alias.of) > 0 {
		listed := map[string]bool{}
		a.Variants = s.onceEach(a.Variants, listed)
		a.Heartbeats = s.onceEach(a.Heartbeats, listed)
	}
}

// setErrors adds the errors of the sets and of their members.
func (t *take) setErrors() {
	for p := t.sub.sets.first; p != nil; p = p.also {
		p.addErrors(t.a)
	}
}

// addErrors adds the errors of a set's members and of the set itself. In delta, that a member does
// not exist is stated both as an error and as a removal, since older clients ignore errors (ABS-9).
func (p *position) addErrors(a *Answer) {
	s := p.sub
	if f := p.newCollectionError(); f != nil {
		a.Errors, a.Rev = append(a.Errors, f), max(a.Rev, s.shard.rev)
	}
	if p.fresh {
		return
	}
	errs, rev := p.takeErrors(a)
	if len(errs)+len(p.spared) == 0 {
		return
	}
	a.Errors, a.Rev = append(a.Errors, errs...), max(a.Rev, rev)
	if !s.delta {
		return
	}
	removed := make(map[string]bool, len(a.Removed))
	for _, name := range a.Removed {
		removed[name] = true
		delete(p.spared, name)
	}
	all := &Body{ // a.Body may be shared
		Variants: a.Variants, Heartbeats: a.Heartbeats, Removed: slices.Clone(a.Removed), spelt: maps.Clone(a.spelt),
	}
	for _, name := range p.endSpared() {
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

// members adds the changed members of collections for a SotW client. They are sent as bodies,
// even if only the TTL changed. A body is withheld if the client could not be sent its expiry
// (RELAY-51).
func (t *take) members(base *Body, rev uint64) {
	s, a := t.sub, t.a
	if base == nil {
		return
	}
	for _, vs := range [][]*xds.Variant{base.Variants, base.Heartbeats} {
		for _, v := range vs {
			if a.Rev = max(a.Rev, rev); s.withholds(v) {
				a.Errors = append(a.Errors, withheld(v.Name))
			} else {
				a.Variants = append(a.Variants, v)
			}
		}
	}
}

// finishChanged makes a SotW answer of what was found; nil: it has nothing.
func (t *take) finishChanged() *Answer {
	s, a := t.sub, t.a
	if len(a.Variants)+len(a.Heartbeats)+len(a.Errors) == 0 {
		return nil
	}
	if len(a.Heartbeats) > 0 && (len(a.Variants)+len(a.Errors) > 0 || s.inUnion || s.version == "" || s.unaccepted.last(s.takes) != accepted) {
		// A heartbeat is sent under the version that the client has accepted, and without anything
		// else (TTL-9).
		a.Variants, a.Heartbeats = append(a.Variants, a.Heartbeats...), nil
		for _, r := range t.renewed {
			r.at = s.takes + 1
		}
	}
	var few [4]xds.SetDigest
	a.Version = xds.JoinSets(s.heldSets(few[:0])).Version()
	return a
}

// errorFor is the error that the client has to be sent of a name, once; nil: there is none. what is
// sent of the name in the same answer. If that is its body, the error follows in a response of its
// own (ABS-9, ABS-11). Like an absence, an error is valid only as long as the upstream stream on
// which it was stated (RELAY-38). A TTL that has passed is the exception: a client that held the
// body is sent that error with or without a stream.
func (r *record) errorFor(what event) *NameError {
	s := r.sub
	e, sent := r.entry, what == resource || what == heartbeat
	if what == resource {
		r.setLastError(nil) // the body ends the error that was sent before
	}
	if r.is(unavailableDue) {
		r.flags &^= unavailableDue
		if r.is(owed) && !sent {
			r.setLastError(s.shard.group.origin.unreachable(e.name))
			return r.lastError()
		}
	}
	switch f := e.nameError; {
	case f == nil:
		if what == removal {
			r.setLastError(nil)
		}
		// Otherwise the client remembers the error until the resource arrives, which may be held
		// back for now (ABS-7).
		return nil
	case f == r.lastError(), f.Own && s.delta:
		return nil
	case r.isDenied(), f.Name != e.name && !s.permit.Allows(f.Name):
		return nil // it is of a resource that the client may not have, and the name an alias
	case (!s.shard.named.isAsked(e) || !e.isAnswered()) && !(f.Expired && what == removal):
		return nil
	case !sent && s.inSet(e) && s.shard.group.origin.ends(f):
		return nil // the name is gone only if neither holds it (RELAY-25)
	case sent:
		r.markDirty(e.rev)
		return nil
	default:
		// A name without a body stays owed: the client has still to be sent whether it exists
		// (ABS-4).
		s.answeredDemand = s.answeredDemand || r.is(demanded)
		r.setLastError(f)
		return r.about(f)
	}
}

// inSet reports whether the client has the name's resource by a set.
func (s *Sub) inSet(e *entry) bool {
	name := e.name
	if e.chosen != nil {
		name = e.chosen.Name
	}
	it, _ := s.sets.itemOf(name)
	return it != nil
}
