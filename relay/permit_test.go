package relay

import (
	"fmt"
	"testing"

	"github.com/weir-xds/weir/relay/xds"
)

// TestRolesShareViews: a thousand clients in three roles cost three views.
func TestRolesShareViews(t *testing.T) {
	r := newRig(t, Config{})
	var subs []*Sub
	for i := range 1000 {
		s := r.group.Open(NewSubscriber(), SubOptions{TypeURL: xds.ClusterType, Delta: i%2 == 0, Permit: permitted(fmt.Sprintf("team%d/*", i%3))})
		if s.delta {
			s.Update(zero, []string{xds.Wildcard}, nil)
		} else {
			s.Replace(zero, nil, true)
		}
		subs = append(subs, s)
	}
	if n := r.table.budget.views.Load(); n != 3 {
		t.Errorf("%d views, want 3", n)
	}
	for _, s := range subs {
		s.Close(zero)
	}
	if n := r.table.budget.views.Load(); n != 0 {
		t.Errorf("%d views stay", n)
	}
}

// TestDeniedNamesAreNotSubscribed: no name that a client may not have is wanted of the origin,
// whatever its caller has left in.
func TestDeniedNamesAreNotSubscribed(t *testing.T) {
	for _, delta := range []bool{true, false} {
		r := newRig(t, Config{})
		s := r.group.Open(NewSubscriber(), SubOptions{TypeURL: xds.EndpointType, Delta: delta, Permit: permitted("a")})
		if names := []string{"a", "b"}; delta {
			s.Update(zero, names, nil)
		} else {
			s.Replace(zero, names, false)
		}
		if !s.Subscribed("a") || s.Subscribed("b") || len(s.shard.named.entries) != 1 {
			t.Errorf("delta %v: a %v, b %v, of %d names", delta, s.Subscribed("a"), s.Subscribed("b"), len(s.shard.named.entries))
		}
	}
}
