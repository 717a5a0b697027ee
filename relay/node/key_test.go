package node

import (
	"math"
	"slices"
	"strings"
	"testing"

	xdsv3 "github.com/cncf/xds/go/xds/core/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
)

// richNode has every field that a group's key can be made of.
func richNode() *corev3.Node {
	metadata, err := structpb.NewStruct(map[string]any{
		"z": 1e21, "a": map[string]any{"y": true, "x": nil}, "list": []any{0.1, 1, -7, "t\"\\\n<é"}, "empty": "",
	})
	if err != nil {
		panic(err)
	}
	return &corev3.Node{
		Id: "i", Cluster: "c", Metadata: metadata, Locality: &corev3.Locality{Region: "r", Zone: "z"}, UserAgentName: "envoy",
		UserAgentVersionType: &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: &corev3.BuildVersion{
			Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 34, Patch: 2}, Metadata: metadata,
		}},
		ClientFeatures:    []string{"b", "a", "a", "xds.config.supports-resource-ttl"},
		DynamicParameters: parameters("shard", "1", "env", "prod"),
	}
}

// TestGroupKeysAreGolden: the keys are those that any replica of any build makes of the same node.
// A change of this list changes the node ids that origins see.
func TestGroupKeysAreGolden(t *testing.T) {
	for terms, want := range map[string]string{
		"":                   "e3b0c44298fc1c149afbf4c8996fb924",
		"cluster":            "63774aa1aa276dc9e9150fbc328ebf71",
		"locality":           "1d9d7acab45d25ff381a7b7c4c1418f4",
		"user_agent_name":    "ee1d9a427e4879816701f6d001c0ff21",
		"user_agent_version": "cd17c6bf0ba4c72459d1aaaed0c91dcc",
		"client_features":    "63868973ed5101ec8b92c519974b3b94",
		"metadata":           "d85ded4cbab78662addff5c29c3ca986",
		"metadata.a":         "1ec185488206836a75d96780c22e4a95",
		"metadata.list":      "aa635aca6dd9fcbf9ef6be1f8cc3078c",
		"id":                 "d5d049f0e696fb668249f833f6d02333",
		"dynamic_parameters": "2dd2f3a3fd75c47630e23089042d57da",
		"identity":           "18a5c70e93d85a9020b6f977f95fded4",
		"cluster locality user_agent_name client_features metadata": "51f9985bff1347f6d269e81ffc373aa5",
	} {
		key, up := Rules{GroupBy: strings.Fields(terms), Deployment: "edge"}.Group(richNode(), "spiffe://corp/ns/shop/sa/web")
		if key != want {
			t.Errorf("%q: the key is %s, want %s", terms, key, want)
		}
		if terms != "id" && up.Id != "weir/edge/"+key {
			t.Errorf("%q: presented as %q", terms, up.Id)
		}
	}
}

