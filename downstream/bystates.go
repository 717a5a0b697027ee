package downstream

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/cursor"
	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Streams that are served from the states of their groups (relay.Config.States). What a client is
// to be sent of a type is known by a cursor, and when by the plan of the stream. It is the way in
// which all streams are to be served. Until then a stream is served so if that is switched on, it
// does not poll, is no tier's, and its names have no parameters.

// byStates is how such a stream is served.
type byStates struct {
	plan   *plan.Stream
	cfg    plan.Config
	groups []*relay.Group // by their number in the plan
	again  time.Time      // when the plan or a cursor is to be looked at again
	// targets are what the client is brought to, and gathered is when it follows what changed since
	// (timing.coalesce); zero: it follows at once.
	targets  []*state.Target
	gathered time.Time
	// endpoints and routes are what was sent that needs endpoints, or virtual hosts, which the
	// client has not asked for yet (WARM-6).
	endpoints, routes []string
	// needed are endpoints that clusters refer to which were sent, and since when, until they are
	// sent (ORD-5).
	needed map[string]time.Time
}

// typeByStates is one type of such a stream.
type typeByStates struct {
	*cursor.Cursor
	sources  []source
	coldFrom time.Time // when the present wait for a first answer began; zero: none is waited for
	denies   bool      // the list has names that the client may not have: see relay.Sub.Denies
}

// source is what is asked of one group. Its place is that of the cursor's source.
type source struct {
	group  *relay.Group
	wants  *relay.Wants
	permit *relay.Permit
}

// serveByStates decides how the stream is served, once it is known who the client is.
func (s *session) serveByStates() {
	if !s.cfg.byStates || s.poll || s.cfg.tiers || s.group.States() == nil {
		return
	}
	s.by = &byStates{cfg: plan.Config{Delta: s.delta, Hold: s.cfg.timing.OrderHold, Cold: s.cfg.timing.ColdWait}}
	s.by.plan = plan.New(s.by.cfg, 0)
}

// group is the number of a group in the plan.
func (b *byStates) group(g *relay.Group) int {
	if i := slices.Index(b.groups, g); i >= 0 {
		return i
	}
	b.groups = append(b.groups, g)
	return b.plan.Join()
}

// cursor finds or makes the cursor of a type. holds: the client says that it holds something, in
// state of the world by a version.
func (s *session) cursor(now time.Time, st *streamType, holds bool, version string) *typeByStates {
	if st.by == nil {
		st.by = &typeByStates{Cursor: s.group.Cursor(cursor.Config{
			TypeURL: st.typeURL, Delta: s.delta, TTL: s.ttl, Holds: holds, Version: version, StandIn: s.ofStandIn(version), Began: now,
		})}
	}
	return st.by
}

// source finds or makes the place of a group among the sources of a type.
func (s *session) source(st *streamType, g *relay.Group) (int, error) {
	if i := st.by.in(g); i >= 0 {
		return i, nil
	}
	p := s.params(g.Origin(), st.typeURL)
	if p.Len() > 0 {
		return 0, status.Error(codes.Unimplemented, "names with parameters are not served from states yet")
	}
	x := source{group: g, wants: g.Want(s.mailbox, st.typeURL, p), permit: s.permit(g.Origin(), st.typeURL, p)}
	if x.wants == nil {
		return 0, relay.ErrParameterSets
	}
	st.by.sources = append(st.by.sources, x)
	return st.by.Open(g.Source(s.by.group(g), p, x.permit)), nil
}

// in is the place of a group; -1: nothing was asked for there.
func (t *typeByStates) in(g *relay.Group) int {
	return slices.IndexFunc(t.sources, func(x source) bool { return x.group == g })
}

// names is how many names and sets are asked for.
func (t *typeByStates) names() (n int) {
	if t != nil {
		for i := range t.sources {
			n += t.sources[i].wants.Len()
		}
	}
	return n
}

func (t *typeByStates) close(now time.Time) {
	if t != nil {
		for i := range t.sources {
			t.sources[i].wants.Close(now)
		}
		t.sources = nil
	}
}

