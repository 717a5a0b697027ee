package relay

import (
	"maps"
	"strings"
	"testing"

	xdsv3 "github.com/cncf/xds/go/xds/core/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/relay/xds"
)

// mapped is the map that a node has for clusters at an origin of TP2.
func mapped(t *testing.T, n *corev3.Node, fromNode map[string]string) map[string]string {
	t.Helper()
	r := newRig(t, Config{Origins: []OriginConfig{{Name: "mesh", TP2: true, FromNode: fromNode}}})
	return maps.Collect(r.table.Origin("mesh").Params(n, xds.ClusterType).All())
}

func metadataNode(t *testing.T, fields map[string]any) *corev3.Node {
	t.Helper()
	s, err := structpb.NewStruct(fields)
	if err != nil {
		t.Fatal(err)
	}
	return &corev3.Node{Id: "i", Cluster: "c", Metadata: s}
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
		xds.ClusterType: {Params: map[string]string{"env": "test", "zone": ""}}, xds.EndpointType: {Params: map[string]string{"env": "stage"}}, xds.ListenerType: nil,
	}
	r := newRig(t, Config{Origins: []OriginConfig{{Name: "mesh", TP2: true, FromNode: map[string]string{"env": "metadata.env"}}, {Name: "old"}}})
	o := r.table.Origin("mesh")
	for typeURL, want := range map[string]map[string]string{
		xds.ClusterType: {"env": "test", "zone": ""}, xds.EndpointType: {"env": "stage"}, xds.ListenerType: {"env": "prod"}, xds.RouteType: {"env": "prod"},
	} {
		if got := maps.Collect(o.Params(own, typeURL).All()); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v: the node's own parameters go over those mapped", typeURL, got, want)
		}
		if got := o.Params(o.ParamsNode(own), typeURL); got.Key() != o.Params(own, typeURL).Key() {
			t.Errorf("%s: %s of what is kept of the node", typeURL, got.Key())
		}
	}
	if old := r.table.Origin("old"); old.Params(own, xds.ClusterType).Len() > 0 || old.ParamsNode(own) != nil || old.TP2() {
		t.Error("an origin that does not understand them is to be sent parameters (DYN-17)")
	}
	if kept := o.ParamsNode(own); kept.Id != "" || len(kept.Metadata.Fields) != 1 || o.ParamsNode(nil).Metadata != nil {
		t.Errorf("kept is %v", kept)
	}
}

// TestUnfitParametersAreCounted, once for each client that joins.
func TestUnfitParametersAreCounted(t *testing.T) {
	reg := prometheus.NewRegistry()
	r := newRig(t, Config{Metrics: metrics.New(reg), Origins: []OriginConfig{{Name: "mesh", TP2: true, FromNode: map[string]string{"a": "metadata.a", "b": "metadata.b"}}}})
	o := r.table.Origin("mesh")
	n := metadataNode(t, map[string]any{"a": []any{}, "b": map[string]any{}})
	for _, join := range []func(*corev3.Node, string, any) (*Group, error){o.GroupFor, o.DedicatedFor} {
		if _, err := join(n, "", nil); err != nil {
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
		"all":                 {OriginConfig{TP2: true, FromNode: env, GroupBy: []string{"metadata"}}, ""},
		"ignored":             {OriginConfig{IgnoreParams: true}, ""},
		"ignored and tp2":     {OriginConfig{TP2: true, IgnoreParams: true}, "origins[0].dynamic_parameters.otherwise"},
		"mapped without tp2":  {OriginConfig{FromNode: env}, "origins[0].dynamic_parameters.from_node"},
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

// TestParametersAndGroups: where the origin understands parameters, those that a node names are in
// its group's key only if group_by says so; a change of them always changes what its names ask with
// (STREAM-4, RELAY-60).
func TestParametersAndGroups(t *testing.T) {
	for _, in := range []bool{false, true} {
		cfg := OriginConfig{Name: "mesh", TP2: true, GroupBy: []string{"cluster"}}
		if in {
			cfg.GroupBy = append(cfg.GroupBy, node.DynamicParameters)
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
		if o.Params(one, xds.ClusterType).Key() == o.Params(two, xds.ClusterType).Key() || o.Params(one, xds.EndpointType).Key() != o.Params(two, xds.EndpointType).Key() {
			t.Error("a change is to be seen for its type, and for no other")
		}
	}
}

// TestRestoredBeforeItWasMapped: a group that was written down when nothing was mapped presents
// what is mapped now, and no client comes to it any more.
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
		g.Open(NewSubscriber(), SubOptions{TypeURL: xds.ClusterType, Delta: true}).Update(zero, []string{"*"}, nil)
		var disk diskImages
		disk.snapshot(old.table, zero)
		if problems := disk.restore(newRig(t, Config{Origins: []OriginConfig{after}}).table, zero); len(problems) != c.problems {
			t.Errorf("%v: %v, want %d problems", c.fields, problems, c.problems)
		}
	}
}
