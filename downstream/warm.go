package downstream

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay"
)

// A client that is sent a new or changed Cluster waits for its endpoints before it uses it, though they are the ones it holds
// (WARM-1). They are owed from the moment the Cluster was written. In delta they follow at once, since the client does not
// subscribe again (WARM-3). In SotW they go with the client's next endpoint request, which it sends when it warms the
// cluster; if none comes within order_hold of the verdict on the Cluster response they are pushed (WARM-2). A client that has not
// asked for endpoints yet is owed them with its first request, whatever versions that presents (WARM-6).

// warming is what one stream owes of endpoints. Guarded by the session's lock.
type warming struct {
	news []string  // named by Clusters that were just written
	owed []string  // to go with the next endpoint request; in delta only before the first
	at   time.Time // SotW: to be pushed then; zero: the Cluster response has no verdict yet

	// Listeners and routes wait for the endpoints of the Clusters written last until they are written too, or the time has come (ORD-5).
	missing []string
	until   time.Time

	routes []string // of RouteConfigurations that were written before the client asked for virtual hosts (WARM-4)
}

// maxOwed bounds the names that are remembered; beyond it all endpoints are owed, which is no more than the client asked for.
const maxOwed = 100_000

// maxEarly is maxOwed before the client has asked for endpoints: many never do, and should not cost a name for each Cluster.
const maxEarly = 1_000

// noteClustersLocked notes which endpoints the Clusters that are being written refer to.
func (s *session) noteClustersLocked(news []*relay.Variant) {
	for _, v := range news {
		if name := v.Endpoints(); name != "" {
			s.warm.news = append(s.warm.news, name)
		}
	}
}

// followLocked notes endpoints that are being written: what the Clusters before them need is not owed any more, nor waited for.
func (s *session) followLocked(written *relay.Answer) {
	if len(s.warm.news)+len(s.warm.missing) == 0 {
		return
	}
	follows := make(map[string]bool, len(written.Variants)+len(written.Removed))
	for v := range written.Bodies() {
		follows[v.Name] = true
	}
	if written.Located != nil {
		for i := range written.Located.Removed {
			follows[relay.NameKey(written.Located.Removed[i].Name)] = true
		}
	}
	for _, name := range written.Removed {
		follows[relay.NameKey(name)] = true // it does not exist, and the client knows (WARM-7)
	}
	s.warm.news = slices.DeleteFunc(s.warm.news, func(name string) bool { return follows[name] })
	s.warm.missing = slices.DeleteFunc(s.warm.missing, func(name string) bool { return follows[name] })
}

// oweEndpointsLocked owes what the Clusters of this batch need, but for what followed them in the batch anyway.
func (s *session) oweEndpointsLocked(now time.Time) {
	news, st, most := s.warm.news, s.endpointsLocked(), maxOwed
	s.warm.news = nil
	if st != nil && len(news) > 0 {
		s.warm.missing = append(s.warm.missing, news[:min(len(news), maxEarly)]...) // enough to wait for
		s.warm.until = now.Add(s.cfg.timing.OrderHold)
	}
	switch {
	case len(news) == 0:
		return
	case st == nil:
		most = maxEarly
	case s.delta:
		st.sub.Owe(news)
		return
	}
	if s.warm.owed = append(s.warm.owed, news...); len(s.warm.owed) > most {
		s.warm.owed = []string{relay.Wildcard}
	}
}

// coldEndpointsLocked reports whether endpoints of the Clusters that were written last are still to be written.
func (s *session) coldEndpointsLocked(now time.Time) bool {
	if len(s.warm.missing) > 0 && !now.Before(s.warm.until) {
		s.warm.missing = nil
	}
	return len(s.warm.missing) > 0
}

// endpointsLocked is the stream's endpoint type; nil if the client asks for none.
func (s *session) endpointsLocked() *streamType { return s.askedLocked(relay.EndpointType) }

// askedLocked is the type's state if the client asks the table for it.
func (s *session) askedLocked(typeURL string) *streamType {
	for _, st := range s.types {
		if st.typeURL == typeURL && !st.sub.None() {
			return st
		}
	}
	return nil
}

// oweVirtualHostsLocked owes the virtual hosts of the RouteConfigurations in an answer that was written, since the client has cleared
// its table of them (WARM-4), but for those that followed in the batch anyway. In state of the world there are none.
func (s *session) oweVirtualHostsLocked(routes, followed *relay.Answer) {
	if !s.delta || routes == nil {
		return
	}
	for v := range routes.Bodies() {
		s.warm.routes = append(s.warm.routes, v.Name)
	}
	switch st := s.askedLocked(relay.VirtualHostType); {
	case st == nil:
		s.warm.routes = s.warm.routes[:min(len(s.warm.routes), maxEarly)]
	case followed != nil:
		st.sub.OweNamespaces(s.warm.routes, slices.Collect(followed.Bodies()))
		s.warm.routes = nil
	default:
		st.sub.OweNamespaces(s.warm.routes, nil)
		s.warm.routes = nil
	}
}

// pushVirtualHostsLocked hands them to the table when the client first asks for virtual hosts.
func (s *session) pushVirtualHostsLocked() {
	if st := s.askedLocked(relay.VirtualHostType); st != nil && len(s.warm.routes) > 0 {
		st.sub.OweNamespaces(s.warm.routes, nil)
		s.warm.routes = nil
	}
}

// clustersJudgedLocked starts the wait for an endpoint request, after which what is owed is pushed.
func (s *session) clustersJudgedLocked(now time.Time) {
	if len(s.warm.owed) > 0 && s.warm.at.IsZero() {
		s.warm.at = now.Add(s.cfg.timing.OrderHold)
		s.mailbox.Signal() // the writer sleeps until a deadline that it has to look for anew
	}
}

// pushEndpointsLocked hands what is owed to the table, as soon as the client asks for endpoints at all.
func (s *session) pushEndpointsLocked() {
	s.warm.at = time.Time{}
	if st := s.endpointsLocked(); st != nil && len(s.warm.owed) > 0 {
		st.sub.Owe(s.warm.owed)
		s.warm.owed = nil
	}
}
