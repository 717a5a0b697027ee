package admin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// kept adds what clients are not given, by the guard, by freezes and by rollbacks.
func (o *Overview) kept(add adder) {
	for _, h := range o.Held {
		if h.By == byGuard {
			add(Warn, originLink(h.Origin), "The guard holds back %s of %s until %s.", counted(h.Resources, "removal"), h.Origin, clock(h.Until))
		}
	}
	for i := range o.Origins {
		x := &o.Origins[i]
		x.rolledBack(add)
		x.candidates(add)
		if by := x.all().freezers(); len(by) > 0 {
			add(Warn, originLink(x.Name), "Origin %s is frozen by %s since %s; %s waiting.", x.Name, strings.Join(by, " and "), clock(x.Frozen), counted(x.FrozenChanges, "change"))
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
	wait := thousands(b.Waiting) + " resources wait"
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
		return "the state " + shortState(g.State)
	}
	return fmt.Sprintf("the state of %s (%s)", clock(g.Of), shortState(g.State))
}

// shortState is as much of a state's ID as sentences have.
func shortState(id string) string { return id[:min(12, len(id))] }

// thousands is a number with a comma for each thousand.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
