package xds

import (
	"bytes"
	"strings"
	"testing"

	"github.com/weir-xds/weir/relay/relaytest"
	"google.golang.org/grpc/codes"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// field is an encoded field of strings, bytes or messages.
func field(n protowire.Number, parts ...string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), strings.Join(parts, "")))
}

// TestUndecodableIsRefused: what a client's protobuf library would not decode is refused here,
// resource by resource, and does not end every client's stream (RELAY-30, ERR-11). The rest of the
// response is used.
func TestUndecodableIsRefused(t *testing.T) {
	cluster := relaytest.Body(&clusterv3.Cluster{Name: "b"})
	anyOf := func(typeURL string) string { return field(1, typeURL) + field(2, field(1, "b")) }
	good := anyOf(ClusterType)
	deep := structpb.NewStringValue("x")
	for range 40 {
		deep = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"k": deep}})
	}
	deepMetadata := relaytest.Marshal(&corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"k": deep.GetStructValue()}})
	beyond := protowire.AppendVarint(nil, (1<<29)<<3|uint64(protowire.VarintType))
	unknown := string(append(beyond, 1)) // a field of a number that there is not
	resource := func(fields ...string) string { return field(2, fields...) }
	named := field(3, "b") + field(1, "1") + field(2, good)
	response := field(4, ClusterType) + field(5, "n")

	for _, test := range []struct{ name, in, reason string }{
		{"version", resource(named, field(1, "\xff")), "version is not valid UTF-8"},
		{"name", resource(named, field(3, "\xff")), "name is not valid UTF-8"},
		{"alias", resource(named, field(4, "\xff")), "alias is not valid UTF-8"},
		{"type of the payload", resource(field(3, "b"), field(2, field(1, "\xff"), good)), "UTF-8"},
		{"unknown number", resource(named, unknown), "does not decode"},
		{"unknown number in the payload's Any", resource(field(3, "b"), field(2, good, unknown)), "does not decode"},
		{"number 0", resource(named, "\x00\x01"), "does not decode"},
		{"wire type", resource(named, "\x0f\x01"), "does not decode"},
		{"end of a group", resource(named, "\x0c"), "does not decode"},
		{"metadata", resource(named, field(9, "\xff")), "metadata does not decode"},
		{"text in metadata", resource(named, field(9, field(1, field(1, "\xff")))), "metadata does not decode"},
		{"metadata in pieces", resource(named, field(9, field(1, field(1, "k"))), field(9, field(1, field(1, "\xff")))), "metadata does not decode"},
		{"deep metadata", resource(named, field(9, string(deepMetadata))), "metadata does not decode"},
		{"ttl", resource(named, field(6, "\xff")), "does not decode"},
		{"cache_control", resource(named, field(7, "\xff")), "does not decode"},
		{"name in resource_name", resource(field(2, good), field(8, field(1, "\xff"))), "resource_name does not decode"},
		{"resource_name", resource(field(2, good), field(8, field(1, "b"), unknown)), "resource_name does not decode"},
		{"system_version_info", field(1, "\xff"), "system_version_info is not valid UTF-8"},
		{"identifier", field(7, field(1, "\xff")), "control_plane.identifier is not valid UTF-8"},
		{"control_plane", field(7, "\xff"), "control_plane does not decode"},
		{"nonce", field(5, "\xff"), "nonce is not valid UTF-8"},
		{"removed name", field(6, "\xff"), "is not valid UTF-8"},
		{"removed variant", field(8, field(1, "\xff")), "does not decode"},
		{"name in error", field(9, field(1, field(1, "\xff"))), "does not decode"},
		{"error text", field(9, field(1, field(1, "b")), field(2, field(2, "\xff"))), "does not decode"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := resource(field(3, "a"), field(1, "1"), field(2, good)) + response + test.in
			r, err := ParseResponse([]byte(in), true)
			if err != nil {
				t.Fatalf("the whole response is lost: %v", err)
			}
			u, reject := Accept(r, 100)
			if reject == nil || !strings.Contains(reject.Error(), test.reason) {
				t.Errorf("refused with %v, want %q", reject, test.reason)
			}
			if len(u.Resources) != 1 || u.Resources[0].Name != "a" || !u.Bad {
				t.Errorf("of the rest is used %+v", u.Resources)
			}
			relaytest.Marshal(&discoveryv3.DeltaDiscoveryResponse{SystemVersionInfo: r.Version, Nonce: r.Nonce, ControlPlane: &corev3.ControlPlane{Identifier: r.Identifier}})
			relaytest.Marshal(&discoveryv3.DiscoveryResponse{VersionInfo: u.Version})
		})
	}

	bare := field(4, ClusterType) + field(5, "n") + field(2, string(relaytest.Marshal(cluster)))
	wrapper := func(fields ...string) string { return field(2, field(1, ResourceType), field(2, fields...)) }
	for _, test := range []struct{ name, in, reason string }{
		{"version_info", field(1, "\xff"), "version_info is not valid UTF-8"},
		{"identifier", field(6, field(1, "\xff")), "control_plane.identifier is not valid UTF-8"},
		{"nonce", field(5, "\xff"), "nonce is not valid UTF-8"},
		{"type", field(2, field(1, "\xff"), field(1, ClusterType), field(2, field(1, "c"))), "UTF-8"},
		{"number in an Any", field(2, anyOf(ClusterType), unknown), "does not decode"},
		{"wrapper", wrapper(named, field(9, "\xff")), "metadata does not decode"},
		{"name in the body", field(2, field(1, ClusterType), field(2, field(1, "\xff"))), "name is not valid UTF-8"},
		{"no name before the body ends", field(2, field(1, ClusterType), field(2, "\x0a\x05abc")), "does not decode"},
	} {
		t.Run("SotW "+test.name, func(t *testing.T) {
			r, err := ParseResponse([]byte(bare+test.in), false)
			if err != nil {
				t.Fatalf("the whole response is lost: %v", err)
			}
			u, reject := Accept(r, 100)
			if reject == nil || !strings.Contains(reject.Error(), test.reason) {
				t.Errorf("refused with %v, want %q", reject, test.reason)
			}
			if len(u.Resources) != 1 || u.Resources[0].Name != "b" || !u.Bad {
				t.Errorf("of the rest is used %+v", u.Resources)
			}
			relaytest.Marshal(&discoveryv3.DiscoveryResponse{VersionInfo: u.Version, Nonce: r.Nonce, ControlPlane: &corev3.ControlPlane{Identifier: r.Identifier}})
		})
	}
}

