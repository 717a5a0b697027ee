package main

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/relay"
)

// What an order of an operator to go back, or forward, does at once. All groups that it concerns go
// back, or none.

// target is a state that a group goes back to.
type target struct {
	key   string
	state *relay.State
	row   relay.StateRow // of the state
	stays error          // why the group cannot go back, and stays at what it has
}

// conflict is an error that says why an order is refused.
func conflict(format string, args ...any) error {
	return &admin.RefusedOrder{Code: http.StatusConflict, Lines: []string{fmt.Sprintf(format, args...)}}
}

// rollback has groups held at an earlier state. It locks.
func (b *rollbacks) rollback(order admin.RollbackOrder, now time.Time) (said admin.Rolled, _ error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	part := b.table.Origin(order.Origin)
	if part == nil {
		return said, notFound("%v", admin.NoOrigin(order.Origin, b.table.Origins()))
	}
	if !b.table.History().On() {
		return said, conflict("%s: nothing is kept of earlier states: cache.history.versions is 0", order.Origin)
	}
	targets, err := targetsOf(part, &order, now)
	if err != nil {
		return said, err
	}
	said = admin.Rolled{Origin: order.Origin, Done: true}
	o, x := b.origin(order.Origin), snapshot.Order{To: order.To, By: order.By, Since: now, Changed: now}
	for i := range targets {
		t := &targets[i]
		g := t.hold(part, now)
		said.Groups, said.Lines = append(said.Groups, g), append(said.Lines, heldLine(order.Origin, &g, t.stays))
		o.held[t.key] = admin.RolledBackGroup{Group: t.key, Since: now, By: x.By, To: x.To, State: g.State, Of: g.Of}
		if order.Group != wholeOrigin {
			x.Group = t.key
		}
	}
	if order.Group == wholeOrigin {
		clear(o.orders) // they are older
		_, _, _ = b.freezes.operate(order.Origin, true, now)
		said.Lines = append(said.Lines, fmt.Sprintf("%s: frozen, so that new groups keep their first state; weir rollforward %s ends it", order.Origin, order.Origin))
	}
	o.orders[x.Group] = x
	return said, nil
}

// hold has the group held at the state, in all its tiers.
func (t *target) hold(part *relay.Origin, now time.Time) admin.RolledGroup {
	g := admin.RolledGroup{Group: t.key, State: t.row.ID, Of: t.row.At, Revision: t.row.Revision}
	for _, key := range tiersOf(part, t.key) {
		done := part.Hold(now, key, t.state)
		g.Changed, g.Unknown = g.Changed+done.Changed, max(g.Unknown, done.Unknown)
	}
	return g
}

// targetsOf are the states that the groups of an order go back to. An error has a line for each
// group that cannot.
func targetsOf(part *relay.Origin, order *admin.RollbackOrder, now time.Time) (targets []target, _ error) {
	all, err := groupsOf(part, order.Group)
	if err != nil {
		return nil, err
	}
	var why []string
	moves := 0
	for _, of := range all {
		t, same, err := targetOf(part, of.key, order.To, now)
		switch {
		case err == nil && same:
		case err == nil:
			moves++
		case errors.Is(err, relay.ErrNoState):
			return nil, conflict("%s: %v; %s", part.Name(), err, statesHint(part))
		default:
			t = stayAt(part, of.key, err)
			if !of.mayStay && !order.Partial {
				why = append(why, fmt.Sprintf("%s: group %s: %v", part.Name(), admin.ShortKey(of.key), err))
			}
		}
		targets = append(targets, t)
	}
	if len(why) == 0 && moves == 0 {
		why = nowhere(part, targets)
	}
	if len(why) > 0 {
		why[len(why)-1] += "; " + statesHint(part) // once, for all groups
		return nil, &admin.RefusedOrder{Code: http.StatusConflict, Lines: why}
	}
	return targets, nil
}

// statesHint names the command that lists what a group can go back to.
func statesHint(part *relay.Origin) string {
	return fmt.Sprintf("weir history %s --states lists the states", part.Name())
}

// nowhere says why no group goes back.
func nowhere(part *relay.Origin, targets []target) (why []string) {
	for i := range targets {
		t := &targets[i]
		text := fmt.Sprintf("it is at state %s already; weir freeze keeps it there", admin.ShortState(t.row.ID))
		if t.stays != nil {
			text = t.stays.Error()
		}
		why = append(why, fmt.Sprintf("%s: group %s: %s", part.Name(), admin.ShortKey(t.key), text))
	}
	return why
}

// stayAt is what a group has, which cannot go back.
func stayAt(part *relay.Origin, key string, why error) target {
	t := target{key: key, state: &relay.State{}, stays: why}
	if state, known := part.Capture(shownTier(part, key)); known {
		t.state, t.row.Revision, t.row.ID = state, state.Revision, state.ID(part)
	}
	return t
}

// targetOf is the state of a group that an order means, and whether that is what it has now.
func targetOf(part *relay.Origin, key, to string, now time.Time) (t target, same bool, _ error) {
	tier := shownTier(part, key)
	t.key = key
	row, err := rowOf(part, tier, to, now)
	if err != nil {
		return t, false, err
	}
	state, known := part.StateAt(tier, row.Revision)
	if !known {
		return t, false, errors.New("the group has ended")
	}
	t.state, t.row = state, row
	has, known := part.Capture(tier)
	return t, known && !state.Differs(part, has), nil
}

