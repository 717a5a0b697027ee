package downstream

import (
	"slices"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/genproto/googleapis/rpc/status"
)

// takeInDelta applies a request of a delta stream, which may do several things at once (DELTA-1).
// The error is the status that the stream ends with.
func (s *session) takeInDelta(now time.Time, in *content) error {
	st, first, err := s.enter(now, in)
	if err != nil {
		return err
	}
	s.pair(now, st, in.nonce, in.detail) // before what the message subscribes (NONCE-9)
	if named := in.names.n + in.unsubscribe.n + len(in.locators) + len(in.leaving); first || named > 0 {
		if err := s.subscribe(now, st, in, first); err != nil {
			return err
		}
	}
	st.requestedByStates(now)
	switch {
	case !first || s.by != nil:
	case st.typeURL == xds.EndpointType:
		s.pushEndpoints() // WARM-6
	case st.typeURL == xds.VirtualHostType:
		s.pushVirtualHosts()
	}
	s.wake(now)
	return nil
}

// pair pairs an ACK or NACK with any message that is still unacknowledged, in any order (NONCE-8).
// An unknown nonce acknowledges nothing (NONCE-7). A response counts as answered when all its
// messages are, and as accepted if none was refused.
func (s *session) pair(now time.Time, st *streamType, nonce []byte, detail *status.Status) {
	n, ours := s.nonceOf(nonce)
	if !ours {
		return
	}
	for i := range st.unanswered {
		x := &st.unanswered[i]
		if !x.isAnsweredBy(n) {
			continue
		}
		if detail != nil {
			s.nack(now, st, x, string(nonce), detail)
		}
		if x.several != nil && len(*x.several) > 0 {
			return
		}
		answered := *x
		st.unanswered = slices.Delete(st.unanswered, i, i+1)
		if s.judgedByStates(now, st, &answered); !answered.nacked {
			s.ack(now, st, &answered)
		}
		return
	}
}

// isAnsweredBy reports whether a nonce is that of one of the response's unacknowledged messages,
// and records that this one is acknowledged.
func (x *sent) isAnsweredBy(nonce uint64) bool {
	if x.several == nil {
		return x.last == nonce
	}
	i := slices.Index(*x.several, nonce)
	if i >= 0 {
		*x.several = slices.Delete(*x.several, i, i+1)
	}
	return i >= 0
}

// subscribe applies the subscribes and unsubscribes, whatever the nonce (NONCE-7). The table
// applies subscribes first (DELTA-6).
func (s *session) subscribe(now time.Time, st *streamType, in *content, first bool) error {
	if err := s.checkLength(in); err != nil {
		return err
	}
	var refused []string
	to := s.route(st, in.names.strings(), func(name string, why *reason) {
		s.refuse(st, name, why) // every subscribe is answered (DELTA-2)
		refused = append(refused, name)
	})
	s.locators(st, &to, in.locators, func(name string, p constraints.Params, why *reason) {
		s.refuseAbout(st, name, s.about(p), s.refusalKey(locatorKey(name, p)), why)
	})
	s.leaveLocators(st, &to, in.leaving)
	defer s.eventSubscribed(now, st, in)
	if st.barred {
		s.unsubscribed(st, in.unsubscribe.strings(), in.leaving)
		return s.countNames(st)
	}
	var initial map[string]string
	if first {
		if st.legacy && in.names.n+len(in.locators) == 0 {
			// The legacy wildcard (WILD-2, WILD-6). It stays until `*` is unsubscribed (WILD-3),
			// which may be in this request (WILD-7).
			to.own = []string{xds.Wildcard}
			s.judgedAll(st)
		}
		// Only the first request of a type says what the client holds (DELTA-11, DELTA-14). What it
		// holds of a name with a locator may be any variant (DYN-20), and so may what it holds by
		// the same name without one.
		initial = in.versions()
		either, own := []string(nil), map[string]bool{}
		for i := 0; i < len(to.own) && len(in.locators) > 0 && len(initial) > 0; i++ {
			own[to.own[i]] = true
		}
		for _, l := range in.locators {
			refused = append(refused, l.GetName())
			if _, holds := initial[l.GetName()]; holds && own[l.GetName()] {
				either = append(either, l.GetName())
			}
		}
		to.claim(initial, refused)
		for _, name := range either {
			initial[name] = ""
		}
		s.refuseClaims(st, to.own, initial)
		if s.only == "" && len(initial) > 0 && (st.typeURL == xds.ClusterType || st.typeURL == xds.EndpointType) {
			st.removals = now.Add(s.cfg.timing.OrderHold)
		}
	}
	gone := in.unsubscribe.strings()
	if err := s.update(now, st, to, gone, initial, first); err != nil {
		return err
	}
	s.unsubscribed(st, gone, in.leaving)
	// Removals of what a set may cover have still to be sent (WILD-9).
	if st.rest != nil && st.sub.Standing().Sets == 0 {
		if st.rest.forget(gone); st.rest.none() {
			st.rest = nil
			st.synced() // the writer has nothing to do for it
		}
	}
	return s.countNames(st)
}

// unsubscribed drops the refusals of names that are unsubscribed.
func (s *session) unsubscribed(st *streamType, names []string, locators []*discoveryv3.ResourceLocator) {
	if len(st.refusals) == 0 {
		return
	}
	left := make(map[uint64]bool, len(names)+len(locators))
	for _, name := range names {
		left[s.refusalKey(name)] = true
	}
	for _, l := range locators {
		left[s.refusalKey(locatorKey(l.GetName(), constraints.NewParams(l.GetDynamicParameters())))] = true
	}
	s.unnamed(st, func(key uint64) bool { return left[key] })
}

