package relay

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Some origins write the types of one snapshot in random order, and a service for each type has no
// order at all. So a change of listeners or routes is taken up Config.Gather later than it came
// (ORD-9), and the clusters of the same moment are there before it. What a response takes away of
// clusters and endpoints waits as long, and then for the routes that came meanwhile: they lead away
// from it. The origin is told at once that the response is good (RELAY-31).
//
// First answers go at once, since nobody was told anything that they change; so do heartbeats, and
// what is asked of virtual hosts by name, for which a request may wait (ALIAS-8).

// gathering is the responses that wait in one group. Its lock is held while one of them is
// applied, so that order is kept; a store's is taken under it.
type gathering struct {
	mu     sync.Mutex
	queue  []*arrival // in the order they are applied; at never falls along it
	queued atomic.Int32
	// orphans are the names of endpoints of Clusters that were taken away, and until when that
	// counts (emptied.go).
	orphans map[string]time.Time
}

// Late is what Apply would have returned for a response that waited.
type Late struct {
	TypeURL string
	Applied Applied
}

// maxLate bounds what waits for Later.
const maxLate = 100

// Later returns what was done with responses that waited, since the last call. Wake is signalled
// when there is something.
func (l *Lane) Later() []Late { return takeAll(&l.mu, &l.later) }

