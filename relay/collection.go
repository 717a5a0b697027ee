package relay

import "github.com/weir-xds/weir/relay/xds"

// excerpt is what one response says of one collection.
type excerpt struct {
	update
	bodies []*xds.Variant
	// collectionError is what it says of the collection as a whole: an error, or that it is empty,
	// which is one for clients that speak state of the world.
	collectionError *NameError
}

// apply applies a response on the stream of generation gen to globs and namespaces. The first
// response of a stream, one that was refused in part, and the one after it concern all of them:
// what they do not bring for a collection may have been refused (RELAY-32).
func (c *collections) apply(a *Applied, u *update, bodies []*xds.Variant, gen uint32) {
	if len(c.byName) == 0 {
		return
	}
	parts, none := map[*set]*excerpt{}, u.bare()
	of := func(t *set) *excerpt {
		if parts[t] == nil {
			parts[t] = &excerpt{update: none}
		}
		return parts[t]
	}
	each := func(name string, f func(*excerpt)) {
		c.eachOf(gen, name, func(t *set) {
			if !c.predates(u, t, name) {
				f(of(t))
			}
		})
	}
	for i := range u.Resources {
		each(u.Resources[i].Name, func(p *excerpt) {
			p.Resources, p.bodies = append(p.Resources, u.Resources[i]), append(p.bodies, bodies[i])
		})
	}
	for _, name := range u.Whole {
		if t := c.byName[name]; t != nil && t.askedGen == gen {
			of(t).Full = true
		}
	}
	for _, name := range u.Removed {
		if t := c.byName[name]; t != nil && t.askedGen == gen && t.members.get(name) == nil {
			of(t).collectionError = notFound(name) // it is empty (COLL-3)
			continue
		}
		each(name, func(p *excerpt) { p.Removed = append(p.Removed, name) })
	}
	for _, r := range u.RemovedVariants {
		each(r.Name, func(p *excerpt) { p.RemovedVariants = append(p.RemovedVariants, r) })
	}
	for _, e := range u.Errors {
		if t := c.byName[e.Name]; t != nil && t.askedGen == gen && t.members.get(e.Name) == nil {
			of(t).collectionError = e
			continue
		}
		each(e.Name, func(p *excerpt) { p.Errors = append(p.Errors, e) })
	}
	first := c.gen != gen
	c.gen = gen
	if first || u.Bad || c.bad {
		for _, t := range c.byName {
			if t.askedGen == gen && parts[t] == nil {
				t.noteUnrelated(gen, u)
			}
		}
	}
	c.bad = u.Bad
	for t, p := range parts {
		t.applyPart(a, p, gen)
	}
}

// predates reports whether a response that waited (gather.go) is older than the present
// subscription to the collection: meanwhile the collection was asked anew on the same stream. It
// does not predate the subscription to `*` or to the name itself if that lasted all the while.
func (c *collections) predates(u *update, t *set, name string) bool {
	if !u.waited || u.asked >= t.askedAs {
		return false
	}
	if t.kind == namespace {
		return c.shard.star.askedGen != t.askedGen
	}
	e := c.shard.named.entries[name]
	return e == nil || !e.asksOn(t.askedGen)
}

// applyPart applies to a collection what the response says of it.
func (t *set) applyPart(a *Applied, p *excerpt, gen uint32) {
	s := t.shard
	if over := p.collectionError == nil && (len(p.Resources) > 0 || t.collectionErrorGen != gen) || p.collectionError != nil && p.collectionError.Own && t.collectionError != nil && !t.collectionError.Own; t.collectionError != nil && over {
		t.cured(s.rev) // it has members again
	}
	if p.collectionError != nil && t.freezes().Removals() && s.group.origin.ends(p.collectionError) {
		t.membersGo(p) // these removals wait for the thaw, and the error waits with them
		p.collectionError = nil
	}
	if p.collectionError != nil {
		t.fail(p, gen)
	}
	t.apply(a, &p.update, p.bodies, gen)
	if p.collectionError != nil && len(t.guard.held) > 0 && s.group.origin.ends(p.collectionError) {
		t.revise()
		t.guard.collectionError, t.collectionError, t.collectionErrorGen = p.collectionError, nil, 0
	}
	if p.collectionError != nil && s.group.origin.ends(p.collectionError) && !p.Bad {
		t.settled, t.firm = true, true // there is no more to come (COLL-3)
		t.wakeFresh()
	}
}

// fail applies an error of the collection. If the error ends the collection, every member is
// removed that the same response does not bring (COLL-3, ABS-12).
func (t *set) fail(p *excerpt, gen uint32) {
	if t.shard.group.origin.ends(p.collectionError) {
		t.membersGo(p)
	}
	if known := t.collectionError.Same(p.collectionError) && t.collectionError.Own == p.collectionError.Own; !known {
		t.collectionError = p.collectionError
	}
	t.collectionErrorGen = gen
	t.revise()
	t.notifyAll(t.shard.rev)
}

