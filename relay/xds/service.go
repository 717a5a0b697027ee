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

// of makes the service of a single type, whose methods are called after its resources. rest is its
// path; "": the type has no SotW form.
func of(typeURL, name, resources, file, rest string) Service {
	v := Service{TypeURL: typeURL, Name: name, Delta: "Delta" + resources, File: file}
	if rest != "" {
		v.SotW, v.Fetch, v.REST = "Stream"+resources, "Fetch"+resources, rest
	}
	return v
}

// ADS is the aggregated service, for any type.
var ADS = Service{
	Name: "envoy.service.discovery.v3.AggregatedDiscoveryService",
	SotW: "StreamAggregatedResources", Delta: "DeltaAggregatedResources", File: "envoy/service/discovery/v3/ads.proto",
}

// Services are the services of single types, in ORD-1 order. They must not be changed. Types
// without one are asked on ADS.
var Services = []Service{
	of(ClusterType, "envoy.service.cluster.v3.ClusterDiscoveryService", "Clusters", "envoy/service/cluster/v3/cds.proto", "/v3/discovery:clusters"),
	of(EndpointType, "envoy.service.endpoint.v3.EndpointDiscoveryService", "Endpoints", "envoy/service/endpoint/v3/eds.proto", "/v3/discovery:endpoints"),
	of(LbEndpointType, "envoy.service.endpoint.v3.LocalityEndpointDiscoveryService", "LocalityEndpoints", "envoy/service/endpoint/v3/leds.proto", ""),
	of(SecretType, "envoy.service.secret.v3.SecretDiscoveryService", "Secrets", "envoy/service/secret/v3/sds.proto", "/v3/discovery:secrets"),
	of(ListenerType, "envoy.service.listener.v3.ListenerDiscoveryService", "Listeners", "envoy/service/listener/v3/lds.proto", "/v3/discovery:listeners"),
	of(ScopedRouteType, "envoy.service.route.v3.ScopedRoutesDiscoveryService", "ScopedRoutes", "envoy/service/route/v3/srds.proto", "/v3/discovery:scoped-routes"),
	of(RouteType, "envoy.service.route.v3.RouteDiscoveryService", "Routes", "envoy/service/route/v3/rds.proto", "/v3/discovery:routes"),
	of(VirtualHostType, "envoy.service.route.v3.VirtualHostDiscoveryService", "VirtualHosts", "envoy/service/route/v3/rds.proto", ""),
	of(ExtensionConfigType, "envoy.service.extension.v3.ExtensionConfigDiscoveryService", "ExtensionConfigs", "envoy/service/extension/v3/config_discovery.proto", "/v3/discovery:extension_configs"),
	of(RuntimeType, "envoy.service.runtime.v3.RuntimeDiscoveryService", "Runtime", "envoy/service/runtime/v3/rtds.proto", "/v3/discovery:runtime"),
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
	of(clusterTypeV2, "envoy.api.v2.ClusterDiscoveryService", "Clusters", "envoy/api/v2/cds.proto", "/v2/discovery:clusters"),
	of(EndpointTypeV2, "envoy.api.v2.EndpointDiscoveryService", "Endpoints", "envoy/api/v2/eds.proto", "/v2/discovery:endpoints"),
	of(secretTypeV2, "envoy.service.discovery.v2.SecretDiscoveryService", "Secrets", "envoy/service/discovery/v2/sds.proto", "/v2/discovery:secrets"),
	of(listenerTypeV2, "envoy.api.v2.ListenerDiscoveryService", "Listeners", "envoy/api/v2/lds.proto", "/v2/discovery:listeners"),
	of(scopedRouteTypeV2, "envoy.api.v2.ScopedRoutesDiscoveryService", "ScopedRoutes", "envoy/api/v2/srds.proto", "/v2/discovery:scoped-routes"),
	of(routeTypeV2, "envoy.api.v2.RouteDiscoveryService", "Routes", "envoy/api/v2/rds.proto", "/v2/discovery:routes"),
	of(virtualHostTypeV2, "envoy.api.v2.VirtualHostDiscoveryService", "VirtualHosts", "envoy/api/v2/rds.proto", ""),
	of(runtimeTypeV2, "envoy.service.discovery.v2.RuntimeDiscoveryService", "Runtime", "envoy/service/discovery/v2/rtds.proto", "/v2/discovery:runtime"),
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
