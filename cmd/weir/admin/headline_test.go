package admin

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/canary"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/xds"
)

// TestHeadline: the sentence says what is wrong first, or that all is well, and a colour with it.
func TestHeadline(t *testing.T) {
	at := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)
	ready := func(o *Overview) { o.At, o.Ready.Ready, o.Ready.State = at, true, "ready" }
	mesh := func(edit func(*OriginOverview)) func(*Overview) {
		return func(o *Overview) {
			x := OriginOverview{Origin: Origin{Name: "mesh", Reached: true, Connected: true, Since: at}}
			edit(&x)
			for _, by := range x.freezers() {
				o.Held = append(o.Held, Held{Origin: "mesh", By: by})
			}
			if x.HeldRemovals > 0 {
				o.Held = append(o.Held, Held{Origin: "mesh", By: "guard", Resources: x.HeldRemovals, Until: x.HeldUntil})
			}
			o.Origins = append(o.Origins, x)
		}
	}
	well := mesh(func(*OriginOverview) {})
	lag := func(seconds float64, unanswered bool, unsynced int) func(*Overview) {
		return func(o *Overview) {
			o.Clients, o.Unsynced, o.At = 10, unsynced, at.Add(time.Duration(seconds)*time.Second)
			o.Stuck = &Worst{NodeID: "web-1", Type: "cds", Origin: "mesh", Since: at, Unanswered: unanswered}
		}
	}
	for _, row := range []struct {
		name  string
		edits []func(*Overview)
		state State
		want  string
	}{
		{"well", []func(*Overview){well, mesh(func(o *OriginOverview) { o.Name = "edge" }), func(o *Overview) { o.Clients = 7 }}, Good, "All 7 clients have the newest configuration of 2 origins."},
		{"one", []func(*Overview){well, func(o *Overview) { o.Clients = 1 }}, Good, "The only client has the newest configuration of 1 origin."},
		{"nobody", []func(*Overview){well}, Good, "No client is connected; 1 origin configured."},
		{"not asked yet", []func(*Overview){mesh(func(o *OriginOverview) { o.Connected, o.Reached, o.Since = false, false, time.Time{} })}, Good, "No client is connected; 1 origin configured."},
		{"on its way", []func(*Overview){well, lag(2, false, 3)}, Good, "7 of 10 clients have the newest configuration of 1 origin; weir is sending it to 3."},
		{"on its way to the only one", []func(*Overview){well, func(o *Overview) { o.Clients, o.Unsynced = 1, 1 }}, Good, "The only client is being sent the newest configuration of 1 origin."},
		{"draining", []func(*Overview){well, func(o *Overview) { o.Ready = Readiness{State: "draining"} }}, Bad, "Draining: clients are sent to other replicas, and none is admitted."},
		{"starting", []func(*Overview){well, func(o *Overview) { o.Ready = Readiness{State: "starting", Why: "not reached yet: mesh"} }}, Bad, "Not ready (starting): not reached yet: mesh."},
		{"full", []func(*Overview){well, func(o *Overview) { o.Ready = Readiness{State: "full"} }}, Bad, "Not ready: full."},
		{"file refused", []func(*Overview){well, func(o *Overview) {
			o.Config = ConfigState{Refused: at, Problems: []string{"weir.yaml:3: limits:\n  \"many\" is not a whole number.", "more"}}
		}}, Bad, `The configuration file was refused at 2026-11-26 03:00:00Z: weir.yaml:3: limits: "many" is not a whole number. The one before it stays in force.`},
		{"file refused at the start", []func(*Overview){well, func(o *Overview) { o.Config = ConfigState{Refused: at, LastGood: "x", Accepted: at} }}, Bad, "The configuration file was refused at the start and since. The one accepted last, at 2026-11-26 03:00:00Z, is in force."},
		{"origin away", []func(*Overview){mesh(func(o *OriginOverview) {
			o.Connected, o.Stale, o.Error = false, 12, "cp:1: rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing: dial tcp cp:1: connect: connection refused\""
		})}, Bad, "Origin mesh has been away since 2026-11-26 03:00:00Z: dial tcp cp:1: connect: connection refused; clients keep 12 resources that may be old."},
		{"files refused", []func(*Overview){mesh(func(o *OriginOverview) {
			o.Kind, o.Connected, o.Error, o.ErrorAt, o.Resources = "files", false, "clusters.yaml:1: no list", at, 3
		})}, Bad, "Origin mesh: the files cannot be used since 2026-11-26 03:00:00Z: clusters.yaml:1: no list; clients keep what was read before."},
		{"wrong token", []func(*Overview){mesh(func(o *OriginOverview) {
			o.Connected, o.Reached, o.Since, o.Error = false, false, time.Time{}, "Unauthenticated: no such token"
		})}, Bad, "Origin mesh has never answered: Unauthenticated: no such token."},
		{"never answered", []func(*Overview){mesh(func(o *OriginOverview) { o.Connected, o.Reached = false, false })}, Bad, "Origin mesh has never answered, asked since 2026-11-26 03:00:00Z."},
		{"never answered since a restart", []func(*Overview){mesh(func(o *OriginOverview) { o.Connected, o.Reached, o.Stale = false, false, 3 })}, Bad, "Origin mesh has not answered since weir started, asked since 2026-11-26 03:00:00Z; clients keep 3 resources that may be old."},
		{"fallback", []func(*Overview){mesh(func(o *OriginOverview) { o.Connected, o.Fallback = false, &Fallback{Serving: 1} })}, Bad, "Origin mesh has been away since 2026-11-26 03:00:00Z; weir serves 1 resource of its fallback."},
		{"file refused by an origin", []func(*Overview){mesh(func(o *OriginOverview) {
			o.Files = []File{{Path: "b.yaml"}, {Path: "a.yaml", Error: "a.yaml:3: no list", ErrorAt: at}}
		})}, Warn, "Origin mesh: a file is refused since 2026-11-26 03:00:00Z: a.yaml:3: no list; its earlier content stays."},
		{"an error that passes", []func(*Overview){mesh(func(o *OriginOverview) { o.Error = "rpc error: code = Unavailable desc = restarting" })}, Warn, "Origin mesh: restarting."},
		{"quarantine", []func(*Overview){mesh(func(o *OriginOverview) {
			o.Quarantined = []QuarantinedType{{Type: "sds", Since: at, Reason: "no such type"}}
		})}, Warn, "Origin mesh ends streams that ask for sds, since 2026-11-26 03:00:00Z: no such type."},
		{"slow", []func(*Overview){mesh(func(o *OriginOverview) {
			o.Slow = []SlowType{{Type: "cds", Groups: 1, Since: at}}
		})}, Warn, "Origin mesh is connected, and has not answered for cds since 2026-11-26 03:00:00Z: it was asked, and 1 group waits."},
		{"slow with many types", []func(*Overview){mesh(func(o *OriginOverview) {
			o.Slow = []SlowType{{Type: "eds", Groups: 3, Since: at}, {Type: "lds", Groups: 4, Since: at.Add(time.Second)}, {Type: "cds", Groups: 1, Since: at.Add(time.Second)}}
		}), lag(99, true, 1)}, Warn, "Origin mesh is connected, and has not answered for eds, lds and cds since 2026-11-26 03:00:00Z: it was asked, and 4 groups wait."},
		{"silent about a node", []func(*Overview){mesh(func(o *OriginOverview) {
			o.Slow, o.Silent, o.SilentGroups = []SlowType{{Type: "cds", Groups: 1, Since: at}}, []Silence{{NodeID: "weir/w/1", Cluster: "edge", Since: at}}, 3
		})}, Warn, `Origin mesh: it has not answered node id "weir/w/1" (cluster "edge") and those of 2 other groups since 2026-11-26 03:00:00Z: it may not know the node; see origins[].node and origins[].group_by.`},
		{"not ready, and silent", []func(*Overview){mesh(func(o *OriginOverview) {
			o.Reached, o.Silent, o.SilentGroups = false, []Silence{{NodeID: "n", Since: at}}, 1
		}), func(o *Overview) { o.Ready = Readiness{State: "starting", Why: "not reached yet: mesh"} }}, Bad, `Not ready (starting): not reached yet: mesh; mesh: it has not answered node id "n" since 2026-11-26 03:00:00Z: it may not know the node; see origins[].node and origins[].group_by.`},
		{"never answered, and silent", []func(*Overview){mesh(func(o *OriginOverview) {
			o.Connected, o.Reached, o.Silent, o.SilentGroups = false, false, []Silence{{NodeID: "n", Since: at, Answered: true}}, 1
		})}, Bad, `Origin mesh has never answered, asked since 2026-11-26 03:00:00Z: it has not answered node id "n" since 2026-11-26 03:00:00Z: it has answered this node before, so it may be starting, or busy.`},
		{"slow and away", []func(*Overview){mesh(func(o *OriginOverview) {
			o.Connected, o.Slow = false, []SlowType{{Type: "cds", Groups: 1, Since: at}}
		})}, Bad, "Origin mesh has been away since 2026-11-26 03:00:00Z."},
		{"storm", []func(*Overview){well, func(o *Overview) { o.Clients, o.Young = 90, 50 }}, Warn, "50 of 90 clients came within the last minute: they come again and again, or a balancer has moved them."},
		{"streams that end", []func(*Overview){well, func(o *Overview) { o.Clients, o.Ended = 40, 121 }}, Warn, "121 client streams ended within the last minute, with 40 clients connected: they reconnect again and again."},
		{"few streams that end", []func(*Overview){well, func(o *Overview) { o.Clients, o.Ended = 2, 100 }}, Good, "All 2 clients have the newest configuration of 1 origin."},
		{"clients that end", []func(*Overview){well, func(o *Overview) { o.Clients, o.Ended = 41, 121 }}, Good, "All 41 clients have the newest configuration of 1 origin."},
		{"a start", []func(*Overview){well, func(o *Overview) { o.Clients, o.Young, o.Started = 90, 90, at.Add(-time.Minute) }}, Good, "All 90 clients have the newest configuration of 1 origin."},
		{"guard", []func(*Overview){mesh(func(o *OriginOverview) { o.HeldRemovals, o.HeldUntil = 9, at })}, Warn, "The guard holds back 9 removals of mesh until 2026-11-26 03:00:00Z."},
		{"frozen", []func(*Overview){mesh(func(o *OriginOverview) {
			o.FrozenBy, o.Frozen, o.FrozenChanges = []string{"config", "operator"}, at, 1
		})}, Warn, "Origin mesh is frozen by config and operator since 2026-11-26 03:00:00Z; 1 change waiting."},
		{"rolled back", []func(*Overview){mesh(func(o *OriginOverview) {
			o.FrozenBy, o.Frozen, o.FrozenChanges = []string{"operator"}, at, 1204
			o.Rollback = &Rollback{Since: at, By: "alice", To: "last-good", Whole: true, Waiting: 1204, Groups: []RolledBackGroup{
				{State: "1a2b3c4d5e6f7788", Of: at.Add(-time.Hour)}, {State: "1a2b3c4d5e6f7788", Of: at.Add(-time.Hour)},
			}}
		})}, Warn, "mesh is rolled back since 2026-11-26 03:00:00Z by alice to the state of 2026-11-26 02:00:00Z (1a2b3c4d5e6f); 1,204 resources wait."},
		{"groups rolled back", []func(*Overview){mesh(func(o *OriginOverview) {
			o.FrozenBy, o.Frozen = []string{"config", "operator"}, at
			o.Rollback = &Rollback{Since: at, By: "alice", To: "last-good", Waiting: 1, Groups: []RolledBackGroup{{State: "1a"}, {State: "2b"}}}
		})}, Warn, "2 groups of mesh are rolled back since 2026-11-26 03:00:00Z by alice to last-good; 1 resource waits."},
		{"a group rolled back, and restored", []func(*Overview){mesh(func(o *OriginOverview) {
			o.Rollback = &Rollback{Since: at, By: "alice", To: "10m", Groups: []RolledBackGroup{{To: "10m"}}}
		})}, Warn, "1 group of mesh is rolled back since 2026-11-26 03:00:00Z by alice to 10m; 0 resources wait."},
		{"candidate stopped", []func(*Overview){mesh(func(o *OriginOverview) {
			o.Canary = []canary.Status{{Phase: "idle"}, {Phase: "stopped", Why: "web-1 rejects it: no such\n field."}}
		})}, Warn, "A candidate of mesh was stopped: web-1 rejects it: no such field."},
		{"candidates stopped", []func(*Overview){mesh(func(o *OriginOverview) {
			o.Canary = []canary.Status{{Phase: "stopped", Why: "the check objects: 0.2 is above 0.01"}, {Phase: "baking", Bakes: at.Add(time.Minute)}, {Phase: "stopped"}}
		})}, Warn, "Candidates of mesh were stopped in 2 groups: the check objects: 0.2 is above 0.01."},
		{"candidate undecided", []func(*Overview){mesh(func(o *OriginOverview) {
			o.Canary = []canary.Status{{Phase: "baking", Undecided: true, Needed: 1, Promoted: at, Check: "unknown", CheckSaid: "connection refused"}}
		})}, Warn, "A candidate of mesh is neither good nor bad: no canary is connected, 1 needed; the check: connection refused. The rest wait until 2026-11-26 03:00:00Z, when they are given it nevertheless."},
		{"candidate undecided for ever", []func(*Overview){mesh(func(o *OriginOverview) {
			o.Canary = []canary.Status{{Phase: "baking", Undecided: true, Canaries: 5, Acked: 2, Needed: 3, Check: "fine", CheckSaid: "0"}}
		})}, Warn, "A candidate of mesh is neither good nor bad: 2 of 5 acknowledged, 3 needed. The rest wait until an operator decides."},
		{"candidate timed out", []func(*Overview){mesh(func(o *OriginOverview) {
			o.Canary = []canary.Status{{Phase: "idle", TimedOut: true, Since: at.Add(-2 * time.Hour)}, {Phase: "idle", TimedOut: true, Since: at}, {Phase: "idle", Since: at}}
		})}, Warn, "A candidate of mesh was given to all at 2026-11-26 03:00:00Z, though not shown to be good: max_hold was over."},
		{"candidate bakes", []func(*Overview){mesh(func(o *OriginOverview) {
			o.Canary = []canary.Status{{Phase: "baking", Canaries: 5, Acked: 3, Needed: 3, Bakes: at.Add(39500 * time.Millisecond)}}
		})}, Good, "A candidate of mesh bakes: 3 of 5 acknowledged, 40 s left."},
		{"candidates have baked", []func(*Overview){mesh(func(o *OriginOverview) {
			o.Canary = []canary.Status{{Phase: "baking", Bakes: at.Add(-time.Hour)}, {Phase: "baking", Canaries: 5, Acked: 3, Bakes: at, Check: "unknown"}}
		})}, Good, "Candidates of mesh bake in 2 groups: 3 of 5 acknowledged, and it has baked; the check has not answered."},
		{"rejects", []func(*Overview){well, lag(99, false, 1), func(o *Overview) {
			o.Nacking, o.Rejected = 3, &Rejected{Origin: "mesh", Type: "cds", Resource: "web", Message: "no\n such  thing", Clients: 3}
		}}, Bad, "3 clients reject cds web of mesh: no such thing"},
		{"others reject", []func(*Overview){well, lag(99, false, 1), func(o *Overview) {
			o.Nacking, o.Rejected = 16, &Rejected{Origin: "mesh", Type: "lds", Message: "no", Clients: 12}
		}}, Bad, "12 clients reject lds of mesh: no. 4 more clients reject something else."},
		{"one rejects a list", []func(*Overview){well, func(o *Overview) {
			o.Nacking, o.Rejected = 1, &Rejected{Origin: "mesh", Type: "lds", Message: "no", Clients: 1}
		}}, Bad, "1 client rejects lds of mesh: no"},
		{"stuck", []func(*Overview){well, lag(45, false, 1)}, Warn, "Client web-1 has not had the newest cds of mesh since 2026-11-26 03:00:00Z."},
		{"slow client", []func(*Overview){well, lag(45, true, 1), func(o *Overview) { o.Stuck.Unacknowledged = true }}, Warn, "Client web-1 has not had the newest cds of mesh since 2026-11-26 03:00:00Z: it has not acknowledged what it was sent."},
		{"slow origin", []func(*Overview){well, lag(45, true, 4)}, Warn, "Client web-1 has not had the newest cds of mesh since 2026-11-26 03:00:00Z: the origin has not answered. 3 other clients wait as well."},
		{"disk full", []func(*Overview){well, func(o *Overview) { o.Snapshot = &Snapshot{Error: "no space left on device"} }}, Warn, "The snapshot is not written: no space left on device."},
		{"certificate expired", []func(*Overview){well, func(o *Overview) {
			o.Certificates = map[string]time.Time{"listener": at.Add(time.Hour), "admin": at, "origin": at.Add(30 * 24 * time.Hour)}
		}}, Bad, "A certificate (admin) has expired at 2026-11-26 03:00:00Z."},
		{"certificate expires", []func(*Overview){well, func(o *Overview) { o.Certificates = map[string]time.Time{"listener": at.Add(time.Hour)} }}, Warn, "A certificate (listener) expires at 2026-11-26 04:00:00Z."},
		{"ready, but", []func(*Overview){well, func(o *Overview) { o.Ready.Why = "timing.ready_wait is over" }}, Warn, "Ready, but: timing.ready_wait is over."},
		{"memory short", []func(*Overview){well, func(o *Overview) {
			o.Ready.Why, o.Memory = "memory is short", Memory{Used: 900 << 20, Limit: 1000 << 20, Short: true}
		}}, Warn, "Memory is short: 900 of 1000 MiB are used, and names without subscribers are refused."},
	} {
		o := &Overview{}
		ready(o)
		for _, edit := range row.edits {
			edit(o)
		}
		if sentence, state := Headline(o); sentence != row.want || state != row.state {
			t.Errorf("%s: %s, %q; want %s, %q", row.name, state, sentence, row.state, row.want)
		}
	}
}

