package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Clusters that went while a client was away. It comes back and holds them, and its routes refer to
// them until it is told others, which may be a moment away (ORD-10, ORD-11). In delta a removal is
// told last in any case, and here a list keeps what went, or waits:
//
//   - A list of `*` must not wait, as new routes need its new Clusters. It keeps what was restored
//     and is gone, if the client's version is that of the restored list. Another version may be of
//     a newer list from another replica, and then the client would be given again what it knows to
//     be gone (EC-4).
//   - So does a list by name, if the version is that of the names. Often it is older than the last
//     change of the names, and shows nothing. Then the list waits for order_hold, and no route
//     waits for it.
//
// What is not covered: the list that a client of `*` accepted last may itself have kept something
// (ORD-3), if weir ended within order_hold of a swap. The snapshot does not have that, so the
// version shows nothing.

// restoredSet is what the set of Clusters was restored with.
type restoredSet struct {
	members   []*Variant // but for those that had a TTL
	version   string     // of the list of all
	confirmed bool       // when looked at last

	// gone is what the view lacks of members, as of its revision.
	gone []*Variant
	view *view
	rev  uint64
}

// rememberRestored notes what `*` was restored with, until clients have had time to come back.
func (s *shard) rememberRestored(now time.Time) {
	if s.typeURL != xds.ClusterType || !s.star.restored || s.star.revived || s.group.origin.config().OriginVersions {
		return
	}
	x, all := &restoredSet{members: make([]*Variant, 0, len(s.star.members))}, xds.Sum{}
	for _, m := range s.star.members {
		v := pick(m.variants, s.params)
		if v == nil {
			continue
		}
		if all.Add(v.Digest); !v.timed() { // RELAY-50
			x.members = append(x.members, v)
		}
	}
	x.version, s.restored = all.Version(), x
	s.push(timer{at: now.Add(leastRestored), kind: restoredEnd, shard: s})
}

// endRestored forgets what was restored, at least leastRestored after the origin has confirmed it.
// It locks the shard.
func (s *shard) endRestored(now time.Time) {
	s.mu.Lock()
	defer s.unlock()
	s.now = now
	if s.restored.confirmed {
		s.restored = nil
		return
	}
	s.restored.confirmed = !s.star.unconfirmed()
	s.push(timer{at: now.Add(leastRestored), kind: restoredEnd, shard: s})
}

// isGone is the restored Clusters that the view no longer has.
func (x *restoredSet) isGone(v *view) []*Variant {
	if x.view != v || x.rev != v.contentRev {
		x.view, x.rev = v, v.contentRev
		x.gone = slices.DeleteFunc(slices.Clone(x.members), func(m *Variant) bool { return v.has(m.Name) })
	}
	return x.gone
}

// deferRestored keeps in the first list of `*` the Clusters that are gone and that the client holds
// by its version.
func (s *Sub) deferRestored(k Deferral) {
	p, x := s.pos, s.shard.restored
	if p == nil || !p.fresh || x == nil || s.records.len() > 0 || s.version != x.version || k == deferNothing {
		return
	}
	for _, v := range x.isGone(p.view) {
		s.deferRemoval(v.Name, deferredRemoval{body: v, until: p.view.contentRev, named: true, set: true, returned: true}, k)
	}
}

// back reports whether the client came back with the name, and was not sent the resource
// since.
func (r *record) back() bool { return r.is(returned) && r.sent == (xds.Digest{}) }

// holdsExactly reports whether the version of a client that comes back is that of the names it
// lists, as they are held, or were when they were removed. Then the client holds them.
func (s *Sub) holdsExactly() bool {
	var all xds.Sum
	for r := range s.records.all() {
		switch e := r.entry; {
		case e.chosen != nil:
			all.Add(e.chosen.Digest)
		case e.last != nil:
			all.Add(e.last.Digest)
		}
	}
	return s.version == all.Version()
}

// firstListWaits reports whether the first list by name of a client that comes back has to wait.
// It does if it would leave out a removed Cluster, and no version shows that the client may still
// be sent that.
func (s *Sub) firstListWaits(k Deferral) bool {
	s.listHeld = false
	if !s.holds || s.sentWhole || s.pos != nil || s.inUnion || s.typeURL != xds.ClusterType { // sentWhole: it is not the first, though `*` was given up since
		return false
	}
	for r := range s.records.all() {
		e := r.entry
		if !r.is(returned) || e.last == nil || !e.isGone() {
			continue
		}
		if s.exact {
			r.flags |= holds
			continue
		}
		switch x, is := s.deferred[e.name]; {
		case is && s.shard.now.Sub(x.since) < k.HoldReturned, !is && k.HoldReturned > 0:
			s.listHeld = true
			if !is {
				s.deferRemoval(e.name, deferredRemoval{returned: true}, k)
			}
		default:
			delete(s.deferred, e.name)
			r.flags &^= returned
		}
	}
	return s.listHeld
}
