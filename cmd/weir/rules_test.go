package main

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestRulesAreServed: clients of each listener get what the rules of the file allow them there, by
// name and by `*`, also from the snapshot while the origin is away; who fits no rule is ended. Other
// rules end the streams of those who lose by them, and the rest go on.
func TestRulesAreServed(t *testing.T) {
	i := startIdentities(t, "group_by: [cluster]")
	socket := "unix://" + i.dir + "/s"
	rules := func(names string) string {
		return i.text("group_by: [cluster]") + fmt.Sprintf(`
authorization:
  - { who: ["subject:CN={name}"], listeners: ["127.0.0.1:0"], names: ["{name}-*", shared] }
  - { who: ["subject:CN=web"], names: [%s] }
  - { who: ["uid:{u}"], listeners: [%q], types: [cds] }
  - { who: ["anonymous"], listeners: ["127.0.0.1:0"] }
`, names, socket)
	}
	i.applied(rules("web-1"))
	for _, name := range []string{"web-1", "bill-1", "shared"} {
		i.origin.Set(relaytest.ClusterType, name, "1", relaytest.Cluster(name, time.Second))
	}
	serve := func(sentence, who string, dialect relaytest.Dialect, want ...string) *relaytest.Client {
		t.Helper()
		c := i.client(who, dialect)
		c.Request(relaytest.ClusterType)
		c.AwaitNames(relaytest.ClusterType, sentence, want...)
		return c
	}
	all := func(sentence string) (web, bill *relaytest.Client) {
		t.Helper()
		for _, dialect := range bothDialects {
			web = serve(sentence, "web", dialect, "shared", "web-1")
			bill = serve(sentence, "bill", dialect, "bill-1", "shared")
			serve(sentence, "uid", dialect, "bill-1", "shared", "web-1")
			// The listener that the third rule is for is another.
			c := i.client("anonymous", dialect)
			c.Request(relaytest.ClusterType)
			if code := c.AwaitEnd("no rule fits it"); code != codes.PermissionDenied {
				t.Errorf("a client that no rule fits ends with %s", code)
			}
		}
		return web, bill
	}
	web, bill := all("at first")
	if groups, _ := i.groups(); len(groups) != 1 {
		t.Errorf("%d groups, want one that all share", len(groups))
	}

	await(t, "what they have is on disk", func() bool { return snapshotOf(t, i.admin.listener.Addr().String()).Resources == 3 })
	i.applied(rules("web-1, bill-1"))
	if code := web.AwaitEnd("it may have more"); code != codes.Unavailable {
		t.Errorf("ended with %s", code)
	}
	serve("by the new rules", "web", relaytest.Delta, "bill-1", "shared", "web-1")
	i.origin.Set(relaytest.ClusterType, "bill-2", "1", relaytest.Cluster("bill-2", time.Second))
	bill.AwaitNames(relaytest.ClusterType, "its stream goes on", "bill-1", "bill-2", "shared")
	i.origin.Remove(relaytest.ClusterType, "bill-2")
	i.applied(rules("web-1"))

	await(t, "what they have is on disk", func() bool { return snapshotOf(t, i.admin.listener.Addr().String()).Resources == 3 })
	i.reloading.end()
	i.origin.Stop()
	i.begin(t)
	all("from the snapshot, with the origin away")
}
