package relay

import (
	"slices"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

// This file finds what a response removes. A part of that may have to wait (gather.go).

// takesAway are the held clusters or endpoints that a response removes: all of them, or those whose
// removal may wait. A removal that comes with what replaces it is not deferred: both are applied
// together (DYN-11). Nor is the removal of something restored and unconfirmed deferred, if a list
// leaves it out: the list confirms the rest, and clients would be sent the removed resource again
// (RELAY-96, testdata/restored_sotw_origin.txt). A difference confirms nothing until the pause
// after it has passed, and it postpones that pause (confirm.go, testdata/restored_swap.txt). It
// locks the store.
func (x *arrival) takesAway(all bool) (gone []xds.RemovedVariant) {
	k, u := x.store, x.u
	k.mu.Lock()
	defer k.mu.Unlock()
	if !x.defers() {
		return nil
	}
	w := leavers{update: u, gen: x.gen, all: all || !u.Full, mapped: x.mapped()}
	for _, s := range k.all {
		switch t := s.star; s.kind(x.lane.index, x.gen) {
		case kindSet:
			if t.askedGen == x.gen && t.shown() {
				w.of(&t.scope)
			}
		case kindNamed:
			w.of(&s.named.scope)
		}
	}
	if w.mapped {
		return w.once(k)
	}
	return w.gone
}

// defers reports whether a part of the response may be applied later than the rest of it: no
// collection was asked on its stream, and no map may have been asked after the response was made.
func (x *arrival) defers() bool {
	k, u := x.store, x.u
	if u.For != nil || len(u.Whole) > 0 || len(k.all) == 0 {
		return false
	}
	return !slices.ContainsFunc(k.all, func(s *shard) bool {
		return s.collections.askedOn(x.gen) || u.Full && len(k.all) > 1 && s.askedLast(x.gen)
	})
}

// mapped reports whether a name may have several variants, for one parameter map or for several.
func (x *arrival) mapped() bool { return len(x.store.all) > 1 || x.store.constrained || x.u.variants }

// leaves are the endpoints of the clusters that a response removes. It locks the store.
func (x *arrival) leaves(gone []xds.RemovedVariant) (endpoints []string) {
	k := x.store
	if k.typeURL != xds.ClusterType {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range gone {
		for _, s := range k.all {
			for _, v := range s.variants(r.Name) {
				if v.Endpoints() != "" && v.Constraints.Key() == r.Constraints {
					endpoints = append(endpoints, v.Endpoints())
				}
			}
		}
	}
	return endpoints
}

// shown reports whether clients may have been sent members.
func (t *set) shown() bool { return t.settled || t.shownEarly || t.revived }

// leavers are what a response takes away of each map.
type leavers struct {
	*update
	gen    uint32
	all    bool // or but for what is not confirmed
	mapped bool
	gone   []xds.RemovedVariant
	// stay are names of which some map loses something that may not wait.
	stay map[string]bool
}

// of adds what is taken away of a set or of the names. An error of a name that is taken away as
// well is one statement with that (ABS-9), and is applied at once: the removal would end the error
// if it came later.
func (w *leavers) of(c *scope) {
	inError := w.inError()
	for _, name := range w.Removed {
		if k, is := c.of.lookUp(name); is && !inError[name] && !w.isAnswer(k) {
			w.add(k, name, nil)
		}
	}
	for _, r := range w.RemovedVariants {
		// Files alone state the variant without constraints in this form, and all types at once.
		if k, is := c.of.lookUp(r.Name); is && !inError[r.Name] && r.Set != nil {
			w.add(k, r.Name, r.Set)
		}
	}
	if !c.of.omits(w.update) || !w.mapped && w.held() == c.of.size() {
		return
	}
	said := w.names(c.shard)
	c.of.each(func(k known) {
		if said[k.name] || !k.asksOn(w.gen) || k.isKept(w.gen) || k.hasLeft() {
			return
		}
		for _, v := range k.variants {
			w.add(k, k.name, v.Constraints)
		}
	})
}

// add adds a variant of a name, if it is held and may wait. What is known may be by an alias.
func (w *leavers) add(k known, name string, set *constraints.Set) {
	switch {
	case find(k.variants, set.Key()) == nil:
	case !w.all && k.isUnconfirmed(), w.mapped && !k.seenOn(w.gen):
		if w.stay == nil {
			w.stay = map[string]bool{}
		}
		w.stay[name] = true
	default:
		w.gone = append(w.gone, xds.RemovedVariant{Name: name, Constraints: set.Key(), Set: set})
	}
}

// isAnswer reports whether the removal of a plain name may be the answer to the question for one
// map, and say nothing of others (DYN-13).
func (w *leavers) isAnswer(k known) bool {
	if !w.mapped {
		return false
	}
	return slices.ContainsFunc(k.shard.store.all, func(s *shard) bool {
		e := s.named.entries[k.name]
		return e != nil && e.asksOn(w.gen) && (!e.answeredOn(w.gen) || len(e.variants) == 0)
	})
}

// once is each of them once, without the names that stay, and without what a difference replaces.
func (w *leavers) once(k *store) (gone []xds.RemovedVariant) {
	seen, brought := make(map[xds.Identity]bool, len(w.gone)), w.brought(w.gone)
	for _, r := range w.gone {
		if id := r.Identity(); !seen[id] {
			seen[id] = true
			if !w.stay[r.Name] && (w.Full || !k.replaces(r, brought[r.Name])) {
				gone = append(gone, r)
			}
		}
	}
	if w.Full {
		return w.others(k, gone, seen, brought)
	}
	return gone
}

// others adds what a list leaves out of the same names for maps of which nothing was sent yet: a
// name that waits is left out of nothing by the list itself.
func (w *leavers) others(k *store, gone []xds.RemovedVariant, seen map[xds.Identity]bool, brought map[string][]*constraints.Set) []xds.RemovedVariant {
	for _, r := range gone {
		for _, s := range k.all {
			for _, v := range s.variants(r.Name) {
				id := xds.Identity{Name: r.Name, Constraints: v.Constraints.Key()}
				said := func(c *constraints.Set) bool { return c.Key() == id.Constraints }
				if !seen[id] && !slices.ContainsFunc(brought[r.Name], said) {
					seen[id] = true
					gone = append(gone, xds.RemovedVariant{Name: r.Name, Constraints: id.Constraints, Set: v.Constraints})
				}
			}
		}
	}
	return gone
}

// brought are the constraints of what a response states of the names that were removed, in whatever
// form: a body, an alias, or an error.
func (u *update) brought(removed []xds.RemovedVariant) map[string][]*constraints.Set {
	all := make(map[string][]*constraints.Set, len(removed))
	for _, r := range removed {
		all[r.Name] = nil
	}
	add := func(name string, c *constraints.Set) {
		if was, is := all[name]; is {
			all[name] = append(was, c)
		}
	}
	for i := range u.Resources {
		add(u.Resources[i].Name, u.Resources[i].Constraints)
		for _, alias := range u.Resources[i].Aliases {
			add(xds.NameKey(alias), u.Resources[i].Constraints)
		}
	}
	for _, n := range u.Repeats {
		add(u.repeats[n].body.Name, u.repeats[n].body.Constraints)
	}
	for _, e := range u.Errors {
		add(e.Name, e.Constraints)
	}
	return all
}

// replaces reports whether one of the variants that are brought is for a map that the removed one
// matches (DYN-11).
func (k *store) replaces(r xds.RemovedVariant, brought []*constraints.Set) bool {
	return slices.ContainsFunc(brought, func(c *constraints.Set) bool {
		return slices.ContainsFunc(k.all, func(s *shard) bool { return r.Set.Match(s.params) && c.Match(s.params) })
	})
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

// removes are the names and variants that a response states to be removed.
func (u *update) removes() (all []xds.RemovedVariant) {
	for _, name := range u.Removed {
		all = append(all, xds.RemovedVariant{Name: name})
	}
	return append(all, u.RemovedVariants...)
}

// remove adds a removal, and keepRemoved leaves out those that are not to be kept.
func (u *update) remove(r xds.RemovedVariant) {
	if r.Set == nil {
		u.Removed = append(u.Removed, r.Name)
		return
	}
	u.RemovedVariants, u.variants = append(u.RemovedVariants, r), true
}

func (u *update) keepRemoved(keep func(xds.Identity) bool) {
	u.Removed = slices.DeleteFunc(slices.Clone(u.Removed), func(name string) bool { return !keep(xds.Identity{Name: name}) })
	u.RemovedVariants = slices.DeleteFunc(slices.Clone(u.RemovedVariants), func(r xds.RemovedVariant) bool { return !keep(r.Identity()) })
}

// bringsBack ends that y removes what the response brings again. If it brings another variant to a
// map that loses one, the removal is made with it (DYN-11). It locks the store.
func (x *arrival) bringsBack(y *arrival) {
	x.store.mu.Lock()
	defer x.store.mu.Unlock()
	removes := y.u.removes()
	u, brought, ends := *x.u, x.u.brought(removes), map[xds.Identity]bool{}
	for _, r := range removes {
		again := brought[r.Name]
		same := func(c *constraints.Set) bool { return c.Key() == r.Constraints }
		switch {
		case len(again) == 0:
		case !x.mapped(), slices.ContainsFunc(again, same):
			ends[r.Identity()] = true
		case x.store.replaces(r, again):
			ends[r.Identity()] = true
			u.remove(r)
		}
	}
	if len(ends) > 0 {
		y.u.keepRemoved(func(id xds.Identity) bool { return !ends[id] })
		x.u = &u
	}
}

// names are those that a response states for a map to exist, aliases included, or to be in error;
// of nil: for any map.
func (u *update) names(of *shard) map[string]bool {
	names := make(map[string]bool, len(u.Resources)+len(u.Repeats)+len(u.Errors))
	for i := range u.Resources {
		if of != nil && !u.Resources[i].Constraints.Match(of.params) {
			continue
		}
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