// updateByStates is update for a stream that is served from states.
func (s *session) updateByStates(now time.Time, st *streamType, to routed, unsubscribe []string, initial map[string]string, first bool) error {
	if len(to.locatorBatches.list) > 0 {
		return status.Error(codes.Unimplemented, "locators are not served from states yet")
	}
	own, err := s.groupOf(st, s.cfg.origin)
	if err != nil {
		return s.noGroup(err)
	}
	s.cursor(now, st, len(initial) > 0, "")
	var denied []relay.Denied
	gone := s.leave(st, &to, unsubscribe)
	update := func(g *relay.Group, subscribe, unsubscribe []string, initial map[string]string) error {
		i, err := s.source(st, g)
		if err != nil {
			return err
		}
		x := &st.by.sources[i]
		if g == own {
			x.wants.Namespaces(s.spaces(st, own, subscribe))
		}
		left := map[string]bool{}
		for _, name := range unsubscribe {
			left[xds.NameKey(name)] = true
		}
		subscribe = slices.DeleteFunc(slices.Clone(subscribe), func(name string) bool {
			key := xds.NameKey(name)
			return left[key] && !x.wants.Covers(key) // WILD-8; a covered name is answered (DELTA-9)
		})
		added, no := x.wants.Add(now, x.permit, subscribe...)
		for _, n := range added {
			st.by.Subscribe(i, n)
		}
		denied = append(denied, no...)
		unknown := map[string]bool{} // of which nothing is known, so nothing is removed
		for _, d := range no {
			unknown[xds.NameKey(d.Name)] = true
		}
		for name, version := range initial {
			if key, spelt := xds.Spell(name); !unknown[key] {
				st.by.Claim(i, key, spelt, g.Claim(version))
			}
		}
		for _, key := range x.wants.Drop(now, unsubscribe...) {
			st.by.Unsubscribe(i, key)
		}
		return nil
	}
	if first && len(to.others) == 0 || len(to.own) > 0 || len(initial) > 0 || len(gone) > 0 && st.by.in(own) >= 0 {
		err = update(own, to.own, gone, initial)
	}
	for i := range to.others {
		p := &to.others[i]
		err = cmp.Or(err, update(p.group, p.names, p.gone, p.initial))
	}
	if err != nil {
		return s.noGroup(err)
	}
	s.askedByStates(now, st)
	return s.denied(now, st, denied, nil, nil)
}

// replaceByStates is replace for a stream that is served from states.
func (s *session) replaceByStates(now time.Time, st *streamType, to routed, version string) error {
	if len(to.locatorBatches.list) > 0 {
		return status.Error(codes.Unimplemented, "locators are not served from states yet")
	}
	own, err := s.groupOf(st, s.cfg.origin)
	if err != nil {
		return s.noGroup(err)
	}
	var denied []relay.Denied
	first := st.by == nil
	s.cursor(now, st, version != "", version).denies = to.denies
	replace := func(g *relay.Group, names []string, wildcard bool) error {
		i, err := s.source(st, g)
		if err != nil {
			return err
		}
		x, list := &st.by.sources[i], make([]cursor.Name, 0, len(names)+1)
		listed := make(map[string]bool, len(names)+1)
		if wildcard {
			names = append(slices.Clip(names), xds.Wildcard)
		}
		added, no := x.wants.Add(now, x.permit, names...)
		for _, n := range added {
			list, listed[n.Name] = append(list, n), true
		}
		denied = append(denied, no...)
		st.by.Replace(i, list)
		x.wants.Drop(now, slices.DeleteFunc(x.wants.Names(), func(name string) bool { return listed[name] })...)
		return nil
	}
	if len(to.own) > 0 || to.wildcard || first && len(to.others) == 0 || st.by.in(own) >= 0 {
		err = replace(own, to.own, to.wildcard)
	}
	for i := range to.others {
		err = cmp.Or(err, replace(to.others[i].group, to.others[i].names, false))
	}
	for i := range st.by.sources { // what is named no longer
		if g := st.by.sources[i].group; g != own && to.at(g) == nil {
			err = cmp.Or(err, replace(g, nil, false))
		}
	}
	if err != nil {
		return s.noGroup(err)
	}
	s.askedByStates(now, st)
	before := st.denied
	st.denied = nil
	return s.denied(now, st, denied, nil, before)
}

// askedByStates notes that something is asked for.
func (s *session) askedByStates(now time.Time, st *streamType) {
	if st.asked.IsZero() {
		st.asked = now
	}
	if st.by.coldFrom.IsZero() {
		st.by.coldFrom = now
	}
	s.owedByStates(st)
}

