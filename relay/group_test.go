package relay

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/constraints"

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

// TestGroupKeysAreGolden: the keys are those that any replica of any build makes of the same node. A change of this list changes
// the node ids that origins see.
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
		"cluster locality user_agent_name client_features metadata": "51f9985bff1347f6d269e81ffc373aa5",
	} {
		key, up := groupOf(richNode(), OriginConfig{GroupBy: strings.Fields(terms)}, "edge")
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

// TestUnknownFieldsOfMembersStay: what this build does not know cannot be in the key, so it is no other member's either.
func TestUnknownFieldsOfMembersStay(t *testing.T) {
	n := richNode()
	for _, m := range []proto.Message{
		n, n.Locality, n.Metadata, n.Metadata.Fields["a"], n.Metadata.Fields["a"].GetStructValue(), n.DynamicParameters[ClusterType],
		n.GetUserAgentBuildVersion(), n.GetUserAgentBuildVersion().Version, n.GetUserAgentBuildVersion().Metadata,
	} {
		m.ProtoReflect().SetUnknown(unknownField("of one member"))
	}
	for _, terms := range [][]string{
		{"cluster", "locality", "user_agent_name", "user_agent_version", "client_features", "metadata", "dynamic_parameters"}, {"metadata.a"},
	} {
		key, up := groupOf(n, OriginConfig{GroupBy: terms}, "weir")
		plain, want := groupOf(richNode(), OriginConfig{GroupBy: terms}, "weir")
		if key != plain || !proto.Equal(up, want) {
			t.Errorf("presented is %v, want %v", up, want)
		}
	}
}

// TestDedicated: the client's own node goes upstream, whole, but for the features of its connection (RELAY-29, FEAT-2, FEAT-6, V2-6).
func TestDedicated(t *testing.T) {
	r := newRig(t, Config{MaxGroups: 3, RetiredEntries: 10, RetiredBytes: 1 << 20, Origins: []OriginConfig{{Name: "mesh", GroupBy: []string{"cluster"}, NodeID: "fixed", NodeCluster: "fixed"}}})
	o, n := r.table.Origin("mesh"), richNode()
	n.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 5, protowire.BytesType), "v2-build"))
	want := proto.Clone(n).(*corev3.Node)
	want.ClientFeatures = slices.Sorted(slices.Values(append([]string{"a", "b"}, ownFeatures...)))
	var groups []*Group
	for range 2 {
		g, err := o.Dedicated(n)
		if err != nil {
			t.Fatal(err)
		}
		if groups = append(groups, g); !proto.Equal(g.node, want) || !g.Dedicated() {
			t.Errorf("presented is %v, want %v", g.node, want)
		}
	}
	if groups[0] == groups[1] || groups[0].Key() == groups[1].Key() {
		t.Error("two clients of one node have one group")
	}
	if _, err := o.Dedicated(nil); !errors.Is(err, ErrGroups) {
		t.Errorf("a fourth group: %v, want the limit's error (RELAY-67)", err)
	}
	if groups[0].Keeps(&corev3.Node{Id: "i"}) || !groups[0].Keeps(n) {
		t.Error("its dynamic parameters are presented, so a node with others is not that of the group")
	}
	if shared, clients := o.Sharing(); shared != 1 || clients != 1 {
		t.Errorf("%d groups of %d clients, want the rig's alone", shared, clients)
	}

	sub := groups[0].Open(NewSubscriber(), SubOptions{TypeURL: ClusterType, Delta: true})
	sub.Update(zero, []string{"a"}, nil)
	lane := groups[0].lanes[mainLane]
	lane.Open(zero, 0)
	lane.Take(zero, false)
	if _, ok := lane.Apply(zero, made(ClusterType, "1", nil, "a")); !ok {
		t.Fatal("never asked")
	}
	sub.Update(zero, []string{Wildcard}, nil)
	lane.Close()
	sub.Close(zero)
	if n, _ := r.table.Retired(); n > 0 {
		t.Error("what one client alone may see retires, and nobody can ask for it again")
	}
	groups[0].Release(zero)
	r.table.Advance(zero)
	for _, l := range o.TakeLanes() { // whoever ran them finds nothing to ask
		if l.Wanted() {
			t.Error("what a client alone may see lingers after it")
		}
		l.Release()
	}
	r.table.Advance(zero.Add(time.Second))
	if g, err := o.Dedicated(nil); err != nil {
		t.Errorf("the group lingers: %v", err)
	} else if len(g.node.ClientFeatures) != len(ownFeatures) || g.node.Id != "" {
		t.Errorf("presented of a client without a node is %v", g.node)
	}
}

