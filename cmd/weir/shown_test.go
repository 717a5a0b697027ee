package main

import (
	"strings"
	"testing"

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
	for _, part := range []string{"by anonymous to the state ", state, " resources wait."} {
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
		"LDS l waits: the group is held at a state", "anonymous rolled it back to the state ", state, ", which weir rollforward mesh --group " + key[:12] + " ends, since ",
	} {
		r.says(exitOK, part, "explain", "proxy-of-edge", "lds", "l")
	}
	r.proxies[1].at(4, "it is not held")
	if said := r.says(exitOK, "current", "explain", "proxy-of-core", "lds", "l"); strings.Contains(said, "rolled") {
		t.Errorf("a client of another group is told of it: %s", said)
	}

	r.says(exitOK, "goes on to what the origin has", "rollforward", "mesh", "--group", key[:12])
	held.at(4, "forward")
	if _, body := r.get("/metrics"); !strings.Contains(body, `weir_rolled_back_groups{origin="mesh"} 0`) {
		t.Error("the metrics have the group still")
	}
}
