package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Endpoints that are emptied. An origin may take a cluster away in the same change as the routes
// to it and send its endpoints empty rather than remove them, before the routes: istio does. To a
// client that is a removal, as its requests fail. So endpoints that had members and have none now
// wait for routes as removals do (ORD-9), gather at most if there are none.
//
// If their Cluster is removed, or may be since no stream has confirmed it, they are marked as
// orphaned. Then a client on ADS is sent the empty form when it would be sent the removal of
// endpoints that it asked for by name, or never, as it drops the name with the Cluster (ORD-10,
// ORD-11). Endpoints of a Cluster that stays are sent empty at once.

// maxOrphans bounds the names of endpoints that are remembered of Clusters that were taken away.
const maxOrphans = 10_000

// empties are the names of endpoints that a response empties. What has a TTL must not outlive it,
// and is left alone. It locks the store.
func (x *arrival) empties() (names map[string]bool) {
	if x.u.TypeURL != xds.EndpointType || x.lane.group.kept() {
		return nil
	}
	for i := range x.u.Resources {
		r, held := &x.u.Resources[i], x.u.found[i].body
		switch {
		case held == nil || r.Any == nil || len(r.Aliases)+len(held.Aliases) > 0:
		case r.HasTTL || held.Timed():
		case xds.HasEndpoints(r.Payload) || !held.HasEndpoints():
		case names == nil:
			names = map[string]bool{r.Name: true}
		default:
			names[r.Name] = true
		}
	}
	if names == nil {
		return nil
	}
	for _, r := range x.u.RemovedVariants {
		delete(names, r.Name) // what is brought may replace it (DYN-11)
	}
	x.store.mu.Lock()
	defer x.store.mu.Unlock()
	unshown := func(s *shard) bool { return s.kind(x.lane.index, x.gen) == kindSet && !s.star.shown() }
	if len(names) == 0 || !x.defers() || slices.ContainsFunc(x.store.all, unshown) {
		return nil
	}
	return names
}

// queueEmptied takes emptied endpoints out of a response, to be applied later. Endpoints that wait
// already, and are in the response again, take the new form and keep their place.
func (g *gathering) queueEmptied(x *arrival, emptied map[string]bool) {
	again := map[string]bool{}
	at := -1 // in the queue, of the first that waits
	for i, y := range g.queue {
		if !y.takesFrom(x) {
			continue
		}
		for j := range y.u.Resources {
			if name := y.u.Resources[j].Name; emptied[name] {
				again[name] = true
			}
		}
		if y.drop(func(name string) bool { return emptied[name] }) && at < 0 {
			at = i
		}
	}
	if at >= 0 {
		first := g.queue[at]
		y := x.cut(func(name string) bool { return again[name] })
		y.at, y.moved = first.at, first.moved
		g.queue = slices.Insert(g.queue, at+1, y)
		g.queued.Store(int32(len(g.queue)))
	}
	if len(again) < len(emptied) {
		y := x.cut(func(name string) bool { return emptied[name] })
		g.put(y)
		y.confirmLater()
	}
}

// cut moves resources out of a response into one that is applied later.
func (x *arrival) cut(of func(name string) bool) *arrival {
	u, from, y := *x.u, *x.from, *x
	rest := &update{Update: xds.Update{TypeURL: u.TypeURL, Version: u.Version, Wire: u.Wire}, holder: u.holder}
	later := make(map[string]bool, len(u.later)+1)
	for name := range u.later {
		later[name] = true
	}
	u.Resources, u.found, u.later = nil, nil, later
	for i := range x.u.Resources {
		to := &u
		if name := x.u.Resources[i].Name; of(name) {
			to, later[name] = rest, true
		}
		to.Resources, to.found = append(to.Resources, x.u.Resources[i]), append(to.found, x.u.found[i])
	}
	x.u = &u
	y.u, y.from, y.bodies, y.removals = rest, &from, nil, true
	y.makeBodies(&Applied{}) // of its own: what the response was read from is not kept
	return &y
}

// drop removes resources from a response that waits, and reports whether there were any.
func (x *arrival) drop(of func(name string) bool) bool {
	u, bodies, n := x.u, x.bodies, len(x.u.Resources)
	resources := u.Resources
	u.Resources, u.found, x.bodies = nil, nil, nil
	for i := range resources {
		if !of(resources[i].Name) {
			u.Resources, x.bodies = append(u.Resources, resources[i]), append(x.bodies, bodies[i])
		}
	}
	return len(u.Resources) < n
}

