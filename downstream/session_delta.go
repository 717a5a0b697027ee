package downstream

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/relay"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
)

// deltaRequest takes in a request of a delta stream, which may do several things at once (DELTA-1). The error is the status the
// stream ends with.
func (s *session) deltaRequest(now time.Time, req *discoveryv3.DeltaDiscoveryRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, first, err := s.enterLocked(req.Node, req.TypeUrl)
	if err != nil {
		return err
	}
	s.pairLocked(now, st, req.ResponseNonce, req.ErrorDetail) // before what the message subscribes (NONCE-9)
	if err := s.subscribeLocked(now, st, req, first); err != nil {
		return err
	}
	switch {
	case !first:
	case st.typeURL == relay.EndpointType:
		s.pushEndpointsLocked() // WARM-6
	case st.typeURL == relay.VirtualHostType:
		s.pushVirtualHostsLocked()
	}
	s.wakeLocked()
	return nil
}

// pairLocked pairs an ACK or NACK with any message that is still unanswered, in any order (NONCE-8). An unknown nonce says
// nothing (NONCE-7). A response counts as answered when all its messages are, and as accepted when none was refused.
func (s *session) pairLocked(now time.Time, st *streamType, nonce string, detail *status.Status) {
	if nonce == "" {
		return
	}
	for i, x := range st.unanswered {
		j := slices.Index(x.nonces, nonce)
		if j < 0 {
			continue
		}
		x.nonces = slices.Delete(x.nonces, j, j+1)
		if detail != nil {
			s.nackLocked(now, st, x, nonce, detail)
		}
		if len(x.nonces) > 0 {
			return
		}
		st.unanswered = slices.Delete(st.unanswered, i, i+1)
		if !x.nacked {
			s.ackLocked(now, st, x)
		}
		return
	}
}

// subscribeLocked takes in what is subscribed and unsubscribed, whatever the nonce (NONCE-7). The table applies subscribes first
// (DELTA-6).
func (s *session) subscribeLocked(now time.Time, st *streamType, req *discoveryv3.DeltaDiscoveryRequest, first bool) error {
	subscribe := s.admitLocked(st, req.ResourceNamesSubscribe)
	for _, l := range req.ResourceLocatorsSubscribe {
		s.refuseLocked(st, l.GetName(), noLocators) // DYN-18
	}
	if st.secret {
		return s.countNamesLocked(st)
	}
	if first {
		if st.legacy && len(req.ResourceNamesSubscribe)+len(req.ResourceLocatorsSubscribe) == 0 {
			// The legacy wildcard (WILD-2, WILD-6). It stays until `*` is unsubscribed (WILD-3), be it right here (WILD-7).
			subscribe = []string{relay.Wildcard}
		}
		// Only the first request of a type says what the client holds (DELTA-11, DELTA-14).
		g, err := s.groupLocked(st, s.cfg.origin)
		if err != nil {
			return errGroups(err)
		}
		st.sub = g.Open(s.mailbox, relay.SubOptions{TypeURL: st.typeURL, Delta: true, Initial: s.initialOf(st, req)})
	}
	if !first && len(subscribe)+len(req.ResourceNamesUnsubscribe) == 0 {
		if len(req.ResourceLocatorsSubscribe)+len(req.ResourceNamesSubscribe) == 0 {
			return nil // an ACK and nothing else
		}
		return s.countNamesLocked(st)
	}
	s.spacesLocked(st, subscribe)
	st.sub.Update(now, subscribe, req.ResourceNamesUnsubscribe)
	if st.rest != nil && st.sub.Standing().Sets == 0 { // what a set may cover is still to be told (WILD-9)
		st.rest.forget(req.ResourceNamesUnsubscribe)
	}
	st.expect(now)
	return s.countNamesLocked(st)
}

// spacesLocked tells the table which names with slashes stand for all virtual hosts of a route configuration: those that the client has
// subscribed to as one on this stream (ALIAS-6). Without a slash every name does.
func (s *session) spacesLocked(st *streamType, names []string) {
	if st.typeURL != relay.VirtualHostType {
		return
	}
	routes := s.askedLocked(relay.RouteType)
	if routes == nil {
		return
	}
	var spaces []string
	for _, name := range names {
		if strings.Contains(name, "/") && routes.sub.Subscribed(name) {
			spaces = append(spaces, name)
		}
	}
	if len(spaces) > 0 {
		st.sub.Namespaces(spaces)
	}
}

// admitLocked is the names that are asked of the table. Each of the others is refused: every subscribe is answered (DELTA-2).
func (s *session) admitLocked(st *streamType, names []string) []string {
	bad := slices.IndexFunc(names, func(name string) bool { return s.judge(st, name) != nil })
	if bad < 0 {
		return names
	}
	admitted := append(make([]string, 0, len(names)-1), names[:bad]...)
	for _, name := range names[bad:] {
		if why := s.judge(st, name); why != nil {
			s.refuseLocked(st, name, why)
			continue
		}
		admitted = append(admitted, name)
	}
	return admitted
}

// initialOf is what the client says to hold, without the names that are refused: of those nothing is known, so nothing may be
// removed (FED-2, DELTA-12).
func (s *session) initialOf(st *streamType, req *discoveryv3.DeltaDiscoveryRequest) map[string]string {
	if len(req.InitialResourceVersions) == 0 {
		return nil
	}
	refused := map[string]bool{}
	for _, name := range req.ResourceNamesSubscribe {
		if s.judge(st, name) != nil {
			refused[relay.NameKey(name)] = true
		}
	}
	for _, l := range req.ResourceLocatorsSubscribe {
		refused[relay.NameKey(l.GetName())] = true
	}
	if len(refused) > 0 { // however they are written
		maps.DeleteFunc(req.InitialResourceVersions, func(name, _ string) bool { return refused[relay.NameKey(name)] })
	}
	return req.InitialResourceVersions
}
