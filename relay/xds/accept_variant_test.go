package xds

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/relaytest"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
)

// What a response says of variants: judged by name and constraints, never by the name alone.

var (
	prodOnly, testOnly = relaytest.Is("env", "prod"), relaytest.Is("env", "test")
	prodParams         = constraints.NewParams(map[string]string{"env": "prod"})
	testParams         = constraints.NewParams(map[string]string{"env": "test"})
)

// variantOf is a resource with constraints.
func variantOf(t testing.TB, name, content string, c *relaytest.Constraints) *discoveryv3.Resource {
	return &discoveryv3.Resource{
		Version: content, Resource: relaytest.Body(&clusterv3.Cluster{Name: name, AltStatName: content}), ResourceName: relaytest.VariantName(name, c),
	}
}

func TestAcceptVariants(t *testing.T) {
	long := strings.Repeat("n", 101)
	v := func(name, content string, c *relaytest.Constraints) *discoveryv3.Resource {
		return variantOf(t, name, content, c)
	}
	plain := func(name, content string) *discoveryv3.Resource {
		return &discoveryv3.Resource{Name: name, Version: content, Resource: relaytest.Body(&clusterv3.Cluster{Name: name, AltStatName: content})}
	}
	vs := func(rs ...*discoveryv3.Resource) []*discoveryv3.Resource { return rs }
	gone := func(ns ...*discoveryv3.ResourceName) []*discoveryv3.ResourceName { return ns }
	malformed := &relaytest.Constraints{Type: &discoveryv3.DynamicParameterConstraints_Constraint{
		Constraint: &discoveryv3.DynamicParameterConstraints_SingleConstraint{Key: "k"},
	}}
	both := v("a", "1", prodOnly)
	both.Name = "b"
	for _, test := range []struct {
		name    string
		rs      []*discoveryv3.Resource
		removed []string
		gone    []*discoveryv3.ResourceName
		want    []string // identities accepted
		left    []string // identities removed by constraints
		reason  string
	}{
		{
			"two variants of a name are no duplicate (DYN-15)", vs(v("a", "1", prodOnly), v("a", "2", testOnly)), nil, nil,
			[]string{`a "env"="prod"`, `a "env"="test"`},
			nil, "",
		},
		{"a variant and one without constraints", vs(v("a", "1", prodOnly), plain("a", "2")), nil, nil, []string{`a "env"="prod"`, "a "}, nil, ""},
		{
			"one variant twice, and different", vs(v("a", "1", prodOnly), v("a", "2", prodOnly), v("a", "3", testOnly)), nil, nil,
			[]string{`a "env"="test"`},
			nil, `"a": listed twice`,
		},
		{
			"equal logic in another order is one variant (DYN-6)",
			vs(v("a", "1", relaytest.And(prodOnly, relaytest.Has("x"))), v("a", "2", relaytest.And(relaytest.Has("x"), prodOnly))), nil, nil,
			nil, nil, `"a": listed twice`,
		},
		{"no constraints in either form are one variant", vs(v("a", "1", nil), plain("a", "2")), nil, nil, nil, nil, `"a": listed twice`},
		{
			"a split (DYN-10)", vs(v("a", "1", prodOnly)), nil, gone(relaytest.VariantName("a", testOnly)),
			[]string{`a "env"="prod"`},
			[]string{`a "env"="test"`},
			"",
		},
		{
			"sent and removed by constraints", vs(v("a", "1", prodOnly), v("a", "2", testOnly)), nil, gone(relaytest.VariantName("a", prodOnly)),
			[]string{`a "env"="test"`},
			nil, `"a": both sent and removed`,
		},
		{"sent plainly and removed by no constraints", vs(plain("a", "1")), nil, gone(relaytest.VariantName("a", nil)), nil, nil, `"a": both sent and removed`},
		{"a variant sent and the plain name removed (DYN-13)", vs(v("a", "1", prodOnly)), []string{"a"}, nil, []string{`a "env"="prod"`}, nil, ""},
		{
			"removed under another spelling", nil, nil, gone(relaytest.VariantName("xdstp://x/envoy.config.cluster.v3.Cluster/%61", prodOnly)), nil,
			[]string{`xdstp://x/envoy.config.cluster.v3.Cluster/a "env"="prod"`},
			"",
		},
		{
			"removed: name too long", nil, nil, gone(relaytest.VariantName(long, prodOnly), relaytest.VariantName("a", prodOnly)), nil,
			[]string{`a "env"="prod"`},
			"limits.name_bytes 100",
		},
		{"removed: a name that no name can be", nil, nil, gone(relaytest.VariantName("\x00x", prodOnly)), nil, nil, "begins with a zero byte"},
		{"removed: malformed constraints", nil, nil, gone(relaytest.VariantName("a", malformed)), nil, nil, `removed_resource_names "a": key "k"`},
		{"both name and resource_name", vs(both, plain("c", "1")), nil, nil, []string{"c "}, nil, "both name and resource_name"},
	} {
		t.Run(test.name, func(t *testing.T) {
			u, reject := accept(t, &discoveryv3.DeltaDiscoveryResponse{
				TypeUrl: ClusterType, Nonce: "n", Resources: test.rs, RemovedResources: test.removed, RemovedResourceNames: test.gone,
			})
			checkVariants(t, u, reject, test.want, test.left, test.reason)
		})
		if test.removed != nil || test.gone != nil {
			continue
		}
		t.Run(test.name+", wrapped in SotW", func(t *testing.T) {
			m := &discoveryv3.DiscoveryResponse{TypeUrl: ClusterType}
			for _, r := range test.rs {
				m.Resources = append(m.Resources, relaytest.Body(r))
			}
			u, reject := accept(t, m)
			checkVariants(t, u, reject, test.want, nil, test.reason)
		})
	}
}

