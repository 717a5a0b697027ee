package relay

import (
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// leaving are the removals that a response on the stream of generation gen states in whatever form.
// The bodies of the response have been applied already, and nothing else of it.
func (c *scope) leaving(u *update, gen uint32) (ps []pendingRemoval) {
	one := func(name, key string) {
		if held, seen := c.of.answers(name, gen); find(held, key) != nil && !replaced(held, key, c.shard.rev) {
			ps = append(ps, pendingRemoval{Identity: xds.Identity{Name: name, Constraints: key}, seen: seen})
		}
	}
	all := func(name string, held []*xds.Variant, err *NameError, seen bool) {
		for _, v := range held {
			ps = append(ps, pendingRemoval{Identity: xds.Identity{Name: name, Constraints: v.Constraints.Key()}, err: err, seen: seen})
		}
	}
	for _, name := range u.Removed {
		one(name, "")
	}
	for _, r := range u.RemovedVariants {
		one(r.Name, r.Constraints)
	}
	for _, e := range u.Errors {
		if c.shard.group.origin.ends(e) {
			held, seen := c.of.answers(e.Name, gen)
			all(e.Name, held, e, seen)
		}
	}
	for _, k := range c.omitted(u, gen) {
		all(k.name, k.variants, nil, k.seenOn(gen))
	}
	for i := range ps {
		k, is := c.of.lookUp(ps[i].Name)
		ps[i].restored = is && k.isUnconfirmed()
	}
	return ps
}

// takeAway applies the removals, except those that the guard or a freeze keeps. counts is the
// result of hears. confirmed: what was held back before is to be removed as well.
func (c *scope) takeAway(a *Applied, u *update, gen uint32, counts bool) (kept map[xds.Identity]bool, confirmed bool) {
	kept, confirmed = c.screen(c.leaving(u, gen), counts, u.Full || u.listed)
	if len(kept) > 0 && c.freezes().Removals() {
		a.Waiting += len(kept)
	}
	remove := func(id xds.Identity) {
		if u.listed && !kept[id] {
			c.shard.noteLeftOut(c.bodies(id.Name))
		}
		if c.of.remove(id, gen, kept[id]) {
			a.Changed++
		}
	}
	for _, name := range u.Removed {
		remove(xds.Identity{Name: name})
	}
	for _, r := range u.RemovedVariants {
		remove(xds.Identity{Name: r.Name, Constraints: r.Constraints})
	}
	return kept, confirmed
}

// omitted are the resources that a full answer leaves out, and so removes. If the name was never
// received, leaving it out is not conclusive (ABS-3). Nor is it for a name in error, since an
// origin states the error once and then leaves the name out of its lists (TP3).
func (c *scope) omitted(u *update, gen uint32) []known {
	if !c.of.omits(u) || c.of.listsAll(c.shard.rev) {
		return nil
	}
	var gone []known
	inError := u.inError()
	c.of.each(func(k known) {
		if k.isThere() && !k.isListed() && !u.later[k.name] && !k.hasLeft() && !k.in(inError) && !k.isKept(gen) && k.asksOn(gen) {
			gone = append(gone, k)
		}
	})
	return gone
}

// dropOmitted removes what a full answer leaves out, except what is kept.
func (c *scope) dropOmitted(a *Applied, u *update, kept map[xds.Identity]bool, gen uint32) {
	for _, k := range c.omitted(u, gen) {
		switch {
		case !k.isIn(kept):
			c.shard.noteLeftOut(k.variants)
			c.of.drop(k)
			a.Changed++
		case k.set == nil:
			c.shard.named.revise(k.entry)
			k.entry.onHeard(gen) // later silence about it says nothing (testdata/guard_restored.txt)
		}
	}
}

// replaced reports whether the same response brought another variant for the map, so that no
// client loses the name.
func replaced(vs []*xds.Variant, key string, rev uint64) bool {
	return slices.ContainsFunc(vs, func(v *xds.Variant) bool { return v.From.Revision == rev && v.Constraints.Key() != key })
}
