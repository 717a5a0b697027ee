package chaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// churn changes what the origin states, again and again, and moves routes to other clusters the way
// a control plane does: the new cluster first, then the route, then the old one goes.
type churn struct {
	b    *bed
	rng  *rand.Rand
	made int // changes; read while paused

	mu      sync.Mutex // guards all below
	stop    chan struct{}
	running sync.WaitGroup
	serial  int
}

func newChurn(b *bed) *churn {
	c := &churn{b: b, rng: rand.New(rand.NewPCG(b.rng.Uint64(), 1))}
	b.Cleanup(c.pause)
	return c
}

// resume goes on changing.
func (c *churn) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop != nil {
		return
	}
	stop := make(chan struct{})
	c.stop = stop
	c.running.Go(func() { c.run(stop) })
}

// pause returns when nothing changes any more.
func (c *churn) pause() {
	c.mu.Lock()
	stop := c.stop
	c.stop = nil
	c.mu.Unlock()
	if stop != nil {
		close(stop)
	}
	c.running.Wait()
}

func (c *churn) run(stop chan struct{}) {
	for {
		c.step()
		c.made++
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(5+c.rng.IntN(60)) * time.Millisecond):
		}
	}
}

func (c *churn) step() {
	switch n := c.rng.IntN(10); n {
	case 0, 1, 2, 3:
		c.touch(types[n])
	case 4, 5, 6:
		c.move()
	case 7, 8:
		c.flip(cds, "spare")
	case 9:
		c.flip(lds, "extra")
	}
}

// touch gives something of a type another content.
func (c *churn) touch(typeURL string) {
	set := c.b.truth.state()[typeURL]
	if len(set) == 0 {
		return
	}
	name := pick(c.rng, slices.Sorted(maps.Keys(set))...)
	c.b.origin.put(typeURL, name, set[name].ref)
}

// flip removes something that nothing refers to, or brings it back.
func (c *churn) flip(typeURL, prefix string) {
	name := fmt.Sprintf("%s-%d", prefix, c.rng.IntN(6))
	_, there := c.b.truth.state()[typeURL][name]
	if there {
		c.b.origin.remove(typeURL, name)
	} else {
		c.b.origin.put(typeURL, name, "")
	}
	if typeURL == cds && there {
		c.b.origin.remove(eds, name)
	} else if typeURL == cds {
		c.b.origin.put(eds, name, "")
	}
}

// move leads a route to a cluster of its own, or back.
func (c *churn) move() {
	route := routeName(c.rng.IntN(routes))
	was, ok := c.b.truth.state()[rds][route]
	if !ok {
		return
	}
	c.serial++
	next := fmt.Sprintf("moved-%d", c.serial)
	before, whole := c.settled(nil)
	c.b.origin.put(cds, next, "")
	c.b.origin.put(eds, next, "")
	_, ok = c.settled(before)
	whole = whole && ok
	c.b.origin.put(rds, route, next)
	_, ok = c.settled(before)
	whole = whole && ok
	if !whole {
		c.b.truth.tear(next, was.ref)
	}
	if strings.HasPrefix(was.ref, "moved-") {
		c.b.origin.remove(cds, was.ref)
		c.b.origin.remove(eds, was.ref)
	}
}

// settled waits until weir has accepted everything it was sent, and reports whether it did so on
// the streams of before, so that the order of changes was kept.
func (c *churn) settled(before []int) (open []int, whole bool) {
	deadline := time.Now().Add(300 * time.Millisecond)
	for time.Now().Before(deadline) {
		r, ok := c.b.origin.ask(time.Until(deadline))
		if !ok {
			return nil, false
		}
		wanted := func(typeURL string) bool {
			for _, n := range r.Held[typeURL] {
				if n > 0 {
					return true
				}
			}
			return false
		}
		// What is not asked for yet on a new stream is answered in whatever order it will be.
		if r.Settled && len(r.Open) > 0 && wanted(cds) && wanted(rds) {
			return r.Open, before == nil || slices.Equal(before, r.Open)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil, false
}
