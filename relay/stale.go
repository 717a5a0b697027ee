package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// A stream to an origin that understands parameters begins as if nothing were held: no versions can
// be presented (DYN-20), and what went while there was none is named by nobody. So the first
// variant that the stream brings of a name takes the place of what the map had of it on streams
// before. That there is none for the map is harder to know: the plain name in removed_resources may
// be said to another map, and is no word about variants with constraints (DYN-13). If none has come
// after the pause that RELAY-6 has where a wrong guess deletes, it was said to this one.

// doubt is that an origin said of a name that it is not there, on the stream of generation gen.
type doubt struct {
	gen uint32
	at  time.Time
}

// stale is what the shard holds of a name from streams before that of generation gen, which
// speaks of it for the first time now.
func (s *shard) stale(name string, gen uint32) (vs []*xds.Variant) {
	if e := s.named.entries[name]; e != nil && !e.seenOn(gen) && e.askedOn(gen) {
		vs = append(vs, e.variants...)
	}
	s.sets(func(t *set) {
		if m := t.members[name]; m != nil && !m.seenOn(gen) && t.askedGen == gen {
			vs = append(vs, m.variants...)
		}
	})
	return vs
}

// doubt notes that a name asked for the map is not there, for this map or for another, or
// that a variant which matches the map is not, and another is held that the stream has not spoken
// of. It reports whether the removal is no more than that doubt, even of what it names.
func (n *namedTable) doubt(now time.Time, id xds.Identity, gen uint32) (early bool) {
	e, key := n.entries[id.Name], id.Constraints
	if e == nil || e.seenOn(gen) || !e.asksOn(gen) {
		return false
	}
	early = n.early(e, key, gen)
	if !early && !slices.ContainsFunc(e.variants, func(v *xds.Variant) bool { return v.Constraints.Key() != key }) {
		return false
	}
	if n.doubts == nil {
		n.doubts = map[*entry]doubt{}
	}
	if n.doubts[e].gen != gen {
		n.doubts[e] = doubt{gen, now}
		n.shard.push(timer{at: now.Add(n.shard.cfg().FirmSettle), kind: doubts, shard: n.shard, gen: gen})
	}
	return early
}

// early reports whether a removal may have been made before the origin read that the name is
// asked for this map. The map has the variant from another one (RELAY-68), to which the removal was
// said, and has no answer of its own yet. So it keeps the variant until that answer (RELAY-70,
// DYN-13), which may be the one that takes its place (DYN-10): a client would be told of an absence
// that was never stated (ABS-5). If nothing comes, the removal was said to this map too.
//
// A client of locators is told at once that the variant of these constraints is gone (DYN-14). That
// is what was stated, and another of its maps may have the variant that took its place.
func (n *namedTable) early(e *entry, key string, gen uint32) bool {
	if !e.isBorrowed() || e.answeredOn(gen) || e.retained() != nil || find(e.variants, key) == nil {
		return false
	}
	for r := e.head; r != nil; r = r.next {
		if r.sub.located {
			return false
		}
	}
	// of a glob's members a removal is its word
	return !n.shard.updateShare.brings(e.name) && len(n.shard.collections.memberBodies(gen, e.name)) == 0
}

// endDoubts takes away what was doubted long enough, and has not come on the stream of generation
// gen. It locks the shard.
func (n *namedTable) endDoubts(gen uint32, now time.Time) {
	s := n.shard
	s.mu.Lock()
	defer s.unlock()
	s.now = now
	var over []*entry
	for e, d := range n.doubts {
		switch {
		case !s.lane(n.lane).live(d.gen), e.seenOn(d.gen), len(e.variants) == 0, n.entries[e.name] != e:
			delete(n.doubts, e)
		case d.gen != gen:
		default:
			if at := s.lane(n.lane).arrivals.Load().Over(d.at, s.cfg().FirmSettle); at.After(now) {
				s.push(timer{at: at, kind: doubts, shard: s, gen: gen})
				continue
			}
			delete(n.doubts, e)
			over = append(over, e)
		}
	}
	if len(over) == 0 {
		return
	}
	counts := n.hears(gen)
	var ps []pendingRemoval
	for _, e := range over {
		for _, v := range e.variants {
			ps = append(ps, pendingRemoval{Identity: xds.Identity{Name: e.name, Constraints: v.Constraints.Key()}})
		}
	}
	kept, _ := n.screen(ps, counts, false)
	rev := s.nextRev()
	for _, p := range ps {
		if !kept[p.Identity] {
			n.removeName(p.Identity)
		}
	}
	s.unshareTouched(n.offerTouched(rev, gen)...)
}
