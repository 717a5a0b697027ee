package snapshot

import (
	"slices"
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
}

// Fields of classOrigin.
const (
	originName    = 1
	originAddress = 2 // repeated
	originVouched = 3
	originFrozen  = 4
	originChanged = 5 // of Frozen
)

func (o *Origin) record() record {
	b := appendText(nil, originName, o.Name)
	for _, a := range o.Addresses {
		b = appendBytes(b, originAddress, []byte(a))
	}
	b = appendTime(b, originVouched, o.Vouched)
	b = appendTime(b, originFrozen, o.Frozen)
	return record{class: classOrigin, key: o.Name, meta: appendTime(b, originChanged, o.FrozenChanged)}
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
		}
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
	return !o.Frozen.Equal(old.Frozen) || !o.FrozenChanged.Equal(old.FrozenChanged) || !slices.Equal(o.Addresses, old.Addresses) || o.Vouched.Sub(old.Vouched) >= vouchStep
}