// TestPrivateSetsDoNotRetire: neither does what one client alone may see of `*`, nor all secrets.
func TestPrivateSetsDoNotRetire(t *testing.T) {
	for name, c := range map[string]struct {
		dedicated bool
		typeURL   string
		retires   int
	}{"shared": {false, ClusterType, 1}, "dedicated": {true, ClusterType, 0}, "secrets": {false, SecretType, 0}} {
		r := newRig(t, Config{RetiredEntries: 10, RetiredBytes: 1 << 20})
		if c.dedicated {
			var err error
			if r.group, err = r.table.Origin("mesh").Dedicated(nil); err != nil {
				t.Fatal(err)
			}
		}
		sub := r.sub(c.typeURL, true, Wildcard)
		r.open()
		r.apply(made(c.typeURL, "1", nil, "a", "b"))
		r.table.Advance(zero.Add(time.Minute))
		sub.Close(zero.Add(time.Minute))
		r.table.Advance(zero.Add(time.Hour))
		for _, l := range r.group.lanes {
			l.Close()
		}
		if n, _ := r.table.Retired(); n != c.retires {
			t.Errorf("%s: %d sets retire, want %d", name, n, c.retires)
		}
	}
}

// TestSecretsDoNotLinger: they are dropped with their last subscriber, and pictures have their names alone (RELAY-75, RELAY-76).
func TestSecretsDoNotLinger(t *testing.T) {
	r := newRig(t, Config{RetiredEntries: 10, RetiredBytes: 1 << 20})
	named, set := r.sub(SecretType, true, "s"), r.sub(SecretType, true, Wildcard)
	r.open()
	side := r.group.lanes[sideLane]
	side.Open(zero, 0)
	side.Take(zero, false)
	r.apply(made(SecretType, "1", nil, "s"))
	if _, ok := side.Apply(zero, made(SecretType, "1", nil, "s")); !ok {
		t.Fatal("never asked")
	}
	n := 0
	r.table.Origin("mesh").Resources("", "", "", func(s ResourceStatus) bool {
		n++
		if s.Name != "s" || s.Version != "" || s.OriginVersion != "" || s.Bytes != 0 || s.Body != nil {
			t.Errorf("a picture tells of a secret more than its name: %+v", s)
		}
		return true
	})
	if n != 2 {
		t.Errorf("%d resources, want the member and the named one", n)
	}
	named.Close(zero)
	set.Close(zero)
	r.table.Advance(zero)
	if sh := r.group.shard(SecretType, constraints.Params{}); sh.star.wantedLocked() || sh.named.entries["s"].wanted() {
		t.Error("a secret is wanted upstream after its last subscriber")
	}
	side.Take(zero, false)
	for _, l := range r.group.lanes {
		l.Close()
	}
	if ts := r.table.Origin("mesh").Status()[0]; len(ts.Types) > 0 && ts.Types[0].Bodies > 0 {
		t.Errorf("%d secrets are held that nobody wants", ts.Types[0].Bodies)
	}
	if n, _ := r.table.Retired(); n > 0 {
		t.Error("secrets retire")
	}
}

// FuzzNode: whatever a client's node is, it has a group, whose key and node are those of the same node read again, and which presents
// nothing that this build does not know; a dedicated one presents all of it but features.
func FuzzNode(f *testing.F) {
	f.Add(mustMarshal(f, richNode()))
	f.Add(mustMarshal(f, relaytestNode()))
	strange := richNode()
	for _, m := range []proto.Message{strange, strange.Locality, strange.Metadata.Fields["a"]} {
		m.ProtoReflect().SetUnknown(unknownField("x"))
	}
	f.Add(mustMarshal(f, strange))
	f.Fuzz(func(t *testing.T, b []byte) {
		read := func(b []byte) *corev3.Node {
			n := &corev3.Node{}
			if proto.Unmarshal(b, n) != nil {
				t.Skip()
			}
			return n
		}
		n := read(b)
		again := read(mustMarshal(t, n))
		for _, cfg := range []OriginConfig{
			{},
			{GroupBy: groupTerms},
			{GroupBy: []string{"metadata.a"}},
			{GroupBy: groupTerms, TP2: true, FromNode: map[string]string{"x": "metadata.a.x", "z": "metadata.z", "none": "metadata.a.y.none"}},
		} {
			key, up := groupOf(n, cfg, "weir")
			other, same := groupOf(again, cfg, "weir")
			if key != other || !bytes.Equal(canonicalBytes(t, up), canonicalBytes(t, same)) {
				t.Errorf("%v: %s and %s of one node", cfg.GroupBy, key, other)
			}
			for _, field := range cfg.FromNode {
				if fieldOf(up, field) != nil {
					t.Errorf("%s is mapped, and presented: %v", field, up)
				}
			}
			if len(cfg.FromNode) > 0 {
				bare := proto.Clone(up).(*corev3.Node)
				bare.Id = n.GetId() // of the group's own node
				if restored, _ := groupOf(bare, cfg, "weir"); restored != key {
					t.Errorf("%s of what is presented for %s", restored, key)
				}
			}
			bare := &corev3.Node{}
			if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(mustMarshal(t, up), bare); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(canonicalBytes(t, up), canonicalBytes(t, bare)) {
				t.Errorf("%v: presented is what we do not know: %v", cfg.GroupBy, up)
			}
		}
		mine := dedicatedNode(n)
		mine.ClientFeatures, n.ClientFeatures = nil, nil
		if !bytes.Equal(canonicalBytes(t, mine), canonicalBytes(t, n)) {
			t.Errorf("presented is %v, want %v", mine, n)
		}
	})
}

// canonicalBytes compares messages that may hold NaN, which proto.Equal takes for different.
func canonicalBytes(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
