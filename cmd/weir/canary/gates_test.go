package canary

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay/gate"
)

const (
	second = time.Second
	minute = time.Minute
)

func TestGates(t *testing.T) {
	stay := func(w *world) { w.policy.Stay = true }
	withCheck := func(c *Check) func(*world) { return func(w *world) { w.check = c } }
	var objecting atomic.Int64 // so many times
	objects := answers(func() (bool, string, error) { return objecting.Add(-1) >= 0, "errors: 0.2", nil })
	lenient := func(w *world) { w.policy.PassUnknown = true }
	away := answers(func() (bool, string, error) { return false, "", errAway })
	for story, c := range map[string]struct {
		edit []func(*world)
		play func(w *world)
	}{
		"a good one reaches all after the bake": {nil, func(w *world) {
			w.canaries(true, "n1")
			w.says("b")
			w.is(2*second, "a", "a", "settling")
			w.is(second, "b", "a", "baking")
			w.canaries(true, "n1")
			w.is(58*second, "b", "a", "baking")
			if s := w.status(); s.Canaries != 1 || s.Acked != 1 || s.Needed != 1 || s.Candidate != "b" || s.Stable != "a" || s.Waiting != 1 {
				w.Errorf("while it bakes: %+v", s)
			}
			w.is(3*second, "b", "b", "idle")
			if w.counts["begun"] != 1 || w.counts["promoted"] != 1 || !w.logged("promoted", "1 of 1 canaries") {
				w.Errorf("counted %v, said %v", w.counts, w.said())
			}
		}},
		"a rejection stops it at once, and the canaries return": {nil, func(w *world) {
			w.canaries(true, "n1")
			w.says("b")
			w.is(3*second, "b", "a", "baking")
			w.rejects("c")
			w.is(time.Millisecond, "a", "a", "stopped")
			w.canaries(true, "n1")
			w.is(2*time.Hour, "a", "a", "stopped")
			if s := w.status(); !strings.Contains(s.Why, "n1 rejects it: no") || s.Rejected == nil || s.Rejected.NodeID != "n1" {
				w.Errorf("%+v", s)
			}
			if w.counts["stopped"] != 1 || !w.logged("stopped", "n1 rejects it: no") {
				w.Errorf("counted %v, said %v", w.counts, w.said())
			}
			w.says("c")
			w.is(3*second, "c", "a", "baking")
			w.says("b") // again
			w.rejects("")
			w.is(3*second, "a", "a", "stopped")
		}},
		"a rejection, and the canaries stay": {[]func(*world){stay}, func(w *world) {
			w.says("b")
			w.is(3*second, "b", "a", "baking")
			w.rejects("c")
			w.is(minute, "b", "a", "stopped")
			w.restart()
			w.is(minute, "b", "a", "stopped")
			w.says("a")
			w.is(3*second, "a", "a", "idle")
		}},
		"who rejects and crashes counts, and has not acknowledged": {nil, func(w *world) {
			w.canaries(true, "n1")
			w.says("b")
			w.is(3*second, "b", "a", "baking")
			w.rejects("c")
			w.canaries(true)
			w.is(minute, "a", "a", "stopped")
		}},
		"who crashes without a word is no acknowledgement": {nil, func(w *world) {
			w.says("b")
			w.is(3*second, "b", "a", "baking")
			w.canaries(true, "n1")
			w.is(10*second, "b", "a", "baking")
			w.canaries(true)
			w.is(10*minute, "b", "a", "baking")
			w.locked(func() { w.members = append(w.members, member(7, "n1", false)) })
			w.is(minute, "b", "a", "baking")
			w.locked(func() { w.members[0].InSync = true })
			w.is(second, "b", "b", "idle")
		}},
		"a rejection of what the rest have as well does not count": {nil, func(w *world) {
			w.canaries(true, "n1")
			w.says("b")
			w.is(3*second, "b", "a", "baking")
			w.rejects("other")
			w.gates.Refused("k", &downstream.Refusal{Origin: "mesh", Message: "no", At: time.Now(), Sent: time.Now().Add(-minute)}) // of what was before
			w.canaries(true, "n1")
			w.is(minute, "b", "b", "idle")
		}},
		"what changes during a bake is the next": {nil, func(w *world) {
			w.says("b")
			w.is(3*second, "b", "a", "baking")
			w.canaries(true, "n1")
			w.says("c")
			w.is(20*second, "b", "a", "baking")
			w.says("d")
			w.is(40*second, "d", "b", "baking")
			w.canaries(true, "n1")
			w.is(minute, "d", "d", "idle")
			if got := strings.Join(w.history, ""); got != "abd" {
				w.Errorf("the rest had %s", got)
			}
		}},
		"what is rejected before it bakes again after a freeze counts": {nil, func(w *world) {
			w.canaries(true, "n1")
			w.says("b")
			w.is(3*second, "b", "a", "baking")
			w.locked(func() { w.paused = "frozen" })
			w.is(second, "b", "a", "paused")
			w.locked(func() { w.paused = "" })
			w.is(second, "b", "a", "settling")
			w.rejects("c") // they have it already, and do not say it again
			w.is(3*second, "a", "a", "stopped")
		}},
		"canaries that stay do not say again what they rejected": {[]func(*world){stay}, func(w *world) {
			w.canaries(true, "n1")
			w.says("b")
			w.is(3*second, "b", "a", "baking")
			w.rejects("c")
			w.is(second, "b", "a", "stopped")
			w.says("b+2")
			w.is(3*second, "b+2", "a", "stopped")
			w.says("d+2")
			w.is(3*second, "d+2", "a", "baking")
		}},
		"what was rejected of the one before does not count": {[]func(*world){stay}, func(w *world) {
			w.canaries(true, "n1")
			w.says("b")
			w.is(3*second, "b", "a", "baking")
			w.locked(func() { w.paused = "frozen" })
			w.is(second, "b", "a", "paused")
			w.says("c")
			w.locked(func() { w.paused = "" })
			w.is(second, "b", "a", "settling")
			w.rejects("c")
			w.is(3*second, "c", "a", "baking")
			w.canaries(true, "n1")
			w.is(minute, "c", "c", "idle")
		}},
		"the origin goes back while one bakes": {nil, func(w *world) {
			w.says("b")
			w.is(3*second, "b", "a", "baking")
			w.says("a")
			w.is(3*second, "a", "a", "idle")
			if w.counts["returned"] != 1 {
				w.Errorf("counted %v", w.counts)
			}
		}},
		"nobody is a canary: an alarm, and then it goes on": {nil, func(w *world) {
			w.says("b")
			w.is(30*minute, "b", "a", "baking")
			if w.status().Undecided {
				w.Error("undecided too early")
			}
			w.is(minute, "b", "a", "baking")
			if s := w.status(); !s.Undecided || !s.Promoted.Equal(s.Since.Add(time.Hour)) || !w.logged("canary trial undecided") {
				w.Errorf("%+v; said %v", s, w.said())
			}
			w.is(29*minute+10*second, "b", "b", "idle")
			if w.counts["timed_out"] != 1 {
				w.Errorf("counted %v", w.counts)
			}
		}},
		"the check objects": {[]func(*world){withCheck(objects)}, func(w *world) {
			objecting.Store(0)
			w.says("b")
			w.is(3*second, "b", "a", "baking")
			w.canaries(true, "n1")
			w.is(15*second, "b", "a", "baking")
			objecting.Store(1)
			w.is(11*second, "a", "a", "stopped")
			if s := w.status(); !strings.Contains(s.Why, "errors: 0.2") {
				w.Errorf("%+v", s)
			}
			w.says("c")
			w.is(20*second, "c", "a", "baking")
			w.says("d")
			w.is(5*second, "c", "a", "baking")
			objecting.Store(1)
			w.is(11*second, "d", "a", "baking") // what was said of another one does not count
			w.canaries(true, "n1")
			w.is(minute, "d", "d", "idle")
		}},
		"the check objects to what was stopped when the mended one begins": {[]func(*world){withCheck(objects)}, func(w *world) {
			objecting.Store(0)
			w.says("b")
			w.is(3*second, "b", "a", "baking")
			objecting.Store(100)
			w.is(11*second, "a", "a", "stopped")
			w.says("c")
			w.is(3*second, "c", "a", "baking")
			w.is(11*second, "c", "a", "baking")
			if s := w.status(); s.Check != "objects" || !strings.Contains(s.CheckSaid, "errors: 0.2; it has done so since the candidate began") {
				w.Errorf("%+v", s)
			}
			objecting.Store(0)
			w.canaries(true, "n1")
			w.is(minute, "c", "c", "idle")
			w.says("d")
			w.is(3*second, "d", "c", "baking")
			w.canaries(true, "n1")
			objecting.Store(100)
			w.is(11*second, "c", "c", "stopped") // of this one it was fine
		}},
		"the check objects to what was stopped, and to the next as long as it bakes": {[]func(*world){withCheck(objects)}, func(w *world) {
			objecting.Store(100)
			w.says("b")
			w.is(3*second, "b", "a", "baking")
			w.canaries(true, "n1")
			w.is(59*second, "b", "a", "baking")
			w.is(second, "a", "a", "stopped")
		}},
		"the check was fine before, and objects to all that it has": {[]func(*world){withCheck(objects)}, func(w *world) {
			objecting.Store(0)
			w.says("b")
			w.is(2*second, "a", "a", "settling")
			objecting.Store(100)
			w.is(700*time.Millisecond, "a", "a", "stopped")
			if w.counts["begun"] != 1 {
				w.Errorf("counted %v", w.counts)
			}
		}},
		"the check is asked at the end of the bake": {[]func(*world){withCheck(objects), func(w *world) { w.policy.Bake = 25 * second }}, func(w *world) {
			objecting.Store(0)
			w.says("b")
			w.is(3*second, "b", "a", "baking")
			w.canaries(true, "n1")
			w.is(20*second, "b", "a", "baking") // it was asked after 20 s, and would be after 30
			objecting.Store(1)
			w.is(5*second, "a", "a", "stopped")
		}},
		"the check has no answer: it waits": {[]func(*world){withCheck(away)}, func(w *world) {
			w.says("b")
			w.is(3*second, "b", "a", "baking")
			w.canaries(true, "n1")
			w.is(10*minute, "b", "a", "baking")
			if s := w.status(); s.Check != "unknown" || s.CheckSaid != "away" || !w.logged("no answer", "away") {
				w.Errorf("%+v", s)
			}
		}},
		"the check has no answer, which is none": {[]func(*world){withCheck(away), lenient}, func(w *world) {
			w.says("b")
			w.is(3*second, "b", "a", "baking")
			w.canaries(true, "n1")
			w.is(minute, "b", "b", "idle")
		}},
		"restart while one bakes: it bakes anew": {nil, func(w *world) {
			w.says("b")
			w.is(50*second, "b", "a", "baking")
			w.canaries(true, "n1")
			w.restart()
			w.is(50*second, "b", "a", "baking")
			w.is(15*second, "b", "b", "idle")
		}},
		"restart while one settles, and while nothing waits": {nil, func(w *world) {
			w.restart()
			w.is(minute, "a", "a", "idle")
			w.says("b")
			w.is(second, "a", "a", "settling")
			w.restart()
			w.is(3*second, "b", "a", "baking")
		}},
		"restart when one was stopped: it is not begun again": {nil, func(w *world) {
			w.says("b")
			w.is(3*second, "b", "a", "baking")
			w.rejects("")
			w.is(second, "a", "a", "stopped")
			w.restart()
			w.is(minute, "a", "a", "stopped")
			w.says("b") // the origin says all it has again
			w.is(minute, "a", "a", "stopped")
			w.says("c")
			w.is(3*second, "c", "a", "baking")
		}},
		"a rollback pauses": {nil, func(w *world) {
			w.says("b")
			w.is(3*second, "b", "a", "baking")
			w.canaries(true, "n1")
			w.locked(func() { w.paused = "rolled back" })
			w.Hold(time.Now(), "k", Canaries, stateOf("0"))
			w.Hold(time.Now(), "k", Rest, stateOf("0"))
			w.is(time.Hour, "0", "0", "paused")
			if s := w.status(); s.Why != "rolled back" {
				w.Errorf("%+v", s)
			}
			w.restart()
			w.is(time.Hour, "0", "0", "paused")
			w.locked(func() { w.paused = "" })
			w.gates.Wake()
			w.is(3*second, "b", "0", "baking")
			w.canaries(true, "n1")
			w.is(minute, "b", "b", "idle")
		}},
	} {
		t.Run(story, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.edit...)
				defer func() { w.stop() }()
				w.is(3*second, "a", "a", "idle")
				c.play(w)
			})
		})
	}
}

