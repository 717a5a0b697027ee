package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/canary"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/relaytest/seed"
)

// TestTiersModel plays the canary gate with all that meets it, at random and in virtual time: an
// origin that pushes states of all types, good and bad ones, goes back, loses its connection and
// many resources with it; canaries and other clients of both dialects that come, go, acknowledge
// late and reject; operators who promote, stop, retry, freeze, roll back and forward; a check that
// objects; restarts from the snapshot.
//
// At every moment what a client has of all types is one state that the origin had, but for the
// order of a step to the next (make-before-break) and for endpoints. The rest are given only what
// the first state was, what canaries have acknowledged for as long as it bakes and none has
// rejected, or what an operator said. When all is quiet, canaries and the rest have exactly what
// they should: the newest state that was not stopped, or the one ordered.
//
// WEIR_TIERS_PLAYS is how many plays there are. Alarms are logged and counted: more of them than are
// known is an error.
func TestTiersModel(t *testing.T) {
	plays := 6
	if text := os.Getenv("WEIR_TIERS_PLAYS"); text != "" {
		var err error
		if plays, err = strconv.Atoi(text); err != nil {
			t.Fatalf("WEIR_TIERS_PLAYS: %v", err)
		}
	}
	s := seed.Of(t, 0)
	all := map[string]int{}
	alarms := 0
	for i := range plays {
		t.Run(fmt.Sprint("play ", i), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := newTiersWorld(t, rand.New(rand.NewPCG(s, uint64(i))), dir)
				if !w.judged(tiersSteps) {
					alarms++
				}
				for what, n := range w.counts {
					all[what] += n
				}
			})
		})
	}
	t.Log(all)
	if alarms > 2+plays/tiersKnown {
		t.Errorf("%d of %d plays end in an alarm; known is one of %d", alarms, plays, tiersKnown)
	}
	for _, what := range []string{"promoted as good", "rejections", "rollbacks", "rollforwards", "restarts", "quiet: newest", "quiet: stopped", "quiet: kept"} {
		if plays >= 20 && all[what] < plays/4 {
			t.Errorf("%s: %d in %d plays, which is too little", what, all[what], plays)
		}
	}
}

const (
	tiersSteps  = 240 // of a play
	tiersKnown  = 80  // of so many plays one ends in an alarm, of what the gate remembers of a push that was stopped
	tiersRoutes = 8   // names that routes may have
)

// tiersState is what the origin has at one time, without endpoints: bodies by type and name.
// Clusters are c0, which has the number of the push, one that the routes lead to, and perhaps six
// that nothing refers to. Listeners are l0, which has the number of its route, and l1.
type tiersState map[string]map[string]string

func (s tiersState) String() string {
	return fmt.Sprint(s[cds], s[lds], s[rds])
}

// tierAt is a state that a tier was held at.
type tierAt struct {
	n  int // the push, by the body of c0
	at time.Time
	*relay.State
}

type tiersWorld struct {
	t         *testing.T
	rnd       *rand.Rand
	config    string
	origin    *relaytest.Origin
	weir      *tieredWeir
	away      atomic.Bool
	checks    bool // there is a check
	guards    bool // mass removals are held back, so that states have more than the origin
	probed    bool // a client asks for all routes all the time, so that all states know them
	policy    gate.Canary
	restarted time.Time
	at        int
	counts    map[string]int

	pushes    []tiersState
	now       int // the push that the origin has
	mass      bool
	endpoints map[string][]string // by name: all that the origin ever had
	edition   int
	clients   []*tiersClient
	ids       int

	mu        sync.Mutex // guards what follows, which the gates use as well
	log       []string
	problems  []string
	began     time.Time
	orders    [2][]tierAt // by canary.Tier
	verdicts  map[int]*verdictOf
	objects   bool // the check does
	anew      bool // nobody of the rest was there when weir ended, so that it does not know what they had
	promoting bool // an operator is
	back      bool // groups are rolled back
	frozen    bool
}

// verdictOf is what is known of a push.
type verdictOf struct {
	tried    time.Time // since when the canaries have it, in this trial; zero: they do not
	acked    map[*tiersClient]bool
	routes   map[string]string // what the canaries that have accepted it have been given of them
	rejected time.Time         // since tried
	retried  bool              // an operator wants it tried although it was rejected
	objected bool              // the check did, since tried
	fine     bool              // the check, since it began
	stopped  bool              // an operator stopped it, or it was rejected or objected to, and not promoted since
}

