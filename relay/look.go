package relay

import (
	"iter"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/relay/xds"
)

// What package inspect is shown of the table: copies of values and of pointers to what never
// changes, taken while one type of one group is locked. Texts are made there, without a lock.

// GroupView is one group of an origin as it was when it was looked at.
type GroupView struct {
	Key       string
	Node      *corev3.Node // presented upstream; not to be changed
	Identity  string       // of all its clients, where the key has it; else ""
	Dedicated bool         // to one client stream (RELAY-29)
	Clients   int          // streams
	// ParameterSets is how many distinct parameter maps they have in use, the empty one not counted
	// (RELAY-73).
	ParameterSets int
	// Tier is which one of its key it is. Tiered: the key has tiers.
	Tier   Tier
	Tiered bool

	group *Group
}

// LaneStatus is how one lane stands.
type LaneStatus struct{ Wanted, Open bool }

// Groups are those of the origin, by key.
func (o *Origin) Groups() []GroupView {
	list := o.groupList()
	views := make([]GroupView, len(list))
	var tiered map[*Group]bool
	for _, g := range list {
		if g.newest == nil {
			continue
		}
		if tiered == nil {
			tiered = map[*Group]bool{}
		}
		tiered[g], tiered[g.newest] = true, true
	}
	for i, g := range list {
		views[i] = GroupView{g.key, g.node, g.identity, g.dedicated, g.Clients(), g.paramSets.len(), g.tier, tiered[g], g}
	}
	return views
}

// Lanes are the main and the side lane; where types have lanes of their own, whether any of them is
// wanted, or open.
func (g *GroupView) Lanes() (all [2]LaneStatus) {
	look := func(lanes *[2]*Lane) {
		for i, l := range lanes {
			all[i].Wanted = all[i].Wanted || l.Wanted()
			all[i].Open = all[i].Open || l.gen.Load() != 0
		}
	}
	look(&g.group.lanes)
	for v := range g.Types() {
		if home := v.store.home; home != &g.group.lanes {
			look(home)
		}
	}
	return all
}

// Fields are what the group's members have in common in the terms of its key (node.Rules.Fields).
func (g *GroupView) Fields() map[string]string {
	return g.group.origin.nodeRules().Fields(g.Node, g.Identity)
}

// Differing are the watched fields in which the group's members differ, though its key leaves them
// out.
func (g *GroupView) Differing() []Differing { return g.group.watched.differing() }

// Agreed are the watched fields that are not in the group's key and that its members have one value
// of, without those who lack it.
func (g *GroupView) Agreed() map[string]string { return g.group.watched.agreed() }

// Told reports whether a term of the keys is the identity, which the origin is told so that it can
// judge by it.
func (o *Origin) Told(term string) bool {
	return term == node.Identity && o.config().IdentityTo != ""
}

// GroupBy are the terms of the keys of the origin's groups. The caller must not change it.
func (o *Origin) GroupBy() []string { return o.config().GroupBy }

// Types are those of the group, in ORD-1 order.
func (g *GroupView) Types() iter.Seq[TypeView] {
	return func(yield func(TypeView) bool) {
		for k := range kinds(*g.group.all.Load()) {
			if !yield(TypeView{k.typeURL, k}) {
				return
			}
		}
	}
}

// TypeView is one type of a group.
type TypeView struct {
	TypeURL string
	store   *store
}

// QuarantineStatus is how a type stands that is or was suspect of making the origin end streams
// (RELAY-92).
type QuarantineStatus struct {
	TypeURL string
	// Open: a stream of its own is.
	Open bool
	// Quarantined is since when; zero: it is only suspect.
	Quarantined time.Time
	// Refused is how many streams of its own the origin ended, in a row, and Reason what it said
	// the last time.
	Refused int
	Reason  string
}

// Quarantined is how the type stands; false if it is on the group's lanes.
func (v TypeView) Quarantined() (as QuarantineStatus, apart bool) {
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	t := v.store.quarantine
	if t == nil {
		return as, false
	}
	open := t.lanes[mainLane].gen.Load() != 0 || t.lanes[sideLane].gen.Load() != 0
	return QuarantineStatus{TypeURL: v.TypeURL, Open: open, Quarantined: t.since, Refused: t.failures, Reason: t.reason}, true
}

// Maps are the parameter maps that clients ask for the type with, that of the empty one first.
func (v TypeView) Maps() []MapView {
	shards := v.store.shards()
	views := make([]MapView, len(shards))
	for i, s := range shards {
		views[i] = MapView{s}
	}
	return views
}

// MapView is one type of a group for one parameter map.
type MapView struct{ shard *shard }

// Params is the map.
func (m MapView) Params() constraints.Params { return m.shard.params }

// StandIns is how many resources of the last resort clients are given, where the origin has not
// replaced them yet.
func (m MapView) StandIns() (n int) {
	s := m.shard
	if s.group.origin.fallback.Load() == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.walk(nil, func(k known) {
		if k.standsIn() {
			n++
		}
	})
	return n
}

// TypeDigest is of what is held of a type: of the set of `*`, and of what is held by name, each
// over names and content in no order. It is equal where equal things are held, on another replica
// or another weir. "" for what is private, and for nothing.
type TypeDigest struct{ Set, Names string }

