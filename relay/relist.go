package relay

import (
	"slices"
	"time"
)

// A SotW request lists every name of its type (RELAY-27), so one more name costs as much as all of
// them. A list of 200,000 names takes a quarter of a second to make, and as much at the origin.
// After a long list further changes of the type's names are collected for a while, and other types
// are asked meanwhile. The first request of a stream never waits.

const (
	// listPause is how long changes are collected for each name of a list that has more than
	// shortAsk.
	listPause = 5 * time.Microsecond
	// leastListPause is how long they are collected at least: the names of one client come by
	// shares (longlist.go).
	leastListPause = 10 * time.Millisecond
	// longestListPause is how long they are collected at most.
	longestListPause = 2 * time.Second
)

// lastList is the last SotW request of a type on a lane.
type lastList struct {
	at    time.Time
	names int
}

// again is when the next one may list names.
func (x *lastList) again() time.Time {
	if x.names <= shortAsk {
		return x.at
	}
	return x.at.Add(min(max(time.Duration(x.names)*listPause, leastListPause), longestListPause))
}

// listsLater reports whether the names have to wait, and sets the timer for asking them. It is
// false for the shard of another map if the request is the one that was just made.
func (n *namedTable) listsLater(lane laneIndex, now time.Time) bool {
	x := &n.shard.store.lastList[lane]
	at := x.again()
	if !now.Before(at) || now.Equal(x.at) {
		return false
	}
	if !n.waitsToList {
		n.waitsToList = true
		n.shard.push(timer{at: at, kind: listAgain, shard: n.shard})
	}
	return true
}

// listAgain has the lane look at the names that waited. It locks the shard.
func (n *namedTable) listAgain() {
	n.shard.mu.Lock()
	defer n.shard.mu.Unlock()
	n.waitsToList = false
	if !n.shard.dead {
		n.shard.poke(n.lane)
	}
}

// allAsked are the names that a request lists, in no order. Names that are aside are left out,
// unless there are no others.
func (k *store) allAsked() []Name {
	var all, aside []Name
	for _, s := range k.all {
		for _, e := range s.named.entries {
			switch {
			case !s.named.isAsked(e):
			case s.named.aside[e]:
				aside = append(aside, s.named.nameOf(e))
			default:
				all = append(all, s.named.nameOf(e))
			}
		}
	}
	if len(all) == 0 {
		all = aside
	}
	return all
}

func sortNames(ns []Name) {
	slices.SortFunc(ns, func(a, b Name) int {
		if c := cmpString(a.Name, b.Name); c != 0 {
			return c
		}
		return cmpString(a.Params.Key(), b.Params.Key())
	})
}
