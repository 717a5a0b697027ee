package relay

import (
	"cmp"
	"slices"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// What a group held at an earlier revision: what it holds now, with what package history has noted
// since undone. Revisions of all types of a group compare, so what is found for one revision is one
// state of the group.

// What nobody had asked for then is in it as it was known first: the origin had it or not, and
// nearer than that nobody knows. So a client that asks for another name makes nothing of the past
// unknown. Unknown is what nothing was ever said of, what must not be cached (RELAY-9), and what
// the history has lost.

// TypeAt is what one type of a group was, for one parameter map. What nobody subscribes to now is
// left out. What clients are given now is in it as it is, secrets included.
type TypeAt struct {
	TypeURL string
	Params  constraints.Params
	Aside   bool // it is no configuration (configures)
	Unknown bool // all of it is: the revision is before what is kept
	Sets    []SetAt
	Names   []NameAt
}

// SetAt is what one set was.
type SetAt struct {
	Selector string
	Spelt    string
	Unknown  bool           // all of it is
	Lost     bool           // something of it is not known any more
	Late     bool           // nobody had asked for it then, or it was not whole
	Members  []*xds.Variant // in no order
	Lacks    []string       // members of which it is not known whether, and what, they were
}

// NameAt is what one name was.
type NameAt struct {
	Name    string
	Spelt   string
	Unknown bool
	Lost    bool         // it is not known any more
	Late    bool         // nobody had asked for it then, as far as that is known
	Variant *xds.Variant // nil: there was none, or it is not known
}

// Whole reports whether nothing of it was lost, or it does not matter.
func (t *TypeAt) Whole() bool {
	return t.Aside || !t.Unknown && !slices.ContainsFunc(t.Sets, func(x SetAt) bool { return x.Lost }) &&
		!slices.ContainsFunc(t.Names, func(x NameAt) bool { return x.Lost })
}

// At is what the group of a key held at a revision; false: there is no such group. The lock of a
// type is held while pointers to its bodies are collected. History.At gives the revision of a time.
func (o *Origin) At(group string, revision uint64) (types []TypeAt, known bool) {
	g := o.GroupOf(group)
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
	x = TypeAt{TypeURL: s.typeURL, Params: s.params, Aside: !s.configures()}
	b := s.table().past.Before(s.past.Place(), s.params.Key(), revision, s.late(revision))
	if x.Unknown = revision < max(b.Floor, s.group.begun); x.Unknown {
		return x
	}
	gone := map[string][]history.Resource{} // members of sets that may be members no more
	for r := range b.Was {
		if r.Set != "" {
			gone[r.Set] = append(gone[r.Set], r)
		}
	}
	s.sets(func(t *set) {
		if t.isHeld() {
			x.Sets = append(x.Sets, t.at(revision, b.Was, gone[t.selector]))
		}
	})
	for _, e := range s.named.entries {
		x.Names = append(x.Names, s.nameAt(e, revision, b.Was))
	}
	return x
}

// late are the sets that nobody had asked for at a revision, and from which on they are known.
func (s *shard) late(revision uint64) (since map[string]uint64) {
	s.sets(func(t *set) {
		if t.unnoted > revision {
			if since == nil {
				since = map[string]uint64{}
			}
			since[t.selector] = t.unnoted
		}
	})
	return since
}

// nameAt is what a name held at a revision.
func (s *shard) nameAt(e *entry, revision uint64, was map[history.Resource]history.Held) NameAt {
	x := NameAt{Name: e.name, Spelt: e.spelt}
	if held, changed := was[history.Resource{Params: s.params.Key(), Name: e.name}]; changed {
		x.Variant, x.Unknown, x.Lost, x.Late = held.Variant, held.Unknown, held.Lost, held.Late
		return x
	}
	if x.Unknown = !e.isKept(); !x.Unknown {
		x.Variant, x.Late = e.chosen, s.named.since(e) > revision
	}
	return x
}

// isKept reports whether what is known of the name now is a part of a state.
func (st *state) isKept() bool { return !st.isNew() && (st.chosen == nil || !st.chosen.DoNotCache) }

// isNew reports whether nothing was ever said of the name, so that it may have been asked just now.
func (st *state) isNew() bool { return st.chosen == nil && st.absence == notAbsent }

// isHeld reports whether the group holds the set, or would.
func (t *set) isHeld() bool { return t.wanted() || t.members.len() > 0 }

// isKept reports whether the set is known now as a whole, so that it is a part of a state. What of
// it must not be cached (RELAY-9) is in none: to a state it is as what is not known, and stays as
// it is.
func (t *set) isKept() bool { return t.settled && !t.needsOrigin }

// add adds what the set has of a member.
func (x *SetAt) add(v *xds.Variant) {
	switch {
	case v == nil:
	case v.DoNotCache:
		x.Lacks = append(x.Lacks, v.Name)
	default:
		x.Members = append(x.Members, v)
	}
}

// at is what the set held at a revision. changed are its members in was.
func (t *set) at(revision uint64, was map[history.Resource]history.Held, changed []history.Resource) (x SetAt) {
	x = SetAt{Selector: t.selector, Spelt: t.spelt, Lost: revision < t.lost, Late: revision < t.unnoted}
	if x.Unknown = x.Lost || !t.isKept(); x.Unknown {
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
		x.add(t.given(m))
	}
	for _, r := range changed {
		switch held := was[r]; {
		case held.Unknown:
			x.Lacks, x.Lost = append(x.Lacks, r.Name), x.Lost || held.Lost
		case held.Variant != nil:
			x.Members = append(x.Members, held.Variant)
		}
	}
	return x
}

// Aliases in a state of a group (ALIAS-1). A resource has one body in a state, by whichever of its
// names that is known, so that a hold never gives it in two forms (ALIAS-3). An alias stands for
// the resource whose body lists it, whether or not anybody had asked for the alias then.

// byAlias reports whether the name stands for a resource of another name.
func (x *NameAt) byAlias() bool { return x.Variant != nil && x.Variant.Name != x.Name }

// resolveAliases adds to what is known by name what aliases stand for. What is known as of the
// state comes first, and adds to what a set had. What is known only from later on, which is the
// first that was known, comes after that.
func (t *TypeAt) resolveAliases(all map[string]*xds.Variant) {
	named := t.aliases()
	late := map[string]bool{} // names that are known from later on
	if len(named) > 0 {
		own := map[string]bool{} // what is known by its own name, or by an alias before
		for i := range t.Names {
			if x := &t.Names[i]; !x.Unknown && !x.byAlias() {
				own[x.Name], late[x.Name] = true, x.Late
			}
		}
		for _, x := range named {
			if name := x.Variant.Name; !own[name] || late[name] && !x.Late {
				all[name], own[name], late[name] = x.Variant, true, x.Late
			}
		}
	}
	listed := listedBy(all)
	for _, x := range named {
		if v := all[x.Variant.Name]; v != nil && v.ListsAs(x.Name) {
			all[x.Name] = v
		}
	}
	for alias, v := range listed {
		if is, known := all[alias]; v != nil && (!known || is == nil && late[alias]) {
			all[alias] = v
		}
	}
}

// aliases are those of which a body is known, what is known as of the state first, and then what
// was known first.
func (t *TypeAt) aliases() (named []*NameAt) {
	for i := range t.Names {
		if x := &t.Names[i]; !x.Unknown && x.byAlias() {
			named = append(named, x)
		}
	}
	slices.SortFunc(named, func(x, y *NameAt) int {
		if x.Late != y.Late {
			if x.Late {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(x.Variant.From.Revision, y.Variant.From.Revision), cmp.Compare(x.Name, y.Name))
	})
	return named
}

// listedBy are the bodies by the aliases that they list; nil: two resources list it.
func listedBy(all map[string]*xds.Variant) map[string]*xds.Variant {
	var listed map[string]*xds.Variant
	for _, v := range all {
		if v == nil {
			continue
		}
		for _, alias := range v.Aliases {
			if alias = xds.NameKey(alias); alias == v.Name {
				continue
			}
			if listed == nil {
				listed = map[string]*xds.Variant{}
			}
			if other, is := listed[alias]; is && other != v {
				listed[alias] = nil
			} else {
				listed[alias] = v
			}
		}
	}
	return listed
}
