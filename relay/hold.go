package relay

import (
	"maps"
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
		}
	}
	return done
}

// Free ends that a group is held. The origin states the differences, as when a freeze ends. False:
// it was not held. A tier (tier.go) stays where it is held: it is for the canary gate to give it
// something else. It locks the origin, and the types of the group.
func (o *Origin) Free(group string) bool {
	o.mu.Lock()
	_, was := o.holds[group]
	if _, tier := CutTier(group); tier != Newest && o.Canaries() {
		o.mu.Unlock()
		return was
	}
	delete(o.holds, group)
	g := o.groups[group]
	if g != nil {
		g.hold.Store(nil)
	}
	o.mu.Unlock()
	if g != nil && !g.kept() {
		for _, s := range *g.all.Load() {
			s.thaw()
		}
	}
	return was
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

// Holds are the keys of all groups that are held, of which some may not be there, in no order.
func (o *Origin) Holds() (groups []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.holds {
		groups = append(groups, key)
	}
	return groups
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

// stateBody is the body that the group is held at, of a name that nobody had asked for; nil: none.
func (s *shard) stateBody(name string) *xds.Variant {
	h := s.group.hold.Load()
	if h == nil {
		return nil
	}
	if v := h.state.body(s.typeURL, s.params, name); v != nil && !v.Expired(s.now) {
		return v
	}
	return nil
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
	if x == nil || len(x.Lacks) > 0 {
		return
	}
	s.nextRev()
	t.serve(x, &Held{})
}

// serve gives clients of the shard what it was in a state.
func (s *shard) serve(at *State, done *Held) {
	of, _ := at.of(s.typeURL, s.params)
	if of == nil {
		return
	}
	s.sets(func(t *set) {
		switch x := of.set(t.selector); {
		case x != nil:
			t.serve(x, done)
		case t.wanted():
			done.Unknown++
		}
	})
	s.named.serve(of, done)
	s.unmark()
	s.spoken()
}

// stays reports whether what a set or a name has is to stay, and not to become what it was.
func (s *shard) stays(has, was *xds.Variant) bool {
	switch {
	case sameBody(has, was), was != nil && was.Expired(s.now):
		return true
	case has == nil:
		return false
	case has.DoNotCache:
		return true // it is no part of any state
	}
	return s.class() != gate.Settings
}

// serve gives clients of the set what it was in a state. What it lacked then is unknown.
func (t *set) serve(x *SetAt, done *Held) {
	s := t.shard
	was := make(map[string]*xds.Variant, len(x.Members))
	for _, v := range x.Members {
		was[v.Name] = v
	}
	done.Unknown += len(x.Lacks)
	changed := done.Changed
	for _, name := range x.Lacks {
		if m := t.members.get(name); m != nil {
			was[name] = t.given(m)
		}
	}
	for m := range t.members.all() {
		v := was[m.name]
		delete(was, m.name)
		t.become(m, v, done)
	}
	for name, v := range was {
		if v != nil && !v.Expired(s.now) {
			t.become(t.member(name), v, done)
		}
	}
	t.offerTouched()
	t.markChanged(s.rev)
	// What was restored stays unconfirmed if it is what the set is held at: a client may have
	// something newer (RELAY-96).
	if !t.settled || !t.firm && (!t.restored || done.Changed > changed) {
		t.settled, t.firm = true, true
		t.wakeFresh()
	}
}

// become gives a member another body, or none.
func (t *set) become(m *member, v *xds.Variant, done *Held) {
	s := t.shard
	if s.stays(t.given(m), v) {
		return
	}
	s.markLeft(t.selector, m.name, m.variants, v)
	t.guard.cancelAll(m.variants)
	t.touch(m)
	if m.variants = nil; v != nil {
		m.variants = []*xds.Variant{v}
		s.constrained = s.constrained || v.Constraints != nil
	}
	done.Changed++
}

// serve gives clients of the names what they were in a state.
func (n *namedTable) serve(of *TypeAt, done *Held) {
	s := n.shard
	for i := range of.Names {
		x := &of.Names[i]
		e := n.entries[x.Name]
		switch {
		case e == nil:
			continue
		case x.Unknown:
			done.Unknown++
			continue
		case s.stays(e.chosen, x.Variant):
			continue
		}
		s.markLeft("", e.name, e.variants, x.Variant)
		n.guard.cancelAll(e.variants)
		n.empty(e)
		if x.Variant != nil {
			n.hold(e, x.Variant)
			s.constrained = s.constrained || x.Variant.Constraints != nil
		}
		n.touch(e, x.Variant == nil)
		done.Changed++
	}
	for _, h := range n.other.held {
		n.other.list(h)
	}
	s.unshareTouched(n.offerTouched(s.rev, 0)...)
}

// markLeft marks that the origin has something else of a resource than the state that it becomes,
// unless that is known already. It was as the origin has it.
func (s *shard) markLeft(selector, name string, has []*xds.Variant, becomes *xds.Variant) {
	mark := func(id xds.Identity, d xds.Digest) {
		if _, known := s.frozen[frozenResource{selector, id}]; !known {
			s.mark(frozenResource{selector, id}, d)
		}
	}
	for _, v := range has {
		mark(xds.Identity{Name: v.Name, Constraints: v.Constraints.Key()}, v.Digest)
	}
	if becomes != nil && find(has, becomes.Constraints.Key()) == nil {
		mark(xds.Identity{Name: becomes.Name, Constraints: becomes.Constraints.Key()}, xds.Digest{})
	}
}

// unmark ends the marks of what is again as the origin has it.
func (s *shard) unmark() {
	for x, d := range s.frozen {
		var has xds.Digest
		if v := find(s.heldBy(x.selector, x.Name), x.Constraints); v != nil {
			has = v.Digest
		}
		if has == d {
			delete(s.frozen, x)
		}
	}
}

// heldBy are the variants that a set has of a resource, or those had by name if selector is empty.
func (s *shard) heldBy(selector, name string) (vs []*xds.Variant) {
	if selector == "" {
		for _, e := range s.named.holders(name) {
			vs = e.variants
		}
		return vs
	}
	s.sets(func(t *set) {
		if m := t.members.get(name); m != nil && t.selector == selector {
			vs = m.variants
		}
	})
	return vs
}
