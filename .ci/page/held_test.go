package page

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestCanaryAndRollback: the page shows a candidate that a canary has stopped, and why, and what an
// operator can do about it. It takes an origin back to an earlier state by two clicks, and forward
// again.
func TestCanaryAndRollback(t *testing.T) {
	browser := newBrowser(t)
	o := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Options: lenient})
	set := func(seconds int) {
		o.Set(relaytest.ClusterType, "web", fmt.Sprint(seconds), relaytest.Cluster("web", time.Duration(seconds)*time.Second))
	}
	set(1)
	config := weirtest.NewConfig(o.Net().Addr(), relaytest.Delta)
	config.Origin().Set("group_by", []any{})
	config.Origin().Set("canary", map[string]any{"match": map[string]any{"cluster": "canary"}, "bake": "1s"})
	weir := weirtest.Start(t, config)
	var strict atomic.Bool
	client := func(cluster string) *relaytest.Client {
		c := relaytest.NewClient(t, weirtest.Connect(t, weir.Addr), relaytest.ClientConfig{Dialect: relaytest.Delta, Reject: func(*relaytest.Response) string {
			if cluster == "canary" && strict.Load() {
				return "web: <b>no such</b> policy"
			}
			return ""
		}})
		c.Open(relaytest.Node(cluster+"-1", cluster))
		c.Subscribe(relaytest.ClusterType, "*")
		return c
	}
	rest := client("web")
	client("canary")
	has := func(seconds int, sentence string) {
		t.Helper()
		want := string(relaytest.Cluster("web", time.Duration(seconds)*time.Second).Value)
		rest.Await(patience, func(s *relaytest.State) bool { return s.Body(relaytest.ClusterType, "web") == want }, sentence)
	}
	has(1, "the first state comes")
	b := &bed{weir: weir}
	gate := func() (phase string) {
		var all struct {
			Origins []struct{ Canary []struct{ Phase string } }
		}
		b.get(t, "/origins", &all)
		if len(all.Origins) > 0 && len(all.Origins[0].Canary) > 0 {
			phase = all.Origins[0].Canary[0].Phase
		}
		return phase
	}
	if !weirtest.Until(patience, func() bool { return gate() == "idle" }) {
		t.Fatalf("the gate is %s", gate())
	}
	set(2)
	has(2, "a good candidate reaches the rest")

	p := browser.tab(t, weir.Admin)
	strict.Store(true)
	set(3)
	p.open("/origins/plane", "origin")
	p.await("the candidate is shown as stopped", `document.querySelector("[data-gate]")?.dataset.phase === "stopped"`)
	p.await("the page says why", `document.querySelector("[data-gate] [data-why]")?.innerText === "canary-1 rejects it: web: <b>no such</b> policy"`)
	for _, action := range []string{"promote", "retry"} {
		if p.count(fmt.Sprintf(`[data-gate] form[data-action=%q]`, action)) != 1 {
			t.Errorf("the action %s is not offered", action)
		}
	}
	p.looks("canary-stopped")
	p.open("/", "overview")
	const why = `A candidate of plane was stopped: canary-1 rejects it`
	p.await("the headline says that it was stopped", fmt.Sprintf(`document.querySelector(".headline").innerText.includes(%q)`, why))
	strict.Store(false)
	p.act("plane", "retry")
	has(3, "tried again it reaches the rest")
	p.await("nothing is tried any more", `document.querySelectorAll("[data-gate]").length === 0`)

	p.click(`a[href="#/rollback?origin=plane"]`)
	p.awaitView("rollback")
	p.looks("rollback-all")
	var states struct {
		States []struct {
			ID string
		}
	}
	key := strings.TrimSuffix(rollbackGroup(t, b), "-rest")
	p.open("/rollback?origin=plane&group="+key, "rollback")
	if !weirtest.Until(patience, func() bool {
		b.get(t, "/history?origin=plane&states=1&group="+key+"-rest", &states)
		return len(states.States) >= 3
	}) {
		t.Fatalf("the states are %+v", states)
	}
	earlier := states.States[len(states.States)-2] // of the timeout of two seconds
	row := fmt.Sprintf(`[data-to=%q]`, earlier.ID)
	p.await("the state is listed", fmt.Sprintf(`!!document.querySelector('%s')`, row))
	p.json()
	p.looks("rollback-states")
	p.click(row + " input")
	p.click(`form[data-action="rollback"] button`)
	p.await("the page asks once more", `/^yes/i.test(document.querySelector('form[data-action="rollback"] button')?.innerText)`)
	p.shot("asks-rollback")
	p.click(`form[data-action="rollback"] button`)
	has(2, "the rest are back")
	p.await("the page says what came of it", `/held at state/.test(document.querySelector('form[data-action="rollback"] .result')?.innerText)`)
	p.open("/", "overview")
	p.await("the headline says by whom", `/rolled back for .* by anonymous to the state/.test(document.querySelector(".headline").innerText)`)
	p.open("/origins/plane", "origin")
	p.await("the origin says so, too", `document.querySelector("[data-rollback]")?.dataset.rollback === "held"`)
	p.looks("rolled-back")
	p.click(`[data-rollback] > .actions form[data-action="rollforward"] button`)
	p.click(`[data-rollback] > .actions form[data-action="rollforward"] button`)
	p.await("nothing is rolled back any more", `document.querySelector("[data-rollback]")?.dataset.rollback === "none"`)
	has(3, "the rest are forward")
}

// looks keeps a picture of a view, in light, in dark and on a phone, where all of it fits.
func (p *tab) looks(name string) {
	p.t.Helper()
	p.steady()
	p.fits()
	p.shot(name + "-light")
	p.scheme("dark")
	p.steady()
	p.dark()
	p.shot(name + "-dark")
	p.scheme("light")
	p.size(390, 844, true)
	p.steady()
	p.fits()
	p.shot(name + "-phone")
	p.size(1440, 900, false)
}

// rollbackGroup is the key of a group of the only origin.
func rollbackGroup(t *testing.T, b *bed) string {
	t.Helper()
	var all struct{ Groups []struct{ Key string } }
	b.get(t, "/groups", &all)
	for _, g := range all.Groups {
		if strings.HasSuffix(g.Key, "-rest") {
			return g.Key
		}
	}
	text, _ := json.Marshal(all)
	t.Fatalf("there is no group of the rest: %s", text)
	return ""
}
