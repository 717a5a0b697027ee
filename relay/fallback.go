package relay

import (
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// The last resort of an origin (`origins[].fallback`). It stands in for a type of a group as long
// as the origin has said nothing of that type there: nothing is cached, restored or retired, and no
// stream can be opened, or it has stayed unanswered for half of cold_wait.
//
// What stands in is what had retired (retired.go, revive.go), with another source. It never counts
// as firm, so a client that holds something keeps it. It is not presented upstream. Who was given
// it keeps it until the origin speaks of it, and nobody new is given it then. The rest is its own:
//
//   - After the first answer to the type it is given to nobody, whatever becomes of the origin.
//   - It is in no snapshot, and does not retire: it must never come back as the origin's.
//   - It is no part of a mass removal (guard.go): the origin never said that it was there.
//   - That it lacks a name, or a whole type, says nothing: both stay unknown.

// Fallback is what the last resort has: files, which do not change once they were read, or another
// origin, which is asked for what is wanted (standin.go).
type Fallback struct {
	source string
	types  map[string]*fallbackType // of files, by type URL
	// of another origin: *fallbackType by Place; nil: these are files
	asked *sync.Map
}

// fallbackType is what it has of one type.
type fallbackType struct {
	names map[string][]*Variant
	// sets are the members of each set that was asked for, by selector and name. nil: there are
	// none by themselves, and a set has all names that it covers.
	sets map[string]map[string][]*Variant
}

// NewFallback makes the bodies of what the last resort has. source is what people are told that it
// is. Each resource was accepted as from an origin. Its TTL does not count, nor that it must not be
// cached, since nothing renews it; secrets are left out.
func (o *Origin) NewFallback(source string, resources iter.Seq2[string, *Resource]) *Fallback {
	f := &Fallback{source: source, types: map[string]*fallbackType{}}
	from := map[string]*provenance{}
	for typeURL, r := range resources {
		if xds.IsSecret(typeURL) || r.Any == nil {
			continue
		}
		if from[typeURL] == nil {
			from[typeURL] = &provenance{
				typeURL: typeURL, server: NoServer, fallback: true, source: source, canonical: o.config().CanonicalHash,
			}
			f.types[typeURL] = &fallbackType{names: map[string][]*Variant{}}
		}
		c := *r
		c.DoNotCache = false
		names := f.types[typeURL].names
		names[c.Name] = put(names[c.Name], newVariant(from[typeURL], &c, ""))
	}
	return f
}

// SetFallback puts what the last resort has into force; nil: there is none. What stands in already
// follows it as long as the origin has not spoken, but for what it lacks.
func (o *Origin) SetFallback(now time.Time, f *Fallback) {
	o.fallback.Store(f)
	if f == nil {
		return
	}
	for _, g := range o.groupList() {
		for _, s := range *g.all.Load() {
			s.mu.Lock()
			s.now = now
			s.followFallback()
			s.fallBack()
			s.unlock()
		}
	}
}

// of is what there is of a type for a group; nil: nothing, and there will be nothing.
func (f *Fallback) of(at Place) *fallbackType {
	switch {
	case f.asked == nil:
		return f.types[at.TypeURL]
	case xds.IsSecret(at.TypeURL):
		return nil
	}
	if x, known := f.asked.Load(at); known {
		return x.(*fallbackType)
	}
	return nothingYet
}

// Fallback is what the source of the last resort in force is called; "" if there is none.
func (o *Origin) Fallback() string {
	if f := o.fallback.Load(); f != nil {
		return f.source
	}
	return ""
}

// fallback is the last resort if it may stand in for the type; nil: it may not.
func (k *store) fallback() *fallbackType {
	f := k.group.origin.fallback.Load()
	if f == nil || k.heard || !k.group.origin.Serves(k.typeURL) {
		return nil
	}
	return f.of(Place{k.group.key, k.typeURL})
}

// matching are the variants of a name for the shard's parameters.
func (s *shard) matchingOf(vs []*Variant) []*Variant {
	if !slices.ContainsFunc(vs, func(v *Variant) bool { return !v.Constraints.Match(s.params) }) {
		return vs
	}
	return slices.DeleteFunc(slices.Clone(vs), func(v *Variant) bool { return !v.Constraints.Match(s.params) })
}

// fallbackOf is what the last resort has of a name; nil: nothing.
func (s *shard) fallbackOf(name string) []*Variant {
	of := s.fallback()
	if of == nil {
		return nil
	}
	vs := s.matchingOf(of.names[name])
	if len(vs) == 0 {
		return nil
	}
	return vs
}

// fallbackMembers is what the last resort has of a set. None is no word that the set is
// empty. Where the origin's answers never take a member away it could not be taken back.
func (t *set) fallbackMembers() (vs []*Variant) {
	if cfg := t.shard.group.origin.config(); cfg.SotW && !cfg.absenceDeletes(t.shard.typeURL) {
		return nil
	}
	of := t.shard.fallback()
	if of == nil {
		return nil
	}
	members := of.names
	if of.sets != nil {
		members = of.sets[t.selector]
	}
	for name, of := range members {
		if t.includes(name) {
			vs = append(vs, t.shard.matchingOf(of)...)
		}
	}
	return vs
}

// isFallback reports whether a member is of the last resort.
func (t *set) isFallback(id identity) bool {
	if !t.standsIn() {
		return false
	}
	m := t.members[id.name]
	v := find(m.bodies(), id.constraints)
	return v != nil && v.from.fallback
}

// isFallback reports whether bodies that stand in are of the last resort.
func isFallback(vs []*Variant) bool { return len(vs) > 0 && vs[0].from.fallback }

// standsIn reports whether what would be given of the name is of the last resort.
func (e *entry) standsIn() bool {
	return len(e.variants) == 0 && isFallback(e.retiredBodies())
}

// standsIn notes whether the client has something of the last resort by a name.
func (s *Sub) standsIn(r *record, is bool) {
	switch {
	case is && !r.is(standIn):
		r.flags |= standIn
		s.standIn++
	case !is && r.is(standIn):
		r.flags &^= standIn
		s.standIn--
	}
}

// mayStandIn reports whether the origin is out of reach for the type, on the lane.
func (s *shard) mayStandIn(l *Lane) bool {
	long := !s.unheardSince.IsZero() && !s.now.Before(s.unheardSince.Add(s.cfg().ColdWait/2))
	return !s.heard && (long || l.down.Load())
}

// askedForFallback: the type was just asked, perhaps for the first time, perhaps again.
func (s *shard) askedForFallback(now time.Time) {
	if s.heard {
		return
	}
	s.now = now
	switch l := s.lane(s.named.lane); {
	case s.unheardSince.IsZero():
		s.unheardSince = now
		s.expectFallback(l)
	case s.fallback() != nil && s.mayStandIn(l):
		s.sets((*set).revive) // what was asked anew does not count as settled
	}
}

// unheardLong lets the last resort stand in for a type that the origin leaves unanswered. It locks
// the shard.
func (s *shard) unheardLong(now time.Time) {
	s.mu.Lock()
	defer s.unlock()
	s.now = now
	s.fallBack()
}

// fallBack has the clients look at what stands in for them, now or as soon as it may.
func (s *shard) fallBack() {
	if s.fallback() == nil {
		return
	}
	if l := s.lane(s.named.lane); s.mayStandIn(l) {
		s.markHeldBack()
	} else {
		s.expectFallback(l)
	}
	s.sets(func(t *set) {
		if l := t.lane(); s.mayStandIn(l) {
			t.revive()
		} else {
			s.expectFallback(l)
		}
	})
}

// expectFallback makes sure that it is looked whether the last resort may stand in.
func (s *shard) expectFallback(l *Lane) {
	if s.expect(l); s.unheardSince.IsZero() || s.fallback() == nil {
		return
	}
	if at := s.unheardSince.Add(s.cfg().ColdWait / 2); at.After(s.now) {
		s.push(timer{at: at, kind: unheardLong, shard: s})
	}
}

// followFallback brings what stands in, or is to, in line with what the last resort has now.
func (s *shard) followFallback() {
	if s.fallback() == nil {
		return
	}
	rev := uint64(0)
	for _, e := range s.named.entries {
		old := e.retiredBodies()
		if len(e.variants) > 0 || len(old) > 0 && !isFallback(old) {
			continue
		}
		vs := s.fallbackOf(e.name)
		if vs == nil || sameBodies(vs, old) {
			continue
		}
		if rev == 0 {
			rev = s.nextRev()
		}
		e.onRetired(vs)
		e.rev = rev
		s.markRecords(e)
	}
	s.sets(func(t *set) {
		if t.standsIn() {
			t.followFallback()
		}
	})
}

// followFallback is the same for a set. A last resort that has none of it any more says
// nothing of it.
func (t *set) followFallback() {
	vs := t.fallbackMembers()
	if len(vs) == 0 {
		return
	}
	next := make(map[string][]*Variant, len(vs))
	for _, v := range vs {
		next[v.Name] = append(next[v.Name], v)
		t.shard.constrained = t.shard.constrained || v.Constraints != nil
	}
	rev := t.shard.nextRev()
	for name, of := range next {
		m := t.member(name)
		if !sameBodies(of, m.variants) {
			m.variants = of
			t.offer(m, rev)
		}
	}
	for name, m := range t.members {
		if next[name] == nil {
			m.variants = nil
			t.offer(m, rev)
		}
	}
	t.markChanged(rev)
}

func sameBodies(a, b []*Variant) bool {
	return slices.EqualFunc(a, b, func(a, b *Variant) bool { return a.Digest == b.Digest })
}
