package downstream

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// Removals come last, and a resource is removed after those that refer to it (ORD-2). So what still
// refers to a resource is changed before the resource is removed. In delta the removals of an
// answer are split off while other types have something to send. In SotW a removal is what a list
// leaves out, so the table keeps clusters in the list until the routes are written (ORD-3). Either
// waits only for what was pending when it was taken, and each of those waits is bounded by
// order_hold. Then the removals are sent alone, or, while their type always has something else to
// send, in a message of their own after the next one of the type (TestProgress). So a removal may
// be late and is never lost.
//
// A client that comes back and holds clusters is sent no removal of clusters or endpoints within
// order_hold. It asks type by type, and until it has asked for its routes nothing shows that these
// have yet to change (TestRemovalsWaitForWhoComesBack).

// rest are the removals of one type that wait.
type rest struct {
	answer relay.Answer       // the answer they were taken with, without its body
	names  map[string]removal // by canonical name
	gone   map[string]parted  // in located form, by canonical name; nil: none
}

// parted are the removals of one located name, by the constraints of its variants.
type parted struct {
	gone  []relay.Gone
	until uint64
	went  time.Time
	fault *xds.NameError
}

func (r *rest) none() bool { return len(r.names)+len(r.gone) == 0 }

type removal struct {
	// name is the spelling to send.
	name  string
	until uint64         // what is pending up to this revision is written first
	went  time.Time      // when the removal would have been written
	named bool           // the client asked for it by name (ORD-10)
	fault *xds.NameError // the error to send with it; nil: none
}

// removalOrder are the types that ORD-2 is about, in the order in which their removals are written.
var removalOrder = []string{
	xds.ListenerType, xds.ScopedRouteType, xds.RouteType, xds.VirtualHostType, xds.ClusterType, xds.EndpointType,
}

// removedLast reports whether ORD-2 is about a type.
func removedLast(typeURL string) bool { return slices.Contains(removalOrder, typeURL) }

// related reports whether a type's resources refer to others, or others to them. Runtime and
// unknown types wait for no other type.
func related(typeURL string) bool { return removedLast(typeURL) || late(typeURL) }

// takeOne takes a type's answer. In SotW the table keeps removed clusters in it that routes may
// still refer to. In both dialects it holds back endpoints that are empty because their cluster
// goes.
func (s *session) takeOne(now time.Time, st *streamType, w *walk) *relay.Answer {
	if s.delta && st.typeURL != xds.EndpointType || !swapped(st.typeURL) {
		return st.sub.Take(now)
	}
	a := st.sub.TakeDeferring(now, s.keep(now, st, w.seen))
	st.keepsFrom, st.keeps = st.sub.Deferred()
	return a
}

// pending is the revision of the oldest update that the types have not written; MaxUint64: there is
// none. What the client has already does not count, nor what waits for its origin, since that may
// never come. The exception are changes in a list that waits for a name (stuck).
func (s *session) pending(now time.Time, among func(typeURL string) bool) uint64 {
	oldest := uint64(math.MaxUint64)
	for _, st := range s.types {
		switch {
		case st.sub.None() || !among(st.typeURL):
		case st.held != nil:
			oldest = min(oldest, st.held.Rev, max(st.held.First, 1))
		case st.restated():
		case st.inFlight(now, s.cfg.timing.OrderHold) || st.peek():
			if unsent := st.sub.Unsent(); unsent != 0 {
				oldest = min(oldest, unsent)
			}
		case s.stuck(now, st):
			oldest = min(oldest, st.sub.Unsent())
		}
	}
	return oldest
}

// stuck reports whether a list of Listeners or routes has changes to send, and waits for a name
// that is not known yet. Its changes are pending like any others (ORD-3), until it has waited for
// cold_wait (ORD-8).
func (s *session) stuck(now time.Time, st *streamType) bool {
	return !s.delta && late(st.typeURL) && !st.stuckSince.IsZero() && now.Before(st.stuckSince.Add(s.cfg.timing.ColdWait)) &&
		st.sub.Unsent() != 0
}

