package relay

import (
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// GroupStatus is a picture of one group, for admin pages, metrics and tests. Nothing in it is shared with the table.
type GroupStatus struct {
	Origin    string
	Key       string
	Dedicated bool         // to one client stream (RELAY-29)
	Node      *corev3.Node // presented upstream; not to be changed
	Clients   int          // streams
	// ParameterSets is how many distinct parameter maps they have in use, the empty one not counted (RELAY-73).
	ParameterSets int
	Revision      uint64
	Lanes         [2]LaneStatus // main, side; where types have lanes of their own, whether any is
	Types         []TypeStatus  // in ORD-1 order
	Digests       []TypeDigest  // of each of Types
	Apart         []ApartStatus // of them, those not on the group's lanes, in the same order
}

// TypeDigest is of what is held of a type: of the set of `*`, and of what is held by name, each over names and content in no order.
// It is equal where equal things are held, on another replica or another weir. "" for what is private, and for nothing.
type TypeDigest struct{ Set, Names string }

// ApartStatus is a picture of a type that is or was suspect of making the origin end streams (RELAY-92).
type ApartStatus struct {
	TypeURL string
	// Open: a stream of its own is.
	Open bool
	// Quarantined is since when; zero: it is only suspect.
	Quarantined time.Time
	// Refused is how many streams of its own the origin ended, in a row, and Reason what it said the last time.
	Refused int
	Reason  string
}

// LaneStatus is a picture of one lane.
type LaneStatus struct{ Wanted, Open bool }

// TypeStatus is a picture of one type of a group.
type TypeStatus struct {
	TypeURL  string
	Wildcard bool // `*` is wanted upstream
	// Settled: the wildcard set is complete (RELAY-6).
	Settled bool
	Members int // of the wildcard set and of collections, each counted
	// Collections is the number of globs and namespaces wanted, those that linger included; they are no Names.
	Collections int
	Names       int // wanted by name upstream, those that linger included
	Absent      int // of the names, stated not to exist and still so
	Waiting     int // of the names, asked and unanswered
	Bodies      int // resources held, of both kinds
	Bytes       int // of the bodies
	// Stale is how many of the bodies no open upstream stream vouches for, those held back included.
	Stale int
	// Held is how many of the bodies are to go in a mass removal that is held back, until Until (RELAY-97).
	Held  int
	Until time.Time
	// Frozen is how many changes and removals the origin has stated that are not taken because it is frozen.
	Frozen     int
	Views      int
	Tombstones int
	// Unrequested counts resources that matched no subscription (RELAY-28), Unanswered names a healthy origin left
	// unanswered for 15 s (ABS-5); both since the start.
	Unrequested, Unanswered uint64
}

// Sharing is how many groups have clients, and how many clients they have, without those that are dedicated. Where the numbers are
// near, nothing is shared (RELAY-61).
func (o *Origin) Sharing() (groups, clients int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, g := range o.groups {
		if !g.dedicated && g.refs > 0 {
			groups, clients = groups+1, clients+g.refs
		}
	}
	return groups, clients
}

// Status is a picture of every group of the origin. It locks one shard at a time.
func (o *Origin) Status() []GroupStatus {
	var all []GroupStatus
	for _, g := range o.groupList() {
		o.mu.Lock()
		clients := g.refs
		o.mu.Unlock()
		gs := GroupStatus{
			Origin: o.name, Key: g.key, Dedicated: g.dedicated, Node: g.node, Clients: clients,
			ParameterSets: g.paramSets.len(),
		}
		for i, l := range g.lanes {
			gs.Lanes[i] = LaneStatus{Wanted: l.Wanted(), Open: l.gen.Load() != 0}
		}
		for _, s := range *g.all.Load() {
			ts, digest, rev := s.status()
			gs.Types, gs.Digests, gs.Revision = append(gs.Types, ts), append(gs.Digests, digest), max(gs.Revision, rev)
			if s.home != &g.lanes {
				for i, l := range s.home {
					gs.Lanes[i].Wanted = gs.Lanes[i].Wanted || l.Wanted()
					gs.Lanes[i].Open = gs.Lanes[i].Open || l.gen.Load() != 0
				}
			}
			if as, apart := s.apartStatus(); apart {
				gs.Apart = append(gs.Apart, as)
			}
		}
		all = append(all, gs)
	}
	return all
}

func (s *shard) status() (_ TypeStatus, digest TypeDigest, rev uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ts := TypeStatus{
		TypeURL: s.typeURL, Wildcard: s.star.wantedLocked(), Settled: s.star.settled, Collections: len(s.collections),
		Unrequested: s.unrequested, Unanswered: s.unanswered,
	}
	s.setsLocked(func(t *set) {
		ts.Members += len(t.members)
		ts.Views += len(t.views)
		for _, v := range t.views {
			ts.Tombstones += v.dead
		}
		live := t.liveLocked()
		for _, m := range t.members {
			ts.count(m.variants, live && !t.guard.partsFromLocked(m.variants))
		}
	})
	var set, names sum
	for _, m := range s.star.members {
		set.addAll(m.variants)
	}
	for _, e := range s.named.entries {
		live := false
		for _, w := range e.wants {
			ts.Names++
			asked := s.isAskedLocked(w)
			live = live || asked && w.answered == w.asked
			if s.absentLocked(w) {
				ts.Absent++
			} else if asked && w.answered != w.asked {
				ts.Waiting++
			}
		}
		if e.counts() {
			ts.count(e.variants, live && !s.named.guard.partsEntryLocked(e))
			names.addAll(e.variants)
		}
	}
	if !s.private() {
		digest = TypeDigest{set.shown(), names.shown()}
	}
	ts.Held, ts.Until = s.guardedLocked()
	ts.Frozen = len(s.frozen)
	return ts, digest, s.rev
}

func (s *shard) apartStatus() (as ApartStatus, apart bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.apart
	if t == nil {
		return as, false
	}
	open := t.lanes[mainLane].gen.Load() != 0 || t.lanes[sideLane].gen.Load() != 0
	return ApartStatus{TypeURL: s.typeURL, Open: open, Quarantined: t.since, Refused: t.failures, Reason: t.reason}, true
}

func (t *TypeStatus) count(vs []*Variant, live bool) {
	t.Bodies += len(vs)
	for _, v := range vs {
		t.Bytes += v.Size()
	}
	if !live {
		t.Stale += len(vs)
	}
}

// ResourceStatus is a picture of one resource.
type ResourceStatus struct {
	Group    string
	TypeURL  string
	Name     string
	Wildcard bool // a member of the wildcard set; else held by name, or in a Collection
	// Collection is the glob or namespace that the resource is a member of; "" for none.
	Collection    string
	Version       string
	OriginVersion string
	Constraints   string // canonical; "" for none
	Bytes         int
	Clients       int  // subscribed by name
	Live          bool // an open upstream stream vouches for it
	Held          bool // it is to go in a mass removal that is held back
	Absent        bool // stated not to exist; there is no body
	// Body is the payload, an encoded google.protobuf.Any; nil for secrets (RELAY-76), do_not_cache (RELAY-9) and Absent.
	Body []byte

	body *Variant // while the picture is being made
}

// Resources calls f for a picture of each resource of the type and name; empty ones stand for all. Order: group, type,
// wildcard members first, then what is held by name and in collections, name. It stops when f returns false.
func (o *Origin) Resources(group, typeURL, name string, f func(ResourceStatus) bool) {
	name = NameKey(name)
	for _, g := range o.groupList() {
		if group != "" && g.key != group {
			continue
		}
		for _, s := range *g.all.Load() {
			if typeURL != "" && s.typeURL != typeURL {
				continue
			}
			for _, r := range s.resources(name) {
				if !f(r) {
					return
				}
			}
		}
	}
}

// resources takes pointers under the lock, and makes the pictures, digests as text among them, outside it.
func (s *shard) resources(name string) []ResourceStatus {
	var rs []ResourceStatus
	s.mu.Lock()
	s.setsLocked(func(t *set) {
		if name == "" {
			for _, m := range t.members {
				rs = t.picturesLocked(rs, m)
			}
		} else if m := t.members[name]; m != nil {
			rs = t.picturesLocked(rs, m)
		}
	})
	if name == "" {
		for _, e := range s.named.entries {
			if e.counts() {
				rs = s.namedPicturesLocked(rs, e)
			}
		}
	} else {
		var last *heldAlso
		for _, e := range s.holdersLocked(name) { // one speaks for all that hold the resource
			if e.also == nil || e.also != last {
				rs = s.namedPicturesLocked(rs, e)
			}
			last = e.also
		}
	}
	s.mu.Unlock()
	for i := range rs {
		if v := rs[i].body; v != nil {
			s.fill(&rs[i], v)
		}
	}
	slices.SortFunc(rs, func(a, b ResourceStatus) int {
		switch {
		case a.Wildcard != b.Wildcard && a.Wildcard:
			return -1
		case a.Wildcard != b.Wildcard:
			return 1
		case a.Collection != b.Collection:
			return cmpString(a.Collection, b.Collection)
		case a.Name != b.Name:
			return cmpString(a.Name, b.Name)
		}
		return cmpString(a.Constraints, b.Constraints)
	})
	return rs
}

func (t *set) picturesLocked(rs []ResourceStatus, m *member) []ResourceStatus {
	r := ResourceStatus{Wildcard: t.kind == wild, Live: t.liveLocked()}
	if t.kind != wild {
		r.Collection = spelling(t.selector, t.spelt)
	}
	live := r.Live
	for _, v := range m.variants {
		r.body, r.Held = v, t.guard.holdsLocked(v)
		r.Live = live && !r.Held
		rs = append(rs, r)
	}
	return rs
}

func (s *shard) namedPicturesLocked(rs []ResourceStatus, e *entry) []ResourceStatus {
	clients, live, absent := 0, false, false
	all := []*entry{e}
	if e.also != nil {
		all = e.also.entries
	}
	for _, e := range all {
		for _, w := range e.wants {
			clients += w.count
			live = live || s.isAskedLocked(w) && w.answered == w.asked
			absent = absent || s.absentLocked(w)
		}
	}
	for _, v := range e.variants {
		held := s.named.guard.partsEntryLocked(e)
		rs = append(rs, ResourceStatus{Clients: clients, Live: live && !held, Held: held, body: v})
	}
	if len(e.variants) == 0 {
		rs = append(rs, ResourceStatus{
			Group: s.group.key, TypeURL: s.typeURL, Name: spelling(e.name, e.spelt), Clients: clients, Live: live, Absent: absent,
		})
	}
	return rs
}

// fill adds what the body says to a picture.
func (s *shard) fill(r *ResourceStatus, v *Variant) {
	r.Group, r.TypeURL, r.Name, r.Version = s.group.key, s.typeURL, v.Spelling(), v.Version()
	r.OriginVersion, r.Constraints, r.Bytes, r.body = v.originVersion, v.Constraints.Key(), v.Size(), nil
	if v.Nameless {
		r.Name = ""
	}
	switch {
	case IsSecret(s.typeURL):
		// RELAY-76: by name only. A digest lets an observer confirm a guess; the origin's version may be one, and a length is half of one.
		r.Version, r.OriginVersion, r.Bytes = "", "", 0
	case !v.DoNotCache:
		r.Body = v.Any()
	}
}
