package relay

import "github.com/weir-xds/weir/relay/xds"

// member is one name of the set: its variants by constraints.
type member struct {
	held
	listed uint64 // revision of the last response that listed it
	// in the view of those who are told no TTLs, since it was offered last; nil: none
	item *item
}

// member finds or makes the member of that name.
func (t *set) member(name string) *member {
	m := t.members[name]
	if m == nil {
		m = newMember(name)
		t.members[name] = m
	}
	return m
}

func newMember(name string) *member { return &member{held: held{name: name}} }

// touchedMembers are those to be offered anew, in the order in which the response speaks of them.
type touchedMembers []*member

func (ms *touchedMembers) add(m *member) {
	if m.touched == untouched {
		m.touched = spokenOf
		*ms = append(*ms, m)
	}
}

// offerAll offers them.
func (t *set) offerAll(ms *touchedMembers, rev uint64) {
	for _, m := range *ms {
		m.touched = untouched
		t.offer(m, rev)
	}
}

// apply takes up what a response says of the set.
func (t *set) apply(a *Applied, u *update, bodies []*Variant, gen uint32) {
	s, rev := t.shard, t.shard.rev
	if u.Heartbeats { // nothing else is said by it (TTL-12)
		t.heardAll(a, u, bodies, gen)
		return
	}
	ended := t.answeredGen != gen && t.rollErrors(rev)
	counts := t.hears(gen)
	news, unmentioned, stays := false, false, false
	touched := &touchedMembers{}
	t.expectMembers(len(bodies))
	for i, body := range bodies {
		name := u.Resources[i].Name
		m := u.member(t, i, gen)
		if body == nil {
			t.heard(a, u, &u.Resources[i], gen, touched)
			continue
		}
		t.guard.cancel(identity{name, body.Constraints.Key()})
		if !t.passes(body, m.bodies()) {
			t.mentioned(m, gen)
			stays = t.nameErrors.carryOver(s.now, name, gen, rev) || stays
			a.Waiting++
			continue
		}
		delete(t.refetch, name)
		if m == nil {
			m, news = t.member(name), true
		}
		unmentioned = unmentioned || !m.seenOn(gen)
		m.onMentioned(gen)
		t.list(m, rev)
		t.swap(a, m, body, touched)
		if t.nameErrors.clear(name) && m.touched == untouched {
			for _, v := range t.views {
				v.renew(name, rev)
			}
		}
	}
	kept, confirmed := t.screen(t.leaving(u, rev, gen), counts, u.Full || u.listed)
	a.Waiting += t.countFrozen(kept)
	ended = t.removeMembers(a, u, touched, kept) || ended
	stated := t.failMembers(a, u, touched, kept, rev, gen) || stays
	ended = t.omitMembers(a, u, touched, kept, rev, gen) || ended
	t.offerAll(touched, rev)
	if (unmentioned || stated) && t.sweepGen == gen {
		t.sweepLastNew = s.now
	}
	t.answered(s.now, gen, news, u)
	t.markChanged(rev)
	t.boundErrors(a)
	if len(t.nameErrors.byName) > 0 || !t.nameErrors.lackUntil.IsZero() {
		t.noteLack()
	}
	if stated || ended {
		t.stated(rev)
	}
	if confirmed {
		a.Changed += t.releaseHeld()
	}
	if len(t.uncached) > 0 && t.clients == 0 && t.wanted() {
		t.abandon()
	}
}

// swap puts a body into its member. Equal content under another origin version replaces the
// pointer and is no event.
func (t *set) swap(a *Applied, m *member, body *Variant, touched *touchedMembers) {
	old := find(m.variants, body.Constraints.Key())
	if old == body {
		a.Resumed++
		return
	}
	m.variants = put(m.variants, body)
	if old != nil && old.Digest == body.Digest {
		a.Resumed++
		t.shard.trackExpiry(expiringKey{t, m.name}, m.variants)
		t.noteUncached(m)
		for _, v := range t.views {
			v.offer(m, t.shard.rev)
		}
		return
	}
	touched.add(m)
	a.Changed++
}

// heardAll takes up a response of heartbeats.
func (t *set) heardAll(a *Applied, u *update, bodies []*Variant, gen uint32) {
	touched := &touchedMembers{}
	for i := range bodies {
		t.heard(a, u, &u.Resources[i], gen, touched)
	}
	t.offerAll(touched, t.shard.rev)
	t.markChanged(t.shard.rev)
}

// removeMembers takes up the removals. ended: one of them ended an error.
func (t *set) removeMembers(a *Applied, u *update, touched *touchedMembers, kept map[identity]bool) (ended bool) {
	remove := func(name, key string) {
		if kept[identity{name, key}] {
			return
		}
		ended = t.nameErrors.clear(name) || ended
		m := t.members[name]
		if m == nil || find(m.variants, key) == nil {
			return // DEL-4
		}
		if u.listed {
			t.shard.noteLeftOut(m.variants)
		}
		m.variants = cut(m.variants, key)
		touched.add(m)
		a.Changed++
	}
	for _, name := range u.Removed {
		remove(name, "")
	}
	for _, r := range u.RemovedVariants {
		remove(r.Name, r.Constraints)
	}
	return ended
}

