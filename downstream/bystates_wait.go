package downstream

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// What streams that are served from states wait for, and for how long.

// coldByStates is cold for a type that is served from states (RELAY-8).
func (s *session) coldByStates(st *streamType, now time.Time) error {
	if st.by == nil {
		return nil
	}
	for i := range st.by.sources {
		if err := s.coldSource(st, i, now); err != nil {
			return err
		}
	}
	return nil
}

// coldSource is coldPart for a source.
func (s *session) coldSource(st *streamType, i int, now time.Time) error {
	wait, x := s.cfg.timing.ColdWait, &st.by.sources[i]
	if x.coldFrom.IsZero() || now.Before(x.coldFrom.Add(wait)) {
		return nil
	}
	set, waits, _ := st.by.Awaits(i)
	if turn := x.wants.TurnCame(set, now); turn.After(x.coldFrom) { // a wait for its turn is no outage
		if x.coldFrom = turn; now.Before(turn.Add(wait)) {
			return nil
		}
	}
	half := x.coldFrom.Add(wait / 2)
	if x.coldFrom = (time.Time{}); !waits {
		return nil
	}
	kept := s.served || s.keepsByStates() || slices.ContainsFunc(s.types, (*streamType).holdsFirst) // which is about to be written
	if x.coldFrom = now; !kept {
		x.coldFrom = now.Add(-wait + wait/8)
	}
	if at, open := x.wants.Upstream(set); open && !at.After(half) {
		return nil // its silence is left to the client (ABS-5)
	}
	if st.coldCount++; kept || st.by.othersMayServe(i, half, now) {
		keeps := st.by.Keeps(x.number, x.group.States().Newest())
		if !keeps && !st.by.Whole() && st.by.Unreached(i) { // a list cannot say so without taking away the rest
			x.coldFrom = time.Time{} // they are sent it once in each wait
			s.mailbox.Signal()
		}
		return nil
	}
	return s.outOfReach(st, x.group.Origin())
}

// othersMayServe reports whether another source has something to serve, or an upstream stream that
// may bring it.
func (t *typeByStates) othersMayServe(than int, since, now time.Time) bool {
	for i := range t.sources {
		x := &t.sources[i]
		set, _, knows := t.Awaits(i)
		if i == than || x.wants.Len() == 0 {
			continue
		}
		at, open := x.wants.Upstream(set)
		if knows || open && !at.After(since) || x.wants.TurnCame(set, now).After(since) {
			return true
		}
	}
	return false
}

// keepsByStates reports whether the client is left with what it says it holds: it has
// configuration, like one that was served.
func (s *session) keepsByStates() bool {
	return slices.ContainsFunc(s.types, func(st *streamType) bool {
		return st.by != nil && slices.ContainsFunc(st.by.sources, func(x source) bool {
			return st.by.Keeps(x.number, x.group.States().Newest())
		})
	})
}

// waitsOfStates adds what the sources of a type wait for.
func (s *session) waitsOfStates(all []metrics.Wait, st *streamType, now time.Time) []metrics.Wait {
	if at := s.by.gathered; now.Before(at) && !st.by.lackedSince.IsZero() {
		all = append(all, metrics.Wait{Reason: metrics.WaitCoalesce, Since: s.changesAt, Until: at})
	}
	for i := range st.by.sources {
		x, awaits := &st.by.sources[i], st.by.Awaited(i)
		if awaits.List && len(awaits.Names) > 0 && x.knows(st.typeURL, "") {
			all = append(all, metrics.Wait{Reason: metrics.WaitNames, Since: st.asked})
		}
		for _, w := range x.wants.Waits(awaits) {
			if w.Reason == metrics.WaitOrigin && w.Since.IsZero() {
				w.Since = x.coldFrom
			}
			all = append(all, w)
		}
		if at := s.by.again; awaits.Parent && st.typeURL == xds.EndpointType {
			all = append(all, metrics.Wait{Reason: metrics.WaitEndpointRequest, Since: at.Add(-s.by.cfg.Hold), Until: at})
		}
		if x.coldFrom.IsZero() || len(awaits.Sets)+len(awaits.Names) == 0 {
			continue
		}
		set, _, _ := st.by.Awaits(i)
		if _, open := x.wants.Upstream(set); !open && x.wants.TurnCame(set, now).Before(now) {
			all = append(all, metrics.Wait{Reason: metrics.WaitColdWait, Since: x.coldFrom, Until: x.coldFrom.Add(s.cfg.timing.ColdWait)})
		}
	}
	return all
}

// dueByStates is due for a stream that is served from states: there are newer ones than those that
// it was brought to last, and it is not to wait.
func (s *session) dueByStates(now time.Time) bool {
	s.lacking()
	newer := func(i int) bool {
		return i >= len(s.by.targets) || s.by.groups[i].States().Target(state.Rest).State != s.by.targets[i].State
	}
	if slices.ContainsFunc(s.types, func(st *streamType) bool { return st.by != nil && st.by.Waiting() && st.by.Answerable(st.by.newest) }) {
		return true
	}
	for i := range s.by.groups {
		if newer(i) && slices.ContainsFunc(s.types, func(st *streamType) bool { return st.by != nil && !st.by.lackedSince.IsZero() }) {
			return !now.Before(s.by.gathered)
		}
	}
	return false
}

// lacksSinceByStates is lacksSince of a type that is served from states.
func (st *streamType) lacksSinceByStates() time.Time {
	switch st.lacking(); {
	case !st.unsyncedSince.IsZero():
		return st.unsyncedSince
	case len(st.unanswered) > 0:
		return st.unanswered[0].at
	case st.nacking:
		return st.nacked.last().At
	case st.responses == 0 && st.by.Waiting():
		return st.asked
	}
	return time.Time{}
}

// deadlinesByStates are those of a stream that is served from states.
func (s *session) deadlinesByStates(at func(metrics.WaitReason, time.Time)) {
	at(metrics.WaitOrder, s.by.again)
	at(metrics.WaitCoalesce, s.by.gathered)
	for _, st := range s.types {
		if st.by == nil {
			continue
		}
		for i := range st.by.sources {
			if from := st.by.sources[i].coldFrom; !from.IsZero() {
				at(metrics.NoWait, from.Add(s.cfg.timing.ColdWait))
			}
		}
	}
}
