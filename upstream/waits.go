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
	d := float64(w.cfg.Base) * math.Pow(w.cfg.Factor, float64(w.failures))
	if d >= float64(w.cfg.Max) {
		d = float64(w.cfg.Max)
	} else {
		w.failures++
	}
	return time.Duration(d * (1 + w.cfg.Jitter*(2*rand.Float64()-1)))
}

func (w *waits) reset() { w.failures = 0 }

// pause is a random time from a tenth of the longest on (ERR-3).
func pause(longest time.Duration) time.Duration {
	return longest/10 + time.Duration(rand.Float64()*0.9*float64(longest))
}