func newTiersWorld(t *testing.T, rnd *rand.Rand, dir string) *tiersWorld {
	w := &tiersWorld{
		t: t, rnd: rnd, now: -1, endpoints: map[string][]string{}, verdicts: map[int]*verdictOf{}, began: time.Now(), counts: map[string]int{},
		policy: gate.Canary{Bake: 5 * time.Second, Acks: 1, MaxHold: 40 * time.Second}, mass: true, checks: rnd.IntN(2) == 0,
		guards: rnd.IntN(4) == 0, probed: rnd.IntN(3) > 0,
	}
	onStop := "return"
	if w.policy.Stay = rnd.IntN(3) == 0; w.policy.Stay {
		onStop = "stay"
	}
	if rnd.IntN(4) == 0 {
		w.policy.MaxHold = 0
	}
	switch rnd.IntN(3) {
	case 0:
		w.policy.Acks = 2
	case 1:
		w.policy.AckShare = 0.6
	}
	dialect := []relaytest.Dialect{relaytest.Delta, relaytest.SotW}[rnd.IntN(2)]
	w.config = tieredConfig(dialect, w.guards, fmt.Sprintf("bake: %v, max_hold: %v, on_stop: %s, acks: { count: %d, share: %v }", w.policy.Bake, w.policy.MaxHold, onStop,
		w.policy.Acks, w.policy.AckShare), dir)
	w.logf("a %s origin, %+v, a check: %v, guard: %v, all routes asked for: %v", dialect, w.policy, w.checks, w.guards, w.probed)
	w.origin = relaytest.NewOrigin(t, relaytest.Memory(), relaytest.OriginConfig{Serving: true, Options: []grpc.ServerOption{
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second}),
	}})
	w.push("")
	w.weir = startTiered(w)
	if w.probed {
		w.open(proberName)
		w.clients[0].answer(w, true)
	}
	for range 2 {
		w.open("canary")
		w.open("edge")
	}
	w.quiet()
	return w
}

func (w *tiersWorld) logf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logLocked(format, args...)
}

func (w *tiersWorld) logLocked(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%4d %9v  ", w.at, time.Since(w.began).Round(time.Microsecond))+fmt.Sprintf(format, args...))
}

func (w *tiersWorld) fail(format string, args ...any) {
	w.t.Helper()
	w.mu.Lock()
	tail := w.log[max(0, len(w.log)-300):]
	w.mu.Unlock()
	w.weir.end()
	w.t.Logf("alarm: step %d: %s\n%s", w.at, fmt.Sprintf(format, args...), strings.Join(tail, "\n"))
	panic(tiersAlarm{})
}

// tiersAlarm ends a play.
type tiersAlarm struct{}

// judged plays, and reports whether it came to its end.
func (w *tiersWorld) judged(steps int) (well bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, is := r.(tiersAlarm); !is {
				panic(r)
			}
		}
	}()
	w.play(steps)
	return true
}

// play plays so many steps, with rests in between.
func (w *tiersWorld) play(steps int) {
	for at := range steps {
		w.mu.Lock()
		w.at = at
		w.mu.Unlock()
		w.step()
		w.deliver()
		if w.at%60 == 59 {
			w.quiet()
		}
	}
	for _, c := range w.clients {
		c.Close()
	}
	w.weir.end()
}

func (w *tiersWorld) step() {
	if w.probed {
		w.clients[0].answer(w, true)
	}
	some := func() *tiersClient { return w.clients[len(w.clients)-1-w.rnd.IntN(len(w.clients)-1)] } // not the one that asks for all
	switch k := w.rnd.IntN(100); {
	case k < 9:
		for range 1 + w.rnd.IntN(2)*w.rnd.IntN(3) {
			w.push([]string{"", "", "", cds, lds}[w.rnd.IntN(5)])
			w.wait(time.Duration(w.rnd.IntN(2)*w.rnd.IntN(1000)) * time.Millisecond)
		}
	case k < 11:
		w.goBack()
	case k < 14:
		w.moveEndpoints()
	case k < 16:
		w.loseMass()
	case k < 18:
		w.disconnect()
	case k < 22:
		w.operate()
	case k < 27:
		w.rollback()
	case k < 31:
		w.rollforward()
	case k < 34:
		w.freeze()
	case k < 36:
		w.mu.Lock()
		w.objects = w.checks && !w.objects
		w.logLocked("the check objects: %v", w.objects)
		w.mu.Unlock()
	case k < 37:
		w.restart()
	case k < 40 && len(w.clients) < 7:
		w.open([]string{"canary", "edge"}[w.rnd.IntN(2)])
	case k < 42 && len(w.clients) > 2:
		w.leave(some())
	case k < 47:
		some().begin(w)
	case k < 70:
		some().answer(w, false)
	case k < 75:
		w.wait(time.Duration(w.rnd.IntN(8000)) * time.Millisecond)
	default:
		w.wait(time.Duration(w.rnd.IntN(400)) * time.Millisecond)
	}
}

