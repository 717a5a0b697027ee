package node

import (
	"bytes"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
)

// FuzzNode: whatever a client's node is, it has a group, whose key and node are those of the same
// node read again, and which presents nothing that this build does not know; a dedicated one
// presents all of it but features.
func FuzzNode(f *testing.F) {
	f.Add(mustMarshal(f, richNode()))
	f.Add(mustMarshal(f, envoyNode()))
	strange := richNode()
	for _, m := range []proto.Message{strange, strange.Locality, strange.Metadata.Fields["a"]} {
		m.ProtoReflect().SetUnknown(unknownField("x"))
	}
	f.Add(mustMarshal(f, strange))
	f.Fuzz(func(t *testing.T, b []byte) {
		read := func(b []byte) *corev3.Node {
			n := &corev3.Node{}
			if proto.Unmarshal(b, n) != nil {
				t.Skip()
			}
			return n
		}
		n := read(b)
		again := read(mustMarshal(t, n))
		for _, cfg := range []Rules{
			{},
			{GroupBy: groupTerms},
			{GroupBy: []string{"metadata.a"}},
			{GroupBy: groupTerms, IdentityTo: "a"},
			{GroupBy: groupTerms, Mapped: map[string]string{"x": "metadata.a.x", "z": "metadata.z", "none": "metadata.a.y.none"}},
		} {
			key, up := cfg.Group(n, "uid:1")
			other, same := cfg.Group(again, "uid:1")
			if key != other || !bytes.Equal(canonicalBytes(t, up), canonicalBytes(t, same)) {
				t.Errorf("%v: %s and %s of one node", cfg.GroupBy, key, other)
			}
			for _, field := range cfg.Mapped {
				if fieldOf(up, field) != nil {
					t.Errorf("%s is mapped, and presented: %v", field, up)
				}
			}
			if len(cfg.Mapped) > 0 {
				bare := proto.Clone(up).(*corev3.Node)
				bare.Id = n.GetId() // of the group's own node
				if restored, _ := cfg.Group(bare, "uid:1"); restored != key {
					t.Errorf("%s of what is presented for %s", restored, key)
				}
			}
			bare := &corev3.Node{}
			if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(mustMarshal(t, up), bare); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(canonicalBytes(t, up), canonicalBytes(t, bare)) {
				t.Errorf("%v: presented is what we do not know: %v", cfg.GroupBy, up)
			}
		}
		mine := Rules{}.Dedicated(n, "uid:1")
		mine.ClientFeatures, n.ClientFeatures = nil, nil
		if !bytes.Equal(canonicalBytes(t, mine), canonicalBytes(t, n)) {
			t.Errorf("presented is %v, want %v", mine, n)
		}
	})
}

// canonicalBytes compares messages that may hold NaN, which proto.Equal takes for different.
func canonicalBytes(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustMarshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