// TestHeadlineOrder: of all that is wrong at once the worst comes first, and the others follow.
func TestHeadlineOrder(t *testing.T) {
	at := time.Unix(1, 0)
	o := &Overview{
		At: at, Clients: 9, Unsynced: 9, Nacking: 1, Stuck: &Worst{Type: "cds", Since: at.Add(-time.Minute)}, Rejected: &Rejected{Type: "cds"}, Ready: Readiness{State: "draining"},
		Config: ConfigState{Refused: at}, Snapshot: &Snapshot{Error: "x"}, Certificates: map[string]time.Time{"admin": at}, Memory: Memory{Short: true},
		Held:    []Held{{Origin: "b", By: "guard"}},
		Origins: []OriginOverview{{Origin: Origin{Name: "a/b", Error: "x"}}, {Origin: Origin{Name: "b", Connected: true, FrozenBy: []string{"operator"}, Slow: []SlowType{{Type: "cds"}}}}},
	}
	var links []string
	for _, f := range o.findings() {
		links = append(links, f.Link)
	}
	want := []string{"#/config", "#/config", "#/origins/a%2Fb", "#/origins/b", "#/origins/b", "#/nacks", "#/origins/b", "#/clients?unsynced=1", "#/config", "#/config", "#/charts"}
	if len(links) != len(want) {
		t.Fatalf("%q, want %q", links, want)
	}
	for i := range want {
		if links[i] != want[i] {
			t.Errorf("%d is %q, want %q", i, links[i], want[i])
		}
	}
}

