package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/canary"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

// TestOverview: each client counts once in each group that serves it, those that reject are among
// the unsynced, and the worst of them is named.
func TestOverview(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	group, err := w.cfg.Table.Origin("mesh").Group(relaytest.Node("n", "web"))
	if err != nil {
		t.Fatal(err)
	}
	group.Open(relay.NewSubscriber(), relay.SubOptions{TypeURL: xds.ClusterType, Delta: true})
	key := group.Key()
	behind := func(url string, ago time.Duration, nacking bool) downstream.TypeStatus {
		s := downstream.TypeStatus{TypeURL: url, UnsyncedSince: now.Add(-ago), Nacking: nacking, InFlightSince: now.Add(-ago)}
		s.LastNack.Message = "no"
		return s
	}
	well := downstream.TypeStatus{TypeURL: xds.ClusterType}
	elsewhere := downstream.TypeStatus{TypeURL: xds.EndpointType, UnsyncedSince: now.Add(-time.Second), Parts: []downstream.PartStatus{{Origin: "edge", Group: "e"}, {Origin: "mesh", Group: key}}}
	old := now.Add(-time.Hour)
	w.clients = []downstream.ClientStatus{
		{NodeID: "well", Origin: "mesh", Group: key, Since: now, Types: []downstream.TypeStatus{well, well}},
		{NodeID: "slow", Origin: "mesh", Group: key, Since: old, Types: []downstream.TypeStatus{well, behind(xds.EndpointType, 20*time.Second, false), behind(xds.ListenerType, time.Second, false)}},
		{NodeID: "no", Origin: "mesh", Group: key, Since: old, Types: []downstream.TypeStatus{behind(xds.ClusterType, time.Minute, true)}},
		{NodeID: "both", Origin: "mesh", Group: key, Since: old, Types: []downstream.TypeStatus{well, elsewhere}},
		{NodeID: "quiet", Origin: "mesh", Group: key, Since: old},
	}
	w.cfg.Origins = func() []Origin {
		return []Origin{{Name: "mesh", Reached: true, Since: now.Add(-5 * time.Second), Stale: 3}}
	}
	w.cfg.Rejections = func() []downstream.Rejection {
		return []downstream.Rejection{
			{Origin: "mesh", TypeURL: xds.ListenerType, Message: "of nobody now", Clients: 99},
			{Origin: "mesh", TypeURL: xds.ClusterType, Resource: "a", Message: "few", Clients: 1},
			{Origin: "mesh", TypeURL: xds.ClusterType, Resource: "b", Message: "many {node}", Clients: 2, Examples: []downstream.RejectionExample{{Message: "many"}}},
		}
	}
	w.ready.Origins = []OriginReadiness{{Name: "mesh", Unanswered: []string{"eds"}}}
	var o Overview
	rec := w.get("/overview")
	if err := json.Unmarshal(rec.Body.Bytes(), &o); err != nil {
		t.Fatal(err)
	}
	if o.Clients != 5 || o.Unsynced != 3 || o.Nacking != 1 || o.Young != 1 || o.InSyncPercent != 40 {
		t.Errorf("counted %d clients, %d unsynced, %d nacking, %d new, %v %%", o.Clients, o.Unsynced, o.Nacking, o.Young, o.InSyncPercent)
	}
	if o.Worst == nil || o.Worst.NodeID != "no" || o.WorstLag < 59 || o.WorstLag > 70 {
		t.Errorf("the worst is %+v, %v s", o.Worst, o.WorstLag)
	}
	if s := o.Stuck; s == nil || s.NodeID != "slow" || s.Type != "eds" || !s.Unanswered || !s.Unacknowledged {
		t.Errorf("stuck is %+v", s)
	}
	if r := o.Rejected; r == nil || r.Resource != "b" || r.NodeID != "no" || r.Clients != 1 || r.Message != "many" {
		t.Errorf("rejected is %+v", r)
	}
	if o.Stale != 3 || o.StaleFor < 4 || o.StaleFor > 15 || o.State != Bad || !strings.HasPrefix(o.Sentence, "Origin mesh has been away since ") {
		t.Errorf("%d stale for %v s: %s %s", o.Stale, o.StaleFor, o.State, o.Sentence)
	}
	g := o.Origins[0].Worst
	if len(g) != 1 || g[0].Key != key || g[0].Clients != 5 || g[0].Unsynced != 3 || g[0].Nacking != 1 || now.Sub(g[0].Since) < 59*time.Second {
		t.Errorf("the groups: %+v", g)
	}
	want(t, w.get("/overview?full=true"), http.StatusBadRequest, `"full"`)
}

