package relay

import (
	"slices"
	"testing"
)

// TestUnservedTypesAreNotAsked: nothing of a type that `origins[].types` leaves out is asked when a
// stream is opened anew, which looks at all types there are.
func TestUnservedTypesAreNotAsked(t *testing.T) {
	r := newRig(t, Config{Origins: []OriginConfig{{Name: "mesh", Types: []string{ListenerType}}}})
	r.sub(ListenerType, true, Wildcard)
	r.sub(ClusterType, true, Wildcard)
	r.sub(EndpointType, true, "a")
	for range 2 {
		for _, l := range r.group.lanes {
			l.Open(zero, 0)
			asks, _ := l.Take(zero, false)
			if slices.ContainsFunc(asks, func(a Ask) bool { return a.TypeURL != ListenerType }) {
				t.Errorf("side %v: the origin is asked %v", l.Side(), asks)
			}
			l.Close()
		}
	}
}
