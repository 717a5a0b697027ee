package upstream

import (
	"math"
	"math/rand/v2"
	"time"
)

// waits counts failures in a row. The zero value with a config is ready for use.
type waits struct {
	cfg      Backoff
	failures int
}

// next is how long to wait after one more failure (ERR-2).
func (w *waits) next() time.Duration {
	w.failures++
	return w.cfg.Wait(w.failures - 1)
}

// Wait is how long to wait after one more failure than so many in a row (ERR-2).
func (b Backoff) Wait(failures int) time.Duration {
	d := min(float64(b.Base)*math.Pow(b.Factor, float64(failures)), float64(b.Max))
	return time.Duration(d * (1 + b.Jitter*(2*rand.Float64()-1)))
}

func (w *waits) reset() { w.failures = 0 }

// pause is a random time from a tenth of the longest on (ERR-3).
func pause(longest time.Duration) time.Duration {
	return longest/10 + time.Duration(rand.Float64()*0.9*float64(longest))
}
