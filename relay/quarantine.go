package relay

import "time"

const (
	// suspectFor is how recently a type must have been asked first for the end of the stream to be
	// put down to it.
	suspectFor = 5 * time.Second
	// quietFor is when a stream that nobody ended counts as good, answered or not: a second after
	// names have been given up waiting for (ABS-1), which a move to another lane would put off.
	quietFor = silence + time.Second
	// maxProbing bounds the types of one group that are on lanes of their own at a time: clients
	// can make up types.
	maxProbing = 16
)

// quarantine is the state of a type that may be the one for which an origin ends whole streams
// (RELAY-92). The type leaves the group's lanes and gets a main and a side lane of its own, which
// carry its wildcard and its names as the group's do. Nothing else about it differs, and each
// change of lanes is to the type what a reconnect is. A type that has lanes of its own in any case
// keeps them: no other type can be the cause of the end of such a stream, so the first end already
// puts it in quarantine.
//
// The state is that of one group, since an origin may answer one node and end streams of another
// for the same type. But a type that was answered in one group is proven for all of them.
//
//	on the group's lanes --stream refused--> suspended --lane works without it--> probing --answered--> released
//	                  suspended <--after the backoff-- backoff <--refused again--
//	                  released --> on the group's lanes again
//
// Of an origin that has answered nothing yet no type is put in quarantine (cold.go).
type quarantine struct {
	// Set once by suspend or refused.
	store *store
	lanes [2]*Lane
	from  laneIndex // of the group's lane whose stream was refused
	cold  bool      // the origin had answered nothing

	// Guarded by shard.mu.
	stage    quarantineStage
	since    time.Time // in quarantine since; zero: only suspect
	failures int       // streams of its own that the origin refused, in a row
	retryAt  time.Time // when the backoff ends
	reason   string    // the origin's message of the last time
	// accepted: the origin has left the type's own stream open for suspectFor. The next type need
	// not wait for it any longer.
	accepted bool
}

type quarantineStage uint8

const (
	stageSuspended quarantineStage = iota // suspended: asked nowhere, until it may be probed
	stageProbing                          // probing: asked on its own lanes; counts for maxProbing
	stageBackoff                          // backoff: in quarantine, until the time given to RetryAt
	stageReleased                         // released: answered; stays until the set that is arriving is complete
)

// asked reports whether the type is asked on its own lanes.
func (t *quarantine) asked() bool { return t.stage == stageProbing || t.stage == stageReleased }

// inQuarantine reports whether the type is not on the group's lanes. Unless the store is locked it
// may change at any time.
func (k *store) inQuarantine() bool { return k.lanes.Load() != k.home }

// sharesLanes reports whether the type is on the group's lanes.
func (k *store) sharesLanes() bool { return k.lanes.Load() == &k.group.lanes }

// StreamRejection is what the end of a refused stream has led to.
type StreamRejection struct {
	// Suspects are types that the lane's next stream leaves out.
	Suspects []string
	// Quarantined: the stream was the type's own. The caller calls RetryAt. First: it was only
	// suspect until now. Failures is how many such streams there were in a row.
	Quarantined, First bool
	Failures           int
	// Idle: without the suspects the lane has nothing to ask, so it need not be spared another
	// stream when one of them comes back.
	Idle bool
	// Cold: the origin has answered nothing yet, so it may be what refuses, and not a type.
	Cold bool
}

// Refused is Close for a stream that ended with a status that may be due to what was asked on it:
// any but OK, CANCELLED and UNAVAILABLE (RELAY-92).
func (l *Lane) Refused(now time.Time) StreamRejection { return l.refused(now, false) }

// refused ends a refused stream. cold: the origin has answered nothing yet. It locks the store of
// each type in turn.
func (l *Lane) refused(now time.Time, cold bool) (r StreamRejection) {
	r.Cold = cold
	for k := range kinds(l.shards()) {
		k.mu.Lock()
		k.refused(l, &r, now)
		k.unlock()
	}
	l.Close()
	r.Idle = len(r.Suspects) > 0 && !l.Wanted()
	signal(l.wake) // whoever rests before the next stream may find that none is wanted
	l.group.probeNext()
	return r
}

// refused notes that a stream was refused on which the type may have been asked.
func (k *store) refused(l *Lane, r *StreamRejection, now time.Time) {
	first, asked := k.firstAsked(l.index, l.gen.Load())
	switch {
	case !asked || !l.carries(k):
	case k.quarantine != nil:
		k.quarantine.refused(r, now)
	case now.Sub(first) >= suspectFor || k.proven || k.group.origin.hasProven(k.typeURL):
	case l.only == nil:
		k.suspend(l.index, r.Cold)
		r.Suspects = append(r.Suspects, k.typeURL)
	case !r.Cold: // otherwise its lane goes on at the pace of the backoff, and delays no other type
		k.quarantine = &quarantine{store: k, lanes: *k.home} // which are its own in any case
		k.useLanes(&k.quarantine.lanes)
		k.quarantine.setStage(stageProbing)
		k.quarantine.refused(r, now)
	}
}

