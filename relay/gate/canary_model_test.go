package gate

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// canaryWorld is a group, its origin and its clients.
type canaryWorld struct {
	*testing.T
	*rand.Rand
	policy           Canary
	now, changed     time.Time
	newest, canary   string
	candidate        string
	rest             string // "": nothing is held yet
	trial            Trial
	began            time.Time // of the candidate
	clients, acked   int
	rejected, paused bool
	hook             Verdict
	asked            time.Time       // when the hook was
	fine             bool            // the hook was, since the candidate began
	bad              map[string]bool // rejected, or objected to, as a candidate
	alarmed          bool
	leftover         bool // something differs that is not tried
	log              []string
}

func (w *canaryWorld) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%8v  %s", w.now.Sub(start), fmt.Sprintf(format, args...)))
}

func (w *canaryWorld) fatal(format string, args ...any) {
	for _, line := range w.log[max(0, len(w.log)-40):] {
		w.Log(line)
	}
	w.Fatalf(format, args...)
}

// look does what the gate says until it says nothing more.
func (w *canaryWorld) look() {
	for range 12 {
		s := Seen{
			Known: true, Stable: w.rest != "", Paused: w.paused, Differs: w.newest != w.rest || w.leftover, Apart: w.canary != w.rest, Changed: w.changed,
			Clients: w.clients, Acked: w.acked, Rejected: w.rejected, Hook: w.hook,
			HookLast: !w.asked.Before(w.began.Add(w.policy.Bake)),
		}
		trial, d := w.policy.Look(w.trial, s, w.now)
		if w.trial = trial; d.Do == Nothing {
			if trial.Phase == Baking && w.hook == Objects && (w.fine || s.HookLast) {
				w.fatal("%s goes on although the hook objects", w.candidate)
			}
			return
		}
		if d.Do == Capture {
			w.trial, d = w.policy.Captured(trial, s, w.newest, w.newest == w.rest, w.now)
		}
		w.do(d)
	}
	w.fatal("the gate is never done")
}

func (w *canaryWorld) do(d Decision) {
	if d.Do != Nothing {
		w.note("do %d because %d, phase %v: newest %s, canaries %s, rest %s", d.Do, d.Because, w.trial.Phase, w.newest, w.canary, w.rest)
	}
	if w.paused && d.Do != Nothing && (d.Do != Stop || d.Return) {
		w.fatal("clients are moved although they are kept at what they have")
	}
	switch d.Do {
	case First, Pass:
		if d.Do == First && w.rest != "" {
			w.fatal("a first state after the first")
		}
		w.canary, w.rest = w.newest, w.newest
	case Begin:
		if w.bad[w.newest] {
			w.fatal("%s is begun although it was stopped", w.newest)
		}
		w.canary, w.candidate, w.began = w.newest, w.newest, w.now
		w.fine = w.hook == Fine
		w.rejected, w.acked, w.alarmed, w.hook = false, 0, false, Unknown
	case Promote:
		w.promote(d)
	case Stop, Return:
		if d.Do == Stop {
			w.bad[w.candidate] = true
		}
		if d.Because == HookObjected && !w.fine && w.now.Before(w.began.Add(w.policy.Bake)) {
			w.fatal("%s is stopped by what may be of the time before it", w.candidate)
		}
		if d.Do == Return || d.Return {
			w.canary = w.rest
		}
	case Alarm:
		w.alarmed = true
	}
}

func (w *canaryWorld) promote(d Decision) {
	held := w.now.Sub(w.began)
	switch {
	case d.Because == ByOperator:
		delete(w.bad, w.canary)
	case w.rejected || w.hook == Objects || w.bad[w.canary]:
		w.fatal("%s is promoted although it is bad", w.canary)
	case held < w.policy.Bake:
		w.fatal("%s is promoted after %v", w.canary, held)
	case d.Because == TimedOut && (w.policy.MaxHold == 0 || held < w.policy.MaxHold || !w.alarmed):
		w.fatal("%s is given up on after %v, told: %v", w.canary, held, w.alarmed)
	case d.Because == Good && (w.acked < w.policy.Needed(w.clients) || w.hook != Fine && !w.policy.PassUnknown || w.asked.Before(w.began.Add(w.policy.Bake))):
		w.fatal("%s counts as good: %d of %d, the hook is %v", w.canary, w.acked, w.clients, w.hook)
	}
	w.rest = w.canary
}

// happen has something happen.
func (w *canaryWorld) happen() {
	w.now = w.now.Add(time.Duration(w.Int64N(int64(20 * time.Second))))
	switch w.IntN(13) {
	case 0, 1, 2:
		if to := fmt.Sprint("s", w.IntN(8)); to != w.newest && !w.paused {
			w.newest, w.changed = to, w.now
			w.note("the origin has %s", to)
		}
	case 3:
		w.rejected = w.rejected || w.canary != w.rest
		w.note("rejected: %v", w.rejected)
	case 4, 5:
		w.clients = w.IntN(4)
		w.acked = w.IntN(w.clients + 1)
	case 6, 7:
		w.hook, w.asked = Verdict(w.IntN(3)), w.now
		w.fine = w.fine || w.hook == Fine
	case 8:
		w.paused = !w.paused
		w.note("paused: %v", w.paused)
	case 9:
		w.note("restart in phase %v", w.trial.Phase)
		w.trial, w.leftover = w.trial.Resume(), false
		w.changed = time.Time{}
	case 10:
		has, was := w.canary == w.trial.Candidate, w.trial.Candidate
		trial, d, err := w.policy.Operate(w.trial, Act(w.IntN(3)), has, w.now)
		if w.note("an operator acts: %v", err); err == nil {
			if w.trial = trial; d.Do == Nothing {
				delete(w.bad, was) // to be tried again
			}
			w.do(d)
		}
	case 11:
		w.leftover = !w.leftover
	case 12:
		if w.trial.Phase != Baking { // as after a rollback to another state
			w.canary = "other"
		}
	}
}

// TestCanaryInvariants: whatever happens, nothing reaches the rest that was stopped, or before it is
// good; and when all is quiet, what the origin says has been tried.
func TestCanaryInvariants(t *testing.T) {
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number will do
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // not for secrets
	for range 3000 {
		w := &canaryWorld{
			T: t, Rand: rnd, now: start, changed: start, newest: "s0", bad: map[string]bool{},
			policy: Canary{
				Bake: seconds(float64(rnd.IntN(100))), Acks: rnd.IntN(3), AckShare: rnd.Float64(), Stay: rnd.IntN(2) == 0,
				MaxHold: seconds(float64(rnd.IntN(2) * 600)), PassUnknown: rnd.IntN(2) == 0,
			},
		}
		for range 100 {
			w.happen()
			w.look()
		}
		w.settle()
	}
}

// settle has nothing happen for long, and checks what has become of the newest state.
func (w *canaryWorld) settle() {
	w.paused, w.clients, w.acked, w.rejected, w.hook = false, 3, 3, false, Fine
	for range 30 {
		w.now = w.now.Add(10 * time.Second)
		w.acked, w.hook, w.asked = 3, Fine, w.now
		w.look()
	}
	switch {
	case w.rest == w.newest && w.canary == w.newest:
	case w.bad[w.newest] && w.trial.Phase == Stopped && (w.policy.Stay || w.canary == w.rest):
	default:
		w.fatal("in the end the origin has %s, canaries %s, the rest %s, in phase %v, stopped %v", w.newest, w.canary, w.rest, w.trial.Phase, w.bad)
	}
}
