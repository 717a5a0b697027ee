package downstream

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
)

// FuzzJSONRequest: whatever is posted is refused, or becomes a request that sessions read as the
// protobuf library does, and that says the same in JSON again.
func FuzzJSONRequest(f *testing.F) {
	for _, text := range []string{
		"", "{}", "[]", `{"node": {"id": "a", "metadata": {"k": [1, null, {"x": true}]}}, "resourceNames": ["a", "*"]}`,
		`{"node": {"user_agent_name": "envoy", "locality": {"zone": "z"}}, "version_info": "7", "response_nonce": "n"}`,
		`{"errorDetail": {"code": 3, "message": "no", "details": [{"@type": "type.googleapis.com/google.protobuf.Duration", "value": "1s"}]}}`,
		`{"resourceLocators": [{"name": "a", "dynamicParameters": {"k": "v"}}], "unknown": {"x": [[[[]]]]}}`,
		`{"typeUrl": "\ud800"}`, `{"resource_names": [null]}`, `{"node": null, "node": {}}`, `{"versionInfo": 7}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		encoded, err := parseJSON(text, protoregistry.GlobalTypes)
		if err != nil {
			return
		}
		var c content
		if err := c.decode(encoded, false); err != nil {
			t.Fatalf("%q: sessions do not read it: %v", text, err)
		}
		var m discoveryv3.DiscoveryRequest
		if err := proto.Unmarshal(encoded, &m); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if string(c.version) != m.GetVersionInfo() || c.names.n != len(m.GetResourceNames()) || len(c.locators) != len(m.GetResourceLocators()) {
			t.Fatalf("%q is read as %+v, and is %v", text, c, &m)
		}
		if again, err := protojson.Marshal(&m); err != nil {
			t.Fatalf("%q has no JSON any more: %v", text, err)
		} else if _, err := parseJSON(again, protoregistry.GlobalTypes); err != nil {
			t.Fatalf("%q: its own JSON %s is refused: %v", text, again, err)
		}
	})
}

// TestContentKey: two responses have one key only if they have the same fields, each as often.
func TestContentKey(t *testing.T) {
	field := func(text string) []byte { return xds.AppendString(nil, 2, text) }
	seen := map[contentKey]string{}
	for _, texts := range [][]string{{}, {"a"}, {"a", "a"}, {"b"}, {"a", "b"}, {"a", "b", "b"}, {"ab"}, {"a", "b", "c", "d"}} {
		var there, back []byte
		for i := range texts {
			there, back = append(there, field(texts[i])...), append(back, field(texts[len(texts)-1-i])...)
		}
		key := keyOf(there)
		if other, known := seen[key]; known {
			t.Errorf("%q has the key of %s", texts, other)
		}
		if seen[key] = fmt.Sprintf("%q", texts); keyOf(back) != key {
			t.Errorf("%q has another key in another order", texts)
		}
	}
}

// TestRenderedInAnyOrder: the order of resources makes no other JSON, and their content does.
func TestRenderedInAnyOrder(t *testing.T) {
	c := renderer{resolver: protoregistry.GlobalTypes}
	m := &discoveryv3.DiscoveryResponse{VersionInfo: "1", TypeUrl: cds}
	for i := range 10 {
		m.Resources = append(m.Resources, payload(cds, fmt.Sprint("c", i), ""))
	}
	render := func() *rendered {
		t.Helper()
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		d, err := c.render(mem.BufferSlice{mem.SliceBuffer(b[:7]), mem.SliceBuffer(b[7:])}, true)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := render()
	rand.Shuffle(10, func(i, j int) { m.Resources[i], m.Resources[j] = m.Resources[j], m.Resources[i] })
	if render() != first {
		t.Error("another order was made anew")
	}
	m.Resources[3] = payload(cds, "c3", "eds")
	if render() == first {
		t.Error("another content was not")
	}
	m.Resources = []*anypb.Any{{TypeUrl: "x/y", Value: []byte{8}}}
	for range 2 { // it may be described the second time
		b, _ := proto.Marshal(m)
		if _, err := c.render(mem.BufferSlice{mem.SliceBuffer(b)}, true); err == nil {
			t.Error("a type without a descriptor has JSON")
		}
	}
	if c.order.Len() != 2 || len(c.all) != 2 {
		t.Errorf("%d and %d are kept, want 2", c.order.Len(), len(c.all))
	}
	for i := range 20 {
		m.Resources = []*anypb.Any{payload(cds, strings.Repeat("x", 1<<20), fmt.Sprint("eds", i))}
		m.VersionInfo = fmt.Sprint(i)
		render()
		if c.bytes > maxRendered {
			t.Fatalf("%d bytes are kept", c.bytes)
		}
	}
}

// BenchmarkRenderJSON: a response of 1,000 clusters, made and looked up.
func BenchmarkRenderJSON(b *testing.B) {
	m := &discoveryv3.DiscoveryResponse{VersionInfo: "1", TypeUrl: cds}
	for i := range 1000 {
		m.Resources = append(m.Resources, payload(cds, fmt.Sprintf("cluster-%04d", i), "eds>service"))
	}
	encoded, err := proto.Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	for _, keep := range []bool{false, true} {
		b.Run(fmt.Sprintf("kept=%v", keep), func(b *testing.B) {
			c := renderer{resolver: protoregistry.GlobalTypes}
			for b.Loop() {
				if _, err := c.render(mem.BufferSlice{mem.SliceBuffer(encoded)}, keep); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPoll: a poll of `*` with 1,000 clusters by who holds them, from the request to the
// answer.
func BenchmarkPoll(b *testing.B) {
	r := newRig(b)
	ask := func(version string) (polled, error) {
		s := newPollSession(r.set, nil, cds, false, caller{}, r.now)
		defer s.close(r.now)
		encoded, err := parseJSON([]byte(`{"node": {"id": "envoy-1", "cluster": "edge"}, "versionInfo": "`+version+`"}`), protoregistry.GlobalTypes)
		if err != nil {
			return polled{}, err
		}
		in := s.newRequest()
		in.read(mem.BufferSlice{mem.SliceBuffer(encoded)})
		defer in.done()
		if err := s.request(r.now, in); err != nil {
			return polled{}, err
		}
		return s.resolve(r.now, in.content, false, false)
	}
	if _, err := ask(""); err != nil {
		b.Fatal(err)
	}
	words := make([]string, 1000)
	for i := range words {
		words[i] = fmt.Sprintf("cluster-%04d=1", i)
	}
	r.settled(cds, words...)
	first, err := ask("")
	if err != nil || first.response == nil {
		b.Fatal(first, err)
	}
	for _, version := range []string{"", first.version} {
		b.Run(fmt.Sprintf("holds=%v", version != ""), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if a, err := ask(version); err != nil || a.unchanged != (version != "") {
					b.Fatal(a, err)
				}
			}
		})
	}
}
