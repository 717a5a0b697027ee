package relay

import (
	"slices"
	"testing"

	"github.com/weir-xds/weir/relay/xds"
)

// TestUnservedTypesAreNotAsked: nothing of a type that `origins[].types` leaves out is asked when a
// stream is opened anew, which looks at all types there are.
func TestUnservedTypesAreNotAsked(t *testing.T) {
	r := newRig(t, Config{Origins: []OriginConfig{{Name: "mesh", Types: []string{xds.ListenerType}}}})
	r.sub(xds.ListenerType, true, xds.Wildcard)
	r.sub(xds.ClusterType, true, xds.Wildcard)
	r.sub(xds.EndpointType, true, "a")
	for range 2 {
		for _, l := range r.group.lanes {
			l.Open(zero, 0)
			asks, _ := l.Take(zero, false)
			if slices.ContainsFunc(asks, func(a Ask) bool { return a.TypeURL != xds.ListenerType }) {
				t.Errorf("side %v: the origin is asked %v", l.Side(), asks)
			}
			l.Close()
		}
	}
}
