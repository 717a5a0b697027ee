package node

import "slices"

// ownFeatures are the client features that weir itself can handle, in every spelling (FEAT-6).
var ownFeatures = []string{
	"envoy.config.supports-resource-ttl",
	"xds.config.resource-in-sotw",
	"xds.config.supports-resource-in-sotw",
	"xds.config.supports-resource-ttl",
}

// hopByHop reports whether a feature concerns one connection only, so that a client's claim of it
// is not passed on (FEAT-2). All others, known or not, are end to end (FEAT-1, FEAT-7).
func hopByHop(feature string) bool {
	// FEAT-4
	return slices.Contains(ownFeatures, feature) || feature == "envoy.config.resource-in-sotw"
}

// endToEnd returns a client's features that change what the origin generates, sorted.
func endToEnd(features []string) []string {
	kept := slices.DeleteFunc(slices.Clone(features), hopByHop)
	slices.Sort(kept)
	return slices.Compact(kept)
}

// withOwn adds the features that weir itself can handle.
func withOwn(features []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(features, ownFeatures))))
}
