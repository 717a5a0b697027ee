package downstream

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// requests are some of either dialect.
func requests() []proto.Message {
	return []proto.Message{
		&discoveryv3.DiscoveryRequest{TypeUrl: cds},
		&discoveryv3.DiscoveryRequest{TypeUrl: eds, ResourceNames: []string{"a", "*", "a", "xdstp:"}, ResponseNonce: "x"},
		&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, ResourceNamesUnsubscribe: []string{"*"}},
		&discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: xds.VirtualHostType, ResourceNamesSubscribe: []string{"", "a", "a"},
			InitialResourceVersions: map[string]string{"a": "w1"}, ResourceLocatorsSubscribe: []*discoveryv3.ResourceLocator{nil, {}},
		},
		&discoveryv3.DiscoveryRequest{TypeUrl: cds, ResourceLocators: []*discoveryv3.ResourceLocator{
			locator("a{k=v}"), locator("a{k=w;l=}"), locator("a{}"), locator("*{k=v}"), locator("xdstp://plain/envoy.config.cluster.v3.Cluster/*{k=v}"),
		}},
		&discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: eds, ResourceNamesSubscribe: []string{"*"}, ResourceLocatorsSubscribe: []*discoveryv3.ResourceLocator{
				locator("*{k=v}"), locator("a{k=v}"), locator("xdstp://served/envoy.config.endpoint.v3.ClusterLoadAssignment/a/*{k=v}"),
			},
			ResourceLocatorsUnsubscribe: []*discoveryv3.ResourceLocator{locator("a{k=v}"), locator("b{}"), locator("*{k=v}")},
		},
	}
}

// FuzzRequest: a request is accepted if the protobuf library accepts it, and says the same.
func FuzzRequest(f *testing.F) {
	for _, m := range requests() {
		wire := encoded(f, m)
		f.Add(wire, false)
		f.Add(wire, true)
	}
	for _, c := range oddRequests() {
		f.Add(c.wire, false)
		f.Add(c.wire, true)
	}
	f.Fuzz(compareRequest)
}

func compareRequest(t *testing.T, wire []byte, delta bool) {
	in := &request{delta: delta, set: &settings{limits: Limits{RequestBytes: 1 << 30}}}
	in.read(mem.BufferSlice{mem.SliceBuffer(wire)})
	defer in.done()
	node, _, err := in.readNode()
	if in.err != nil {
		err = in.err
	}
	var want proto.Message = &discoveryv3.DiscoveryRequest{}
	if delta {
		want = &discoveryv3.DeltaDiscoveryRequest{}
	}
	wantErr := proto.Unmarshal(wire, want)
	if bound := (*xds.BoundError)(nil); errors.As(err, &bound) {
		return // the library has no bounds of this kind
	}
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("it is read with %v, by the library with %v", err, wantErr)
	}
	if err != nil {
		return
	}
	var got proto.Message
	if delta {
		got = &discoveryv3.DeltaDiscoveryRequest{
			Node: node, TypeUrl: string(in.typeURL), ResponseNonce: string(in.nonce), ErrorDetail: in.detail,
			ResourceNamesSubscribe: in.names.strings(), ResourceNamesUnsubscribe: in.unsubscribe.strings(),
			InitialResourceVersions: in.versions(), ResourceLocatorsSubscribe: in.locators, ResourceLocatorsUnsubscribe: in.leaving,
		}
	} else {
		got = &discoveryv3.DiscoveryRequest{
			Node: node, TypeUrl: string(in.typeURL), ResponseNonce: string(in.nonce), ErrorDetail: in.detail,
			ResourceNames: in.names.strings(), VersionInfo: string(in.version), ResourceLocators: in.locators,
		}
	}
	want.ProtoReflect().SetUnknown(nil) // its own, which mean nothing here; the node's stay
	if detail := want.(interface{ GetErrorDetail() *rpcstatus.Status }).GetErrorDetail(); detail != nil {
		detail.Details = nil // of which nothing is read
		detail.ProtoReflect().SetUnknown(nil)
	}
	if !proto.Equal(got, want) {
		t.Fatalf("it is read as %v, by the library as %v", got, want)
	}
}

// oddRequest is a message that no client writes, and that the wire format allows or does not.
type oddRequest struct {
	name string
	wire []byte
}

