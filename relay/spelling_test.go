package relay

import (
	"bytes"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// TestOtherSpelling: a response of a type may bring bodies under that type's name of the other
// version, which go on as they are (V2-5). What has another name altogether is refused.
func TestOtherSpelling(t *testing.T) {
	for i := range xds.ServicesV2 {
		v2 := xds.ServicesV2[i].TypeURL
		v3 := xds.OtherSpelling(v2)
		for _, of := range [][2]string{{v2, v3}, {v3, v2}} {
			asked, body := of[0], &anypb.Any{TypeUrl: of[1], Value: []byte(field(1, "a"))}
			wrapped := &discoveryv3.Resource{Name: "a", Version: "1", Resource: body}
			nameless := &discoveryv3.Resource{Resource: body}
			for _, in := range []proto.Message{
				&discoveryv3.DeltaDiscoveryResponse{TypeUrl: asked, Nonce: "n", Resources: []*discoveryv3.Resource{wrapped}},
				&discoveryv3.DiscoveryResponse{TypeUrl: asked, Nonce: "n", Resources: []*anypb.Any{body}},
				&discoveryv3.DiscoveryResponse{TypeUrl: asked, Nonce: "n", Resources: []*anypb.Any{mustAny(t, wrapped)}},
				&discoveryv3.DiscoveryResponse{TypeUrl: asked, Nonce: "n", Resources: []*anypb.Any{mustAny(t, nameless)}},
			} {
				u, reject := accept(t, in)
				if reject != nil || len(u.Resources) != 1 || u.Resources[0].Name != "a" {
					t.Errorf("%s under %s: %+v, %v", of[1], asked, u.Resources, reject)
					continue
				}
				if v := newVariant(&provenance{typeURL: asked}, &u.Resources[0], ""); !bytes.Equal(v.Any(), mustMarshal(t, body)) {
					t.Errorf("%s under %s goes on as %q", of[1], asked, v.Any())
				}
			}
		}
	}
}

// TestSpellingIsNoContent: equal content under a name that is written in another way is no event,
// and is sent as it came last.
func TestSpellingIsNoContent(t *testing.T) { // VER-3, VER-7, DELTA-17
	table, err := New(Config{Origins: []OriginConfig{{Name: "o"}}})
	if err != nil {
		t.Fatal(err)
	}
	g, _ := table.Origin("o").Group(nil)
	now := time.Unix(1e9, 0)
	sub := g.Open(NewSubscriber(), SubOptions{TypeURL: xds.EndpointType, Delta: true})
	sub.Update(now, []string{"xdstp://o/T/x?b&a"}, nil)
	l := g.lanes[mainLane]
	l.Open(now, 0)
	l.Take(now, false)
	for i, name := range []string{"xdstp://o/T/x?b&a", "xdstp://o/T/x?a&b"} {
		r := madeResource(xds.EndpointType, "in the body", "", "1")
		b := xds.AppendString(xds.AppendString(nil, resourceName, name), resourcePayload, string(r.Any))
		u, reject := Accept(&Response{TypeURL: xds.EndpointType, delta: true, Nonce: "n", resources: [][]byte{b}}, 0)
		if reject != nil {
			t.Fatal(reject)
		}
		applied, _ := l.Apply(now, &u)
		if want := i == 0; (applied.Changed == 1) != want || (sub.Take(zero) != nil) != want {
			t.Errorf("response %d: %+v", i, applied)
		}
	}
	sub.Update(now, []string{"xdstp://o/T/x?b&a"}, nil)
	var m discoveryv3.DeltaDiscoveryResponse
	if err := proto.Unmarshal(sub.Take(zero).Variants[0].Delta(), &m); err != nil || m.Resources[0].Name != "xdstp://o/T/x?a&b" {
		t.Errorf("sent as %v, %v", &m, err)
	}
	// A body without the members that delta cannot tell of keeps the spellings of removals.
	b := &Body{nameless: true}
	b.remove("key", "spelt")
	if b.named().spelt["key"] != "spelt" {
		t.Error("the spelling is lost")
	}
}

// TestNameBytesAreThoseSent: a canonical form that is longer than limits.name_bytes is no reason to
// refuse the name.
func TestNameBytesAreThoseSent(t *testing.T) {
	name := "xdstp://o/T/" + strings.Repeat("é", 40)
	u, reject := accept(t, &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: xds.EndpointType, Nonce: "n",
		Resources:      []*discoveryv3.Resource{{Name: name, Version: "1"}},
		ResourceErrors: []*discoveryv3.ResourceError{{ResourceName: &discoveryv3.ResourceName{Name: name + "x"}}},
	})
	if reject != nil || len(u.Resources) != 1 || len(u.Errors) != 1 || len(u.Resources[0].Name) <= 100 {
		t.Errorf("%+v, refused: %v", u, reject)
	}
}
