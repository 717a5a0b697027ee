package downstream

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/cursor"
	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// What a stream that is served from states is sent, and when.

// takeByStates is take for a stream that is served from states.
func (s *session) takeByStates(now time.Time) []*response {
	b := s.by
	s.batch = s.batch[:0]
	s.targetsByStates(now)
	s.lacking()
	for range mostTurns {
		asks := s.asksByStates(now)
		b.more = false
		b.again = b.plan.Next(now, b.targets, asks, b.step)
		if b.more = b.more || b.again.Equal(now); !b.more {
			break
		}
	}
	out := s.batch
	for _, st := range s.types {
		if (s.tellable(st) || st.refusedAll()) && !st.inFlight(now, b.cfg.Hold) { // what no answer took along
			out = s.writeByStates(now, st, nil, out)
		}
		if st.by != nil {
			if at := st.by.Until(); at.After(now) && (b.again.IsZero() || at.Before(b.again)) {
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

// stepByStates takes a step of the plan. It returns the nonce of what was written; 0: nothing was.
func (s *session) stepByStates(step plan.Step) uint64 {
	st, b := s.typeOf(step.TypeURL), s.by
	changes := !st.by.lackedSince.IsZero()
	a := st.by.Take(s.now, step)
	if a == nil || !s.expressibleByStates(a) {
		return 0
	}
	if changes {
		s.changesAt = s.now
	}
	s.batch = s.writeByStates(s.now, st, a, s.batch)
	s.warmByStates(st, a)
	b.more = b.more || a.More || st.typeURL == xds.EndpointType && len(b.needed) > 0 // routes may have waited for them
	return s.lastNonce
}

// targetsByStates decides to which states the client is brought: for `coalesce` after changes were
// written to those of then, unless it waits for something, or has what may expire (order.go).
func (s *session) targetsByStates(now time.Time) {
	b, end := s.by, s.changesAt.Add(s.cfg.timing.Coalesce)
	gathers := now.Before(end) && !slices.ContainsFunc(s.types, func(st *streamType) bool {
		return st.by != nil && (st.by.Timed() || st.by.Waiting() && st.by.Answerable(st.by.newest))
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

// asksByStates is what the plan has to know of the types.
func (s *session) asksByStates(now time.Time) []plan.Ask {
	asks := s.by.asks[:0]
	for _, st := range s.types {
		if st.by == nil {
			continue
		}
		if xds.IsVirtualHost(st.typeURL) {
			for i := range st.by.sources {
				for _, name := range st.by.sources[i].wants.Silent() {
					st.by.Silent(i, name)
				}
			}
		}
		if len(st.refusals) > 0 && (st.responses > 0 || st.by.names() > 0) && !s.delta && !s.tellable(st) { // they go with a list (SOTW-9)
			st.by.Again()
		}
		ask := st.by.Ask()
		if st.typeURL == xds.EndpointType {
			if since := s.by.needs(now, st.by); ask.Named {
				ask.Needed = since
			}
		}
		asks = append(asks, ask)
	}
	s.by.asks = asks
	return asks
}

// needs is since when the client needs endpoints that it was not sent.
func (b *byStates) needs(now time.Time, endpoints *typeByStates) (since time.Time) {
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
	if st.by == nil || st.responses > 0 || st.by.names() > 0 {
		return false
	}
	return len(st.refusals) > 0 && !st.by.Holds || st.by.Holds && st.by.denies && xds.SentWhole(st.typeURL)
}

// typeOf is the stream-type of a type URL that has one.
func (s *session) typeOf(typeURL string) *streamType {
	return s.types[slices.IndexFunc(s.types, func(st *streamType) bool { return st.typeURL == typeURL })]
}

// warmByStates owes the client what it needs to use what was sent (WARM-1, WARM-4).
func (s *session) warmByStates(of *streamType, a *cursor.Answer) {
	switch of.typeURL {
	case xds.ClusterType:
		asked := s.asked(xds.EndpointType) != nil
		for v := range a.Sent() {
			switch name := xds.NameKey(v.Endpoints()); {
			case name == "":
			case asked:
				s.by.endpoints = append(s.by.endpoints, name)
				s.by.need(name, s.now)
			default:
				s.by.endpoints, s.by.clustersAt = early(s.by.endpoints, name), s.now
			}
		}
	case xds.RouteType:
		for v := range a.Sent() {
			if s.delta { // in SotW there are no virtual hosts
				s.by.routes = early(s.by.routes, v.Name)
			}
		}
	}
	for _, st := range s.types {
		s.owedByStates(st)
	}
}

// mostEarly bounds what is remembered of clusters and routes that were sent before the client has
// asked for endpoints or virtual hosts. Many clients never do, and should not cost a name for each.
// Beyond it all are owed.
const mostEarly = 16

// early adds a name to what is owed once the client asks.
func early(list []string, name string) []string {
	switch {
	case len(list) > 0 && list[0] == xds.Wildcard:
		return list
	case len(list) == mostEarly:
		return []string{xds.Wildcard}
	}
	return append(list, name)
}

// need notes endpoints that the client waits for.
func (b *byStates) need(name string, since time.Time) {
	if b.needed == nil {
		b.needed = map[string]time.Time{}
	}
	b.needed[name] = since
}

// needEarly notes those of the clusters that it was sent before it asked.
func (s *session) needEarly() {
	b := s.by
	if clusters := s.asked(xds.ClusterType); clusters != nil && clusters.by != nil && s.now.Before(b.clustersAt.Add(b.cfg.Hold)) {
		all := slices.Contains(b.endpoints, xds.Wildcard)
		for v := range clusters.by.Holdings() {
			name := xds.NameKey(v.Endpoints())
			if name != "" && (all || slices.Contains(b.endpoints, name)) {
				b.need(name, b.clustersAt)
			}
		}
	}
	b.clustersAt = time.Time{}
}

// owedByStates passes on to a type that the client asks for what it is owed of it.
func (s *session) owedByStates(st *streamType) {
	switch b := s.by; {
	case st.by == nil:
	case st.typeURL == xds.EndpointType:
		if !b.clustersAt.IsZero() {
			s.needEarly()
		}
		if st.by.Owe(b.endpoints...); len(b.endpoints) > 0 && st.responses == 0 && st.by.Whole() {
			st.by.Again() // it may have them by its version
		}
		b.endpoints = nil
	case xds.IsVirtualHost(st.typeURL):
		routes := b.routes
		st.by.OweHosts(func(host string) bool {
			return slices.ContainsFunc(routes, func(route string) bool {
				return route == xds.Wildcard || host == route || strings.HasPrefix(host, route+"/")
			})
		})
		b.routes = nil
	}
}

// writeByStates is write for an answer of a cursor; nil: there are refusals alone.
func (s *session) writeByStates(now time.Time, st *streamType, a *cursor.Answer, out []*response) []*response {
	st.blank = false
	x, parts, many := sent{at: now, real: a != nil}, []part{{}}, false
	d := draft{prefix: s.prefix, refusals: s.takeRefusals(st)}
	d.hosts = s.refusedHosts(st, d.refusals)
	if a != nil {
		x.number, s.served, x.version = a.Number, true, a.Version
		if s.dates(st, a, &x); st.unsyncedSince.IsZero() {
			st.unsyncedSince = st.firstAt(now)
		}
		if !a.Waits {
			for i := range st.by.sources {
				st.by.sources[i].coldFrom = time.Time{}
			}
		}
		st.answers++
		st.sentVersion = s.versionOf(st, a)
		pieces, units := s.piecesOf(a, now), relay.UnitsOf(a, s.delta, s.ttl, now)
		if s.delta {
			parts = cutUnits(cut(parts[:0], pieces, messageBytes), units, messageBytes)
			parts = cutErrors(parts, a.Errors, messageBytes)
		} else {
			parts[0].pieces, parts[0].errors = pieces, a.Errors
			for _, u := range units {
				parts[0].pieces[relay.Pairs] = append(parts[0].pieces[relay.Pairs], u.Pieces...)
			}
		}
	}
	if d.version = st.sentVersion; d.version == "" && !s.delta {
		d.version = xds.SetDigest{}.TreeVersion() // that of an empty set
	}
	var of *relay.Group
	if a != nil && a.Group >= 0 {
		of = s.by.groups[a.Group]
	}
	for _, list := range parts[0].pieces {
		many = many || len(list) > 1
	}
	r := newResponse(st, many)
	refused, from := len(d.refusals), len(out)
	out, r = s.encode(st, &x, r, s.header(st, of), &d, parts, out)
	if r.last, r.dated = true, x.dated.from != nil; r.dated {
		r.since, st.lag = x.dated.since, x.dated.lag
	}
	st.responses++
	st.remember(x)
	if s.telling {
		s.eventByStates(now, st, a, &x, refused, out[from:])
	}
	return out
}

// expressibleByStates is expressible for an answer of a cursor.
func (s *session) expressibleByStates(a *cursor.Answer) bool {
	if !s.v2 || len(a.Errors) == 0 {
		return true
	}
	a.Errors = nil
	return a.Whole || len(a.Changed)+len(a.Heartbeats)+len(a.Removed) > 0
}

// versionOf is the version of a response: that of its content, or the origin's (VER-4, VER-5).
func (s *session) versionOf(st *streamType, a *cursor.Answer) string {
	from := st.by.From()
	switch {
	case s.delta && (from == nil || len(from.Version) > maxVersionShown):
		return ""
	case s.delta:
		return from.Version
	case st.by.OriginVersions:
		return cmp.Or(st.by.OriginVersion(), a.Version)
	}
	return a.Version
}

const maxVersionShown = 256 // of an origin, which is in each response

// piecesOf are the encoded resources and removals of an answer.
func (s *session) piecesOf(a *cursor.Answer, now time.Time) (p relay.Pieces) {
	if s.v2 && s.delta {
		for _, v := range a.Changed {
			if !v.Nameless {
				p[relay.Plain] = append(p[relay.Plain], v.DeltaV2())
			}
		}
	} else {
		p[relay.Plain], p[relay.Pairs] = a.Pieces(now, nil)
	}
	for _, v := range a.Heartbeats {
		if ttl, ok := v.Remaining(now); ok {
			p[relay.Plain] = append(p[relay.Plain], v.Heartbeat(s.delta, ttl))
		}
	}
	p[relay.Plain] = append(p[relay.Plain], relay.UnresolvedFields(a.Unresolved, s.nonce(s.lastNonce+1))...)
	if s.delta {
		p[relay.Removals] = relay.RemovedNames(a.Removed)
	}
	return p
}
