package sensitive

import (
	"bytes"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-xds/weir/relay/relaytest"
)

// hostile are bodies that no walk may follow to their end. An older build may have written them to
// disk.
func hostile() map[string]*anypb.Any {
	permission := relaytest.Body(&rbacv3.Permission{})
	permission.Value = relaytest.Nested(8, 5_000_000) // not_rule
	list := relaytest.Body(&structpb.ListValue{})
	list.Value = bytes.Repeat([]byte{0x0a, 0x00}, 2_000_000)
	return map[string]*anypb.Any{
		"deep":           relaytest.Body(&clusterv3.Cluster{TypedExtensionProtocolOptions: map[string]*anypb.Any{"a": permission}}),
		"Any in Any":     relaytest.Body(&clusterv3.Cluster{TypedExtensionProtocolOptions: map[string]*anypb.Any{"a": relaytest.AnyInAny(2_000)}}),
		"wide":           list,
		"deep by itself": permission,
	}
}

// Nothing here recurses without a bound, or decodes what needs a multiple of its size.
func TestHostileBodies(t *testing.T) {
	for name, body := range hostile() {
		t.Run(name, func(t *testing.T) {
			encoded, err := proto.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			if !Holds(encoded) && name != "wide" {
				t.Error("what was not looked through holds nothing")
			}
			Blank(body)
			var shown wrapperspb.StringValue
			if err := body.UnmarshalTo(&shown); err != nil || !strings.HasPrefix(shown.Value, "[not shown: ") {
				t.Errorf("%d bytes of %s are shown", len(body.Value), body.TypeUrl)
			}
		})
	}
}

func FuzzHolds(f *testing.F) {
	for _, seed := range []*anypb.Any{relaytest.AnyInAny(120), relaytest.Body(&clusterv3.Cluster{Name: "a"})} {
		b, _ := proto.Marshal(seed)
		f.Add(b)
	}
	permission := relaytest.Body(&rbacv3.Permission{})
	permission.Value = relaytest.Nested(8, 150)
	b, _ := proto.Marshal(permission)
	f.Add(b)
	f.Fuzz(func(_ *testing.T, b []byte) {
		Holds(b)
		var body anypb.Any
		if proto.Unmarshal(b, &body) == nil {
			Blank(&body)
		}
	})
}
