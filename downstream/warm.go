package downstream

import (
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/relay/cursor"
	"github.com/weir-xds/weir/relay/xds"
)

// mostEarly bounds what is remembered of clusters and routes that were sent before the client has
// asked for endpoints or virtual hosts. Many clients never do, and should not cost a name for each.
// Beyond it all are owed.
const mostEarly = 16

// warm owes the client what it needs to use what was sent (WARM-1, WARM-4).
func (s *session) warm(of *streamType, a *cursor.Answer) {
	switch of.typeURL {
	case xds.ClusterType:
		asked := s.asked(xds.EndpointType) != nil
		for v := range a.Sent() {
			switch name := xds.NameKey(v.Endpoints()); {
			case name == "":
			case asked:
				s.serving.endpoints = append(s.serving.endpoints, name)
				s.serving.need(name, s.now)
			default:
				s.serving.endpoints, s.serving.clustersAt = early(s.serving.endpoints, name), s.now
			}
		}
	case xds.RouteType:
		for v := range a.Sent() {
			if s.delta { // in SotW there are no virtual hosts
				s.serving.routes = early(s.serving.routes, v.Name)
			}
		}
	}
	for _, st := range s.types {
		s.passOn(st)
	}
}

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
func (b *serving) need(name string, since time.Time) {
	if b.needed == nil {
		b.needed = map[string]time.Time{}
	}
	b.needed[name] = since
}

// needEarly notes those of the clusters that it was sent before it asked.
func (s *session) needEarly() {
	b := s.serving
	if clusters := s.asked(xds.ClusterType); clusters != nil && s.now.Before(b.clustersAt.Add(b.cfg.Hold)) {
		all := slices.Contains(b.endpoints, xds.Wildcard)
		for v := range clusters.sub.Holdings() {
			name := xds.NameKey(v.Endpoints())
			if name != "" && (all || slices.Contains(b.endpoints, name)) {
				b.need(name, b.clustersAt)
			}
		}
	}
	b.clustersAt = time.Time{}
}

// passOn passes on to a type that the client asks for what it is owed of it.
func (s *session) passOn(st *streamType) {
	switch b := s.serving; {
	case st.sub == nil:
	case st.typeURL == xds.EndpointType:
		if !b.clustersAt.IsZero() {
			s.needEarly()
		}
		if st.sub.Owe(b.endpoints...); len(b.endpoints) > 0 && st.responses == 0 && st.sub.Whole() {
			st.sub.Again() // it may have them by its version
		}
		b.endpoints = nil
	case xds.IsVirtualHost(st.typeURL):
		routes := b.routes
		st.sub.OweHosts(func(host string) bool {
			return slices.ContainsFunc(routes, func(route string) bool {
				return route == xds.Wildcard || host == route || strings.HasPrefix(host, route+"/")
			})
		})
		b.routes = nil
	}
}
