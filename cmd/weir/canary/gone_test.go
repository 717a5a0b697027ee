package canary

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/downstream"
)

// fleet is five canaries, on streams of some numbers; 0: it is away.
func (w *world) fleet(streams ...uint64) {
	w.locked(func() {
		w.members = nil
		for i, stream := range streams {
			if stream > 0 {
				w.members = append(w.members, downstream.Member{Stream: stream, NodeID: fmt.Sprint("n", i+1), InSync: true})
			}
		}
	})
}

// TestGone: canaries that were given a candidate and are gone have not acknowledged it, and are an
// objection when they are not back within the grace.
func TestGone(t *testing.T) {
	share := func(share float64) func(*world) { return func(w *world) { w.policy.GoneShare = share } }
	needless := func(w *world) { w.policy.Acks = 0 }
	for story, c := range map[string]struct {
		edit []func(*world)
		play func(w *world)
	}{
		"four of five are killed just after they were given it": {nil, func(w *world) {
			w.fleet(0, 0, 0, 0, 5)
			w.is(29*second, "b", "a", "baking")
			if s := w.status(); s.Gone != 4 || s.Canaries != 1 || s.Acked != 1 {
				w.Errorf("%+v", s)
			}
			w.is(2*second, "a", "a", "stopped")
			if s := w.status(); !strings.Contains(s.Why, "4 of 5 canaries that were given it are gone: n1, n2, n3, n4") {
				w.Errorf("%+v", s)
			}
			if w.counts["stopped"] != 1 || !w.logged("stopped", "4 of 5 canaries") {
				w.Errorf("counted %v, said %v", w.counts, w.said())
			}
			w.fleet(11, 12, 13, 14, 15)
			w.is(2*time.Hour, "a", "a", "stopped")
		}},
		"within the second that follows": {nil, func(w *world) {
			w.says("c") // the next candidate begins when this one ends
			w.is(minute, "c", "b", "baking")
			w.fleet(0, 0, 0, 4, 5)
			w.is(31*second, "b", "b", "stopped")
		}},
		"one of five": {nil, func(w *world) {
			w.fleet(1, 2, 3, 4)
			w.is(31*second, "a", "a", "stopped")
		}},
		"one of five may be gone": {[]func(*world){share(0.2)}, func(w *world) {
			w.fleet(1, 2, 3, 4)
			w.is(62*second, "b", "b", "idle")
		}},
		"and no more": {[]func(*world){share(0.2)}, func(w *world) {
			w.fleet(1, 2, 3)
			w.is(31*second, "a", "a", "stopped")
		}},
		"any number may be": {[]func(*world){share(1)}, func(w *world) {
			w.fleet(0, 0, 0, 0, 5)
			w.is(62*second, "b", "b", "idle")
		}},
		"all, and no acknowledgement is needed": {[]func(*world){needless}, func(w *world) {
			w.fleet()
			w.is(31*second, "a", "a", "stopped")
		}},
		"near the end of the bake": {nil, func(w *world) {
			w.is(57*second, "b", "a", "baking")
			w.fleet(0, 0, 3, 4, 5)
			w.is(28*second, "b", "a", "baking")
			w.is(4*second, "a", "a", "stopped")
		}},
		"a rolling restart": {nil, func(w *world) {
			streams := []uint64{1, 2, 3, 4, 5}
			for i := range streams {
				streams[i] = 0
				w.fleet(streams...)
				w.is(9*second, "b", "a", "baking")
				streams[i] = uint64(11 + i)
				w.fleet(streams...)
				w.is(second, "b", "a", "baking")
			}
			w.is(12*second, "b", "b", "idle")
		}},
		"a rolling update, with new names": {nil, func(w *world) {
			streams := []uint64{1, 2, 3, 4, 5}
			w.is(31*second, "b", "a", "baking")
			for i := range 5 {
				streams = append(streams, uint64(11+i)) // the new one is there first
				w.fleet(streams...)
				w.is(2*second, "b", "a", "baking")
				streams[i] = 0
				w.fleet(streams...)
				w.is(2*second, "b", "a", "baking")
			}
			w.is(31*second, "b", "b", "idle")
		}},
		"who comes and goes again does not acknowledge it, and objects in the end": {nil, func(w *world) {
			for i := range 6 {
				w.fleet(0, 2, 3, 4, 5)
				w.is(4*second, "b", "a", "baking")
				w.fleet(uint64(20+i), 2, 3, 4, 5)
				w.is(8*second, "b", "a", "baking")
			}
			w.fleet(0, 2, 3, 4, 5)
			w.is(8*second, "a", "a", "stopped")
		}},
		"who goes and comes between two looks does not acknowledge it, either": {nil, func(w *world) {
			for i := range 12 {
				w.fleet(uint64(20+i), 2, 3, 4, 5)
				w.is(10*second, "b", "a", "baking")
			}
			w.is(31*second, "b", "b", "idle")
		}},
		"a freeze, and clients that have left when it ends": {nil, func(w *world) {
			w.locked(func() { w.paused = "frozen" })
			w.is(second, "b", "a", "paused")
			w.fleet(1, 2)
			w.is(5*minute, "b", "a", "paused")
			w.locked(func() { w.paused = "" })
			w.is(4*second, "b", "a", "baking")
			w.is(62*second, "b", "b", "idle")
		}},
	} {
		t.Run(story, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				grace := func(w *world) { w.policy.GoneGrace = 30 * second }
				w := newWorld(t, append(c.edit, grace)...)
				defer func() { w.stop() }()
				w.fleet(1, 2, 3, 4, 5)
				w.is(3*second, "a", "a", "idle")
				w.says("b")
				w.is(3*second, "b", "a", "baking")
				w.fleet(1, 2, 3, 4, 5)
				c.play(w)
			})
		})
	}
}

// TestGoneAlone: of a single canary it cannot be known why it is gone. The candidate waits for it,
// also where no acknowledgement is needed.
func TestGoneAlone(t *testing.T) {
	for _, acks := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(w *world) { w.policy.GoneGrace, w.policy.Acks = 30*second, acks })
			defer func() { w.stop() }()
			w.fleet(1)
			w.is(3*second, "a", "a", "idle")
			w.says("b")
			w.is(3*second, "b", "a", "baking")
			w.fleet()
			w.is(31*minute, "b", "a", "baking")
			if s := w.status(); !s.Undecided || s.Gone != 1 {
				t.Errorf("%+v", s)
			}
			w.fleet(7)
			w.is(second, "b", "b", "idle")
		})
	}
}

// TestAcknowledgedBefore: what canaries have acknowledged of one candidate is not said of the next,
// which begins at the same look.
func TestAcknowledgedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer func() { w.stop() }()
		w.canaries(true, "n1")
		w.is(3*second, "a", "a", "idle")
		w.says("b")
		w.is(3*second, "b", "a", "baking")
		w.canaries(true, "n1")
		w.says("c")
		w.is(minute, "c", "b", "baking")
		w.is(10*minute, "c", "b", "baking") // nobody has acknowledged it
	})
}
