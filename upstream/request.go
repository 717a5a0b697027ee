package upstream

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// firstRequestBytes is the size at which delta requests are split: servers refuse more than 4 MiB
// by default (RELAY-41).
const firstRequestBytes = 3 << 20

// method is what a stream is opened by: ADS, or the service of the one type that it carries.
func (c *Config) method(onlyType string) string {
	if c.PerType {
		if v := xds.ServiceOf(onlyType, c.V2); v != nil {
			return v.Method(!c.SotW)
		}
	}
	return xds.Aggregated(c.V2).Method(!c.SotW)
}

// wildcard returns how `*` is asked for. If locators may follow, it is named: an empty list is a
// wildcard only as long as nothing else is named (RELAY-21, WILD-6).
func (c *Config) wildcard() []string {
	if c.WildcardExplicit || c.TP2 {
		return []string{xds.Wildcard}
	}
	return nil
}

// everything is the first request for all there is of a type.
func (c *Config) everything(typeURL string) proto.Message {
	if c.SotW {
		return &discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: c.wildcard()}
	}
	return &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: c.wildcard()}
}

// sotwList is what a SotW request lists for an Ask.
func (c *Config) sotwList(a *relay.Ask) list {
	all := listOf(a.All)
	if a.Wildcard {
		all.names = append(c.wildcard(), all.names...)
	}
	return all
}

// deltaRequests returns the messages of one Ask. Only the first message of a type may name nothing,
// which asks for the wildcard (WILD-11), and only there are initial versions read (DELTA-11).
func (c *Config) deltaRequests(a *relay.Ask) []*discoveryv3.DeltaDiscoveryRequest {
	subscribe, unsubscribe := listOf(a.Subscribe), listOf(a.Unsubscribe)
	if a.Wildcard {
		subscribe.names = append(c.wildcard(), subscribe.names...)
	}
	var ms []*discoveryv3.DeltaDiscoveryRequest
	for initial := a.Initial; ; initial = nil {
		m := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: a.TypeURL, InitialResourceVersions: initial}
		room := firstRequestBytes
		for name, version := range initial {
			room -= len(name) + len(version) + 16
		}
		var now list
		now, subscribe, room = subscribe.cut(room)
		m.ResourceNamesSubscribe, m.ResourceLocatorsSubscribe = now.names, now.locators
		if subscribe.empty() {
			now, unsubscribe, _ = unsubscribe.cut(room)
			m.ResourceNamesUnsubscribe, m.ResourceLocatorsUnsubscribe = now.names, now.locators
		}
		ms = append(ms, m)
		if subscribe.empty() && unsubscribe.empty() {
			return ms
		}
	}
}

// strip removes from an Ask what an origin without TP2 must not see: it would find an empty list of
// names, which means a wildcard (DYN-17). The table does not ask for such names; if it did, they
// would stay unanswered. send is false if nothing is left to be sent.
func (c *Config) strip(a *relay.Ask) (stripped int, send bool) {
	if c.TP2 {
		return 0, true
	}
	before := len(a.Subscribe) + len(a.Unsubscribe) + len(a.All)
	for _, names := range []*[]relay.Name{&a.Subscribe, &a.Unsubscribe, &a.All} {
		if slices.ContainsFunc(*names, byLocator) {
			*names = slices.DeleteFunc(slices.Clone(*names), byLocator)
		}
	}
	stripped = before - len(a.Subscribe) - len(a.Unsubscribe) - len(a.All)
	return stripped, stripped == 0 || a.Wildcard || len(a.Subscribe)+len(a.Unsubscribe)+len(a.All) > 0
}

// detail returns the error_detail of a NACK (ERR-10).
func detail(err error) *status.Status {
	if err == nil {
		return nil
	}
	return &status.Status{Code: int32(codes.InvalidArgument), Message: err.Error()}
}

// introduce sets the node of a request.
func introduce(m proto.Message, node *corev3.Node) {
	switch m := m.(type) {
	case *discoveryv3.DeltaDiscoveryRequest:
		m.Node = node
	case *discoveryv3.DiscoveryRequest:
		m.Node = node
	}
}
