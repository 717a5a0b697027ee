package relay

import (
	"slices"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/relay/xds"
)

// TestClusterThatANameCovered: a client of `*` that named a cluster besides has it with the body that
// came by name. When it drops the name the list has the one that came with `*`. To the client the
// cluster changes, so its endpoints follow (WARM-1).
func TestClusterThatANameCovered(t *testing.T) {
	cluster := func(kind clusterv3.Cluster_DiscoveryType) *xds.Update {
		body, err := proto.Marshal(&clusterv3.Cluster{Name: "a", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: kind}})
		if err != nil {
			t.Fatal(err)
		}
		r := madeResource(xds.ClusterType, "a", "", "")
		r.Any = xds.AppendString(xds.AppendString(nil, 1, xds.ClusterType), 2, string(body))
		r.PayloadType, r.Payload, _ = xds.AnyParts(r.Any)
		return &xds.Update{TypeURL: xds.ClusterType, Resources: []xds.Resource{r}}
	}
	for _, globs := range []bool{false, true} {
		r := newRig(t, Config{})
		names := []string{"a"}
		if globs { // several sets are put together by other code
			names = append(names, "xdstp://o/T/g/*")
		}
		s := r.group.Open(NewSubscriber(), SubOptions{TypeURL: xds.ClusterType})
		s.Replace(zero, names, true)
		r.open()
		r.apply(cluster(clusterv3.Cluster_EDS))
		r.group.lanes[sideLane].Apply(zero, cluster(clusterv3.Cluster_STATIC))
		now := zero.Add(time.Minute)
		r.table.Advance(now)
		if a := s.Take(now); a == nil || len(a.Variants) != 1 {
			t.Fatalf("globs %v: by name the client is sent %+v", globs, a)
		}
		s.Replace(now, names[1:], true)
		if a := s.Take(now); a == nil || len(a.Variants) != 1 || !slices.Equal(a.Follow, []string{"a"}) {
			t.Errorf("globs %v: without the name the client is sent %+v, want the endpoints of a to follow", globs, a)
		}
		if a := s.Take(now); a != nil {
			t.Errorf("globs %v: then it is sent %+v", globs, a)
		}
	}
}
