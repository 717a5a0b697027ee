package fleet

import (
	"math/bits"
	"sync/atomic"
	"time"
)

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
