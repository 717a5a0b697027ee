package relay

import (
	"maps"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/xds"
)

// A group that is held at a state: its clients are given that, whatever the origin says. A rollback
// holds a group at an earlier state of its own, and a canary gate holds one at what another group
// had.
//
// A held group is as one of a frozen origin (freeze.go): what is urgent passes, and so does the
// first answer to what the state does not know. All else waits and is marked. What clients ask for
// anew comes from the state, if that has it, so that they get the same as the others.
//
// Urgent types are not rolled back: endpoints of an hour ago are gone, and certificates have
// expired. They come from the state only where the group has nothing of them any more.

// hold is what a group is held at. It is not changed.
type hold struct {
	state *State
	since time.Time
}

// untold is what a tier is held at before anybody says at what (tier.go): what it is answered
// first.
var untold = &hold{state: &State{}}

// holdOf is what a group is held at that is new; nil: it is not held.
func (o *Origin) holdOf(g *Group) *hold {
	h := o.holds[g.key]
	if h == nil && g.tier != Newest {
		return untold
	}
	return h
}

// Held is what Hold did.
type Held struct {
	Changed int // resources that are others now, new, or gone
	Unknown int // sets, and names, of which the state does not know what they were: they stay
}

// Hold gives the clients of a group a state, of all types at once, and keeps them there until Free.
// It is for the group of that key also if that has ended, or is not there yet. A state that knows
// nothing keeps the group at what it has. It locks the origin, and then all types of the group.
func (o *Origin) Hold(now time.Time, group string, at *State) (done Held) {
	h := &hold{at, now}
	at.prepare()
	o.mu.Lock()
	if o.holds == nil {
		o.holds = map[string]*hold{}
	}
	o.holds[group] = h
	g := o.groups[group]
	if g != nil {
		g.hold.Store(h)
	}
	o.mu.Unlock()
	if g == nil {
		return done
	}
	g.gathering.all() // what waits there was taken before
	stores := g.lockAll()
	defer g.unlockAll(stores)
	rev := o.table.rev.Add(1)
	for _, k := range stores {
		for _, s := range k.all {
			s.now, s.rev = now, rev
			s.edited()
			s.serve(at, &done)
			s.reviseVouched()
		}
	}
	return done
}

// Forget ends that a group is held that has ended. It locks the origin.
func (o *Origin) Forget(group string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.groups[group] == nil {
		delete(o.holds, group)
	}
}

// HeldAt is what the group of a key is held at, and since when; false: it is not held.
func (o *Origin) HeldAt(group string) (at *State, since time.Time, is bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.holds[group]
	if h == nil {
		return nil, since, false
	}
	return h.state, h.since, true
}

// inherit takes over which groups are held, from the part of the table that this one replaces. It
// locks both.
func (o *Origin) inherit(from *Origin) {
	from.mu.Lock()
	held := maps.Clone(from.holds)
	from.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.holds = held
	for _, g := range o.groups {
		g.hold.Store(o.holdOf(g))
	}
}

// Waiting is of how many resources the origin has something else than clients are kept at, and when
// that has changed last.
func (g *Group) Waiting() (n int, last time.Time) {
	for _, s := range *g.all.Load() {
		s.mu.Lock()
		n += len(s.frozen)
		last = later(last, s.frozenAt)
		s.mu.Unlock()
	}
	return n, last
}

// fill gives a set that nobody had asked for the members of the state that the group is held at.
func (t *set) fill() {
	s := t.shard
	h := s.group.hold.Load()
	if h == nil || t.settled || t.barred || t.members.len() > 0 {
		return
	}
	of, _ := h.state.of(s.typeURL, s.params)
	x := of.set(t.selector)
	if x == nil {
		return
	}
	s.nextRev()
	t.serve(x, &Held{})
}

// serve gives clients of the shard what it was in a state.
func (s *shard) serve(at *State, done *Held) {
	of, index := at.of(s.typeURL, s.params)
	if of == nil {
		return
	}
	s.sets(func(t *set) {
		switch x := of.set(t.selector); {
		case !t.isHeld() && !t.settled: // filled if somebody asks for it
		case x != nil:
			t.serve(x, done)
		case t.wanted():
			done.Unknown++
		}
	})
	s.named.serve(index.bodies, done)
	s.hear()
}

// stays reports whether what a set or a name has is to stay, and not to become what it was.
func (s *shard) stays(has, was *xds.Variant) bool {
	switch {
	case sameBody(has, was), was != nil && was.Expired(s.now):
		return true
	case has == nil:
		return false
	case has.DoNotCache && was == nil:
		return true // it is no part of any state
	}
	return s.class() != gate.Settings
}

