package xds

import "strings"

// TypePrefix begins every type URL.
const TypePrefix = "type.googleapis.com/"

// Type URLs of the types that are handled differently from "opaque bytes with a name".
const (
	ListenerType            = TypePrefix + "envoy.config.listener.v3.Listener"
	ClusterType             = TypePrefix + "envoy.config.cluster.v3.Cluster"
	EndpointType            = TypePrefix + "envoy.config.endpoint.v3.ClusterLoadAssignment"
	LbEndpointType          = TypePrefix + "envoy.config.endpoint.v3.LbEndpoint"
	SecretType              = TypePrefix + "envoy.extensions.transport_sockets.tls.v3.Secret"
	RouteType               = TypePrefix + "envoy.config.route.v3.RouteConfiguration"
	ScopedRouteType         = TypePrefix + "envoy.config.route.v3.ScopedRouteConfiguration"
	VirtualHostType         = TypePrefix + "envoy.config.route.v3.VirtualHost"
	ExtensionConfigType     = TypePrefix + "envoy.config.core.v3.TypedExtensionConfig"
	RuntimeType             = TypePrefix + "envoy.service.runtime.v3.Runtime"
	ResourceType            = TypePrefix + "envoy.service.discovery.v3.Resource"
	RedirectType            = TypePrefix + "xds.core.v3.ResourceLocator"
	listenerTypeV2          = TypePrefix + "envoy.api.v2.Listener"
	clusterTypeV2           = TypePrefix + "envoy.api.v2.Cluster"
	EndpointTypeV2          = TypePrefix + "envoy.api.v2.ClusterLoadAssignment"
	secretTypeV2            = TypePrefix + "envoy.api.v2.auth.Secret"
	routeTypeV2             = TypePrefix + "envoy.api.v2.RouteConfiguration"
	scopedRouteTypeV2       = TypePrefix + "envoy.api.v2.ScopedRouteConfiguration"
	virtualHostTypeV2       = TypePrefix + "envoy.api.v2.route.VirtualHost"
	runtimeTypeV2           = TypePrefix + "envoy.service.discovery.v2.Runtime"
	thriftRouteType         = TypePrefix + "envoy.extensions.filters.network.thrift_proxy.v3.RouteConfiguration"
	rateLimitType           = TypePrefix + "ratelimit.config.ratelimit.v3.RateLimitConfig"
	MaxTypeURL          int = 1024
)

// order is ORD-1. Other types come after these, sorted by type URL.
var order = map[string]int{
	ClusterType: 0, EndpointType: 1, LbEndpointType: 2, SecretType: 3, ListenerType: 4, ScopedRouteType: 5,
	RouteType: 6, VirtualHostType: 7, ExtensionConfigType: 8, RuntimeType: 9,
	clusterTypeV2: 0, EndpointTypeV2: 1, secretTypeV2: 3, listenerTypeV2: 4,
	scopedRouteTypeV2: 5, routeTypeV2: 6, virtualHostTypeV2: 7, runtimeTypeV2: 9,
}

// spellings maps v3 type URLs to their v2 spellings.
var spellings = map[string]string{
	ClusterType: clusterTypeV2, EndpointType: EndpointTypeV2, SecretType: secretTypeV2, ListenerType: listenerTypeV2,
	ScopedRouteType: scopedRouteTypeV2, RouteType: routeTypeV2, VirtualHostType: virtualHostTypeV2, RuntimeType: runtimeTypeV2,
}

// OtherSpelling returns the type URL of the same type in the other version, v2 or v3 (V2-5); "" if
// there is none.
func OtherSpelling(typeURL string) string {
	for v3, v2 := range spellings {
		switch typeURL {
		case v3:
			return v2
		case v2:
			return v3
		}
	}
	return ""
}

// TypeURL returns a type URL as a string, without a copy if it is known.
func TypeURL(b []byte) string {
	for known := range order {
		if known == string(b) {
			return known
		}
	}
	return string(b)
}

// CompareTypes orders type URLs as ORD-1 wants them written on a stream.
func CompareTypes(a, b string) int {
	ra, oka := order[a]
	rb, okb := order[b]
	switch {
	case oka && okb && ra != rb:
		return ra - rb
	case oka != okb && oka:
		return -1
	case oka != okb:
		return 1
	}
	return strings.Compare(a, b)
}

// FullState reports whether every SotW response of the type has the client's whole set (DEL-2).
func FullState(typeURL string) bool {
	switch typeURL {
	case ListenerType, ClusterType, listenerTypeV2, clusterTypeV2:
		return true
	}
	return false
}

// SentWhole reports whether a SotW response to names has all of them (SOTW-2, SOTW-4).
func SentWhole(typeURL string) bool {
	return FullState(typeURL) || isScopedRoute(typeURL) || IsSecret(typeURL)
}

func isScopedRoute(typeURL string) bool {
	return typeURL == ScopedRouteType || typeURL == scopedRouteTypeV2
}

// IsSecret reports whether resources of the type are key material (RELAY-74).
func IsSecret(typeURL string) bool { return typeURL == SecretType || typeURL == secretTypeV2 }

// DeltaOnly reports whether the type has no SotW form (TRANS-7).
func DeltaOnly(typeURL string) bool {
	return typeURL == LbEndpointType || IsVirtualHost(typeURL)
}

// IsVirtualHost reports whether resources of the type are virtual hosts, which are subscribed by
// alias when a request waits for them (ALIAS-8).
func IsVirtualHost(typeURL string) bool {
	return typeURL == VirtualHostType || typeURL == virtualHostTypeV2
}

// RoutesOf returns the type of the route configurations that virtual hosts of a type belong to
// (ALIAS-6); "" for other types.
func RoutesOf(typeURL string) string {
	switch typeURL {
	case VirtualHostType:
		return RouteType
	case virtualHostTypeV2:
		return routeTypeV2
	}
	return ""
}

// AlwaysWhole reports whether a SotW response to `*` always lists every resource (DEL-2, SOTW-4).
func AlwaysWhole(typeURL string) bool { return FullState(typeURL) || isScopedRoute(typeURL) }

// Named reports whether bare resources of the type have their name in field 1 (RELAY-14).
func Named(typeURL string) bool {
	_, listed := order[typeURL]
	return listed && typeURL != LbEndpointType || typeURL == thriftRouteType || typeURL == rateLimitType
}

// IsBackend reports whether the type is clusters, or endpoints: what changes of routes wait for
// (ORD-9).
func IsBackend(typeURL string) bool {
	rank, known := order[typeURL]
	return known && rank <= order[EndpointType]
}

// ChoosesClusters reports whether resources of the type refer to clusters, as listeners and routes
// do (ORD-9).
func ChoosesClusters(typeURL string) bool {
	rank, known := order[typeURL]
	return known && rank >= order[ListenerType] && rank <= order[VirtualHostType]
}
