package downstream

import "slices"

// Client features that concern one connection only (FEAT-2), in every spelling in use.
var (
	wrapperFeatures = []string{
		// FEAT-3
		"xds.config.resource-in-sotw", "xds.config.supports-resource-in-sotw", "envoy.config.resource-in-sotw",
	}
	// FEAT-4
	ttlFeatures = []string{"xds.config.supports-resource-ttl", "envoy.config.supports-resource-ttl"}
)

// hopFeatures reads client_features. wrapper: SotW resources may come wrapped in a Resource message
// (FEAT-3). ttl: the client understands TTLs (FEAT-4).
func hopFeatures(list []string) (wrapper, ttl bool) {
	has := func(names []string) bool {
		return slices.ContainsFunc(list, func(f string) bool { return slices.Contains(names, f) })
	}
	return has(wrapperFeatures), has(ttlFeatures)
}