// TestFieldsGivenTwice: what is a message is merged from all its occurrences, as protobuf has it.
func TestFieldsGivenTwice(t *testing.T) {
	once := func(n protowire.Number, v string) string { return field(n, v) }
	b := field(3, "a") + once(2, field(1, ClusterType)) + once(2, field(2, field(1, "a"))) +
		once(6, "\x08\x05") + once(6, "\x10\x07") + once(9, field(1, field(1, "k"), field(2))) + once(9, field(1, field(1, "l"), field(2)))
	r, err := ParseResponse([]byte(field(4, ClusterType)+field(5, "n")+field(2, b)), true)
	if err != nil {
		t.Fatal(err)
	}
	u, reject := Accept(r, 100)
	if reject != nil {
		t.Fatal(reject)
	}
	var want, got discoveryv3.Resource
	if err := proto.Unmarshal([]byte(b), &want); err != nil {
		t.Fatal(err)
	}
	v := NewVariant(&Provenance{TypeURL: ClusterType}, &u.Resources[0], "1")
	var out discoveryv3.DeltaDiscoveryResponse
	if err := proto.Unmarshal(v.Delta(), &out); err != nil {
		t.Fatal(err)
	}
	if proto.Merge(&got, out.Resources[0]); !proto.Equal(got.Resource, want.Resource) || !proto.Equal(got.Metadata, want.Metadata) {
		t.Errorf("told as %v, want %v", &got, &want)
	}
	if u.Resources[0].TTL != want.Ttl.AsDuration() {
		t.Errorf("a TTL of %v, want %v", u.Resources[0].TTL, want.Ttl.AsDuration())
	}
}

