package snapshot

import (
	"errors"
	"fmt"
)

// A file is whatever its writer made of it, and it is read before anything is served. So what it
// may cost is bounded: what it has at once by Room, and what a record has by the numbers below.
// Some bytes of a record become hundreds in memory.
const (
	// maxVariants bounds the variants of an item, maxSets the sets of a type of a group, and
	// maxParams the parameters of one.
	maxVariants = 10_000
	maxSets     = 100_000
	maxParams   = 1000
	// maxSaid bounds what an origin has of each kind: orders and the memory of gates, of which
	// there is one for each group, and addresses. It bounds the marks of a group and the changes of
	// a part of its history, too.
	maxSaid = 50_000
	// maxDamages bounds the damages that are described one by one.
	maxDamages = 1000
	// roomStep is how many records are read from one look at the memory to the next.
	roomStep = 1024
)

// Room reports whether the process may take so many bytes of memory more; 0: whether it may go on.
// Nil: it may.
type Room func(bytes int64) bool

func (r Room) has(bytes int64) bool { return r == nil || r(bytes) }

// errShort says that there is no room for more.
var errShort = errors.New("memory is short: not all of it was read")

func tooMany(most int, what string) error {
	return fmt.Errorf("its metadata have more than %d %s", most, what)
}

// described adds a damage to a list. Of very many it describes the first, and the others together.
func described(all []Damage, d Damage) []Damage {
	switch last := len(all) - 1; {
	case last < maxDamages-1:
		return append(all, d)
	case last < maxDamages:
		d.more = 1
		return append(all, d.together())
	default:
		x := &all[last]
		x.Length, x.more = d.Offset+d.Length-x.Offset, x.more+1
		*x = x.together()
		return all
	}
}

func (d Damage) together() Damage {
	d.What = fmt.Sprintf("%d more parts up to here", d.more)
	return d
}
