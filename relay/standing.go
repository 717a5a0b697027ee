package relay

import (
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Standing is the state of a Sub between two Takes.
type Standing struct {
	// Unsent is the revision of the first change not taken; 0: none.
	Unsent uint64
	// Waiting: a set or a name still waits for its first answer.
	Waiting bool
	// Settling: a subscribed set has to settle before it is sent (RELAY-7).
	Settling bool
	// Arriving: a set whose members are sent as they come has not settled.
	Arriving bool
	// Held: an answer is held back because the client says it holds something. Either the content
	// was restored from a snapshot and the origin has not confirmed it (RELAY-96), or the list
	// would take away what was removed while the client was away (comeback.go).
	Held bool
	// StandIn: the client was sent fallback content, and nothing in its place yet.
	StandIn bool
	// Lagging: the stream fell so far behind that it has to end and resume by its versions.
	Lagging bool
	// Names is the number of subscribed names, collections included. Sets is the number of
	// subscribed sets.
	Names, Sets int
	// Dropped is the number of names unsubscribed that must still be answered (DELTA-9).
	Dropped int
	// Wildcard: subscribed to `*`.
	Wildcard bool
}

// Since is when the first change that was not taken came from the origin; zero: there is none.
func (s *Sub) Since() time.Time {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	return s.since
}

// Unsent is Standing().Unsent.
func (s *Sub) Unsent() uint64 {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	return s.unsent
}

// Standing returns the present state.
func (s *Sub) Standing() Standing {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	x := Standing{
		Unsent: s.unsent, Waiting: s.waiting(), Lagging: s.lagging, Names: s.records.len(), Dropped: len(s.sets.again),
		StandIn: s.standIn > 0,
	}
	if s.shard.named.unconfirmed {
		for r := range s.records.all() {
			x.Held = x.Held || r.heldBack()
		}
	}
	x.Held = x.Held || s.listHeld
	for p := s.sets.first; p != nil; p = p.also {
		x.Sets++
		x.Arriving = x.Arriving || p.shownEarly
		x.StandIn = x.StandIn || p.view.set.standsIn()
		held := p.heldBack()
		x.Held = x.Held || held
		// No route waits for a Listener that was restored and is not confirmed (ORD-11).
		x.Settling = x.Settling || p.settles() && (!held || !xds.ChoosesClusters(s.typeURL))
		if p.view.set.kind == wild {
			x.Wildcard = true
		} else {
			x.Names++
		}
	}
	return x
}

// waiting reports whether a set or a name still waits for its first answer.
func (s *Sub) waiting() bool {
	for p := s.sets.first; p != nil; p = p.also {
		if p.fresh {
			return true
		}
	}
	return s.owed > 0
}

// Upstream reports since when the upstream stream has been open that carries what the Sub waits
// for; false: there is no such stream. For a quarantined type the answer is the same as for an
// origin that is silent about the type (RELAY-92, RELAY-95).
func (s *Sub) Upstream() (since time.Time, open bool) { return s.shard.upstream(s.waitsOn) }

// upstream is Sub.Upstream for the lane that on gives with the shard locked. It locks the shard.
func (s *shard) upstream(on func() laneIndex) (since time.Time, open bool) {
	s.mu.Lock()
	lane := on()
	t, quarantined := s.quarantine, time.Time{}
	if t != nil {
		quarantined = t.since
	}
	s.mu.Unlock()
	if t != nil {
		return t.upstream(s.group, lane, quarantined)
	}
	if since, open = s.lane(lane).openedAt(); !open || s.group.newest == nil {
		return since, open
	}
	if at, is, known := s.group.newest.upstreamOf(s.typeURL); known {
		since, open = at, is
	}
	return since, open
}

// waitsOn is the lane that carries what the Sub waits for.
func (s *Sub) waitsOn() laneIndex {
	for p := s.sets.first; p != nil; p = p.also {
		if p.fresh {
			return p.view.set.laneIndex()
		}
	}
	return s.shard.named.lane
}

// TurnCame is when the group's turn came to open the upstream stream that the Sub waits for: now,
// if it waits for its turn still. The time before does not count as an outage (RELAY-98). Zero: it
// did not have to wait. It locks the shard, and then the group and the store of the newest tier.
func (s *Sub) TurnCame(now time.Time) (at time.Time) { return s.shard.turnCame(s.waitsOn, now) }

// turnCame is Sub.TurnCame for the lane that on gives with the shard locked. It locks the shard.
func (s *shard) turnCame(on func() laneIndex, now time.Time) (at time.Time) {
	s.mu.Lock()
	lane := on()
	s.mu.Unlock()
	at = s.lane(lane).turnCame(now)
	if g := s.group.newest; g != nil {
		if k := g.store(s.typeURL); k != nil {
			for _, l := range k.lanes.Load() {
				at = later(at, l.turnCame(now))
			}
		}
	}
	return at
}

// upstreamOf reports since when the origin carries what a tier asks of a type; open is false if it
// does not. known is false if the newest tier is not asked for the type yet. It locks the group,
// and then the store.
func (g *Group) upstreamOf(typeURL string) (since time.Time, open, known bool) {
	k := g.store(typeURL)
	if k == nil {
		return since, false, false
	}
	k.mu.Lock()
	t, quarantined, lanes := k.quarantine, time.Time{}, *k.lanes.Load()
	if t != nil {
		quarantined = t.since
	}
	wants := [2]bool{k.wants(mainLane), k.wants(sideLane)}
	k.mu.Unlock()
	for i, l := range lanes {
		if !wants[i] {
			continue
		}
		at, is := l.openedAt()
		if t != nil {
			at, is = t.upstream(g, laneIndex(i), quarantined)
		}
		if !is {
			return at, false, true
		}
		if at.After(since) {
			since = at
		}
		known = true
	}
	return since, known, known
}

// If a set has been waited for in vain for cold_wait, no other type of any client waits for it any
// longer, until its origin answers it (ORD-8), since an origin may never answer a type. So the time
// at which the wait began is a field of the set, and not of each stream.

// await records that a client waits for the set.
func (t *set) await(now time.Time) {
	if t.awaited.IsZero() {
		t.awaited = now
	}
}

// settlesUntil is Union.SettlesUntil for one Sub. It locks the shard.
func (s *Sub) settlesUntil(now time.Time) (until time.Time) {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	for p := s.sets.first; p != nil; p = p.also {
		if t := p.view.set; p.settles() {
			t.await(now)
			if x := t.awaited.Add(t.shard.cfg().ColdWait); x.After(until) {
				until = x
			}
		}
	}
	return until
}

// settles reports whether a position waits for its set, and an answer may still come.
func (p *position) settles() bool {
	t := p.view.set
	return p.blocked() && (!p.heldBack() || t.lane().live(t.askedGen))
}

// Unreached makes the next answer state, for every name or collection that still waits for its
// first answer, that the origin cannot be reached (RELAY-8). The names stay subscribed, and are
// answered when it can. Names that were sent an error already are left out. The result reports
// whether there are any names to state it of. A SotW answer that is sent whole cannot carry the
// statement, so do not call Unreached for such a Sub.
func (s *Sub) Unreached() bool {
	s.shard.mu.Lock()
	defer s.shard.unlock()
	told := false
	for p := s.sets.first; p != nil; p = p.also {
		if p.fresh && p.collectionError == nil && p.view.set.kind != wild && !p.heldBack() { // `*` carries no error (ABS-12)
			told, p.unavailableDue = true, true
			s.mark(s.shard.rev)
		}
	}
	if s.owed == 0 {
		return told
	}
	for r := range s.records.all() {
		if r.is(owed) && r.lastError() == nil && !r.heldBack() {
			told = true
			r.flags |= unavailableDue
			r.markDirty(s.shard.rev)
		}
	}
	return told
}

// Known reports whether anything is known of what the Sub is subscribed to, so that it can be
// sent.
func (s *Sub) Known() bool {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	for p := s.sets.first; p != nil; p = p.also {
		if !p.blocked() {
			return true
		}
	}
	for r := range s.records.all() {
		if r.known() {
			return true
		}
	}
	return false
}

// Resolved reports whether all that the Sub is subscribed to is known, so that its first answer is
// complete. What waits until the origin confirms what was restored counts as known: Take decides
// whether it can be sent.
func (s *Sub) Resolved() bool {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	for p := s.sets.first; p != nil; p = p.also {
		if p.unsettled() {
			return false
		}
	}
	for r := range s.records.all() {
		if !r.known() && r.entry.nameError == nil {
			return false
		}
	}
	return true
}