// membersGo adds to the response the removal of every member that it does not bring.
func (t *set) membersGo(p *excerpt) {
	brought := make(map[string]bool, len(p.Resources))
	for i := range p.Resources {
		brought[p.Resources[i].Name] = true
	}
	for m := range t.members.all() {
		if brought[m.name] {
			continue
		}
		for _, v := range m.variants {
			p.RemovedVariants = append(p.RemovedVariants, xds.RemovedVariant{Name: m.name, Constraints: v.Constraints.Key(), Set: v.Constraints})
		}
	}
}

// cured ends the error of a collection. Clients that were sent it are sent the members again, since
// they remember the error until something comes (ABS-7).
func (t *set) cured(rev uint64) {
	t.collectionError, t.collectionErrorGen = nil, 0
	t.revise()
	for v := range t.views.all() {
		for p := v.ordered.head; p != nil; p = p.next {
			if p.collectionError != nil && !p.collectionError.Own {
				p.resend = true
				p.sub.mark(rev)
			}
			p.collectionError = nil
		}
		for p := v.fresh.head; p != nil; p = p.next {
			p.collectionError = nil
		}
	}
}

// notifyAll marks every client of the set, including those that wait for its first answer.
func (t *set) notifyAll(rev uint64) {
	t.stated(rev)
	for v := range t.views.all() {
		for p := v.fresh.head; p != nil; p = p.next {
			p.sub.arrived()
			p.sub.mark(rev)
		}
	}
}

// noteUnrelated notes a response on the set's stream that says nothing of the set. Such a response
// begins the pause before a sweep (RELAY-46).
func (t *set) noteUnrelated(gen uint32, u *update) {
	now := t.shard.now
	bare := u.bare()
	if t.note(&bare); u.Bad {
		t.sweepGen = 0
	}
	if t.sweepGen == gen && t.sweepFirst.IsZero() {
		t.sweepFirst, t.sweepLastNew = now, now
	}
	t.startPause(now)
}

// cover reports whether a collection asked for a resource of that name (RELAY-28).
func (c *collections) cover(gen uint32, name string) (picked bool) {
	c.eachOf(gen, name, func(*set) { picked = true })
	return picked
}

// newCollectionError is the error of the collection as a whole, if the client was not sent it yet
// (ABS-12).
func (p *position) newCollectionError() *NameError {
	t, s := p.view.set, p.sub
	if p.unavailableDue {
		p.unavailableDue = false
		if p.fresh {
			p.collectionError = s.shard.group.origin.unreachable(t.selector)
			return p.collectionError
		}
	}
	switch f := t.collectionError; {
	case f == nil || f == p.collectionError, f.Own && s.delta, !t.lane().live(t.collectionErrorGen):
		return nil
	default:
		p.collectionError = f
		return f
	}
}

// applySets applies a response on the stream that carries the type's sets: `*`, namespaces, or
// both. If it carries both, a resource that came for one of them may belong to either.
func (s *shard) applySets(a *Applied, u *update, bodies []*xds.Variant, gen uint32, from *xds.Provenance) {
	if s.star.askedGen == gen {
		s.star.apply(a, u, bodies, gen)
		if !u.Heartbeats && (a.Changed+a.Resumed > 0 || u.Full && !u.Bad) && (a.Waiting == 0 || !u.Full) {
			if s.star.from = from; s.group.config().OriginVersions {
				s.star.revise() // its version is a part of the state
			}
		}
	} else {
		for i := range u.Resources {
			s.stray(a, gen, u.Resources[i].Identity())
		}
		for _, e := range u.Errors {
			s.strayError(a, gen, e)
		}
	}
	s.collections.apply(a, u, bodies, gen)
}

// stray counts a resource that was not asked for by name or by `*`, unless a collection covers it
// (RELAY-28, COLL-5).
func (s *shard) stray(a *Applied, gen uint32, id xds.Identity) {
	if !s.collections.cover(gen, id.Name) {
		s.ignore(a, id)
	}
}

// strayError does the same for an error, which may be that of a collection as a whole.
func (s *shard) strayError(a *Applied, gen uint32, e *NameError) {
	if t := s.collections.byName[e.Name]; t == nil || t.askedGen != gen {
		s.stray(a, gen, xds.IdentityOf(e))
	}
}

// memberBodies are the variants of a name that a collection asked on the stream of generation gen
// holds.
func (c *collections) memberBodies(gen uint32, name string) (vs []*xds.Variant) {
	c.eachOf(gen, name, func(t *set) {
		if m := t.members.get(name); m != nil && !t.guard.holdsAny(&m.held) {
			vs = m.variants
		}
	})
	return vs
}

// shareMember fills a new entry with what a glob on the same stream holds of the name. Many servers
// do not send again what they have sent on a stream, so it stands in until the name itself is
// answered (RELAY-25).
func (n *namedTable) shareMember(e *entry) {
	if len(n.shard.collections.byName) == 0 || len(e.variants) > 0 || !xds.IsNewStyle(e.name) {
		return
	}
	for _, v := range n.shard.collections.memberBodies(n.shard.lane(n.lane).gen.Load(), e.name) {
		n.hold(e, v)
	}
	if len(e.variants) > 0 {
		restored := false
		n.shard.collections.covering(e.name, func(t *set) { restored = restored || t.unconfirmed() })
		e.onRestored(restored)
	}
	if n.revise(e); e.also != nil {
		n.other.list(e.also)
	}
}
