package relay

import (
	"maps"
	"math"
	"strings"
	"testing"

	xdsv3 "github.com/cncf/xds/go/xds/core/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-xds/weir/metrics"
)

// mapped is the map that a node has for clusters at an origin of TP2.
func mapped(t *testing.T, n *corev3.Node, fromNode map[string]string) map[string]string {
	t.Helper()
	r := newRig(t, Config{Origins: []OriginConfig{{Name: "mesh", TP2: true, FromNode: fromNode}}})
	return maps.Collect(r.table.Origin("mesh").Params(n, ClusterType).All())
}

func metadataNode(t *testing.T, fields map[string]any) *corev3.Node {
	t.Helper()
	s, err := structpb.NewStruct(fields)
	if err != nil {
		t.Fatal(err)
	}
	return &corev3.Node{Id: "i", Cluster: "c", Metadata: s}
}

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
		got := mapped(t, n, fields)
		want := map[string]string{"e": c.want}
		if c.none {
			want = map[string]string{}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%v: %v, want %v", c.value, got, want)
		}
		if got := unfit(n, fields); got != c.unfit {
			t.Errorf("%v: %d fields are unfit, want %d", c.value, got, c.unfit)
		}
		if rest := unmapped(n, fields); len(rest.Metadata.GetFields()) > 0 {
			t.Errorf("%v: the mapped field stays in the group's key (RELAY-64)", c.value)
		}
	}
}

// TestParams: which fields and parameters make the map, and where there is none.
func TestParams(t *testing.T) {
	n := metadataNode(t, map[string]any{"env": "prod", "app": map[string]any{"shard": 2, "deep": map[string]any{"on": true}}, "text": "x"})
	fields := map[string]string{"env": "metadata.env", "shard": "metadata.app.shard", "on": "metadata.app.deep.on", "also": "metadata.env"}
	all := map[string]string{"env": "prod", "shard": "2", "on": "true", "also": "prod"}
	for name, c := range map[string]struct {
		node   *corev3.Node
		fields map[string]string
		want   map[string]string
	}{
		"nested fields, and one twice": {n, fields, all},
		"missing at each depth": {n, map[string]string{
			"a": "metadata.none", "b": "metadata.app.none", "c": "metadata.none.none", "d": "metadata.text.none", "e": "metadata.app.deep.on.none",
		}, nil},
		"no metadata":       {&corev3.Node{Id: "i"}, fields, nil},
		"no node":           {nil, fields, nil},
		"nothing is mapped": {n, nil, nil},
	} {
		if got := mapped(t, c.node, c.fields); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}

	own := proto.Clone(n).(*corev3.Node)
	own.DynamicParameters = map[string]*xdsv3.ContextParams{
		ClusterType: {Params: map[string]string{"env": "test", "zone": ""}}, EndpointType: {Params: map[string]string{"env": "stage"}}, ListenerType: nil,
	}
	r := newRig(t, Config{Origins: []OriginConfig{{Name: "mesh", TP2: true, FromNode: map[string]string{"env": "metadata.env"}}, {Name: "old"}}})
	o := r.table.Origin("mesh")
	for typeURL, want := range map[string]map[string]string{
		ClusterType: {"env": "test", "zone": ""}, EndpointType: {"env": "stage"}, ListenerType: {"env": "prod"}, RouteType: {"env": "prod"},
	} {
		if got := maps.Collect(o.Params(own, typeURL).All()); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v: the node's own parameters go over those mapped", typeURL, got, want)
		}
		if got := o.Params(o.ParamsNode(own), typeURL); got.Key() != o.Params(own, typeURL).Key() {
			t.Errorf("%s: %s of what is kept of the node", typeURL, got.Key())
		}
	}
	if old := r.table.Origin("old"); old.Params(own, ClusterType).Len() > 0 || old.ParamsNode(own) != nil || old.TP2() {
		t.Error("an origin that does not understand them is to be sent parameters (DYN-17)")
	}
	if kept := o.ParamsNode(own); kept.Id != "" || len(kept.Metadata.Fields) != 1 || o.ParamsNode(nil).Metadata != nil {
		t.Errorf("kept is %v", kept)
	}
}

// TestMappedFieldsLeaveTheGroup: clients that differ in mapped fields alone are one group, whose node has none of them (RELAY-64).
func TestMappedFieldsLeaveTheGroup(t *testing.T) {
	fields := map[string]string{"env": "metadata.env", "shard": "metadata.app.shard", "on": "metadata.app.deep.on"}
	for _, terms := range []string{"cluster metadata", "cluster metadata.app metadata.k"} {
		cfg := OriginConfig{TP2: true, FromNode: fields, GroupBy: strings.Fields(terms)}
		base, up := groupOf(metadataNode(t, map[string]any{"k": "v"}), cfg, "weir")
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
			key, node := groupOf(whole, cfg, "weir")
			if key != base || !proto.Equal(node, up) {
				t.Errorf("%s, %s: another group, presented as %v, want %v", terms, name, node, up)
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
			if key, _ := groupOf(metadataNode(t, n), cfg, "weir"); key == base {
				t.Errorf("%s, %s: the same group", terms, name)
			}
		}
		// A group that is restored has what it presented.
		n := metadataNode(t, map[string]any{"k": "v", "env": "prod", "app": map[string]any{"shard": 2, "tier": 1}})
		key, node := groupOf(n, cfg, "weir")
		if again, _ := groupOf(&corev3.Node{Cluster: node.Cluster, Metadata: node.Metadata}, cfg, "weir"); again != key {
			t.Errorf("%s: the key of what is presented is another", terms)
		}
	}
}