// split takes the removals out of the answers that are to be written, unless there is nothing else
// to write.
func (s *session) split(now time.Time) {
	if !s.delta {
		return
	}
	// The same for all types, so that what was removed together is written together.
	until := s.cfg.table.Revision()
	for _, st := range s.types {
		a := st.held
		if a == nil || !removedLast(st.typeURL) {
			continue
		}
		st.rest.without(a)
		if s.urgent(st) { // a request may wait for the removal
			st.rest.forget(a.Removed)
			continue
		}
		located, gone := parting(a.Located)
		if len(a.Removed)+len(gone) == 0 {
			continue
		}
		held := swapped(st.typeURL) && s.hold(now).holds(st, a.Removed)
		if !held && st.rest == nil && !now.Before(st.removals) && !s.othersTell(now, st) {
			continue
		}
		if st.rest == nil {
			st.rest = &rest{names: map[string]removal{}}
		}
		st.rest.answer = *a
		st.rest.answer.Body, st.rest.answer.Located, st.rest.answer.Follow, st.rest.answer.Errors = nil, nil, nil, nil
		for _, name := range a.Removed {
			st.rest.names[xds.NameKey(name)] = removal{name: name, until: until, went: now, named: st.sub.Went(name)}
		}
		st.rest.part(now, gone, until)
		additions := *a
		additions.Body, additions.Located, additions.Errors = &relay.Body{Variants: a.Variants, Heartbeats: a.Heartbeats}, located, nil
		for _, f := range a.Errors {
			if !st.rest.fault(f) {
				additions.Errors = append(additions.Errors, f)
			}
		}
		st.held = &additions
		if len(additions.Variants)+len(additions.Heartbeats)+len(additions.Errors) == 0 && located.None() {
			st.held = nil
			st.unhold()
		}
	}
}

// othersTell reports whether another type has something to send.
func (s *session) othersTell(now time.Time, st *streamType) bool {
	for _, other := range s.types {
		if other != st && other.rest != nil {
			return true
		}
	}
	return s.pending(now, func(typeURL string) bool { return typeURL != st.typeURL && related(typeURL) }) != math.MaxUint64
}

// parting splits an answer in located form. A removal of a variant that another one replaces stays
// with its replacement (DYN-11). The other removals may wait.
func parting(l *relay.Located) (now *relay.Located, gone []relay.Gone) {
	if l == nil || len(l.Removed) == 0 {
		return l, nil
	}
	there := xds.NamesOf(l.Variants)
	now = &relay.Located{Variants: l.Variants, Heartbeats: l.Heartbeats}
	for _, g := range l.Removed {
		if there[xds.NameKey(g.Name)] {
			now.Removed = append(now.Removed, g)
		} else {
			gone = append(gone, g)
		}
	}
	return now, gone
}

// part adds removals in located form.
func (r *rest) part(now time.Time, gone []relay.Gone, until uint64) {
	for _, g := range gone {
		if r.gone == nil {
			r.gone = map[string]parted{}
		}
		key := xds.NameKey(g.Name)
		x := r.gone[key]
		same := func(y relay.Gone) bool { return y.Constraints == g.Constraints }
		x.gone, x.until, x.went = append(slices.DeleteFunc(x.gone, same), g), until, now
		r.gone[key] = x
	}
}

// fault keeps an error with the waiting removal of its name, and reports whether there is such a
// removal. A client may take the error for the removal.
func (r *rest) fault(f *xds.NameError) bool {
	if f.Located {
		x, gone := r.gone[f.Name]
		if gone {
			x.fault = f
			r.gone[f.Name] = x
		}
		return gone
	}
	x, gone := r.names[f.Name]
	if gone {
		x.fault = f
		r.names[f.Name] = x
	}
	return gone
}

// without drops the removals of names that are in the answer. The waiting removal of a variant
// moves to the answer with the variants that replace it (DYN-11).
func (r *rest) without(a *relay.Answer) {
	if r == nil {
		return
	}
	for _, v := range a.Variants {
		delete(r.names, v.Name)
	}
	if a.Located == nil || len(r.gone) == 0 {
		return
	}
	there := map[[2]string]bool{}
	for _, v := range a.Located.Variants {
		there[[2]string{v.Name, v.Constraints.Key()}] = true
	}
	for _, g := range a.Located.Removed {
		there[[2]string{xds.NameKey(g.Name), g.Constraints}] = true // the answer has it already
	}
	for _, v := range a.Located.Variants {
		x := r.gone[v.Name]
		delete(r.gone, v.Name)
		for _, g := range x.gone {
			if g.Sent() && !there[[2]string{v.Name, g.Constraints}] {
				a.Located.Removed = append(a.Located.Removed, g)
			}
		}
	}
}