// take applies a response that has come, or puts it into the queue. It locks the group's queue.
func (g *gathering) take(x *arrival, wait time.Duration, a *Applied) {
	late, early := xds.ChoosesClusters(x.u.TypeURL), xds.IsBackend(x.u.TypeURL)
	if !early && (!late || wait <= 0 && g.queued.Load() == 0) {
		x.makeBodies(a)
		x.apply(a)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	x.at = x.came.Add(wait)
	switch {
	case late && wait > 0 && g.mustQueue(x):
		y, u := *x, *x.u
		y.u, u.waited, u.asked = &u, true, x.store.questions.Load()
		y.makeBodies(&Applied{})
		g.put(&y)
		y.confirmLater()
		a.Changed = len(u.Resources)
		return
	case late:
		g.takeStore(x.store)
	case early:
		emptied := x.empties()
		g.endRemovalsOf(x, emptied)
		g.noteRemovedClusters(x)
		if wait > 0 {
			if gone := x.takesAway(false); len(gone) > 0 {
				g.queueRemovals(x, gone)
			}
			if len(emptied) > 0 {
				g.queueEmptied(x, emptied)
				a.Changed += len(emptied)
				emptied = nil
			}
		}
		if len(emptied) > 0 {
			x.makeBodies(a)
			g.markOrphans(x, emptied)
			x.apply(a)
			return
		}
	}
	x.makeBodies(a)
	x.apply(a)
}

// mustQueue reports whether a response of listeners or routes has to wait: it changes something
// that a client may have been sent, or an earlier response of the type waits.
func (g *gathering) mustQueue(x *arrival) bool {
	changed, urgent := x.changes()
	return !urgent && (changed || slices.ContainsFunc(g.queue, func(y *arrival) bool { return y.store == x.store }))
}

// put adds a response to the queue.
func (g *gathering) put(x *arrival) {
	g.queue = append(g.queue, x)
	g.queued.Store(int32(len(g.queue)))
	x.store.push(timer{at: x.at, kind: gatherEnd, group: x.store.group})
}

// end applies what has waited long enough. It locks the group's queue.
func (g *gathering) end(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.takeDue(func(x *arrival) bool { return !x.at.After(now) })
}

// all applies everything. It locks the group's queue.
func (g *gathering) all() {
	if g.queued.Load() == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.takeDue(func(*arrival) bool { return true })
}

// allOf applies what came on a lane, since its stream ends, and what has to be applied before that.
// It locks the group's queue.
func (g *gathering) allOf(l *Lane) {
	if g.queued.Load() == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.takeDue(func(*arrival) bool {
		return slices.ContainsFunc(g.queue, func(x *arrival) bool { return x.lane == l })
	})
}

// takeDue applies what is due, in order. A removal of clusters is moved once, behind the routes
// that came before it was due.
func (g *gathering) takeDue(due func(*arrival) bool) {
	for len(g.queue) > 0 && due(g.queue[0]) {
		x := g.queue[0]
		g.queue = slices.Delete(g.queue, 0, 1)
		if i := g.behindRoutes(); x.removals && !x.moved && i > 0 {
			x.moved, x.at = true, g.queue[i-1].at
			g.queue = slices.Insert(g.queue, i, x)
			x.confirmLater()
			continue
		}
		g.takeUp(x)
	}
	g.queued.Store(int32(len(g.queue)))
}

// behindRoutes is the place in the queue behind the last change of listeners or routes, and
// behind what was moved there; 0: there is none.
func (g *gathering) behindRoutes() (i int) {
	for n, x := range g.queue {
		if !x.removals || x.moved && i == n {
			i = n + 1
		}
	}
	return i
}

// takeStore applies what waits of one type, since a response of it came that does not wait
// (RELAY-83).
func (g *gathering) takeStore(k *store) {
	g.queue = slices.DeleteFunc(g.queue, func(x *arrival) bool {
		if x.store != k {
			return false
		}
		g.takeUp(x)
		return true
	})
	g.queued.Store(int32(len(g.queue)))
}

// endRemovalsOf drops from the queue the removal of what a response brings again, and the empty
// form of endpoints of which it has another. What the response replaces by another variant is
// removed with it (DYN-11).
func (g *gathering) endRemovalsOf(x *arrival, emptied map[string]bool) {
	for _, y := range g.queue {
		if !y.takesFrom(x) {
			continue
		}
		if y.outdatedBy(x) {
			g.takeStore(x.store)
			return
		}
		x.bringsBack(y)
		if len(y.u.Resources) > 0 {
			said, goes := x.u.names(nil), map[string]bool{}
			for _, r := range append(x.u.removes(), x.takesAway(true)...) {
				goes[r.Name] = true
			}
			y.drop(func(name string) bool { return said[name] && !emptied[name] || goes[name] })
		}
	}
}

// takesFrom reports whether y came on the lane and stream where what x takes away came: another
// lane states what it has by itself.
func (x *arrival) takesFrom(y *arrival) bool {
	return x.removals && x.store == y.store && x.lane == y.lane && x.gen == y.gen
}

// queueRemovals moves what a response takes away into one that is applied later.
func (g *gathering) queueRemovals(x *arrival, gone []xds.RemovedVariant) {
	u, waits, goes := *x.u, map[xds.Identity]bool{}, make(map[xds.Identity]bool, len(gone))
	for _, y := range g.queue {
		if y.takesFrom(x) {
			for _, r := range y.u.removes() {
				waits[r.Identity()] = true
			}
		}
	}
	rest := &update{Update: xds.Update{TypeURL: u.TypeURL, Version: u.Version}, listed: u.Full}
	u.later = make(map[string]bool, len(gone))
	for _, r := range gone {
		u.later[r.Name], goes[r.Identity()] = true, true
		if !waits[r.Identity()] { // or else it goes before
			rest.remove(r)
		}
	}
	u.keepRemoved(func(id xds.Identity) bool { return !goes[id] })
	x.u = &u
	if left := rest.removes(); len(left) > 0 {
		if x.lane.group.config().SotW {
			x.lane.group.putAside(x.leaves(left), x.came)
		}
		y, from := *x, *x.from // the bodies of x keep theirs
		y.u, y.bodies, y.from, y.removals = rest, nil, &from, true
		g.put(&y)
		y.confirmLater()
	}
}

// takeUp applies a response that has waited. It locks the store, and then the lane.
func (g *gathering) takeUp(x *arrival) {
	if x.removals && len(x.u.Removed)+len(x.u.RemovedVariants)+len(x.u.Resources) == 0 || !x.store.find(x.u, x.lane.index, x.gen) {
		return // nobody asks for it any more
	}
	var a Applied
	x.makeBodies(&a)
	g.markOrphans(x, x.empties())
	x.apply(&a)
	// counted, or said when it came
	a.Changed, a.Resumed, a.Expired, a.Waiting = 0, 0, 0, 0
	if l := x.lane; !a.silent() {
		l.mu.Lock()
		if len(l.later) < maxLate {
			l.later = append(l.later, Late{x.u.TypeURL, a})
		}
		l.mu.Unlock()
		signal(l.wake)
	}
}

// silent reports whether there is nothing to report of it.
func (a *Applied) silent() bool {
	return a.Unrequested+a.Unmatched+a.Untimed+a.Unconstrained+len(a.Overlaps) == 0 && !a.Released
}

// changes reports whether a response of listeners or routes may change what a client was sent, and
// whether a client may wait for it. It locks the store.
func (x *arrival) changes() (changed, urgent bool) {
	if x.u.Heartbeats {
		return false, true // what it renews may run out before
	}
	x.store.mu.Lock()
	defer x.store.mu.Unlock()
	for _, s := range x.store.all {
		switch s.kind(x.lane.index, x.gen) {
		case kindSet:
			s.sets(func(t *set) { changed = changed || t.askedGen == x.gen && t.shown() })
		case kindNamed:
			c, asked := s.changes(x.u, x.gen)
			changed, urgent = changed || c, urgent || asked && xds.IsVirtualHost(x.u.TypeURL)
		}
	}
	return changed, urgent
}

// changes reports whether a response changes a name that is held, or adds to a set, and
// whether it answers a name of which nothing is held.
func (s *shard) changes(u *update, gen uint32) (changed, asked bool) {
	known := len(u.Repeats)
	for i := range u.Resources {
		r, held := &u.Resources[i], u.found[i].body
		if held == nil {
			if e := s.named.entry(r.Name); e != nil && e.isServed() {
				changed = true // clients were told another body
			}
			asked = true
			s.collections.eachOf(gen, r.Name, func(t *set) { changed = changed || t.shown() })
			continue
		}
		known++
		changed = changed || r.Any != nil && !held.Same(r)
		for _, alias := range r.Aliases {
			e := s.named.entries[xds.NameKey(alias)]
			asked = asked || e != nil && len(e.variants) == 0
		}
	}
	gone := func(name string) {
		held := len(s.variants(name)) > 0
		changed, asked = changed || held, asked || !held
	}
	for _, name := range u.Removed {
		gone(name)
	}
	for _, r := range u.RemovedVariants {
		gone(r.Name)
	}
	for _, e := range u.Errors {
		gone(e.Name)
	}
	if u.Full && xds.FullState(u.TypeURL) {
		changed = changed || s.named.size() > known
	}
	return changed, asked
}
