package config

import (
	"maps"
	"slices"
	"strings"
)

// Nearest returns the known word with the fewest edits, if at most a third of the letters, or one,
// differ.
func Nearest(word string, known []string) (string, bool) {
	if len(word) > 64 { // no key is that long
		return "", false
	}
	best, found := max(1, len(word)/3)+1, ""
	for _, k := range known {
		if len(k)-len(word) >= best {
			continue // as many letters are missing
		}
		if n := edits(word, k); n < best {
			best, found = n, k
		}
	}
	return found, found != ""
}

// edits returns how many letters to insert, delete, change or swap with their neighbour to get from
// a to b. Words are short, so the whole table is computed.
func edits(a, b string) int {
	t := make([][]int, len(a)+1)
	for i := range t {
		t[i] = make([]int, len(b)+1)
		t[i][0] = i
	}
	for j := range t[0] {
		t[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			t[i][j] = min(t[i-1][j]+1, t[i][j-1]+1, t[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				t[i][j] = min(t[i][j], t[i-2][j-2]+1)
			}
		}
	}
	return t[len(a)][len(b)]
}

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
