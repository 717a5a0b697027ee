package state

import (
	"sync"
	"weak"

	"github.com/weir-xds/weir/relay/xds"
)

// shares finds what the process has already, whichever group it is of, by its sum. It keeps
// nothing alive. It is in parts, so that groups seldom wait for one another.
type shares[V any] [64]struct {
	mu sync.Mutex
	by map[xds.SetDigest]weak.Pointer[V] // guarded by mu
	// sweepAt is the size of by at which what is gone is taken out. Guarded by mu.
	sweepAt int
}

// put returns what to use for v: v, or what is the same. What has the same sum may differ in what
// no sum has, ages and ends of TTLs: then the later one is found from now on.
func (s *shares[V]) put(sum xds.SetDigest, v *V, same func(a, b *V) bool) *V {
	p := &s[sum[0]%byte(len(s))]
	p.mu.Lock()
	defer p.mu.Unlock()
	if other := p.by[sum].Value(); other != nil && same(other, v) {
		return other
	}
	if len(p.by) >= max(p.sweepAt, 64) || p.by == nil {
		live := map[xds.SetDigest]weak.Pointer[V]{} // a map that had many stays as large
		for sum, w := range p.by {
			if w.Value() != nil {
				live[sum] = w
			}
		}
		p.by, p.sweepAt = live, 2*len(live)
	}
	p.by[sum] = weak.Make(v)
	return v
}