// outdatedBy reports whether response y needs the emptied endpoints that wait to be applied before
// it: an error leaves them in use (ABS-8), and a heartbeat is one of theirs.
func (x *arrival) outdatedBy(y *arrival) bool {
	return slices.ContainsFunc(x.u.Resources, func(r xds.Resource) bool {
		inError := func(e *NameError) bool { return e.Name == r.Name }
		beats := func(z xds.Resource) bool { return z.Name == r.Name && z.Any == nil }
		return slices.ContainsFunc(y.u.Errors, inError) || slices.ContainsFunc(y.u.Resources, beats)
	})
}

// noteRemovedClusters notes the endpoints of Clusters that a response removes. It counts for as
// long as a client may not be sent their removal yet.
func (g *gathering) noteRemovedClusters(x *arrival) {
	if x.u.TypeURL != xds.ClusterType || len(x.u.Removed) == 0 && !x.u.Full {
		return
	}
	for _, name := range x.leaves(x.takesAway(true)) {
		if g.orphans == nil {
			g.orphans = map[string]time.Time{}
		}
		if len(g.orphans) < maxOrphans {
			g.orphans[name] = x.came.Add(x.lane.group.origin.table.config().ColdWait)
		}
	}
}

// markOrphans marks as orphaned those endpoints of a response that are emptied because their
// Cluster goes. The bodies have just been made, and nobody else can see them.
func (g *gathering) markOrphans(x *arrival, emptied map[string]bool) {
	if len(emptied) == 0 {
		return
	}
	orphaned := g.orphansOf(x, emptied)
	for i, body := range x.bodies {
		if body != nil && body != x.u.found[i].body && orphaned[body.Name] {
			body.Orphan()
		}
	}
}

// orphansOf are those of the names to which a Cluster refers that goes, or may go, and none that
// stays. It locks the store of Clusters.
func (g *gathering) orphansOf(x *arrival, names map[string]bool) map[string]bool {
	orphaned, stays, waits := map[string]bool{}, map[string]bool{}, map[xds.Identity]bool{}
	for name := range names {
		if until, parted := g.orphans[name]; parted && x.came.Before(until) {
			orphaned[name] = true
		}
	}
	for _, y := range g.queue {
		if y.removals && y.store.typeURL == xds.ClusterType {
			for _, r := range y.u.removes() {
				waits[r.Identity()] = true
			}
		}
	}
	k := x.lane.group.store(xds.ClusterType)
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	look := func(of string, vs []*xds.Variant, goes bool) {
		for _, v := range vs {
			switch name := v.Endpoints(); {
			case !names[name]:
			case goes, waits[xds.Identity{Name: of, Constraints: v.Constraints.Key()}]:
				orphaned[name] = true
			default:
				stays[name] = true
			}
		}
	}
	for _, s := range k.all {
		s.sets(func(t *set) {
			for m := range t.members.all() {
				look(m.name, m.variants, t.sweepGen != 0 && t.swept(m, t.sweepGen))
			}
		})
		for name, e := range s.named.entries {
			look(name, e.variants, e.unconfirmed && !s.named.presented)
		}
	}
	for name := range stays {
		delete(orphaned, name)
	}
	return orphaned
}

// orphaned reports whether what the client is to be sent of a name is that its endpoints are empty,
// since its Cluster goes. What `*` brings is sent with the rest.
func (r *record) orphaned() bool {
	if c := r.entry.chosen; c == nil || !c.Orphaned() || c.Name != r.entry.name || r.sub.sets.first != nil {
		return false
	}
	v := r.body()
	if v == nil || r.unresolved(v) {
		return false
	}
	return v.Orphaned() && r.mayDefer() && r.sent != v.Digest && !(r.is(claimed) && v.ClaimedAs(r.sent))
}

// defersEmpty defers the empty endpoints of a name, if that has to be, and reports whether it does.
// A client that asks for the name again is sent them; one that comes back with the name is not.
func (r *record) defersEmpty(t *take) bool {
	s := r.sub
	late, back := r.is(sendEmpty), r.is(claimed) || r.back()
	r.flags &^= sendEmpty
	switch {
	case !r.orphaned() || late || r.is(owed) && !back:
		delete(s.deferred, r.entry.name)
		return false
	case s.deferred.has(r.entry.name):
		return true
	case !t.deferRemoval(r.entry.name, deferredRemoval{until: r.entry.rev, named: true, returned: back, empty: true}):
		return false
	}
	r.owe(false)
	return true
}
