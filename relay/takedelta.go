package relay

import (
	"maps"
	"slices"
)

// takeDelta makes a delta answer: what changed, was removed or is owed, of sets and of names.
func (s *Sub) takeDelta(k Deferral) *Answer {
	s.endDeferrals(k)
	base, must, rev := s.takeSets()
	if len(s.dirty)+len(s.sets.again) == 0 && s.alias.none() {
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
	if s.sets.more == nil {
		rev = max(rev, s.takeAgain(base, own))
	}
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

// takeSets takes what the subscribed sets have for the client.
func (s *Sub) takeSets() (b *Body, must bool, rev uint64) {
	if s.sets.more != nil {
		return s.takeOverlap()
	}
	return s.takeView()
}

// takeView takes the part of a delta answer that a client's only set has. It leaves out names that
// have a record. must: the answer is sent even if it is empty (DELTA-13).
func (s *Sub) takeView() (b *Body, must bool, rev uint64) {
	p := s.sets.first
	if p == nil {
		return nil, false, 0
	}
	v := p.view
	switch {
	case p.blocked(), p.defersRemoval():
		return nil, false, 0
	case p.fresh:
		must, rev = true, v.contentRev
		p.shownEarly = !v.set.settled
		v.set.shownEarly = v.set.shownEarly || p.shownEarly
		b = s.own(v.fullBody(s.delta), true)
		s.initial, s.stated = nil, nil
		s.holds = false
	case p.resend:
		must, rev = true, v.contentRev
		full, recent := v.fullBody(s.delta), v.since(p.sent)
		all := &Body{
			Variants: full.Variants, Removed: recent.Removed, spelt: recent.spelt, nameless: full.nameless || recent.nameless, of: full,
		}
		b = s.own(all, false)
	case v.contentRev > p.sent:
		rev = v.contentRev
		b = s.own(s.renewed(p, v.since(p.sent)), false)
	default:
		return nil, false, 0
	}
	b = b.named()
	if v.live == 0 && v.set.kind != wild && must {
		// ^the present body may be shared
		b = &Body{Variants: b.Variants, Removed: slices.Clone(b.Removed), spelt: maps.Clone(b.spelt)}
		p.empty(b)
	}
	p.resend = false
	v.passed(p, v.contentRev)
	return b, must, rev
}

// lookAt marks the records of a resource as dirty, and reports whether there are any.
func (s *Sub) lookAt(name string) bool {
	r, also := s.record(name), s.alias.by[name]
	if r != nil {
		r.lookAgain()
	}
	for _, r := range also {
		r.lookAgain()
	}
	return r != nil || len(also) > 0
}

// own is a view's body for one client. Names with a record are left out, and their records are
// marked as dirty. The first answer also leaves out what the client already holds, and has removals
// of what the client holds and no longer exists (DELTA-11, DELTA-12). If nothing of this applies,
// the result is the shared body itself.
func (s *Sub) own(b *Body, first bool) *Body {
	if s.records.len() == 0 && (!first || len(s.initial) == 0) && (len(b.Heartbeats) == 0 || len(s.sets.again) == 0) {
		return b
	}
	own := &Body{nameless: b.nameless, spelt: maps.Clone(b.spelt)}
	skip := func(name string) bool {
		if r := s.record(name); r != nil {
			s.renewedInSet(s.sets.first, r, first)
		}
		for _, r := range s.alias.by[name] {
			s.renewedInSet(s.sets.first, r, first)
		}
		return s.lookAt(name)
	}
	for _, v := range b.Heartbeats {
		// what is owed is sent with its body
		if _, again := s.sets.again[v.Name]; !skip(v.Name) && !again {
			own.Heartbeats = append(own.Heartbeats, v)
		}
	}
	for _, v := range b.Variants {
		if skip(v.Name) {
			continue
		}
		if d, stated := s.initial[v.Name]; first && stated && v.ClaimedAs(d) {
			if s.ttl && v.Timed() { // it may have missed a TTL while it was away
				own.Heartbeats = append(own.Heartbeats, v)
			}
			continue
		}
		own.Variants = append(own.Variants, v)
	}
	for _, name := range b.Removed {
		if !skip(name) {
			own.Removed = append(own.Removed, name)
		}
	}
	if first {
		for name := range s.initial {
			switch {
			case s.sets.first.view.has(name), !s.sets.first.view.set.includes(name), skip(name), s.sets.spared(name):
			case s.alias.undecided > 0: // an alias may stand for it
				s.alias.deferred = append(s.alias.deferred, heldName{name: name, spelt: s.stated[name]})
			default:
				own.remove(name, s.stated[name])
			}
		}
	}
	return own
}

// takeAgain answers unsubscribes of names that the client's only set still covers: with the
// resource if it is in the set, else with a removal (DELTA-9).
func (s *Sub) takeAgain(base, own *Body) (rev uint64) {
	if len(s.sets.again) == 0 || s.sets.first == nil || s.sets.first.fresh {
		return 0
	}
	listed := map[string]bool{} // DELTA-20
	if base != nil {
		for _, v := range base.Variants {
			listed[v.Name] = true
		}
		for _, name := range base.Removed {
			listed[name] = true
		}
	}
	for name, spelt := range s.sets.again {
		it := s.sets.first.view.item(name)
		s.sets.first.errorAgain(name)
		switch {
		case listed[name] || s.record(name) != nil || len(s.alias.by[name]) > 0:
		case it != nil && !it.dead:
			own.Variants = append(own.Variants, it.variant)
			rev = max(rev, it.rev)
		case s.sets.spared(name):
		default:
			own.remove(name, spelt)
		}
	}
	s.sets.again = nil
	return rev
}