// failMembers takes up the errors, of members and of what could have been one, and reports
// whether any has to be told. The body goes or stays (ABS-8).
func (t *set) failMembers(a *Applied, u *update, touched *touchedMembers, kept map[identity]bool, rev uint64, gen uint32) (stated bool) {
	for _, e := range u.Errors {
		if m := t.members[e.Name]; len(kept) > 0 && m != nil && t.shard.group.origin.ends(e) && m.isIn(kept) {
			continue // that it is gone is not told before it is
		}
		if e.Name == xds.Wildcard || e.Name == "" { // `*` itself cannot carry one (ABS-12)
			a.Unrequested++
			t.shard.unrequested++
			continue
		}
		stated = t.nameErrors.note(t.shard.now, e, gen, rev) || stated
		switch m := t.members[e.Name]; {
		case m == nil:
		case !t.shard.group.origin.ends(e):
			m.onMentioned(gen) // it was mentioned: no sweep takes what stays in use (RELAY-46)
			t.guard.cancelAll(m.variants)
		case len(m.variants) > 0:
			m.variants = nil
			touched.add(m)
			a.Changed++
		}
	}
	return stated
}

// omitMembers removes what a full response leaves out. A response with a bad part proves no
// absence (RELAY-32), nor does one of a type in `absence_keeps`, nor does it prove any of what is
// in error (ABS-8, ABS-11).
func (t *set) omitMembers(a *Applied, u *update, touched *touchedMembers, kept map[identity]bool, rev uint64, gen uint32) (ended bool) {
	if !t.omits(u) {
		return false
	}
	if t.listsAll(rev) {
		return t.forgetErrors(gen, rev)
	}
	for _, m := range t.members {
		if m.listed != rev && len(m.variants) > 0 && !u.later[m.name] && !t.nameErrors.keepsBody(m.name, gen) && !m.isIn(kept) {
			t.nameErrors.clear(m.name)
			t.shard.noteLeftOut(m.variants)
			m.variants = nil
			touched.add(m)
			a.Changed++
		}
	}
	return t.forgetErrors(gen, rev)
}

// boundErrors keeps the errors bounded by the members.
func (t *set) boundErrors(a *Applied) {
	n := t.nameErrors.bound(len(t.members) + spareErrors)
	a.Unrequested += n
	t.shard.unrequested += uint64(n)
}

// omits reports whether what the response leaves out is gone.
func (t *set) omits(u *update) bool {
	return u.Full && !u.Bad && t.shard.group.origin.config().absenceDeletes(u.TypeURL)
}

// leaving is what a response takes away, by whatever it says. Its bodies have been taken up,
// and nothing else.
func (t *set) leaving(u *update, rev uint64, gen uint32) (ps []pendingRemoval) {
	all := func(m *member, err *NameError) {
		for _, v := range m.variants {
			ps = append(ps, pendingRemoval{identity{m.name, v.Constraints.Key()}, err, m.seenOn(gen)})
		}
	}
	one := func(name, key string) {
		if m := t.members[name]; m != nil && find(m.variants, key) != nil && !replaced(m.variants, key, rev) {
			ps = append(ps, pendingRemoval{identity{name, key}, nil, m.seenOn(gen)})
		}
	}
	for _, name := range u.Removed {
		one(name, "")
	}
	for _, r := range u.RemovedVariants {
		one(r.Name, r.Constraints)
	}
	inError := u.inError()
	for _, e := range u.Errors {
		if m := t.members[e.Name]; m != nil && t.shard.group.origin.ends(e) {
			all(m, e)
		}
	}
	if t.omits(u) && !t.listsAll(rev) {
		for _, m := range t.members {
			if m.listed != rev && !u.later[m.name] && !inError[m.name] && !t.nameErrors.keepsBody(m.name, gen) {
				all(m, nil)
			}
		}
	}
	return ps
}

// bodies are the variants of a member, which may be none.
func (m *member) bodies() []*Variant {
	if m == nil {
		return nil
	}
	return m.variants
}

// mentioned notes that the origin has the member, without taking what it says of it.
func (t *set) mentioned(m *member, gen uint32) {
	if m != nil {
		m.onMentioned(gen)
		t.list(m, t.shard.rev)
	}
}

// itemOf is the item of a member; nil: there is none. A look-up costs more than all else that is
// done for a member, so the member says. What it says of a dead item may be over, and where there
// are dead ones one may be of its name.
func (v *view) itemOf(m *member) *item {
	if it := m.item; !v.ttl && (it == nil && v.dead == 0 || it != nil && !it.dead) {
		return it
	}
	return v.items[m.name]
}
