package downstream

import (
	"context"
	"testing"
	"time"
)

// BenchmarkArrivals is what a stream costs that has to wait for its turn, and is reset while it
// does, among 4,000 that wait.
func BenchmarkArrivals(b *testing.B) {
	const conns, crowd = 40, 4_000
	a := &arrivals{rate: newBucket(2_000)}
	for a.rate.ready(time.Now()) <= 0 {
		a.rate.take(time.Now()) // those of the first second
	}
	all, end := context.WithCancel(b.Context())
	peer, open := peerKey{identity: "crowd"}, make([]*connection, conns)
	for i := range open {
		open[i] = &connection{}
	}
	gone := make(chan struct{}, crowd)
	for i := range crowd { // each comes again as soon as it had its turn
		go func() {
			for all.Err() == nil {
				if a.enter(all, peer, open[i%conns]) != nil {
					time.Sleep(time.Millisecond)
				}
			}
			gone <- struct{}{}
		}()
	}
	time.Sleep(100 * time.Millisecond)
	reset, cancel := context.WithCancel(b.Context())
	cancel()
	b.ReportAllocs()
	for b.Loop() {
		_ = a.enter(&resetLater{Context: reset}, peer, open[0]) // it is reset
	}
	end()
	for range crowd {
		<-gone
	}
}

// resetLater is the context of a stream that is reset just after it was looked at.
type resetLater struct {
	context.Context
	asked bool
}

// Err is part of context.Context.
func (c *resetLater) Err() error {
	if !c.asked {
		c.asked = true
		return nil
	}
	return c.Context.Err()
}
