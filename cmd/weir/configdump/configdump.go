package configdump

import (
	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/relay/xds"
)

// Item is a resource of a client, with its status.
type Item = statusv3.ClientConfig_GenericXdsConfig

// statuses are what a client says of itself, by what its server says of it.
var statuses = map[statusv3.ConfigStatus]adminv3.ClientResourceStatus{
	statusv3.ConfigStatus_NOT_SENT: adminv3.ClientResourceStatus_REQUESTED,
	statusv3.ConfigStatus_STALE:    adminv3.ClientResourceStatus_REQUESTED,
	statusv3.ConfigStatus_SYNCED:   adminv3.ClientResourceStatus_ACKED,
	statusv3.ConfigStatus_ERROR:    adminv3.ClientResourceStatus_NACKED,
}

// Status is how the client itself would call the status of an item.
func Status(it *Item) adminv3.ClientResourceStatus {
	if it.GetConfigStatus() == statusv3.ConfigStatus_SYNCED && it.GetVersionInfo() == "" && it.GetXdsConfig() == nil && it.GetTypeUrl() != xds.SecretType {
		return adminv3.ClientResourceStatus_DOES_NOT_EXIST
	}
	return statuses[it.GetConfigStatus()]
}

// dump is a ConfigDump while it is made.
type dump struct {
	clusters  adminv3.ClustersConfigDump
	endpoints adminv3.EndpointsConfigDump
	listeners adminv3.ListenersConfigDump
	routes    adminv3.RoutesConfigDump
	scopes    adminv3.ScopedRoutesConfigDump
	filters   adminv3.EcdsConfigDump
	secrets   adminv3.SecretsConfigDump
	rest      statusv3.ClientConfig
}

// Of makes the dump of a client.
func Of(c *statusv3.ClientConfig) (*adminv3.ConfigDump, error) {
	d := &dump{}
	for _, it := range c.GetGenericXdsConfigs() {
		d.add(it)
	}
	out := &adminv3.ConfigDump{}
	// In the order of Envoy's own dump.
	for _, m := range []proto.Message{&d.clusters, &d.endpoints, &d.listeners, &d.scopes, &d.routes, &d.secrets, &d.filters, &d.rest} {
		if proto.Size(m) == 0 {
			continue
		}
		body, err := anypb.New(m)
		if err != nil {
			return nil, err
		}
		out.Configs = append(out.Configs, body)
	}
	return out, nil
}

// add puts an item where Envoy's dump has it.
func (d *dump) add(it *Item) {
	is, version, body, at, wrong := Status(it), it.GetVersionInfo(), it.GetXdsConfig(), it.GetLastUpdated(), it.GetErrorState()
	switch it.GetTypeUrl() {
	case xds.ListenerType:
		l := &adminv3.ListenersConfigDump_DynamicListener{Name: it.GetName(), ErrorState: wrong, ClientStatus: is}
		if body != nil {
			l.ActiveState = &adminv3.ListenersConfigDump_DynamicListenerState{VersionInfo: version, Listener: body, LastUpdated: at}
		}
		d.listeners.DynamicListeners = append(d.listeners.DynamicListeners, l)
	case xds.ScopedRouteType:
		s := &adminv3.ScopedRoutesConfigDump_DynamicScopedRouteConfigs{Name: it.GetName(), VersionInfo: version, LastUpdated: at, ErrorState: wrong, ClientStatus: is}
		if body != nil {
			s.ScopedRouteConfigs = []*anypb.Any{body}
		}
		d.scopes.DynamicScopedRouteConfigs = append(d.scopes.DynamicScopedRouteConfigs, s)
	case xds.SecretType:
		d.secrets.DynamicActiveSecrets = append(d.secrets.DynamicActiveSecrets, &adminv3.SecretsConfigDump_DynamicSecret{
			Name: it.GetName(), VersionInfo: version, LastUpdated: at, Secret: body, ErrorState: wrong, ClientStatus: is,
		})
	default:
		if body != nil {
			d.addBody(it, is)
		}
	}
}

// addBody puts an item where Envoy's dump has no name beside the body.
func (d *dump) addBody(it *Item, is adminv3.ClientResourceStatus) {
	version, body, at, wrong := it.GetVersionInfo(), it.GetXdsConfig(), it.GetLastUpdated(), it.GetErrorState()
	switch it.GetTypeUrl() {
	case xds.ClusterType:
		d.clusters.DynamicActiveClusters = append(d.clusters.DynamicActiveClusters, &adminv3.ClustersConfigDump_DynamicCluster{
			VersionInfo: version, Cluster: body, LastUpdated: at, ErrorState: wrong, ClientStatus: is,
		})
	case xds.EndpointType:
		d.endpoints.DynamicEndpointConfigs = append(d.endpoints.DynamicEndpointConfigs, &adminv3.EndpointsConfigDump_DynamicEndpointConfig{
			VersionInfo: version, EndpointConfig: body, LastUpdated: at, ErrorState: wrong, ClientStatus: is,
		})
	case xds.RouteType:
		d.routes.DynamicRouteConfigs = append(d.routes.DynamicRouteConfigs, &adminv3.RoutesConfigDump_DynamicRouteConfig{
			VersionInfo: version, RouteConfig: body, LastUpdated: at, ErrorState: wrong, ClientStatus: is,
		})
	case xds.ExtensionConfigType:
		d.filters.EcdsFilters = append(d.filters.EcdsFilters, &adminv3.EcdsConfigDump_EcdsFilterConfig{
			VersionInfo: version, EcdsFilter: body, LastUpdated: at, ErrorState: wrong, ClientStatus: is,
		})
	default:
		d.rest.GenericXdsConfigs = append(d.rest.GenericXdsConfigs, it)
	}
}
