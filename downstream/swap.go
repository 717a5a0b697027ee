package downstream

import (
	"math"
	"slices"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// A cluster may be removed in the same change as the route to it, or while the change of the route
// is still on its way. Control planes write the types of one change in any order, and Listeners and
// routes become visible `gather` after they came (ORD-9). So a removal is held back for a time even
// if nothing else is pending (ORD-10, ORD-11).

// hold is how long removals of Clusters and ClusterLoadAssignments are held back at least. It is
// counted from the moment they would have been written.
type hold struct {
	all time.Duration // for every removal
	// named is for removals of what the client asked for by name. The client drops the name when it
	// needs it no longer, which ends the hold. Otherwise it ends order_hold after the removal came
	// or the last Listener or route was written, whichever is later.
	named time.Duration
}

// longestHold is how many times order_hold a removal by name is held back at most, whatever routes
// are written meanwhile. A route of the same change is written within order_hold after it came, and
// the hold is counted from there.
const longestHold = 4

// hold is the present hold. A stream without Listeners and routes has nothing to wait for.
func (s *session) hold(now time.Time) (h hold) {
	if s.only != "" {
		return h
	}
	routed, unsure := false, false
	for _, st := range s.types {
		if st.sub.None() || !late(st.typeURL) {
			continue
		}
		routed = true
		if x := st.sub.Standing(); x.Held || x.StandIn {
			// Its routes may have changed while weir was away (ORD-11), or were those of another
			// source.
			h.all, unsure = s.cfg.timing.ColdWait, true
		}
	}
	if unsure || s.unsure {
		s.unsureTo = now.Sub(s.opened)
	}
	s.unsure = unsure
	if !routed {
		return h
	}
	h.named = s.cfg.timing.OrderHold
	if now.Before(s.routedAt.Add(h.named)) || s.pending(now, late) != math.MaxUint64 {
		h.named *= longestHold
	}
	// The client may need a round trip for what it is sent now.
	if s.unsureTo > 0 && now.Sub(s.opened) < s.unsureTo+s.cfg.timing.OrderHold {
		h.named = s.cfg.timing.ColdWait
	}
	return h
}

// keep is hold for what the table defers: Clusters in SotW lists (ORD-3), and the statement that
// endpoints are gone or empty.
func (s *session) keep(now time.Time, st *streamType, seen uint64) relay.Deferral {
	h := s.hold(now)
	k := relay.Deferral{Pending: math.MaxUint64, PendingEmpty: math.MaxUint64, Seen: seen, Hold: h.all, HoldNamed: h.named}
	if s.only == "" {
		k.HoldReturned = s.cfg.timing.OrderHold
	}
	switch st.typeURL {
	case xds.ClusterType:
		k.Pending = s.pending(now, late)
	case xds.EndpointType:
		k.PendingEmpty = s.pending(now, late)
	}
	return k
}

// swapped reports whether removals of the type are held back.
func swapped(typeURL string) bool {
	return typeURL == xds.ClusterType || typeURL == xds.EndpointType
}

// holds reports whether any of an answer's removals is held back.
func (h hold) holds(st *streamType, removed []string) bool {
	return h.all > 0 || h.named > 0 && slices.ContainsFunc(removed, st.sub.Went)
}

// of is how long a removal is held back.
func (h hold) of(named bool) time.Duration {
	if named {
		return max(h.all, h.named)
	}
	return h.all
}

// went calls at with each time at which the hold of a removal may end that would have been written
// at went.
func (s *session) went(went time.Time, at func(metrics.WaitReason, time.Time)) {
	d := s.cfg.timing.OrderHold
	at(metrics.WaitRemoval, went.Add(d))
	at(metrics.WaitRemoval, s.routedAt.Add(d))
	at(metrics.WaitRemoval, s.opened.Add(s.unsureTo+d))
	at(metrics.WaitRemoval, went.Add(longestHold*d))
	at(metrics.WaitRemoval, went.Add(s.cfg.timing.ColdWait))
}

// oldest is since when the oldest removal is held back; the zero time if there is none.
func (r *rest) oldest() (since time.Time) {
	older := func(at time.Time) {
		if since.IsZero() || at.Before(since) {
			since = at
		}
	}
	for _, x := range r.names {
		older(x.went)
	}
	for _, x := range r.gone {
		older(x.went)
	}
	return since
}
