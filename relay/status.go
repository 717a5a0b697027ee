package relay

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/relay/xds"
)

// GroupStatus is a picture of one group, for admin pages, metrics and tests. Nothing in it is
// shared with the table.
type GroupStatus struct {
	Origin    string
	Key       string
	Dedicated bool         // to one client stream (RELAY-29)
	Node      *corev3.Node // presented upstream; not to be changed
	Clients   int          // streams
	// ParameterSets is how many distinct parameter maps they have in use, the empty one not counted
	// (RELAY-73).
	ParameterSets int
	Revision      uint64
	Lanes         [2]LaneStatus // main, side; where types have lanes of their own, whether any is
	Types         []TypeStatus  // in ORD-1 order, those of one type by their parameters
	Digests       []TypeDigest  // of each of Types
	Apart         []ApartStatus // of them, those not on the group's lanes, in the same order
}

// TypeDigest is of what is held of a type: of the set of `*`, and of what is held by name, each
// over names and content in no order. It is equal where equal things are held, on another replica
// or another weir. "" for what is private, and for nothing.
type TypeDigest struct{ Set, Names string }

// ApartStatus is a picture of a type that is or was suspect of making the origin end streams
// (RELAY-92).
type ApartStatus struct {
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

// LaneStatus is a picture of one lane.
type LaneStatus struct{ Wanted, Open bool }

// TypeStatus is a picture of one type of a group, for one parameter map.
type TypeStatus struct {
	TypeURL  string
	Wildcard bool // `*` is wanted upstream
	// Settled: the wildcard set is complete (RELAY-6).
	Settled bool
	Members int // of the wildcard set and of collections, each counted
	// Collections is the number of globs and namespaces wanted, those that linger included; they
	// are no Names.
	Collections int
	Names       int // wanted by name upstream, those that linger included
	Absent      int // of the names, stated not to exist and still so
	Waiting     int // of the names, asked and unanswered
	Bodies      int // resources held, of both kinds
	Bytes       int // of the bodies
	// Stale is how many of the bodies no open upstream stream vouches for, those held back
	// included.
	Stale int
	// Held is how many of the bodies are to go in a mass removal that is held back, until Until
	// (RELAY-97).
	Held  int
	Until time.Time
	// Frozen is how many changes and removals the origin has stated that are not taken because it
	// is frozen.
	Frozen int
	// Params is the parameter map, as canonical text; nearly always "", the empty one. Shared is
	// how many of the Bytes are those of bodies that a map before it holds too, in memory once.
	Params     string
	Shared     int
	Views      int
	Tombstones int
	// Unrequested counts resources that matched no subscription (RELAY-28), Unanswered names a
	// healthy origin left unanswered for 15 s (ABS-5); both since the start.
	Unrequested, Unanswered uint64
}

// Sharing is how many groups have clients, and how many clients they have, without those that are
// dedicated. Where the numbers are near, nothing is shared (RELAY-61).
func (o *Origin) Sharing() (groups, clients int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, g := range o.groups {
		if n := g.Clients(); !g.dedicated && n > 0 {
			groups, clients = groups+1, clients+n
		}
	}
	return groups, clients
}

// StandIns is how many resources of the last resort are given to clients, each in each group, where
// the origin has not replaced them yet.
func (o *Origin) StandIns() (n int) {
	if o.fallback.Load() == nil {
		return 0
	}
	for _, g := range o.groupList() {
		for _, s := range *g.all.Load() {
			n += s.standIns()
		}
	}
	return n
}

// standIns is the number of resources that come from the last resort. It locks the shard.
func (s *shard) standIns() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.walkAll(func(k known) {
		if k.standsIn() {
			n++
		}
	})
	return n
}

// Status is a picture of every group of the origin. It locks one shard at a time.
func (o *Origin) Status() []GroupStatus {
	var all []GroupStatus
	for _, g := range o.groupList() {
		gs := GroupStatus{
			Origin: o.name, Key: g.key, Dedicated: g.dedicated, Node: g.node, Clients: g.Clients(),
			ParameterSets: g.paramSets.len(),
		}
		for i, l := range g.lanes {
			gs.Lanes[i] = LaneStatus{Wanted: l.Wanted(), Open: l.gen.Load() != 0}
		}
		for k := range kinds(*g.all.Load()) {
			gs.add(k)
		}
		all = append(all, gs)
	}
	return all
}

func (gs *GroupStatus) add(k *store) {
	all := k.shards()
	var seen map[*Variant]bool
	if len(all) > 1 {
		seen = map[*Variant]bool{}
	}
	for _, s := range all {
		ts, digest, rev := s.status(seen)
		gs.Types, gs.Digests, gs.Revision = append(gs.Types, ts), append(gs.Digests, digest), max(gs.Revision, rev)
	}
	if k.home != &k.group.lanes {
		for i, l := range k.home {
			gs.Lanes[i].Wanted = gs.Lanes[i].Wanted || l.Wanted()
			gs.Lanes[i].Open = gs.Lanes[i].Open || l.gen.Load() != 0
		}
	}
	if as, apart := k.apartStatus(); apart {
		gs.Apart = append(gs.Apart, as)
	}
}

// status notes in seen, unless it is nil, the bodies that it has counted. It locks the shard.
func (s *shard) status(seen map[*Variant]bool) (_ TypeStatus, digest TypeDigest, rev uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ts := TypeStatus{
		TypeURL: s.typeURL, Wildcard: s.star.wanted(), Settled: s.star.settled, Collections: len(s.collections),
		Unrequested: s.unrequested, Unanswered: s.unanswered, Params: s.params.Key(),
	}
	s.sets(func(t *set) {
		ts.Members += len(t.members)
		ts.Views += len(t.views)
		for _, v := range t.views {
			ts.Tombstones += v.dead
		}
	})
	var star, names xds.Sum
	s.walkAll(func(k known) {
		live := k.live()
		if e := k.entry; e != nil {
			ts.Names++
			if s.absent(e) {
				ts.Absent++
			} else if !live && s.isAsked(e) {
				ts.Waiting++
			}
		}
		if !k.counts() {
			return
		}
		ts.count(seen, k.variants(), live && !k.heldBack())
		switch k.set {
		case nil:
			addAll(&names, k.variants())
		case s.star:
			addAll(&star, k.variants())
		}
	})
	if !s.private() {
		digest = TypeDigest{star.Shown(), names.Shown()}
	}
	ts.Held, ts.Until = s.guarded()
	ts.Frozen = len(s.frozen)
	return ts, digest, s.rev
}

// apartStatus is the status of a type that is asked apart; false if it is not. It locks the store.
func (k *store) apartStatus() (as ApartStatus, apart bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.apart
	if t == nil {
		return as, false
	}
	open := t.lanes[mainLane].gen.Load() != 0 || t.lanes[sideLane].gen.Load() != 0
	return ApartStatus{TypeURL: k.typeURL, Open: open, Quarantined: t.since, Refused: t.failures, Reason: t.reason}, true
}

func (t *TypeStatus) count(seen map[*Variant]bool, vs []*Variant, live bool) {
	t.Bodies += len(vs)
	for _, v := range vs {
		t.Bytes += v.Size()
		if seen[v] {
			t.Shared += v.Size()
		} else if seen != nil {
			seen[v] = true
		}
	}
	if !live {
		t.Stale += len(vs)
	}
}

// addAll counts bodies in.
func addAll(s *xds.Sum, vs []*Variant) {
	for _, v := range vs {
		s.Add(v.Digest)
	}
}
