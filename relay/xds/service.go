package xds

// Service describes the discovery service of one type (TRANS-2), for both edges. No other rule of
// the protocol depends on it.
type Service struct {
	TypeURL string
	Name    string // full name on the wire
	SotW    string // streaming method; "" if the type has no SotW form (TRANS-7)
	Delta   string // streaming method
	File    string // .proto file that defines it
	Fetch   string // unary method (TRANS-11); "" if there is none
	REST    string // path of REST-JSON (REST-1); "" if there is none
}

// ADS is the aggregated service, for any type.
var ADS = Service{
	Name: "envoy.service.discovery.v3.AggregatedDiscoveryService",
	SotW: "StreamAggregatedResources", Delta: "DeltaAggregatedResources", File: "envoy/service/discovery/v3/ads.proto",
}

// Services are the services of single types, in ORD-1 order. They must not be changed. Types
// without one are asked on ADS.
var Services = []Service{
	{
		ClusterType, "envoy.service.cluster.v3.ClusterDiscoveryService", "StreamClusters", "DeltaClusters",
		"envoy/service/cluster/v3/cds.proto", "FetchClusters", "/v3/discovery:clusters",
	},
	{
		EndpointType, "envoy.service.endpoint.v3.EndpointDiscoveryService", "StreamEndpoints", "DeltaEndpoints",
		"envoy/service/endpoint/v3/eds.proto", "FetchEndpoints", "/v3/discovery:endpoints",
	},
	{
		LbEndpointType, "envoy.service.endpoint.v3.LocalityEndpointDiscoveryService", "", "DeltaLocalityEndpoints",
		"envoy/service/endpoint/v3/leds.proto", "", "",
	},
	{
		SecretType, "envoy.service.secret.v3.SecretDiscoveryService", "StreamSecrets", "DeltaSecrets",
		"envoy/service/secret/v3/sds.proto", "FetchSecrets", "/v3/discovery:secrets",
	},
	{
		ListenerType, "envoy.service.listener.v3.ListenerDiscoveryService", "StreamListeners", "DeltaListeners",
		"envoy/service/listener/v3/lds.proto", "FetchListeners", "/v3/discovery:listeners",
	},
	{
		ScopedRouteType, "envoy.service.route.v3.ScopedRoutesDiscoveryService", "StreamScopedRoutes", "DeltaScopedRoutes",
		"envoy/service/route/v3/srds.proto", "FetchScopedRoutes", "/v3/discovery:scoped-routes",
	},
	{
		RouteType, "envoy.service.route.v3.RouteDiscoveryService", "StreamRoutes", "DeltaRoutes",
		"envoy/service/route/v3/rds.proto", "FetchRoutes", "/v3/discovery:routes",
	},
	{
		VirtualHostType, "envoy.service.route.v3.VirtualHostDiscoveryService", "", "DeltaVirtualHosts",
		"envoy/service/route/v3/rds.proto", "", "",
	},
	{
		ExtensionConfigType, "envoy.service.extension.v3.ExtensionConfigDiscoveryService",
		"StreamExtensionConfigs", "DeltaExtensionConfigs", "envoy/service/extension/v3/config_discovery.proto", "FetchExtensionConfigs", "/v3/discovery:extension_configs",
	},
	{
		RuntimeType, "envoy.service.runtime.v3.RuntimeDiscoveryService", "StreamRuntime", "DeltaRuntime",
		"envoy/service/runtime/v3/rtds.proto", "FetchRuntime", "/v3/discovery:runtime",
	},
}

// ADSV2 is the aggregated service under its v2 name. Its messages are those of v3, without the
// newer fields (V2-2, V2-3).
var ADSV2 = Service{
	Name: "envoy.service.discovery.v2.AggregatedDiscoveryService",
	SotW: ADS.SotW, Delta: ADS.Delta, File: "envoy/service/discovery/v2/ads.proto",
}

// ServicesV2 are the services of single types under their v2 names, each with the type's v2
// spelling (V2-4). They must not be changed.
var ServicesV2 = []Service{
	{
		clusterTypeV2, "envoy.api.v2.ClusterDiscoveryService", "StreamClusters", "DeltaClusters",
		"envoy/api/v2/cds.proto", "FetchClusters", "/v2/discovery:clusters",
	},
	{
		EndpointTypeV2, "envoy.api.v2.EndpointDiscoveryService", "StreamEndpoints", "DeltaEndpoints",
		"envoy/api/v2/eds.proto", "FetchEndpoints", "/v2/discovery:endpoints",
	},
	{
		secretTypeV2, "envoy.service.discovery.v2.SecretDiscoveryService", "StreamSecrets", "DeltaSecrets",
		"envoy/service/discovery/v2/sds.proto", "FetchSecrets", "/v2/discovery:secrets",
	},
	{
		listenerTypeV2, "envoy.api.v2.ListenerDiscoveryService", "StreamListeners", "DeltaListeners",
		"envoy/api/v2/lds.proto", "FetchListeners", "/v2/discovery:listeners",
	},
	{
		scopedRouteTypeV2, "envoy.api.v2.ScopedRoutesDiscoveryService", "StreamScopedRoutes", "DeltaScopedRoutes",
		"envoy/api/v2/srds.proto", "FetchScopedRoutes", "/v2/discovery:scoped-routes",
	},
	{
		routeTypeV2, "envoy.api.v2.RouteDiscoveryService", "StreamRoutes", "DeltaRoutes",
		"envoy/api/v2/rds.proto", "FetchRoutes", "/v2/discovery:routes",
	},
	{
		virtualHostTypeV2, "envoy.api.v2.VirtualHostDiscoveryService", "", "DeltaVirtualHosts",
		"envoy/api/v2/rds.proto", "", "",
	},
	{
		runtimeTypeV2, "envoy.service.discovery.v2.RuntimeDiscoveryService", "StreamRuntime", "DeltaRuntime",
		"envoy/service/discovery/v2/rtds.proto", "FetchRuntime", "/v2/discovery:runtime",
	},
}

// LoadReports returns the name of the load reporting service in v3 or v2, and its method.
func LoadReports(v2 bool) (service, method string) {
	if v2 {
		return "envoy.service.load_stats.v2.LoadReportingService", "StreamLoadStats"
	}
	return "envoy.service.load_stats.v3.LoadReportingService", "StreamLoadStats"
}

// ServiceOf returns the service of a type URL in v3 or v2; nil if it has none there.
func ServiceOf(typeURL string, v2 bool) *Service {
	services := Services
	if v2 {
		services = ServicesV2
	}
	for i := range services {
		if services[i].TypeURL == typeURL {
			return &services[i]
		}
	}
	return nil
}

// Aggregated returns ADS under its v3 or v2 name.
func Aggregated(v2 bool) *Service {
	if v2 {
		return &ADSV2
	}
	return &ADS
}

// Method returns the full method name for a dialect; "" if there is none.
func (v *Service) Method(delta bool) string {
	name := v.SotW
	if delta {
		name = v.Delta
	}
	if name == "" {
		return ""
	}
	return "/" + v.Name + "/" + name
}
