package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestCanaryUncached: what must not be cached is in no state, and reaches canaries and the rest all
// the same: as the origin has it now, by name and as a member of a set, and its end too. What a set
// has beside it is tried as ever.
func TestCanaryUncached(t *testing.T) {
	for _, dialect := range bothDialects {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			testCanaryUncached(t, dialect)
		})
	}
}

func testCanaryUncached(t *testing.T, dialect relaytest.Dialect) {
	const cds, lds = relaytest.ClusterType, relaytest.ListenerType
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	cluster := func(name string, seconds int, uncached bool) {
		origin.Put(cds, relaytest.Resource{
			Name: name, Version: fmt.Sprint(seconds), DoNotCache: uncached, Body: relaytest.Cluster(name, time.Duration(seconds)*time.Second),
		})
	}
	listener := func(port int) {
		origin.Put(lds, relaytest.Resource{Name: "u", Version: fmt.Sprint(port), DoNotCache: true, Body: relaytest.Listener("u", port)})
	}
	cluster("a", 1, false)
	cluster("u", 1, true)
	listener(80)
	text := canaried(origin.Net().Addr(), dialect)
	text = strings.Replace(text, "canary: { match", "canary: { bake: 500ms, match", 1)
	w := startWeir(t, text)
	clients := openTiered(t, w)
	has := func(c *relaytest.Client, typeURL, name string, body string, sentence string) {
		t.Helper()
		c.Await(0, func(s *relaytest.State) bool { return s.Body(typeURL, name) == body }, sentence)
	}
	for _, c := range clients.all() {
		c.Request(cds)
		c.AwaitNames(cds, "the clusters come", "a", "u")
		c.Request(lds, "u")
		c.AwaitNames(lds, "and a listener by name", "u")
	}
	time.Sleep(3 * time.Second) // the first state settles, and is held
	var before time.Time
	for round := 2; round < 4; round++ {
		time.Sleep(10 * time.Millisecond)
		before = time.Now()
		cluster("u", round, true)
		listener(80 + round)
		cluster("a", round, false)
		for _, c := range clients.all() {
			has(c, cds, "u", bodyOf("u", round), "a member")
			has(c, lds, "u", string(relaytest.Listener("u", 80+round).GetValue()), "a name")
			has(c, cds, "a", bodyOf("a", round), "and what is cached, in its time")
		}
	}
	w.says(exitOK, "held at state ", "rollback", "mesh", "--to", moment(before))
	for _, c := range clients.all() {
		has(c, cds, "a", bodyOf("a", 2), "it can go back")
		has(c, cds, "u", bodyOf("u", 3), "which does not concern what is not cached")
	}
	w.says(exitOK, "follows the origin again", "rollforward", "mesh")
	origin.Remove(cds, "u")
	origin.Remove(lds, "u")
	for _, c := range clients.all() {
		c.Await(0, func(s *relaytest.State) bool {
			return !slices.Contains(s.Names(cds), "u") && !slices.Contains(s.Names(lds), "u")
		}, "both are gone")
	}
	cluster("a", 5, false)
	for _, c := range clients.all() {
		has(c, cds, "a", bodyOf("a", 5), "it goes on")
	}
}