// TypeStatus counts what is known of one type of a group, for one parameter map.
type TypeStatus struct {
	TypeURL  string `json:"-"`
	Wildcard bool   `json:"wildcard"` // `*` is wanted upstream
	// Settled: the wildcard set is complete (RELAY-6).
	Settled bool `json:"settled"`
	Members int  `json:"members"` // of the wildcard set and of collections, each counted
	// Collections is the number of globs and namespaces wanted, those that linger included; they
	// are no Names.
	Collections int `json:"collections"`
	Names       int `json:"names"`   // wanted by name upstream, those that linger included
	Absent      int `json:"absent"`  // of the names, stated not to exist and still so
	Waiting     int `json:"waiting"` // of the names, asked and unanswered
	// Resources are the names that have a body, StaleResources those that have a stale one.
	Resources, StaleResources Distinct `json:"-"`

	Bodies int `json:"copies"` // copies of resources held, as members and by name
	Bytes  int `json:"bytes"`  // of the bodies
	// Stale is how many of the bodies no open upstream stream vouches for, those held back
	// included.
	Stale int `json:"-"`
	// Held is how many of the bodies are to go in a mass removal that is held back, until Until
	// (RELAY-97).
	Held  int       `json:"held_removals,omitempty"`
	Until time.Time `json:"held_until,omitzero"`
	// Frozen is how many changes and removals the origin has stated that are not taken because it
	// is frozen.
	Frozen int `json:"frozen_changes,omitempty"`
	// Params is the parameter map, as canonical text; nearly always "", the empty one. Shared is
	// how many of the Bytes are those of bodies that a map before it holds too, in memory once.
	Params     string `json:"-"`
	Shared     int    `json:"-"`
	Views      int    `json:"views"` // of clients; what a tier asks of the newest has none of its own
	Tombstones int    `json:"tombstones"`
	// Unrequested counts resources that matched no subscription (RELAY-28), Unanswered names a
	// healthy origin left unanswered for 15 s (ABS-5); both since the start.
	Unrequested uint64 `json:"unrequested"`
	Unanswered  uint64 `json:"unanswered"`
}

// Distinct counts names: of one parameter map, of them those that no map before it in the group
// has, and of those the ones that no group before has.
type Distinct struct{ Map, Group, Origin int }

// Digest is of what Status counts. The digests of the bodies are copied under the lock, and hashed
// without it.
func (m MapView) Digest() TypeDigest {
	s := m.shard
	if s.private() {
		return TypeDigest{}
	}
	var star, names []xds.Digest
	s.mu.Lock()
	s.walk(nil, func(k known) {
		switch {
		case !k.counts():
		case k.set == nil:
			names = appendDigests(names, k.variants)
		case k.set == s.star:
			star = appendDigests(star, k.variants)
		}
	})
	s.mu.Unlock()
	return TypeDigest{xds.SetOf(star).Shown(), xds.SetOf(names).Shown()}
}

// Counted is what Status has counted of one type, in group after group of an origin, so that a
// resource that several of them hold counts once. The zero value has counted nothing.
type Counted struct {
	last  int // parameter map that is counted; the first is 1
	group int // the map before the first of its group
	// names have a body, in stale a stale one; with the last map that has it.
	names, stale map[string]int
	bodies       map[*xds.Variant]bool // of the present group
}

// NextGroup says that another group follows. Shared: several of its maps are counted, which have
// bodies in common.
func (c *Counted) NextGroup(shared bool) {
	if c.group = c.last; c.names == nil {
		c.names, c.stale = map[string]int{}, map[string]int{}
	}
	if c.bodies = nil; shared {
		c.bodies = map[*xds.Variant]bool{}
	}
}

// Status counts, under the lock and without a copy of anything. seen has what was counted before.
// If it is nil, Resources, StaleResources and Shared are left out. rev is the revision of the last
// change.
func (m MapView) Status(seen *Counted) (_ TypeStatus, rev uint64) {
	s := m.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	ts := TypeStatus{
		TypeURL: s.typeURL, Wildcard: s.star.wanted(), Settled: s.star.settled, Collections: len(s.collections.byName),
		Unrequested: s.unrequested, Unanswered: s.unanswered, Params: s.params.Key(),
	}
	s.sets(func(t *set) {
		ts.Members += t.members.len()
		for v := range t.views.all() {
			ts.Tombstones += v.dead
		}
		ts.Views += t.viewsOfClients()
	})
	if seen != nil {
		seen.last++
	}
	s.walk(nil, func(k known) {
		live := k.live()
		if e := k.entry; e != nil {
			ts.Names++
			if s.named.absent(e) {
				ts.Absent++
			} else if !live && s.named.isAsked(e) {
				ts.Waiting++
			}
		}
		if !k.counts() {
			return
		}
		ts.count(seen, k, live && !k.heldBack())
	})
	ts.Held, ts.Until = s.guarded(false)
	ts.Frozen = len(s.frozen)
	return ts, s.rev
}

func (t *TypeStatus) count(seen *Counted, k known, live bool) {
	if len(k.variants) == 0 {
		return
	}
	t.Bodies += len(k.variants)
	if !live {
		t.Stale += len(k.variants)
	}
	if seen != nil {
		t.Resources.count(seen, seen.names, k.name)
		if !live {
			t.StaleResources.count(seen, seen.stale, k.name)
		}
	}
	for _, v := range k.variants {
		t.Bytes += v.Size()
		if seen == nil {
			continue
		}
		if seen.bodies[v] {
			t.Shared += v.Size()
		} else if seen.bodies != nil {
			seen.bodies[v] = true
		}
	}
}

func (d *Distinct) count(seen *Counted, names map[string]int, name string) {
	last := names[name]
	if last == seen.last {
		return
	}
	names[name] = seen.last
	d.Map++
	if last <= seen.group {
		d.Group++
	}
	if last == 0 {
		d.Origin++
	}
}
