package relay

import (
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// What a response takes away, of which a part may wait (gather.go).

// takesAway are the names of clusters or endpoints that are held and that a response takes away,
// all of them or those that may wait. Where several variants of a name may be held they go at once,
// with what replaces them (DYN-11). So does what was restored, and is not confirmed, if a list
// leaves it out: the list confirms the rest, and would give it to clients again (RELAY-96,
// testdata/restored_sotw_origin.txt). A difference confirms nothing before the pause after it,
// which it puts off (confirm.go, testdata/restored_swap.txt). It locks the store.
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
		if t.askedGen == x.gen && t.shown() && (all || !t.unconfirmed()) {
			return t.taken(u, x.gen)
		}
	case kindNamed:
		return s.taken(u, x.gen, all)
	}
	return nil
}

// plain reports whether a name has one variant at most, and what is said of it is said once.
func (x *arrival) plain() bool {
	k, u := x.store, x.u
	several := len(k.all) != 1 || k.constrained || u.variants
	return !several && u.For == nil && len(u.Whole) == 0 && len(k.all[0].collections) == 0
}

// leaves are the endpoints of clusters that a response takes away. It locks the store.
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

// shown reports whether clients may have been told members.
func (t *set) shown() bool { return t.settled || t.shownEarly || t.revived }

// taken is what a response takes away of the set's members. An error of a name that it takes
// away as well is one statement with that (ABS-9), and goes at once: the removal would end the
// error if it came later.
func (t *set) taken(u *update, gen uint32) (gone []string) {
	inError := u.inError()
	for _, name := range u.Removed {
		if t.members[name] != nil && !inError[name] {
			gone = append(gone, name)
		}
	}
	if !t.omits(u) || u.held() == len(t.members) {
		return gone
	}
	said := u.names()
	for name := range t.members {
		if !said[name] && !t.nameErrors.keepsBody(name, gen) {
			gone = append(gone, name)
		}
	}
	return gone
}

// taken is what a response takes away of what is held by name: all of it, or but for what is
// not confirmed.
func (s *shard) taken(u *update, gen uint32, all bool) (gone []string) {
	inError := u.inError()
	for _, name := range u.Removed {
		e := s.named.entries[name]
		if e != nil && len(e.variants) > 0 && (all || !e.unconfirmed) && !inError[name] {
			gone = append(gone, name)
		}
	}
	if !u.Full || u.Bad || !xds.FullState(u.TypeURL) || u.held() == s.heldNames() {
		return gone
	}
	said := u.names()
	for name, e := range s.named.entries {
		if len(e.variants) == 0 || e.unconfirmed && !all || said[name] {
			continue
		}
		if e.asksOn(gen) && !e.kept(gen) && !e.hasLeft() {
			gone = append(gone, name)
		}
	}
	return gone
}

// held is how many of the resources the table had.
func (u *update) held() int {
	n := len(u.Repeats)
	for i := range u.found {
		if u.found[i].body != nil {
			n++
		}
	}
	return n
}

// names are those that a response speaks of as there, aliases among them, or in error.
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

// absenceDeletes reports whether a SotW response to `*` that leaves a member out removes it. It is
// all there is of any type, since a request without names can only be answered by the whole set,
// but where the origin is configured to be another one (RELAY-11).
func (c *OriginConfig) absenceDeletes(typeURL string) bool {
	return xds.AlwaysWhole(typeURL) || !slices.Contains(c.AbsenceKeeps, typeURL)
}
