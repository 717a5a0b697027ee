package admin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-xds/weir/cmd/weir/canary"
	"github.com/weir-xds/weir/relay/gate"
)

// kept adds what clients are not given, by the guard, by freezes and by rollbacks.
func (o *Overview) kept(add adder) {
	for _, h := range o.Held {
		if h.By == byGuard {
			add(Warn, originLink(h.Origin), "The guard holds back %s of %s until %s.", Plural(h.Resources, "removal"), h.Origin, clock(h.Until))
		}
	}
	for i := range o.Origins {
		x := &o.Origins[i]
		x.rolledBack(add)
		x.candidates(add)
		if by := x.all().freezers(); len(by) > 0 {
			add(Warn, originLink(x.Name), "Origin %s is frozen by %s since %s; %s waiting.", x.Name, strings.Join(by, " and "), clock(x.Frozen), Plural(x.FrozenChanges, "change"))
		}
	}
}

// freezers are who has frozen the origin, but for the freeze that a rollback of all of it brings.
func (o *Origin) freezers() []string {
	if o.Rollback == nil || !o.Rollback.Whole {
		return o.FrozenBy
	}
	return slices.DeleteFunc(slices.Clone(o.FrozenBy), func(by string) bool { return by == byOperator })
}

// rolledBack adds that clients are at an earlier state.
func (o *OriginOverview) rolledBack(add adder) {
	b := o.all().Rollback
	if b == nil {
		return
	}
	what := o.Name + " is"
	switch n := len(b.Groups); {
	case b.Whole:
	case n == 1:
		what = "1 group of " + o.Name + " is"
	default:
		what = fmt.Sprintf("%d groups of %s are", n, o.Name)
	}
	wait := Thousands(b.Waiting) + " resources wait"
	if b.Waiting == 1 {
		wait = "1 resource waits"
	}
	add(Warn, originLink(o.Name), "%s rolled back since %s by %s to %s; %s.", what, clock(b.Since), b.By, b.state(), wait)
}

// state is what groups are at: the state, if it is the same one of all, or else what was ordered.
func (b *Rollback) state() string {
	if len(b.Groups) == 0 {
		return b.To
	}
	first := &b.Groups[0]
	if first.State == "" || slices.ContainsFunc(b.Groups, func(g RolledBackGroup) bool { return g.State != first.State }) {
		return b.To
	}
	return first.state()
}

// state is what the group is at.
func (g *RolledBackGroup) state() string {
	switch {
	case g.State == "":
		return g.To
	case g.Of.IsZero():
		return "the state " + ShortState(g.State)
	}
	return fmt.Sprintf("the state of %s (%s)", clock(g.Of), ShortState(g.State))
}

// ShortState is as much of a state's ID as sentences have.
func ShortState(id string) string { return id[:min(12, len(id))] }

// Thousands is a number with a comma for each thousand.
func Thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// How the canary gates of an origin stand, in sentences.

// gates are those of an origin in a phase, whose candidate is late or not.
func (o *Origin) gates(phase gate.Phase, undecided bool) (all []*canary.Status) {
	for i := range o.Canary {
		if s := &o.Canary[i]; s.Phase == phase.String() && s.Undecided == undecided {
			all = append(all, s)
		}
	}
	return all
}

// all is the origin with all its gates and groups.
func (o *OriginOverview) all() *Origin {
	if o.full != nil {
		return o.full
	}
	return &o.Origin
}

// bound leaves out of the overview what would make it long. /origins has all.
func (o *OriginOverview) bound(s *Origin) {
	o.full = s
	if len(s.Canary) > 0 {
		o.Gates = map[string]int{}
		for i := range s.Canary {
			o.Gates[s.Canary[i].Phase]++
		}
		calm := func(s *canary.Status) int {
			switch {
			case s.Phase == gate.Stopped.String() || s.Undecided:
				return 0
			case s.Phase == gate.Idle.String():
				return 2
			}
			return 1
		}
		worst := slices.Clone(s.Canary)
		slices.SortStableFunc(worst, func(x, y canary.Status) int { return calm(&x) - calm(&y) })
		o.Canary = worst[:min(len(worst), overviewGroups)]
	}
	if b := s.Rollback; b != nil && len(b.Groups) > overviewGroups {
		few := *b
		few.Groups, few.LeftOut = b.Groups[:overviewGroups], len(b.Groups)-overviewGroups
		o.Rollback = &few
	}
	o.NACKs, o.NACKsLeftOut = firstOf(o.NACKs)
	o.Quarantined, o.QuarantinedLeftOut = firstOf(o.Quarantined)
}

