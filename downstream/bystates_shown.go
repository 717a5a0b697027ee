package downstream

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/cursor"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// What people are told of streams that are served from states.

// itemsByStates adds the resources that the client is subscribed to.
func (st *streamType) itemsByStates(all []Item) []Item {
	why := st.whyByStates()
	st.by.Seen(st.by.newest)(func(x cursor.Seen) bool {
		it := Item{TypeURL: st.typeURL, Item: st.by.sources[x.Source].wants.Item(x)}
		if it.Status == relay.ItemRefused {
			it.Nack = why[x.Answer]
		}
		all = append(all, it)
		return true
	})
	return all
}

// whyByStates are the reasons of the answers that the client has refused, by their numbers.
func (st *streamType) whyByStates() map[uint64]Nack {
	why := map[uint64]Nack{}
	if st.nacked != nil {
		for i, number := range st.nacked.numbers {
			why[number] = st.nacked.why[i]
		}
	}
	return why
}

// explainByStates is what each source of the type knows of a name.
func (st *streamType) explainByStates(name string) (all []ExplainedPart) {
	why := st.whyByStates()
	for i := range st.by.sources {
		x := &st.by.sources[i]
		part := ExplainedPart{NameView: x.wants.View(name, st.by.Awaited(i))}
		if part.Located = x.located; i == st.by.lacked {
			part.Since = st.by.lackedSince
		}
		if name == "" {
			part.ByName = x.wants.Counts()
		}
		seen, is := st.by.SeenOf(i, x.group.States().Newest(), xds.NameKey(name))
		if is {
			part.Item = x.wants.Item(seen)
		}
		switch at := slices.IndexFunc(st.unanswered, func(y sent) bool { return y.real && !y.nacked && y.number == seen.Answer }); {
		case seen.Refused:
			part.Nack = why[seen.Answer]
		case seen.Unjudged && at >= 0:
			part.SentAt = st.unanswered[at].at
		}
		if xds.IsSecret(st.typeURL) {
			part.unsay()
		}
		all = append(all, part)
	}
	return all
}

// newest is the newest state of a group, by its number in the plan.
func (t *typeByStates) newest(group int) *state.State {
	i := slices.IndexFunc(t.sources, func(x source) bool { return x.number == group })
	return t.sources[i].group.States().Newest()
}

// lacking notes since when the client lacks a change of each type.
func (s *session) lacking() {
	for _, st := range s.types {
		if st.by != nil {
			st.lacking()
		}
	}
}

func (st *streamType) lacking() {
	lacks := false
	for i := range st.by.sources {
		target := st.by.sources[i].group.States().Target(state.Rest)
		switch is := st.by.Lacks(i, target.State); {
		case !is:
			st.by.sources[i].has = target.Revision
		case !lacks && st.by.lackedSince.IsZero():
			st.by.lackedSince, st.by.lacked, lacks = target.At, i, true
		default:
			lacks = true
		}
	}
	if !lacks {
		st.by.lackedSince = time.Time{}
	}
	switch synced := !st.nacking && len(st.unanswered) == 0; {
	case synced:
		st.unsyncedSince = st.by.lackedSince
	case st.unsyncedSince.IsZero():
		st.unsyncedSince = st.by.lackedSince
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
		case st.by == nil:
		case !late(st.typeURL) || st.by.lackedSince.IsZero() && !st.holdsFirst():
			st.unhold()
		default:
			s.holdBack(now, st, s.heldFor(clusters))
		}
	}
}

// heldFor is what listeners and routes wait for; clusters may be nil.
func (s *session) heldFor(clusters *streamType) metrics.WaitReason {
	switch {
	case clusters == nil || clusters.by == nil || !clusters.by.lackedSince.IsZero():
		return metrics.WaitOrder
	case len(clusters.unanswered) > 0:
		return metrics.WaitClusters
	case len(s.by.needed) > 0:
		return metrics.WaitEndpoints
	case clusters.by.Waiting():
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
	for i := range st.by.sources {
		if at := st.by.sources[i].group.States().Newest().At; !at.Before(st.asked) {
			return i, at
		}
	}
	return 0, time.Time{}
}

// holdsFirst reports whether a first answer is there, and not written.
func (st *streamType) holdsFirst() bool {
	t := st.by
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
	i, since := st.by.lacked, st.by.lackedSince
	if since.IsZero() {
		i, since = st.waitedFor()
	}
	if !since.IsZero() && !a.Waits {
		of := &st.by.sources[i]
		x.dated = dated{since.Sub(s.opened), of.wants.Lag(), of.group.Origin()}
	}
}

// lacksOfStates is lacks of a type that is served from states.
func (st *streamType) lacksOfStates(x *relay.Traced) bool {
	for i := range st.by.sources {
		if of := &st.by.sources[i]; of.group == x.Source && of.has < x.Revision && st.by.Lacks(i, of.group.States().Newest()) {
			return true
		}
	}
	return false
}

// eventByStates is eventSent of an answer of a cursor; a is nil if there are refusals alone.
func (s *session) eventByStates(now time.Time, st *streamType, a *cursor.Answer, x *sent, refused int, out []*response) {
	e := s.eventWritten(now, st, refused, out)
	if a == nil {
		return
	}
	e.Errors, e.Removed = refused+len(a.Errors), len(a.Removed)
	if e.Resources = len(a.Changed) + len(a.Heartbeats); a.Whole {
		e.Resources = 0
		for _, list := range a.All {
			e.Resources += list.Len()
		}
	}
	if i := slices.IndexFunc(st.by.sources, func(x source) bool { return x.number == a.Group }); i >= 0 {
		e.Source = st.by.sources[i].group
		e.Rev = s.by.targets[a.Group].Revision
		e.First = min(st.by.sources[i].has+1, e.Rev) // what is owed for the first time is no change that it lacked
	}
	if x.dated.from != nil {
		e.Waited = now.Sub(s.opened) - x.dated.since
	}
	if !st.heldSince.IsZero() {
		e.Held, e.Why = now.Sub(st.heldSince), st.heldFor.String()
	}
}

// contentsByStates is what a refused response had that can be told apart. mixed: it may have
// resources of several origins.
func (st *streamType) contentsByStates(x *sent, names []string) (all []relay.Content, mixed bool) {
	parts, whole := st.by.Contents(x.number, names)
	for _, p := range parts {
		all = append(all, st.by.sources[p.Source].wants.Content(p))
	}
	if len(all) == 0 && whole {
		if c, ok := st.by.sources[0].wants.List(st.by.From()); ok {
			all = append(all, c)
		}
	}
	return all, slices.ContainsFunc(st.by.sources, func(x source) bool { return x.group.Origin() != st.by.sources[0].group.Origin() })
}
