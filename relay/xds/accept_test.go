package xds

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weir-xds/weir/relay/relaytest"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestAccept(t *testing.T) {
	c := func(name string) *anypb.Any { return relaytest.Body(&clusterv3.Cluster{Name: name}) }
	other := relaytest.Body(&clusterv3.Cluster{Name: "a", AltStatName: "x"})
	res := func(name string, a *anypb.Any) *discoveryv3.Resource {
		return &discoveryv3.Resource{Name: name, Version: "1", Resource: a}
	}
	long := strings.Repeat("n", 101)
	delta := func(removed []string, rs ...*discoveryv3.Resource) proto.Message {
		return &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType, Nonce: "n", Resources: rs, RemovedResources: removed}
	}
	inError := func(name string) proto.Message {
		e := &discoveryv3.ResourceError{ResourceName: &discoveryv3.ResourceName{Name: name}}
		return &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType, Nonce: "n", ResourceErrors: []*discoveryv3.ResourceError{e}}
	}
	sotw := func(as ...*anypb.Any) proto.Message {
		return &discoveryv3.DiscoveryResponse{TypeUrl: ClusterType, VersionInfo: "7", Resources: as}
	}
	for _, test := range []struct {
		name   string
		in     proto.Message
		want   []string // names accepted
		reason string   // part of the refusal; "" means accepted whole
	}{
		{"delta", delta(nil, res("a", c("a")), res("b", c("b"))), []string{"a", "b"}, ""},
		{"SotW bare (RELAY-14)", sotw(c("a"), c("b")), []string{"a", "b"}, ""},
		{"SotW wrapped (SOTW-13)", sotw(relaytest.Body(res("a", c("a"))), c("b")), []string{"a", "b"}, ""},
		{"SotW wrapped without a name: that of the body (SOTW-13)", sotw(relaytest.Body(res("", c("a"))), c("b")), []string{"a", "b"}, ""},
		{"and it is the same resource", sotw(relaytest.Body(res("", c("a"))), c("a")), []string{"a"}, `resource "a": listed twice`},
		{"SotW wrapped with constraints without a name", sotw(relaytest.Body(&discoveryv3.Resource{
			Resource: c("a"), ResourceName: &discoveryv3.ResourceName{DynamicParameterConstraints: prodOnly},
		})), []string{"a"}, ""},
		{"SotW wrapped, of another type, without a name", sotw(relaytest.Body(res("", relaytest.Body(&corev3.Node{Id: "x"}))), c("b")), []string{"b"}, "payload has type"},
		{"SotW wrapped without name and payload", sotw(relaytest.Body(&discoveryv3.Resource{Version: "1"}), c("b")), []string{"b"}, "neither name nor payload"},
		{"no nonce", &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType, Resources: []*discoveryv3.Resource{res("a", c("a"))}}, []string{"a"}, "no nonce"},
		{"another type", delta(nil, res("a", relaytest.Body(&corev3.Node{})), res("b", c("b"))), []string{"b"}, `resource 0 "a": payload has type`},
		{"twice the same", delta(nil, res("a", c("a")), res("a", c("a"))), []string{"a"}, `resource "a": listed twice`},
		{"twice and different: left untouched (RELAY-32)", delta(nil, res("a", c("a")), res("a", other), res("b", c("b"))), []string{"b"}, `resource "a": listed twice`},
		{"sent and removed", delta([]string{"a"}, res("a", c("a")), res("b", c("b"))), []string{"b"}, `"a": both sent and removed`},
		{"empty name, delta (RELAY-93)", delta(nil, res("", c("a"))), []string{""}, ""},
		{"empty version (RELAY-91)", delta(nil, &discoveryv3.Resource{Name: "a", Resource: c("a")}), []string{"a"}, ""},
		{"neither name nor payload", delta(nil, &discoveryv3.Resource{Version: "1"}), nil, "neither name nor payload"},
		{"name too long", delta(nil, res(long, c("a"))), nil, "limits.name_bytes 100"},
		{"name in error too long", inError(long), nil, "limits.name_bytes 100"},
		{"name in error that no name can be", inError("\x00x"), nil, "begins with a zero byte"},
		{"heartbeat", delta(nil, &discoveryv3.Resource{Name: "a", Version: "1"}), []string{"a"}, ""},
		{"malformed constraints", delta(nil, &discoveryv3.Resource{Resource: c("a"), ResourceName: &discoveryv3.ResourceName{
			Name: "a", DynamicParameterConstraints: &discoveryv3.DynamicParameterConstraints{
				Type: &discoveryv3.DynamicParameterConstraints_Constraint{Constraint: &discoveryv3.DynamicParameterConstraints_SingleConstraint{Key: "k"}},
			},
		}}), nil, "k"},
	} {
		t.Run(test.name, func(t *testing.T) {
			u, reject := accept(t, test.in)
			var names []string
			for _, r := range u.Resources {
				names = append(names, r.Name)
			}
			if !slices.Equal(names, test.want) {
				t.Errorf("accepted %q, want %q", names, test.want)
			}
			switch {
			case test.reason == "" && reject != nil:
				t.Errorf("refused: %v", reject)
			case test.reason != "" && (reject == nil || !strings.Contains(reject.Error(), test.reason)):
				t.Errorf("refused with %v, want %q", reject, test.reason)
			case u.Bad != (reject != nil):
				t.Errorf("Bad is %v", u.Bad)
			}
		})
	}
}