// suspend takes the type off the group's lanes.
func (k *store) suspend(from laneIndex, cold bool) {
	for i, l := range k.group.lanes {
		if _, asked := k.firstAsked(laneIndex(i), l.gen.Load()); asked && laneIndex(i) != from {
			l.reopenSoon() // it cannot be taken back there otherwise
		}
	}
	k.quarantine = &quarantine{store: k, from: from, cold: cold, lanes: *k.ownLanes()}
	k.useLanes(&k.quarantine.lanes)
}

// refused notes that the origin refused a stream that carried the type alone.
func (t *quarantine) refused(r *StreamRejection, now time.Time) {
	if t.stage != stageProbing {
		return // answered, or its other lane was refused as well
	}
	if t.failures++; r.Cold {
		t.store.group.origin.rejectedAlone(t.store.typeURL)
		t.setStage(stageSuspended) // another type is probed, or this one again
	} else {
		if r.First = t.since.IsZero(); r.First {
			t.since = now
		}
		r.Quarantined, r.Failures = true, t.failures
		t.setStage(stageBackoff)
	}
	for _, l := range t.lanes {
		signal(l.wake) // nothing is wanted on the other one either
	}
}

// setStage changes the stage, and counts the types that are being probed.
func (t *quarantine) setStage(to quarantineStage) {
	was := t.stage
	t.stage = to
	switch {
	case to == stageProbing && was != stageProbing:
		t.store.group.probing.Add(1)
	case to != stageProbing && was == stageProbing:
		t.store.group.probing.Add(-1)
	}
}

// RetryAt has the type probed again at the time given. It is called for a lane whose stream Refused
// reported as Quarantined. reason is the origin's message.
func (l *Lane) RetryAt(until time.Time, reason string) {
	k := l.only
	k.mu.Lock()
	if k.quarantine != nil {
		k.quarantine.reason, k.quarantine.retryAt = reason, until
	}
	k.mu.Unlock()
	k.push(timer{at: until, kind: retryDue, lane: l})
}

// endBackoff ends the backoff. It locks the store.
func (k *store) endBackoff() {
	k.mu.Lock()
	if t := k.quarantine; t != nil && t.stage == stageBackoff {
		t.setStage(stageSuspended)
	}
	k.mu.Unlock()
	k.group.probeNext()
}

// probeNext begins to probe the types that may be: first suspects, once the lane they were on has
// proven to work without them or has nothing else to carry, and then those in quarantine whose
// backoff is over. Types of an origin that had answered nothing do not wait for the group's lane.
// It locks each store in turn, so the caller holds no lock.
func (g *Group) probeNext() {
	var apart []*store
	for k := range kinds(*g.all.Load()) {
		if k.inQuarantine() {
			apart = append(apart, k)
		}
	}
	if len(apart) == 0 {
		return
	}
	if g.origin.isCold() {
		probeOne(apart)
		return
	}
	var works [2]bool
	for i, l := range g.lanes {
		works[i] = l.live(l.heard.Load()) || !l.Wanted()
	}
	for _, rested := range []bool{false, true} {
		for _, k := range apart {
			k.mu.Lock()
			if t := k.quarantine; t != nil && t.stage == stageSuspended && rested == !t.since.IsZero() && (rested || t.cold || works[t.from]) {
				t.startProbing()
			}
			k.unlock()
		}
	}
}

// startProbing has the type asked on its own lanes, if a client wants it and fewer than maxProbing
// types are probed.
func (t *quarantine) startProbing() {
	switch k := t.store; {
	case !k.wants(mainLane) && !k.wants(sideLane):
	case t.since.IsZero() && (k.group.origin.hasProven(k.typeURL) || t.isCleared()):
		t.rejoin() // the origin has answered the type in another group, or refused others alone
	case k.group.probing.Load() < maxProbing: // two callers at once may pass it by one
		t.accepted = false
		t.setStage(stageProbing)
		for _, l := range t.lanes {
			if k.wants(l.index) {
				k.wakeLane(l.index)
			}
		}
	}
}

// stopProbing ends the probing of a type that nobody wants any more. It locks the store.
func (k *store) stopProbing() {
	k.mu.Lock()
	if t := k.quarantine; t != nil && t.stage == stageProbing && !k.wants(mainLane) && !k.wants(sideLane) {
		t.setStage(stageSuspended)
	}
	k.mu.Unlock()
}

