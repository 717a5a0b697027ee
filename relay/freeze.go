package relay

import (
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
func (o *Origin) Freeze(since time.Time) bool { return o.frozen.CompareAndSwap(nil, &since) }

// Frozen is since when the origin is; false: it is not.
func (o *Origin) Frozen() (since time.Time, is bool) {
	if at := o.frozen.Load(); at != nil {
		return *at, true
	}
	return time.Time{}, false
}

// Unfreeze lets clients go on. False: it was not frozen.
func (o *Origin) Unfreeze() bool {
	if o.frozen.Swap(nil) == nil {
		return false
	}
	for _, g := range o.groupList() {
		for _, s := range *g.all.Load() {
			s.thaw()
		}
	}
	return true
}

// thaw has the origin asked again for what waits. It locks the shard.
func (s *shard) thaw() {
	s.mu.Lock()
	waited := len(s.frozen) > 0
	s.frozen = nil
	s.mu.Unlock()
	if waited {
		for _, l := range s.lanes.Load() {
			l.reopenSoon()
		}
	}
}

// freezes is which parts of a response have to wait while the origin is frozen.
func (c *scope) freezes() (none gate.Waits) {
	if c.shard.group.origin.frozen.Load() == nil {
		return none
	}
	of := c.of.subject()
	of.Class = freezeClass(c.shard.typeURL)
	return of.Waits()
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

// markFrozen notes that the origin has another form of a resource than the table.
func (c *scope) markFrozen(id xds.Identity) {
	if c.shard.frozen == nil {
		c.shard.frozen = map[frozenResource]bool{}
	}
	c.shard.frozen[frozenResource{c.selector, id}] = true
}

// countFrozen is how many of those kept wait because the origin is frozen.
func (c *scope) countFrozen(kept map[xds.Identity]bool) int {
	if len(kept) > 0 && c.freezes().Removals() {
		return len(kept)
	}
	return 0
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
	taken = n.passes(body, held)
	for _, alias := range body.Aliases {
		e := n.entries[xds.NameKey(alias)]
		if taken && e != nil && len(e.variants) > 0 && !e.ownName() && e.variants[0].Name != body.Name && n.freezes().Changes() {
			n.markFrozen(xds.Identity{Name: body.Name, Constraints: body.Constraints.Key()})
			taken = false
		}
	}
	if taken {
		return true
	}
	for _, e := range n.holders(body.Name) {
		if e.askedOn(gen) && len(e.variants) > 0 {
			e.onSeen(gen)
			n.touch(e, false)
		}
	}
	return false
}

// passes reports whether a body may replace what is held, and otherwise notes that it waits.
func (c *scope) passes(body *xds.Variant, held []*xds.Variant) bool {
	id := xds.Identity{Name: body.Name, Constraints: body.Constraints.Key()}
	if waits := c.freezes(); waits.Changes() {
		old := find(held, id.Constraints)
		if waits.Body(c.selector != "" || len(held) > 0, old != nil && old.Digest == body.Digest) {
			c.markFrozen(id)
			return false
		}
	}
	delete(c.shard.frozen, frozenResource{c.selector, id}) // the origin may have gone back
	return true
}
