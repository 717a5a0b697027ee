package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestTiersAreOneGroup: to people a group with canaries is one, which has what the origin says, and
// the lists that have its tiers say which is which. Its key, or the beginning of it, means all of
// them.
func TestTiersAreOneGroup(t *testing.T) {
	t.Parallel()
	w := newCanaryWorld(t, relaytest.Delta, ", acks: 9", "")
	w.phase("idle")
	w.set("a", 2)
	w.phase("baking")
	w.has(w.clients.canaries, 2, "it is tried")
	key := w.gate().Group

	var origins struct {
		Origins []admin.Origin `json:"origins"`
	}
	w.weir.state("/origins", &origins)
	if o := origins.Origins[0]; o.Groups != 1 || o.Resources != 2 || o.Stale != 0 || o.FrozenChanges != 0 || o.Views != 2 {
		t.Errorf("%d groups, %d resources, %d stale, %d changes frozen, %d views", o.Groups, o.Resources, o.Stale, o.FrozenChanges, o.Views)
	}
	var groups struct {
		Groups []struct {
			Key     string `json:"key"`
			Tier    string `json:"tier"`
			Clients int    `json:"clients"`
		} `json:"groups"`
	}
	w.weir.state("/groups", &groups)
	if got, want := fmt.Sprint(groups.Groups), fmt.Sprintf("[{%s newest 0} {%[1]s-canary canary 2} {%[1]s-rest rest 2}]", key); got != want {
		t.Errorf("/groups has %s, want %s", got, want)
	}
	table := w.weir.says(exitOK, "", "status")
	if lines := regexp.MustCompile(`(?m)^`+key[:8]+` .*$`).FindAllString(table, -1); len(lines) != 1 || !regexp.MustCompile(` 4 +2 +0 +0 +2 *$`).MatchString(lines[0]) {
		t.Errorf("the groups of weir status are %q, in\n%s", lines, table)
	}
	states := w.weir.says(exitOK, "", "history", "mesh", "--states", "--group", key[:8])
	for _, tier := range []string{"canary", "rest"} {
		if !strings.Contains(states, "\n"+key[:8]+"-"+tier+" ") {
			t.Errorf("no states of %s:\n%s", tier, states)
		}
	}
	if strings.Contains(states, "\n"+key[:8]+" ") {
		t.Errorf("there are states that no client has:\n%s", states)
	}
	if changes := w.weir.says(exitOK, "", "history", "mesh"); !strings.Contains(changes, " "+key[:8]+"-canary ") {
		t.Errorf("a change does not say of which tier it is:\n%s", changes)
	}
	for _, group := range []string{"group=ffffff", "group=" + key[:4]} {
		if code, said := w.act("stop&" + group); code != http.StatusConflict || !strings.Contains(said, "no group") {
			t.Errorf("%s: %d %s", group, code, said)
		}
	}
	for _, x := range []struct{ action, group string }{{"stop", key[:6]}, {"retry", key + "-rest"}} {
		if code, said := w.act(x.action + "&group=" + x.group); code != http.StatusOK || !strings.Contains(said, key) {
			t.Errorf("%s: %d %s", x.action, code, said)
		}
	}
}