// rowOf is the state of a group that is meant.
func rowOf(part *relay.Origin, tier, to string, now time.Time) (relay.StateRow, error) {
	if _, _, held := part.HeldAt(tier); held && to == toLastGood {
		return goodBefore(part.States(tier, mostStates))
	}
	return part.ResolveState(tier, to, now)
}

// goodBefore is the newest good state before the one that a group is held at, in the order in which
// the origin came to them. What is given to clients now came last, and is older than that.
func goodBefore(rows []relay.StateRow) (row relay.StateRow, _ error) {
	at := -1
	for i := range rows {
		if !rows[i].Present && rows[i].ID == rows[0].ID {
			at = i
		}
	}
	for _, row := range rows[at+1:] {
		if !row.Present && !row.Good.IsZero() && row.Whole && row.ID != rows[0].ID {
			return row, nil
		}
	}
	return row, errors.New("no state before the one that it is held at was seen good")
}

// mostStates bounds the states among which one is looked for.
const mostStates = 10_000

func notFound(format string, args ...any) error {
	return &admin.RefusedOrder{Code: http.StatusNotFound, Lines: []string{fmt.Sprintf(format, args...)}}
}

// heldLine says what came of an order for one group. stays: why it is where it was.
func heldLine(origin string, g *admin.RolledGroup, stays error) string {
	if stays != nil {
		return fmt.Sprintf("%s: group %s: keeps its current configuration: %v", origin, admin.ShortKey(g.Group), stays)
	}
	of := ""
	if !g.Of.IsZero() {
		of = " of " + g.Of.UTC().Format("2006-01-02 15:04:05Z")
	}
	line := fmt.Sprintf("%s: group %s: held at state %s%s (revision %d): %s changed", origin, admin.ShortKey(g.Group), admin.ShortState(g.State), of, g.Revision, resourcesOf(g.Changed))
	if g.Unknown > 0 {
		line += fmt.Sprintf("; %s that had no subscribers then stay", admin.Thousands(g.Unknown))
	}
	return line
}

// resourcesOf is a number of resources.
func resourcesOf(n int) string {
	if n == 1 {
		return "1 resource"
	}
	return admin.Thousands(n) + " resources"
}

// rollforward lets groups go on to what their origin has. It locks.
func (b *rollbacks) rollforward(order admin.RollbackOrder, now time.Time) (said admin.Rolled, _ error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	part := b.table.Origin(order.Origin)
	if part == nil {
		return said, notFound("%v", admin.NoOrigin(order.Origin, b.table.Origins()))
	}
	o := b.origin(order.Origin)
	said = admin.Rolled{Origin: order.Origin, Groups: []admin.RolledGroup{}}
	order.Group = keyOfTiers(part, order.Group)
	keys, err := o.groupsForward(order.Origin, order.Group)
	if err != nil {
		return said, err
	}
	if len(keys) == 0 && !o.whole() {
		said.Lines = []string{order.Origin + " was not rolled back"}
		return said, nil
	}
	said.Done = true
	whole := o.whole()
	o.letGo(order.Group, keys, now)
	still := []string{}
	if whole {
		still = b.thaw(order.Origin, now)
	}
	for _, key := range keys {
		free(part, key)
		delete(o.held, key)
		said.Groups = append(said.Groups, admin.RolledGroup{Group: key})
		said.Lines = append(said.Lines, fmt.Sprintf("%s: group %s: follows the origin again", order.Origin, admin.ShortKey(key)))
	}
	said.Lines = append(said.Lines, still...)
	if whole && order.Group != "" {
		said.Lines = append(said.Lines, fmt.Sprintf("%s: unfrozen, so that the group can follow the origin: new groups receive its current state, and %s", order.Origin, groupsStay(len(o.held))))
	}
	return said, nil
}

func groupsStay(n int) string {
	switch n {
	case 0:
		return "no group is held"
	case 1:
		return "1 other group stays held"
	}
	return fmt.Sprintf("%d other groups stay held", n)
}

// groupsForward are the held groups that an order lets go on.
func (o *rolledOrigin) groupsForward(origin, group string) (keys []string, _ error) {
	if group == "" {
		return o.groups(), nil
	}
	keys = thatBegin(o.groups(), group)
	switch {
	case len(keys) > 1:
		return nil, tooShort(origin, group, len(keys))
	case len(keys) == 0:
		return nil, conflict("%s: no group %q is rolled back", origin, group)
	}
	return keys, nil
}

// letGo notes that groups are let go, or all of the origin if group is empty. If one of an origin
// that is rolled back as a whole goes on, the others have orders of their own from then on.
func (o *rolledOrigin) letGo(group string, keys []string, now time.Time) {
	if group == "" {
		clear(o.orders)
		o.orders[wholeOrigin] = snapshot.Order{Changed: now}
		return
	}
	if o.whole() {
		for key, g := range o.held {
			o.orders[key] = snapshot.Order{Group: key, To: g.To, By: g.By, Since: g.Since, Changed: now}
		}
		o.orders[wholeOrigin] = snapshot.Order{Changed: now}
	}
	for _, key := range keys {
		o.orders[key] = snapshot.Order{Group: key, Changed: now}
	}
}

// thaw ends the freeze that came with a rollback of all of an origin. It returns a line if the
// origin stays frozen.
func (b *rollbacks) thaw(origin string, now time.Time) (still []string) {
	if b.freezes.get(origin).frozen.IsZero() {
		return nil
	}
	b.freezes.release(origin, now)
	if !b.freezes.get(origin).file.IsZero() {
		still = append(still, origin+": the configuration file still freezes it: to end that, set freeze: false there")
	}
	return still
}
