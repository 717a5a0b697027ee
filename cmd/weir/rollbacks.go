package main

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
)

// rollbacks has the orders of operators to keep groups at an earlier state. The table holds the
// groups (relay.Origin.Hold); what is here says why, and outlives the process. An order for a whole
// origin freezes that too, so that groups which come later stay at what they get first.
type rollbacks struct {
	table   *relay.Table
	freezes *freezes

	mu sync.Mutex // guards of; freezes.mu and the table's locks come after it
	of map[string]*rolledOrigin
}

// wholeOrigin is the group of an order for all groups of an origin.
const wholeOrigin = ""

// rolledOrigin is what operators have said of an origin.
type rolledOrigin struct {
	orders map[string]snapshot.Order        // the last ones, by group; those of groups that are let go, too
	held   map[string]admin.RolledBackGroup // by the key that all tiers of a group have in common
}

// origin returns what was said of an origin. b.mu is held.
func (b *rollbacks) origin(name string) *rolledOrigin {
	o := b.of[name]
	if o == nil {
		o = &rolledOrigin{orders: map[string]snapshot.Order{}, held: map[string]admin.RolledBackGroup{}}
		b.of[name] = o
	}
	return o
}

// later returns the later one of two orders. If both are of the same time, the one that keeps a
// group back is: it takes nothing away.
func later(x, y snapshot.Order) snapshot.Order {
	if c := y.Changed.Compare(x.Changed); c > 0 || c == 0 && x.Since.IsZero() && !y.Since.IsZero() {
		return y
	}
	return x
}

// order is the one that is in force for a group: its own, or that for all of the origin, whichever
// is later.
func (o *rolledOrigin) order(group string) snapshot.Order {
	own, all := o.orders[group], o.orders[wholeOrigin]
	if own.Changed.Before(all.Changed) {
		return all
	}
	return own
}

// whole reports whether an order for all of the origin is in force.
func (o *rolledOrigin) whole() bool { return !o.orders[wholeOrigin].Since.IsZero() }

// groups are those that are held, in order.
func (o *rolledOrigin) groups() []string { return slices.Sorted(maps.Keys(o.held)) }

// holds reports whether an operator has a group of an origin held, by the key of all its tiers; if
// that is empty, whether any. It locks.
func (b *rollbacks) holds(origin, group string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.origin(origin)
	_, is := o.held[group]
	return is || group == "" && (o.whole() || len(o.held) > 0)
}

// by is who has a group held, by the key of all its tiers; "": nobody. It locks.
func (b *rollbacks) by(origin, group string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.origin(origin).held[group].By
}

// unlessHeld does something with a group, by the key of all its tiers, unless an operator has it
// held. It locks.
func (b *rollbacks) unlessHeld(origin, group string, do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, is := b.origin(origin).held[group]; !is {
		do()
	}
}

// freeze freezes an origin on behalf of an operator, or ends that, as freezes.operate does. A
// rollback's freeze ends with that. It locks.
func (b *rollbacks) freeze(origin string, on bool, now time.Time) (said string, changed bool, _ error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !on && b.origin(origin).whole() {
		return "", false, conflict("%s is rolled back, and frozen with that: weir rollforward %s ends both", origin, origin)
	}
	return b.freezes.operate(origin, on, now)
}

// configure forgets the orders for origins that a configuration does not have. It locks.
func (b *rollbacks) configure(cfg *config.Config) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.of, func(name string, _ *rolledOrigin) bool { return cfg.OriginNamed(name) == nil })
}

// kept are the orders that a snapshot keeps, and siblings are told. Dedicated groups end with the
// process. It locks.
func (b *rollbacks) kept(origin string) (orders []snapshot.Order) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.origin(origin)
	for _, group := range slices.Sorted(maps.Keys(o.orders)) {
		if !isDedicated(group) {
			orders = append(orders, o.orders[group])
		}
	}
	return orders
}

// status is how an origin is rolled back; nil: it is not. groups are its groups. It locks.
func (b *rollbacks) status(origin string, groups []inspect.GroupStatus) *admin.Rollback {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.origin(origin)
	if !o.whole() && len(o.held) == 0 {
		return nil
	}
	out := &admin.Rollback{Whole: o.whole(), Groups: []admin.RolledBackGroup{}}
	waiting := b.waiting(origin, groups)
	last := o.orders[wholeOrigin]
	for _, key := range o.groups() {
		g := o.held[key]
		g.Waiting = waiting[key]
		out.Waiting += g.Waiting
		out.Groups = append(out.Groups, g)
		if !out.Whole && g.Since.After(last.Since) {
			last = o.orders[key]
		}
	}
	out.Since, out.By, out.To = last.Since, last.By, last.To
	return out
}

// waiting is of how many resources the origin has something else than the groups of each key, in
// the tier that differs most.
func (b *rollbacks) waiting(origin string, groups []inspect.GroupStatus) map[string]int {
	most := map[string]int{}
	part := b.table.Origin(origin)
	for i := range groups {
		key, n := groups[i].Key, 0
		if part != nil {
			key = keyOfTiers(part, key)
		}
		for j := range groups[i].Types {
			n += groups[i].Types[j].Frozen
		}
		most[key] = max(most[key], n)
	}
	return most
}

