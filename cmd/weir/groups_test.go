package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"

	"google.golang.org/protobuf/types/known/structpb"
)

// TestGroupsSuggest: an operator whose clients' addresses are in their metadata is told that the
// groups are answered alike, and which group_by would make one of them.
func TestGroupsSuggest(t *testing.T) {
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	origin.Set(relaytest.ClusterType, "a", "1", relaytest.Cluster("a", time.Second))
	w := startWeir(t, freePorts+controlPlane(origin.Net().Addr()))
	for i := range 3 {
		c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
		n := relaytest.Node(fmt.Sprint("node-", i), "edge")
		n.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{
			"INSTANCE_IP": structpb.NewStringValue(fmt.Sprint("10.0.0.", i)), "TEAM": structpb.NewStringValue("web"),
		}}
		c.Open(n)
		c.Request(relaytest.ClusterType)
		c.AwaitNames(relaytest.ClusterType, "the cluster arrives", "a")
	}
	port := w.admin.listener.Addr().String()
	await(t, "the sets have settled", func() bool {
		_, body := w.get("/groups/suggest")
		return strings.Contains(body, `"compared": 3`)
	})
	code, stdout, stderr := weir(t, "groups", "suggest", "--admin", port)
	if code != exitOK {
		t.Fatalf("exit status %d: %s", code, stderr)
	}
	for _, part := range []string{
		"origin mesh: 3 groups, 3 of them answered; group_by: [cluster, locality, user_agent_name, client_features, metadata]\n",
		"metadata.INSTANCE_IP  3 values  made no difference: without it, 2 groups fewer\n",
		"metadata.TEAM         1 value   no evidence: no two groups differ in it alone\n",
		"group_by: [client_features, cluster, locality, metadata.TEAM, user_agent_name]   # 1 group instead of 3, if the origin goes on as it did\n",
	} {
		if !strings.Contains(stdout, part) {
			t.Errorf("no %q in\n%s", part, stdout)
		}
	}
	if code, stdout, _ := weir(t, "groups", "suggest", "--admin", port, "--origin", "mesh", "-o", "json"); code != exitOK || !strings.Contains(stdout, `"no_difference"`) {
		t.Errorf("as JSON: %d\n%s", code, stdout)
	}
	if code, _, stderr := weir(t, "groups", "suggest", "--admin", port, "-o", "csv"); code != exitUsage {
		t.Errorf("as CSV: %d: %s", code, stderr)
	}
}

// TestGroupsThatDiffer: two namespaces that are one group, and are given one answer, are warned of
// wherever groups are shown.
func TestGroupsThatDiffer(t *testing.T) {
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	origin.Set(relaytest.ClusterType, "a", "1", relaytest.Cluster("a", time.Second))
	w := startWeir(t, freePorts+strings.Replace(controlPlane(origin.Net().Addr()), "{ ", "{ group_by: [cluster], ", 1))
	for _, namespace := range []string{"shop", "bill"} {
		c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
		n := relaytest.Node("of "+namespace, "edge")
		n.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"NAMESPACE": structpb.NewStringValue(namespace)}}
		c.Open(n)
		c.Request(relaytest.ClusterType)
		c.AwaitNames(relaytest.ClusterType, "the cluster arrives", "a")
	}
	for path, part := range map[string]string{
		"/groups":                          `"field": "metadata.NAMESPACE"`,
		"/groups/suggest":                  `"tailored": false`,
		"/origins":                         `"differing_groups": 1`,
		"/overview":                        `"differing_groups": 1`,
		"/groups?origin=mesh&limit=100000": `"shop",`,
		"/metrics":                         `weir_groups_differing{field="metadata.NAMESPACE",origin="mesh"} 1`,
	} {
		await(t, path+" has "+part, func() bool {
			_, body := w.get(path)
			return strings.Contains(body, part)
		})
	}
	port := w.admin.listener.Addr().String()
	for _, c := range []struct{ command, part string }{
		{"groups suggest", `  WARNING: metadata.NAMESPACE is not in the key, and members of 1 group differ in it: "shop" (of shop) and "bill" (of bill) in group `},
		{"status", "MEMBERS DIFFER IN\n"},
		{"status", "  metadata.NAMESPACE\n"},
	} {
		if code, stdout, stderr := weir(t, append(strings.Fields(c.command), "--admin", port)...); code != exitOK || !strings.Contains(stdout, c.part) {
			t.Errorf("weir %s: exit status %d, no %q in\n%s%s", c.command, code, c.part, stdout, stderr)
		}
	}
}
