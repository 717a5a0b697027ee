package xds

import (
	"slices"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"
)

func TestEndpointsOf(t *testing.T) { // WARM-1, NAME-8
	eds := &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
	service := &clusterv3.Cluster_EdsClusterConfig{ServiceName: "svc"}
	for want, c := range map[string]*clusterv3.Cluster{
		"c":   {Name: "c", ClusterDiscoveryType: eds},
		"svc": {Name: "c", ClusterDiscoveryType: eds, EdsClusterConfig: service},
		"xdstp://o/T/x?a=1&b=2": {Name: "c", ClusterDiscoveryType: eds, EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{
			// canonical, as the names it is compared with (NAME-4)
			ServiceName: "xdstp://o/T/x?b=2&a=1",
		}},
		"": {Name: "c", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}, EdsClusterConfig: service},
	} {
		b, err := proto.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if got := EndpointsOf(b); got != want {
			t.Errorf("%v: endpoints %q, want %q", c, got, want)
		}
	}
	b, err := proto.Marshal(&clusterv3.Cluster{Name: "xdstp://a/envoy.config.cluster.v3.Cluster/c", ClusterDiscoveryType: eds})
	if got := EndpointsOf(b); err != nil || got != "" {
		t.Errorf("an xdstp name was taken for one of endpoints: %q", got)
	}
	if got := EndpointsOf([]byte{0x0a, 0x05, 'c'}); got != Wildcard {
		t.Errorf("a body that does not decode: %q, want any", got)
	}
}

// TestClusterThatANameCovered: a client of `*` that named a cluster besides has it with the body that
// came by name. When it drops the name the list has the one that came with `*`. To the client the
// cluster changes, so its endpoints follow (WARM-1).
func TestClusterThatANameCovered(t *testing.T) {
	cluster := func(kind clusterv3.Cluster_DiscoveryType) *Update {
		body, err := proto.Marshal(&clusterv3.Cluster{Name: "a", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: kind}})
		if err != nil {
			t.Fatal(err)
		}
		r := madeResource(xds.ClusterType, "a", "", "")
		r.Any = appendString(appendString(nil, 1, xds.ClusterType), 2, string(body))
		r.payloadType, r.payload, _ = anyParts(r.Any)
		return &Update{TypeURL: xds.ClusterType, Resources: []Resource{r}}
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
