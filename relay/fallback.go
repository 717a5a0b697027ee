package relay

import (
	"iter"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// The fallback of an origin (`origins[].fallback`). It stands in for a type of a group as long as
// the origin has said nothing of that type there, nothing is cached, restored or retired, and the
// origin is out of reach: no stream can be opened, or the type has been unanswered for half of
// cold_wait.
//
// Fallback content is handled like retired content (retired.go, revive.go) from another source. It
// never counts as firm, so a client that holds something keeps that. It is not presented upstream.
// A client that was sent it keeps it until the origin speaks of it, and from then on no other
// client is sent it. The differences to retired content are:
//
//   - After the first answer to the type no client is sent it, whatever becomes of the origin.
//   - It is in no snapshot and does not retire. It must never come back as the origin's content.
//   - It does not count for a mass removal (guard.go), as the origin never said that it existed.
//   - If it lacks a name or a whole type, that says nothing. The name or type stays unknown.

// Fallback is the content to stand in for an origin. It does not change.
type Fallback struct {
	source string
	types  map[string]fallbackType // by type URL
}

// fallbackType is the fallback content of one type, by name. A set has all names that it covers.
type fallbackType map[string][]*xds.Variant

// NewFallback makes the fallback bodies. source is the name of their source, as people are shown
// it. Each resource was accepted as if from an origin. Its TTL and its do_not_cache are ignored,
// since nothing renews the content. Secrets are left out.
func (o *Origin) NewFallback(source string, resources iter.Seq2[string, *xds.Resource]) *Fallback {
	f := &Fallback{source: source, types: map[string]fallbackType{}}
	from := map[string]*xds.Provenance{}
	for typeURL, r := range resources {
		if xds.IsSecret(typeURL) || r.Any == nil {
			continue
		}
		if from[typeURL] == nil {
			from[typeURL] = &xds.Provenance{
				TypeURL: typeURL, Server: NoServer, Fallback: true, Source: source, Canonical: o.config().CanonicalHash,
			}
			f.types[typeURL] = fallbackType{}
		}
		c := *r
		c.DoNotCache = false
		names := f.types[typeURL]
		names[c.Name] = put(names[c.Name], xds.NewVariant(from[typeURL], &c, ""))
	}
	return f
}

// SetFallback replaces the fallback content; nil: there is none. Clients that were sent fallback
// content are sent the new one, as long as the origin has not spoken. What the new one lacks they
// keep.
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

// Fallback is the name of the source of the present fallback content; "" if there is none.
func (o *Origin) Fallback() string {
	if f := o.fallback.Load(); f != nil {
		return f.source
	}
	return ""
}

// fallback is the fallback content of the type, if it may stand in; nil: it may not.
func (k *store) fallback() fallbackType {
	f := k.group.origin.fallback.Load()
	if f == nil || k.group.tier != Newest || k.heard || !k.group.origin.Serves(k.typeURL) {
		return nil
	}
	return f.types[k.typeURL]
}

// matchingOf are the variants that match the shard's parameters.
func (s *shard) matchingOf(vs []*xds.Variant) []*xds.Variant {
	if !slices.ContainsFunc(vs, func(v *xds.Variant) bool { return !v.Constraints.Match(s.params) }) {
		return vs
	}
	return slices.DeleteFunc(slices.Clone(vs), func(v *xds.Variant) bool { return !v.Constraints.Match(s.params) })
}

// fallbackOf is the fallback content of a name; nil: none.
func (n *namedTable) fallbackOf(name string) []*xds.Variant {
	vs := n.shard.matchingOf(n.shard.fallback()[name])
	if len(vs) == 0 {
		return nil
	}
	return vs
}

// fallbackMembers is the fallback content of a set. If there is none, that does not mean that the
// set is empty. There is none where the origin's answers never remove a member: the members could
// not be taken back.
func (t *set) fallbackMembers() (vs []*xds.Variant) {
	if cfg := t.shard.group.config(); cfg.SotW && !cfg.absenceDeletes(t.shard.typeURL) {
		return nil
	}
	for name, of := range t.shard.fallback() {
		if t.includes(name) {
			vs = append(vs, t.shard.matchingOf(of)...)
		}
	}
	return vs
}

// standsIn records whether the client was sent fallback content by a name.
func (r *record) standsIn(is bool) {
	s := r.sub
	switch {
	case is && !r.is(standIn):
		r.flags |= standIn
		s.standIn++
	case !is && r.is(standIn):
		r.flags &^= standIn
		s.standIn--
	}
}

// mayStandIn reports whether the fallback may stand in for what the lane carries of the type: the
// origin has never answered the type, and is out of reach or has been silent for half of cold_wait.
func (s *shard) mayStandIn(l *Lane) bool {
	long := !s.unheardSince.IsZero() && !s.now.Before(s.unheardSince.Add(s.cfg().ColdWait/2))
	return !s.heard && (long || l.down.Load())
}

// askedForFallback is called when the type was just asked, for the first time or again.
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
		s.sets((*set).revive) // a set that is asked again does not count as settled
	}
}

// unheardLong lets the fallback stand in for a type that the origin leaves unanswered. It locks the
// shard.
func (s *shard) unheardLong(now time.Time) {
	s.mu.Lock()
	defer s.unlock()
	s.now = now
	s.fallBack()
}

// fallBack has the clients look at the fallback content, now or as soon as it may stand in.
func (s *shard) fallBack() {
	if s.fallback() == nil {
		return
	}
	if l := s.lane(s.named.lane); s.mayStandIn(l) {
		s.named.markHeldBack()
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

// expectFallback schedules the next check of whether the fallback may stand in.
func (s *shard) expectFallback(l *Lane) {
	if s.expect(l); s.unheardSince.IsZero() || s.fallback() == nil {
		return
	}
	if at := s.unheardSince.Add(s.cfg().ColdWait / 2); at.After(s.now) {
		s.push(timer{at: at, kind: unheardLong, shard: s})
	}
}

// followFallback updates what stands in, or may come to, to the present fallback content.
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
		vs := s.named.fallbackOf(e.name)
		if vs == nil || sameBodies(vs, old) {
			continue
		}
		if rev == 0 {
			rev = s.nextRev()
		}
		s.named.revise(e)
		e.onRetired(vs)
		s.named.revise(e)
		e.rev = rev
		e.markRecords(rev)
	}
	s.sets(func(t *set) {
		if t.standsIn() {
			t.followFallback()
		}
	})
}

// followFallback does the same for a set. If the fallback no longer has any member of the set, that
// changes nothing.
func (t *set) followFallback() {
	vs := t.fallbackMembers()
	if len(vs) == 0 {
		return
	}
	next := make(map[string][]*xds.Variant, len(vs))
	for _, v := range vs {
		next[v.Name] = append(next[v.Name], v)
		t.shard.constrained = t.shard.constrained || v.Constraints != nil
	}
	rev := t.shard.nextRev()
	for name, of := range next {
		m := t.member(name)
		if !sameBodies(of, m.variants) {
			was := t.given(m)
			m.variants = of
			t.offer(m, rev)
			t.noteChange(m, was)
		}
	}
	for m := range t.members.all() {
		if next[m.name] == nil {
			was := t.given(m)
			m.variants = nil
			t.offer(m, rev)
			t.noteChange(m, was)
		}
	}
	t.markChanged(rev)
}

func sameBodies(a, b []*xds.Variant) bool {
	return slices.EqualFunc(a, b, func(a, b *xds.Variant) bool { return a.Digest == b.Digest })
}
