package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/xds"
)

// A frozen origin as the table sees it. What passes and what waits package gate decides. The lanes
// that had anything wait are opened anew when the freeze ends, and what is presented there is what
// clients have, so the origin states the differences against that and they are applied as ever.
// Nothing waits on our side, so nothing there can grow old or be lost; should the origin be away by
// then, what is held stays until it is back.
//
// The freeze is the operator's alone, by a command or in the configuration file (cmd/weir): nothing
// else begins or ends it. A snapshot keeps it, with what it keeps clients at. TTLs run out as they
// do (RELAY-53), and heartbeats of what is held count.

// Freeze keeps clients at what they have, since the time given. False: it was frozen before.
// It locks each type for a moment.
func (o *Origin) Freeze(since time.Time) bool {
	if !o.frozen.CompareAndSwap(nil, &since) {
		return false
	}
	for _, g := range o.groupList() {
		for _, s := range *g.all.Load() {
			s.mu.Lock()
			s.reviseVouched() // what waits for the origin waits no longer
			s.unlock()
		}
	}
	return true
}

// Frozen is since when the origin is; false: it is not.
func (o *Origin) Frozen() (since time.Time, is bool) {
	if at := o.frozen.Load(); at != nil {
		return *at, true
	}
	return time.Time{}, false
}

// kept reports whether clients are kept at what they have: by a freeze of the origin, or by a hold.
func (g *Group) kept() bool { return g.origin.frozen.Load() != nil || g.hold.Load() != nil }

// freezes is which parts of a response have to wait while the origin is frozen, or the group held.
func (c *scope) freezes() (none gate.Waits) {
	if !c.shard.group.kept() {
		return none
	}
	of := c.of.subject()
	of.Class = c.shard.class()
	return of.Waits()
}

// class is that of the type with regard to a freeze, or a hold, for which it is configured what is
// urgent.
func (s *shard) class() gate.Class {
	if s.group.hold.Load() != nil {
		return s.group.origin.holdClass(s.typeURL)
	}
	return freezeClass(s.typeURL)
}

// holdClass is the class of a type with regard to a hold.
func (o *Origin) holdClass(typeURL string) gate.Class {
	urgent := o.config().Urgent
	is := func(t string) bool { return slices.Contains(urgent, t) }
	switch {
	case urgent == nil:
		return freezeClass(typeURL)
	case typeURL == xds.LbEndpointType && is(xds.EndpointType):
		return gate.CollectionMembers
	case is(typeURL), typeURL == xds.EndpointTypeV2 && is(xds.EndpointType):
		return gate.Moving
	}
	return gate.Settings
}

// freezeClass is the class of a type with regard to a freeze.
func freezeClass(typeURL string) gate.Class {
	switch {
	case typeURL == xds.LbEndpointType:
		return gate.CollectionMembers
	case typeURL == xds.EndpointType || typeURL == xds.EndpointTypeV2 || xds.IsSecret(typeURL):
		return gate.Moving
	}
	return gate.Settings
}

// Configures reports whether resources of a type are a part of the states of a group. Urgent types
// are none, since they follow the running system, and secrets are none.
func (o *Origin) Configures(typeURL string) bool {
	return o.holdClass(typeURL) == gate.Settings && !xds.IsSecret(typeURL)
}

func (k *store) configures() bool { return k.group.origin.Configures(k.typeURL) }

// frozenResource is a resource of a set, or one had by name if selector is empty, of which the
// origin has something else than the table. What is the same in one of them says nothing of the
// others, which are asked apart.
//
// One counter is not enough. Lists say the same again, and an origin goes back, so it would count
// responses and not resources (cmd/weir: TestFreeze), and open lanes anew for nothing
// (testdata/freeze.txt). A heartbeat of what waits would prolong what is held
// (testdata/freeze_ttl_sotw.txt).
type frozenResource struct {
	selector string
	xds.Identity
}

// ofOther is the Digest of a body that the origin has and the table does not know.
var ofOther = xds.Digest{0xff}

// markFrozen notes that the origin has another form of a resource than the table: one of that
// Digest; zero: it is gone.
func (c *scope) markFrozen(id xds.Identity, d xds.Digest) {
	c.shard.mark(frozenResource{c.selector, id}, d)
}

func (s *shard) mark(x frozenResource, d xds.Digest) {
	if s.frozen == nil {
		s.frozen = map[frozenResource]xds.Digest{}
	}
	if old, known := s.frozen[x]; !known || old != d {
		s.frozen[x], s.frozenAt = d, s.now
	}
}

// unmark notes that the origin has what the table has.
func (s *shard) unmark(x frozenResource) {
	delete(s.thawed, x)
	if _, waited := s.frozen[x]; waited {
		delete(s.frozen, x)
		s.frozenAt = s.now
	}
}

// waits reports whether the origin has another form of a resource than the table, also if the
// stream numbered gen is of before a thaw, so that the next one is to bring it.
func (s *shard) waits(x frozenResource, gen uint32) bool {
	_, now := s.frozen[x]
	_, thawed := s.thawed[x]
	return now || thawed && gen <= s.thawedGen
}

