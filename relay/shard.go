package relay

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// shard is the table of one type of one group for one parameter map (store.go): the sets `*` and
// collections, and the names. A member of a set came on the lane that asked for the set, and a
// named entry came on the lane that asked for its name, so the two have entries and lifetimes of
// their own (RELAY-20, RELAY-25). A client that is subscribed in both ways is answered from both at
// one instant, so they share a lock.
type shard struct {
	// Set once by newShard.
	*store
	params constraints.Params // of all that is asked here; nearly always none

	// toAsk is set when the lane of that index has to look at this shard.
	toAsk [2]atomic.Bool
	idle  atomic.Bool // nobody wants the type; see dropIfEmpty

	// What follows is guarded by mu, which is the store's.
	dead bool   // dropped from the group: look it up again
	rev  uint64 // of the last change applied here
	// edition is another whenever what a snapshot keeps of the shard is (TypeImage.Revision).
	edition uint64
	now     time.Time // of the last call that brought one
	subs    int       // open Subs and Wants
	asking  map[*Wants]struct{}

	star *set // the set the origin chooses for `*`
	// of Clusters: what it was restored with; nil: nothing, or long ago (comeback.go)
	restored    *restoredSet
	collections collections // globs and namespaces
	named       namedTable
	refreshed   refreshes
	expiring    expiring

	// Within one response: part is what it says to the shard, nil: nothing. turn is the revision of
	// the last that was offered to it.
	updateShare *updateShare
	turn        uint64

	// of which the origin has something that is not taken, which is of that Digest (freeze.go)
	frozen   map[frozenResource]xds.Digest
	frozenAt time.Time // when that has changed last
	news     news
	// thawed are those that waited when a freeze or a hold ended. Streams up to the one numbered
	// thawedGen do not bring them again.
	thawed    map[frozenResource]xds.Digest
	thawedGen uint32
	// errorsCut: a hold has ended errors that the origin does not state again on its present stream
	errorsCut bool

	unrequested uint64   // resources that matched no subscription (RELAY-28)
	unanswered  uint64   // names a healthy origin left unanswered (ABS-5)
	denied      []Denied // within one Update or Replace of a Sub
}

// interest is who wants a set or a name: so many clients, or none for less than linger (RELAY-3).
// Guarded by the shard's lock.
type interest struct {
	lingerAt time.Time // when it is given up; set while clients is 0 and it is still wanted
	clients  int32     // Subs that are subscribed to it
	timer    bool      // a lingerEnd timer is in the heap
}

func (w *interest) wanted() bool  { return w.clients > 0 || !w.lingerAt.IsZero() }
func (w *interest) lingers() bool { return w.clients == 0 && !w.lingerAt.IsZero() }

// join counts one more client.
func (w *interest) join() {
	w.clients++
	w.lingerAt = time.Time{}
}

type kind uint8

const (
	kindNone kind = iota
	kindSet
	kindNamed
)

func newShard(k *store, p constraints.Params) *shard {
	s := &shard{store: k, params: p}
	s.star = newSet(s, xds.Wildcard)
	s.collections.shard, s.expiring.shard = s, s
	s.edition = s.table().editions.Add(1)
	s.named.begin(s)
	return s
}

func (k *store) table() *Table { return k.group.origin.table }
func (k *store) cfg() *Config  { return k.group.origin.table.config() }
func (k *store) push(x timer)  { k.table().timers.push(x) }

// private reports whether the content is dropped with its last client. That holds for secrets
// (RELAY-75), for the group of a single client, and for an origin that is no longer configured.
func (s *shard) private() bool {
	return s.group.dedicated || xds.IsSecret(s.typeURL) || s.group.origin.ended.Load()
}

// leastRestored is the shortest time for which restored subscriptions linger. Clients need it to
// come back.
const leastRestored = time.Minute

// outlasts reports whether content without clients is kept for as long as it is unconfirmed. That
// holds for restored secrets (restore.go).
func (s *shard) outlasts(unconfirmed bool) bool {
	return unconfirmed && xds.IsSecret(s.typeURL) && !s.group.dedicated && !s.group.origin.ended.Load()
}

// retires reports whether content is kept for an outage after its last client has left. The content
// of a group in which no client acknowledged anything is not kept: a made-up node would displace
// what real clients may come back for.
func (s *shard) retires() bool { return !s.private() && s.group.used.Load() }

// linger is how long an upstream subscription outlives its last client (RELAY-3). It is zero while
// as many parameter maps are held as may be in use. Clients make maps up, and maps that are used
// one after the other would pile up while they linger (RELAY-73).
func (s *shard) linger() time.Duration {
	most := s.cfg().MaxParameterSets
	if s.private() || s.group.vain() || s.params.Len() > 0 && most > 0 && len(s.store.all) > most {
		return 0
	}
	return s.cfg().Linger
}

// lingerUntil keeps something that lost its last client until a time. end is the timer for it: it
// names the set or the entry.
func (s *shard) lingerUntil(w *interest, at time.Time, end timer) {
	if w.lingerAt = at; !w.timer {
		w.timer = true
		end.at, end.kind, end.shard = at, lingerEnd, s
		s.push(end)
	}
}

func (k *store) lane(i laneIndex) *Lane { return k.lanes.Load()[i] }

// wake has a stream woken when the store is unlocked: once, however many of its Subs are marked.
// If another store is about to wake it, that is enough. Its Subs are marked already, and the
// stream waits for this lock before it takes.
func (k *store) wake(w *Subscriber) {
	if !w.due.Swap(true) {
		k.woken = append(k.woken, w)
	}
}

