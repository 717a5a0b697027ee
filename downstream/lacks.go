package downstream

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/cursor"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// What the client lacks of each type, since when, and what holds that back.

// newest is the newest state of a group, by its number in the plan.
func (t *subscription) newest(group int) *state.State {
	i := slices.IndexFunc(t.sources, func(x source) bool { return x.number == group })
	return t.sources[i].group.States().Newest()
}

// lacking notes since when the client lacks a change of each type.
func (s *session) lacking() {
	for _, st := range s.types {
		if st.sub != nil {
			st.lacking()
		}
	}
}

func (st *streamType) lacking() {
	lacks := false
	for i := range st.sub.sources {
		target := st.sub.sources[i].group.States().Target(state.Rest)
		switch is := st.sub.Lacks(i, target.State); {
		case !is:
			st.sub.sources[i].has = target.Revision
		case !lacks && st.sub.lackedSince.IsZero():
			st.sub.lackedSince, st.sub.lacked, lacks = target.At, i, true
		default:
			lacks = true
		}
	}
	if !lacks {
		st.sub.lackedSince = time.Time{}
	}
	switch synced := !st.nacking && len(st.unanswered) == 0; {
	case synced:
		st.unsyncedSince = st.sub.lackedSince
	case st.unsyncedSince.IsZero():
		st.unsyncedSince = st.sub.lackedSince
	}
}

// holding notes which types the plan holds back, and for what.
func (s *session) holding(now time.Time) {
	var clusters *streamType
	for _, st := range s.types {
		if st.typeURL == xds.ClusterType {
			clusters = st
		}
		switch {
		case st.sub == nil:
		case late(st.typeURL) && (!st.sub.lackedSince.IsZero() || st.holdsFirst()):
			s.holdBack(now, st, s.heldFor(clusters))
		case !late(st.typeURL) && !st.sub.lackedSince.IsZero() && st.sub.Kept():
			s.holdBack(now, st, metrics.WaitRemoval)
		default:
			st.heldSince = time.Time{}
		}
	}
}

// heldFor is what listeners and routes wait for; clusters may be nil.
func (s *session) heldFor(clusters *streamType) metrics.WaitReason {
	switch {
	case clusters == nil || clusters.sub == nil || !clusters.sub.lackedSince.IsZero():
		return metrics.WaitOrder
	case len(clusters.unanswered) > 0:
		return metrics.WaitClusters
	case len(s.serving.needed) > 0:
		return metrics.WaitEndpoints
	case clusters.sub.Waiting():
		return metrics.WaitEarlierSet
	}
	return metrics.WaitOrder
}

// firstAt is when a first answer was there, which the client had to wait for; now: it was there
// when the client asked.
func (st *streamType) firstAt(now time.Time) time.Time {
	if _, at := st.waitedFor(); !at.IsZero() {
		return at
	}
	return now
}

// waitedFor is the source that had something to say after the client had asked, and when; zero:
// none.
func (st *streamType) waitedFor() (source int, at time.Time) {
	for i := range st.sub.sources {
		if at := st.sub.sources[i].group.States().Newest().At; !at.Before(st.asked) {
			return i, at
		}
	}
	return 0, time.Time{}
}

// holdsFirst reports whether a first answer is there, and not written.
func (st *streamType) holdsFirst() bool {
	t := st.sub
	if t == nil || len(st.unanswered) > 0 || !t.Waiting() {
		return false
	}
	for i := range t.sources {
		if set, waits, _ := t.Awaits(i); waits && t.sources[i].knows(st.typeURL, set) {
			return true
		}
	}
	return false
}

// knows reports whether the newest state has all of a set, or a body of a name that is asked for.
func (x *source) knows(typeURL, set string) bool {
	its, _ := x.group.States().Newest().For(x.wants.Params().Key(), typeURL, set)
	if set != "" {
		return its.Phase >= state.Settled
	}
	return slices.ContainsFunc(x.wants.Names(), func(name string) bool { return its.Members.Get(name).Has() })
}

// dates notes when the oldest change came that an answer has, and of which origin. An answer that
// has only what was there when the client asked has no date.
func (s *session) dates(st *streamType, a *cursor.Answer, x *sent) {
	i, since := st.sub.lacked, st.sub.lackedSince
	if since.IsZero() {
		i, since = st.waitedFor()
	}
	if !since.IsZero() && !a.Waits {
		of := &st.sub.sources[i]
		x.dated = dated{since.Sub(s.opened), of.wants.Lag(), of.group.Origin()}
	}
}

// holdBack notes that a type is held back, and why.
func (s *session) holdBack(now time.Time, st *streamType, why metrics.WaitReason) {
	if st.heldFor = why; !st.heldSince.IsZero() {
		return
	}
	st.heldSince = now
	st.heldCount++
	if s.telling {
		s.event(now, EventWaits, st).Why = why.String()
	}
}
