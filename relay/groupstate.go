package relay

import (
	"slices"
	"sync"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

// State is what a group held at one time, of all types. It is not changed after it is made. It
// keeps the bodies in memory for as long as it is kept itself.
type State struct {
	// Revision is the last one of the table that is in it. It may be 0: so the history calls what
	// the first group of a table had first.
	Revision uint64
	Types    []TypeAt
	index    []typeIndex // of Types, made when the first name is looked up
}

// typeIndex is what is known of a type by name.
type typeIndex struct {
	once   sync.Once
	bodies map[string]*xds.Variant // nil: it is known that there is none
}

func newState(revision uint64, types []TypeAt) *State {
	return &State{Revision: revision, Types: types, index: make([]typeIndex, len(types))}
}

// IsEmpty reports whether it is a state that knows nothing.
func (s *State) IsEmpty() bool { return len(s.Types) == 0 }

// of is what the state has of a type for a parameter map; nil: nothing is known.
func (s *State) of(typeURL string, p constraints.Params) (*TypeAt, *typeIndex) {
	for i := range s.Types {
		if t := &s.Types[i]; t.TypeURL == typeURL && t.Params.Key() == p.Key() {
			if t.Unknown {
				return nil, nil
			}
			return t, &s.index[i]
		}
	}
	return nil, nil
}

// prepare makes the indexes, for which there would be no time under a lock.
func (s *State) prepare() {
	for i := range s.Types {
		s.index[i].make(&s.Types[i])
	}
}

func (x *typeIndex) make(t *TypeAt) { x.once.Do(func() { x.bodies = t.byName() }) }

// byName is what is known by name: a body, or that there was none. What was had by name comes
// before what a set had.
func (t *TypeAt) byName() map[string]*xds.Variant {
	all := make(map[string]*xds.Variant, len(t.Names))
	for i := range t.Sets {
		for _, v := range t.Sets[i].Members {
			all[v.Name] = v
		}
	}
	for i := range t.Names {
		if x := &t.Names[i]; !x.Unknown && !x.byAlias() {
			all[x.Name] = x.Variant
		}
	}
	t.resolveAliases(all)
	return all
}

// body is the body that a name had; nil: it had none, which is known or not.
func (s *State) body(typeURL string, p constraints.Params, name string) (v *xds.Variant, known bool) {
	t, x := s.of(typeURL, p)
	if t == nil {
		return nil, false
	}
	x.make(t)
	v, known = x.bodies[name]
	return v, known
}

// set is what the set of a selector was; nil: that is not known.
func (t *TypeAt) set(selector string) *SetAt {
	if t == nil {
		return nil
	}
	for i := range t.Sets {
		if x := &t.Sets[i]; x.Selector == selector && !x.Unknown {
			return x
		}
	}
	return nil
}

// Differs reports whether two states of a group say different things of what both know. Urgent
// types and secrets do not count, and what clients have begun to ask for in between is no
// difference.
func (s *State) Differs(o *Origin, from *State) bool {
	for i := range s.Types {
		x := &s.Types[i]
		if !o.Configures(x.TypeURL) || x.Unknown {
			continue
		}
		if y, _ := from.of(x.TypeURL, x.Params); y != nil && x.differs(y) {
			return true
		}
	}
	return false
}

// With is the state, with what another one knows besides: types, sets and names of which the state
// itself does not say what they were.
func (s *State) With(more *State) *State {
	types := slices.Clone(s.Types)
	for i := range more.Types {
		from := &more.Types[i]
		j := slices.IndexFunc(types, func(t TypeAt) bool { return t.TypeURL == from.TypeURL && t.Params.Key() == from.Params.Key() })
		switch {
		case j < 0:
			types = append(types, *from)
		case types[j].Unknown:
			types[j] = *from
		default:
			types[j] = types[j].with(from)
		}
	}
	return newState(s.Revision, types)
}

func (t TypeAt) with(more *TypeAt) TypeAt {
	sets := slices.DeleteFunc(slices.Clone(t.Sets), func(x SetAt) bool { return x.Unknown && more.set(x.Selector) != nil })
	for i := range more.Sets {
		if x := &more.Sets[i]; !x.Unknown && t.set(x.Selector) == nil {
			sets = append(sets, *x)
		}
	}
	known := make(map[string]bool, len(t.Names))
	for i := range t.Names {
		known[t.Names[i].Name] = !t.Names[i].Unknown
	}
	added := slices.DeleteFunc(slices.Clone(more.Names), func(x NameAt) bool { return x.Unknown || known[x.Name] })
	for i := range added {
		known[added[i].Name] = true
	}
	names := slices.DeleteFunc(slices.Clone(t.Names), func(x NameAt) bool { return x.Unknown && known[x.Name] })
	t.Sets, t.Names = sets, append(names, added...)
	return t
}

// differs reports whether what both know of a type is not the same.
func (t *TypeAt) differs(from *TypeAt) bool {
	for i := range t.Sets {
		x := &t.Sets[i]
		if y := from.set(x.Selector); !x.Unknown && y != nil && !sameMembers(x.Members, y.Members) {
			return true
		}
	}
	was := make(map[string]*NameAt, len(from.Names))
	for i := range from.Names {
		was[from.Names[i].Name] = &from.Names[i]
	}
	return slices.ContainsFunc(t.Names, func(x NameAt) bool {
		y := was[x.Name]
		return y != nil && !x.Unknown && !y.Unknown && !sameBody(x.Variant, y.Variant)
	})
}

// sameMembers reports whether two lists have equal bodies, in any order. States of one group have
// them in the same order, nearly all.
func sameMembers(a, b []*xds.Variant) bool {
	if len(a) != len(b) {
		return false
	}
	lacks := map[xds.Digest]int{}
	for i := range a {
		if a[i].Digest != b[i].Digest {
			lacks[a[i].Digest]++
			lacks[b[i].Digest]--
		}
	}
	for _, n := range lacks {
		if n != 0 {
			return false
		}
	}
	return true
}

// sameBody reports whether two bodies are equal, or there is none of both.
func sameBody(a, b *xds.Variant) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Digest == b.Digest
}

