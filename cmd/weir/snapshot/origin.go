package snapshot

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

// Origin is what is kept of an origin itself.
type Origin struct {
	Name string `json:"name"`
	// Addresses are its servers as configured, in order: a version is presented only to the server
	// that gave it.
	Addresses []string `json:"addresses"`
	// Vouched is when it last vouched for what is kept.
	Vouched time.Time `json:"vouched,omitzero"`
	// Frozen is since when an operator keeps clients at what they have; zero: it is not frozen.
	Frozen time.Time `json:"frozen,omitzero"`
	// FrozenChanged is when an operator last froze or unfroze it; zero: never. Older files do not
	// have it: there it is Frozen.
	FrozenChanged time.Time `json:"frozen_changed,omitzero"`
	// Rollbacks are the last orders of operators to go back to an earlier state, at most one for
	// each group, and Gates is what the canary gates remember. Older files have neither. The lists
	// are not changed any more once they were given to a Keeper.
	Rollbacks []Order      `json:"rollbacks,omitempty"`
	Gates     []GateMemory `json:"gates,omitempty"`
}

// record is the origin's record. Orders and gates are sorted, so that the same ones give the same
// bytes.
func (o *Origin) record() record {
	x := *o
	x.Rollbacks = slices.SortedStableFunc(slices.Values(o.Rollbacks), func(a, b Order) int { return cmp.Compare(a.Group, b.Group) })
	x.Gates = slices.SortedStableFunc(slices.Values(o.Gates), func(a, b GateMemory) int { return cmp.Compare(a.Group, b.Group) })
	return record{class: classOrigin, key: o.Name, meta: encode(x.fields)}
}

func (o *Origin) fields(c *coder) {
	const what = "addresses, orders or gates"
	c.text(1, &o.Name)
	for i := range o.Addresses {
		if !c.reads {
			c.out = appendBytes(c.out, 2, []byte(o.Addresses[i]))
		}
	}
	if c.is(2) {
		if o.Addresses = append(o.Addresses, c.field.text()); len(o.Addresses) > maxSaid {
			c.err = tooMany(maxSaid, what)
		}
	}
	c.time(3, &o.Vouched)
	c.time(4, &o.Frozen)
	c.time(5, &o.FrozenChanged)
	list(c, 6, &o.Rollbacks, maxSaid, what, (*Order).fields)
	list(c, 7, &o.Gates, maxSaid, what, (*GateMemory).fields)
}

func readOrigin(meta []byte) (o Origin, err error) {
	if err := decode(meta, o.fields); err != nil {
		return o, err
	}
	if o.FrozenChanged.IsZero() {
		o.FrozenChanged = o.Frozen
	}
	return o, nil
}

// vouchStep is how much later Vouched has to be to be written for that alone.
const vouchStep = time.Minute

// worthWriting reports whether o differs enough from old to be written.
func (o *Origin) worthWriting(old *Origin) bool {
	return o.Vouched.Sub(old.Vouched) >= vouchStep || !o.sameBut(old)
}

// sameBut reports whether o is what old is, but for Vouched.
func (o *Origin) sameBut(old *Origin) bool {
	x, y := *o, *old
	x.Vouched, y.Vouched = time.Time{}, time.Time{}
	return bytes.Equal(x.record().meta, y.record().meta)
}

// ordered reports whether an operator, or a gate, has decided something that outlives a restart.
func (o *Origin) ordered() bool {
	return !o.FrozenChanged.IsZero() || len(o.Rollbacks)+len(o.Gates) > 0
}

// Times are when something was said to happen.
func (o *Origin) Times() []time.Time {
	all := []time.Time{o.Vouched, o.Frozen, o.FrozenChanged}
	for i := range o.Rollbacks {
		all = append(all, o.Rollbacks[i].Since, o.Rollbacks[i].Changed)
	}
	for i := range o.Gates {
		all = append(all, o.Gates[i].Since)
	}
	return all
}

// Order is what an operator last said of going back to an earlier state, for one group of an origin
// or for all of them. A replica that starts goes by the newest one that it hears of.
type Order struct {
	Group string `json:"group,omitempty"` // its key; "": all groups of the origin
	// To is the state, as the one who gives the order wrote it down.
	To string `json:"to,omitempty"`
	By string `json:"by,omitempty"` // who said so
	// Since is since when the group is held there; zero: it is let go.
	Since time.Time `json:"since,omitzero"`
	// Changed is when the order was given.
	Changed time.Time `json:"changed,omitzero"`
}

// GateMemory is what the canary gate of a group has to know after a restart.
type GateMemory struct {
	Group string `json:"group"`           // its key
	Phase string `json:"phase,omitempty"` // as the gate calls it
	// Stopped is the ID of the state that was stopped, so that it does not become a candidate
	// again; "": none was.
	Stopped string `json:"stopped,omitempty"`
	// Since is when the phase began.
	Since time.Time `json:"since,omitzero"`
}

func (o *Order) fields(c *coder) {
	c.text(1, &o.Group)
	c.text(2, &o.To)
	c.text(3, &o.By)
	c.time(4, &o.Since)
	c.time(5, &o.Changed)
}

func (g *GateMemory) fields(c *coder) {
	c.text(1, &g.Group)
	c.text(2, &g.Phase)
	c.text(3, &g.Stopped)
	c.time(4, &g.Since)
}
