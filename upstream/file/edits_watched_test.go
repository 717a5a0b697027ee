package file

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest/seed"
	"github.com/weir-xds/weir/relay/xds"
)

// TestWatchedEdits: the same with the watch, in real time. One file is judged only, since edits
// that follow each other closely are seen as one, and which of two files has a resource may hang on
// the one between.
func TestWatchedEdits(t *testing.T) {
	const edits = 150
	drawn := seed.Of(t, 0)
	for _, one := range []string{"a.json", "g.yaml"} {
		t.Run(one, func(t *testing.T) {
			e := newEditor(t, drawn, one, true)
			defer e.end()
			for i := range edits {
				of := e.editors[e.random.IntN(len(e.editors))]
				if of.name == "away" {
					continue // it tells the origin itself
				}
				of.does(e)
				e.look()
				e.await(fmt.Sprintf("edit %d of seed %d, %s", i+1, drawn, of.name))
			}
		})
	}
}

// await waits until what has to be in force is, and the file is said to be in error if it is.
func (e *editor) await(when string) {
	e.t.Helper()
	states, _ := e.stated(e.one)
	for late := time.After(patienceForTests); ; {
		content, changed := e.origin.snapshot()
		force, wrong := inForce(e.t, content), e.origin.Status().Files[0].Error != ""
		if maps.Equal(force, e.force) && wrong == (states == nil) {
			break
		}
		select {
		case <-changed:
		case <-late:
			e.t.Fatalf("%s: in force is\n%v, want\n%v; in error: %v", when, force, e.force, wrong)
		}
	}
	e.all.until(when+": a client holds the clusters", func() bool {
		for k, seconds := range e.force {
			if k.typeURL == xds.ClusterType && (e.all.has[k.name] == "" || secondsIn(e.t, []byte(e.all.has[k.name])) != seconds) {
				return false
			}
		}
		return true
	})
}
