package snapshot

import (
	"slices"
	"time"
)

// Origin is what is kept of an origin itself.
type Origin struct {
	Name string
	// Addresses are its servers as configured, in their order: a version is presented to the server
	// alone that gave it.
	Addresses []string
	// Vouched is when it last stood behind what is kept.
	Vouched time.Time
	// Frozen is since when clients stay where they are, by an operator's word. The zero time: they
	// do not.
	Frozen time.Time
}

// Fields of classOrigin.
const (
	originName    = 1
	originAddress = 2 // repeated
	originVouched = 3
	originFrozen  = 4
)

func (o *Origin) record() record {
	b := appendText(nil, originName, o.Name)
	for _, a := range o.Addresses {
		b = appendBytes(b, originAddress, []byte(a))
	}
	b = appendTime(b, originVouched, o.Vouched)
	return record{class: classOrigin, key: o.Name, meta: appendTime(b, originFrozen, o.Frozen)}
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
		}
	}
	return o, nil
}

// vouchStep is how much later an origin has to have vouched for that alone to be written down.
const vouchStep = time.Minute

// worthWriting reports whether o says something that old does not.
func (o *Origin) worthWriting(old *Origin) bool {
	return !o.Frozen.Equal(old.Frozen) || !slices.Equal(o.Addresses, old.Addresses) || o.Vouched.Sub(old.Vouched) >= vouchStep
}
