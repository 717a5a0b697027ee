package downstream

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/metrics"
)

// Why a stream, or a type of it, waits (metrics.WaitReason). It is read from what the waits
// themselves go by, and changes nothing.

// waitCell is what the reader of a stream waits for. It costs no lock and no allocation.
type waitCell struct {
	reason       atomic.Uint32
	since, until atomic.Int64 // Unix nanoseconds; until 0: the wait has no end
}

// begin notes a wait; until may be zero. The caller calls end. A nil cell notes nothing.
func (c *waitCell) begin(why metrics.WaitReason, now, until time.Time) {
	if c == nil {
		return
	}
	c.since.Store(now.UnixNano())
	c.until.Store(0)
	if !until.IsZero() {
		c.until.Store(until.UnixNano())
	}
	c.reason.Store(uint32(why))
}

// end notes that the wait is over.
func (c *waitCell) end() {
	if c != nil {
		c.reason.Store(uint32(metrics.NoWait))
	}
}

// add adds the wait, if there is one.
func (c *waitCell) add(all []metrics.Wait) []metrics.Wait {
	why := metrics.WaitReason(c.reason.Load()) //nolint:gosec // it is stored by begin
	if why <= metrics.NoWait {
		return all
	}
	w := metrics.Wait{Reason: why, Since: time.Unix(0, c.since.Load())}
	if until := c.until.Load(); until != 0 {
		w.Until = time.Unix(0, until)
	}
	return append(all, w)
}

// waits are what the stream waits for as a whole.
func (st *stream) waits(now time.Time) (all []metrics.Wait) {
	all = st.session.reading.add(all)
	if since, writing := st.writingSince(); writing {
		return append(all, metrics.Wait{Reason: metrics.WaitStalled, Since: since, Until: since.Add(st.session.settings().timing.SendStall)})
	}
	if st.turn.state.Load() == looking && st.session.due(now) {
		all = append(all, metrics.Wait{Reason: metrics.WaitWriter})
	}
	return all
}

// streamWaits are what a stream waits for that no type of it does yet.
func (s *session) streamWaits() (all []metrics.Wait) {
	if s.group == nil && !s.closed && !s.poll && metrics.WaitReason(s.reading.reason.Load()) <= metrics.NoWait { //nolint:gosec // it is stored by begin
		all = append(all, metrics.Wait{
			Reason: metrics.WaitFirstRequest, Since: s.opened, Until: s.opened.Add(s.cfg.timing.FirstRequest),
		})
	}
	return all
}

// waits are what a type waits for.
func (s *session) waits(now time.Time, st *streamType) (all []metrics.Wait) {
	hold := s.cfg.timing.OrderHold
	add := func(why metrics.WaitReason, since, until time.Time) {
		all = append(all, metrics.Wait{Reason: why, Since: since, Until: until})
	}
	if st.barred {
		add(metrics.WaitPermission, time.Time{}, time.Time{})
	}
	if st.short && s.lack != nil {
		add(metrics.WaitLimit, s.lack.since, s.lack.since.Add(shortFor))
		all[len(all)-1].Text = "limits." + s.lack.limit
	}
	if !st.heldSince.IsZero() {
		add(st.heldFor, st.heldSince, s.heldUntil(st))
	}
	switch last := st.last(); {
	case last != nil:
		until := last.at.Add(hold) // what waits is written then, answered or not
		if waits := st.held != nil || st.rest != nil || st.keeps || len(st.refusals) > 0 || st.peek() || st.by != nil && !st.by.lackedSince.IsZero(); !waits || !until.After(now) {
			until = time.Time{}
		}
		add(metrics.WaitAck, st.unanswered[0].at, until)
	case st.nacking:
		add(metrics.WaitNack, st.nacked.last().At, time.Time{})
	}
	if until := s.changesAt.Add(s.cfg.timing.Coalesce); now.Before(until) && st.held == nil && !st.inFlight(now, hold) &&
		(st.keeps || st.peek() && st.sub.Changed() && !st.sub.Urgent()) {
		add(metrics.WaitCoalesce, s.changesAt, until)
	}
	if !st.stuckSince.IsZero() {
		add(metrics.WaitNames, st.stuckSince, time.Time{})
	}
	if since := st.removesFrom(); !since.IsZero() {
		add(metrics.WaitRemoval, since, s.removesUntil(now, st, since))
	}
	if at := s.warm.at; !at.IsZero() && st == s.endpoints() {
		add(metrics.WaitEndpointRequest, at.Add(-hold), at)
	}
	if st.by != nil {
		all = s.waitsOfStates(all, st, now)
	}
	for i := range st.sub.Len() {
		sub := st.sub.Part(i)
		asks := sub.Waits()
		for j := range asks {
			if asks[j].Reason == metrics.WaitOrigin && asks[j].Since.IsZero() {
				asks[j].Since = sub.ColdFrom
			}
		}
		all = append(all, asks...)
		if from := sub.ColdFrom; !from.IsZero() && sub.Standing().Waiting {
			if _, open := sub.Upstream(); !open && sub.TurnCame(now).Before(now) {
				add(metrics.WaitColdWait, from, from.Add(s.cfg.timing.ColdWait))
			}
		}
	}
	return all
}

// heldUntil is until when a type is held back at most.
func (s *session) heldUntil(st *streamType) (until time.Time) {
	switch {
	case st.by != nil && st.heldFor == metrics.WaitEarlierSet:
		for _, earlier := range s.types {
			if earlier.by != nil && earlier.by.Waiting() && !late(earlier.typeURL) {
				until = earlier.asked.Add(s.cfg.timing.ColdWait)
			}
		}
		return until
	case st.by != nil:
		return s.by.plan.Due()
	case st.heldFor == metrics.WaitEarlierSet || st.heldFrom.IsZero():
		for _, earlier := range s.types {
			if earlier == st {
				break
			}
			if earlier.settles.After(until) {
				until = earlier.settles
			}
		}
		return until
	case st.heldFor == metrics.WaitEndpoints:
		if s.hasWaited() {
			return st.heldFrom.Add(2 * s.cfg.timing.OrderHold)
		}
	}
	return st.heldFrom.Add(s.cfg.timing.OrderHold)
}

// hasWaited reports whether Clusters were written although those before them were unanswered, so
// that what waits for their endpoints may wait twice as long (awaitsNamed).
func (s *session) hasWaited() bool {
	return slices.ContainsFunc(s.warm.missing, func(m missing) bool { return m.waited })
}

// removesFrom is since when the oldest removal of a type waits; zero: none does.
func (st *streamType) removesFrom() time.Time {
	switch {
	case st.rest != nil:
		return st.rest.oldest()
	case st.keeps:
		return st.keepsFrom
	}
	return time.Time{}
}

// removesUntil is when a removal that waits since a time is looked at next.
func (s *session) removesUntil(now time.Time, st *streamType, since time.Time) (until time.Time) {
	s.went(since, func(_ metrics.WaitReason, at time.Time) {
		if at.After(now) && (until.IsZero() || at.Before(until)) {
			until = at
		}
	})
	if st.removals.After(until) {
		until = st.removals
	}
	return until
}

// due reports whether a writer would have something to look at. It locks the session.
func (s *session) due(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by != nil {
		return s.dueByStates(now)
	}
	return !now.Before(s.changesAt.Add(s.cfg.timing.Coalesce)) &&
		slices.ContainsFunc(s.types, func(st *streamType) bool { return st.peek() || st.held != nil })
}
