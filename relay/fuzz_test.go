package relay

import (
	"maps"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// environments are the parameter maps that a fuzzed response is judged for.
var environments = []constraints.Params{
	{}, constraints.NewParams(map[string]string{"env": "prod"}), constraints.NewParams(map[string]string{"env": "test"}),
}

func relaytestNode() *corev3.Node {
	inner, _ := structpb.NewStruct(map[string]any{"k": map[string]any{"in": "v"}, "l": "m"})
	return &corev3.Node{
		Id: "i", Cluster: "c", Metadata: inner, Locality: &corev3.Locality{Region: "r"}, UserAgentName: "envoy",
		UserAgentVersionType: &corev3.Node_UserAgentVersion{UserAgentVersion: "1"},
		ClientFeatures:       []string{"envoy.lb.does_not_support_overprovisioning"},
	}
}

// FuzzResponse: no bytes of an origin panic, and what is accepted comes out of both wire forms as
// it went in. The generated decoder judges: what it refuses we may read, what it reads we must not
// misread.
func FuzzResponse(f *testing.F) {
	a := relaytest.Body(&clusterv3.Cluster{Name: "a"})
	f.Add(relaytest.Marshal(&discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: xds.ClusterType, Nonce: "n", RemovedResources: []string{"b"},
		Resources: []*discoveryv3.Resource{{Name: "a", Version: "1", Resource: a, Aliases: []string{"x"}}},
	}), true)
	f.Add(relaytest.Marshal(&discoveryv3.DiscoveryResponse{TypeUrl: xds.ClusterType, VersionInfo: "1", Resources: []*anypb.Any{a}}), false)
	prodOnly, testOnly := relaytest.Is("env", "prod"), relaytest.Is("env", "test")
	variant := func(content string, c *relaytest.Constraints) *discoveryv3.Resource {
		return &discoveryv3.Resource{
			Version: content, Resource: relaytest.Body(&clusterv3.Cluster{Name: "a", AltStatName: content}), ResourceName: relaytest.VariantName("a", c),
		}
	}
	prod, test := variant("1", prodOnly), variant("2", testOnly)
	f.Add(relaytest.Marshal(&discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: xds.ClusterType, Nonce: "n", Resources: []*discoveryv3.Resource{prod, test}, RemovedResources: []string{"a"},
		RemovedResourceNames: []*discoveryv3.ResourceName{relaytest.VariantName("a", relaytest.Or(prodOnly, relaytest.Not(testOnly)))},
		ResourceErrors:       []*discoveryv3.ResourceError{{ResourceName: relaytest.VariantName("c", prodOnly)}},
	}), true)
	f.Add(relaytest.Marshal(&discoveryv3.DiscoveryResponse{
		TypeUrl: xds.ClusterType, VersionInfo: "1", Resources: []*anypb.Any{relaytest.Body(prod), a, relaytest.Body(test)},
	}), false)
	f.Fuzz(func(t *testing.T, b []byte, delta bool) {
		r, err := xds.ParseResponse(b, delta)
		if err != nil {
			return
		}
		u, _ := xds.Accept(r, 64<<10)
		table, err := New(Config{Origins: []OriginConfig{{Name: "o", SotW: !delta}}})
		if err != nil {
			t.Fatal(err)
		}
		checkAgainstGenerated(t, b, delta, r)
		checkIdentities(t, &u)
		g, err := table.Origin("o").Group(nil)
		if err != nil {
			t.Fatal(err)
		}
		sub := g.Open(NewSubscriber(), SubOptions{TypeURL: r.TypeURL, Delta: delta})
		sub.Update(zero, []string{xds.Wildcard, "a"}, nil)
		for _, p := range environments[1:] {
			at := g.Open(NewSubscriber(), SubOptions{TypeURL: r.TypeURL, Delta: delta, Params: p})
			at.Update(zero, []string{"a", "b"}, nil)
		}
		for _, l := range g.lanes {
			l.Open(zero, 0)
			l.Take(zero, !delta)
			l.Apply(zero, &u)
		}
		table.Advance(zero.Add(firmMost))
		answer := sub.Take(zero)
		if err := table.Check(); err != nil {
			t.Fatal(err)
		}
		if answer == nil {
			return
		}
		for _, v := range answer.Variants {
			var d discoveryv3.DeltaDiscoveryResponse
			if err := (proto.UnmarshalOptions{}).Unmarshal(v.Delta(), &d); err == nil && len(d.Resources) != 1 {
				t.Fatalf("%d resources in one field", len(d.Resources))
			}
		}
	})
}

func checkAgainstGenerated(t *testing.T, b []byte, delta bool, r *xds.Response) {
	var typeURL, nonce string
	var n, removed int
	if delta {
		var m discoveryv3.DeltaDiscoveryResponse
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		typeURL, nonce, n = m.TypeUrl, m.Nonce, len(m.Resources)
		removed = len(m.RemovedResourceNames)
	} else {
		var m discoveryv3.DiscoveryResponse
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		typeURL, nonce, n = m.TypeUrl, m.Nonce, len(m.Resources)
	}
	if r.TypeURL != typeURL || r.Nonce != nonce || r.Len() != n || len(r.RemovedNames) != removed {
		t.Fatalf("read %q %q %d, the generated decoder %q %q %d", r.TypeURL, r.Nonce, r.Len(), typeURL, nonce, n)
	}
}

// checkIdentities: what is accepted speaks of each variant in one way (DYN-15, DEL-6, ABS-11), and
// its constraints mean what the generated decoder reads.
func checkIdentities(t *testing.T, u *xds.Update) {
	t.Helper()
	said := map[xds.Identity]string{}
	say := func(id xds.Identity, what string) {
		if before := said[id]; before != "" && (before != what || what == "sent") {
			t.Fatalf("%q is %s and %s", id, before, what)
		}
		said[id] = what
	}
	params := environments
	for i := range u.Resources {
		r := &u.Resources[i]
		say(xds.Identity{Name: r.Name, Constraints: r.Constraints.Key()}, "sent")
		var n discoveryv3.ResourceName
		if err := proto.Unmarshal(r.RawConstraints, &n); err != nil {
			t.Fatalf("accepted constraints that do not decode: %v", err)
		}
		for _, p := range params {
			if r.Constraints.Match(p) != relaytest.Matches(n.GetDynamicParameterConstraints(), maps.Collect(p.All())) {
				t.Fatalf("%q read as %q matches %q otherwise", &n, r.Constraints.Key(), p.Key())
			}
		}
	}
	for _, name := range u.Removed {
		say(xds.Identity{Name: name}, "removed")
	}
	for _, x := range u.RemovedVariants {
		if x.Set.Key() != x.Constraints {
			t.Fatalf("%q is not the key of %q", x.Constraints, x.Set.Key())
		}
		say(xds.Identity{Name: x.Name, Constraints: x.Constraints}, "removed")
	}
	for _, e := range u.Errors {
		if id := (xds.Identity{Name: e.Name, Constraints: e.Constraints.Key()}); said[id] == "sent" {
			t.Fatalf("%q is sent and in error", id)
		}
	}
}
