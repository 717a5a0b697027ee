package upstream

import (
	"math"
	"math/rand/v2"
	"time"
)

// waits is the backoff of failures in a row. The zero value with a config is ready for use.
type waits struct {
	cfg      Backoff
	failures int
}

// next returns how long to wait after one more failure (ERR-2).
func (w *waits) next() time.Duration {
	w.failures++
	return w.cfg.Wait(w.failures - 1)
}

// Wait returns how long to wait after the given number of failures in a row and one more (ERR-2).
func (b Backoff) Wait(failures int) time.Duration {
	d := min(float64(b.Base)*math.Pow(b.Factor, float64(failures)), float64(b.Max))
	return time.Duration(d * (1 + b.Jitter*(2*rand.Float64()-1)))
}

func (w *waits) reset() { w.failures = 0 }

// pause returns a random time, from a tenth of longest up to longest (ERR-3).
func pause(longest time.Duration) time.Duration {
	return longest/10 + time.Duration(rand.Float64()*0.9*float64(longest))
}
