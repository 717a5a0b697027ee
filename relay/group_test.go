package relay

import (
	"errors"
	"testing"
	"time"

	xdsv3 "github.com/cncf/xds/go/xds/core/v3"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/relay/xds"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// TestDedicated: the client's own node goes upstream, whole, but for the features of its connection
// (RELAY-29, FEAT-2, FEAT-6, V2-6).
func TestDedicated(t *testing.T) {
	r := newRig(t, Config{MaxGroups: 3, RetiredEntries: 10, RetiredBytes: 1 << 20, Origins: []OriginConfig{{Name: "mesh", GroupBy: []string{"cluster"}, NodeID: "fixed", NodeCluster: "fixed"}}})
	o, n := r.table.Origin("mesh"), relaytestNode()
	n.ClientFeatures = []string{"b", "a", "a", "xds.config.supports-resource-ttl"}
	n.DynamicParameters = parameters("shard", "1")
	n.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 5, protowire.BytesType), "v2-build"))
	want := proto.Clone(n).(*corev3.Node)
	want.ClientFeatures = node.Rules{}.Dedicated(n, "").ClientFeatures
	var groups []*Group
	for range 2 {
		g, err := o.DedicatedFor(n, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		if groups = append(groups, g); !proto.Equal(g.node, want) || !g.dedicated {
			t.Errorf("presented is %v, want %v", g.node, want)
		}
	}
	if groups[0] == groups[1] || groups[0].Key() == groups[1].Key() {
		t.Error("two clients of one node have one group")
	}
	if _, err := o.DedicatedFor(nil, "", nil); !errors.Is(err, ErrGroups) {
		t.Errorf("a fourth group: %v, want the limit's error (RELAY-67)", err)
	}
	if groups[0].Keeps(&corev3.Node{Id: "i"}) || !groups[0].Keeps(n) {
		t.Error("its dynamic parameters are presented, so a node with others is not that of the group")
	}

	sub := groups[0].Open(NewSubscriber(), SubOptions{TypeURL: xds.ClusterType, Delta: true})
	sub.Update(zero, []string{"a"}, nil)
	lane := groups[0].lanes[mainLane]
	lane.Open(zero, 0)
	lane.Take(zero, false)
	if _, ok := lane.Apply(zero, made(xds.ClusterType, "1", nil, "a")); !ok {
		t.Fatal("never asked")
	}
	sub.Update(zero, []string{xds.Wildcard}, nil)
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
	if g, err := o.DedicatedFor(nil, "", nil); err != nil {
		t.Errorf("the group lingers: %v", err)
	} else if len(g.node.ClientFeatures) == 0 || g.node.Id != "" {
		t.Errorf("presented of a client without a node is %v", g.node)
	}
}

