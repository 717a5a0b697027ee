package relay

import (
	"sync"
	"sync/atomic"
	"time"
)

// amount is of resources and their bytes in memory.
type amount struct {
	resources int
	bytes     int64
}

func (a amount) plus(b amount) amount {
	return amount{a.resources + b.resources, a.bytes + b.bytes}
}

func (a amount) less(b amount) amount {
	return amount{a.resources - b.resources, a.bytes - b.bytes}
}

// exceeds reports whether more is needed than there is, of what is bounded. most: below 0 there is
// no bound.
func (a amount) exceeds(most amount) bool {
	return most.resources >= 0 && a.resources > most.resources || most.bytes >= 0 && a.bytes > most.bytes
}

// tally is an amount that is added to from anywhere.
type tally struct{ resources, bytes atomic.Int64 }

func (t *tally) load() amount { return amount{int(t.resources.Load()), t.bytes.Load()} }

func (t *tally) add(a amount) {
	t.resources.Add(int64(a.resources))
	t.bytes.Add(a.bytes)
}

func (t *tally) store(a amount) {
	t.resources.Store(int64(a.resources))
	t.bytes.Store(a.bytes)
}

// fill is how much an origin's part of the table holds.
type fill struct {
	total    tally // at most that much: what was counted, and what came since
	applying tally // of it, what is of responses that are being applied

	mu sync.Mutex // guards what follows; stores are locked under it
	// Of the last count: when, its number, and how many places were looked at. came is how many
	// elements the origin has sent since.
	counted time.Time
	number  uint32
	looked  int
	came    int
}

// admitted notes that what was admitted is applied.
func (f *fill) admitted(adds amount) { f.applying.add(amount{}.less(adds)) }

// shortage is what was refused on the present stream of a lane for want of room. Guarded by the
// lane's lock.
type shortage struct {
	lacks amount
	gen   uint32        // of the stream
	last  time.Time     // when it was refused last
	pause time.Duration // before the lane looks again
}