// join puts orders into force that others know, or that were kept, where they are newer. Groups are
// held at what was restored of them. It returns which groups are, and which are not any more. It
// locks.
func (b *rollbacks) join(origin string, orders []snapshot.Order, now time.Time) (held, freed []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	part := b.table.Origin(origin)
	if part == nil || len(orders) == 0 {
		return nil, nil
	}
	o := b.origin(origin)
	for _, x := range orders {
		o.orders[x.Group] = later(o.orders[x.Group], x)
	}
	keys := maps.Clone(o.orders)
	delete(keys, wholeOrigin)
	for _, g := range part.Groups() {
		if !isDedicated(g.Key) {
			keys[keyOfTiers(part, g.Key)] = snapshot.Order{}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		order := o.order(key)
		switch was, is := o.held[key]; {
		case order.Since.IsZero() && is:
			free(part, key)
			delete(o.held, key)
			freed = append(freed, key)
		case !order.Since.IsZero() && (!is || !was.Since.Equal(order.Since)):
			o.held[key] = restored(part, key, &order, now)
			held = append(held, key)
		}
	}
	return held, freed
}

// restored has a group held at what was restored of it; nothing: it stays at what it gets first.
func restored(part *relay.Origin, key string, order *snapshot.Order, now time.Time) admin.RolledBackGroup {
	g := admin.RolledBackGroup{Group: key, Since: order.Since, By: order.By, To: order.To}
	t := stayAt(part, key, nil)
	g.State = t.row.ID
	t.hold(part, now)
	return g
}

// rollback has an operator take groups back.
func (p *process) rollback(order admin.RollbackOrder) (admin.Rolled, error) {
	defer p.canaries.Wake()
	return p.rollbacks.rollback(order, time.Now())
}

// rollforward has an operator let groups go on.
func (p *process) rollforward(order admin.RollbackOrder) (admin.Rolled, error) {
	defer p.canaries.Wake()
	return p.rollbacks.rollforward(order, time.Now())
}

// obeyOrders has orders to go back obeyed that were given before this process serves.
func (p *process) obeyOrders(origin string, orders []snapshot.Order, because string) {
	held, freed := p.rollbacks.join(origin, orders, time.Now())
	said := func(groups []string) []zap.Field {
		return []zap.Field{zap.String("origin", origin), zap.Int("groups", len(groups)), zap.Strings("keys", groups[:min(len(groups), 10)]), zap.String("because", because)}
	}
	if len(held) > 0 {
		p.log.Warn("groups are rolled back: clients keep the restored resources", said(held)...)
	}
	if len(freed) > 0 {
		p.log.Warn("ended the rollback of groups", said(freed)...)
	}
}

// The groups that an order concerns. What the table has as the tiers of one group is one here: they
// go back and forward together.

func isDedicated(key string) bool { return strings.HasPrefix(key, relay.DedicatedKey) }

// goes is a group that an order concerns.
type goes struct {
	key string // of all its tiers
	// mayStay: it keeps no other group from going back if it cannot: it is one stream's alone, or
	// has no client.
	mayStay bool
}

// groupsOf are the groups that an order concerns: all of the origin, or the one whose key is given,
// or as much of it as no other begins with. The tiers of a group are one.
func groupsOf(part *relay.Origin, group string) (all []goes, _ error) {
	known := map[string]*goes{}
	for _, g := range part.Groups() {
		key := keyOfTiers(part, g.Key)
		x := known[key]
		if x == nil {
			x = &goes{key, true}
			known[key] = x
		}
		x.mayStay = x.mayStay && (g.Dedicated || g.Clients == 0)
	}
	keys := slices.Sorted(maps.Keys(known))
	if group != wholeOrigin {
		found := thatBegin(keys, keyOfTiers(part, group))
		switch len(found) {
		case 0:
			return nil, notFound("%s has no group %q; weir status lists them", part.Name(), group)
		case 1:
			return []goes{{key: found[0]}}, nil
		}
		return nil, tooShort(part.Name(), group, len(found))
	}
	if len(keys) == 0 {
		return nil, conflict("%s has no groups: there is nothing to go back to", part.Name())
	}
	for _, key := range keys {
		all = append(all, *known[key])
	}
	return all, nil
}

// keyOfTiers is what the keys of a group's tiers have in common (origins[].canary).
func keyOfTiers(part *relay.Origin, key string) string {
	if part.Canaries() {
		key, _ = relay.CutTier(key)
	}
	return key
}

// tiersOf are the keys of a group that clients are in.
func tiersOf(part *relay.Origin, key string) []string {
	if part.Canaries() && !isDedicated(key) {
		return []string{relay.Canary.Of(key), relay.Rest.Of(key)}
	}
	return []string{key}
}

// shownTier is the key whose states are those of a group: that of most of its clients.
func shownTier(part *relay.Origin, key string) string {
	tiers := tiersOf(part, key)
	for _, g := range part.Groups() {
		if g.Key == tiers[len(tiers)-1] {
			return g.Key
		}
	}
	return tiers[0]
}

// free ends that an operator has a group held. Tiers stay held, by their gate, which goes on from
// there.
func free(part *relay.Origin, key string) {
	if !part.Canaries() || isDedicated(key) {
		part.Free(key)
	}
}

// thatBegin are the keys that begin with so much of a key, if it is enough, or the one that is it.
func thatBegin(keys []string, group string) (found []string) {
	for _, key := range keys {
		if key == group {
			return []string{key}
		}
		if len(group) >= admin.KeyDigits && strings.HasPrefix(key, group) {
			found = append(found, key)
		}
	}
	return found
}

func tooShort(origin, group string, n int) error {
	return conflict("%s has %d groups whose keys begin with %q: give more of the key", origin, n, group)
}
