package main

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/canary"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestRollbackOfCanaries: canaries and the rest of a group go back together, their gate waits, also
// after a restart, and the origin's newest state is tried on the canaries when they go forward.
func TestRollbackOfCanaries(t *testing.T) {
	w := newCanaryWorld(t, relaytest.Delta, "", "")
	all := func(seconds int, sentence string) {
		t.Helper()
		w.has(w.clients.canaries, seconds, "the canaries: "+sentence)
		w.has(w.clients.rest, seconds, "the rest: "+sentence)
	}
	w.set("a", 2)
	all(2, "a good state")
	time.Sleep(10 * time.Millisecond)
	before := time.Now()
	w.set("a", 3)
	all(3, "a bad one that the gate has let pass")
	key, _ := relay.CutTier(w.weir.table.Origin("mesh").Groups()[0].Key)
	said := w.weir.says(exitOK, "held at state ", "rollback", "mesh", "--group", key, "--to", moment(before))
	if strings.Count(said, "\n") != 1 || !strings.Contains(said, ": 2 resources changed") {
		t.Errorf("it says\n%s", said)
	}
	all(2, "back")
	paused := func() {
		t.Helper()
		w.set("a", 4)
		await(t, "the gate waits", func() bool { return strings.Contains(w.gate().Why, "rolled back by anonymous") })
		w.clients.rest[0].WantIdle(4 * time.Second) // what settles is tried after 2.5 s
		all(2, "they stay")
	}
	paused()
	if b := w.weir.mesh().Rollback; b == nil || b.Waiting != 1 || len(b.Groups) != 1 || b.Groups[0].Group != key {
		t.Errorf("/origins has %+v", b)
	}
	w.weir.says(exitOK, "follows the origin again", "rollforward", "mesh")
	w.has(w.clients.canaries, 4, "the canaries go forward")
	w.has(w.clients.rest, 4, "and the rest after them")
}

// TestHeldAtTheBeginning: to the gate a tier is held at the state in which the table began, too, so
// that what the origin has is tried when that goes forward. It is not held at what knows nothing.
func TestHeldAtTheBeginning(t *testing.T) {
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{
		Name: "mesh", GroupBy: []string{}, Canary: &node.Canary{Match: map[string]string{"cluster": "canary"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	part := table.Origin("mesh")
	g, err := part.GroupFor(relaytest.Node("n", "other"), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	g.Open(relay.NewSubscriber(), relay.SubOptions{TypeURL: relaytest.ClusterType})
	key := g.Newest().Key()
	gated := &tiers{part: part}
	if held := gated.Held(key, canary.Rest); held != nil {
		t.Errorf("it is held at %+v before anybody says so", held)
	}
	now := time.Now()
	part.Hold(now, g.Key(), &relay.State{})
	if held := gated.Held(key, canary.Rest); held != nil {
		t.Errorf("it is held at %+v, which is nothing", held)
	}
	first, known := part.StateAt(g.Key(), 0)
	if !known {
		t.Fatal("the group is not known")
	}
	part.Hold(now, g.Key(), first)
	if held := gated.Held(key, canary.Rest); held != first {
		t.Errorf("it is held at %+v, and not at the beginning", held)
	}
}