// TestSlowOrigin: an origin is slow with what it was asked for long ago and somebody waits for, the
// longest first, whatever the number of its groups.
func TestSlowOrigin(t *testing.T) {
	now := time.Now()
	ago := func(seconds int) time.Time { return now.Add(-time.Duration(seconds) * time.Second) }
	waits := func(key string) inspect.GroupStatus {
		return inspect.GroupStatus{Key: key, Types: []relay.TypeStatus{
			{TypeURL: xds.ClusterType, Wildcard: true},
			{TypeURL: xds.EndpointType, Waiting: 2},
			{TypeURL: xds.ListenerType, Wildcard: true, Settled: true},
			{TypeURL: xds.RouteType},
		}}
	}
	o := Origin{Questions: []Question{
		{"a", "eds", ago(6)},
		{"a", "cds", ago(3)},
		{"a", "lds", ago(60)},
		{"a", "rds", ago(60)},
		{"gone", "eds", ago(60)},
		{"b", "eds", ago(9)},
		{"b", "cds", ago(20)},
	}}
	o.Sum([]inspect.GroupStatus{waits("a"), waits("b")})
	if want := []SlowType{{"cds", 1, ago(20)}, {"eds", 2, ago(9)}}; !slices.Equal(o.Slow, want) {
		t.Errorf("slow are %v, want %v", o.Slow, want)
	}
	if b, err := json.Marshal(o); err != nil || bytes.Contains(b, []byte("uestions")) {
		t.Errorf("%v: the list of groups is shown: %s", err, b)
	}
}
