package relay

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// equals is a constraint.
func equals(key, value string) *discoveryv3.DynamicParameterConstraints {
	return single(&discoveryv3.DynamicParameterConstraints_SingleConstraint{
		Key: key, ConstraintType: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Value{Value: value},
	})
}

func either(all ...*discoveryv3.DynamicParameterConstraints) *discoveryv3.DynamicParameterConstraints {
	return &discoveryv3.DynamicParameterConstraints{Type: &discoveryv3.DynamicParameterConstraints_OrConstraints{
		OrConstraints: &discoveryv3.DynamicParameterConstraints_ConstraintList{Constraints: all},
	}}
}

// TestLocatedForms compares what is written by hand with the generated messages: constraints as the
// origin wrote them (DYN-6, DYN-7), no name beside resource_name (DYN-16), in SotW wrapped (DYN-4),
// with a TTL and without one, and heartbeats.
func TestLocatedForms(t *testing.T) {
	// in nobody's canonical form
	written := either(equals("z", "1"), either(equals("a", "2")), equals("a", "2"))
	sent := &discoveryv3.Resource{
		Version: "7", Aliases: []string{"other"}, CacheControl: &discoveryv3.Resource_CacheControl{DoNotCache: true},
		ResourceName: &discoveryv3.ResourceName{Name: "a", DynamicParameterConstraints: written},
		Resource:     &anypb.Any{TypeUrl: xds.ClusterType, Value: xds.AppendString(nil, 1, "a")},
	}
	b, err := proto.Marshal(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: xds.ClusterType, Nonce: "n", Resources: []*discoveryv3.Resource{sent}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := ParseResponse(b, true)
	if err != nil {
		t.Fatal(err)
	}
	u, bad := Accept(r, 0)
	if bad != nil {
		t.Fatal(bad)
	}
	u.Resources[0].metadata = []byte{0x0a, 0x00}
	v, now := newVariant(&provenance{typeURL: xds.ClusterType}, &u.Resources[0], "7"), time.Unix(1e9, 0)
	timed := v.lasting(now.Add(90 * time.Second))
	for _, c := range []struct {
		name string
		l    Located
		ttl  bool
		want time.Duration
		beat bool
	}{
		{"a body", Located{Variants: []*Variant{v}}, false, 0, false},
		{"a body with a TTL", Located{Variants: []*Variant{timed}}, true, 90 * time.Second, false},
		{"of which the client is not told", Located{Variants: []*Variant{timed}}, false, 0, false},
		{"a heartbeat", Located{Heartbeats: []*Variant{timed}}, true, 90 * time.Second, true},
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
	gone := Gone{Name: "a", written: v.written()}
	n := &discoveryv3.DeltaDiscoveryResponse{}
	if b = gone.Append(nil, 8); proto.Unmarshal(b, n) != nil || len(n.RemovedResourceNames) != 1 || len(b) > gone.Size() ||
		!proto.Equal(n.RemovedResourceNames[0], sent.ResourceName) {
		t.Errorf("a removal: %v", n)
	}
}

// TestLocatedFormIsOfItsVersion: where clients are told the origin's versions, a body that comes
// again under another one is told under that, though its located form was made before (VER-5).
func TestLocatedFormIsOfItsVersion(t *testing.T) {
	shown := func(version string) *provenance {
		return &provenance{typeURL: xds.EndpointType, shown: true, version: version}
	}
	r := &Resource{Name: "a", Version: "1", Any: []byte{0x0a, 0x00}, Constraints: compile(t, "env=prod")}
	v := newVariant(shown("1"), r, "1")
	for _, delta := range []bool{true, false} {
		if got := unwrapped(t, slices.Concat(v.located(delta, 0, false)...), delta); got.Version != "1" {
			t.Fatalf("delta %v: version %q", delta, got.Version)
		}
		again := v.withOriginVersion(shown("2"), "2")
		if got := unwrapped(t, slices.Concat(again.located(delta, 0, false)...), delta); got.Version != "2" {
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

// TestLocatedImage: the constraints survive a restart as they were written.
func TestLocatedImage(t *testing.T) {
	name := xds.AppendResourceName(nil, 8, "a", string(protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), marshal(t, either(equals("b", "1"), equals("a", "1"))))))
	var r Resource
	if err := parseResource(append(name, 0x12, 0x00), &r); err != nil {
		t.Fatal(err)
	}
	acc := acceptance{}
	if why := acc.checkConstraints(&r); why != "" {
		t.Fatal(why)
	}
	v := newVariant(&provenance{typeURL: xds.ClusterType}, &r, "")
	var back Resource
	if err := parseResource(v.resource(), &back); err != nil || !bytes.Equal(back.rawConstraints, r.rawConstraints) {
		t.Errorf("written %x, want %x: %v", back.rawConstraints, r.rawConstraints, err)
	}
}

func marshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestExact: what is said of one parameter map matches that one, and none of the client's others
// (DYN-13).
func TestExact(t *testing.T) {
	words := func(p constraints.Params) string { return fmt.Sprint(maps.Collect(p.All())) }
	all := []constraints.Params{
		{},
		constraints.NewParams(map[string]string{"env": "prod"}), constraints.NewParams(map[string]string{"env": "test"}),
		constraints.NewParams(map[string]string{"env": "prod", "v": "1"}), constraints.NewParams(map[string]string{"v": ""}),
	}
	for _, p := range all {
		checkExact(t, p, all, words)
	}
	if key, written := Exact(constraints.Params{}, nil); key != "" || written != "" {
		t.Errorf("of the empty map alone: %q %q", key, written)
	}
	var many []constraints.Params
	for i := range 5000 {
		many = append(many, constraints.NewParams(map[string]string{fmt.Sprint(i): "x"}))
	}
	if key, _ := Exact(many[0], many[1:]); key == "" {
		t.Error("too many keys make none that compile")
	}
}

// FuzzExact is TestExact for any maps of few parameters.
func FuzzExact(f *testing.F) {
	f.Add("env=prod", "env=prod;v=1")
	f.Add("", "env=")
	f.Add("a=1;b=2", "b=2")
	f.Fuzz(func(t *testing.T, a, b string) {
		read := func(s string) constraints.Params {
			m := map[string]string{}
			for w := range strings.SplitSeq(strings.ToValidUTF8(s, "?"), ";") {
				if key, value, ok := strings.Cut(w, "="); ok {
					m[key] = value
				}
			}
			return constraints.NewParams(m)
		}
		all := []constraints.Params{read(a), read(b)}
		if all[0].Len()+all[1].Len() > mostKeys {
			return
		}
		checkExact(t, all[0], all, constraints.Params.Key)
	})
}

func checkExact(t *testing.T, p constraints.Params, all []constraints.Params, words func(constraints.Params) string) {
	t.Helper()
	key, written := Exact(p, slices.DeleteFunc(slices.Clone(all), func(x constraints.Params) bool { return x.Key() == p.Key() }))
	n := &discoveryv3.ResourceName{}
	if err := proto.Unmarshal([]byte(written), n); err != nil {
		t.Fatal(err)
	}
	set, err := constraints.Compile(n.DynamicParameterConstraints)
	if err != nil || set.Key() != key {
		t.Fatalf("%s: %q is written as %q: %v", words(p), key, set.Key(), err)
	}
	for _, x := range all {
		if got := set.Match(x); got != (x.Key() == p.Key()) {
			t.Errorf("what is said of %s matches %s: %v", words(p), words(x), got)
		}
	}
}
