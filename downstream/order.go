package downstream

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/xds"
)

// late are the types that wait for clusters: for a Cluster response to be acknowledged (ORD-5), and
// for a first set to settle (RELAY-84).
func late(typeURL string) bool {
	switch typeURL {
	case xds.ListenerType, xds.ScopedRouteType, xds.RouteType, xds.VirtualHostType, xds.ExtensionConfigType:
		return true
	}
	return false
}

// take returns what to write now, in order. The responses count as in flight from now on. The list
// belongs to the session, and is valid until the next take.
//
// Types are taken in the reverse of the order they are written in. So what is written first is
// never older than what is written after it. In the other order this would happen: clusters are
// taken; the origin's next clusters and the routes to them arrive; routes are taken, and are
// written before their clusters (TestOrderUnderInterleaving).
//
// A type with a response in flight is not taken. Its oldest untaken change is read instead, at the
// same place in the walk. By then the later types are taken. So every change up to their revisions
// is either read there or was written. Of the later types, what is as new as that change is held
// back.
//
// The hold of a late type ends order_hold after its change came (ORD-5). Then it is taken, and
// after it every earlier type with a change as old, also one with a response in flight. All of them
// are written in one batch, in order. Endpoints that a cluster of the client needs for warming are
// written at once, since Envoy withholds the ACK of the clusters until it has them. It locks the
// session.
func (s *session) take(now time.Time) []*response {
	s.writerLock()
	defer s.mu.Unlock()
	s.now = now
	s.looks()
	if s.group == nil || s.closed {
		return nil
	}
	if s.by != nil {
		return s.takeByStates(now)
	}
	w := walk{seen: s.cfg.table.Revision(), gathers: s.gathers(now)}
	if w.gathers && !s.taken() {
		return nil
	}
	for i := len(s.types) - 1; i >= 0; i-- {
		s.takeStep(now, s.types[i], &w)
	}
	batch := s.release(now)
	for _, st := range s.types {
		st.synced()
	}
	if w.gathers && !s.gathers(now) {
		s.mailbox.Signal() // the answer to a request waited behind what was held, and ends the window
	}
	if s.telling && s.writer != nil {
		s.writer.notes, s.notes = s.notes, nil
	}
	return batch
}

// walk is what the reverse walk knows of later types.
type walk struct {
	seen    uint64 // revision of the table when it began
	gathers bool   // nothing is taken; what was taken before may be released
	waiting bool   // a later type has something to send
	// Changes up to this revision are written now, since the hold of a later type has ended; 0:
	// there is no such type.
	forced uint64
}

// forces reports whether a type must be written although its last response is unacknowledged.
func (w *walk) forces(st *streamType) bool {
	if w.forced == 0 {
		return false
	}
	unsent := st.sub.Unsent()
	return unsent != 0 && unsent <= w.forced
}

// takeStep is one step of the reverse walk. It takes what can be taken, and otherwise reads the
// type's state.
func (s *session) takeStep(now time.Time, st *streamType, w *walk) {
	st.unsent, st.settles = 0, time.Time{}
	if st.sub.None() {
		return
	}
	blocked := st.held != nil || st.inFlight(now, s.cfg.timing.OrderHold) && !w.forces(st) && !st.sub.Standing().Arriving
	took, untaken := false, false
	st.hurries = st.held != nil && w.forces(st)
	if blocked && st.held == nil && st.restated() {
		blocked = false // there is nothing to write: order_hold is not counted from here
	}
	if blocked && !w.gathers && st.nextFrom.IsZero() && st.sub.Peek() && !st.restated() {
		st.nextFrom = now
	}
	if !blocked && !w.gathers && (st.sub.Peek() || st.keeps) {
		untaken = s.leaves(now, st, w)
		took, blocked = !untaken, untaken
	}
	if took {
		changed := st.sub.Changed()
		st.sub.Pending() // clears the mark before the Sub is looked at
		if s.tellsWhole(st) {
			st.sub.Insist()
		}
		if st.held = s.expressible(st, s.takeOne(now, st, w)); st.held != nil {
			st.changed = changed
			st.owes(now)
			st.heldFrom = st.from(now)
		} else {
			st.unhold()
		}
		st.nextFrom = time.Time{}
		// The part of one origin may be lagging while that of another has something to send.
		if st.held == nil || st.sub.Len() > 1 {
			standing := st.sub.Standing()
			st.lagging = standing.Lagging
			st.gave(now, standing)
		}
	}
	if w.waiting {
		s.look(now, st, took, blocked)
	}
	w.waiting = w.waiting || untaken || st.held != nil
	if st.held != nil && (late(st.typeURL) && s.overdue(now, st) || s.warms(st)) {
		w.forced = max(w.forced, st.held.Rev)
	}
}

// warms reports whether a type's held answer has endpoints that written Clusters wait for, while a
// Cluster response is unacknowledged. It may be unacknowledged for lack of these endpoints.
func (s *session) warms(st *streamType) bool {
	if st.typeURL != xds.EndpointType || len(s.warm.missing) == 0 {
		return false
	}
	clusters := s.asked(xds.ClusterType)
	return clusters != nil && len(clusters.unanswered) > 0 && s.warm.lacks(st.held)
}

