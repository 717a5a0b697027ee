package fleet

import (
	"context"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// board records which changes clients have received, and how long each change took to its last
// client.
type board struct {
	each histogram // of every delivery

	mu       sync.Mutex // guards all below; held for map work only
	changes  map[world.Stamp]*change
	untold   int // deliveries of changes beyond maxChanges, which only each counts
	newest   time.Time
	awaiting *change // that the closed loop waits for
}

// change has the deliveries of one stamp. A transaction of several resources has one delivery for
// each, at each client.
type change struct {
	deliveries int
	last       time.Duration
	want       int           // number of deliveries; only for awaiting
	gate       chan struct{} // closed when there are as many
}

// maxChanges bounds the changes that are remembered.
const maxChanges = 200_000

func newBoard() *board { return &board{changes: map[world.Stamp]*change{}} }

// note counts deliveries that were complete at one time.
func (b *board) note(stamps []world.Stamp, at time.Time) {
	for _, s := range stamps {
		b.each.add(time.Duration(at.UnixNano() - int64(s)))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.newest = at
	for _, s := range stamps {
		c := b.change(s)
		if c == nil {
			b.untold++
			continue
		}
		c.deliveries++
		c.last = max(c.last, time.Duration(at.UnixNano()-int64(s)))
		if c == b.awaiting && c.deliveries >= c.want {
			close(c.gate)
			b.awaiting = nil
		}
	}
}

func (b *board) change(s world.Stamp) *change {
	c := b.changes[s]
	if c == nil && len(b.changes) < maxChanges {
		c = &change{}
		b.changes[s] = c
	}
	return c
}

// await waits until a change has a number of deliveries. It returns false if that takes longer than
// patience, or ctx ends.
func (b *board) await(ctx context.Context, s world.Stamp, want int, patience time.Duration) bool {
	b.mu.Lock()
	c := b.change(s)
	if c == nil || c.deliveries >= want {
		b.mu.Unlock()
		return c != nil
	}
	c.want, c.gate = want, make(chan struct{})
	b.awaiting = c
	b.mu.Unlock()

	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.gate:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.awaiting = nil
	return c.deliveries >= want
}

// quietSince returns the time of the last delivery.
func (b *board) quietSince() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.newest
}

// lasts returns how long each change took to the last client that it reached.
func (b *board) lasts() *histogram {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := &histogram{}
	for _, c := range b.changes {
		if c.deliveries > 0 {
			h.add(c.last)
		}
	}
	return h
}

// histogram counts durations in buckets that are 1/128 of their value wide, so its size does not
// depend on their number. Safe for concurrent use.
type histogram struct {
	buckets [(64 - fine) << fine]atomic.Int64
	count   atomic.Int64
	most    atomic.Int64 // nanoseconds
}

const fine = 7 // bits kept of a duration, after the first

// bucket returns the bucket of a duration: below 128 ns each has its own, and from there on 128
// share each power of two.
func bucket(ns uint64) int {
	shift := bits.Len64(ns) - fine - 1
	if shift <= 0 {
		return int(ns)
	}
	return shift<<fine + int(ns>>shift)
}

// upper returns the largest duration of a bucket.
func upper(i int) uint64 {
	shift := i>>fine - 1
	if shift <= 0 {
		return uint64(i)
	}
	return (uint64(i-shift<<fine)+1)<<shift - 1
}

// add counts d. A negative duration, which the clock may give, counts as zero.
func (h *histogram) add(d time.Duration) {
	ns := max(int64(d), 0)
	h.buckets[bucket(uint64(ns))].Add(1)
	h.count.Add(1)
	for most := h.most.Load(); ns > most && !h.most.CompareAndSwap(most, ns); most = h.most.Load() {
	}
}

// quantile returns the duration that a part q of all does not exceed; 0 if there are none.
func (h *histogram) quantile(q float64) time.Duration {
	total := h.count.Load()
	if total == 0 {
		return 0
	}
	rank := max(int64(q*float64(total)+0.5), 1)
	for i := range h.buckets {
		if rank -= h.buckets[i].Load(); rank <= 0 {
			return time.Duration(min(upper(i), uint64(h.most.Load())))
		}
	}
	return time.Duration(h.most.Load())
}
