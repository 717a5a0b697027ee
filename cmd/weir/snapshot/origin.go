package snapshot

import (
	"bytes"
	"time"
)

// Origin is what is kept of an origin itself.
type Origin struct {
	Name string
	// Addresses are its servers as configured, in order: a version is presented only to the server
	// that gave it.
	Addresses []string
	// Vouched is when it last vouched for what is kept.
	Vouched time.Time
	// Frozen is since when an operator keeps clients at what they have; zero: it is not frozen.
	Frozen time.Time
	// FrozenChanged is when an operator last froze or unfroze it; zero: never. Older files do not
	// have it: there it is Frozen.
	FrozenChanged time.Time
	// Rollbacks are the last orders of operators to go back to an earlier state, at most one for
	// each group, and Gates is what the canary gates remember. Older files have neither. The lists
	// are not changed any more once they were given to a Keeper.
	Rollbacks []Order
	Gates     []GateMemory
}

// Fields of classOrigin.
const (
	originName    = 1
	originAddress = 2 // repeated
	originVouched = 3
	originFrozen  = 4
	originChanged = 5 // of Frozen
	originOrder   = 6 // repeated
	originGate    = 7 // repeated
)

func (o *Origin) record() record {
	b := appendText(nil, originName, o.Name)
	for _, a := range o.Addresses {
		b = appendBytes(b, originAddress, []byte(a))
	}
	b = appendTime(b, originVouched, o.Vouched)
	b = appendTime(b, originFrozen, o.Frozen)
	b = appendTime(b, originChanged, o.FrozenChanged)
	b = appendOrders(b, originOrder, o.Rollbacks)
	return record{class: classOrigin, key: o.Name, meta: appendGates(b, originGate, o.Gates)}
}

func readOrigin(meta []byte) (o Origin, err error) {
	for f, err := range fields(meta) {
		if err != nil {
			return o, err
		}
		switch f.number {
		case originName:
			o.Name = f.text()
		case originAddress:
			o.Addresses = append(o.Addresses, f.text())
		case originVouched:
			o.Vouched = f.time()
		case originFrozen:
			o.Frozen = f.time()
		case originChanged:
			o.FrozenChanged = f.time()
		case originOrder:
			x, err := readOrder(f.bytes)
			if err != nil {
				return o, err
			}
			o.Rollbacks = append(o.Rollbacks, x)
		case originGate:
			x, err := readGate(f.bytes)
			if err != nil {
				return o, err
			}
			o.Gates = append(o.Gates, x)
		}
		if o.tooMuch() {
			return o, tooMany(maxSaid, "addresses, orders or gates")
		}
	}
	if o.FrozenChanged.IsZero() {
		o.FrozenChanged = o.Frozen
	}
	return o, nil
}

// tooMuch reports whether an origin has more than anybody said of it.
func (o *Origin) tooMuch() bool {
	return max(len(o.Addresses), len(o.Rollbacks), len(o.Gates)) > maxSaid
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