// forget drops the removals of names that the client has unsubscribed, since it drops these itself.
func (r *rest) forget(names []string) {
	if r == nil {
		return
	}
	for _, name := range names {
		delete(r.names, xds.NameKey(name))
	}
}

// releaseRest writes the removals that need not wait any longer, in the order of their types. None
// is written before the removals of a type that refers to it.
func (s *session) releaseRest(now time.Time, out []*response) []*response {
	waits, gathers := false, s.gathers(now)
	for _, st := range s.types {
		waits = waits || st.rest != nil
		if st.keeps && !gathers && st.held == nil && !st.inFlight(now, s.cfg.timing.OrderHold) && st.sub.DeferredDue(now, s.keep(now, st, math.MaxUint64)) {
			s.mailbox.Signal() // the next take ends their deferral
		}
	}
	if !waits {
		return out
	}
	for _, typeURL := range removalOrder {
		st := s.asked(typeURL)
		if st == nil || st.rest == nil || st.held != nil || st.inFlight(now, s.cfg.timing.OrderHold) {
			continue
		}
		if st.held = s.rest(now, st); st.held != nil {
			out = s.write(now, st, out)
		}
	}
	return out
}

// rest takes out the removals of a type that need not wait any longer; nil: there are none.
func (s *session) rest(now time.Time, st *streamType) *relay.Answer {
	if st.rest == nil || now.Before(st.removals) {
		return nil
	}
	pending := s.pending(now, func(typeURL string) bool { return typeURL != st.typeURL && related(typeURL) })
	for _, typeURL := range removalOrder {
		if typeURL == st.typeURL {
			break
		}
		if refers := s.asked(typeURL); refers != nil && refers.rest != nil {
			pending = min(pending, refers.rest.first())
		}
	}
	var h hold
	if swapped(st.typeURL) {
		h = s.hold(now)
	}
	a := st.rest.before(now, pending, h)
	if st.rest.none() {
		st.rest = nil
	}
	return a
}

// cutRest adds the removals that need not wait any longer after the other messages of the type, as
// messages of their own (ORD-2). If they were only sent alone, they would wait for ever while there
// is always something else to send.
func (s *session) cutRest(now time.Time, st *streamType, parts []part) []part {
	a := s.rest(now, st)
	if a == nil {
		return parts
	}
	more := cut(nil, s.pieces(a, now, nil), messageBytes)
	more = cutUnits(more, a.Units(true, now, nil), messageBytes)
	return append(parts, cutErrors(more, a.Errors, messageBytes)...)
}

// first is the smallest revision that a removal waits for.
func (r *rest) first() uint64 {
	first := uint64(math.MaxUint64)
	for _, x := range r.names {
		first = min(first, x.until)
	}
	for _, x := range r.gone {
		first = min(first, x.until)
	}
	return first
}

// before takes out the removals that need not wait for anything that is pending from a revision on.
func (r *rest) before(now time.Time, pending uint64, h hold) *relay.Answer {
	a := r.answer
	a.Body = &relay.Body{}
	for _, key := range slices.Sorted(maps.Keys(r.names)) {
		x := r.names[key]
		if x.until >= pending || now.Sub(x.went) < h.of(x.named) {
			continue
		}
		a.Removed = append(a.Removed, x.name)
		if x.fault != nil {
			a.Errors = append(a.Errors, x.fault)
		}
		delete(r.names, key)
	}
	r.partedBefore(now, pending, h, &a)
	if len(a.Removed) == 0 && a.Located.None() {
		return nil
	}
	return &a
}

// partedBefore is before for removals in located form.
func (r *rest) partedBefore(now time.Time, pending uint64, h hold, a *relay.Answer) {
	l := &relay.Located{}
	for _, key := range slices.Sorted(maps.Keys(r.gone)) {
		x := r.gone[key]
		if x.until >= pending || now.Sub(x.went) < h.of(false) {
			continue
		}
		l.Removed = append(l.Removed, x.gone...)
		if x.fault != nil {
			a.Errors = append(a.Errors, x.fault)
		}
		delete(r.gone, key)
	}
	if len(l.Removed) > 0 {
		a.Located = l
	}
}