// wait lets time pass, so that what is decided at one moment is never decided at the moment of a
// step.
func (w *tiersWorld) wait(d time.Duration) {
	time.Sleep(d + 137*time.Microsecond)
	w.deliver()
}

// push is a change of the origin: always c0, and perhaps where the routes lead, which route the
// first listener has, and the second one. bad: clients reject what it changes of that type.
func (w *tiersWorld) push(bad string) {
	p := len(w.pushes)
	to, route, second := p, p, fmt.Sprint(p)
	if p > 0 {
		last := w.pushes[w.now]
		if route = numberIn(last[lds]["l0"]); w.rnd.IntN(3) == 0 {
			route = w.rnd.IntN(tiersRoutes)
		}
		if to = numberIn(last[rds]["r"+last[lds]["l0"]]); w.rnd.IntN(2) == 0 {
			to = p
		}
		if w.rnd.IntN(2) == 0 && bad != lds && !strings.Contains(last[lds]["l1"], "bad") {
			second = last[lds]["l1"]
		}
	} else {
		bad = ""
	}
	state := tiersState{
		cds: {"c0": fmt.Sprint(p), fmt.Sprint("x", to): "eds"},
		lds: {"l0": fmt.Sprint(route), "l1": second},
		rds: {fmt.Sprint("r", route): fmt.Sprint(to)},
	}
	if bad != "" {
		name := map[string]string{cds: "c0", lds: "l1"}[bad]
		state[bad][name] += " bad"
		w.counts["bad pushes"]++
	}
	w.counts["pushes"]++
	w.pushes = append(w.pushes, state)
	w.say(p)
}

// goBack has the origin say again what it said before.
func (w *tiersWorld) goBack() {
	w.counts["origin goes back"]++
	w.say(w.rnd.IntN(len(w.pushes)))
}

// say has the origin change to a state, all at once.
func (w *tiersWorld) say(p int) {
	w.now = p
	state := w.pushes[p]
	w.logf("the origin has %d: %v, with the six: %v", p, state, w.mass)
	w.origin.Batch(func() {
		for _, typeURL := range []string{cds, lds, rds} {
			bodies := maps.Clone(state[typeURL])
			if typeURL == cds && w.mass {
				for i := range 6 {
					bodies[fmt.Sprint("m", i)] = "m"
				}
			}
			var all []relaytest.Resource
			for _, name := range slices.Sorted(maps.Keys(bodies)) {
				all = append(all, relaytest.Resource{Name: name, Version: bodies[name], Body: tiersBody(typeURL, name, bodies[name])})
			}
			w.origin.Replace(typeURL, all...)
		}
		for name := range state[cds] {
			if strings.HasPrefix(name, "x") && len(w.endpoints[name]) == 0 {
				w.sayEndpoints(name)
			}
		}
	})
}

// sayEndpoints has the origin change those of a cluster. It never drops any: that clusters leave
// takes them out of use.
func (w *tiersWorld) sayEndpoints(name string) {
	w.edition++
	body := fmt.Sprint(w.edition)
	w.endpoints[name] = append(w.endpoints[name], body)
	w.origin.Set(eds, name, body, tiersBody(eds, name, body))
}

func (w *tiersWorld) moveEndpoints() {
	names := slices.Sorted(maps.Keys(w.endpoints))
	name := names[len(names)-1-w.rnd.IntN(min(3, len(names)))]
	w.logf("endpoints of %s change", name)
	w.sayEndpoints(name)
}

// loseMass has the origin lose the six, or have them again, perhaps while it is away.
func (w *tiersWorld) loseMass() {
	w.mass = !w.mass
	w.counts["mass"]++
	if w.rnd.IntN(2) == 0 {
		w.origin.CloseConns()
		w.logf("the connection is lost")
	}
	w.say(w.now)
	if w.guards && w.rnd.IntN(4) == 0 {
		w.wait(time.Duration(w.rnd.IntN(6000)) * time.Millisecond)
		w.logf("the guard is released: %d", w.weir.table.Origin("mesh").ReleaseGuard(time.Now(), ""))
	}
}

