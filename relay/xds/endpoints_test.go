package xds

import (
	"testing"

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
