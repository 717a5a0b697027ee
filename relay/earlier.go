package relay

import (
	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// What a group held at an earlier revision: what it holds now, with what package history has noted
// since undone. Revisions of all types of a group compare, so what is found for one revision is one
// state of the group.

// TypeAt is what one type of a group was, for one parameter map. What nobody subscribes to now is
// left out. What clients are given now is in it as it is, secrets included.
type TypeAt struct {
	TypeURL string
	Params  constraints.Params
	Unknown bool // all of it is: the revision is before what is kept
	Sets    []SetAt
	Names   []NameAt
}

// SetAt is what one set was.
type SetAt struct {
	Selector string
	Spelt    string
	Unknown  bool           // it was not held then, or not whole
	Members  []*xds.Variant // in no order
	Lacks    []string       // members of which it is not known whether, and what, they were
}

// NameAt is what one name was.
type NameAt struct {
	Name    string
	Spelt   string
	Unknown bool         // nobody had asked for it then, as far as that is known, or its body is not kept
	Variant *xds.Variant // nil: there was none, or it is not known
}

// Whole reports whether all of it is known.
func (t *TypeAt) Whole() bool {
	if t.Unknown {
		return false
	}
	for i := range t.Sets {
		if t.Sets[i].Unknown || len(t.Sets[i].Lacks) > 0 {
			return false
		}
	}
	for i := range t.Names {
		if t.Names[i].Unknown {
			return false
		}
	}
	return true
}

// At is what the group of a key held at a revision; false: there is no such group. The lock of a
// type is held while pointers to its bodies are collected. History.At gives the revision of a time.
func (o *Origin) At(group string, revision uint64) (types []TypeAt, known bool) {
	o.mu.Lock()
	g := o.groups[group]
	o.mu.Unlock()
	if g == nil {
		return nil, false
	}
	for _, s := range *g.all.Load() {
		types = append(types, s.at(revision))
	}
	return types, true
}

// at is what the shard held at a revision. It locks the shard.
func (s *shard) at(revision uint64) (x TypeAt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	place := history.Place{Origin: s.group.origin.name, Group: s.group.key, TypeURL: s.typeURL}
	b := s.table().past.Before(place, s.params.Key(), revision)
	x = TypeAt{TypeURL: s.typeURL, Params: s.params, Unknown: revision < b.Floor}
	if x.Unknown {
		return x
	}
	gone := map[string][]history.Resource{} // members of sets that may be members no more
	for r := range b.Was {
		if r.Set != "" {
			gone[r.Set] = append(gone[r.Set], r)
		}
	}
	s.sets(func(t *set) {
		if t.wanted() || t.members.len() > 0 {
			x.Sets = append(x.Sets, t.at(revision, b.Was, gone[t.selector]))
		}
	})
	for _, e := range s.named.entries {
		y := NameAt{Name: e.name, Spelt: e.spelt}
		if was, changed := b.Was[history.Resource{Params: s.params.Key(), Name: e.name}]; changed {
			y.Variant, y.Unknown = was.Variant, was.Unknown
		} else if y.Unknown = s.named.since(e) > revision || e.isNew(); !y.Unknown {
			y.Variant = e.chosen
		}
		x.Names = append(x.Names, y)
	}
	return x
}

// isNew reports whether nothing was ever said of the name, so that it may have been asked just now.
func (st *state) isNew() bool { return st.chosen == nil && st.absence == notAbsent }

// at is what the set held at a revision. changed are its members in was.
func (t *set) at(revision uint64, was map[history.Resource]history.Held, changed []history.Resource) (x SetAt) {
	x = SetAt{Selector: t.selector, Spelt: t.spelt, Unknown: revision < t.unnoted}
	if x.Unknown {
		return x
	}
	x.Members = make([]*xds.Variant, 0, t.members.len())
	key := history.Resource{Params: t.shard.params.Key(), Set: t.selector}
	for m := range t.members.all() {
		if key.Name = m.name; len(changed) > 0 {
			if _, is := was[key]; is {
				continue
			}
		}
		if v := t.given(m); v != nil {
			x.Members = append(x.Members, v)
		}
	}
	for _, r := range changed {
		switch held := was[r]; {
		case held.Unknown:
			x.Lacks = append(x.Lacks, r.Name)
		case held.Variant != nil:
			x.Members = append(x.Members, held.Variant)
		}
	}
	return x
}