// TestOverviewIsBounded: of many groups the worst are in it, and the number of the others.
func TestOverviewIsBounded(t *testing.T) {
	w := newWorld(t)
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "mesh", GroupBy: []string{"cluster"}}}})
	if err != nil {
		t.Fatal(err)
	}
	w.cfg.Table = table
	worst := ""
	for i := range overviewGroups + 7 {
		group, err := w.cfg.Table.Origin("mesh").Group(relaytest.Node("n", fmt.Sprint("c", i)))
		if err != nil {
			t.Fatal(err)
		}
		group.Open(relay.NewSubscriber(), relay.SubOptions{TypeURL: xds.ClusterType, Delta: true})
		worst = group.Key()
	}
	w.clients = []downstream.ClientStatus{{Origin: "mesh", Group: worst, Types: []downstream.TypeStatus{{TypeURL: xds.ClusterType, Nacking: true}}}}
	var o Overview
	if err := json.Unmarshal(w.get("/overview").Body.Bytes(), &o); err != nil {
		t.Fatal(err)
	}
	if x := &o.Origins[0]; len(x.Worst) != overviewGroups || x.LeftOut != 7 || x.Worst[0].Key != worst || x.State != Warn {
		t.Errorf("%d groups, %d left out, the first %+v", len(x.Worst), x.LeftOut, x.Worst[0])
	}
}

// TestOverviewAfterAnAction: who has just frozen an origin sees it.
func TestOverviewAfterAnAction(t *testing.T) {
	w := newWorld(t)
	frozen := false
	w.cfg.Freeze = func(string, bool) (string, bool, error) {
		frozen = true
		return "done", true, nil
	}
	w.cfg.Origins = func() []Origin {
		o := Origin{Name: "mesh", Connected: true}
		if frozen {
			o.FrozenBy = []string{"operator"}
		}
		return []Origin{o}
	}
	a, err := New(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	want(t, ask(a, http.MethodGet, "/overview"), http.StatusOK, `"state": "good"`)
	want(t, ask(a, http.MethodPost, "/origins/mesh/freeze"), http.StatusOK)
	want(t, ask(a, http.MethodGet, "/overview"), http.StatusOK, "frozen by operator")
}

// TestOverviewOfManyGates: of many canary gates, and of many groups that are rolled back, the
// overview has those that wait for somebody, and how many there are. The sentence is of all.
func TestOverviewOfManyGates(t *testing.T) {
	w := newWorld(t)
	mesh := Origin{Name: "mesh", Connected: true, Rollback: &Rollback{To: "10m", Waiting: 9}}
	for i := range overviewGroups + 9 {
		phase := "idle"
		if i > 60 {
			phase = "stopped"
		}
		mesh.Canary = append(mesh.Canary, canary.Status{Group: fmt.Sprint(i), Phase: phase, Waiting: i / 61, Why: "no"})
		mesh.Rollback.Groups = append(mesh.Rollback.Groups, RolledBackGroup{Group: fmt.Sprint(i), State: strings.Repeat("a", 1+i/61)})
	}
	w.cfg.Origins = func() []Origin { return []Origin{mesh} }
	var o Overview
	if err := json.Unmarshal(w.get("/overview").Body.Bytes(), &o); err != nil {
		t.Fatal(err)
	}
	x := &o.Origins[0]
	if len(x.Canary) != overviewGroups || x.Canary[7].Phase != "stopped" || x.Canary[8].Phase != "idle" || x.Gates["stopped"] != 8 || x.Gates["idle"] != 61 {
		t.Errorf("gates %v: %+v", x.Gates, x.Canary)
	}
	if b := x.Rollback; len(b.Groups) != overviewGroups || b.LeftOut != 9 || len(mesh.Rollback.Groups) != overviewGroups+9 {
		t.Errorf("%d groups rolled back, and %d", len(b.Groups), b.LeftOut)
	}
	if !strings.HasPrefix(o.Sentence, "69 groups of mesh are rolled back since ") || !strings.Contains(o.Sentence, " to 10m;") || o.Findings[1].Text != "Candidates of mesh were stopped in 8 groups: no." {
		t.Errorf("%q, %+v", o.Sentence, o.Findings)
	}
	if !slices.Contains(o.Held, Held{Origin: "mesh", By: byCanary, Resources: 8}) || !slices.Contains(o.Held, Held{Origin: "mesh", By: byRollback, Resources: 9}) {
		t.Errorf("held: %+v", o.Held)
	}
}