func TestCanonicalJSON(t *testing.T) {
	number := structpb.NewNumberValue
	for want, v := range map[string]*structpb.Value{
		`null`: structpb.NewNullValue(), `true`: structpb.NewBoolValue(true), `""`: structpb.NewStringValue(""),
		`1`: number(1), `-7`: number(-7), `0.1`: number(0.1), `1e+21`: number(1e21), `5e-324`: number(5e-324), `9007199254740991`: number(1<<53 - 1),
		`-0`: number(math.Copysign(0, -1)), `NaN`: number(math.NaN()), `+Inf`: number(math.Inf(1)), `-Inf`: number(math.Inf(-1)),
		`"NaN"`: structpb.NewStringValue("NaN"), `"\"\\\u000a\u0000<é "`: structpb.NewStringValue("\"\\\n\x00<é "),
		`[]`: structpb.NewListValue(nil), `{}`: structpb.NewStructValue(nil), ``: {},
		`{"":null,"a":[1,{"c":"d"}],"b":false}`: structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			"b": structpb.NewBoolValue(false), "": structpb.NewNullValue(), "a": structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{
				number(1), structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"c": structpb.NewStringValue("d")}}),
			}}),
		}}),
	} {
		if got := string(appendValue(nil, v)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// unknownField is a field that no build knows.
func unknownField(text string) protoreflect.RawFields {
	return protowire.AppendString(protowire.AppendTag(nil, 4095, protowire.BytesType), text)
}

// TestUnknownFieldsOfMembersStay: what this build does not know cannot be in the key, so it is no
// other member's either.
func TestUnknownFieldsOfMembersStay(t *testing.T) {
	n := richNode()
	for _, m := range []proto.Message{
		n, n.Locality, n.Metadata, n.Metadata.Fields["a"], n.Metadata.Fields["a"].GetStructValue(), n.DynamicParameters[clusterType],
		n.GetUserAgentBuildVersion(), n.GetUserAgentBuildVersion().Version, n.GetUserAgentBuildVersion().Metadata,
	} {
		m.ProtoReflect().SetUnknown(unknownField("of one member"))
	}
	for _, terms := range [][]string{
		{"cluster", "locality", "user_agent_name", "user_agent_version", "client_features", "metadata", "dynamic_parameters"}, {"metadata.a"},
	} {
		key, up := Rules{GroupBy: terms}.Group(n, "")
		plain, want := Rules{GroupBy: terms}.Group(richNode(), "")
		if key != plain || !proto.Equal(up, want) {
			t.Errorf("presented is %v, want %v", up, want)
		}
	}
}

func TestGroups(t *testing.T) {
	cfg := Rules{Deployment: "weir", GroupBy: []string{"cluster", "locality", "user_agent_name", "client_features", "metadata"}}
	changed := func(change func(*corev3.Node)) *corev3.Node {
		n := envoyNode()
		change(n)
		return n
	}
	base, up := cfg.Group(envoyNode(), "")
	if up.Id != "weir/weir/"+base || up.Cluster != "c" || up.GetUserAgentVersion() != "" {
		t.Errorf("presented: %v", up)
	}
	want := slices.Sorted(slices.Values(append([]string{"envoy.lb.does_not_support_overprovisioning"}, ownFeatures...)))
	if !slices.Equal(up.ClientFeatures, want) {
		t.Errorf("features presented: %v (FEAT-2, FEAT-6)", up.ClientFeatures)
	}
	for name, same := range map[string]*corev3.Node{
		"dynamic parameters":  changed(func(n *corev3.Node) { n.DynamicParameters = parameters("shard", "1") }),
		"id":                  changed(func(n *corev3.Node) { n.Id = "other" }),
		"hop-by-hop features": changed(func(n *corev3.Node) { n.ClientFeatures = append(n.ClientFeatures, "xds.config.resource-in-sotw") }),
	} {
		if key, _ := cfg.Group(same, ""); key != base {
			t.Errorf("%s makes another group", name)
		}
	}
	for name, other := range map[string]*corev3.Node{
		"cluster":  changed(func(n *corev3.Node) { n.Cluster = "d" }),
		"locality": changed(func(n *corev3.Node) { n.Locality.Zone = "z" }),
		"agent":    changed(func(n *corev3.Node) { n.UserAgentName = "grpc" }),
		"feature":  changed(func(n *corev3.Node) { n.ClientFeatures = append(n.ClientFeatures, "new") }),
		"metadata": changed(func(n *corev3.Node) { n.Metadata.Fields["k"].GetStructValue().Fields["in"] = nil }),
		"no node":  nil,
	} {
		if key, _ := cfg.Group(other, ""); key == base {
			t.Errorf("%s does not make another group", name)
		}
	}
	key, up := Rules{GroupBy: []string{"id", "metadata.k"}, Cluster: "fixed"}.Group(envoyNode(), "")
	if up.Id != "i" || up.Cluster != "fixed" || len(up.Metadata.Fields) != 1 || up.Locality != nil || key == base {
		t.Errorf("by id and one key: %v", up)
	}
	if _, up := (Rules{ID: "fixed"}).Group(envoyNode(), ""); up.Id != "fixed" || up.Cluster != "" || up.UserAgentName != "weir" {
		t.Errorf("one group, fixed id: %v", up)
	}
}

// clusterType is a type whose names have parameters.
const clusterType = "type.googleapis.com/envoy.config.cluster.v3.Cluster"

// envoyNode is a plain Envoy's.
func envoyNode() *corev3.Node {
	inner, _ := structpb.NewStruct(map[string]any{"k": map[string]any{"in": "v"}, "l": "m"})
	return &corev3.Node{
		Id: "i", Cluster: "c", Metadata: inner, Locality: &corev3.Locality{Region: "r"}, UserAgentName: "envoy",
		UserAgentVersionType: &corev3.Node_UserAgentVersion{UserAgentVersion: "1"},
		ClientFeatures:       []string{"envoy.lb.does_not_support_overprovisioning"},
	}
}

func parameters(pairs ...string) map[string]*xdsv3.ContextParams {
	p := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		p[pairs[i]] = pairs[i+1]
	}
	return map[string]*xdsv3.ContextParams{clusterType: {Params: p}}
}
