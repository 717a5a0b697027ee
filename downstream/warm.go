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

// oweEndpointsLocked owes what the Clusters of this batch need, but for what follows them in the batch anyway.
func (s *session) oweEndpointsLocked(written *relay.Answer) {
	news := s.warm.news
	s.warm.news = nil
	if len(news) == 0 {
		return
	}
	if written != nil {
		follows := make(map[string]bool, len(written.Variants))
		for _, v := range written.Variants {
			follows[v.Name] = true
		}
		news = slices.DeleteFunc(news, func(name string) bool { return follows[name] })
	}
	st, most := s.endpointsLocked(), maxOwed
	switch {
	case len(news) == 0:
		return
	case st == nil:
		most = maxEarly
	case s.delta:
		st.sub.Owe(news)
		return
	}
	s.warm.at = time.Time{}
	if s.warm.owed = append(s.warm.owed, news...); len(s.warm.owed) > most {
		s.warm.owed = []string{relay.Wildcard}
	}
}

// endpointsLocked is the stream's endpoint type; nil if the client asks for none.
func (s *session) endpointsLocked() *streamType {
	for _, st := range s.types {
		if st.typeURL == relay.EndpointType && st.sub != nil {
			return st
		}
	}
	return nil
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