// disconnect takes the origin away for a while, or brings it back.
func (w *tiersWorld) disconnect() {
	if w.away.Load() {
		w.away.Store(false)
		w.logf("the origin is back")
		return
	}
	w.counts["outages"]++
	w.logf("the origin is away")
	w.away.Store(w.rnd.IntN(2) == 0)
	w.origin.CloseConns()
}

// operate is an operator who decides about the candidate.
func (w *tiersWorld) operate() {
	what := gate.Act(w.rnd.IntN(3)) //nolint:gosec // of three
	w.mu.Lock()
	_, n := w.candidate()
	w.promoting = what == gate.ActPromote
	w.mu.Unlock()
	said, err := w.weir.operateCanary(context.Background(), "mesh", "", what, "somebody")
	w.logf("%s of %d: %q, %v", gate.ActNames[what], n, said, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.promoting = false; err != nil {
		return
	}
	w.counts["operator "+gate.ActNames[what]]++
	w.verdict(n).stopped = what == gate.ActStop
	w.verdict(n).retried = what == gate.ActRetry
}

func (w *tiersWorld) rollback() {
	part := w.weir.table.Origin("mesh")
	w.wait(100 * time.Millisecond)
	group := ""
	keys := part.TierKeys()
	if len(keys) == 1 && w.rnd.IntN(2) == 0 {
		group = keys[0]
	}
	to := toLastGood
	if len(keys) == 1 && w.rnd.IntN(3) > 0 {
		rows := part.States(relay.Rest.Of(keys[0]), 30)
		if len(rows) == 0 {
			return
		}
		if row := &rows[w.rnd.IntN(len(rows))]; w.rnd.IntN(2) == 0 {
			to = row.ID
		} else {
			to = fmt.Sprint(row.Revision)
		}
	}
	said, err := w.weir.rollback(admin.RollbackOrder{Origin: "mesh", Group: group, To: to, By: "somebody"})
	w.logf("rollback of %q to %s: %v %v", group, to, said.Lines, err)
	if err != nil {
		return
	}
	w.counts["rollbacks"]++
	w.back = true
	for _, g := range said.Groups {
		for tier, of := range tierNamed {
			at, _, _ := part.HeldAt(of.Of(g.Group))
			w.mu.Lock()
			w.hold(canary.Tier(tier), at, true) //nolint:gosec // of two
			w.mu.Unlock()
		}
	}
	w.mu.Lock()
	w.frozen = w.frozen || group == ""
	w.mu.Unlock()
	w.check()
}

func (w *tiersWorld) rollforward() {
	said, err := w.weir.rollforward(admin.RollbackOrder{Origin: "mesh", By: "somebody"})
	w.logf("rollforward: %v %v", said.Lines, err)
	if err == nil && said.Done {
		w.counts["rollforwards"]++
	}
	w.back = false
	w.frozen = !w.weir.freezes.get("mesh").frozen.IsZero()
}

func (w *tiersWorld) freeze() {
	w.wait(100 * time.Millisecond) // not in the midst of a change, of which the half would be frozen
	said, _, err := w.weir.rollbacks.freeze("mesh", !w.frozen, time.Now())
	w.weir.canaries.Wake()
	w.logf("freeze: %q, %v", said, err)
	w.frozen = !w.weir.freezes.get("mesh").frozen.IsZero()
	w.counts["freezes"]++
}

// restart ends the process, and another one starts with the snapshot.
func (w *tiersWorld) restart() {
	w.counts["restarts"]++
	w.logf("weir restarts")
	w.weir.end()
	w.weir, w.restarted = startTiered(w), time.Now().Add(time.Nanosecond)
	w.mu.Lock()
	w.anew = !slices.ContainsFunc(w.clients, func(c *tiersClient) bool { return c.tier == canary.Rest })
	for _, v := range w.verdicts { // what was tried is tried anew
		v.tried = time.Time{}
	}
	w.mu.Unlock()
	for _, c := range w.clients {
		c.reconnect(w)
	}
}

// ask is the check. What it objects to from before the candidate counts only if it does so still
// when the candidate has baked.
func (w *tiersWorld) ask(context.Context) (objects bool, why string, err error) {
	time.Sleep(100 * time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	if is, n := w.candidate(); is {
		v := w.verdict(n)
		v.objected = w.objects || v.objected && v.fine
		v.fine, v.stopped = v.fine || !w.objects, v.stopped || w.objects
	}
	return w.objects, "errors", nil
}
