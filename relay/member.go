package relay

import "github.com/weir-xds/weir/relay/xds"

// member finds or makes the member of that name.
func (t *set) member(name string) *member {
	m := t.members.get(name)
	if m == nil {
		m = newMember(name)
		t.members.put(m)
	}
	return m
}

// touch notes that the member has to be offered to clients again. It is called before the member is
// changed. Members are offered in the order of the response.
func (t *set) touch(m *member) {
	if m.touched == untouched {
		m.touched = spokenOf
		t.touched = append(t.touched, m)
		if t.shard.past.On() {
			t.were = append(t.were, t.given(m))
		}
	}
}

// offerTouched offers the members that a response touched.
func (t *set) offerTouched() {
	noted := len(t.were) == len(t.touched) // otherwise that has just begun, or ended
	for i, m := range t.touched {
		m.touched = untouched
		t.offer(m, t.shard.rev)
		if noted {
			t.noteChange(m, t.were[i])
		}
		if len(m.variants) == 0 { // what had retired by name is older than this statement
			t.shard.table().retired.take(t.shard.retiredKey(m.name))
		}
	}
	t.touched, t.were = nil, nil
}

// apply applies a response to the set.
func (t *set) apply(a *Applied, u *update, bodies []*xds.Variant, gen uint32) {
	s, rev := t.shard, t.shard.rev
	if u.Heartbeats { // nothing else is said by it (TTL-12)
		t.heardAll(a, u, bodies, gen)
		return
	}
	t.errorEnded = t.answeredGen != gen && t.rollErrors(rev)
	counts, waits := t.hears(gen), t.guard.restored
	news, unmentioned, stays := false, false, false
	t.expectMembers(len(bodies))
	for i, body := range bodies {
		name := u.Resources[i].Name
		m := u.member(t, i, gen)
		if body == nil {
			t.heard(a, u, &u.Resources[i], gen)
			continue
		}
		t.guard.cancel(xds.Identity{Name: name, Constraints: body.Constraints.Key()})
		if !t.passes(body, m.bodies()) {
			t.mentioned(m, gen)
			if t.nameErrors.byName[name] != nil && t.heldOut(name) { // what it is held at settles it
				t.clearError(name)
				t.errorEnded, s.errorsCut = true, true
			}
			stays = t.carryOver(name, gen, rev) || stays
			a.Waiting++
			continue
		}
		delete(t.refetch, name)
		if m == nil {
			m, news = t.member(body.Name), true // the name in memory that equal bodies share
		}
		unmentioned = unmentioned || !m.seenOn(gen)
		m.onMentioned(gen)
		t.list(m, rev)
		t.swap(a, m, body)
		if t.clearError(name) && m.touched == untouched {
			for v := range t.views.all() {
				v.renew(name, rev)
			}
		}
	}
	kept, confirmed := t.takeAway(a, u, gen, counts)
	stated := t.failMembers(a, u, kept, rev, gen) || stays
	t.dropOmitted(a, u, kept, gen)
	if t.omits(u) && t.forgetErrors(gen, rev) {
		t.errorEnded = true
	}
	t.offerTouched()
	if (unmentioned || stated) && t.sweepGen == gen {
		t.sweepLastNew = s.now
	}
	t.answered(s.now, gen, news, u)
	t.markChanged(rev)
	if waits && !t.guard.restored { // the origin has it after all
		t.wakeFresh()
	}
	dropped := t.boundErrors(t.members.len() + spareErrors)
	a.Unrequested += dropped
	s.unrequested += uint64(dropped)
	if len(t.nameErrors.byName) > 0 || !t.nameErrors.lackUntil.IsZero() {
		t.noteLack()
	}
	if stated || t.errorEnded {
		t.stated(rev)
	}
	if confirmed {
		a.Changed += t.releaseHeld()
	}
	if len(t.uncached) > 0 && t.clients == 0 && t.wanted() {
		t.abandon()
	}
}

// swap replaces the body of a member. If the content is equal and only the origin's version is
// another, clients are not notified.
func (t *set) swap(a *Applied, m *member, body *xds.Variant) {
	old := find(m.variants, body.Constraints.Key())
	if old != body {
		body = body.Share()
	}
	if old == body {
		a.Resumed++
		return
	}
	if old != nil && old.Digest == body.Digest {
		m.variants = put(m.variants, body)
		t.revise(m.name)
		a.Resumed++
		t.shard.expiring.track(expiringKey{t, m.name}, m.variants)
		t.noteUncached(m)
		for v := range t.views.all() {
			v.offer(m, t.shard.rev)
		}
		return
	}
	t.touch(m)
	m.variants = put(m.variants, body)
	a.Changed++
}

// heardAll applies a response that consists of heartbeats.
func (t *set) heardAll(a *Applied, u *update, bodies []*xds.Variant, gen uint32) {
	for i := range bodies {
		t.heard(a, u, &u.Resources[i], gen)
	}
	t.offerTouched()
	t.markChanged(t.shard.rev)
}

// failMembers applies the errors of members and of names that could be members. The body is removed
// or stays (ABS-8). It reports whether clients have to be sent any of the errors.
func (t *set) failMembers(a *Applied, u *update, kept map[xds.Identity]bool, rev uint64, gen uint32) (stated bool) {
	for _, e := range u.Errors {
		if m := t.members.get(e.Name); len(kept) > 0 && m != nil && t.shard.group.origin.ends(e) && m.isIn(kept) {
			continue // the error is sent with the removal, which is held back
		}
		if e.Name == xds.Wildcard || e.Name == "" { // `*` itself cannot carry one (ABS-12)
			a.Unrequested++
			t.shard.unrequested++
			continue
		}
		stated = t.noteError(e, gen, rev) || stated
		switch m := t.members.get(e.Name); {
		case m == nil:
		case !t.shard.group.origin.ends(e):
			m.onMentioned(gen) // so a sweep does not remove what stays in use (RELAY-46)
			t.guard.cancelAll(m.variants)
		case len(m.variants) > 0:
			t.touch(m)
			m.variants = nil
			a.Changed++
		}
	}
	return stated
}

func (t *set) answers(name string, gen uint32) (held []*xds.Variant, seen bool) {
	if m := t.members.get(name); m != nil {
		return m.variants, m.seenOn(gen)
	}
	return nil, false
}

// remove also ends the error of the name.
func (t *set) remove(id xds.Identity, _ uint32, kept bool) bool {
	if kept {
		return false
	}
	t.errorEnded = t.clearError(id.Name) || t.errorEnded
	m := t.members.get(id.Name)
	if m == nil || find(m.variants, id.Constraints) == nil {
		return false // DEL-4
	}
	t.touch(m)
	m.variants = cut(m.variants, id.Constraints)
	return true
}

func (t *set) drop(k known) {
	t.clearError(k.name)
	t.touch(k.member)
	k.member.variants = nil
}

// omits: a response with a bad part states no absence (RELAY-32), nor does one of a type in
// `absence_keeps`.
func (t *set) omits(u *update) bool {
	return u.Full && !u.Bad && t.shard.group.config().absenceDeletes(u.TypeURL)
}

// bodies are the variants of a member, which may be none.
func (m *member) bodies() []*xds.Variant {
	if m == nil {
		return nil
	}
	return m.variants
}

// mentioned notes that the origin has the member, while the body that came is withheld.
func (t *set) mentioned(m *member, gen uint32) {
	if m != nil {
		m.onMentioned(gen)
		t.list(m, t.shard.rev)
	}
}
