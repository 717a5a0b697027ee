package downstream

import (
	"runtime"
	"sync"
	"testing"
)

// playSeeds plays so many seeds, on all processors: TestWorldTable alone, so that TestWorld is a
// game of one goroutine (.ci/test).
func playSeeds(t *testing.T, first uint64, n int) []playResult {
	t.Helper()
	results := make([]playResult, n)
	var at sync.Mutex
	next := 0
	var players sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		players.Go(func() {
			for {
				at.Lock()
				i := next
				next++
				at.Unlock()
				if i >= n {
					return
				}
				results[i] = playSeed(t, first+uint64(i))
			}
		})
	}
	players.Wait()
	return results
}
