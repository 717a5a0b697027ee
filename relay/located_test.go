package relay

import (
	"bytes"
	"slices"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/weir-xds/weir/relay/relaytest"

	"github.com/weir-xds/weir/relay/xds"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// TestLocatedForms compares what is written by hand with the generated messages: constraints as the
// origin wrote them (DYN-6, DYN-7), no name beside resource_name (DYN-16), in SotW wrapped (DYN-4),
// with a TTL and without one, and heartbeats.
func TestLocatedForms(t *testing.T) {
	// in nobody's canonical form
	written := relaytest.Or(relaytest.Is("z", "1"), relaytest.Or(relaytest.Is("a", "2")), relaytest.Is("a", "2"))
	sent := &discoveryv3.Resource{
		Version: "7", Aliases: []string{"other"}, CacheControl: &discoveryv3.Resource_CacheControl{DoNotCache: true},
		ResourceName: &discoveryv3.ResourceName{Name: "a", DynamicParameterConstraints: written},
		Resource:     &anypb.Any{TypeUrl: xds.ClusterType, Value: xds.AppendString(nil, 1, "a")},
	}
	b, err := proto.Marshal(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: xds.ClusterType, Nonce: "n", Resources: []*discoveryv3.Resource{sent}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := xds.ParseResponse(b, true)
	if err != nil {
		t.Fatal(err)
	}
	u, bad := xds.Accept(r, 0)
	if bad != nil {
		t.Fatal(bad)
	}
	u.Resources[0].Metadata = []byte{0x0a, 0x00}
	v, now := xds.NewVariant(&xds.Provenance{TypeURL: xds.ClusterType}, &u.Resources[0], "7"), time.Unix(1e9, 0)
	timed := v.Lasting(now.Add(90 * time.Second))
	for _, c := range []struct {
		name string
		l    Located
		ttl  bool
		want time.Duration
		beat bool
	}{
		{"a body", Located{Variants: []*xds.Variant{v}}, false, 0, false},
		{"a body with a TTL", Located{Variants: []*xds.Variant{timed}}, true, 90 * time.Second, false},
		{"of which the client is not told", Located{Variants: []*xds.Variant{timed}}, false, 0, false},
		{"a heartbeat", Located{Heartbeats: []*xds.Variant{timed}}, true, 90 * time.Second, true},
	} {
		for _, delta := range []bool{true, false} {
			a := &Answer{Body: noBody, Located: &c.l, sub: &Sub{ttl: c.ttl}}
			units := a.Units(delta, now, nil)
			if len(units) != 1 {
				t.Fatalf("%s: %d units", c.name, len(units))
			}
			b := slices.Concat(units[0].Pieces...)
			if len(b) > units[0].Size {
				t.Errorf("%s, delta %v: %d bytes, counted %d", c.name, delta, len(b), units[0].Size)
			}
			got := unwrapped(t, b, delta)
			if got.Name != "" || got.ResourceName.GetName() != "a" || got.Version != v.Version() || got.Ttl.AsDuration() != c.want ||
				(got.Resource == nil) != c.beat || (len(got.Aliases) != 1 || !got.CacheControl.GetDoNotCache() || got.Metadata == nil) != c.beat {
				t.Errorf("%s, delta %v: %v", c.name, delta, got)
			}
			if !proto.Equal(got.ResourceName.DynamicParameterConstraints, written) {
				t.Errorf("%s, delta %v: constraints %v", c.name, delta, got.ResourceName)
			}
			if !c.beat && !bytes.Equal(got.Resource.Value, sent.Resource.Value) {
				t.Errorf("%s, delta %v: another body", c.name, delta)
			}
		}
	}
	gone := Gone{Name: "a", written: v.Written()}
	n := &discoveryv3.DeltaDiscoveryResponse{}
	if b = gone.Append(nil, 8); proto.Unmarshal(b, n) != nil || len(n.RemovedResourceNames) != 1 || len(b) > gone.Size() ||
		!proto.Equal(n.RemovedResourceNames[0], sent.ResourceName) {
		t.Errorf("a removal: %v", n)
	}
}

// TestLocatedFormIsOfItsVersion: where clients are told the origin's versions, a body that comes
// again under another one is told under that, though its located form was made before (VER-5).
func TestLocatedFormIsOfItsVersion(t *testing.T) {
	shown := func(version string) *xds.Provenance {
		return &xds.Provenance{TypeURL: xds.EndpointType, Shown: true, Version: version}
	}
	r := &xds.Resource{Name: "a", Version: "1", Any: []byte{0x0a, 0x00}, Constraints: compile(t, "env=prod")}
	v := xds.NewVariant(shown("1"), r, "1")
	for _, delta := range []bool{true, false} {
		if got := unwrapped(t, slices.Concat(v.Located(delta, 0, false)...), delta); got.Version != "1" {
			t.Fatalf("delta %v: version %q", delta, got.Version)
		}
		again := v.WithOriginVersion(shown("2"), "2")
		if got := unwrapped(t, slices.Concat(again.Located(delta, 0, false)...), delta); got.Version != "2" {
			t.Errorf("delta %v: version %q of what came again as 2", delta, got.Version)
		}
	}
}

// unwrapped decodes the one resource of a response.
func unwrapped(t *testing.T, b []byte, delta bool) *discoveryv3.Resource {
	t.Helper()
	if delta {
		d := &discoveryv3.DeltaDiscoveryResponse{}
		if err := proto.Unmarshal(b, d); err != nil || len(d.Resources) != 1 {
			t.Fatalf("%d resources, %v", len(d.Resources), err)
		}
		return d.Resources[0]
	}
	s, r := &discoveryv3.DiscoveryResponse{}, &discoveryv3.Resource{}
	if err := proto.Unmarshal(b, s); err != nil || len(s.Resources) != 1 {
		t.Fatalf("%d resources, %v", len(s.Resources), err)
	}
	if err := s.Resources[0].UnmarshalTo(r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestNamelessIsLeftOutOfDelta: delta cannot express a resource without a name, SotW can (RELAY-18).
func TestNamelessIsLeftOutOfDelta(t *testing.T) {
	u, _ := accept(t, &discoveryv3.DiscoveryResponse{TypeUrl: xds.ClusterType, Resources: []*anypb.Any{relaytest.Body(&clusterv3.Cluster{AltStatName: "a"})}})
	v := xds.NewVariant(&xds.Provenance{TypeURL: xds.ClusterType}, &u.Resources[0], "")
	body := &Body{Variants: []*xds.Variant{v}, nameless: true}
	delta, _ := body.encoded(true, false, nil)
	if sotw, _ := body.encoded(false, false, nil); !v.Nameless || len(delta) != 0 || len(sotw) != 1 {
		t.Errorf("%d in delta, %d in SotW, nameless %v", len(delta), len(sotw), v.Nameless)
	}
}
