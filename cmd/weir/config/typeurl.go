package config

import (
	"maps"
	"slices"
	"strings"
)

const typeHost = "type.googleapis.com/"

// shortNames are the short names of the xDS services, for type URLs.
var shortNames = map[string]string{
	"cds":  typeHost + "envoy.config.cluster.v3.Cluster",
	"eds":  typeHost + "envoy.config.endpoint.v3.ClusterLoadAssignment",
	"leds": typeHost + "envoy.config.endpoint.v3.LbEndpoint",
	"lds":  typeHost + "envoy.config.listener.v3.Listener",
	"rds":  typeHost + "envoy.config.route.v3.RouteConfiguration",
	"srds": typeHost + "envoy.config.route.v3.ScopedRouteConfiguration",
	"vhds": typeHost + "envoy.config.route.v3.VirtualHost",
	"sds":  typeHost + "envoy.extensions.transport_sockets.tls.v3.Secret",
	"rtds": typeHost + "envoy.service.runtime.v3.Runtime",
	"ecds": typeHost + "envoy.config.core.v3.TypedExtensionConfig",
}

// ShortNames returns the short names that TypeURL knows, sorted.
func ShortNames() []string { return slices.Sorted(maps.Keys(shortNames)) }

// TypeURL returns the v3 type URL of a short name (cds, eds, lds, rds, srds, vhds, sds, rtds, ecds,
// leds), or a full type URL as it is. It returns false for anything else.
func TypeURL(name string) (string, bool) {
	if url, ok := shortNames[name]; ok {
		return url, true
	}
	host, message, ok := strings.Cut(name, "/")
	return name, ok && host != "" && message != "" && !strings.ContainsAny(name, " \t\r\n")
}