// requestedByStates notes that a request is over.
func (st *streamType) requestedByStates(now time.Time) {
	if st.by != nil {
		st.by.Requested(now)
	}
}

// judgedByStates notes that the client has answered a response.
func (s *session) judgedByStates(now time.Time, st *streamType, x *sent) {
	if s.by == nil {
		return
	}
	if s.by.plan.Ack(now, st.typeURL, x.last); st.by != nil && x.real {
		st.by.Ack(x.number, !x.nacked)
		for i := range st.by.sources {
			if !x.nacked {
				st.by.sources[i].group.Acknowledge()
			}
		}
	}
}

// takeByStates is take for a stream that is served from states.
func (s *session) takeByStates(now time.Time) []*response {
	out, b := s.batch[:0], s.by
	s.targetsByStates(now)
	more := true
	for range mostTurns {
		asks := s.asksByStates(now)
		more = false
		b.again = b.plan.Next(now, b.targets, asks, func(step plan.Step) uint64 {
			st := s.typeOf(step.TypeURL)
			waited := st.by.Waiting()
			a := st.by.Take(now, step)
			if a == nil || !s.expressibleByStates(a) {
				return 0
			}
			if !waited {
				s.changesAt = now
			}
			more = more || a.More
			out = s.writeByStates(now, st, a, out)
			s.warmByStates(st, a)
			return s.lastNonce
		})
		if more = more || b.again.Equal(now); !more {
			break
		}
	}
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
	if more {
		s.mailbox.Signal()
	}
	s.batch = out
	return out
}

