package farm

import (
	"math"
	"time"
)

// histogram counts durations in steps of one percent.
type histogram struct {
	counts [2400]int64
	n      int64
	most   time.Duration
}

// least is what the first step ends at.
const least = float64(10 * time.Microsecond)

var step = math.Log(1.01)

func (h *histogram) add(d time.Duration) {
	i := 0
	if float64(d) > least {
		i = min(len(h.counts)-1, int(math.Log(float64(d)/least)/step)+1)
	}
	h.counts[i]++
	h.n++
	h.most = max(h.most, d)
}

// quantile returns the end of the step that has the q-th of all.
func (h *histogram) quantile(q float64) time.Duration {
	left := int64(math.Ceil(q * float64(h.n)))
	for i, n := range h.counts {
		if left -= n; left <= 0 && n > 0 {
			return min(h.most, time.Duration(least*math.Exp(step*float64(i))))
		}
	}
	return h.most
}
