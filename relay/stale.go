package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// A stream to an origin that understands parameters begins as if nothing were held. No versions can
// be presented (DYN-20), so the origin does not state what went while there was no stream. The
// first variant of a name that the stream brings replaces what the map held from earlier streams.
// It is harder to know that there is none for the map: the plain name in removed_resources may be
// meant for another map, and says nothing about variants with constraints (DYN-13). So the name is
// in doubt. If no variant has come after firm_settle, the removal was meant for this map.

// doubt is that the stream of generation gen has stated that a name does not exist, perhaps for
// another map.
type doubt struct {
	gen uint32
	at  time.Time
}

// stale is what the shard holds of a name from earlier streams, at the moment when the stream of
// generation gen speaks of the name for the first time.
func (s *shard) stale(name string, gen uint32) (vs []*xds.Variant) {
	if e := s.named.entries[name]; e != nil && !e.seenOn(gen) && e.askedOn(gen) {
		vs = append(vs, e.variants...)
	}
	s.sets(func(t *set) {
		if m := t.members.get(name); m != nil && !m.seenOn(gen) && t.askedGen == gen {
			vs = append(vs, m.variants...)
		}
	})
	return vs
}

// doubt applies a removal of a name, or of a variant that matches the map, while something is held
// of the name that the stream has not spoken of. The removal may be meant for another map, so the
// name is in doubt. It reports whether the removal has no other effect, not even on the variant
// that it names.
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

// early reports whether the origin may have made a removal before it read that the name is asked
// for this map. That is so if the map has the variant from another map (RELAY-68), and has no
// answer of its own. Then it keeps the variant until that answer (RELAY-70, DYN-13), which may
// replace the variant (DYN-10). A client would otherwise be sent an absence that was never stated
// (ABS-5). If no answer comes, the removal was meant for this map too.
//
// A client of locators is sent at once that the variant of these constraints is gone (DYN-14). That
// was stated, and another of its maps may have the variant that replaces it.
func (n *namedTable) early(e *entry, key string, gen uint32) bool {
	if !e.isBorrowed() || e.answeredOn(gen) || e.retained() != nil || find(e.variants, key) == nil {
		return false
	}
	for r := e.head; r != nil; r = r.next {
		if r.sub.located {
			return false
		}
	}
	// a removal of a member is stated by its glob
	return !n.shard.updateShare.brings(e.name) && len(n.shard.collections.memberBodies(gen, e.name)) == 0
}

// meantForOthers reports whether the statement that a name does not exist may be about other maps
// than this one, which has a retained body (DYN-13). That is so if this map is not asked yet, or if
// another map was asked for the name and is not answered. Then the body stays until an answer for
// this map.
func (n *namedTable) meantForOthers(name string, gen uint32) bool {
	e, s := n.entries[name], n.shard
	if e == nil || e.retained() == nil || !s.lane(n.lane).live(gen) || len(s.collections.memberBodies(gen, name)) > 0 {
		return false
	}
	others := !e.asksOn(gen)
	s.others(func(x *shard) {
		y := x.named.entries[name]
		others = others || y != nil && y.asksOn(gen) && !y.answeredOn(gen)
	})
	return others
}

// endDoubts removes what has been in doubt for long enough and was not brought by the stream of
// generation gen. It locks the shard.
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
