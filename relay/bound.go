package relay

import (
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// Aliases of a group that is held, or of a frozen origin. An alias keeps what it stands for as a
// name keeps its body, and apart from the body: a resource may be given in a form that lists an
// alias which stands for something else still. Such an alias is bound.

// was is what a name is to become where the group is held at a state, of which bodies are those by
// name. An alias of which the state knows nothing becomes none if the resource that it stands for
// was another then, or was none: that resource is given in one form. So an alias comes to stand for
// what has to stay as it is now as the others have that.
func (n *namedTable) was(e *entry, bodies map[string]*xds.Variant) (v *xds.Variant, known bool) {
	v, known = bodies[e.name]
	switch {
	case known && v != nil && (v.Name != e.name || len(n.other.held) > 0):
		if x := n.entry(v.Name); x != nil && x.chosen != nil && !sameBody(x.chosen, v) && n.shard.stays(x.chosen, v) {
			if v = x.chosen; !v.ListsAs(e.name) {
				v = nil
			}
		}
	case !known && e.chosen != nil && e.chosen.Name != e.name:
		if v, known = bodies[e.chosen.Name]; known && !sameBody(v, e.chosen) {
			v = nil
		}
	}
	return v, known
}

// stateOf is the body that the group is held at, of a name that nobody had asked for, in the form
// in which other names of the resource have it; nil: none.
func (n *namedTable) stateOf(name string) *xds.Variant {
	v := n.shard.stateBody(name)
	if v == nil {
		return nil
	}
	if x := n.entry(v.Name); x != nil && x.chosen != nil {
		if v = x.chosen; !v.ListsAs(name) {
			return nil
		}
	}
	return v
}

// bound reports whether an alias keeps what it has, or that it has none, though a body lists it:
// the origin is frozen, or the group held.
func (n *namedTable) bound(e *entry, body *xds.Variant) bool {
	if !n.freezes().Changes() {
		return false
	}
	if len(e.variants) > 0 {
		return e.variants[0].Name != body.Name
	}
	return n.shard.heldAbsent(e.name)
}

// unbinds reports whether a body lists an alias that was kept from standing for it (bound). Then
// the body is not presented, since the origin would be silent about the alias as well (DELTA-11).
func (n *namedTable) unbinds(body *xds.Variant) bool {
	return slices.ContainsFunc(body.Aliases, func(alias string) bool {
		alias = xds.NameKey(alias)
		e := n.entries[alias]
		switch {
		case e == nil || !e.wanted() || e.ownName():
			return false
		case len(e.variants) == 0:
			return true
		}
		return e.variants[0].Name != body.Name && n.other.lister[alias] == body.Name
	})
}

// binds decides which of the aliases that a body lists come to stand for it. It reports whether
// there is nobody else who asks for the body.
func (n *namedTable) binds(body *xds.Variant, gen uint32) (waits bool) {
	free, bound := n.entry(body.Name) != nil, false
	for _, alias := range body.Aliases {
		e := n.entries[xds.NameKey(alias)]
		if e == nil || e.ownName() {
			continue
		}
		if x := (xds.Identity{Name: e.name, Constraints: body.Constraints.Key()}); n.bound(e, body) {
			n.markFrozen(x, body.Digest)
			n.answerBound(e, gen)
			bound = true
		} else {
			n.shard.unmark(frozenResource{n.selector, x})
			free = true
		}
	}
	return bound && !free
}

// markBound marks that the origin has an alias stand for something else than what it becomes; nil:
// for nothing. What was not marked was as the origin has it.
func (s *shard) markBound(e *entry, becomes *xds.Variant) {
	of := func(v *xds.Variant) (d xds.Digest, constraints string) {
		if v != nil {
			d, constraints = v.Digest, v.Constraints.Key()
		}
		return d, constraints
	}
	has, key := of(e.chosen)
	will, other := of(becomes)
	if key == "" {
		key = other
	}
	x := frozenResource{"", xds.Identity{Name: e.name, Constraints: key}}
	switch was, known := s.frozen[x]; {
	case !known:
		s.mark(x, has)
	case was == will:
		s.unmark(x)
	}
}

// answerBound: the origin has answered for a name, and the answer waits. A name that has nothing is
// said not to exist, so that nobody waits for it (ALIAS-10).
func (n *namedTable) answerBound(e *entry, gen uint32) {
	switch {
	case !e.asksOn(gen):
	case len(e.variants) > 0:
		e.onSeen(gen)
		n.revise(e)
		n.touch(e, false)
	case n.shard.group.kept():
		n.touch(e, true)
	}
}
