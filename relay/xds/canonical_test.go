package xds

import (
	"bytes"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

func mustMarshal(t testing.TB, m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCanonicalMessage: what the order of map entries in a message does not change (VER-6). Package
// relay has the same for versions (TestCanonicalHash).
func TestCanonicalMessage(t *testing.T) {
	const known = TypePrefix + "google.protobuf.Struct"
	// What does not decode is hashed as it is.
	for _, bad := range [][]byte{{0xff}, {0x0a, 0x05, 'c'}, AppendString(nil, 1, "\xff")} {
		if got := CanonicalMessage(ClusterType, bad); !bytes.Equal(got, bad) {
			t.Errorf("%x became %x", bad, got)
		}
	}
	// Messages in lists are followed too: most of a listener is in the filters of its chains.
	listener := func(first, second string) []byte {
		in := func(key string) []byte {
			return mustMarshal(t, &structpb.Struct{Fields: map[string]*structpb.Value{key: structpb.NewBoolValue(true)}})
		}
		filter := &listenerv3.Filter{ConfigType: &listenerv3.Filter_TypedConfig{
			TypedConfig: &anypb.Any{TypeUrl: known, Value: slices.Concat(in(first), in(second))},
		}}
		return mustMarshal(t, &listenerv3.Listener{FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{filter}}}})
	}
	if a, b := listener("x", "y"), listener("y", "x"); !bytes.Equal(CanonicalMessage(ListenerType, a), CanonicalMessage(ListenerType, b)) {
		t.Error("the order of a map in a filter is content")
	}
	// A map at the top, and a message that is its own canonical form.
	m := &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"a": {}, "b": {}, "c": {}}}
	want, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if got := CanonicalMessage(TypePrefix+"envoy.config.core.v3.Metadata", mustMarshal(t, m)); !bytes.Equal(got, want) {
			t.Fatalf("%x, want %x", got, want)
		}
	}
}