// stays decides about a body of a response before anything else is done with it. A removal of it
// that was held back is cancelled. It reports whether the body may be applied. If not, the entries
// that it answers keep what they have. An alias that stands for another resource keeps that one,
// too.
func (n *namedTable) stays(body *xds.Variant, held []*xds.Variant, gen uint32) (taken bool) {
	n.guard.cancel(xds.Identity{Name: body.Name, Constraints: body.Constraints.Key()})
	for _, alias := range body.Aliases {
		n.guard.cancel(xds.Identity{Name: xds.NameKey(alias), Constraints: body.Constraints.Key()})
	}
	if n.passes(body, held) {
		return len(body.Aliases) == 0 || !n.binds(body, gen)
	}
	for _, e := range n.holders(body.Name) {
		if len(e.variants) > 0 || n.shard.heldAbsent(e.name) { // so clients are told
			n.answerBound(e, gen)
		}
	}
	for _, alias := range body.Aliases {
		if e := n.entries[xds.NameKey(alias)]; e != nil && e.name != body.Name {
			n.answerBound(e, gen)
		}
	}
	return false
}

// passes reports whether a body may replace what is held, and otherwise notes that it waits.
func (c *scope) passes(body *xds.Variant, held []*xds.Variant) bool {
	id := xds.Identity{Name: body.Name, Constraints: body.Constraints.Key()}
	if waits := c.freezes(); waits.Changes() && !c.shard.passesUncached(body) {
		old := find(held, id.Constraints)
		if old == nil && len(held) == 0 && c.selector == "" { // asked for by an alias, it was known by none of its names
			old = c.shard.stateBody(body.Name)
		}
		if waits.Body(c.selector != "" && !c.lacks(body.Name) || len(held) > 0 || old != nil || c.shard.heldAbsent(body.Name), old != nil && old.Digest == body.Digest) {
			c.markFrozen(id, body.Digest)
			return false
		}
	}
	c.shard.unmark(frozenResource{c.selector, id}) // the origin may have gone back
	return true
}

// heldAbsent reports whether the group is held at a state in which a name is known not to exist. So
// even its first body waits.
func (s *shard) heldAbsent(name string) bool {
	h := s.group.hold.Load()
	if h == nil {
		return false
	}
	v, known := h.state.body(s.typeURL, s.params, name)
	return known && v == nil
}

// stateBody is the body that the group is held at, of a name that nobody had asked for; nil: none.
func (s *shard) stateBody(name string) *xds.Variant {
	h := s.group.hold.Load()
	if h == nil {
		return nil
	}
	if v, _ := h.state.body(s.typeURL, s.params, name); v != nil && !v.Expired(s.now) {
		return v
	}
	return nil
}

// heldOut is heldAbsent for a member. It looks through all of the set.
func (t *set) heldOut(name string) bool {
	h := t.shard.group.hold.Load()
	if h == nil {
		return false
	}
	of, _ := h.state.of(t.shard.typeURL, t.shard.params)
	x := of.set(t.selector)
	return x != nil && !slices.Contains(x.Lacks, name) && !slices.ContainsFunc(x.Members, func(v *xds.Variant) bool { return v.Name == name })
}

// lacks reports whether a name is in a set that was filled from a state, and that state does not
// say what it was: its first body is to come.
func (c *scope) lacks(name string) bool {
	t, is := c.of.(*set)
	if !is || !t.filled || t.firm {
		return false
	}
	h := t.shard.group.hold.Load()
	if h == nil {
		return false
	}
	of, _ := h.state.of(t.shard.typeURL, t.shard.params)
	x := of.set(t.selector)
	return x != nil && slices.Contains(x.Lacks, name)
}

// passesUncached reports whether a hold lets a body pass because no state may keep it (RELAY-9).
func (s *shard) passesUncached(body *xds.Variant) bool {
	return body.DoNotCache && s.group.hold.Load() != nil
}

// The end of a freeze, or of a hold. What waits for its clusters then came while that was in force,
// and has to wait at the origin as they do. So it is applied before the end
// (testdata/gather_free.txt).

// Unfreeze lets clients go on. False: it was not frozen.
func (o *Origin) Unfreeze() bool {
	if o.frozen.Load() != nil {
		for _, g := range o.groupList() {
			g.gathering.all()
		}
	}
	if o.frozen.Swap(nil) == nil {
		return false
	}
	for _, g := range o.groupList() {
		if g.kept() {
			continue // by a hold
		}
		for _, s := range *g.all.Load() {
			s.thaw()
		}
	}
	return true
}

// Free ends that a group is held. The origin states the differences, as when a freeze ends. False:
// it was not held. A tier (tier.go) stays where it is held: it is for the canary gate to give it
// something else. It locks the origin, and the queue and the types of the group.
func (o *Origin) Free(group string) bool {
	if g := o.GroupOf(group); g != nil {
		g.gathering.all()
	}
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

// thaw has the origin asked again for what waits. It locks the shard.
func (s *shard) thaw() {
	s.mu.Lock()
	waited := len(s.frozen) > 0 || s.errorsCut
	if len(s.frozen) > 0 {
		s.thawed, s.thawedGen = s.frozen, s.group.gens.Load()
	}
	s.frozen, s.errorsCut = nil, false
	s.reviseVouched()
	s.unlock()
	if waited {
		for _, l := range s.lanes.Load() {
			l.reopenSoon()
		}
	}
}
