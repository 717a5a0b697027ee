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
	st.requested(now)
	s.mailbox.Signal()
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
		if s.settle(now, st, &answered); !answered.nacked {
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
	}
	gone := in.unsubscribe.strings()
	if err := s.update(now, st, to, gone, initial, first); err != nil {
		return err
	}
	s.unsubscribed(st, gone, in.leaving)
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
	if st.sub == nil {
		return false
	}
	i := st.sub.in(g)
	return i >= 0 && st.sub.sources[i].wants.Has(xds.NameKey(name))
}

// leave divides the unsubscribed names. Names that were subscribed at another origin go there. All
// others may be covered by `*` (WILD-9), and are returned.
func (s *session) leave(st *streamType, to *routed, names []string) (own []string) {
	if st.sub.names()+len(to.others) == 0 || !s.cfg.federated {
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
	if st.sub != nil {
		for _, x := range st.sub.sources {
			if x.group.Origin() == o {
				to.others = append(to.others, place{group: x.group})
				return &to.others[len(to.others)-1]
			}
		}
	}
	return nil
}
