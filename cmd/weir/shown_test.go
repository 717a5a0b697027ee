package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestRollbackIsTold: whoever looks at a weir that is rolled back is told by whom and to what, and
// what ends it: the headline, the metrics, the list of clients, and the explanation of one.
func TestRollbackIsTold(t *testing.T) {
	r := startRolling(t, relaytest.Delta, "")
	key := r.keyOf("edge")
	r.says(exitOK, "held at state", "rollback", "mesh", "--group", key, "--to", moment(r.began[2]))
	push(r.origin, 4)
	held := r.proxies[0]
	held.at(2, "back")
	await(t, "what the origin has now waits", func() bool { b := r.mesh().Rollback; return b != nil && b.Waiting >= 4 })

	state := r.mesh().Rollback.Groups[0].State[:12]
	r.says(exitOK, "1 group of mesh is rolled back since ", "status")
	for _, part := range []string{"by anonymous to the state of ", "(" + state + "); ", " resources wait."} {
		if _, body := r.get("/overview"); !strings.Contains(body, part) {
			t.Errorf("the overview lacks %q: %s", part, body)
		}
	}
	if _, body := r.get("/metrics"); !strings.Contains(body, `weir_rolled_back_groups{origin="mesh"} 1`) {
		t.Error("the metrics do not have the group")
	}
	if _, body := r.get("/clients?group=" + key); !strings.Contains(body, `"reason": "hold"`) {
		t.Errorf("no client waits for the hold: %s", body)
	}
	for _, part := range []string{
		"LDS l waits: a rollback or canary gate keeps the group at a state", "anonymous rolled it back to the state of ", state, "; weir rollforward mesh --group " + key[:8] + " ends that, since ",
	} {
		r.says(exitOK, part, "explain", "proxy-of-edge", "lds", "l")
	}
	r.proxies[1].at(4, "it is not held")
	said := ""
	await(t, "a client of another group has the newest", func() bool { // its acknowledgement is on its way
		_, said, _ = weir(t, "explain", "proxy-of-core", "lds", "l", "--admin", r.admin.listener.Addr().String())
		return strings.HasPrefix(said, "current")
	})
	if strings.Contains(said, "rolled") {
		t.Errorf("a client of another group is told of it: %s", said)
	}

	r.says(exitOK, "follows the origin again", "rollforward", "mesh", "--group", key[:12])
	held.at(4, "forward")
	if _, body := r.get("/metrics"); !strings.Contains(body, `weir_rolled_back_groups{origin="mesh"} 0`) {
		t.Error("the metrics have the group still")
	}
}

// TestCanaryIsTold: while a candidate is tried on the canaries, and when one of them has stopped it,
// whoever looks at the weir, or asks why another client has not got it, is told so.
func TestCanaryIsTold(t *testing.T) {
	w := newCanaryWorld(t, relaytest.Delta, ", acks: 9", "")
	w.phase("idle")
	says := func(args []string, parts ...string) {
		t.Helper()
		await(t, fmt.Sprintf("weir %s says %q", strings.Join(args, " "), parts), func() bool {
			_, stdout, _ := weir(t, append(args, "--admin", w.weir.admin.listener.Addr().String())...)
			return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(stdout, part) })
		})
	}
	w.set("a", 2)
	w.phase("baking")
	says([]string{"status"}, "A candidate of mesh bakes: ", " of 2 acknowledged, ", "1 candidate baking (")
	explain := []string{"explain", "other-delta", "cds", "a"}
	says(explain, "CDS a waits: a rollback or canary gate keeps the group at a state", "a candidate is tried on the canaries first: 2 of 2 acknowledged, and it has baked")
	w.rejects.Store(true)
	w.set("a", badTimeout)
	w.set("b", 2)
	await(t, "what is newer waits", func() bool { return w.gate().Waiting == 2 })
	if _, err := w.weir.process.canaries.Operate(t.Context(), "mesh", "", gate.ActRetry, "alice"); err != nil {
		t.Fatal(err)
	}
	w.phase("stopped")
	const why = "rejects it: cluster a: the timeout is bad"
	says([]string{"status"}, "A candidate of mesh was stopped: canary-", why, "1 candidate stopped (canary-")
	says(explain, "the candidate was stopped at the canaries (canary-", why, "POST /origins/mesh/canary?group=", "action=retry tries this one again")
	if _, body := w.weir.get("/clients?node=other-delta"); !strings.Contains(body, `"reason": "hold"`) {
		t.Errorf("no client waits for the hold: %s", body)
	}
	if _, body := w.weir.get("/metrics"); !strings.Contains(body, `weir_canary_groups{origin="mesh",phase="stopped"} 1`) {
		t.Error("the metrics do not have it")
	}
}
