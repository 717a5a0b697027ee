package relay

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/node"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/structpb"
)

// sidecarOf is the node of a proxy of istio's in a namespace.
func sidecarOf(name, namespace string) *corev3.Node {
	return &corev3.Node{
		Id: "sidecar~10.0.0.1~" + name + "." + namespace + "~" + namespace + ".svc.cluster.local", Cluster: "web",
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"NAMESPACE": structpb.NewStringValue(namespace)}},
	}
}

// differs is what the only group of an origin shows.
func differs(t *testing.T, o *Origin) string {
	t.Helper()
	groups := o.Groups()
	if len(groups) != 1 {
		t.Fatalf("%d groups, want 1", len(groups))
	}
	var all []string
	for _, d := range groups[0].Differing() {
		all = append(all, fmt.Sprintf("%s: %s of %s, %s of %s", d.Field, d.Values[0], d.IDs[0], d.Values[1], d.IDs[1]))
	}
	return strings.Join(all, "; ")
}

// TestDiffering: a field that control planes tailor by, that is not in the key, and in which two
// members of a group differ, is shown, with the first two values and a member of each.
func TestDiffering(t *testing.T) {
	enter := func(o *Origin, nodes ...*corev3.Node) {
		for _, n := range nodes {
			if _, err := o.Group(n); err != nil {
				t.Fatal(err)
			}
		}
	}
	const want = "metadata.NAMESPACE: shop of sidecar~10.0.0.1~web-0.shop~shop.svc.cluster.local, " +
		"bill of sidecar~10.0.0.1~web-0.bill~bill.svc.cluster.local"
	for _, c := range []struct {
		story string
		cfg   OriginConfig
		nodes []*corev3.Node
		want  string
	}{
		{"two namespaces", OriginConfig{GroupBy: []string{"cluster"}}, []*corev3.Node{sidecarOf("web-0", "shop"), sidecarOf("web-0", "bill"), sidecarOf("web-0", "pay")}, want},
		{"in one group for all", OriginConfig{}, []*corev3.Node{sidecarOf("web-0", "shop"), sidecarOf("web-0", "bill")}, want},
		{"one namespace", OriginConfig{GroupBy: []string{"cluster"}}, []*corev3.Node{sidecarOf("web-0", "shop"), sidecarOf("web-1", "shop")}, ""},
		{"who lacks the field has no value", OriginConfig{GroupBy: []string{"cluster"}}, []*corev3.Node{sidecarOf("web-0", "shop"), {Id: "x", Cluster: "web"}}, ""},
		{"answers that depend on no node", OriginConfig{Untailored: true}, []*corev3.Node{sidecarOf("web-0", "shop"), sidecarOf("web-0", "bill")}, ""},
		{
			"a field that is a parameter",
			OriginConfig{TP2: true, FromNode: map[string]string{"ns": "metadata.NAMESPACE"}},
			[]*corev3.Node{sidecarOf("web-0", "shop"), sidecarOf("web-0", "bill")},
			"",
		},
	} {
		c.cfg.Name = "mesh"
		table, err := New(Config{Origins: []OriginConfig{c.cfg}})
		if err != nil {
			t.Fatal(err)
		}
		o := table.Origin("mesh")
		enter(o, c.nodes...)
		if _, err := o.DedicatedFor(sidecarOf("web-0", "other"), "", nil); err != nil {
			t.Fatal(err)
		}
		delete(o.groups, "dedicated-1")
		if got := differs(t, o); got != c.want {
			t.Errorf("%s: got %s, want %s", c.story, got, c.want)
		}
	}
}

// TestDifferingIsBounded: whatever clients come with, and however many at once, a group keeps two
// short values of a field, which differ.
func TestDifferingIsBounded(t *testing.T) {
	var w watched
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 200 {
				n := sidecarOf("web-0", strings.Repeat(fmt.Sprint(i, j), 1000))
				values := node.Rules{GroupBy: []string{"cluster"}}.Watched(n)
				w.note(&values, n.Id)
			}
		})
	}
	all.Wait()
	d := w.differing()
	if len(d) != 1 || d[0].Values[0] == d[0].Values[1] || len(w.agreed()) != 1 { // the node type is one
		t.Fatalf("differing: %+v, agreed: %v", d, w.agreed())
	}
	for _, s := range append(d[0].Values[:], d[0].IDs[:]...) {
		if s == "" || len(s) > 64 {
			t.Errorf("%d bytes are kept", len(s))
		}
	}
}

// TestWatchedFieldsAreLabels: each watched field is a label value of the metric.
func TestWatchedFieldsAreLabels(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	byField := map[string]int{}
	for _, field := range node.WatchedFields() {
		byField[field] = 1
	}
	metrics.New(reg).Gauges(func() metrics.Picture {
		return metrics.Picture{Origins: []metrics.OriginPicture{{Origin: "mesh", Differing: byField}}}
	})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "weir_groups_differing" {
			continue
		}
		for _, m := range family.Metric {
			for _, l := range m.Label {
				if l.GetName() == "field" {
					delete(byField, l.GetValue())
				}
			}
		}
	}
	if len(byField) > 0 {
		t.Errorf("no labels: %v", byField)
	}
}

// BenchmarkWatched is what a client costs more when it comes: its labels are looked at.
func BenchmarkWatched(b *testing.B) {
	labels := map[string]any{}
	for i := range 10 {
		labels[fmt.Sprint("app.kubernetes.io/label-", i)] = "a value of the usual length"
	}
	s, err := structpb.NewStruct(labels)
	if err != nil {
		b.Fatal(err)
	}
	n := sidecarOf("web-0", "shop")
	n.Metadata.Fields["LABELS"] = structpb.NewStructValue(s)
	rules := node.Rules{GroupBy: []string{"cluster"}}
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		var w watched
		for p.Next() {
			values := rules.Watched(n)
			w.note(&values, n.Id)
		}
	})
}
