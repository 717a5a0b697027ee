package main

import (
	"context"
	"time"
)

// every calls look at each interval until ctx ends. A look that takes longer delays the next one,
// and no two run at once.
func every(ctx context.Context, interval time.Duration, look func(now time.Time)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			look(now)
		}
	}
}