// targetsByStates decides to which states the client is brought: for `coalesce` after changes were
// written to those of then, unless it waits for something, or has what may expire (order.go).
func (s *session) targetsByStates(now time.Time) {
	b, end := s.by, s.changesAt.Add(s.cfg.timing.Coalesce)
	gathers := now.Before(end) && !slices.ContainsFunc(s.types, func(st *streamType) bool {
		return st.by != nil && (st.by.Waiting() || st.by.Timed())
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
func (s *session) asksByStates(now time.Time) (asks []plan.Ask) {
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
		ask := st.by.Ask(s.by.cfg)
		if st.typeURL == xds.EndpointType && ask.Named {
			ask.Needed = s.by.needs(now, st.by)
		}
		asks = append(asks, ask)
	}
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
	return since
}

// refusedAll reports whether all that is asked for is refused, and nothing was sent yet: an empty
// list says so to who holds nothing (SOTW-9).
func (st *streamType) refusedAll() bool {
	return len(st.refusals) > 0 && st.by != nil && st.responses == 0 && st.by.names() == 0 && (!st.by.Holds || st.by.denies)
}

// typeOf is the stream-type of a type URL that has one.
func (s *session) typeOf(typeURL string) *streamType {
	return s.types[slices.IndexFunc(s.types, func(st *streamType) bool { return st.typeURL == typeURL })]
}

// warmByStates owes the client what it needs to use what was sent (WARM-1, WARM-4).
func (s *session) warmByStates(of *streamType, a *cursor.Answer) {
	switch of.typeURL {
	case xds.ClusterType:
		for _, v := range a.Changed {
			if name := xds.NameKey(v.Endpoints()); name != "" {
				s.by.endpoints = append(s.by.endpoints, name)
				if s.by.needed == nil {
					s.by.needed = map[string]time.Time{}
				}
				s.by.needed[name] = s.now
			}
		}
	case xds.RouteType:
		for _, v := range a.Changed {
			s.by.routes = append(s.by.routes, v.Name)
		}
	}
	for _, st := range s.types {
		s.owedByStates(st)
	}
}

// owedByStates passes on to a type that the client asks for what it is owed of it.
func (s *session) owedByStates(st *streamType) {
	switch b := s.by; {
	case st.by == nil:
	case st.typeURL == xds.EndpointType:
		if st.by.Owe(b.endpoints...); len(b.endpoints) > 0 && st.responses == 0 && st.by.Whole() {
			st.by.Again() // it may have them by its version
		}
		b.endpoints = nil
	case xds.IsVirtualHost(st.typeURL):
		routes := b.routes
		st.by.OweHosts(func(host string) bool {
			return slices.ContainsFunc(routes, func(route string) bool { return host == route || strings.HasPrefix(host, route+"/") })
		})
		b.routes = nil
	}
	s.by.endpoints, s.by.routes = s.by.endpoints[:min(len(s.by.endpoints), maxEarly)], s.by.routes[:min(len(s.by.routes), maxEarly)]
}

// writeByStates is write for an answer of a cursor; nil: there are refusals alone.
func (s *session) writeByStates(now time.Time, st *streamType, a *cursor.Answer, out []*response) []*response {
	st.blank = false
	x, r, parts := sent{at: now, real: a != nil}, newResponse(st, true), []part{{}}
	d := draft{prefix: s.prefix, refusals: s.takeRefusals(st)}
	d.hosts = s.refusedHosts(st, d.refusals)
	if a != nil {
		x.number, s.served, x.version = a.Number, true, a.Version
		if !a.Waits {
			st.by.coldFrom = time.Time{}
		}
		st.answers++
		st.sentVersion = s.versionOf(st, a)
		if pieces := s.piecesOf(a, now); s.delta {
			parts = cutErrors(cut(parts[:0], pieces, messageBytes), a.Errors, messageBytes)
		} else {
			parts[0].pieces, parts[0].errors = pieces, a.Errors
		}
	}
	if d.version = st.sentVersion; d.version == "" && !s.delta {
		d.version = xds.SetDigest{}.Version() // that of an empty set
	}
	f := s.header(st, nil)
	var several []uint64
	for i := range parts {
		if i > 0 {
			r = newResponse(st, true)
			d.refusals, d.hosts = nil, nil
			several = append(several, s.lastNonce)
		}
		s.lastNonce++
		r.nonce, d.gone, d.errors = s.lastNonce, parts[i].gone, parts[i].errors
		r.encode(f, &d, &parts[i])
		out = append(out, r)
	}
	if x.last = s.lastNonce; len(parts) > 1 {
		all := append(several, x.last)
		x.several = &all
	}
	r.last = true
	st.responses++
	st.remember(x)
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
	case s.delta, st.by.OriginVersions && from != nil && from.Version != "":
		return from.Version
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
	for _, name := range a.Unresolved {
		p[relay.Plain] = append(p[relay.Plain], xds.NewNotice(name, []string{name}, s.nonce(s.lastNonce+1)).Delta())
	}
	if s.delta {
		p[relay.Removals] = relay.RemovedNames(a.Removed)
	}
	return p
}

// coldByStates is cold for a type that is served from states (RELAY-8).
func (s *session) coldByStates(st *streamType, now time.Time) error {
	t := st.by
	if t == nil || t.coldFrom.IsZero() || now.Before(t.coldFrom.Add(s.cfg.timing.ColdWait)) {
		return nil
	}
	if t.coldFrom = now; !t.Waiting() {
		t.coldFrom = time.Time{}
		return nil
	}
	for i := range t.sources {
		if lanes := t.sources[i].group.States().Newest().Lanes; lanes[0].Open || lanes[1].Open {
			return nil // its silence is left to the client (ABS-5)
		}
	}
	if st.coldCount++; !s.served {
		return status.Errorf(codes.Unavailable, "nothing is known of %s yet, and origin %q could not be reached for timing.cold_wait %v: "+
			"try another replica or again", st.typeURL, s.cfg.origin.Name(), s.cfg.timing.ColdWait)
	}
	if t.Unreached() {
		s.mailbox.Signal()
	}
	return nil
}

// status fills in what is asked for.
func (t *typeByStates) status(own *relay.Origin, to *TypeStatus) {
	for i := range t.sources {
		x := &t.sources[i]
		p := PartStatus{Origin: x.group.Origin().Name(), Group: x.group.Key(), Names: x.wants.Len(), Wildcard: x.wants.Wildcard()}
		if p.Wildcard {
			p.Names--
		}
		to.Names, to.Wildcard = to.Names+p.Names, to.Wildcard || p.Wildcard
		if to.Parts = append(to.Parts, p); len(t.sources) == 1 && x.group.Origin() == own {
			to.Parts = nil
		}
	}
}

// lacksSinceByStates is lacksSince of a type that is served from states.
func (st *streamType) lacksSinceByStates() time.Time {
	switch {
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
		if st.by != nil && !st.by.coldFrom.IsZero() {
			at(metrics.NoWait, st.by.coldFrom.Add(s.cfg.timing.ColdWait))
		}
	}
}
