package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var groupCrowdCases = []testCase{
	{
		"RELAY-60 RELAY-62", "a thousand nodes in twenty groups: twenty lanes, whose ids are those of a replica and of a restart, and no member's metadata",
		groupCrowd,
	},
}

const (
	crowdNodes  = 1000
	crowdGroups = 20
)

// tenants are what the origin saw of the streams from n on: the node id of each group, by what
// makes the group.
func (w *world) tenants(from int) map[string]string {
	w.t.Helper()
	ids := map[string]string{}
	for _, n := range w.nodes()[from:] {
		tenant := n.GetMetadata().GetFields()["tenant"].GetStringValue()
		if _, twice := ids[tenant]; twice || len(n.GetMetadata().GetFields()) != 1 || n.Cluster != "edge" {
			w.t.Errorf("a lane of %q more than one, or with more of its members: %v", tenant, n)
		}
		ids[tenant] = n.Id
	}
	return ids
}

func groupCrowd(t *testing.T) {
	w := start(t, setup{config: func(c weirtest.Config) { c.Origin().Set("group_by", []any{"cluster", "metadata.tenant"}) }})
	w.origin.Put(cds, cdsAt("a", 1))
	crowd := func(p *weirtest.Process, nodes int) (clients []*relaytest.Client) {
		var conn *grpc.ClientConn
		for i := range nodes {
			if i%100 == 0 { // limits.streams_per_connection
				conn = weirtest.Connect(t, p.Addr)
			}
			c := newClient(t, conn, relaytest.ClientConfig{Dialect: []relaytest.Dialect{relaytest.Delta, relaytest.SotW}[i/crowdGroups%2]})
			c.Open(pod(t, fmt.Sprint("pod-", i), "edge", map[string]any{"tenant": fmt.Sprint("t", i%crowdGroups), "pod": fmt.Sprint("pod-", i)}))
			c.Subscribe(cds, "*")
			clients = append(clients, c)
		}
		for _, c := range clients {
			c.AwaitNames(cds, "every node is served", "a")
		}
		return clients
	}
	clients := crowd(w.weir, crowdNodes)
	ids := w.tenants(0)
	if len(ids) != crowdGroups || len(slices.Compact(slices.Sorted(maps.Values(ids)))) != crowdGroups {
		t.Fatalf("%d groups, with the ids %v; want %d", len(ids), ids, crowdGroups)
	}
	w.origin.Put(cds, cdsAt("a", 2))
	for _, c := range clients {
		c.Await(0, func(s *relaytest.State) bool { return s.Body(cds, "a") == string(cdsAt("a", 2).Body.Value) }, "and gets what changes")
		c.CheckClean()
	}
	if n := len(w.origin.Streams()); n != crowdGroups {
		t.Errorf("the origin sees %d streams, want %d", n, crowdGroups)
	}
	w.crowdAdmin(ids)

	again := func(name string, p *weirtest.Process) {
		t.Helper()
		from := len(w.nodes())
		crowd(p, 2*crowdGroups)
		if got := w.tenants(from); !maps.Equal(got, ids) {
			t.Errorf("%s presents %v, want %v", name, got, ids)
		}
	}
	file := weirtest.NewConfig(w.origin.Net().Addr(), relaytest.Delta)
	file.Origin().Set("group_by", []any{"cluster", "metadata.tenant"})
	replica := weirtest.Start(t, file)
	again("a replica", replica)
	replica.Stop()
	again("the replica started anew", weirtest.Start(t, file))
	if w.sees("pod-") {
		t.Error("a member's id or metadata is sent upstream")
	}
}

// crowdAdmin compares what weir tells of its groups with what the origin saw.
func (w *world) crowdAdmin(ids map[string]string) {
	w.t.Helper()
	body, err := weirtest.Fetch("http://" + w.weir.Admin + "/groups")
	if err != nil {
		w.t.Fatal(err)
	}
	var page struct {
		Groups []struct {
			Key       string
			Clients   int
			NodeID    string `json:"node_id"`
			Dedicated bool
			Node      struct{ Metadata map[string]any }
			Main      struct{ Wanted, Open bool } `json:"main_lane"`
			Side      struct{ Wanted, Open bool } `json:"side_lane"`
		}
	}
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		w.t.Fatal(err)
	}
	if len(page.Groups) != len(ids) {
		w.t.Errorf("/groups has %d, want %d", len(page.Groups), len(ids))
	}
	for _, g := range page.Groups {
		tenant := fmt.Sprint(g.Node.Metadata["tenant"])
		if g.NodeID != ids[tenant] || !strings.HasSuffix(g.NodeID, "/"+g.Key) || g.Clients != crowdNodes/crowdGroups || g.Dedicated || !g.Main.Open || g.Side.Wanted {
			w.t.Errorf("/groups says %+v of %s, whose id is %s", g, tenant, ids[tenant])
		}
	}
}