// TestPrivateSetsDoNotRetire: neither does what one client alone may see of `*`, nor all secrets.
func TestPrivateSetsDoNotRetire(t *testing.T) {
	for name, c := range map[string]struct {
		dedicated bool
		typeURL   string
		retires   int
	}{"shared": {false, xds.ClusterType, 1}, "dedicated": {true, xds.ClusterType, 0}, "secrets": {false, xds.SecretType, 0}} {
		r := newRig(t, Config{RetiredEntries: 10, RetiredBytes: 1 << 20})
		if c.dedicated {
			var err error
			if r.group, err = r.table.Origin("mesh").DedicatedFor(nil, "", nil); err != nil {
				t.Fatal(err)
			}
		}
		sub := r.sub(c.typeURL, true, xds.Wildcard)
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

// TestSecretsDoNotLinger: they are dropped with their last subscriber (RELAY-75).
func TestSecretsDoNotLinger(t *testing.T) {
	r := newRig(t, Config{RetiredEntries: 10, RetiredBytes: 1 << 20})
	named, set := r.sub(xds.SecretType, true, "s"), r.sub(xds.SecretType, true, xds.Wildcard)
	r.open()
	side := r.group.lanes[sideLane]
	side.Open(zero, 0)
	side.Take(zero, false)
	r.apply(made(xds.SecretType, "1", nil, "s"))
	if _, ok := side.Apply(zero, made(xds.SecretType, "1", nil, "s")); !ok {
		t.Fatal("never asked")
	}
	named.Close(zero)
	set.Close(zero)
	r.table.Advance(zero)
	if sh := r.group.shard(xds.SecretType, constraints.Params{}); sh.star.wanted() || sh.named.entries["s"].wanted() {
		t.Error("a secret is wanted upstream after its last subscriber")
	}
	side.Take(zero, false)
	for _, l := range r.group.lanes {
		l.Close()
	}
	if ts := statuses(r.table); len(ts) > 0 && ts[0].Bodies > 0 {
		t.Errorf("%d secrets are held that nobody wants", ts[0].Bodies)
	}
	if n, _ := r.table.Retired(); n > 0 {
		t.Error("secrets retire")
	}
}

// TestDynamicParametersInTheKey: where the key has them, they are presented as sent, and a member
// whose parameters change leaves its group; nothing else of a later node counts (STREAM-3,
// STREAM-4, RELAY-60, RELAY-62).
func TestDynamicParametersInTheKey(t *testing.T) {
	cfg := Config{Origins: []OriginConfig{{Name: "in", GroupBy: []string{"id", "dynamic_parameters"}}, {Name: "out", GroupBy: []string{"id"}}}}
	table, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	group := func(origin string, n *corev3.Node) *Group {
		g, err := table.Origin(origin).Group(n)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	one := &corev3.Node{Id: "i", DynamicParameters: parameters("shard", "1", "zone", "a")}
	again := &corev3.Node{Id: "i", DynamicParameters: parameters("zone", "a", "shard", "1")}
	in, out := group("in", one), group("out", one)
	if group("in", again) != in {
		t.Error("the order of parameters makes a group")
	}
	if !proto.Equal(&corev3.Node{DynamicParameters: in.node.DynamicParameters}, &corev3.Node{DynamicParameters: one.DynamicParameters}) {
		t.Errorf("presented are %v", in.node)
	}
	if out.node.DynamicParameters != nil {
		t.Errorf("they are not in the key, and presented: %v", out.node)
	}
	if !in.Keeps(again) || !in.Keeps(&corev3.Node{Id: "other", DynamicParameters: again.DynamicParameters}) {
		t.Error("a member leaves its group with the parameters it came with")
	}
	for name, n := range map[string]*corev3.Node{
		"another value":        {Id: "i", DynamicParameters: parameters("shard", "2", "zone", "a")},
		"one parameter less":   {Id: "i", DynamicParameters: parameters("shard", "1")},
		"one parameter more":   {Id: "i", DynamicParameters: parameters("shard", "1", "zone", "a", "x", "")},
		"none":                 {Id: "i"},
		"another type's":       {Id: "i", DynamicParameters: map[string]*xdsv3.ContextParams{xds.EndpointType: one.DynamicParameters[xds.ClusterType]}},
		"those of a type more": {Id: "i", DynamicParameters: map[string]*xdsv3.ContextParams{xds.ClusterType: one.DynamicParameters[xds.ClusterType], xds.EndpointType: {}}},
	} {
		if in.Keeps(n) || group("in", n) == in {
			t.Errorf("%s: still of the group", name)
		}
		if !out.Keeps(n) || group("out", n) != out {
			t.Errorf("%s: of another group, though the key has no parameters", name)
		}
	}
}

// parameters are those of clusters, in pairs of key and value.
func parameters(pairs ...string) map[string]*xdsv3.ContextParams {
	p := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		p[pairs[i]] = pairs[i+1]
	}
	return map[string]*xdsv3.ContextParams{xds.ClusterType: {Params: p}}
}
