package relay

import (
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// This file finds what a response removes. A part of that may have to wait (gather.go).

// takesAway are the names of held clusters or endpoints that a response removes: all of them, or
// those whose removal may wait. If several variants of a name may be held, removals are not
// deferred: they are applied together with what replaces them (DYN-11). Nor is the removal of
// something restored and unconfirmed deferred, if a list leaves it out: the list confirms the rest,
// and clients would be sent the removed resource again (RELAY-96,
// testdata/restored_sotw_origin.txt). A difference confirms nothing until the pause after it has
// passed, and it postpones that pause (confirm.go, testdata/restored_swap.txt). It locks the store.
func (x *arrival) takesAway(all bool) (gone []string) {
	k, u := x.store, x.u
	k.mu.Lock()
	defer k.mu.Unlock()
	if !x.plain() {
		return nil
	}
	s := k.all[0]
	all = all || !u.Full
	switch t := s.star; s.kind(x.lane.index, x.gen) {
	case kindSet:
		if t.askedGen == x.gen && t.shown() {
			return t.taken(u, x.gen, all)
		}
	case kindNamed:
		return s.named.taken(u, x.gen, all)
	}
	return nil
}

// plain reports whether a name has at most one variant, and each statement concerns only one shard
// and no collection.
func (x *arrival) plain() bool {
	k, u := x.store, x.u
	several := len(k.all) != 1 || k.constrained || u.variants
	return !several && u.For == nil && len(u.Whole) == 0 && len(k.all[0].collections.byName) == 0
}

// leaves are the endpoints of the clusters that a response removes. It locks the store.
func (x *arrival) leaves(gone []string) (endpoints []string) {
	k := x.store
	if k.typeURL != xds.ClusterType {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range gone {
		for _, v := range k.all[0].variants(name) {
			if v.Endpoints() != "" {
				endpoints = append(endpoints, v.Endpoints())
			}
		}
	}
	return endpoints
}

// shown reports whether clients may have been sent members.
func (t *set) shown() bool { return t.settled || t.shownEarly || t.revived }

// taken is what a response takes away: all of it, or but for what is not confirmed. An error of a
// name that it takes away as well is one statement with that (ABS-9), and goes at once: the removal
// would end the error if it came later.
func (c *scope) taken(u *update, gen uint32, all bool) (gone []string) {
	inError := u.inError()
	goes := func(k known) bool { return len(k.variants) > 0 && (all || !k.isUnconfirmed()) }
	for _, name := range u.Removed {
		if k, is := c.of.lookUp(name); is && goes(k) && !inError[name] {
			gone = append(gone, name)
		}
	}
	if !c.of.omits(u) || u.held() == c.of.size() {
		return gone
	}
	said := u.names()
	c.of.each(func(k known) {
		if goes(k) && !said[k.name] && k.asksOn(gen) && !k.isKept(gen) && !k.hasLeft() {
			gone = append(gone, k.name)
		}
	})
	return gone
}

// held is how many of the response's resources the table had.
func (u *update) held() int {
	n := len(u.Repeats)
	for i := range u.found {
		if u.found[i].body != nil {
			n++
		}
	}
	return n
}

// names are those that a response states to exist, aliases included, or to be in error.
func (u *update) names() map[string]bool {
	names := make(map[string]bool, len(u.Resources)+len(u.Repeats)+len(u.Errors))
	for i := range u.Resources {
		names[u.Resources[i].Name] = true
		for _, alias := range u.Resources[i].Aliases {
			names[xds.NameKey(alias)] = true
		}
	}
	for _, n := range u.Repeats {
		names[u.repeats[n].body.Name] = true
	}
	for _, e := range u.Errors {
		names[e.Name] = true
	}
	return names
}

// absenceDeletes reports whether a SotW response to `*` removes the members that it leaves out.
// Such a response is the whole set of any type, since a request without names can be answered in no
// other way. The exception are types for which the origin is configured otherwise (RELAY-11).
func (c *OriginConfig) absenceDeletes(typeURL string) bool {
	return xds.AlwaysWhole(typeURL) || !slices.Contains(c.AbsenceKeeps, typeURL)
}
