package downstream

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
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
		if waits := len(st.refusals) > 0 || st.sub != nil && !st.sub.lackedSince.IsZero(); !waits || !until.After(now) {
			until = time.Time{}
		}
		add(metrics.WaitAck, st.unanswered[0].at, until)
	case st.nacking:
		add(metrics.WaitNack, st.nacked.last().At, time.Time{})
	}
	if st.sub != nil {
		all = s.sourceWaits(all, st, now)
	}
	return all
}

// sourceWaits adds what the sources of a type wait for.
func (s *session) sourceWaits(all []metrics.Wait, st *streamType, now time.Time) []metrics.Wait {
	if at := s.serving.gathered; now.Before(at) && !st.sub.lackedSince.IsZero() {
		all = append(all, metrics.Wait{Reason: metrics.WaitCoalesce, Since: s.changesAt, Until: at})
	}
	for i := range st.sub.sources {
		x, awaits := &st.sub.sources[i], st.sub.Awaited(i)
		if awaits.List && len(awaits.Names) > 0 && x.knows(st.typeURL, "") {
			all = append(all, metrics.Wait{Reason: metrics.WaitNames, Since: st.asked})
		}
		for _, w := range x.wants.Waits(awaits) {
			if w.Reason == metrics.WaitOrigin && w.Since.IsZero() {
				w.Since = x.coldFrom
			}
			all = append(all, w)
		}
		if at := s.serving.again; awaits.Parent && st.typeURL == xds.EndpointType {
			all = append(all, metrics.Wait{Reason: metrics.WaitEndpointRequest, Since: at.Add(-s.serving.cfg.Hold), Until: at})
		}
		if x.coldFrom.IsZero() || len(awaits.Sets)+len(awaits.Names) == 0 {
			continue
		}
		set, _, _ := st.sub.Awaits(i)
		if _, open := x.wants.Upstream(set); !open && x.wants.TurnCame(set, now).Before(now) {
			all = append(all, metrics.Wait{Reason: metrics.WaitColdWait, Since: x.coldFrom, Until: x.coldFrom.Add(s.cfg.timing.ColdWait)})
		}
	}
	return all
}

// heldUntil is until when a type is held back at most.
func (s *session) heldUntil(st *streamType) (until time.Time) {
	switch st.heldFor {
	case metrics.WaitEarlierSet:
	case metrics.WaitRemoval:
		return s.serving.again
	default:
		return s.serving.plan.Due()
	}
	for _, earlier := range s.types {
		if earlier.sub != nil && earlier.sub.Waiting() && !late(earlier.typeURL) {
			until = earlier.asked.Add(s.cfg.timing.ColdWait)
		}
	}
	return until
}

// due reports whether a writer would have something to look at: there are newer states than those
// that the client was brought to last, and it is not to wait. It locks the session.
func (s *session) due(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving == nil || s.closed {
		return false
	}
	s.lacking()
	newer := func(i int) bool {
		return i >= len(s.serving.targets) || s.serving.groups[i].States().Target(state.Rest).State != s.serving.targets[i].State
	}
	if slices.ContainsFunc(s.types, func(st *streamType) bool {
		return st.sub != nil && st.sub.Waiting() && st.sub.Answerable(st.sub.newest)
	}) {
		return true
	}
	for i := range s.serving.groups {
		if newer(i) && slices.ContainsFunc(s.types, func(st *streamType) bool { return st.sub != nil && !st.sub.lackedSince.IsZero() }) {
			return !now.Before(s.serving.gathered)
		}
	}
	return false
}
