package fleet

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sample has one resource for each stamp.
func sample(stamps ...world.Stamp) *discovery.DeltaDiscoveryResponse {
	r := &discovery.DeltaDiscoveryResponse{
		SystemVersionInfo: "v", TypeUrl: "type", Nonce: "n", RemovedResources: []string{"x", "y"},
	}
	for i, s := range stamps {
		text := fmt.Sprintf("%*s%v and more", i%2*30, "", s) // not always in the same place
		r.Resources = append(r.Resources, &discovery.Resource{Name: world.Name(i), Resource: &anypb.Any{Value: []byte(text)}})
	}
	return r
}

func TestWalkFindsStamps(t *testing.T) {
	b := marshal(t, sample(5, 3, 7, 7, 1, 9))
	w := walker{delta: true, floor: 3}
	if err := w.walk(b); err != nil {
		t.Fatal(err)
	}
	if want := []world.Stamp{5, 7, 7, 9}; !slices.Equal(w.stamps, want) || w.newest != 9 {
		t.Errorf("stamps %v, newest %v; want %v", w.stamps, w.newest, want)
	}
	if w.resources != 6 || w.removed != 2 || w.bytes != len(b) || string(w.nonce) != "n" || string(w.version) != "v" {
		t.Errorf("%+v", w)
	}
}

func TestWalkRefuses(t *testing.T) {
	whole := marshal(t, sample(1))
	for name, b := range map[string][]byte{
		"a length beyond the end": whole[:len(whole)-1],
		"half a tag":              {0x80},
		"a number of eleven":      bytes.Repeat([]byte{0xff}, 11),
		"field 0":                 {0x02, 0x00},
		"the end of no group":     {0x0c},
		"a group without end":     {0x0b, 0x08, 0x01},
		"a length of 2^63":        protowire.AppendVarint([]byte{0x12}, math.MaxUint64),
	} {
		w := walker{delta: true}
		if err := w.walk(b); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}

func TestWalkPassesOverWhatItDoesNotKnow(t *testing.T) {
	b := protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), 1) // canary
	b = protowire.AppendFixed32(protowire.AppendTag(b, 99, protowire.Fixed32Type), 1)
	b = protowire.AppendFixed64(protowire.AppendTag(b, 99, protowire.Fixed64Type), 1)
	b = protowire.AppendGroup(protowire.AppendTag(b, 99, protowire.StartGroupType), 99, []byte{0x08, 0x01})
	// of another kind than the field
	b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), 1)
	b = appendString(b, 5, "n")
	w := walker{}
	if err := w.walk(b); err != nil || string(w.nonce) != "n" || w.resources != 0 {
		t.Errorf("%v, %+v", err, w)
	}
}

// FuzzWalk: no bytes make the walk panic, and of what is a message it says what a decoder says.
func FuzzWalk(f *testing.F) {
	f.Add(marshal(f, sample(1, 2, 3)))
	f.Add(marshal(f, &discovery.DiscoveryResponse{
		VersionInfo: "1", TypeUrl: "t", Nonce: "n", Canary: true, Resources: []*anypb.Any{{TypeUrl: "t", Value: []byte(world.Stamp(8).String())}},
	}))
	f.Add([]byte{0x0b, 0x0b, 0x0c, 0x0c})
	f.Fuzz(func(t *testing.T, b []byte) {
		w := walker{delta: true}
		err := w.walk(b)
		var delta discovery.DeltaDiscoveryResponse
		if proto.Unmarshal(b, &delta) == nil {
			compare(t, &w, err, len(delta.Resources), delta.SystemVersionInfo, delta.Nonce)
			if w.removed != len(delta.RemovedResources) {
				t.Errorf("%d removed, not %d", w.removed, len(delta.RemovedResources))
			}
		}
		w = walker{}
		err = w.walk(b)
		var sotw discovery.DiscoveryResponse
		if proto.Unmarshal(b, &sotw) == nil {
			compare(t, &w, err, len(sotw.Resources), sotw.VersionInfo, sotw.Nonce)
		}
	})
}

func compare(t *testing.T, w *walker, err error, resources int, version, nonce string) {
	t.Helper()
	if err != nil {
		t.Fatalf("a message that can be decoded is refused: %v", err)
	}
	if w.resources != resources || string(w.version) != version || string(w.nonce) != nonce {
		t.Errorf("%d resources, version %q, nonce %q; decoded: %d, %q, %q", w.resources, w.version, w.nonce, resources, version, nonce)
	}
}

func BenchmarkWalk(b *testing.B) {
	o, err := world.New(world.Options{Kind: world.Clusters, Resources: 1000, Bytes: 436})
	if err != nil {
		b.Fatal(err)
	}
	r := &discovery.DiscoveryResponse{VersionInfo: "1", TypeUrl: o.Kind().TypeURL(), Nonce: "1"}
	for i := range o.Len() {
		r.Resources = append(r.Resources, &anypb.Any{TypeUrl: o.Kind().TypeURL(), Value: o.Encode(i, world.Now())})
	}
	var data mem.BufferSlice
	for piece := range slices.Chunk(marshal(b, r), 16<<10) {
		data = append(data, mem.SliceBuffer(piece))
	}
	in := received{fleet: &Fleet{}}
	b.SetBytes(int64(data.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if err := (codec{}).Unmarshal(data, &in); err != nil {
			b.Fatal(err)
		}
	}
}