func TestOperators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer func() { w.stop() }()
		acts := func(act gate.Act, key, want string) {
			t.Helper()
			said, err := w.gates.Operate(t.Context(), "mesh", key, act, "ann")
			if err != nil {
				said = err.Error()
			}
			if !strings.Contains(said, want) {
				t.Errorf("%s: %q, want %q", gate.ActNames[act], said, want)
			}
		}
		w.is(3*second, "a", "a", "idle")
		acts(gate.ActPromote, "", "no candidate is tried")
		acts(gate.ActPromote, "x", `no group "x"`)
		w.says("b")
		w.is(3*second, "b", "a", "baking")
		acts(gate.ActStop, "", "the candidate b is stopped")
		w.is(minute, "a", "a", "stopped")
		acts(gate.ActStop, "k", "no candidate is tried")
		acts(gate.ActRetry, "k", "the newest state is tried next")
		w.is(3*second, "b", "a", "baking")
		acts(gate.ActStop, "k", "stopped")
		acts(gate.ActPromote, "k", "the candidate b is promoted")
		w.is(0, "b", "b", "idle")
		if !w.logged("promoted", "by:ann") || !w.logged("stopped", "by:ann") || !w.logged("tried again", "by:ann") {
			t.Errorf("said %v", w.said())
		}
		w.locked(func() { w.paused = "frozen" })
		w.is(2*second, "b", "b", "paused")
		acts(gate.ActRetry, "k", "end the rollback or the freeze first")
	})
}

// TestOffCostsNothing: without canaries nothing is looked at, and nothing waits for time.
func TestOffCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.on = false })
		defer func() { w.stop() }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if w.looks > 1 || w.gates.Look("mesh") != nil {
			t.Errorf("%d looks", w.looks)
		}
		w.locked(func() { w.on = true })
		w.gates.Wake()
		w.is(3*second, "a", "a", "idle")
		if _, err := w.gates.Operate(context.Background(), "other", "", gate.ActStop, ""); err == nil {
			t.Error("an origin without canaries has a candidate")
		}
		w.locked(func() { w.on = false })
		w.gates.Wake()
		synctest.Wait()
		before := w.looks
		time.Sleep(time.Hour)
		synctest.Wait()
		if w.looks > before || w.gates.Look("mesh") != nil {
			t.Errorf("%d looks more when it is off again", w.looks-before)
		}
	})
}