func oddRequests() []oddRequest {
	field := func(n protowire.Number, v string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), v)
	}
	inner := func(n protowire.Number, m proto.Message) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			panic(err)
		}
		return field(n, string(b))
	}
	cat := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	varint := protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), 7)
	bad := "\xff"
	all := []oddRequest{
		{"nothing", nil},
		{"a field that ends the message too early", []byte{0x1a, 5, 'a'}},
		{"a tag without a value", []byte{0x1a}},
		{"an endless tag", bytes.Repeat([]byte{0xff}, 11)},
		{"field 0", []byte{0, 1}},
		{"a field number that is too large", cat(protowire.AppendVarint(nil, uint64(protowire.MaxValidNumber+1)<<3|2), []byte{1, 'a'})},
		{"the largest field number", field(protowire.MaxValidNumber, bad)},
		{"a tag that is longer than need be", []byte{0x9a, 0x80, 0x00, 1, 'a'}},
		{"the end of a group that did not begin", protowire.AppendTag(nil, 3, protowire.EndGroupType)},
		{"a group", cat(protowire.AppendTag(nil, 3, protowire.StartGroupType), field(3, bad), protowire.AppendTag(nil, 3, protowire.EndGroupType))},
		{"a group that does not end", cat(protowire.AppendTag(nil, 3, protowire.StartGroupType), field(3, "a"))},
		{"wire type 6", []byte{3<<3 | 6, 1}},
		{"other wire types", cat(varint, protowire.AppendFixed32(protowire.AppendTag(nil, 4, protowire.Fixed32Type), 1),
			protowire.AppendFixed64(protowire.AppendTag(nil, 2, protowire.Fixed64Type), 1), field(3, "a"))},
		{"names apart from each other", cat(field(3, "a"), field(4, "t"), field(3, "b"), field(3, "c"), varint, field(3, "d"), field(4, "u"), field(3, ""))},
		{"two nodes are one", cat(inner(2, &corev3.Node{Id: "a", Cluster: "b"}), field(3, "x"), inner(2, &corev3.Node{Id: "c"}), field(2, ""))},
		{"two nodes of which one is none", cat(inner(2, &corev3.Node{Id: "a"}), field(2, "\x0a"), field(2, "\x01a"))},
		{"two errors are one", cat(inner(6, &rpcstatus.Status{Code: 1, Message: "a", Details: []*anypb.Any{{TypeUrl: "x"}}}), inner(6, &rpcstatus.Status{Message: "b", Details: []*anypb.Any{{}}}), field(6, ""))},
		{"locators", cat(inner(7, &discoveryv3.ResourceLocator{Name: "a"}), field(7, ""), field(8, ""), inner(9, &discoveryv3.ResourceLocator{Name: "b"}))},
		{"versions", cat(field(5, "\x0a\x01a\x12\x01v"), field(5, "\x12\x01w\x0a\x01a"), field(5, ""), field(5, "\x0a\x01b\x0a\x01c\x10\x05\x1a\x01\xff"))},
		{"a version that is no entry", field(5, "\x0a")},
		{"an entry with the end of a group", field(5, "\x0c")},
		{"an unknown field in a node", cat(field(2, string(field(1000, bad))), field(1, string(field(1000, bad))))},
	}
	for n := range protowire.Number(11) {
		if n > 0 {
			all = append(all, oddRequest{fmt.Sprint("bytes that are no text in field ", n), field(n, bad)},
				oddRequest{fmt.Sprint("twice, the last is right, in field ", n), cat(field(n, bad), field(n, "x"))},
				oddRequest{fmt.Sprint("no text in a field of field ", n), field(n, string(field(1, bad)))},
				oddRequest{fmt.Sprint("no text in the second field of field ", n), field(n, string(field(2, bad)))})
		}
	}
	return all
}

// TestOddRequests: as the protobuf library has them (FuzzRequest).
func TestOddRequests(t *testing.T) {
	for _, c := range oddRequests() {
		for _, delta := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, delta %v", c.name, delta), func(t *testing.T) { compareRequest(t, c.wire, delta) })
		}
	}
}

// TestDeepRequest: a node is accepted as deep as clients' libraries make it, and no deeper.
func TestDeepRequest(t *testing.T) {
	nested := func(depth int) []byte {
		var value []byte // of the innermost Value, backwards
		for range depth {
			value = appendBackwards(value, 5) // struct_value
			value = appendBackwards(value, 2) // value of an entry
			value = appendBackwards(value, 1) // fields
		}
		value = appendBackwards(value, 3) // metadata
		value = appendBackwards(value, 1) // node
		slices.Reverse(value)
		return value
	}
	// Three levels each, below the node and its metadata.
	const deepest = (xds.MaxDepth - 2) / 3
	compareRequest(t, nested(deepest), true)
	for _, depth := range []int{deepest + 1, 1_000, 50_000} {
		in := &request{delta: true, set: &settings{limits: Limits{RequestBytes: 1 << 30}}}
		in.read(mem.BufferSlice{mem.SliceBuffer(nested(depth))})
		if _, _, err := in.readNode(); err == nil || !strings.Contains(err.Error(), "nested more than 100 deep") {
			t.Errorf("depth %d: %v", depth, err)
		}
		in.done()
	}
}

