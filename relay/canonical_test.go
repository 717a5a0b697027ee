package relay

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"

	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// inAnyOrder are two encodings of one Cluster: a map in it, and maps in messages within, are
// written in two orders. within is the type URL of the innermost message, a Struct if it is to be
// known.
func inAnyOrder(t *testing.T, within string, depth int) (a, b []byte) {
	t.Helper()
	entry := func(field protowire.Number, key string, value []byte) []byte {
		e := protowire.AppendBytes(protowire.AppendTag(xds.AppendString(nil, 1, key), 2, protowire.BytesType), value)
		return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), e)
	}
	value := relaytest.Marshal(structpb.NewStringValue("v"))
	one, two := entry(1, "one", value), entry(1, "two", value)
	a, b = slices.Concat(one, two), slices.Concat(two, one)
	typeURL := within
	for range depth {
		a = relaytest.Marshal(&anypb.Any{TypeUrl: typeURL, Value: a})
		b = relaytest.Marshal(&anypb.Any{TypeUrl: typeURL, Value: b})
		// core.Metadata.typed_filter_metadata is a map of Anys.
		a, b = entry(2, "inner", a), entry(2, "inner", b)
		typeURL = xds.TypePrefix + "envoy.config.core.v3.Metadata"
	}
	const metadata = 25 // of Cluster
	name := xds.AppendString(nil, 1, "c")
	field := func(m []byte) []byte {
		return append(bytes.Clone(name), protowire.AppendBytes(protowire.AppendTag(nil, metadata, protowire.BytesType), m)...)
	}
	return field(a), field(b)
}

func clusterOf(payload []byte) *xds.Resource {
	r := &xds.Resource{Name: "c", Any: xds.AppendString(xds.AppendString(nil, 1, xds.ClusterType), 2, string(payload))}
	r.PayloadType, r.Payload, _ = xds.AnyParts(r.Any)
	return r
}

func TestCanonicalHash(t *testing.T) { // VER-6
	const known = xds.TypePrefix + "google.protobuf.Struct"
	for _, test := range []struct {
		name      string
		within    string
		depth     int
		canonical bool
		equal     bool
	}{
		{"bytes: the order of a map is content", known, 1, false, false},
		{"the order of a map in a message within is none", known, 1, true, true},
		{"likewise deeper", known, 5, true, true},
		{"as deep as it goes", known, 16, true, true},
		{"and deeper it counts as received", known, 17, true, false},
		{"what nobody knows counts as received", xds.TypePrefix + "example.Unknown", 1, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, b := inAnyOrder(t, test.within, test.depth)
			from := &xds.Provenance{TypeURL: xds.ClusterType, Canonical: test.canonical}
			va, vb := xds.NewVariant(from, clusterOf(a), ""), xds.NewVariant(from, clusterOf(b), "")
			if equal := va.Digest == vb.Digest; equal != test.equal {
				t.Errorf("the versions are equal: %v", equal)
			}
			if _, value, _ := xds.AnyParts(vb.Any()); !bytes.Equal(value, b) {
				t.Error("what is sent is not what was received (RELAY-10)")
			}
		})
	}
	// Another content is another version.
	from := &xds.Provenance{TypeURL: xds.ClusterType, Canonical: true}
	a, _ := inAnyOrder(t, known, 1)
	if xds.NewVariant(from, clusterOf(a), "").Digest == xds.NewVariant(from, clusterOf(append(a, 0xf8, 0xff, 0x7f, 1)), "").Digest {
		t.Error("a field that nobody knows is not in the hash")
	}
}

// TestCanonicalHashInTheTable: other bytes of one content are no event, and those received last are
// sent from then on.
func TestCanonicalHashInTheTable(t *testing.T) { // VER-6, VER-7
	for _, canonical := range []bool{false, true} {
		table, err := New(Config{Origins: []OriginConfig{{Name: "o", SotW: true, CanonicalHash: canonical}}})
		if err != nil {
			t.Fatal(err)
		}
		g, _ := table.Origin("o").Group(nil)
		now := time.Unix(1e9, 0)
		sub := g.Open(NewSubscriber(), SubOptions{TypeURL: xds.ClusterType})
		sub.Replace(now, nil, true)
		l := g.lanes[mainLane]
		l.Open(now, 0)
		l.Take(now, true)
		a, b := inAnyOrder(t, xds.TypePrefix+"google.protobuf.Struct", 2)
		for i, payload := range [][]byte{a, b} {
			u, reject := xds.Accept(&xds.Response{TypeURL: xds.ClusterType, Resources: [][]byte{clusterOf(payload).Any}}, 0)
			if reject != nil {
				t.Fatal(reject)
			}
			applied, _ := l.Apply(now, &u)
			if want := i == 0 || !canonical; (applied.Changed == 1) != want || (sub.Take(zero) != nil) != want {
				t.Errorf("canonical %v, response %d: %+v", canonical, i, applied)
			}
		}
		late := g.Open(NewSubscriber(), SubOptions{TypeURL: xds.ClusterType})
		late.Replace(now, nil, true)
		if _, value, _ := xds.AnyParts(late.Take(zero).Variants[0].Any()); !bytes.Equal(value, b) {
			t.Error("what is sent is not what was received last")
		}
	}
}
