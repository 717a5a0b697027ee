package downstream

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3" // a message that nests
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay/relaytest"
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
	set := settings{limits: Limits{RequestBytes: 1 << 20, NamesPerStream: 1 << 20}}
	f.Fuzz(func(t *testing.T, text []byte) {
		encoded, err := parseJSON(text, protoregistry.GlobalTypes)
		if bounded := bytes.Clone(text); err == nil {
			checkBlanked(t, &set, text, encoded, bounded)
		}
		if err != nil {
			return
		}
		var c content
		if err := cmp.Or(c.scan(encoded, false), c.decodeLocators()); err != nil {
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

// checkBlanked compares a request with what is decoded of it when it has passed the bounds: all but
// the details.
func checkBlanked(t *testing.T, set *settings, text, encoded, bounded []byte) {
	t.Helper()
	if _, err := set.boundJSON(bounded); err != nil {
		return
	}
	again, err := parseJSON(bounded, protoregistry.GlobalTypes)
	if err != nil {
		t.Fatalf("%q is refused as %q: %v", text, bounded, err)
	}
	var want, got discoveryv3.DiscoveryRequest
	for _, err := range []error{proto.Unmarshal(encoded, &want), proto.Unmarshal(again, &got)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(got.GetErrorDetail().GetDetails()) > 0 {
		t.Fatalf("%q: the details of %q are decoded", text, bounded)
	}
	if want.ErrorDetail != nil {
		want.ErrorDetail.Details = nil
	}
	if !proto.Equal(&want, &got) {
		t.Fatalf("%q is %v, and %v as %q", text, &want, &got, bounded)
	}
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
	c := newRenderer(protoregistry.GlobalTypes)
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
			c := newRenderer(protoregistry.GlobalTypes)
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

// TestRenderBombs: a resource that would cost far more than its size in JSON is not rendered, and
// the poll is told why (REST-9).
func TestRenderBombs(t *testing.T) {
	fat := relaytest.AnyInAny(2000)
	wide, err := proto.Marshal(&endpointv3.ClusterLoadAssignment{ClusterName: "wide"})
	if err != nil {
		t.Fatal(err)
	}
	wide = append(wide, relaytest.Repeated(2, nil, 1<<20)...)
	for _, row := range []struct {
		name, words string
		bomb        *anypb.Any
	}{
		{"Any in Any", "more than 16 google.protobuf.Any", fat},
		{"empty messages", "bytes of memory", &anypb.Any{TypeUrl: eds, Value: wide}},
		{"deep messages", "nested more than 100 deep", &anypb.Any{
			TypeUrl: "type.googleapis.com/envoy.config.rbac.v3.Permission", Value: relaytest.Nested(8, 5000),
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			encoded, err := proto.Marshal(&discoveryv3.DiscoveryResponse{
				Resources: []*anypb.Any{payload(cds, "a", ""), row.bomb},
			})
			if err != nil {
				t.Fatal(err)
			}
			before := allocatedSoFar()
			text, err := newRenderer(protoregistry.GlobalTypes).json(encoded)
			took := allocatedSoFar() - before
			undescribed := (*undescribedError)(nil)
			if !errors.As(err, &undescribed) || !strings.Contains(err.Error(), row.words) || !strings.Contains(err.Error(), "resources[1]") {
				t.Errorf("%d bytes of JSON, %v; want an error with %q", len(text), err, row.words)
			}
			if took > 1<<20+4*len(encoded) {
				t.Errorf("%d bytes take %d to render", len(encoded), took)
			}
		})
	}
}
