package downstream

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// Removals come last, what refers before what it refers to (ORD-2): what still refers to a resource
// is changed before the resource goes. In delta the removals of an answer are split off while other
// types have something to tell. In state of the world a removal is what a list leaves out, so the
// table keeps clusters in the list until the routes are written (ORD-3). Either waits only for what
// was pending when it was taken, and each of those is bounded by order_hold. Then it goes by
// itself, or, while its type always has something else to tell, as a message of its own behind the
// next of that (TestProgress): a removal is late and never lost. To a client that comes back and
// holds clusters, none of them or their endpoints is removed within order_hold: it asks type by
// type, and until it has asked for its routes nothing shows that these have yet to change
// (TestRemovalsWaitForWhoComesBack).

// rest is removals of one type that wait.
type rest struct {
	answer relay.Answer       // what they were taken with, without its body
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
	name  string         // as it is to be told
	until uint64         // what is pending up to this revision goes first
	went  time.Time      // when it would have been written
	named bool           // the client asked for it by name (ORD-10)
	fault *xds.NameError // to be told with it; nil: none
}

// removalOrder are the types that ORD-2 speaks of, in the order in which their removals leave.
var removalOrder = []string{
	xds.ListenerType, xds.ScopedRouteType, xds.RouteType, xds.VirtualHostType, xds.ClusterType, xds.EndpointType,
}

// removedLast reports whether ORD-2 speaks of a type.
func removedLast(typeURL string) bool { return slices.Contains(removalOrder, typeURL) }

// related reports whether a type's resources refer to others, or are referred to. Runtime and types
// unknown wait for nobody.
func related(typeURL string) bool { return removedLast(typeURL) || late(typeURL) }

// takeOne takes a type's answer. Of clusters that went, state of the world keeps what routes
// may still point to; of endpoints that are empty since their cluster goes, the word is kept in
// both dialects.
func (s *session) takeOne(now time.Time, st *streamType, w *walk) *relay.Answer {
	if s.delta && st.typeURL != xds.EndpointType || !swapped(st.typeURL) {
		return st.sub.Take(now)
	}
	a := st.sub.TakeDeferring(now, s.keep(now, st, w.seen))
	st.keepsFrom, st.keeps = st.sub.Deferred()
	return a
}

// pending is the revision of the oldest update that the types have not written; MaxUint64:
// none. What waits for its origin is not counted, as it may never come, but for what a list that
// waits for a name has to tell.
func (s *session) pending(now time.Time, among func(typeURL string) bool) uint64 {
	oldest := uint64(math.MaxUint64)
	for _, st := range s.types {
		switch {
		case st.sub.None() || !among(st.typeURL):
		case st.held != nil:
			oldest = min(oldest, st.held.Rev, max(st.held.First, 1))
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

// stuck reports whether a list of Listeners or routes has something to tell, and waits for a name
// that is not known yet. Its changes are pending as any others (ORD-3), until it has waited for
// cold_wait (ORD-8).
func (s *session) stuck(now time.Time, st *streamType) bool {
	return !s.delta && late(st.typeURL) && !st.stuckSince.IsZero() && now.Before(st.stuckSince.Add(s.cfg.timing.ColdWait)) &&
		st.sub.Unsent() != 0
}

// split takes the removals out of the answers that are to be written, if they are not all
// there is.
func (s *session) split(now time.Time) {
	if !s.delta {
		return
	}
	until := s.cfg.table.Revision() // one for all that goes together
	for _, st := range s.types {
		a := st.held
		if a == nil || !removedLast(st.typeURL) {
			continue
		}
		st.rest.without(a)
		if s.urgent(st) { // to learn that there is none is what a request may wait for
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

// othersTell reports whether another type has something to tell.
func (s *session) othersTell(now time.Time, st *streamType) bool {
	for _, other := range s.types {
		if other != st && other.rest != nil {
			return true
		}
	}
	return s.pending(now, func(typeURL string) bool { return typeURL != st.typeURL && related(typeURL) }) != math.MaxUint64
}

// parting divides what is told in located form. A variant that goes for another is replaced, which
// is one thing (DYN-11); the others of its removals may wait.
func parting(l *relay.Located) (now *relay.Located, gone []relay.Gone) {
	if l == nil || len(l.Removed) == 0 {
		return l, nil
	}
	there := make(map[string]bool, len(l.Variants))
	for _, v := range l.Variants {
		there[v.Name] = true
	}
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

// part takes in removals in located form.
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

// fault keeps an error of a name whose removal waits, and reports whether it is one: a client may
// take it for the removal.
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

// without takes out what is there again. A variant that waits to go leaves with those that are in
// its place now (DYN-11).
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
		there[[2]string{xds.NameKey(g.Name), g.Constraints}] = true // it is listed
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

// forget takes out what the client has unsubscribed, and so dropped itself.
func (r *rest) forget(names []string) {
	if r == nil {
		return
	}
	for _, name := range names {
		delete(r.names, xds.NameKey(name))
	}
}

// releaseRest writes the removals whose time has come, in their order: none before those of a
// type that refers to it.
func (s *session) releaseRest(now time.Time, out []*response) []*response {
	waits, gathers := false, s.gathers(now)
	for _, st := range s.types {
		waits = waits || st.rest != nil
		if st.keeps && !gathers && st.held == nil && !st.inFlight(now, s.cfg.timing.OrderHold) && st.sub.DeferredDue(now, s.keep(now, st, math.MaxUint64)) {
			s.mailbox.Signal() // the next take lets go of them
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

// rest takes out the removals of a type that need not wait any more; nil: all do.
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

// cutRest puts the removals whose time has come behind what else is told of a type, as
// messages of their own (ORD-2): by themselves they would wait for ever while there is always
// something else to tell.
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

// before takes out what need not wait for anything that is pending from a revision on.
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

// partedBefore is before for what is told in located form.
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