func checkVariants(t *testing.T, u Update, reject *RejectError, want, left []string, reason string) {
	t.Helper()
	var got, removed []string
	for _, r := range u.Resources {
		got = append(got, r.Name+" "+r.Constraints.Key())
	}
	for _, r := range u.RemovedVariants {
		if r.Constraints != r.Set.Key() {
			t.Errorf("%q is not the key of %q", r.Constraints, r.Set.Key())
		}
		removed = append(removed, r.Name+" "+r.Constraints)
	}
	if !slices.Equal(got, want) || !slices.Equal(removed, left) {
		t.Errorf("accepted %q, removed %q; want %q and %q", got, removed, want, left)
	}
	switch {
	case reason == "" && reject != nil:
		t.Errorf("refused: %v", reject)
	case reason != "" && (reject == nil || !strings.Contains(reject.Error(), reason)):
		t.Errorf("refused with %v, want %q", reject, reason)
	case u.Bad != (reject != nil):
		t.Errorf("Bad is %v", u.Bad)
	}
}

// An error with constraints is one of the maps that they match (ABS-7, DYN-5).
func TestErrorsOfVariants(t *testing.T) {
	inError := func(name string, c *relaytest.Constraints, code int32) *discoveryv3.ResourceError {
		return &discoveryv3.ResourceError{ResourceName: relaytest.VariantName(name, c), ErrorDetail: &spb.Status{Code: code, Message: "why"}}
	}
	in := []*discoveryv3.ResourceError{inError("a", prodOnly, 7), inError("b", nil, 5)}
	u, reject := accept(t, &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: ClusterType, Nonce: "n", ResourceErrors: in, Resources: []*discoveryv3.Resource{variantOf(t, "a", "1", testOnly)},
	})
	if reject != nil || len(u.Errors) != 2 || len(u.Resources) != 1 {
		t.Fatalf("got %d errors and %d resources, refused %v", len(u.Errors), len(u.Resources), reject)
	}
	a, b := u.Errors[0], u.Errors[1]
	if !a.Constraints.Match(prodParams) || a.Constraints.Match(testParams) || b.Constraints != nil {
		t.Errorf("the errors are of %q and %q", a.Constraints.Key(), b.Constraints.Key())
	}
	for _, test := range []struct {
		name   string
		e      *discoveryv3.ResourceError
		reason string
	}{
		{"sent and in error", inError("a", testOnly, 7), "both sent and in resource_errors"},
		{"malformed", inError("a", &relaytest.Constraints{Type: &discoveryv3.DynamicParameterConstraints_Constraint{}}, 7), `resource_errors "a": key ""`},
	} {
		u, reject := accept(t, &discoveryv3.DeltaDiscoveryResponse{
			TypeUrl: ClusterType, Nonce: "n", ResourceErrors: []*discoveryv3.ResourceError{test.e},
			Resources: []*discoveryv3.Resource{variantOf(t, "a", "1", testOnly), variantOf(t, "a", "2", prodOnly)},
		})
		if reject == nil || !strings.Contains(reject.Error(), test.reason) || len(u.Errors) != 0 {
			t.Errorf("%s: refused with %v, want %q", test.name, reject, test.reason)
		}
	}
}