// StateAt is what the group of a key held at a revision; false: there is no such group. Whole tells
// whether the history reaches so far.
func (o *Origin) StateAt(group string, revision uint64) (*State, bool) {
	types, known := o.At(group, revision)
	if !known {
		return nil, false
	}
	return newState(revision, types), true
}

// Capture is what the group of a key holds now, of all types at one moment; false: there is no such
// group. What must not be cached is not in it (RELAY-9). All types are locked while pointers to the
// bodies are collected.
func (o *Origin) Capture(group string) (*State, bool) {
	g := o.GroupOf(group)
	if g == nil {
		return nil, false
	}
	stores := g.lockAll()
	defer g.unlockAll(stores)
	revision := g.origin.table.Revision()
	types := make([]TypeAt, 0, len(*g.all.Load()))
	for _, k := range stores {
		for _, s := range k.all {
			types = append(types, s.capture())
		}
	}
	return newState(revision, types), true
}

// lockAll locks the group and all its types, in ORD-1 order. Nothing else locks two types at once.
func (g *Group) lockAll() (stores []*store) {
	g.mu.Lock()
	for _, s := range *g.all.Load() {
		if len(stores) == 0 || stores[len(stores)-1] != s.store {
			s.store.mu.Lock()
			stores = append(stores, s.store)
		}
	}
	return stores
}

// unlockAll unlocks what lockAll has locked, and then wakes the clients that the work concerned: a
// client that takes one type finds all others as they are to be.
func (g *Group) unlockAll(stores []*store) {
	var woken []*Subscriber
	for _, k := range stores {
		k.publish()
		woken = append(woken, k.woken...)
		k.woken = nil
		k.mu.Unlock()
	}
	g.mu.Unlock()
	for _, w := range woken {
		w.due.Store(false)
		w.Signal()
	}
}

// capture is what the shard holds now, as its clients are given it.
func (s *shard) capture() TypeAt {
	x := TypeAt{TypeURL: s.typeURL, Params: s.params, Aside: !s.configures()}
	s.sets(func(t *set) {
		if !t.isHeld() {
			return
		}
		y := SetAt{Selector: t.selector, Spelt: t.spelt, Unknown: !t.isKept() || t.standsIn()}
		if !y.Unknown {
			y.Members = make([]*xds.Variant, 0, t.members.len())
			for m := range t.members.all() {
				y.add(t.given(m))
			}
		}
		x.Sets = append(x.Sets, y)
	})
	x.Names = make([]NameAt, 0, len(s.named.entries))
	for _, e := range s.named.entries {
		y := NameAt{Name: e.name, Spelt: e.spelt, Unknown: !e.isKept()}
		if !y.Unknown {
			y.Variant = e.chosen
		}
		x.Names = append(x.Names, y)
	}
	return x
}
