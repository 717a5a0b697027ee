package relay

import (
	"testing"

	"github.com/weir-xds/weir/relay/xds"
)

// stateNow is the ID of what a group holds now.
func stateNow(t testing.TB, r *rig) string {
	t.Helper()
	types, is := r.table.Origin("mesh").At(r.group.Key(), r.table.Revision())
	if !is {
		t.Fatal("there is no such group")
	}
	return r.table.Origin("mesh").stateID(types)
}

// TestStateIDs: tables that hold the same have the same ID, whatever the order in which it came.
// Content of endpoints and of secrets is no part of it; all else is.
func TestStateIDs(t *testing.T) {
	start := func() *rig {
		r := newRig(t, Config{})
		r.sub(xds.ClusterType, true, xds.Wildcard)
		r.sub(xds.RouteType, true, "r", "s")
		r.sub(xds.EndpointType, true, "a")
		r.sub(xds.SecretType, true, "k")
		r.open()
		return r
	}
	one, two := start(), start()
	if a, b := stateNow(t, one), stateNow(t, two); a != b || len(a) != 32 {
		t.Errorf("of nothing the IDs are %q and %q", a, b)
	}
	one.apply(made(xds.ClusterType, "1", nil, "a", "b"))
	one.apply(made(xds.RouteType, "1", nil, "r"))
	one.apply(made(xds.EndpointType, "1", nil, "a"))
	one.apply(made(xds.SecretType, "1", nil, "k"))
	two.apply(made(xds.EndpointType, "2", nil, "a"))
	two.apply(made(xds.RouteType, "7", nil, "r", "s"))
	two.apply(made(xds.ClusterType, "1", nil, "b"))
	if a, b := stateNow(t, one), stateNow(t, two); a == b {
		t.Errorf("different states have the one ID %q", a)
	}
	two.apply(made(xds.ClusterType, "1", nil, "a"))
	two.apply(made(xds.RouteType, "1", []string{"s"}, "r"))
	if a, b := stateNow(t, one), stateNow(t, two); a != b {
		t.Errorf("the same content has the IDs %q and %q", a, b)
	}
}
