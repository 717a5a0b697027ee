package relay

import (
	"bytes"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// TestOtherSpelling: a response of a type may bring bodies under that type's name of the other
// version, which go on as they are (V2-5). What has another name altogether is refused.
func TestOtherSpelling(t *testing.T) {
	pairs := 0
	for v2 := range order {
		if !strings.Contains(v2, ".v2.") {
			continue
		}
		pairs++
		v3 := OtherSpelling(v2)
		if v3 == "" || strings.Contains(v3, ".v2.") || OtherSpelling(v3) != v2 || order[v3] != order[v2] ||
			v3[strings.LastIndexByte(v3, '.'):] != v2[strings.LastIndexByte(v2, '.'):] {
			t.Errorf("%s is %s", v2, v3)
		}
		if SentWhole(v2) != SentWhole(v3) || FullState(v2) != FullState(v3) || AlwaysWhole(v2) != AlwaysWhole(v3) ||
			IsSecret(v2) != IsSecret(v3) || DeltaOnly(v2) != DeltaOnly(v3) {
			t.Errorf("%s is handled otherwise than %s", v2, v3)
		}
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
				if v := newVariant(&receipt{typeURL: asked}, &u.Resources[0], ""); !bytes.Equal(v.Any(), mustMarshal(t, body)) {
					t.Errorf("%s under %s goes on as %q", of[1], asked, v.Any())
				}
			}
		}
	}
	if pairs != 8 {
		t.Errorf("%d types have a v2 name", pairs)
	}
	if OtherSpelling(LbEndpointType) != "" || OtherSpelling("made up") != "" {
		t.Error("what has one name has no other")
	}
}
