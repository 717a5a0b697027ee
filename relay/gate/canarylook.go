package gate

import (
	"errors"
	"math"
	"slices"
	"time"
)

// to is the trial in another phase.
func (t Trial) to(phase Phase, now time.Time) Trial {
	if t.Phase != phase {
		t.Phase, t.Since = phase, now
	}
	return t
}

// Resume is the trial after a restart of what was remembered. A candidate that was baking is tried
// anew, on the canaries that come back.
func (t Trial) Resume() Trial {
	if t.Phase != Stopped {
		return Trial{Stops: t.Stops}
	}
	t.Tried = time.Time{}
	return t
}

// Look decides what to do about a group. It is to be called again with what is seen when that is
// done, at Again, and when something happens.
func (c Canary) Look(t Trial, s Seen, now time.Time) (Trial, Decision) {
	if s.Paused {
		return c.paused(t, s, now)
	}
	switch t.Phase {
	case Starting:
		return c.starting(t, s, now)
	case Paused:
		// Canaries may have been moved. A candidate is tried anew. What was frozen is behind the
		// origin, and perhaps half of a change, until the origin has stated the differences.
		t.Resumed = now
		if t.Candidate, t.Captured = "", false; !s.Stable {
			return c.starting(t.to(Starting, now), s, now)
		}
		return c.between(t.to(Idle, now), s, now)
	case Baking:
		return c.baking(t, s, now)
	}
	return c.between(t, s, now)
}

// paused looks at a group whose clients an operator keeps at what they have. What is rejected in
// the meantime is not begun again.
func (c Canary) paused(t Trial, s Seen, now time.Time) (Trial, Decision) {
	if t.Phase != Baking && t.Phase != Paused {
		t.Candidate = ""
	}
	t = t.to(Paused, now)
	if t.Candidate == "" || !s.Rejected {
		return t, Decision{}
	}
	t = t.stop(WasRejected)
	t.Candidate = ""
	return t, Decision{Do: Stop, Because: WasRejected}
}

func (c Canary) starting(t Trial, s Seen, now time.Time) (Trial, Decision) {
	switch {
	case s.Stable:
		return c.between(t.to(Idle, now), s, now)
	case !s.Known:
		t.Since = time.Time{}
		return t, Decision{}
	case t.Since.IsZero():
		t.Since = now
	}
	if at := settled(t.Since, later(t.Since, s.Changed)); at.After(now) {
		return t, Decision{Again: at}
	}
	t.Captured, t.Tried = true, s.Changed
	return t.to(Idle, now), Decision{Do: First}
}

// between looks at a group that has no candidate.
func (c Canary) between(t Trial, s Seen, now time.Time) (Trial, Decision) {
	if !s.Differs {
		// Without a difference, what was stopped is not what the origin says any more.
		return t.to(Idle, now), Decision{Do: onlyIf(s.Apart, Return)}
	}
	if t.knows(s) {
		return t, Decision{Do: onlyIf(s.Apart && (t.Phase != Stopped || !c.Stay), Return)}
	}
	last := later(s.Changed, t.Resumed)
	// What was stopped just now stays so if nothing is newer.
	if t.Phase != Stopped || t.Captured || last.After(t.Since) {
		t = t.to(Settling, now)
	}
	if last.IsZero() {
		last = t.Since
	}
	if at := settled(t.Since, last); at.After(now) {
		return t, Decision{Again: at}
	}
	return t, Decision{Do: Capture}
}

// Captured says what to do with the newest state, which has been captured after s was seen. same:
// nothing that is tried differs between it and what the rest have.
func (c Canary) Captured(t Trial, s Seen, id string, same bool, now time.Time) (Trial, Decision) {
	t.Captured, t.Tried = true, s.Changed
	switch {
	case t.Phase == Baking && !same:
		return t, Decision{} // what is newer waits
	case t.Phase == Baking:
		return t.ended(now)
	case same:
		return t.to(Idle, now), Decision{Do: Pass}
	case slices.Contains(t.Stops, id):
		t.Candidate = id
		return t.to(Stopped, now), Decision{Do: onlyIf(s.Apart && !c.Stay, Return)}
	}
	t.Candidate, t.Alarmed, t.WasFine, t.Because = id, false, s.Hook == Fine, NoReason
	t.Phase, t.Since = Baking, now
	return t, Decision{Do: Begin, Again: now.Add(c.Bake)}
}

func (c Canary) baking(t Trial, s Seen, now time.Time) (Trial, Decision) {
	t.WasFine = t.WasFine || s.Hook == Fine
	switch {
	case s.Rejected:
		return c.stopped(t, WasRejected, now)
	case s.Hook == Objects && (t.WasFine || s.HookLast):
		return c.stopped(t, HookObjected, now)
	case s.Given > 1 && c.tooMany(s.Lost, s.Given):
		return c.stopped(t, CanariesGone, now)
	}
	if !s.Differs || !t.knows(s) {
		switch quiet := s.Changed.Add(CanarySettle); {
		case quiet.After(now):
			t, d := c.judge(t, s, now)
			if d.Again.IsZero() || d.Again.After(quiet) {
				d.Again = quiet
			}
			return t, d
		case s.Differs:
			return t, Decision{Do: Capture} // it may have gone back
		}
		return t.ended(now)
	}
	return c.judge(t, s, now)
}

