package downstream

import (
	"math"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// A client that is sent a new or changed Cluster waits for its endpoints before it uses it, even if
// it holds the same endpoints already (WARM-1). They are owed from the moment the Cluster was
// written. In delta they follow at once, since the client does not subscribe again (WARM-3). In
// SotW they are sent with the client's next endpoint request, which it makes when it warms the
// cluster. If none comes within order_hold after the ACK or NACK of the Cluster response, they are
// pushed (WARM-2). A client that has not asked for endpoints yet is owed them with its first
// request, whatever versions that presents (WARM-6).

// warming is what one stream owes of endpoints. Guarded by the session's lock.
type warming struct {
	// news are named by Clusters that were just written. news and missing may be shared, and must
	// not be changed.
	news []string
	owed owed      // sent with the next endpoint request; in delta only before the first one
	at   time.Time // SotW: when to push them; zero: the Cluster response is unacknowledged

	missing []missing // oldest first

	// routes are the RouteConfigurations that were written before the client asked for virtual
	// hosts (WARM-4).
	routes []string
}

// missing are endpoints of the Clusters of one response. Listeners and routes that came no later
// wait for them (ORD-5).
type missing struct {
	names  []string
	of     uint64    // nonce of the response
	until  time.Time // the wait ends then
	waited bool      // the response was written although the one before it was unacknowledged
}

// maxMissing bounds the responses whose endpoints are waited for.
const maxMissing = 64

// maxOwed bounds the names that are remembered. Beyond it all endpoints are owed, which is no more
// than the client asked for.
const maxOwed = 100_000

// maxEarly is maxOwed before the client has asked for endpoints. Many clients never do, and should
// not cost a name for each Cluster.
const maxEarly = 1_000

// owed are names of endpoints, in lists that many clients share. A list for each client that never
// asks for endpoints would cost more than all else that is kept of it (TestOwedIsShared).
type owed struct {
	lists [][]string
	own   []string // names from the lists beyond maxLists
	names int
}

// maxLists bounds the lists.
const maxLists = 16

// everything is what is owed if there are too many names.
var everything = owed{lists: [][]string{{xds.Wildcard}}, names: math.MaxInt}

// add adds a list. early: the client has not asked for endpoints.
func (o *owed) add(list []string, early bool) {
	most := maxOwed
	if early {
		most = maxEarly
	}
	if o.names == math.MaxInt {
		return
	}
	if len(o.lists) == maxLists && !early {
		o.own = append(o.own, slices.Concat(o.lists...)...)
		o.lists = nil
	}
	if o.names += len(list); o.names > most || len(o.lists) == maxLists {
		*o = everything
		return
	}
	o.lists = append(o.lists, list)
}

// pay removes names whose endpoints were written.
func (o *owed) pay(names map[string]bool) {
	if o.names == 0 || o.names == math.MaxInt {
		return
	}
	o.own, o.names = without(o.own, names), 0
	lists := make([][]string, 0, len(o.lists))
	for _, list := range o.lists {
		if list = without(list, names); len(list) > 0 {
			lists = append(lists, list)
			o.names += len(list)
		}
	}
	o.lists, o.names = lists, o.names+len(o.own)
}

// noteClusters records the endpoints that the Clusters being written refer to.
func (w *warming) noteClusters(names []string) {
	// Clip copies only if there are other names, which is rare.
	if w.news = append(slices.Clip(names), w.news...); len(w.news) == 0 {
		w.news = nil
	}
}

// follow records endpoints that are being written. What the Clusters before them need of these is
// neither owed nor waited for any longer.
func (s *session) follow(written *relay.Answer) {
	if len(s.warm.news)+len(s.warm.missing)+s.warm.owed.names == 0 {
		return
	}
	follows := make(map[string]bool, len(written.Variants)+len(written.Removed))
	for v := range written.Bodies() {
		follows[v.Name] = true
	}
	if written.Located != nil {
		for i := range written.Located.Removed {
			follows[xds.NameKey(written.Located.Removed[i].Name)] = true
		}
	}
	for _, name := range written.Removed {
		// It does not exist, and the client has been sent that (WARM-7).
		follows[xds.NameKey(name)] = true
	}
	s.warm.news = without(s.warm.news, follows)
	s.warm.owed.pay(follows)
	for i := range s.warm.missing {
		m := &s.warm.missing[i]
		m.names = without(m.names, follows)
	}
	s.warm.missing = slices.DeleteFunc(s.warm.missing, func(m missing) bool { return len(m.names) == 0 })
}

// lacks reports whether an answer has endpoints that written Clusters wait for.
func (w *warming) lacks(a *relay.Answer) bool {
	told := map[string]bool{}
	for v := range a.Bodies() {
		told[v.Name] = true
	}
	return slices.ContainsFunc(w.missing, func(m missing) bool {
		return slices.ContainsFunc(m.names, func(name string) bool { return told[name] })
	})
}

// without returns the list without names. The list itself is not changed.
func without(list []string, names map[string]bool) (rest []string) {
	for i, name := range list {
		if names[name] {
			rest = slices.Clone(list[:i])
			for _, name := range list[i:] {
				if !names[name] {
					rest = append(rest, name)
				}
			}
			return rest
		}
	}
	return list
}

// oweEndpoints makes the stream owe what the Clusters of this batch need, except what followed them
// in the batch.
func (s *session) oweEndpoints(now time.Time, clusters *streamType) {
	news, st := s.warm.news, s.endpoints()
	s.warm.news = nil
	if st != nil && len(news) > 0 {
		if len(s.warm.missing) == maxMissing {
			s.warm.missing = slices.Delete(s.warm.missing, 0, 1)
		}
		few := news[:min(len(news), maxEarly)] // as many as are worth waiting for
		s.warm.missing = append(s.warm.missing, missing{
			names: slices.Clip(few), of: clusters.last().last, until: now.Add(s.cfg.timing.OrderHold), waited: clusters.hurried(),
		})
	}
	switch {
	case len(news) == 0:
		return
	case s.delta && st != nil:
		st.sub.Owe(news)
		return
	}
	s.warm.owed.add(news, st == nil)
}

// coldEndpoints reports whether Clusters of a response up to a nonce still lack endpoints that have
// to be written.
func (s *session) coldEndpoints(now time.Time, upTo uint64) bool {
	s.warm.missing = slices.DeleteFunc(s.warm.missing, func(m missing) bool { return !now.Before(m.until) })
	return len(s.warm.missing) > 0 && s.warm.missing[0].of <= upTo
}

// waited reports whether endpoints have still to be written of Clusters up to a nonce that were
// written although those before them were unacknowledged.
func (w *warming) waited(now time.Time, upTo uint64) bool {
	return slices.ContainsFunc(w.missing, func(m missing) bool { return m.waited && m.of <= upTo && now.Before(m.until) })
}

// endpoints is the stream's endpoint type; nil: the client asks for none.
func (s *session) endpoints() *streamType { return s.asked(xds.EndpointType) }

// asked is the type's state; nil: the client asks the table for nothing of the type.
func (s *session) asked(typeURL string) *streamType {
	for _, st := range s.types {
		if st.typeURL == typeURL && !(st.sub.None() && st.by == nil) {
			return st
		}
	}
	return nil
}

// oweVirtualHosts makes the stream owe the virtual hosts of the RouteConfigurations that were
// written, since the client has cleared its table of them (WARM-4). Those that followed in the same
// batch are left out. In SotW there are none.
func (s *session) oweVirtualHosts(routes, followed *relay.Answer) {
	if !s.delta || routes == nil {
		return
	}
	for v := range routes.Bodies() {
		s.warm.routes = append(s.warm.routes, v.Name)
	}
	switch st := s.asked(xds.VirtualHostType); {
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

// pushVirtualHosts passes them to the table when the client first asks for virtual hosts.
func (s *session) pushVirtualHosts() {
	if st := s.asked(xds.VirtualHostType); st != nil && len(s.warm.routes) > 0 {
		st.sub.OweNamespaces(s.warm.routes, nil)
		s.warm.routes = nil
	}
}

// clustersJudged begins the wait for an endpoint request, after which what is owed is pushed.
func (s *session) clustersJudged(now time.Time) {
	if s.warm.owed.names > 0 && s.warm.at.IsZero() {
		s.warm.at = now.Add(s.cfg.timing.OrderHold)
		s.mailbox.Signal() // the writer has to compute its next deadline again
	}
}

// pushEndpoints passes what is owed to the table, once the client asks for endpoints at all.
func (s *session) pushEndpoints() {
	s.warm.at = time.Time{}
	if st := s.endpoints(); st != nil {
		for _, list := range append(slices.Clip(s.warm.owed.lists), s.warm.owed.own) {
			st.sub.Owe(list)
		}
		s.warm.owed = owed{}
	}
}