func TestNamelessSotWIsKeyedByContent(t *testing.T) { // RELAY-18
	a, b := relaytest.Body(&clusterv3.Cluster{AltStatName: "a"}), relaytest.Body(&clusterv3.Cluster{AltStatName: "b"})
	u, reject := accept(t, &discoveryv3.DiscoveryResponse{TypeUrl: ClusterType, Resources: []*anypb.Any{a, b}})
	if reject != nil || len(u.Resources) != 2 || !u.Resources[0].Nameless || u.Resources[0].Name == u.Resources[1].Name {
		t.Fatalf("got %+v, refused %v", u.Resources, reject)
	}
	v := NewVariant(&Provenance{TypeURL: ClusterType}, &u.Resources[0], "")
	var out discoveryv3.DiscoveryResponse
	if err := proto.Unmarshal(v.SotW(), &out); err != nil || !proto.Equal(out.Resources[0], a) {
		t.Errorf("sent as %v, %v", &out, err)
	}
}

func TestRejectMessageIsBounded(t *testing.T) { // ERR-10
	var rs []*discoveryv3.Resource
	for range 1000 {
		rs = append(rs, &discoveryv3.Resource{Name: strings.Repeat("é", 90), Resource: relaytest.Body(&corev3.Node{})})
	}
	_, reject := accept(t, &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType, Nonce: "n", Resources: rs})
	if n := len(reject.Error()); n > 4096 || n < 4000 || len(reject.Reasons) > maxReasons {
		t.Errorf("%d bytes, %d reasons", n, len(reject.Reasons))
	}
}

// TestVariantBytes: both wire forms of one buffer decode to what was received, payload and metadata
// byte for byte (RELAY-10).
func TestVariantBytes(t *testing.T) {
	payload := relaytest.Body(&clusterv3.Cluster{Name: "a"})
	payload.Value = append(payload.Value, 0xf8, 0xff, 0x7f, 1) // a field nobody knows
	in := &discoveryv3.Resource{
		Name: "a", Version: "origin's", Aliases: []string{"y", "x"}, Resource: payload,
		CacheControl: &discoveryv3.Resource_CacheControl{DoNotCache: true},
		Metadata:     &corev3.Metadata{},
		Ttl:          durationpb.New(time.Second),
	}
	u, reject := accept(t, &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType, Nonce: "n", Resources: []*discoveryv3.Resource{in}})
	if reject != nil || u.Resources[0].TTL != time.Second || !u.Resources[0].HasTTL {
		t.Fatalf("%+v: %v", u, reject)
	}
	v := NewVariant(&Provenance{TypeURL: ClusterType}, &u.Resources[0], "")
	var delta discoveryv3.DeltaDiscoveryResponse
	if err := proto.Unmarshal(v.Delta(), &delta); err != nil || len(delta.Resources) != 1 {
		t.Fatal(err, &delta)
	}
	out := delta.Resources[0]
	if out.Name != "a" || out.Version != v.Digest.String() || !slices.Equal(out.Aliases, in.Aliases) || !out.CacheControl.DoNotCache {
		t.Errorf("delta form is %v", out)
	}
	var sotw discoveryv3.DiscoveryResponse
	if err := proto.Unmarshal(v.SotW(), &sotw); err != nil || len(sotw.Resources) != 1 {
		t.Fatal(err, &sotw)
	}
	for _, a := range []*anypb.Any{out.Resource, sotw.Resources[0]} {
		if a.TypeUrl != payload.TypeUrl || !bytes.Equal(a.Value, payload.Value) {
			t.Errorf("payload %x, want %x", a.Value, payload.Value)
		}
	}
	if !bytes.HasSuffix(v.Delta(), v.SotW()) {
		t.Error("the SotW field is not the suffix of the delta field")
	}
}

