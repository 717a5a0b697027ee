package relay

import (
	"sync/atomic"
	"time"
)

// What an origin may fill. Bodies are counted once for an origin, however many of its groups hold
// them, and what a group adds to that is small. Nothing is counted while bodies come and go: fill
// adds up what responses bring at most, and only where that reaches the limit is everything counted
// that is held. Most origins are never counted.

const (
	// mostElements is how many resources a response may have, and how many an origin, where neither
	// is configured and memory is not limited. A response of 64 MiB has a million at most that are
	// real.
	mostElements = 5_000_000
	// leastBody divides the memory that an origin may fill into the number of resources that one
	// response may have: they cost some 400 bytes each while it is read, acceptable or not.
	leastBody = 1 << 10
	// memberCost is about what one more group costs that holds a body (BenchmarkEqualGroups).
	memberCost = 100
	// reserved is the divisor of the memory for origins that is reserved for them in equal parts.
	// The rest goes to whichever needs it first.
	reserved = 2
)

// counts numbers the counts of all origins.
var counts atomic.Uint32

// count counts what the origin holds, unless it was counted lately and little has come since: at
// the limit an origin must not have everything counted by each response. It locks one store at a
// time.
func (f *fill) count(o *Origin, now time.Time) {
	every := time.Second + time.Duration(f.looked)*time.Microsecond
	if now.Sub(f.counted) < every && f.came < f.looked/16 {
		return
	}
	f.counted, f.came, f.looked = now, 0, 0
	f.total.store(f.applying.load()) // what comes meanwhile may count twice
	f.number = counts.Add(1)
	for _, g := range o.groupList() {
		for _, s := range *g.all.Load() {
			s.mu.Lock()
			a, looked := s.held(f.number)
			s.mu.Unlock()
			f.total.add(a)
			f.looked += looked
		}
	}
}

// held is what the shard holds that no other of the same count does, and how many places it has.
func (s *shard) held(number uint32) (a amount, looked int) {
	s.walk(nil, func(k known) {
		looked++
		for _, v := range k.variants {
			if a.bytes += memberCost; !v.CountedIn(number) {
				a = a.plus(amount{1, v.Cost()})
			}
		}
	})
	return a, looked
}

// bound is what the origin may fill, its own and, below that, what others leave. Each origin has a
// reserve that others cannot take; beyond the reserves they share what there is.
func (o *Origin) bound() (most amount) {
	limits := o.config().Limits
	most = amount{-1, -1}
	if limits.Resources > 0 {
		most.resources = limits.Resources
	}
	if limits.Bytes > 0 {
		most.bytes = limits.Bytes
	}
	all := o.table.originBytes()
	if all == 0 {
		if limits.Resources == 0 {
			most.resources = mostElements
		}
		return most
	}
	own := o.reserve(all)
	for _, other := range o.table.Origins() {
		if other != o {
			all -= max(other.fill.total.bytes.Load(), other.reserve(o.table.originBytes()))
		}
	}
	if share := max(all, own); most.bytes < 0 || share < most.bytes {
		most.bytes = share
	}
	return most
}

// originBytes is how much memory all origins may fill together; 0: it is not limited. The rest of
// limits.memory is for the clients and the process.
func (t *Table) originBytes() int64 {
	limit := t.budget.limit.Load()
	return limit - limit/slack
}

// reserve is how much of the memory for all origins no other origin can take.
func (o *Origin) reserve(all int64) int64 {
	part := all / reserved / int64(len(o.table.Origins()))
	if most := o.config().Limits.Bytes; most > 0 {
		return min(part, most)
	}
	return part
}

// Elements is how many resources a response of the origin may have (xds.ParseWithin). It is the
// default where there is no table.
func (o *Origin) Elements() int {
	most := mostElements
	if o == nil {
		return most
	}
	if all := o.table.originBytes(); all > 0 {
		for _, other := range o.table.Origins() {
			if other != o {
				all -= other.reserve(o.table.originBytes())
			}
		}
		most = min(most, int(all/leastBody))
	}
	if own := o.config().Limits.Resources; own > 0 {
		return own
	}
	return most
}