// candidates adds candidates that wait for somebody: stopped ones, and those that are neither good
// nor bad.
func (o *OriginOverview) candidates(add adder) {
	if all := o.all().gates(gate.Stopped, false); len(all) > 0 {
		add(Warn, originLink(o.Name), "%s stopped%s: %s.", subject(o.Name, all, "was", "were"), inGroups(all), short(all[0].Why))
	}
	if all := o.all().gates(gate.Baking, true); len(all) > 0 {
		s := all[0]
		ends := "until an operator decides"
		if !s.Promoted.IsZero() {
			ends = "until " + clock(s.Promoted) + ", when they are given it nevertheless"
		}
		add(Warn, originLink(o.Name), "%s neither good nor bad%s: %s, %d needed%s. The rest wait %s.",
			subject(o.Name, all, "is", "are"), inGroups(all), acknowledged(s), s.Needed, checkSays(s), ends)
	}
}

// timedOutFor is for how long people are told that a candidate has reached the rest so.
const timedOutFor = time.Hour

// timedOut adds that candidates have reached the rest, though nobody has shown them to be good.
func (o *OriginOverview) timedOut(now time.Time, add adder) {
	var all []*canary.Status
	for _, s := range o.all().gates(gate.Idle, false) {
		if s.TimedOut && now.Sub(s.Since) < timedOutFor {
			all = append(all, s)
		}
	}
	if len(all) > 0 {
		add(Warn, originLink(o.Name), "%s given to all at %s%s, though not shown to be good: max_hold was over.",
			subject(o.Name, all, "was", "were"), clock(all[0].Since), inGroups(all))
	}
}

// bakes adds that a candidate is on its way, which is as it should be.
func (o *OriginOverview) bakes(now time.Time, add adder) {
	all := o.all().gates(gate.Baking, false)
	if len(all) == 0 {
		return
	}
	last := all[0]
	for _, s := range all {
		if s.Bakes.After(last.Bakes) {
			last = s
		}
	}
	verb := "bakes"
	if len(all) > 1 {
		verb = "bake"
	}
	add(Good, originLink(o.Name), "%s%s: %s.", subject(o.Name, all, verb, verb), inGroups(all), progress(now, last))
}

// progress is how far a candidate is.
func progress(now time.Time, s *canary.Status) string {
	left := "and it has baked" + checkSays(s)
	if d := s.Bakes.Sub(now); d > 0 {
		left = fmt.Sprintf("%d s left", int(d.Seconds()+0.999))
	}
	return acknowledged(s) + ", " + left
}

func acknowledged(s *canary.Status) string {
	said := "no canary is connected"
	if s.Canaries > 0 {
		said = fmt.Sprintf("%d of %d acknowledged", s.Acked, s.Canaries)
	}
	if s.Gone > 0 {
		said += fmt.Sprintf(", %d that had it gone", s.Gone)
	}
	return said
}

// checkSays is what the check said, if it does not say that all is well.
func checkSays(s *canary.Status) string {
	if s.Check == "" || s.Check == gate.Fine.String() {
		return ""
	}
	if s.CheckSaid == "" {
		return "; the check has not answered"
	}
	return "; the check: " + short(s.CheckSaid)
}

func subject(origin string, all []*canary.Status, one, many string) string {
	if len(all) == 1 {
		return "A candidate of " + origin + " " + one
	}
	return "Candidates of " + origin + " " + many
}

// inGroups is how many groups it is, if there are several.
func inGroups(all []*canary.Status) string {
	if len(all) == 1 {
		return ""
	}
	return fmt.Sprintf(" in %d groups", len(all))
}

// heldByGates is what the gates of an origin keep from the rest. Those of a paused gate are counted
// with what pauses it.
func heldByGates(o *Origin) (held Held) {
	held = Held{Origin: o.Name, By: byCanary}
	for i := range o.Canary {
		s := &o.Canary[i]
		if s.Waiting == 0 || s.Phase == gate.Paused.String() {
			continue
		}
		held.Resources += s.Waiting
		if held.Since.IsZero() || s.Since.Before(held.Since) {
			held.Since = s.Since
		}
	}
	return held
}

// Candidates is the short form of how the canary gates of an origin stand, for a line about it; "":
// no candidate is tried or was stopped.
func (o *Origin) Candidates(now time.Time) string {
	var all []string
	say := func(gates []*canary.Status, what string, more func(*canary.Status) string) {
		if n := len(gates); n > 0 {
			all = append(all, fmt.Sprintf("%s %s (%s)", Plural(n, "candidate"), what, more(gates[0])))
		}
	}
	say(o.gates(gate.Stopped, false), "stopped", func(s *canary.Status) string { return short(s.Why) })
	progress := func(s *canary.Status) string { return progress(now, s) }
	say(o.gates(gate.Baking, true), "neither good nor bad", progress)
	say(o.gates(gate.Baking, false), "baking", progress)
	return strings.Join(all, ", ")
}