// TestGoldenVersions: versions are pure functions of content, for ever (VER-3, RELAY-56).
func TestGoldenVersions(t *testing.T) {
	r := Resource{Name: "a"}
	r.Any = relaytest.Marshal(&anypb.Any{TypeUrl: ClusterType, Value: []byte("\n\x01a")})
	r.PayloadType, r.Payload, _ = AnyParts(r.Any)
	golden := func(what, want string) {
		t.Helper()
		got := NewVariant(&Provenance{TypeURL: ClusterType}, &r, r.Version).Digest.String()
		if got != want {
			t.Errorf("%s: version %s, want %s", what, got, want)
		}
		if d, ok := ParseVersion(got); !ok || d.String() != got {
			t.Errorf("%s: %s does not read back", what, got)
		}
	}
	const plain = "w1SyI46HEnB4G2ptELJd9Ydg"
	golden("plain", plain)
	r.Version, r.TTL, r.HasTTL, r.Metadata, r.DoNotCache = "other", time.Second, true, []byte("m"), true
	golden("the origin's version, TTL and metadata are no content", plain)
	r.Aliases = []string{"y", "x"}
	golden("aliases", "w1QONaD86UgjHfu4uyEdy4aA")
	r.Aliases = []string{"x", "y"}
	golden("aliases in another order", "w1QONaD86UgjHfu4uyEdy4aA")
}

// TestBareNames: where a resource that comes bare in SotW has its name (RELAY-14).
func TestBareNames(t *testing.T) {
	field := func(n protowire.Number, value string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), value)
	}
	const made = "example.com/made.Up"
	fields := NameFields{made: 3, "example.com/no.Name": 0, LbEndpointType: 4, ClusterType: 2}
	inner := string(field(1, "no name"))
	for _, c := range []struct {
		typeURL string
		payload []byte
		want    string // "": nameless
	}{
		{ClusterType, append(field(1, "a"), field(2, "b")...), "a"},
		{ClusterType, append(field(1, "a"), field(1, "last")...), "last"},
		{RuntimeType, field(1, "rt"), "rt"},
		{LbEndpointType, append(field(1, "a"), field(4, "b")...), "b"},
		{"example.com/other.Type", field(1, "a name: with?=blanks"), "a name: with?=blanks"},
		{"example.com/other.Type", field(1, inner), ""},
		{"example.com/other.Type", field(1, "\xff"), ""},
		{"example.com/other.Type", field(2, "a"), ""},
		{made, append(field(1, "a"), field(3, "b")...), "b"},
		{made, field(1, "a"), ""},
		{"example.com/no.Name", field(1, "a"), ""},
	} {
		body := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), c.typeURL)
		body = protowire.AppendBytes(protowire.AppendTag(body, 2, protowire.BytesType), c.payload)
		u, reject := fields.Accept(&Response{TypeURL: c.typeURL, Resources: [][]byte{body}}, 0)
		if reject != nil || len(u.Resources) != 1 {
			t.Errorf("%s %q: %v", c.typeURL, c.payload, reject)
			continue
		}
		if r := &u.Resources[0]; r.Nameless != (c.want == "") || !r.Nameless && r.Name != c.want {
			t.Errorf("%s %q: got %q, nameless %v, want %q", c.typeURL, c.payload, r.Name, r.Nameless, c.want)
		}
	}
	if u, _ := Accept(&Response{TypeURL: LbEndpointType, Resources: [][]byte{{}}}, 0); len(u.Resources) > 0 {
		t.Error("an empty resource is accepted")
	}
}

func accept(t *testing.T, m proto.Message) (Update, *RejectError) {
	t.Helper()
	_, delta := m.(*discoveryv3.DeltaDiscoveryResponse)
	r, err := ParseResponse(relaytest.Marshal(m), delta)
	if err != nil {
		t.Fatal(err)
	}
	return Accept(r, 100)
}