// TestCacheControlOfAnotherType: a field that has another wire type than its own is one that nobody
// knows, as the protobuf library has it, and takes nothing back (RELAY-9).
func TestCacheControlOfAnotherType(t *testing.T) {
	b := field(3, "a") + field(2, field(1, ClusterType)) + field(7, "\x08\x01", field(1, "x"))
	var want discoveryv3.Resource
	if err := proto.Unmarshal([]byte(b), &want); err != nil {
		t.Fatal(err)
	}
	r, err := ParseResponse([]byte(field(4, ClusterType)+field(5, "n")+field(2, b)), true)
	if err != nil {
		t.Fatal(err)
	}
	u, reject := Accept(r, 100)
	if reject != nil || len(u.Resources) != 1 || u.Resources[0].DoNotCache != want.CacheControl.DoNotCache {
		t.Errorf("accepted %+v (%v), want do_not_cache %v", u.Resources, reject, want.CacheControl.DoNotCache)
	}
}

// TestLongErrorText: of what an origin says of a name as much is kept as there is room for, in
// whole characters (ABS-7).
func TestLongErrorText(t *testing.T) {
	for shift := range 4 {
		text := strings.Repeat("x", shift) + strings.Repeat("😀", MaxErrorText)
		detail := &status.Status{Code: int32(codes.NotFound), Message: text, Details: []*anypb.Any{relaytest.Body(&clusterv3.Cluster{Name: text})}}
		detail.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 9, protowire.BytesType), text))
		u, reject := accept(t, &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType, Nonce: "n", ResourceErrors: []*discoveryv3.ResourceError{
			{ResourceName: &discoveryv3.ResourceName{Name: "a"}, ErrorDetail: detail},
		}})
		if reject != nil || len(u.Errors) != 1 {
			t.Fatalf("refused: %v", reject)
		}
		var out discoveryv3.DeltaDiscoveryResponse
		if err := proto.Unmarshal(u.Errors[0].Append(nil, 9), &out); err != nil {
			t.Fatal(err)
		}
		told := out.ResourceErrors[0].ErrorDetail
		if n := len(told.Message); n > MaxErrorText || n < MaxErrorText-4 || !strings.HasPrefix(text, told.Message) || u.Errors[0].Size() > MaxErrorText+100 {
			t.Errorf("%d bytes are told, %d in all", n, u.Errors[0].Size())
		}
	}
}

// TestOtherSpelling: a response of a type may bring bodies under that type's name of the other
// version, which go on as they are (V2-5). What has another name altogether is refused.
func TestOtherSpelling(t *testing.T) {
	for i := range ServicesV2 {
		v2 := ServicesV2[i].TypeURL
		v3 := OtherSpelling(v2)
		for _, of := range [][2]string{{v2, v3}, {v3, v2}} {
			asked, body := of[0], &anypb.Any{TypeUrl: of[1], Value: []byte(field(1, "a"))}
			wrapped := &discoveryv3.Resource{Name: "a", Version: "1", Resource: body}
			nameless := &discoveryv3.Resource{Resource: body}
			for _, in := range []proto.Message{
				&discoveryv3.DeltaDiscoveryResponse{TypeUrl: asked, Nonce: "n", Resources: []*discoveryv3.Resource{wrapped}},
				&discoveryv3.DiscoveryResponse{TypeUrl: asked, Nonce: "n", Resources: []*anypb.Any{body}},
				&discoveryv3.DiscoveryResponse{TypeUrl: asked, Nonce: "n", Resources: []*anypb.Any{relaytest.Body(wrapped)}},
				&discoveryv3.DiscoveryResponse{TypeUrl: asked, Nonce: "n", Resources: []*anypb.Any{relaytest.Body(nameless)}},
			} {
				u, reject := accept(t, in)
				if reject != nil || len(u.Resources) != 1 || u.Resources[0].Name != "a" {
					t.Errorf("%s under %s: %+v, %v", of[1], asked, u.Resources, reject)
					continue
				}
				if v := NewVariant(&Provenance{TypeURL: asked}, &u.Resources[0], ""); !bytes.Equal(v.Any(), relaytest.Marshal(body)) {
					t.Errorf("%s under %s goes on as %q", of[1], asked, v.Any())
				}
			}
		}
	}
}