// An `or` of nothing matches nothing. It is counted wherever it is, and refuses nothing (truth
// table).
func TestEmptyOrIsCounted(t *testing.T) {
	or := relaytest.Or()
	u, reject := accept(t, &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: ClusterType, Nonce: "n",
		Resources: []*discoveryv3.Resource{
			variantOf(t, "a", "1", or), variantOf(t, "b", "1", relaytest.And(prodOnly, relaytest.Not(or))), variantOf(t, "c", "1", relaytest.Or(prodOnly)),
			variantOf(t, "d", "1", relaytest.Is("or()", "or()")),
		},
		RemovedResourceNames: []*discoveryv3.ResourceName{relaytest.VariantName("e", relaytest.Or(testOnly, or))},
	})
	if reject != nil || len(u.Resources) != 4 || u.EmptyOr != 3 {
		t.Errorf("%d resources, %d with an or of nothing, refused %v", len(u.Resources), u.EmptyOr, reject)
	}
	if u.Resources[0].Constraints.Match(prodParams) {
		t.Error("an or of nothing matches")
	}
}

// A message that is given in several pieces is one, for us as for the generated decoder.
func TestResourceNameInPieces(t *testing.T) {
	name := protowire.AppendTag(nil, FieldResourceName, protowire.BytesType)
	name = protowire.AppendBytes(name, relaytest.Marshal(relaytest.VariantName("a", nil)))
	rest := protowire.AppendTag(nil, FieldResourceName, protowire.BytesType)
	rest = protowire.AppendBytes(rest, relaytest.Marshal(relaytest.VariantName("", prodOnly)))
	b := slices.Concat(name, relaytest.Marshal(&discoveryv3.Resource{Version: "1", Resource: relaytest.Body(&clusterv3.Cluster{Name: "a"})}), rest)
	u, reject := accept(t, &discoveryv3.DiscoveryResponse{
		TypeUrl: ClusterType, Resources: []*anypb.Any{{TypeUrl: ResourceType, Value: b}},
	})
	checkVariants(t, u, reject, []string{`a "env"="prod"`}, nil, "")
}

// Reasons name a variant as they name all else, and are bounded (ERR-10).
func TestRejectedVariantsAreBounded(t *testing.T) {
	var gone []*discoveryv3.ResourceName
	for i := range 10_000 {
		gone = append(gone, relaytest.VariantName(fmt.Sprintf("\x00%d", i), prodOnly))
	}
	u, reject := accept(t, &discoveryv3.DeltaDiscoveryResponse{TypeUrl: ClusterType, Nonce: "n", RemovedResourceNames: gone})
	if reject == nil || len(reject.Error()) > maxRejectMessage || len(reject.Reasons) > maxReasons || !u.Unread || len(u.RemovedVariants) != 0 {
		t.Errorf("%d reasons in %d bytes", len(reject.Reasons), len(reject.Error()))
	}
}
