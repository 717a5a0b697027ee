package main

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestDenialsAreTold: what clients are denied is on /authz, on the page, in weir authz denials, in
// /metrics and in the log, with who they are; and which rules are in force, also after a reload.
func TestDenialsAreTold(t *testing.T) {
	i := startIdentities(t, "group_by: [cluster]")
	rules := func(names string) string {
		return i.text("group_by: [cluster]") + fmt.Sprintf(`
authorization:
  - { who: ["subject:CN={name}"], names: ["{name}-*"] }
  - { who: ["subject:CN=bill"], names: [%s] }
`, names)
	}
	i.applied(rules("shared"))
	type seen struct {
		Rules struct {
			InForce int `json:"in_force"`
			Since   string
		}
		Decisions struct{ Allowed, Denied, Ended int }
		Denials   []struct {
			Result, Identity, Listener, Origin, Type, Name, Reason, Peer string
			NodeID                                                       string `json:"node_id"`
			Count                                                        int
		}
	}
	first := seen{}
	i.state("/authz", &first)
	if first.Rules.InForce != 2 || first.Rules.Since == "" || len(first.Denials) != 0 {
		t.Errorf("at first: %+v", first)
	}
	for _, dialect := range bothDialects {
		c := i.client("web", dialect)
		c.Subscribe(relaytest.ClusterType, "web-1", "shared")
		c = i.client("anonymous", dialect)
		c.Request(relaytest.ClusterType)
		if code := c.AwaitEnd("no rule fits it"); code != codes.PermissionDenied {
			t.Errorf("it ends with %s", code)
		}
	}
	var now seen
	await(t, "all is counted", func() bool {
		now = seen{}
		i.state("/authz", &now)
		return now.Decisions.Denied == 2 && now.Decisions.Ended == 2 && now.Decisions.Allowed == 4
	})
	if len(now.Denials) != 2 {
		t.Fatalf("%+v", now)
	}
	for _, d := range now.Denials {
		want := "ended anonymous 127.0.0.2:0    no rule is for the identity at this listener 2"
		if d.Result == "denied" {
			want = "denied subject:CN=web 127.0.0.1:0 mesh cds shared no rule allows the name 2"
		}
		if got := fmt.Sprint(strings.Join([]string{d.Result, d.Identity, d.Listener, d.Origin, d.Type, d.Name, d.Reason}, " "), " ", d.Count); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		// Nothing is read of a client that no rule is for, its node included.
		if named := strings.HasPrefix(d.NodeID, "client-"); named != (d.Result == "denied") || !strings.HasPrefix(d.Peer, "127.0.0.1:") {
			t.Errorf("%s of %q at %q", d.Result, d.NodeID, d.Peer)
		}
	}
	port := i.admin.listener.Addr().String()
	code, stdout, stderr := weir(t, "authz", "denials", "--admin", port, "--identity", "subject:*", "--result", "denied")
	for _, part := range []string{"rules in force: 2 since ", "; 4 allowed, 2 denied, 2 streams ended\n", " subject:CN=web ", " shared ", " no rule allows the name\n"} {
		if !strings.Contains(stdout, part) {
			t.Errorf("no %q in\n%s", part, stdout)
		}
	}
	if code != exitOK || stderr != "" || strings.Contains(stdout, "anonymous") {
		t.Errorf("%d, %q in\n%s", code, stderr, stdout)
	}
	if _, stdout, _ := weir(t, "authz", "denials", "--admin", port, "--limit", "1"); !strings.Contains(stdout, "and 1 more") {
		t.Errorf("limited:\n%s", stdout)
	}
	for flags, want := range map[string]int{"--result allowed": exitUsage, "-o csv": exitUsage} {
		if code, _, stderr := weir(t, append([]string{"authz", "denials", "--admin", port}, strings.Fields(flags)...)...); code != want {
			t.Errorf("%s: %d, %q", flags, code, stderr)
		}
	}
	if _, body := i.get("/metrics"); !strings.Contains(body, `weir_authz_decisions_total{result="denied"} 2`) {
		t.Error("the metric does not count them")
	}
	if _, body := i.get("/authz?limit=50"); !strings.Contains(body, "subject:CN=web") || !strings.Contains(body, `"ended": 2`) {
		t.Errorf("the page does not show it:\n%s", body)
	}
	if n := i.logs.FilterMessageSnippet("rules of authorization").Len(); n != 4 {
		t.Errorf("%d lines of log", n)
	}
	i.applied(rules("shared, also"))
	i.state("/authz", &now)
	if now.Rules.Since == first.Rules.Since || now.Decisions.Denied < 2 {
		t.Errorf("after a reload: %+v, at first %+v", now, first)
	}
}