// unlock publishes what has changed, releases the store and then wakes the clients that the work
// concerned. No client is signalled under the lock.
func (k *store) unlock() {
	k.publish()
	woken := k.woken
	k.woken = nil
	k.mu.Unlock()
	for _, w := range woken {
		w.due.Store(false)
		w.Signal()
	}
}

// poke makes the lane of index i look at the shard.
func (s *shard) poke(i laneIndex) {
	if !s.group.origin.Serves(s.typeURL) {
		return
	}
	s.toAsk[i].Store(true)
	s.lane(i).poke()
}

// maxIdleShards is how many types a stream may have been asked for in vain before it is opened anew
// without them.
const maxIdleShards = 256

// unlockOrDrop unlocks the shard. If nobody uses it the group drops it, which locks the group.
func (s *shard) unlockOrDrop() {
	dead := s.dropIfEmpty()
	s.unlock()
	if dead {
		s.group.dropShard(s)
	}
}

// dropIfEmpty marks the shard dead if nobody uses it, and reports whether it is. A type that was
// asked on a stream keeps its shard until the stream ends, since it must not be asked there as if
// for the first time. If too many made-up types stay for this reason, the stream is reopened.
func (s *shard) dropIfEmpty() bool {
	if s.dead || s.subs > 0 || s.star.wanted() || len(s.collections.byName)+len(s.named.entries) > 0 {
		return s.dead
	}
	if s.remember() {
		return false
	}
	s.dead = true
	for i, l := range s.lanes.Load() {
		// What was asked by locator is taken back one by one, but the stream was asked for the
		// type.
		if s.byLocator() && len(s.store.all) > 1 {
			left := laneIndex(i) != s.named.lane && l.live(s.named.firstGen[i])
			s.dead = s.dead && !left && !(i == int(mainLane) && l.live(s.star.askedGen))
			continue
		}
		if l.live(s.named.firstGen[i]) || l.live(s.askedGen[i]) || i == int(mainLane) && (l.live(s.star.askedGen) || l.live(s.collections.spacesGen)) {
			s.dead = false
			s.idle.Store(true)
			if s.group.idle() > maxIdleShards {
				l.reopenSoon()
			}
		}
	}
	if s.dead && s.quarantine != nil && len(s.store.all) == 1 {
		s.quarantine.setStage(stageSuspended) // whoever runs its lanes finds nothing to ask
	}
	return s.dead
}

// idle is how many types nobody wants, which stay only as long as their stream.
func (g *Group) idle() (n int) {
	for _, s := range *g.all.Load() {
		if s.idle.Load() {
			n++
		}
	}
	return n
}

func (s *shard) nextRev() uint64 {
	s.rev = s.table().rev.Add(1)
	s.edited()
	return s.rev
}

// noteChange notes a change of a resource of the shard, if it is one. set is empty for a name.
func (s *shard) noteChange(set, name string, c history.Change) {
	same := c.Was == nil && c.Is == nil || c.Was != nil && c.Is != nil && c.Was.Digest == c.Is.Digest
	if same || !s.past.On() || s.group.origin.ended.Load() {
		return
	}
	c.Revision, c.At, c.Unkept = s.rev, s.now, xds.IsSecret(s.typeURL)
	due := s.past.Note(history.Resource{Params: s.params.Key(), Set: set, Name: name}, c)
	s.table().expireHistory(due)
}

// put replaces the variant of the same constraints, or adds it.
func put(vs []*xds.Variant, v *xds.Variant) []*xds.Variant {
	key := v.Constraints.Key()
	for i := range vs {
		if vs[i].Constraints.Key() == key {
			vs[i] = v
			return vs
		}
	}
	return append(vs, v)
}

// find is the variant of exactly these constraints.
func find(vs []*xds.Variant, key string) *xds.Variant {
	for _, v := range vs {
		if v.Constraints.Key() == key {
			return v
		}
	}
	return nil
}

// cut removes the variant of exactly these constraints.
func cut(vs []*xds.Variant, key string) []*xds.Variant {
	return slices.DeleteFunc(vs, func(v *xds.Variant) bool { return v.Constraints.Key() == key })
}

// pick chooses the variant for a parameter map: the match with the most distinct keys, then the
// smallest canonical form (DYN-9), so that every replica chooses alike.
func pick(vs []*xds.Variant, p constraints.Params) *xds.Variant {
	var best *xds.Variant
	for _, v := range vs {
		if !v.Constraints.Match(p) {
			continue
		}
		if best == nil || v.Constraints.Keys() > best.Constraints.Keys() ||
			v.Constraints.Keys() == best.Constraints.Keys() && v.Constraints.Key() < best.Constraints.Key() {
			best = v
		}
	}
	return best
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// edited notes that the snapshot of the shard is out of date.
func (s *shard) edited() { s.edition = s.table().editions.Add(1) }

// endLingering drops everything that lingers. It is for a group whose node no client can have
// again: what a client unsubscribed from before it left would keep the group. It locks the shard.
func (s *shard) endLingering() {
	s.mu.Lock()
	for _, e := range s.named.entries {
		if e.lingers() {
			s.named.unwant(e)
		}
	}
	s.sets(func(t *set) {
		if t.lingers() {
			t.unwant()
		}
	})
	s.unlockOrDrop()
}