// What clients cannot decode, and what would need a multiple of its size here, is refused, and
// named (RELAY-30). The rest of the response is accepted.
func TestAcceptBounds(t *testing.T) {
	permission := relaytest.Body(&rbacv3.Permission{})
	permission.Value = relaytest.Nested(8, 1_000_000) // not_rule
	filter := relaytest.AnyInAny(MaxAnys + 1)
	type part = discoveryv3.Resource
	for _, c := range []struct {
		name, reason string
		bad          *part
	}{
		{"deep in an Any", "nested more than 100 deep", &part{Resource: relaytest.Body(&clusterv3.Cluster{
			TypedExtensionProtocolOptions: map[string]*anypb.Any{"a": permission},
		})}},
		{"Any in Any", "16 google.protobuf.Any are nested", &part{Resource: relaytest.Body(&clusterv3.Cluster{
			TypedExtensionProtocolOptions: map[string]*anypb.Any{"a": filter},
		})}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.bad.Name = "bad"
			good := &part{Name: "good", Resource: relaytest.Body(&clusterv3.Cluster{Name: "good"})}
			u, reject := accept(t, &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType, Nonce: "n", Resources: []*part{c.bad, good}})
			if reject == nil || !strings.Contains(reject.Error(), `"bad"`) || !strings.Contains(reject.Error(), c.reason) {
				t.Errorf("refused with %v, want %q", reject, c.reason)
			}
			if len(u.Resources) != 1 || u.Resources[0].Name != "good" {
				t.Errorf("accepted %v", u.Resources)
			}
		})
	}
	const many = 1_000_000
	name, cluster := relaytest.Field(1, []byte("a")), relaytest.Field(2, relaytest.Field(1, []byte(ClusterType)))
	for _, c := range []struct {
		name    string
		encoded []byte
	}{
		{"metadata", relaytest.Field(2, slices.Concat(relaytest.Field(3, []byte("a")), cluster, relaytest.Field(9, relaytest.Repeated(1, nil, many))))},
		{"constraints", relaytest.Field(2, slices.Concat(cluster, relaytest.Field(8, append(name, relaytest.Field(2, relaytest.Field(3, relaytest.Repeated(1, nil, many)))...))))},
		{"removal", relaytest.Field(8, append(name, relaytest.Field(2, relaytest.Field(3, relaytest.Repeated(1, nil, many)))...))},
		{"error", relaytest.Field(9, append(relaytest.Field(1, name), relaytest.Field(2, relaytest.Repeated(3, nil, many))...))},
	} {
		t.Run(c.name, func(t *testing.T) {
			encoded := slices.Concat(c.encoded, relaytest.Field(4, []byte(ClusterType)), relaytest.Field(5, []byte("n")))
			var reject *RejectError
			used := allocated(func() {
				r, err := ParseResponse(encoded, true)
				if err != nil {
					t.Fatal(err)
				}
				_, reject = Accept(r, 0)
			})
			if reject == nil || !strings.Contains(reject.Error(), "more than 8388608 bytes of memory") {
				t.Errorf("refused with %v", reject)
			}
			if used > len(encoded) {
				t.Errorf("%d bytes were used for a response of %d", used, len(encoded))
			}
		})
	}
}

// TestAcceptBoundsTexts: nothing that an origin repeats or writes at length is kept whole.
func TestAcceptBoundsTexts(t *testing.T) {
	one := slices.Concat(relaytest.Field(3, []byte("a")), relaytest.Field(2, relaytest.Field(1, []byte(ClusterType))), relaytest.Repeated(4, nil, 2_000_000))
	encoded := slices.Concat(relaytest.Field(2, one), relaytest.Field(4, []byte(ClusterType)), relaytest.Field(5, []byte("n")),
		relaytest.Field(7, relaytest.Field(1, bytes.Repeat([]byte("é"), 1<<20))))
	r, err := ParseResponse(encoded, true)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(r.Identifier); n > maxIdentifier || n < maxIdentifier-1 || !utf8.ValidString(r.Identifier) {
		t.Errorf("%d bytes of the identifier are kept", n)
	}
	var reject *RejectError
	used := allocated(func() { _, reject = Accept(r, 0) })
	if reject == nil || !strings.Contains(reject.Error(), `"a": does not decode: it has more than 100000 aliases`) {
		t.Errorf("refused with %v", reject)
	}
	if used > 16<<20 {
		t.Errorf("%d bytes were used", used)
	}
}