// leaves leaves the changes of a late type in the table while they could not be written anyway,
// because an earlier type settles, or waits for an ACK and has changed since. If they were taken
// now and written later, the client would get old routes after newer clusters: routes to clusters
// that came and went meanwhile, or that went before this client's first list, so that it never had
// them (TestWaitingRoutesAreCurrent, TestRoutesWaitUntaken).
func (s *session) leaves(now time.Time, st *streamType, w *walk) bool {
	if !late(st.typeURL) || xds.IsVirtualHost(st.typeURL) && st.sub.Demands() {
		return false
	}
	settles, changed := s.earlier(now, st)
	if !settles && (!changed || w.forced != 0) {
		return false
	}
	// A type that has nothing goes on waiting for its origin (RELAY-8).
	if !settles && s.overdue(now, st) || st.sub.Unsent() == 0 || st.restated() {
		return false
	}
	why := metrics.WaitOrder
	if settles {
		why = metrics.WaitEarlierSet
	}
	s.holdBack(now, st, why)
	return true
}

// earlier reports whether a type that is written before this one settles, and whether one has
// changed and cannot be taken. A type whose response is in flight for longer than order_hold can be
// taken.
func (s *session) earlier(now time.Time, st *streamType) (settles, changed bool) {
	for _, earlier := range s.types {
		if earlier == st {
			break
		}
		if earlier.sub.None() {
			continue
		}
		standing := earlier.sub.Standing()
		if standing.Settling && earlier.held == nil && now.Before(earlier.sub.SettlesUntil(now)) {
			return true, changed
		}
		// What the client has already is no change. Its Take gives nothing, and then nothing would
		// wake the writer for the type that waited for it.
		if standing.Unsent == 0 || earlier.restated() {
			continue
		}
		changed = changed || earlier.held != nil || earlier.inFlight(now, s.cfg.timing.OrderHold)
	}
	return false, changed
}

// holdBack records that a type is held back, and why.
func (s *session) holdBack(now time.Time, st *streamType, why metrics.WaitReason) {
	st.heldFrom, st.heldFor = st.from(now), why
	if st.heldSince.IsZero() {
		st.heldSince = now
		st.heldCount++
		if s.telling {
			s.event(now, EventWaits, st).Why = why.String()
		}
	}
	if why == metrics.WaitEarlierSet {
		st.heldFrom = time.Time{}
	}
}

// from is the time that order_hold of a late type's change is counted from (ORD-5): when the writer
// first looked at it. The writer looks when the change comes, unless changes are gathered or the
// client does not read. After a wait for a set it is the end of that wait.
func (st *streamType) from(now time.Time) time.Time {
	switch {
	case !st.heldFrom.IsZero():
		return st.heldFrom
	case st.heldSince.IsZero() && !st.nextFrom.IsZero():
		return st.nextFrom
	}
	return now
}

// overdue reports whether a late type may be held back no longer.
func (s *session) overdue(now time.Time, st *streamType) bool {
	return !now.Before(st.from(now).Add(s.cfg.timing.OrderHold))
}

// look reads the state of a type that later types wait for. took: its answer was just taken.
// blocked: it could not be taken.
func (s *session) look(now time.Time, st *streamType, took, blocked bool) {
	standing := st.sub.Standing()
	if standing.Settling {
		st.settles = st.sub.SettlesUntil(now)
	}
	switch {
	case took && st.held != nil, standing.Unsent == 0, st.restated():
	case blocked || st.peek():
		st.unsent = standing.Unsent
	case !standing.Settling && !standing.Held: // ORD-11
		// It could be taken, and gave nothing: its list waits for names to be known (RELAY-7). That
		// holds back only the late types, and not for ever (ORD-8).
		if st.stuckSince.IsZero() {
			st.stuckSince = now
		}
		st.settles = st.stuckSince.Add(s.cfg.timing.ColdWait)
	}
}

// Many small changes that follow one another reach a client together. For `coalesce` after changes
// were last written to the stream, further changes stay in the table, where they merge. The first
// change after a quiet time is written at once. Then there is at most one batch in each window, the
// last one at the end of the window.
//
// Each stream has a window of its own, over all its types. Streams that were sent the same change
// have theirs at the same time, as they would be written to without. Order between types does not
// depend on the window: a stream in its window is like a stream whose writer comes late, and what
// is taken after it is taken in order as always. Only changes wait. What was taken and is held back
// for order is written as soon as it may be. Anything else that there is to write ends the window
// early, and the changes are written with it. So an older change never holds back the answer to a
// request (RELAY-84). Nor does anything wait that would end the stream, or expire at the client
// (TestCoalesceTombstones, TestCoalesceTTL).

// gathers reports whether the stream leaves its changes in the table for now. A type that is held
// back there ends the window when it may be written.
func (s *session) gathers(now time.Time) bool {
	if !now.Before(s.changesAt.Add(s.cfg.timing.Coalesce)) {
		return false
	}
	for _, st := range s.types {
		switch {
		case s.tellable(st):
			return false
		case st.held != nil || st.sub.None():
		case !st.heldSince.IsZero():
			settles, changed := s.earlier(now, st)
			if !settles && (!changed || s.overdue(now, st)) {
				return false
			}
		case st.sub.Urgent():
			return false
		}
	}
	return true
}

// taken reports whether something that was taken has still to be written. The window does not hold
// it back.
func (s *session) taken() bool {
	return slices.ContainsFunc(s.types, func(st *streamType) bool { return st.held != nil || st.rest != nil })
}

// gathered is when the window ends; the zero time if nothing waits for that.
func (s *session) gathered() time.Time {
	waits := func(st *streamType) bool { return st.peek() || st.keeps }
	if s.cfg.timing.Coalesce == 0 || !slices.ContainsFunc(s.types, waits) {
		return time.Time{}
	}
	return s.changesAt.Add(s.cfg.timing.Coalesce)
}