// TestUnfitParametersAreCounted, once for each client that joins.
func TestUnfitParametersAreCounted(t *testing.T) {
	reg := prometheus.NewRegistry()
	r := newRig(t, Config{Metrics: metrics.New(reg), Origins: []OriginConfig{{Name: "mesh", TP2: true, FromNode: map[string]string{"a": "metadata.a", "b": "metadata.b"}}}})
	o := r.table.Origin("mesh")
	n := metadataNode(t, map[string]any{"a": []any{}, "b": map[string]any{}})
	for _, join := range []func(*corev3.Node) (*Group, error){o.Group, o.Dedicated} {
		if _, err := join(n); err != nil {
			t.Fatal(err)
		}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "weir_unfit_parameters_total" {
			if got := f.GetMetric()[0].GetCounter().GetValue(); got != 4 {
				t.Errorf("%v are counted, want 2 for each of two clients", got)
			}
			return
		}
	}
	t.Error("nothing is counted")
}

// TestSettingsOfParameters: those that do not go together are refused.
func TestSettingsOfParameters(t *testing.T) {
	env := map[string]string{"env": "metadata.env"}
	for name, c := range map[string]struct {
		origin OriginConfig
		want   string
	}{
		"all":                 {OriginConfig{TP2: true, FromNode: env, Share: true, GroupBy: []string{"metadata"}}, ""},
		"ignored":             {OriginConfig{IgnoreParams: true}, ""},
		"ignored and tp2":     {OriginConfig{TP2: true, IgnoreParams: true}, "origins[0].dynamic_parameters.otherwise"},
		"mapped without tp2":  {OriginConfig{FromNode: env}, "origins[0].dynamic_parameters.from_node"},
		"share without tp2":   {OriginConfig{Share: true}, "origins[0].share"},
		"mapped and grouped":  {OriginConfig{TP2: true, FromNode: env, GroupBy: []string{"metadata.env"}}, "origins[0].dynamic_parameters.from_node"},
		"no path":             {OriginConfig{TP2: true, FromNode: map[string]string{"env": "metadata."}}, "is not metadata.PATH"},
		"an empty step":       {OriginConfig{TP2: true, FromNode: map[string]string{"env": "metadata.a..b"}}, "is not metadata.PATH"},
		"not of the metadata": {OriginConfig{TP2: true, FromNode: map[string]string{"env": "cluster"}}, "is not metadata.PATH"},
		"no parameter":        {OriginConfig{TP2: true, FromNode: map[string]string{"": "metadata.env"}}, "is not metadata.PATH"},
	} {
		c.origin.Name = "mesh"
		_, err := New(Config{Origins: []OriginConfig{c.origin}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestParametersAndGroups: where the origin understands parameters, those that a node names are in its group's key only if group_by says
// so; a change of them always changes what its names ask with (STREAM-4, RELAY-60).
func TestParametersAndGroups(t *testing.T) {
	for _, in := range []bool{false, true} {
		cfg := OriginConfig{Name: "mesh", TP2: true, GroupBy: []string{"cluster"}}
		if in {
			cfg.GroupBy = append(cfg.GroupBy, dynamicParameters)
		}
		r := newRig(t, Config{Origins: []OriginConfig{cfg}})
		o := r.table.Origin("mesh")
		one := &corev3.Node{Cluster: "c", DynamicParameters: parameters("shard", "1")}
		two := &corev3.Node{Cluster: "c", DynamicParameters: parameters("shard", "2")}
		g, err := o.Group(one)
		if err != nil {
			t.Fatal(err)
		}
		other, err := o.Group(two)
		if err != nil {
			t.Fatal(err)
		}
		if (g != other) != in || g.Keeps(two) == in {
			t.Errorf("in the key: %v; another group: %v, stays: %v", in, g != other, g.Keeps(two))
		}
		if presented := len(g.node.DynamicParameters) > 0; presented != in {
			t.Errorf("in the key: %v, presented upstream: %v", in, presented)
		}
		if o.Params(one, ClusterType).Key() == o.Params(two, ClusterType).Key() || o.Params(one, EndpointType).Key() != o.Params(two, EndpointType).Key() {
			t.Error("a change is to be seen for its type, and for no other")
		}
	}
}

// TestRestoredBeforeItWasMapped: a group that was written down when nothing was mapped presents what is mapped now, and no client comes
// to it any more.
func TestRestoredBeforeItWasMapped(t *testing.T) {
	before, after := OriginConfig{Name: "mesh", GroupBy: []string{"metadata"}}, OriginConfig{Name: "mesh", GroupBy: []string{"metadata"}}
	after.TP2, after.FromNode = true, map[string]string{"env": "metadata.env"}
	for _, c := range []struct {
		fields   map[string]any
		problems int
	}{{map[string]any{"env": "prod", "app": "shop"}, 1}, {map[string]any{"app": "shop"}, 0}} {
		old := newRig(t, Config{Origins: []OriginConfig{before}})
		g, err := old.table.Origin("mesh").Group(metadataNode(t, c.fields))
		if err != nil {
			t.Fatal(err)
		}
		g.Open(NewSubscriber(), SubOptions{TypeURL: ClusterType, Delta: true}).Update(zero, []string{"*"}, nil)
		var disk diskImages
		disk.snapshot(old.table, zero)
		if problems := disk.restore(newRig(t, Config{Origins: []OriginConfig{after}}).table, zero); len(problems) != c.problems {
			t.Errorf("%v: %v, want %d problems", c.fields, problems, c.problems)
		}
	}
}