// quiet is called for a stream that has been open for quietFor. If it is the group's, it works
// without the suspects, as far as that can be known. If it carries one suspect alone, that is not
// the type for which the origin ends streams: it goes back to the group's lanes, where the
// origin's silence about it is handled (RELAY-95). A stream of one type is looked at after
// suspectFor as well, since other types may wait for it. It locks the type's store, if the lane is
// for one type.
func (l *Lane) quiet(gen uint32, now time.Time) {
	if !l.live(gen) {
		return
	}
	if l.only == nil {
		l.heard.Store(gen)
	} else {
		opened, _ := l.openedAt()
		k := l.only
		k.mu.Lock()
		if t := k.quarantine; t != nil && l.carries(k) && t.stage == stageProbing && t.since.IsZero() {
			if t.accepted = true; now.Sub(opened) >= quietFor {
				t.rejoin()
			}
		}
		k.unlock()
	}
	l.group.probeNext()
}

// prove notes that the origin answered the type. From then on it is never suspect, and it is
// released if it was in quarantine. It reports whether it was.
func (k *store) prove() (released bool) {
	if !k.proven {
		k.proven = true
		if k.group.tier == Newest { // else it was the newest tier that answered
			k.group.origin.prove(k.typeURL)
		}
	}
	switch t := k.quarantine; {
	case t == nil || t.stage == stageReleased:
	case t.stage == stageProbing:
		released = !t.since.IsZero()
		t.setStage(stageReleased)
	default: // the response came on a lane that the type was taken off
		released = !t.since.IsZero()
		t.rejoin()
	}
	k.rejoinReleased()
	return released
}

// rejoinReleased puts a released type back on the group's lanes. While its set arrives it stays
// where it is: a move would break the stream in the middle, and an origin that is then presented
// what it has sent may send no more (RELAY-6).
func (k *store) rejoinReleased() {
	if k.quarantine == nil || k.quarantine.stage != stageReleased {
		return
	}
	arriving := false
	for _, s := range k.all {
		s.sets(func(t *set) { arriving = arriving || t.wanted() && !t.first.IsZero() && !t.firm })
	}
	if !arriving {
		k.quarantine.rejoin()
	}
}

// rejoinClosed puts a released type back on the group's lanes when its own lane was closed.
func (k *store) rejoinClosed(l *Lane) {
	if t := k.quarantine; t != nil && l.only != nil && l.carries(k) && t.stage == stageReleased {
		t.rejoin()
	}
}

// rejoin puts the type back on the lanes it belongs to. They ask it on the streams they have
// open, which do not carry it, unless they are its own.
func (t *quarantine) rejoin() {
	k := t.store
	t.setStage(stageReleased)
	k.quarantine = nil
	k.useLanes(k.home)
	for _, s := range k.all {
		s.sets(func(t *set) {
			t.clear()     // if nobody wants it, since the stream that kept it up to date is left
			if t.live() { // clients that came meanwhile: the set's stream is open again
				t.stated(s.rev)
				t.wakeFresh()
			}
		})
		s.named.markHeldBack()
	}
	for _, l := range t.lanes {
		signal(l.wake) // nothing is wanted on it any more
	}
	for i := range k.home {
		if k.wants(laneIndex(i)) {
			k.wakeLane(laneIndex(i))
		}
	}
}

// remember keeps the last shard of a type in quarantine though nobody wants it. Otherwise each
// client that asks for the type would cost the group a stream. The number of such types is
// bounded.
func (k *store) remember() bool {
	if k.quarantine == nil || k.quarantine.since.IsZero() || len(k.all) > 1 {
		return false
	}
	return k.group.quarantined() <= maxIdleShards
}

// quarantined is how many types are not on the lanes they belong to.
func (g *Group) quarantined() (n int) {
	for k := range kinds(*g.all.Load()) {
		if k.inQuarantine() {
			n++
		}
	}
	return n
}

// upstream is what Sub.Upstream reports for a type that is not on the group's lanes: the oldest
// open stream that carries it, or that it was left out of. In quarantine, and with nothing else to
// ask for, no stream need be open: the origin was there to refuse it since the time given. But an
// origin that has never answered anything may refuse us altogether, and counts as out of reach
// (RELAY-8).
func (t *quarantine) upstream(g *Group, i laneIndex, since time.Time) (at time.Time, open bool) {
	unasked := true
	for _, l := range []*Lane{t.lanes[i], g.lanes[mainLane], g.lanes[sideLane]} {
		if x, ok := l.openedAt(); ok && (!open || x.Before(at)) {
			at, open = x, true
		}
		unasked = unasked && (l.only != nil || !l.owned.Load())
	}
	if unasked && !since.IsZero() && g.origin.anyProven() {
		return since, true
	}
	return at, open
}
