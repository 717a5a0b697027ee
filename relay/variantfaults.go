package relay

import (
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// Signs in a response that the origin is wrong about parameters. They are counted and logged
// (package upstream), and the response is used all the same.

// maxOverlaps bounds the overlaps of a response that are named.
const maxOverlaps = 10

// unconstrained counts what came in plain form of names that were asked with parameters. It matches
// every map (DYN-12), so it is used for each. But an origin that is declared TP2 and knows no
// locators answers so too: it takes them for a wildcard, and sends one resource to all.
func (k *store) unconstrained(asked []*shard, u *update, gen uint32) (n int) {
	if !u.Wire || !k.byLocator() {
		return 0
	}
	for i := range u.Resources {
		r := &u.Resources[i]
		if r.Any != nil && !r.Located() && r.AnyName(func(name string) bool {
			return slices.ContainsFunc(asked, func(s *shard) bool {
				e := s.named.entries[name]
				return s.params.Len() > 0 && e != nil && e.asksOn(gen)
			})
		}) {
			n++
		}
	}
	return n
}

// countOverlaps counts the choices that a response makes among several variants for one map, an
// error of the origin: DYN-9 says which is used.
func (k *store) countOverlaps(a *Applied, asked []*shard) {
	if !k.constrained {
		return
	}
	for _, s := range asked {
		if s.updateShare == nil {
			continue
		}
		counted := map[string]bool{} // the response may bring several variants of it
		for i := range s.updateShare.Resources {
			name := s.updateShare.Resources[i].Name
			if counted[name] || !s.ambiguous(name) {
				continue
			}
			counted[name] = true
			if a.Overlapping++; len(a.Overlaps) < maxOverlaps {
				a.Overlaps = append(a.Overlaps, Overlap{Name: name, Params: s.params.Key()})
			}
		}
	}
}

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
