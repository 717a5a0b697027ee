package relay

import (
	"slices"
	"strings"

	"github.com/weir-xds/weir/relay/xds"
)

// Whether an origin that is declared TP2 reads locators, told from what it answers. One that does
// not sees a request that names nothing, which is a wildcard, and sends everything, for no map in
// particular: none of it is for a client with parameters.

// maxLeft bounds the names remembered that were given back on a stream, and maxOverlaps those of
// which it was said that their variants overlap.
const maxLeft, maxOverlaps = 1000, 1000

// reading is how the origin reads the locators of one type on one stream, as far as its answers
// show.
type reading struct {
	gen     uint32
	verdict verdictOnLocators
	// left are the names given back: what comes of them was under way, and is no sign of anything.
	// Kept until the verdict is there.
	left map[string]bool
}

type verdictOnLocators uint8

const (
	unread verdictOnLocators = iota // nothing shows it yet
	// it sends constraints; or too little is known of what it was asked to say that it does not
	read
	unheeded // it sends what was never asked, and nothing with constraints
)

func (k *store) reading(i laneIndex, gen uint32) *reading {
	r := &k.readings[i]
	if r.gen != gen {
		*r = reading{gen: gen}
	}
	return r
}

// gaveBack notes that a name is unsubscribed on a stream: answers for it may be under way.
func (k *store) gaveBack(i laneIndex, gen uint32, n Name) {
	r := k.reading(i, gen)
	switch {
	case !k.byLocator() || r.verdict != unread:
	case n.Collection || n.Name == xds.Wildcard || len(r.left) >= maxLeft:
		r.verdict, r.left = read, nil
	default:
		if r.left == nil {
			r.left = map[string]bool{}
		}
		r.left[xds.NameKey(n.Name)] = true
	}
}

// leaveNames notes that the names of the type leave a stream by its end. Until then answers for
// them may come, and they are no longer known as asked there.
func (k *store) leaveNames(i laneIndex, gen uint32) {
	if r := k.reading(i, gen); r.verdict == unread {
		r.verdict, r.left = read, nil
	}
}

// heeding are the shards that may take a response up: those of maps only if the origin gives
// heed to locators. What it ignores or leaves out is counted.
func (k *store) heeding(a *Applied, asked []*shard, u *update, i laneIndex, gen uint32) []*shard {
	if !k.byLocator() || !u.Wire {
		return asked
	}
	r := k.reading(i, gen)
	switch {
	case u.constrained():
		r.verdict, r.left = read, nil
	case r.verdict == unread && !selected(asked, gen) && slices.ContainsFunc(u.Resources, func(x xds.Resource) bool {
		return !x.AnyName(func(name string) bool { return r.left[name] || isAskedOf(asked, gen, name) })
	}):
		r.verdict, r.left = unheeded, nil
	}
	if r.verdict == unheeded {
		a.Unheeded += len(u.Resources)
		return slices.DeleteFunc(slices.Clone(asked), func(s *shard) bool { return s.params.Len() > 0 })
	}
	a.Unconstrained += k.unconstrained(asked, u, gen)
	return asked
}

// constrained reports whether anything in it was told in the form of locators, which nobody uses
// who does not know it.
func (u *update) constrained() bool {
	return len(u.RemovedVariants) > 0 || slices.ContainsFunc(u.Resources, xds.Resource.Located) ||
		slices.ContainsFunc(u.Errors, func(e *NameError) bool { return e.Constraints != nil })
}

// selected reports whether `*` or a collection was asked on a stream, so that any name may be in
// its answers.
func selected(asked []*shard, gen uint32) bool {
	return slices.ContainsFunc(asked, func(s *shard) bool { return s.selects(gen) })
}

// selects reports whether `*` or a collection was asked on the stream.
func (s *shard) selects(gen uint32) bool {
	found := s.collections.spacesGen == gen
	s.sets(func(t *set) { found = found || t.askedGen == gen })
	return found
}

// isAskedOf reports whether any of the shards asked for a name on the stream, or holds what it
// asked for by it.
func isAskedOf(asked []*shard, gen uint32, name string) bool {
	return slices.ContainsFunc(asked, func(s *shard) bool {
		if e := s.named.entries[name]; e != nil && e.askedOn(gen) {
			return true
		}
		h := s.named.other.held[name]
		return h != nil && slices.ContainsFunc(h.entries, func(e *entry) bool { return e.askedOn(gen) })
	})
}

// unconstrained counts what was told in plain form of names that were asked with parameters.
// It matches every map (DYN-12); but an origin whose answers to locators have no constraints may
// not have looked at the parameters.
func (k *store) unconstrained(asked []*shard, u *update, gen uint32) (n int) {
	plain := func(r xds.Resource) bool { return r.Any != nil && !r.Located() }
	if !slices.ContainsFunc(u.Resources, plain) || selected(asked, gen) {
		return 0
	}
	located := slices.DeleteFunc(slices.Clone(asked), func(s *shard) bool { return s.params.Len() == 0 })
	if len(located) == 0 {
		return 0
	}
	for i := range u.Resources {
		r := &u.Resources[i]
		if plain(*r) && r.AnyName(func(name string) bool { return isAskedOf(located, gen, name) }) {
			n++
		}
	}
	return n
}

// countOverlaps counts the choices that a response makes among several variants for one map, an
// error of the origin: DYN-9 says which is used. A name is said once.
func (k *store) countOverlaps(a *Applied, asked []*shard) {
	if !k.constrained {
		return
	}
	for _, s := range asked {
		if s.updateShare == nil {
			continue
		}
		var counted map[string]bool // the response may bring several variants of it
		for i := range s.updateShare.Resources {
			name := s.updateShare.Resources[i].Name
			if counted[name] || !s.ambiguous(name) {
				continue
			}
			if counted == nil {
				counted = map[string]bool{}
			}
			counted[name] = true
			if a.Overlapping++; k.overlaps[name] || len(k.overlaps) >= maxOverlaps {
				continue
			}
			if k.overlaps == nil {
				k.overlaps = map[string]bool{}
			}
			k.overlaps[strings.Clone(name)] = true
			a.Overlaps = append(a.Overlaps, Overlap{Name: name, Params: s.params.Key()})
		}
	}
}

// Overlap is a name of which several variants match one parameter map.
type Overlap struct{ Name, Params string }

// ambiguous reports whether several variants of a name match the shard's map.
func (s *shard) ambiguous(name string) bool {
	several := func(vs []*xds.Variant) bool {
		n := 0
		for _, v := range vs {
			if v.Name == name && v.Constraints.Match(s.params) {
				n++
			}
		}
		return n > 1
	}
	if e := s.named.entries[name]; e != nil && several(e.variants) {
		return true
	}
	found := false
	s.sets(func(t *set) {
		if m := t.members.get(name); m != nil {
			found = found || several(m.variants)
		}
	})
	return found
}
