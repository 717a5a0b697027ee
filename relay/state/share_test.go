package state

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// TestNobodyWaits: readers have sets while others are made of them, and all find the same nodes.
func TestNobodyWaits(t *testing.T) {
	first := setOf(bodies(2000, "0")...)
	var all sync.WaitGroup
	ends := make([]Set, 4)
	for g := range ends {
		all.Go(func() {
			s := first
			for i := range 200 {
				was := s
				s = s.With(say(cds, fmt.Sprint("n", i*7), "1"))
				for range Diff(was, s) {
					break
				}
				s.Pieces(nil, SotW)
				if s.Get("n1").Name() != "n1" {
					t.Error("n1 is gone")
				}
			}
			ends[g] = s
		})
	}
	all.Wait()
	for _, s := range ends {
		if s != ends[0] {
			t.Error("equal sets are two trees")
		}
	}
	checkSet(t, ends[0])
}

// TestSetsThatGoLeaveNothing: 5,000 groups come, differ, become equal and go.
func TestSetsThatGoLeaveNothing(t *testing.T) {
	groups := 5000
	if testing.Short() {
		groups = 500
	}
	before, had := heap(), sharedNodes.len()
	for range groups / 500 {
		common := bodies(200, "0")
		var sets []Set
		for g := range 500 {
			own := say(cds, "n7", fmt.Sprint("own", g))
			sets = append(sets, setOf(common...).With(own).With(common[7]))
		}
		for _, s := range sets {
			if s != sets[0] {
				t.Fatal("equal sets are two trees")
			}
		}
	}
	for i := range 64 * 64 { // what is gone is taken out as something new comes
		setOf(say(cds, fmt.Sprint("x", i), "1"))
		if i%1024 == 0 {
			runtime.GC()
		}
	}
	if grown, nodes := heap()-before, sharedNodes.len()-had; grown > 2<<20 || nodes > 3*64*64 {
		t.Errorf("%d bytes and %d nodes are left", grown, nodes)
	}
}
