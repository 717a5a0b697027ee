package downstream

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// What a stream is sent, and when. A type's cursor knows what the client lacks of a state, and the
// plan of the stream which type is brought to which state next.

// take returns what to write now, in order. The responses count as in flight from now on. The list
// belongs to the session, and is valid until the next take. It locks the session.
func (s *session) take(now time.Time) []*response {
	s.writerLock()
	defer s.mu.Unlock()
	s.now = now
	s.looks()
	if s.group == nil || s.closed {
		return nil
	}
	b := s.serving
	s.batch = s.batch[:0]
	s.retarget(now)
	s.lacking()
	for range mostTurns {
		asks := s.asks(now)
		b.more = false
		b.again = b.plan.Next(now, b.targets, asks, b.step)
		if b.more = b.more || b.again.Equal(now); !b.more {
			break
		}
	}
	out := s.batch
	for _, st := range s.types {
		if (s.tellable(st) || st.refusedAll()) && !st.inFlight(now, b.cfg.Hold) { // what no answer took along
			out = s.write(now, st, nil, out)
		}
		if st.sub != nil {
			if at := st.sub.Until(); at.After(now) && (b.again.IsZero() || at.Before(b.again)) {
				b.again = at
			}
		}
	}
	if b.more {
		s.mailbox.Signal()
	}
	s.lacking()
	s.holding(now)
	if s.batch = out; s.telling && s.writer != nil {
		s.writer.notes, s.notes = s.notes, nil
	}
	return out
}

// step takes a step of the plan. It returns the nonce of what was written; 0: nothing was.
func (s *session) step(step plan.Step) uint64 {
	st, b := s.typeOf(step.TypeURL), s.serving
	changes := !st.sub.lackedSince.IsZero()
	a := st.sub.Take(s.now, step)
	if a == nil || !s.expressible(a) {
		return 0
	}
	if changes {
		s.changesAt = s.now
	}
	s.batch = s.write(s.now, st, a, s.batch)
	s.warm(st, a)
	b.more = b.more || a.More || st.typeURL == xds.EndpointType && len(b.needed) > 0 // routes may have waited for them
	return s.lastNonce
}

// retarget decides to which states the client is brought: for `coalesce` after changes were
// written to those of then, unless it waits for something, or has what may expire
// (TestCoalesceTTL).
func (s *session) retarget(now time.Time) {
	b, end := s.serving, s.changesAt.Add(s.cfg.timing.Coalesce)
	gathers := now.Before(end) && !slices.ContainsFunc(s.types, func(st *streamType) bool {
		return st.sub != nil && (st.sub.Timed() || st.sub.Waiting() && st.sub.Answerable(st.sub.newest))
	})
	waited := !b.gathered.IsZero()
	b.gathered = time.Time{}
	for i, g := range b.groups {
		target := g.States().Target(state.Rest)
		if i == len(b.targets) {
			b.targets = append(b.targets, target)
			continue
		}
		was, since := b.targets[i], target.Since
		switch same := target.Same(was.State); {
		case !same && gathers:
			b.gathered = end
			continue
		case !same && waited: // routes wait for clusters from now on
			since = now
		case same && was.Since.After(since):
			since = was.Since
		}
		if b.targets[i] = target; since != target.Since {
			later := *target
			later.Since, b.targets[i] = since, &later
		}
	}
}

// mostTurns is how often the plan is asked at once. What remains is for the next look.
const mostTurns = 4

// asks is what the plan has to know of the types.
func (s *session) asks(now time.Time) []plan.Ask {
	asks := s.serving.asks[:0]
	for _, st := range s.types {
		if st.sub == nil {
			continue
		}
		if xds.IsVirtualHost(st.typeURL) {
			for i := range st.sub.sources {
				for _, name := range st.sub.sources[i].wants.Silent() {
					st.sub.Silent(i, name)
				}
			}
		}
		if len(st.refusals) > 0 && (st.responses > 0 || st.sub.names() > 0) && !s.delta && !s.tellable(st) { // they go with a list (SOTW-9)
			st.sub.Again()
		}
		ask := st.sub.Ask()
		if st.typeURL == xds.EndpointType {
			if since := s.serving.needs(now, st.sub); ask.Named {
				ask.Needed = since
			}
		}
		asks = append(asks, ask)
	}
	s.serving.asks = asks
	return asks
}

// needs is since when the client needs endpoints that it was not sent.
func (b *serving) needs(now time.Time, endpoints *subscription) (since time.Time) {
	for name, at := range b.needed {
		if !now.Before(at.Add(b.cfg.Hold)) || endpoints.Has(name) {
			delete(b.needed, name)
		} else if at.After(since) {
			since = at
		}
	}
	if len(b.needed) == 0 { // a map that was large stays so
		b.needed = nil
	}
	return since
}

// refusedAll reports whether all that is asked for is refused, and nothing was sent yet: an empty
// list says so to who holds nothing (SOTW-9), and takes away what may not be held.
func (st *streamType) refusedAll() bool {
	if st.sub == nil || st.responses > 0 || st.sub.names() > 0 {
		return false
	}
	return len(st.refusals) > 0 && !st.sub.Holds || st.sub.Holds && st.sub.denies && xds.SentWhole(st.typeURL)
}

// typeOf is the stream-type of a type URL that has one.
func (s *session) typeOf(typeURL string) *streamType {
	return s.types[slices.IndexFunc(s.types, func(st *streamType) bool { return st.typeURL == typeURL })]
}

// late are the types that wait for clusters: for a Cluster response to be acknowledged (ORD-5), and
// for a first set to settle (RELAY-84).
func late(typeURL string) bool {
	switch typeURL {
	case xds.ListenerType, xds.ScopedRouteType, xds.RouteType, xds.VirtualHostType, xds.ExtensionConfigType:
		return true
	}
	return false
}

// asked is the type's state; nil: the client asks for nothing of the type.
func (s *session) asked(typeURL string) *streamType {
	for _, st := range s.types {
		if st.typeURL == typeURL && st.sub != nil {
			return st
		}
	}
	return nil
}