// serve gives clients of the set what it was in a state. What it lacked then is unknown.
func (t *set) serve(x *SetAt, done *Held) {
	s := t.shard
	changed := done.Changed
	done.Unknown += len(x.Lacks)
	t.errorEnded = false
	common := 0
	for _, v := range x.Members {
		m := t.members.get(v.Name)
		if m == nil && v.Expired(s.now) {
			continue
		}
		if common++; m == nil {
			m = t.member(v.Name)
		}
		t.become(m, v, done)
	}
	if t.members.len() > common {
		t.keepOnly(x, done)
	}
	for name := range t.nameErrors.byName { // of what does not exist nothing else is to be said
		if t.members.get(name) == nil && !slices.Contains(x.Lacks, name) {
			t.clearError(name)
			t.errorEnded, s.errorsCut = true, true
		}
	}
	t.offerTouched()
	t.markChanged(s.rev)
	if t.errorEnded {
		t.stated(s.rev)
	}
	if len(t.nameErrors.byName) > 0 || !t.nameErrors.lackUntil.IsZero() {
		t.noteLack()
	}
	if t.filled = len(x.Lacks) > 0 && !t.settled; t.filled {
		return // a part of a set must not be sent (RELAY-81)
	}
	// What was restored stays unconfirmed if it is what the set is held at: a client may have
	// something newer (RELAY-96). What stood in is what the origin had now.
	if !t.settled || t.revived || !t.firm && (!t.restored || done.Changed > changed) {
		t.settled, t.firm, t.revived, t.fallback = true, true, false, false
		t.wakeFresh()
	}
}

// keepOnly drops the members that the set did not have in a state.
func (t *set) keepOnly(x *SetAt, done *Held) {
	had := xds.NamesOf(x.Members)
	for _, name := range x.Lacks {
		had[name] = true
	}
	for m := range t.members.all() {
		if !had[m.name] {
			t.become(m, nil, done)
		}
	}
}

// become gives a member another body, or none.
func (t *set) become(m *member, v *xds.Variant, done *Held) {
	s := t.shard
	if s.stays(t.given(m), v) {
		return
	}
	s.markLeft(t.selector, m.variants, v)
	t.guard.cancelAll(m.variants)
	t.touch(m)
	if t.clearError(m.name) { // with a body, or its removal (ABS-7)
		t.errorEnded, s.errorsCut = true, true
	}
	if m.variants = nil; v != nil {
		m.variants = []*xds.Variant{v}
		s.constrained = s.constrained || v.Constraints != nil
	}
	done.Changed++
}

// serve gives clients of the names what they were in a state. That a name did not exist then counts
// as the word of the stream on which it is asked, so that it is told to those who come back with
// it, too (RELAY-38).
func (n *namedTable) serve(bodies map[string]*xds.Variant, done *Held) {
	s := n.shard
	type becoming struct {
		entry *entry
		was   *xds.Variant
	}
	var changed []becoming // which is decided before anything is
	for _, e := range n.entries {
		switch v, known := n.was(e, bodies); {
		case !known:
			done.Unknown++
		case !s.stays(e.chosen, v) || v == nil && e.retired != nil:
			changed = append(changed, becoming{e, v})
		}
	}
	gone, marked := map[uint32][]*entry{}, map[string]bool{} // by the generation of the stream
	for _, x := range changed {
		e, v := x.entry, x.was
		s.errorsCut = s.errorsCut || e.nameError != nil
		n.markLeft(e, v, marked)
		n.guard.cancelAll(e.variants)
		if n.empty(e); v == nil {
			e.onNamed()
			gen := e.asked()
			if !n.isAsked(e) {
				gen = 0
			}
			gone[gen] = append(gone[gen], e)
			continue
		}
		n.hold(e, v)
		s.constrained = s.constrained || v.Constraints != nil
		n.touch(e, false)
	}
	done.Changed += len(changed)
	n.listAll()
	n.offerTouched(s.rev, 0)
	for gen, es := range gone {
		for _, e := range es {
			n.touch(e, true)
		}
		n.offerTouched(s.rev, gen)
	}
}

// markLeft is markLeft of the shard for an entry that becomes v. A resource is marked once, by
// whichever of its names it is had: marked has those that were. An alias that comes to stand for
// another resource, or for none, is marked by its own name.
func (n *namedTable) markLeft(e *entry, v *xds.Variant, marked map[string]bool) {
	has := e.name
	if len(e.variants) > 0 {
		has = e.variants[0].Name
	}
	becomes := has
	if v != nil {
		becomes = v.Name
	}
	switch {
	case has != becomes || has != e.name && v == nil:
		n.shard.markBound(e, v)
	case !marked[has]:
		marked[has] = true
		n.shard.markLeft("", e.variants, v)
	}
}

// markLeft marks that the origin has something else of a resource than the state that it becomes.
// What was not marked was as the origin has it. The mark ends where it becomes that again.
func (s *shard) markLeft(selector string, has []*xds.Variant, becomes *xds.Variant) {
	mark := func(v *xds.Variant, d xds.Digest) {
		x := frozenResource{selector, xds.Identity{Name: v.Name, Constraints: v.Constraints.Key()}}
		will := xds.Digest{}
		if becomes != nil && becomes.Name == v.Name && becomes.Constraints.Key() == x.Constraints {
			will = becomes.Digest
		}
		switch was, known := s.frozen[x]; {
		case !known:
			s.mark(x, d)
		case was == will:
			delete(s.frozen, x)
		}
	}
	for _, v := range has {
		mark(v, v.Digest)
	}
	if becomes != nil && find(has, becomes.Constraints.Key()) == nil {
		mark(becomes, xds.Digest{})
	}
}
