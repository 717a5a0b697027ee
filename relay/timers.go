package relay

import (
	"container/heap"
	"sync"
	"time"
)

type timerKind uint8

const (
	lingerEnd     timerKind = iota // the last client of a set or a name left and linger has passed
	setPause                       // a set may have settled, or a sweep is due
	silentNames                    // names asked for have not been answered
	silentHosts                    // nor virtual hosts that requests may wait for
	groupEnd                       // the last client of a group left
	laneQuiet                      // a stream has been open for quietFor, or for suspectFor
	retryDue                       // a type in quarantine is to be tried again
	expiries                       // TTLs have passed
	laneDown                       // a stream should have been opened by now
	confirmations                  // names that were restored have been asked for firm_settle
	guardEnd                       // removals that are held back are to go
	// names asked for a while ago may be what an origin is silent for
	suspectNames
	gatherEnd   // changes of listeners or routes have waited long enough
	unheardLong // a type should have been answered by now
	restoredEnd // what was restored may be forgotten
	historyEnd  // what is kept of the past is too old
	listAgain   // names that waited may be listed in a SotW request
	roomAgain   // there may be room for what was refused of a response
)

type timer struct {
	at    time.Time
	kind  timerKind
	shard *shard
	set   *set
	scope *scope
	entry *entry
	group *Group
	lane  *Lane
	gen   uint32
}

// timers is the one heap of deadlines. An entry only says when to look: whoever is woken compares
// with its own state, so nothing is ever removed or moved in the heap.
type timers struct {
	wake chan struct{}

	mu sync.Mutex // guards h; a leaf: taken under a shard's lock
	h  timerHeap
}

// push adds a timer. It locks the heap.
func (t *timers) push(x timer) {
	t.mu.Lock()
	first := len(t.h) == 0 || x.at.Before(t.h[0].at)
	heap.Push(&t.h, x)
	t.mu.Unlock()
	if first {
		signal(t.wake)
	}
}

// due takes one timer that has come, or tells when the next will. It locks the heap.
func (t *timers) due(now time.Time) (x timer, due bool, next time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.h) == 0 {
		return timer{}, false, time.Time{}
	}
	if t.h[0].at.After(now) {
		return timer{}, false, t.h[0].at
	}
	return heap.Pop(&t.h).(timer), true, time.Time{}
}

// Advance does what has come due by now and returns the time of the next deadline, the zero time if
// there is none. One goroutine calls it, at that time and whenever Deadlines is signalled.
func (t *Table) Advance(now time.Time) (next time.Time) {
	for {
		x, due, next := t.timers.due(now)
		if !due {
			return next
		}
		switch x.kind {
		case groupEnd:
			x.group.end(now)
		case lingerEnd:
			x.shard.endLinger(x, now)
		case setPause:
			x.set.pause(now)
		case silentNames:
			x.shard.named.silent(now)
		case silentHosts:
			x.shard.named.silentOnHosts(now)
		case laneQuiet:
			x.lane.quiet(x.gen, now)
		case retryDue:
			x.lane.only.endBackoff()
		case expiries:
			n := x.shard.expiring.expire(now)
			if x.shard.group.tier == Newest { // in other tiers it is the same that expires
				x.shard.group.origin.counts.Type(x.shard.typeURL).Expired(n)
			}
		case confirmations:
			x.shard.named.confirm(now)
		case laneDown:
			x.lane.missedSince(x.gen, now)
		case unheardLong:
			x.shard.unheardLong(now)
		case suspectNames:
			x.shard.named.suspect(x.lane, x.gen, now)
		case gatherEnd:
			x.group.gathering.end(now)
		case guardEnd:
			x.scope.guardEnd(now)
		case restoredEnd:
			x.shard.endRestored(now)
		case historyEnd:
			t.expireHistory(t.past.Expire(now))
		case listAgain:
			x.shard.named.listAgain()
		case roomAgain:
			x.lane.lookForRoom(x.gen, now)
		}
	}
}

// expireHistory sets the timer for what is too old then; zero: there is nothing to set.
func (t *Table) expireHistory(at time.Time) {
	if !at.IsZero() {
		t.timers.push(timer{at: at, kind: historyEnd})
	}
}

// Deadlines is signalled when an earlier deadline than the last one returned by Advance may have
// come up.
func (t *Table) Deadlines() <-chan struct{} { return t.timers.wake }

type timerHeap []timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h timerHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)        { *h = append(*h, x.(timer)) }
func (h *timerHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = timer{}
	*h = old[:len(old)-1]
	return x
}
