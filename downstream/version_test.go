package downstream

import (
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// TestOriginVersionForPeople: a delta response names the origin's version of the newest response
// that had to do with it, for people (VER-10). In state of the world version_info is of the content
// (VER-4).
func TestOriginVersionForPeople(t *testing.T) {
	r := newRig(t)
	d, s := r.client(true), r.client(false)
	says := func(version, body string) {
		r.version = version
		r.says(eds, "a="+body)
	}
	d.subscribes(eds, "a")
	s.asks(eds, "a")
	for i, version := range []string{"of the origin", "", "of the origin", strings.Repeat("long", 100)} {
		says(version, string(rune('1'+i)))
		want := version
		if len(version) > 256 {
			want = ""
		}
		for _, p := range []*clientEnd{d, s} {
			got := p.writes()
			if len(got) != 1 {
				t.Fatalf("%d responses", len(got))
			}
			if p == d && got[0].version != want || p == s && (got[0].version == version || got[0].version == "") {
				t.Errorf("%q of the origin is told as %q, in delta %v", version, got[0].version, p == d)
			}
		}
		d.acks(eds)
		s.asks(eds, "a")
		if x := d.of(eds); x.SentVersion != "" || x.AckedVersion != "" {
			t.Errorf("delta has no version: %+v", x)
		}
	}
	says("another", "4") // the same content
	d.gets("a version alone is no news")
}

// TestLongIdentifier: what an origin calls itself goes with every response, and leaves room in it
// (STREAM-10, TRANS-10).
func TestLongIdentifier(t *testing.T) {
	key := headerKey{typeURL: eds, identifier: strings.Repeat("é", 1<<20), delta: true}
	f := newResponseHeader(key, "here")
	var d discoveryv3.DeltaDiscoveryResponse
	if err := proto.Unmarshal(f.bytes, &d); err != nil {
		t.Fatal(err)
	}
	if id := d.ControlPlane.Identifier; len(id) > 1100 || !strings.HasPrefix(id, "éé") || !strings.HasSuffix(id, ";weir=here") {
		t.Errorf("%d bytes are told", len(id))
	}
}
