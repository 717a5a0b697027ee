package relay

import (
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/proto"
)

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
		b := xds.AppendString(xds.AppendString(nil, xds.FieldName, name), xds.FieldPayload, string(r.Any))
		u, reject := xds.Accept(&xds.Response{TypeURL: xds.EndpointType, Delta: true, Nonce: "n", Resources: [][]byte{b}}, 0)
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
