package node

import (
	"maps"
	"math"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// TestMappedScalars: what a parameter is of each kind of value (RELAY-65).
func TestMappedScalars(t *testing.T) {
	number, text := structpb.NewNumberValue, structpb.NewStringValue
	for _, c := range []struct {
		value *structpb.Value
		want  string
		none  bool
		unfit int
	}{
		{value: text("prod"), want: "prod"},
		{value: text(""), want: ""},
		{value: text("1.0"), want: "1.0"},
		{value: text(" é\n"), want: " é\n"},
		{value: structpb.NewBoolValue(true), want: "true"},
		{value: structpb.NewBoolValue(false), want: "false"},
		{value: number(1), want: "1"},
		{value: number(-7), want: "-7"},
		{value: number(0), want: "0"},
		{value: number(math.Copysign(0, -1)), want: "0"},
		{value: number(1 << 53), want: "9007199254740992"},
		{value: number(1e21), want: "1000000000000000000000"},
		{value: number(1.5), want: "1.5"},
		{value: number(0.1), want: "0.1"},
		{value: number(-2.5e-7), want: "-2.5e-07"},
		{value: structpb.NewNullValue(), none: true},
		{value: &structpb.Value{}, none: true},
		{value: nil, none: true},
		{value: number(math.NaN()), none: true, unfit: 1},
		{value: number(math.Inf(-1)), none: true, unfit: 1},
		{value: structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{text("a")}}), none: true, unfit: 1},
		{value: structpb.NewListValue(nil), none: true, unfit: 1},
		{value: structpb.NewStructValue(&structpb.Struct{}), none: true, unfit: 1},
	} {
		n := metadataNode(t, nil)
		n.Metadata.Fields = map[string]*structpb.Value{"env": c.value}
		fields := map[string]string{"e": "metadata.env"}
		rules := Rules{Mapped: fields}
		got := maps.Collect(rules.Params(n, clusterType).All())
		want := map[string]string{"e": c.want}
		if c.none {
			want = map[string]string{}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%v: %v, want %v", c.value, got, want)
		}
		if got := rules.Unfit(n); got != c.unfit {
			t.Errorf("%v: %d fields are unfit, want %d", c.value, got, c.unfit)
		}
		if rest := rules.unmapped(n); len(rest.Metadata.GetFields()) > 0 {
			t.Errorf("%v: the mapped field stays in the group's key (RELAY-64)", c.value)
		}
	}
}

// TestMappedFieldsLeaveTheGroup: clients that differ in mapped fields alone are one group, whose
// node has none of them (RELAY-64).
func TestMappedFieldsLeaveTheGroup(t *testing.T) {
	fields := map[string]string{"env": "metadata.env", "shard": "metadata.app.shard", "on": "metadata.app.deep.on"}
	for _, terms := range []string{"cluster metadata", "cluster metadata.app metadata.k"} {
		cfg := Rules{Mapped: fields, GroupBy: strings.Fields(terms)}
		base, up := cfg.Group(metadataNode(t, map[string]any{"k": "v"}), "")
		for name, n := range map[string]map[string]any{
			"a field":                     {"k": "v", "env": "prod"},
			"another value":               {"k": "v", "env": "test"},
			"null":                        {"k": "v", "env": nil},
			"a list":                      {"k": "v", "env": []any{"a"}},
			"a struct":                    {"k": "v", "env": map[string]any{"a": "b"}},
			"a nested one":                {"k": "v", "app": map[string]any{"shard": 2}},
			"deeper":                      {"k": "v", "env": 1, "app": map[string]any{"shard": 2, "deep": map[string]any{"on": true}}},
			"structs without their field": {"k": "v", "app": map[string]any{"deep": map[string]any{}}},
		} {
			whole := metadataNode(t, n)
			before := proto.Clone(whole)
			key, presented := cfg.Group(whole, "")
			if key != base || !proto.Equal(presented, up) {
				t.Errorf("%s, %s: another group, presented as %v, want %v", terms, name, presented, up)
			}
			if !proto.Equal(whole, before) {
				t.Errorf("%s: the client's own node is changed", name)
			}
		}
		for name, n := range map[string]map[string]any{
			"a neighbour":               {"k": "v", "app": map[string]any{"shard": 2, "tier": 1}},
			"a scalar in place of it":   {"k": "v", "app": "x"},
			"a neighbour of a deep one": {"k": "v", "app": map[string]any{"deep": map[string]any{"on": true, "off": false}}},
			"what is not mapped":        {"k": "w", "env": "prod"},
		} {
			if key, _ := cfg.Group(metadataNode(t, n), ""); key == base {
				t.Errorf("%s, %s: the same group", terms, name)
			}
		}
		// A group that is restored has what it presented.
		n := metadataNode(t, map[string]any{"k": "v", "env": "prod", "app": map[string]any{"shard": 2, "tier": 1}})
		key, presented := cfg.Group(n, "")
		if again, _ := cfg.Group(&corev3.Node{Cluster: presented.Cluster, Metadata: presented.Metadata}, ""); again != key {
			t.Errorf("%s: the key of what is presented is another", terms)
		}
	}
}

func metadataNode(t *testing.T, fields map[string]any) *corev3.Node {
	t.Helper()
	s, err := structpb.NewStruct(fields)
	if err != nil {
		t.Fatal(err)
	}
	return &corev3.Node{Id: "i", Cluster: "c", Metadata: s}
}