// spaces are the names with slashes that stand for all virtual hosts of a route configuration:
// those that the client has subscribed to as a route configuration on this stream (ALIAS-6). A name
// without a slash always does.
func (s *session) spaces(st *streamType, g *relay.Group, names []string) (spaces []string) {
	if !xds.IsVirtualHost(st.typeURL) {
		return nil
	}
	routes := s.asked(xds.RoutesOf(st.typeURL))
	if routes == nil {
		return nil
	}
	for _, name := range names {
		if strings.Contains(name, "/") && routes.subscribed(g, name) {
			spaces = append(spaces, name)
		}
	}
	return spaces
}

// subscribed reports whether the client names exactly this resource of a group, with any
// parameters.
func (st *streamType) subscribed(g *relay.Group, name string) bool {
	if st.by != nil {
		i := st.by.in(g)
		return i >= 0 && st.by.sources[i].wants.Has(xds.NameKey(name))
	}
	for i := range st.sub.Len() {
		if sub := st.sub.Part(i); sub.Group() == g && sub.Subscribed(name) {
			return true
		}
	}
	return false
}

// update passes a request to the table, to each group its part.
func (s *session) update(
	now time.Time, st *streamType, to routed, unsubscribe []string, initial map[string]string, first bool,
) error {
	if s.by != nil {
		return s.updateByStates(now, st, to, unsubscribe, initial, first)
	}
	own, err := s.groupOf(st, s.cfg.origin)
	if err != nil {
		return s.noGroup(err)
	}
	var denied []relay.Denied
	gone := s.leave(st, &to, unsubscribe)
	update := func(g *relay.Group, subscribe, unsubscribe []string, initial map[string]string) {
		sub := st.sub.In(g)
		if sub == nil {
			p := s.params(g.Origin(), st.typeURL)
			sub = st.sub.Open(g, s.mailbox, relay.SubOptions{
				TypeURL: st.typeURL, Delta: true, Initial: initial, Params: p, TTL: s.ttl, Permit: s.permit(g.Origin(), st.typeURL, p),
			})
		}
		if sub == nil {
			err = relay.ErrParameterSets
			return
		}
		if g == own {
			sub.Namespaces(s.spaces(st, own, subscribe))
		}
		denied = append(denied, st.sub.Update(now, sub, subscribe, unsubscribe)...)
		st.expect(now, sub)
	}
	// The listener's own origin comes first. A name that is unsubscribed elsewhere may be covered
	// by a `*` that this request subscribes (DELTA-6, DELTA-9).
	switch {
	case first && (len(to.own) > 0 || len(to.others)+len(to.locatorBatches.list) == 0):
		update(own, to.own, gone, initial)
	case len(to.own) > 0, len(gone) > 0 && st.sub.In(own) != nil:
		update(own, to.own, gone, nil)
	}
	for i := range to.others {
		p := &to.others[i]
		update(p.group, p.names, p.gone, p.initial)
	}
	if err != nil {
		return s.noGroup(err)
	}
	if err := s.denied(now, st, denied, nil, nil); err != nil {
		return err
	}
	return s.updateLocated(now, st, &to.locatorBatches)
}

// updateLocated is update for locators.
func (s *session) updateLocated(now time.Time, st *streamType, to *locatorBatches) error {
	for _, x := range to.list {
		var denied []relay.Denied
		if sub := s.open(st, x, ""); sub != nil {
			sub.Namespaces(s.spaces(st, x.group, x.names))
			denied = st.sub.Update(now, sub, x.names, x.gone)
			st.expect(now, sub)
		} else {
			denied = s.wholeList(x)
		}
		if err := s.denied(now, st, denied, x, nil); err != nil {
			return err
		}
	}
	if len(to.list) > 0 {
		st.sub.Leave(now)
	}
	return nil
}

// leave divides the unsubscribed names. Names that were subscribed at another origin go there. All
// others may be covered by `*` (WILD-9), and are returned.
func (s *session) leave(st *streamType, to *routed, names []string) (own []string) {
	if st.sub.Len()+st.by.names()+len(to.others) == 0 || !s.cfg.federated {
		return names
	}
	for _, name := range names {
		if p := s.leaving(st, to, name); p != nil {
			p.gone = append(p.gone, name)
		} else {
			own = append(own, name)
		}
	}
	return own
}

func (s *session) leaving(st *streamType, to *routed, name string) *place {
	u, err := xds.ParseURN(name)
	if err != nil {
		return nil
	}
	o := s.cfg.table.Authority(u.Authority)
	if o == nil || o == s.cfg.origin {
		return nil
	}
	for i := range to.others {
		if to.others[i].group.Origin() == o {
			return &to.others[i]
		}
	}
	if st.by != nil {
		for _, x := range st.by.sources {
			if x.group.Origin() == o {
				to.others = append(to.others, place{group: x.group})
				return &to.others[len(to.others)-1]
			}
		}
	}
	for i := range st.sub.Len() {
		if g := st.sub.Part(i).Group(); g.Origin() == o {
			to.others = append(to.others, place{group: g})
			return &to.others[len(to.others)-1]
		}
	}
	return nil
}
