package upstream

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// firstRequestBytes is where a delta request is cut: servers refuse more than 4 MiB by default (RELAY-41).
const firstRequestBytes = 3 << 20

// method is what a lane's streams are opened by: ADS, or the service of the one type that the lane carries.
func (c *Config) method(l *relay.Lane) string {
	if c.PerType {
		if v := relay.ServiceOf(l.Apart()); v != nil {
			return v.Method(!c.SotW)
		}
	}
	return relay.ADS.Method(!c.SotW)
}

// namesOf are the names to be sent, in order and once each: parameters are not sent upstream.
func namesOf(ns []relay.Name) []string {
	if len(ns) == 0 {
		return nil
	}
	names := make([]string, len(ns))
	for i := range ns {
		names[i] = ns[i].Name
	}
	return slices.Compact(names) // the table sorts them
}

// wildcard is how `*` is asked for (RELAY-21).
func (c *Config) wildcard() []string {
	if c.WildcardExplicit {
		return []string{relay.Wildcard}
	}
	return nil
}

// deltaRequests are the messages that carry one Ask. Only the first of a type may name nothing, and then it asks for the
// wildcard (WILD-11); initial versions are only read there (DELTA-11).
func (c *Config) deltaRequests(a *relay.Ask) []*discoveryv3.DeltaDiscoveryRequest {
	subscribe, unsubscribe := namesOf(a.Subscribe), namesOf(a.Unsubscribe)
	if a.Wildcard {
		subscribe = c.wildcard()
	}
	var ms []*discoveryv3.DeltaDiscoveryRequest
	for initial := a.Initial; ; initial = nil {
		m := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: a.TypeURL, InitialResourceVersions: initial}
		room := firstRequestBytes
		for name, version := range initial {
			room -= len(name) + len(version) + 16
		}
		m.ResourceNamesSubscribe, subscribe, room = cut(subscribe, room)
		if len(subscribe) == 0 {
			m.ResourceNamesUnsubscribe, unsubscribe, _ = cut(unsubscribe, room)
		}
		ms = append(ms, m)
		if len(subscribe)+len(unsubscribe) == 0 {
			return ms
		}
	}
}

// cut takes as many names as fit, and at least one.
func cut(names []string, room int) (head, tail []string, left int) {
	for i, name := range names {
		room -= len(name) + 6
		if room < 0 && i > 0 {
			return names[:i], names[i:], 0
		}
	}
	return names, nil, room
}

// detail is a refusal as the wire carries it (ERR-10).
func detail(err error) *status.Status {
	if err == nil {
		return nil
	}
	return &status.Status{Code: int32(codes.InvalidArgument), Message: err.Error()}
}

// introduce puts the node into a request.
func introduce(m proto.Message, node *corev3.Node) {
	switch m := m.(type) {
	case *discoveryv3.DeltaDiscoveryRequest:
		m.Node = node
	case *discoveryv3.DiscoveryRequest:
		m.Node = node
	}
}
