package real

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// times is how often what is done many times is done: WEIR_REAL_TIMES, or the number given.
func times(usual int) int {
	if n, err := strconv.Atoi(os.Getenv("WEIR_REAL_TIMES")); err == nil {
		return n
	}
	return usual
}

// newClusters: a new cluster and the route to it in one change; the one before goes in the change
// after.
func newClusters(t *testing.T, r row) {
	b := running(t, r)
	usual := 100
	if len(r.weir) > 0 {
		usual = 25 // each of them waits for what is set
	}
	before := ""
	for i := range times(usual) {
		name := fmt.Sprint("new-", i)
		b.change(func(m *mesh) {
			delete(m.clusters, before)
			before = m.live
			m.clusters[name] = &service{backends: b.backs(i + 1)}
			m.live = name
		})
		b.reach(i+1, "a new cluster and the route to it")
	}
	b.finish()
}

// swaps: a cluster and its route are replaced by others in one change.
func swaps(t *testing.T, r row) {
	b := running(t, r)
	for i := range times(25) {
		b.change(func(m *mesh) {
			m.live = fmt.Sprint("swap-", i)
			m.clusters = map[string]*service{m.live: {backends: b.backs(i + 1)}}
		})
		b.reach(i+1, "a cluster swapped with its route")
	}
	b.finish()
}

// hollow: the endpoints of one cluster never come, and what has nothing to do with it goes on.
func hollow(t *testing.T, r row) {
	b := running(t, r)
	b.change(func(m *mesh) {
		m.clusters["hollow"] = &service{}
		m.paths["/hollow"] = "hollow"
	})
	for i := range 5 {
		b.shift(i + 1)
		b.change(func(m *mesh) {
			delete(m.clusters, fmt.Sprint("full-", i-2))
			m.live = fmt.Sprint("full-", i)
			m.clusters[m.live] = &service{backends: b.backs(i + 2)}
		})
		b.reach(i+2, "a route to a new cluster beside one without endpoints")
	}
	b.change(func(m *mesh) {
		delete(m.clusters, "hollow")
		delete(m.paths, "/hollow")
	})
	b.shift(0)
	b.finish()
}

// restoredThenChanged: the control plane comes back to a restored weir with another cluster and the
// route to it.
func restoredThenChanged(t *testing.T, r row) {
	b := running(t, r)
	for i := range times(3) {
		b.restoredWithout()
		b.mesh = b.mesh.clone()
		b.mesh.clusters = map[string]*service{fmt.Sprint("back-", i): {backends: b.backs(i + 1)}}
		b.mesh.live = fmt.Sprint("back-", i)
		b.returns()
		b.reach(i+1, "the control plane came back with another cluster and the route to it")
		b.compare() // the old cluster is let go of a moment later
	}
	b.finish()
}

// originChanged: the control plane dies and comes back with a cluster swapped with its route.
func originChanged(t *testing.T, r row) {
	b := running(t, r)
	for i := range times(3) {
		b.dies()
		b.mesh = b.mesh.clone()
		b.mesh.live = fmt.Sprint("back-", i)
		b.mesh.clusters = map[string]*service{b.mesh.live: {backends: b.backs(i + 1)}}
		b.returns()
		b.reach(i+1, "the control plane came back with another cluster and the route to it")
	}
	b.finish()
}

// churn: clusters change all the time, and so everything else is told nevertheless.
func churn(t *testing.T, r row) {
	b := running(t, r)
	b.change(func(m *mesh) {
		m.clusters["busy"] = &service{backends: b.backs(0)}
		m.paths["/busy"] = "busy"
	})
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			b.change(func(m *mesh) {
				m.clusters["busy"] = &service{backends: b.backs(0), spare: uint32(i)}
			})
		}
	}()
	for i := range 10 {
		if i%2 == 0 {
			b.shift(i + 1)
			continue
		}
		b.change(func(m *mesh) {
			delete(m.clusters, fmt.Sprint("quiet-", i-2))
			m.live = fmt.Sprint("quiet-", i)
			m.clusters[m.live] = &service{backends: b.backs(i + 1)}
		})
		b.reach(i+1, "a route to a new cluster while clusters change")
	}
	b.another("late", "a client comes while clusters change")
	close(stop)
	<-done
	b.finish()
}
