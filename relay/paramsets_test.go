package relay

import (
	"fmt"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/weir-xds/weir/constraints"
)

// TestParameterSets: a group has so many distinct maps and no more, over all types and clients; one that is there already is given to
// everybody, and one that nobody has any more makes room (RELAY-73).
func TestParameterSets(t *testing.T) {
	r := newRig(t, Config{MaxParameterSets: 2, Origins: []OriginConfig{{Name: "mesh", TP2: true, GroupBy: []string{"cluster"}}}})
	open := func(typeURL, env string) *Sub {
		o := SubOptions{TypeURL: typeURL, Delta: true}
		if env != "" {
			o.Params = constraints.NewParams(map[string]string{"env": env})
		}
		return r.group.Open(NewSubscriber(), o)
	}
	prod, again, test := open(ClusterType, "prod"), open(EndpointType, "prod"), open(ClusterType, "test")
	if prod == nil || again == nil || test == nil || r.group.ParameterSets() != 2 {
		t.Fatalf("%d maps, want the two of three Subs", r.group.ParameterSets())
	}
	if open(ClusterType, "stage") != nil || open(EndpointType, "stage") != nil {
		t.Error("a third map is let in")
	}
	if open(ClusterType, "") == nil || open(EndpointType, "test") == nil {
		t.Error("the empty map and one that is there are refused")
	}
	other, err := r.table.Origin("mesh").Group(&corev3.Node{Cluster: "another"})
	if err != nil {
		t.Fatal(err)
	}
	if other.Open(NewSubscriber(), SubOptions{TypeURL: ClusterType, Params: constraints.NewParams(map[string]string{"env": "stage"})}) == nil {
		t.Error("another group pays for it")
	}
	prod.Close(zero)
	if open(ClusterType, "stage") != nil {
		t.Error("a map of which one Sub of two is closed makes room")
	}
	again.Close(zero)
	if open(ClusterType, "stage") == nil || r.group.ParameterSets() != 2 {
		t.Errorf("%d maps, want one more in place of one that is gone", r.group.ParameterSets())
	}
	lowered := Config{MaxParameterSets: 1, Origins: []OriginConfig{{Name: "mesh", TP2: true, GroupBy: []string{"cluster"}}}}
	n, err := r.table.Prepare(lowered)
	if err != nil {
		t.Fatal(err)
	}
	n.Commit(zero)
	if open(EndpointType, "stage") == nil {
		t.Error("a limit that was lowered takes a map from those who have it")
	}
	if open(ClusterType, "new") != nil || r.table.MaxParameterSets() != 1 {
		t.Error("a limit that was lowered lets new maps in")
	}
}

// TestUnionBeyondParameterSets: what is refused leaves a Union as it was.
func TestUnionBeyondParameterSets(t *testing.T) {
	r := newRig(t, Config{MaxParameterSets: 1, Origins: []OriginConfig{{Name: "mesh", TP2: true}}})
	var u Union
	for i, want := range []bool{true, false, false} {
		o := SubOptions{TypeURL: ClusterType, Delta: true, Params: constraints.NewParams(map[string]string{"n": fmt.Sprint(i)})}
		if s := u.Open(r.group, NewSubscriber(), o); (s != nil) != want {
			t.Errorf("map %d is let in: %v, want %v", i, s != nil, want)
		}
	}
	if u.Len() != 1 || u.Part(0).params.Key() != `"n"="0"` {
		t.Errorf("%d Subs, want the first alone", u.Len())
	}
	u.Close(zero)
	if r.group.ParameterSets() != 0 {
		t.Errorf("%d maps are left", r.group.ParameterSets())
	}
}
