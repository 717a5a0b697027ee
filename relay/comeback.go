package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// This file is about Clusters that were removed while a client was away. The client comes back and
// holds them. Its routes refer to them until it is sent others, which may take a moment (ORD-10,
// ORD-11). In delta a removal is always sent last. In SotW a list keeps what was removed, or waits:
//
//   - A list of `*` must not wait, since new routes need its new Clusters. It keeps what was
//     restored and is gone, if the client's version is that of the restored list. With another
//     version it keeps nothing: the client may have a newer list from another replica, and would
//     be sent again what it knows to be gone (EC-4).
//   - A list by name keeps what was removed, if the client's version is that of its names. Often
//     the version is older than the last change of the names, and proves nothing. Then the list
//     waits for order_hold, and no route waits for it.
//
// One case is not covered. The last list that a client of `*` accepted may itself have kept a
// removed Cluster (ORD-3), if weir ended within order_hold of the removal. The snapshot does not
// have that Cluster, so the version proves nothing.

// restoredSet is what the set of Clusters was restored with.
type restoredSet struct {
	members   []*xds.Variant // except those that had a TTL
	version   string         // version_info of the list of all of them
	confirmed bool           // whether the origin had confirmed the set at the last check

	// gone are the members that the view lacks, as of revision rev of view.
	gone []*xds.Variant
	view *view
	rev  uint64
}

// rememberRestored records what `*` was restored with. It is kept until clients have had time to
// come back.
func (s *shard) rememberRestored(now time.Time) {
	if s.typeURL != xds.ClusterType || !s.star.restored || s.star.revived || s.group.config().OriginVersions {
		return
	}
	x, all := &restoredSet{members: make([]*xds.Variant, 0, s.star.members.len())}, contentOf{}
	for m := range s.star.members.all() {
		v := pick(m.variants, s.params)
		if v == nil {
			continue
		}
		if all.add(v.Digest); !v.Timed() { // RELAY-50
			x.members = append(x.members, v)
		}
	}
	x.version, s.restored = all.version(), x
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

// isGone returns the restored Clusters that the view no longer has, and its clients may have.
func (x *restoredSet) isGone(v *view) []*xds.Variant {
	if x.view != v || x.rev != v.contentRev {
		x.view, x.rev = v, v.contentRev
		x.gone = slices.DeleteFunc(slices.Clone(x.members), func(m *xds.Variant) bool { return v.has(m.Name) || !v.permit.Allows(m.Name) })
	}
	return x.gone
}

// deferRestored keeps the removed Clusters in the first list of `*`, if the client's version shows
// that it holds them.
func (t *take) deferRestored() {
	s := t.sub
	p, x := s.sets.first, s.shard.restored
	if p == nil || !p.fresh || x == nil || s.records.len() > 0 || s.version != x.version || t.k == deferNothing {
		return
	}
	for _, v := range x.isGone(p.view) {
		t.deferRemoval(v.Name, deferredRemoval{body: v, until: p.view.contentRev, named: true, set: true, returned: true})
	}
}

// back reports whether the client came back with the name, and was not sent the resource since.
func (r *record) back() bool { return r.is(returned) && r.sent == (xds.Digest{}) }

// holdsExactly reports whether the version of a client that comes back is that of the names it
// lists, with their present bodies, or with their last ones if they were removed. Then the client
// holds exactly these.
func (s *Sub) holdsExactly() bool {
	var all contentOf
	for r := range s.records.all() {
		switch e := r.entry; {
		case e.chosen != nil:
			all.add(e.chosen.Digest)
		case e.last != nil:
			all.add(e.last.Digest)
		}
	}
	return s.version == all.version()
}

// firstListWaits reports whether the first list by name has to wait, for a client that comes back.
// It waits if it would leave out a removed Cluster that the client may hold, and the client's
// version does not prove what it holds.
func (t *take) firstListWaits() bool {
	s := t.sub
	s.listHeld = false
	// With sentWhole it is not the first list, even if `*` was unsubscribed since.
	if !s.holds || s.sentWhole || s.sets.first != nil || s.inUnion || s.typeURL != xds.ClusterType {
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
		case is && s.shard.now.Sub(x.since) < t.k.HoldReturned, !is && t.k.HoldReturned > 0:
			s.listHeld = true
			if !is {
				t.deferRemoval(e.name, deferredRemoval{returned: true})
			}
		default:
			delete(s.deferred, e.name)
			r.flags &^= returned
		}
	}
	return s.listHeld
}