// appendBackwards puts b, which is written backwards, into a field.
func appendBackwards(b []byte, field protowire.Number) []byte {
	head := protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.BytesType), uint64(len(b)))
	slices.Reverse(head)
	return append(b, head...)
}

// FuzzSession: whatever a client sends, the session neither panics nor forgets to answer within the
// rules of its own state.
func FuzzSession(f *testing.F) {
	for _, m := range requests() {
		b := encoded(f, m)
		f.Add(b, b, true)
		f.Add(b, b, false)
	}
	f.Fuzz(func(t *testing.T, first, second []byte, delta bool) {
		r := newRigOf(t, relay.OriginConfig{Name: "mesh", TP2: true, Authorities: []string{"served"}}, relay.OriginConfig{Name: "plain", Authorities: []string{"plain"}})
		s := newSession(r.set, delta, r.now, relay.NewSubscriber())
		defer s.close(r.now)
		in := s.newRequest()
		for _, b := range [][]byte{first, second, first} {
			in.done()
			if err := (codec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, in); err != nil {
				t.Fatalf("the codec does not keep the error: %v", err)
			}
			if in.err != nil {
				continue
			}
			if err := s.request(r.now, in); err != nil {
				return
			}
			r.up()
			r.now = r.now.Add(time.Second)
			for _, x := range s.take(r.now) {
				decode(t, x, delta)
			}
			if s.tick(r.now) != nil {
				return
			}
			s.next()
			s.status(time.Now())
		}
		if err := r.table.Check(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRequestIsNotKept: of a long request nothing stays but what it is about. Its names are parts
// of one block of memory, and whoever keeps one of them as it is keeps them all.
func TestRequestIsNotKept(t *testing.T) {
	const (
		cluster = "/envoy.config.cluster.v3.Cluster/"
		served  = "xdstp://served" + cluster
	)
	var others []string // that somebody has: they cost a client much less than their text
	for i := range 1000 {
		others = append(others, fmt.Sprintf("q/%d%s", i, strings.Repeat("x", 1024)))
	}
	for _, c := range []struct {
		what    string
		typeURL string
		names   []string // of each client, by its number for #
		gone    []string // and unsubscribed again, in delta
		before  []string // subscribed before, of type RDS
		full    bool     // there is no memory for new names
	}{
		{what: "a name", typeURL: cds, names: []string{"new#"}},
		{what: "another spelling", typeURL: cds, names: []string{served + "a#?b=2&a=1"}},
		{what: "a name that is refused", typeURL: cds, names: []string{"xdstp://served/wrong.Type/a"}},
		{what: "an authority", typeURL: cds, names: []string{"xdstp://nobody" + cluster + "a"}},
		{what: "a glob", typeURL: cds, names: []string{served + "#/*"}},
		{what: "a glob in another spelling", typeURL: cds, names: []string{served + "#/*?b=1&a=2"}},
		{what: "a namespace", typeURL: vhd, names: []string{"r#"}},
		{what: "a namespace with a slash", typeURL: vhd, names: []string{"s/t"}, before: []string{"s/t"}},
		{what: "a name that a glob covers", typeURL: cds, names: []string{served + "x/*", served + "x/a"}, gone: []string{served + "x/a"}},
		{what: "a name there is no room for", typeURL: cds, names: []string{"new"}, full: true},
	} {
		for _, delta := range []bool{false, true} {
			if !delta && xds.DeltaOnly(c.typeURL) {
				continue
			}
			r := newRigOf(t, relay.OriginConfig{Name: "mesh", Authorities: []string{"served"}})
			r.client(true).subscribes(c.typeURL, others...)
			if c.full {
				r.table.Measured(2<<20, 1<<20)
			}
			const clients = 8
			ends := make([]*clientEnd, clients)
			for i := range ends {
				ends[i] = r.client(delta)
				if c.before != nil {
					ends[i].subscribes(rds, c.before...)
				}
			}
			before := heapInUse()
			for i, p := range ends {
				list := slices.Clone(others)
				for _, name := range c.names {
					list = slices.Insert(list, len(list)/2, strings.ReplaceAll(name, "#", fmt.Sprint(i)))
				}
				if !delta {
					p.sends(&discoveryv3.DiscoveryRequest{TypeUrl: c.typeURL, ResourceNames: list})
					continue
				}
				p.sends(&discoveryv3.DeltaDiscoveryRequest{
					TypeUrl: c.typeURL, ResourceNamesSubscribe: list,
					InitialResourceVersions: map[string]string{"x": strings.Repeat("v", 1<<20)},
				})
				if c.gone != nil {
					p.sends(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: c.typeURL, ResourceNamesUnsubscribe: append(c.gone, others...)})
				}
			}
			if each := (heapInUse() - before) / clients; each > 300<<10 {
				t.Errorf("%s, delta %v: a client keeps %d bytes", c.what, delta, each)
			}
			runtime.KeepAlive(ends)
		}
	}
}
