package conformance

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/relay/relaytest"
)

var deltaCases = slices.Concat(
	deltaAskCases, deltaAnswerCases, deltaResumeCases, deltaUpstreamCases, deltaWildCases, deltaRemovalCases, deltaVersionCases, deltaOriginVersionCases,
	deltaHashCases, deltaSpellingCases,
)

// hasExactly fails unless the response carries these resources and these removals, and nothing
// else.
func hasExactly(t *testing.T, r *relaytest.Response, sentence string, names, removed []string) {
	t.Helper()
	same := func(a, b []string) bool {
		return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
	}
	if !same(r.Names(), names) || !same(r.Removed(), removed) {
		t.Errorf("%s: want %q and without %q, got %v", sentence, names, removed, r)
	}
}

// setEndpoints puts endpoints for each name in place, as one change; another version is another
// content.
func setEndpoints(o *relaytest.Origin, version string, names ...string) {
	o.Batch(func() {
		for _, name := range names {
			o.Set(eds, name, version, endpointsAt(name, version))
		}
	})
}

// setOpaque is setEndpoints for the type that nobody knows.
func setOpaque(o *relaytest.Origin, version string, names ...string) {
	o.Batch(func() {
		for _, name := range names {
			o.Set(opaque, name, version, relaytest.Opaque(name, version))
		}
	})
}

// setAny is setEndpoints for Clusters, endpoints and the type that nobody knows.
func setAny(o *relaytest.Origin, typeURL, version string, names ...string) {
	o.Batch(func() {
		for _, name := range names {
			o.Set(typeURL, name, version, bodyOf(typeURL, name, version))
		}
	})
}

// bodyOf is content that the version, a small number, determines.
func bodyOf(typeURL, name, version string) *anypb.Any {
	switch typeURL {
	case eds:
		return endpointsAt(name, version)
	case cds:
		n, _ := strconv.Atoi(version)
		return relaytest.Cluster(name, time.Duration(n)*time.Second)
	}
	return relaytest.Opaque(name, version)
}

// heard returns when weir has taken in what the client asked so far, as the requests of one stream
// are read in order. All that came meanwhile counts as taken.
func heard(w *world, c *relaytest.Client) {
	const barrier = "type.googleapis.com/example.test.v1.Barrier"
	name := strconv.Itoa(len(c.Names(barrier)))
	w.origin.Set(barrier, name, "1", &anypb.Any{TypeUrl: barrier, Value: relaytest.Opaque(name, "").Value})
	c.Subscribe(barrier, name)
	c.Await(0, func(s *relaytest.State) bool { return s.Held(barrier)[name] != "" }, "a later request is answered")
}

// cameUnasked are the names that came without having been asked for.
func cameUnasked(c *relaytest.Client, typeURL string) (names []string) {
	c.Look(func(s *relaytest.State) { names = s.Unrequested(typeURL) })
	return names
}
