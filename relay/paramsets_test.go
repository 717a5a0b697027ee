package relay

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

// TestParameterSets: a group has so many distinct maps and no more, over all types and clients; one
// that is there already is given to everybody, and one that nobody has any more makes room
// (RELAY-73).
func TestParameterSets(t *testing.T) {
	r := newRig(t, Config{MaxParameterSets: 2, Origins: []OriginConfig{{Name: "mesh", TP2: true, GroupBy: []string{"cluster"}}}})
	open := func(typeURL, env string) *Sub {
		o := SubOptions{TypeURL: typeURL, Delta: true}
		if env != "" {
			o.Params = constraints.NewParams(map[string]string{"env": env})
		}
		return r.group.Open(NewSubscriber(), o)
	}
	prod, again, test := open(xds.ClusterType, "prod"), open(xds.EndpointType, "prod"), open(xds.ClusterType, "test")
	if prod == nil || again == nil || test == nil || r.group.paramSets.len() != 2 {
		t.Fatalf("%d maps, want the two of three Subs", r.group.paramSets.len())
	}
	if open(xds.ClusterType, "stage") != nil || open(xds.EndpointType, "stage") != nil {
		t.Error("a third map is let in")
	}
	if open(xds.ClusterType, "") == nil || open(xds.EndpointType, "test") == nil {
		t.Error("the empty map and one that is there are refused")
	}
	other, err := r.table.Origin("mesh").Group(&corev3.Node{Cluster: "another"})
	if err != nil {
		t.Fatal(err)
	}
	if other.Open(NewSubscriber(), SubOptions{TypeURL: xds.ClusterType, Params: constraints.NewParams(map[string]string{"env": "stage"})}) == nil {
		t.Error("another group pays for it")
	}
	if got := r.table.Origin("mesh").Groups()[0].ParameterSets; got != 2 {
		t.Errorf("%d maps in the picture of the group", got)
	}
	prod.Close(zero)
	if open(xds.ClusterType, "stage") != nil {
		t.Error("a map of which one Sub of two is closed makes room")
	}
	again.Close(zero)
	if open(xds.ClusterType, "stage") == nil || r.group.paramSets.len() != 2 {
		t.Errorf("%d maps, want one more in place of one that is gone", r.group.paramSets.len())
	}
	lowered := Config{MaxParameterSets: 1, Origins: []OriginConfig{{Name: "mesh", TP2: true, GroupBy: []string{"cluster"}}}}
	n, err := r.table.Prepare(lowered)
	if err != nil {
		t.Fatal(err)
	}
	n.Commit(zero)
	if open(xds.EndpointType, "stage") == nil {
		t.Error("a limit that was lowered takes a map from those who have it")
	}
	if open(xds.ClusterType, "new") != nil || r.table.MaxParameterSets() != 1 {
		t.Error("a limit that was lowered lets new maps in")
	}
}

// TestUnionBeyondParameterSets: what is refused leaves a Union as it was.
func TestUnionBeyondParameterSets(t *testing.T) {
	r := newRig(t, Config{MaxParameterSets: 1, Origins: []OriginConfig{{Name: "mesh", TP2: true}}})
	var u Union
	for i, want := range []bool{true, false, false} {
		o := SubOptions{TypeURL: xds.ClusterType, Delta: true, Params: constraints.NewParams(map[string]string{"n": fmt.Sprint(i)})}
		if s := u.Open(r.group, NewSubscriber(), o); (s != nil) != want {
			t.Errorf("map %d is let in: %v, want %v", i, s != nil, want)
		}
	}
	if u.Len() != 1 || u.Part(0).shard.params.Key() != `"n"="0"` {
		t.Errorf("%d Subs, want the first alone", u.Len())
	}
	u.Close(zero)
	if r.group.paramSets.len() != 0 {
		t.Errorf("%d maps are left", r.group.paramSets.len())
	}
}

// TestMadeUpMapsDoNotPileUp: who asks with one map after the other keeps few of them alive, and
// what others wait for lingers as ever.
func TestMadeUpMapsDoNotPileUp(t *testing.T) {
	for _, name := range []string{"a", xds.Wildcard} {
		r := newRig(t, Config{MaxParameterSets: 3, Origins: []OriginConfig{{Name: "mesh", TP2: true}}})
		r.sub(xds.ClusterType, true, name)
		r.open()
		most := 0
		for i := range 100 {
			now := zero.Add(time.Duration(i) * time.Millisecond)
			sub := r.group.Open(NewSubscriber(), SubOptions{
				TypeURL: xds.ClusterType, Delta: true, Params: constraints.NewParams(map[string]string{"n": strconv.Itoa(i)}),
			})
			if sub == nil {
				t.Fatal("what lingers of others takes the place of a map")
			}
			sub.Update(now, []string{name}, nil)
			for _, l := range r.group.lanes {
				l.Take(now, false)
			}
			sub.Close(now)
			r.table.Advance(now)
			for _, l := range r.group.lanes {
				l.Take(now, false)
			}
			most = max(most, len(r.group.store(xds.ClusterType).all))
		}
		if most < 3 || most > 5 {
			t.Errorf("%s: %d maps are held, want those that may be in use, and hardly more", name, most)
		}
		r.table.Advance(zero.Add(time.Hour))
		for _, l := range r.group.lanes {
			l.Take(zero.Add(time.Hour), false)
		}
		if n := len(r.group.store(xds.ClusterType).all); n != 1 {
			t.Errorf("%s: %d maps are held when all have lingered, want the empty one", name, n)
		}
	}
}