// ended is when the origin itself has gone back to the stable state.
func (t Trial) ended(now time.Time) (Trial, Decision) {
	t.Candidate, t.Because = "", OriginWent
	return t.to(Idle, now), Decision{Do: Return, Because: OriginWent}
}

// judge finds out whether a candidate that nobody objects to is good.
func (c Canary) judge(t Trial, s Seen, now time.Time) (Trial, Decision) {
	good := t.Since.Add(c.Bake)
	switch {
	case good.After(now):
		return t, Decision{Again: good}
	case !s.HookLast:
		return t, Decision{} // it is asked now
	case s.Acked >= c.Needed(s.Clients) && !c.tooMany(s.Gone, s.Given) && (s.Hook == Fine || c.PassUnknown):
		return t.promoted(Good, now)
	}
	alarm, most := c.Late(t.Since)
	switch {
	case !t.Alarmed && alarm.After(now):
		return t, Decision{Again: alarm}
	case !t.Alarmed:
		t.Alarmed = true
		return t, Decision{Do: Alarm, Again: now}
	case most.IsZero():
		return t, Decision{}
	case most.After(now):
		return t, Decision{Again: most}
	}
	return t.promoted(TimedOut, now)
}

// tooMany reports whether more of the canaries that were given a candidate are gone than may be.
func (c Canary) tooMany(gone, given int) bool {
	return gone > 0 && float64(gone) > c.GoneShare*float64(given)
}

// Needed is how many of the canaries have to acknowledge a candidate.
func (c Canary) Needed(clients int) int {
	return max(c.Acks, int(math.Ceil(c.AckShare*float64(clients)-1e-9)))
}

// BakedAt is when a candidate that began at a time has baked.
func (c Canary) BakedAt(since time.Time) time.Time { return since.Add(c.Bake) }

// Late returns when people are told that a candidate is neither good nor bad, and when it is
// promoted nevertheless; zero: never.
func (c Canary) Late(since time.Time) (alarm, most time.Time) {
	if c.MaxHold <= 0 {
		return since.Add(max(2*c.Bake, time.Minute)), time.Time{}
	}
	hold := max(c.MaxHold, c.Bake)
	return since.Add(c.Bake + (hold-c.Bake)/2), since.Add(hold)
}

func (t Trial) promoted(why Because, now time.Time) (Trial, Decision) {
	t.Stops = without(t.Stops, t.Candidate)
	t.Candidate, t.Because, t.Captured = "", why, false
	return t.to(Idle, now), Decision{Do: Promote, Because: why, Again: now}
}

func (c Canary) stopped(t Trial, why Because, now time.Time) (Trial, Decision) {
	return t.stop(why).to(Stopped, now), Decision{Do: Stop, Return: !c.Stay, Because: why, Again: now}
}

// stop remembers the candidate as one that was stopped.
func (t Trial) stop(why Because) Trial {
	t.Because, t.Captured = why, false
	if slices.Contains(t.Stops, t.Candidate) {
		return t
	}
	if t.Stops = slices.Clone(t.Stops); len(t.Stops) == mostStopped {
		t.Stops = t.Stops[1:]
	}
	t.Stops = append(t.Stops, t.Candidate)
	return t
}

// settled is when what has been changing since a time counts as done.
func settled(from, last time.Time) time.Time {
	quiet, most := last.Add(CanarySettle), from.Add(CanarySettleMost)
	if quiet.Before(most) {
		return quiet
	}
	return most
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func onlyIf(is bool, do Do) Do {
	if is {
		return do
	}
	return Nothing
}

// Act is what an operator asks for.
type Act uint8

// The acts. ActNames has their names.
const (
	ActPromote Act = iota // give the rest the candidate, although it is not good, or was stopped
	ActStop               // end the candidate as if it had been rejected
	ActRetry              // begin the newest state, also if it was stopped
)

// ActNames are the names of the acts, in their order.
var ActNames = []string{"promote", "stop", "retry"}

// Operate does what an operator asks for. has says whether the state of Trial.Candidate is at hand.
func (c Canary) Operate(t Trial, act Act, has bool, now time.Time) (Trial, Decision, error) {
	tried := t.Phase == Baking || t.Phase == Stopped
	switch {
	case t.Phase == Paused:
		return t, Decision{}, errors.New("clients are kept at their current state: end the rollback or the freeze first")
	case !tried || act == ActStop && t.Phase == Stopped:
		return t, Decision{}, errors.New("no candidate is tried")
	case act == ActRetry:
		t.Stops = without(t.Stops, t.Candidate)
		t.Candidate, t.Captured = "", false
		return t.to(Settling, now), Decision{Again: now}, nil
	case act == ActStop:
		t, d := c.stopped(t, ByOperator, now)
		return t, d, nil
	case !has:
		return t, Decision{}, errors.New("the candidate that was stopped is not kept any more: retry the newest state")
	}
	t, d := t.promoted(ByOperator, now)
	return t, d, nil
}

// knows reports whether the newest state has been captured.
func (t Trial) knows(s Seen) bool { return t.Captured && !s.Changed.After(t.Tried) }

func without(all []string, id string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(x string) bool { return x == id })
}
