package relay

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/weir-xds/weir/relay/xds"
)

const webID, billID = "spiffe://corp/ns/shop/sa/web", "spiffe://corp/ns/bill/sa/api"

// byIdentity is an origin with groups by identity and cluster.
func byIdentity(t *testing.T) (*Table, *Origin) {
	table, err := New(Config{Origins: []OriginConfig{{Name: "mesh", GroupBy: []string{"identity", "cluster"}}}})
	if err != nil {
		t.Fatal(err)
	}
	return table, table.Origin("mesh")
}

// TestGroupsByIdentity: clients of one node and two identities are in two groups, those of one
// identity in one, and a group shows whose it is.
func TestGroupsByIdentity(t *testing.T) {
	_, o := byIdentity(t)
	groups := map[*Group]string{}
	for _, who := range []string{webID, billID, "anonymous", webID, "anonymous"} {
		g, err := o.GroupFor(&corev3.Node{Id: "one", Cluster: "edge"}, who, who)
		if err != nil {
			t.Fatal(err)
		}
		if before, known := groups[g]; known && before != who {
			t.Errorf("%s and %s are in one group", who, before)
		}
		groups[g] = who
	}
	shown := map[string]int{}
	for _, v := range o.Groups() {
		shown[v.Identity] = v.Clients
		if f := v.Fields(); f["identity"] != v.Identity || f["cluster"] != "edge" {
			t.Errorf("%s: its fields are %v", v.Identity, f)
		}
	}
	if want := map[string]int{webID: 2, billID: 1, "anonymous": 2}; len(groups) != 3 || !maps.Equal(shown, want) {
		t.Errorf("groups with clients: %v, want %v", shown, want)
	}
}

// TestRestoredIdentity: a group that a snapshot gives back is that of the same identity alone. What
// was written before group_by had the identity, or with another, is refused, also where an id that
// is presented for all hides the rest of the key.
func TestRestoredIdentity(t *testing.T) {
	now := time.Unix(1e9, 0)
	node := &corev3.Node{Id: "one", Cluster: "edge"}
	from, o := byIdentity(t)
	for _, who := range []string{webID, "anonymous"} {
		g, err := o.GroupFor(node, who, nil)
		if err != nil {
			t.Fatal(err)
		}
		g.Open(NewSubscriber(), SubOptions{TypeURL: xds.ClusterType, Delta: true}).Update(now, []string{"*"}, nil)
	}
	var disk diskImages
	disk.snapshot(from, now)
	to, again := byIdentity(t)
	if problems := disk.restore(to, now); len(problems) > 0 {
		t.Fatal(problems)
	}
	for who, want := range map[string]bool{webID: true, "anonymous": true, billID: false, "": false} {
		before := len(again.groupList())
		g, err := again.GroupFor(node, who, nil)
		if err != nil {
			t.Fatal(err)
		}
		if restored := len(again.groupList()) == before; restored != want || g.identity != who {
			t.Errorf("%q has the restored group: %v, want %v", who, restored, want)
		}
	}

	image := slices.Collect(from.Images(func(*TypeImage) uint64 { return 0 }))[0]
	for name, change := range map[string]func(*OriginConfig, *TypeImage){
		"another identity":        func(_ *OriginConfig, x *TypeImage) { x.Identity = billID },
		"none in the file":        func(_ *OriginConfig, x *TypeImage) { x.Identity = "" },
		"no more in the key":      func(c *OriginConfig, _ *TypeImage) { c.GroupBy = []string{"cluster"} },
		"none, and a fixed node":  func(c *OriginConfig, x *TypeImage) { c.NodeCluster, x.Identity = "fixed", "" },
		"no more, and fixed node": func(c *OriginConfig, _ *TypeImage) { c.NodeCluster, c.GroupBy = "fixed", []string{"cluster"} },
	} {
		cfg, x := OriginConfig{Name: "mesh", GroupBy: []string{"identity", "cluster"}}, image
		change(&cfg, &x)
		table, err := New(Config{Origins: []OriginConfig{cfg}})
		if err != nil {
			t.Fatal(err)
		}
		if err := table.Restore(now, x); err == nil || !strings.Contains(err.Error(), "group_by, or what is mapped") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
