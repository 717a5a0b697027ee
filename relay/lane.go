package relay

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/constraints"
)

type laneIndex uint8

const (
	// mainLane carries every wildcard, and the names of all types nobody wants as wildcard (RELAY-20).
	mainLane laneIndex = iota
	// sideLane carries the names of the types whose wildcard is on the main lane.
	sideLane
)

// Lane is one upstream stream of one group. Package upstream owns it from Origin.TakeLanes until Release returns true, and
// calls Open, Take, Apply and Close from one goroutine at a time (Take may run beside Apply).
type Lane struct {
	// Set once by newGroup.
	group *Group
	index laneIndex
	wake  chan struct{}

	owned  atomic.Bool   // somebody runs it, or is queued to
	gen    atomic.Uint32 // the present stream; 0 while none is open
	server atomic.Uint32 // that the present stream goes to
	reopen atomic.Bool   // the stream must be opened anew to change what it carries

	mu     sync.Mutex // guards opened
	opened time.Time
}

// Group is the group the lane belongs to.
func (l *Lane) Group() *Group { return l.group }

// Identify notes what the origin calls itself (STREAM-10). A change of it alone is told to nobody.
func (l *Lane) Identify(id string) {
	if id != "" && id != l.group.Identifier() {
		l.group.identifier.Store(&id)
	}
}

// Side reports whether this is the side lane.
func (l *Lane) Side() bool { return l.index == sideLane }

// Node is what the group presents upstream (RELAY-62). The caller must not change it.
func (l *Lane) Node() *corev3.Node { return l.group.node }

// Wake is signalled when Take has something.
func (l *Lane) Wake() <-chan struct{} { return l.wake }

func (l *Lane) live(gen uint32) bool { return gen != 0 && l.gen.Load() == gen }

// poke wakes the lane's owner, or queues the lane for one.
func (l *Lane) poke() {
	signal(l.wake)
	if l.owned.CompareAndSwap(false, true) {
		l.group.origin.enqueue(l)
	}
}

// Open starts a new stream on which nothing is asked yet. server tells the servers of the origin apart: versions learnt from one
// are not presented to another (FED-7).
func (l *Lane) Open(now time.Time, server uint8) {
	gen := l.group.gens.Add(1)
	if gen == 0 {
		gen = l.group.gens.Add(1)
	}
	l.mu.Lock()
	l.opened = now
	l.server.Store(uint32(server))
	l.gen.Store(gen)
	l.mu.Unlock()
	l.reopen.Store(false)
	for _, s := range *l.group.all.Load() {
		s.toAsk[l.index].Store(true)
	}
	signal(l.wake)
}

// Close ends the stream. What was answered stays servable (RELAY-2); what was asked is asked again on the next.
func (l *Lane) Close() {
	l.mu.Lock()
	l.gen.Store(0)
	l.mu.Unlock()
	for _, s := range *l.group.all.Load() {
		s.mu.Lock()
		s.clearSetLocked()
		dead := s.dropIfEmptyLocked()
		s.unlock()
		if dead {
			s.group.dropShard(s)
		}
	}
}

// openedAt is when the present stream was opened; false if there is none.
func (l *Lane) openedAt() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opened, l.gen.Load() != 0
}

// Wanted reports whether anything is to be asked on the lane.
func (l *Lane) Wanted() bool {
	for _, s := range *l.group.all.Load() {
		s.mu.Lock()
		w := s.wantsLaneLocked(l.index)
		s.mu.Unlock()
		if w {
			return true
		}
	}
	return false
}

func (s *shard) wantsLaneLocked(i laneIndex) bool {
	if !s.group.origin.serves(s.typeURL) {
		return false
	}
	return i == mainLane && s.set.wantedLocked() || s.named.lane == i && len(s.named.entries) > 0
}

func (l *Lane) busy() bool { return l.owned.Load() || l.Wanted() }

// Release ends the caller's ownership if nothing is wanted on the lane; false means go on.
func (l *Lane) Release() bool {
	if l.Wanted() {
		return false
	}
	l.owned.Store(false)
	// A want that came between the two lines above saw an owner and did not queue the lane.
	return !l.Wanted() || !l.owned.CompareAndSwap(false, true)
}

// Name is one subscription: a resource name and dynamic parameters.
type Name struct {
	Name   string
	Params constraints.Params
}

// Ask is what to send upstream for one type.
type Ask struct {
	TypeURL string
	// First: nothing was sent for the type on this stream yet.
	First bool
	// Wildcard: the request is for `*`; no names go with it.
	Wildcard bool
	// Subscribe and Unsubscribe are the changes; no name is in both (DELTA-7).
	Subscribe, Unsubscribe []Name
	// Initial are the origin's versions of what is held, in the First ask only (RELAY-41).
	Initial map[string]string
	// All are all names asked on this stream, sorted: a SotW request lists them every time (RELAY-27).
	All []Name
}

// Take gives what has to be asked, in order, and takes it as asked. reopen: the stream has to be closed and opened anew,
// because what it carries cannot be taken back otherwise (RELAY-20, RELAY-22). all: also list every name (SotW).
func (l *Lane) Take(now time.Time, all bool) (asks []Ask, reopen bool) {
	gen := l.gen.Load()
	if gen == 0 {
		return nil, false
	}
	if l.reopen.Load() {
		return nil, true // what would be asked on this stream would be lost with it
	}
	for _, s := range *l.group.all.Load() {
		if !s.toAsk[l.index].Swap(false) {
			continue
		}
		s.mu.Lock()
		asks = s.askLocked(asks, l, gen, now, all)
		dead := s.dropIfEmptyLocked()
		s.unlock()
		if dead {
			s.group.dropShard(s)
		}
	}
	return asks, l.reopen.Load()
}

func (s *shard) askLocked(asks []Ask, l *Lane, gen uint32, now time.Time, all bool) []Ask {
	if l.index == mainLane {
		s.placeLocked(gen)
		if s.mainKind == kindSet && s.set.wantedLocked() && s.set.askedGen != gen {
			asks = append(asks, s.askSetLocked(gen, now))
		}
		if s.mainKind != kindNamed {
			return asks
		}
	}
	if s.named.lane == l.index {
		asks = s.askNamesLocked(asks, l.index, gen, now, all)
	}
	if l.index == sideLane && s.named.moving {
		// The side lane has asked the names; now the main lane may drop them (RELAY-20).
		s.named.moving = false
		s.lane(mainLane).reopenSoon()
	}
	return asks
}

func (l *Lane) reopenSoon() {
	l.reopen.Store(true)
	signal(l.wake)
}

// placeLocked decides what the main lane's present stream carries of the type. Placement depends on what is wanted, never on
// who came first.
func (s *shard) placeLocked(gen uint32) {
	if s.mainGen != gen {
		s.mainGen, s.mainKind = gen, kindNone
	}
	wantSet := s.set.wantedLocked()
	switch s.mainKind {
	case kindNone:
		switch {
		case wantSet:
			s.mainKind = kindSet
			s.moveLocked(sideLane)
			s.named.moving = false // the main lane carries no names on this stream
		case len(s.named.entries) > 0:
			s.mainKind = kindNamed
			if s.named.lane == sideLane {
				s.moveLocked(mainLane)
				if side := s.lane(sideLane); side.live(s.named.firstGen[sideLane]) {
					side.reopenSoon()
				}
			}
		}
	case kindSet:
		if !wantSet && s.lane(mainLane).live(s.set.askedGen) {
			s.lane(mainLane).reopenSoon()
		}
	case kindNamed:
		if !wantSet {
			return
		}
		if s.named.lane == mainLane {
			s.moveLocked(sideLane)
			s.named.moving = len(s.named.entries) > 0
		}
		if !s.named.moving {
			s.lane(mainLane).reopenSoon()
		}
	}
}

// moveLocked places the type's names on another lane, where all of them are asked anew.
func (s *shard) moveLocked(to laneIndex) {
	if s.named.lane == to {
		return
	}
	s.named.lane = to
	if len(s.named.entries) > 0 {
		s.poke(to)
	}
}

func (s *shard) askSetLocked(gen uint32, now time.Time) Ask {
	s.set.askedGen = gen
	if s.set.settled && !s.set.firm {
		// An origin that finds us in sync may answer nothing at all. Without a response it takes the longest wait.
		s.set.first, s.set.news = now, now.Add(firmMost)
		s.pauseLocked(now)
	}
	a := Ask{TypeURL: s.typeURL, First: true, Wildcard: true}
	s.set.sweepGen, s.set.sweepFirst = 0, time.Time{}
	if len(s.set.members) == 0 {
		return a
	}
	a.Initial = s.initialLocked(mainLane, func(add func(*Variant) bool) {
		for _, m := range s.set.members {
			for _, v := range m.variants {
				if !add(v) {
					return
				}
			}
		}
	})
	if a.Initial == nil && !s.group.origin.cfg.SotW {
		s.set.sweepGen = gen
	}
	return a
}

// initialLocked collects the versions of what is held that the lane's server gave; nil if they cannot be presented: the origin
// ignores them (RELAY-46), one is empty (RELAY-91) or another server's (FED-7), or the request would be too long (RELAY-41).
// Then members are swept.
func (s *shard) initialLocked(lane laneIndex, each func(add func(*Variant) bool)) map[string]string {
	if s.group.origin.cfg.NoResume || s.group.origin.cfg.SotW {
		return nil
	}
	initial, size, server := map[string]string{}, 0, uint8(s.lane(lane).server.Load())
	each(func(v *Variant) bool {
		switch {
		case v.Constraints != nil: // DYN-20
			return true
		case v.originVersion == "", v.from.server != server:
			initial = nil
			return false
		}
		initial[v.Name] = v.originVersion
		size += len(v.Name) + len(v.originVersion) + 8
		if size > firstRequestBytes {
			initial = nil
		}
		return initial != nil
	})
	return initial
}

func (s *shard) askNamesLocked(asks []Ask, lane laneIndex, gen uint32, now time.Time, all bool) []Ask {
	t := &s.named
	a := Ask{TypeURL: s.typeURL}
	var again []Name
	if t.firstGen[lane] != gen {
		s.lookAllLocked(&a, gen, now)
		if len(a.Subscribe) == 0 {
			return asks // WILD-11: an empty first request would be a wildcard
		}
		t.firstGen[lane] = gen
		a.First = true
	} else {
		again = s.lookChangedLocked(&a, gen, now)
	}
	if len(a.Subscribe)+len(a.Unsubscribe) == 0 {
		return asks
	}
	s.silentLocked()
	if all {
		a.All = s.allAskedLocked()
	}
	asks = append(asks, a)
	if len(again) > 0 { // DELTA-7: a forced resend is two messages
		asks = append(asks, Ask{TypeURL: s.typeURL, Subscribe: again, All: a.All})
	}
	return asks
}

func (s *shard) lookAllLocked(a *Ask, gen uint32, now time.Time) {
	t := &s.named
	for _, w := range t.changed {
		w.inChanged = false
	}
	t.changed = nil
	for _, e := range t.entries {
		for _, w := range slices.Clone(e.wants) {
			if !w.wanted() {
				s.deleteLocked(w)
				continue
			}
			a.Subscribe = append(a.Subscribe, s.askedLocked(w, gen, now))
		}
	}
	sortNames(a.Subscribe)
	a.Initial = s.initialLocked(t.lane, func(add func(*Variant) bool) {
		for _, e := range t.entries {
			for _, v := range e.variants {
				if !add(v) {
					return
				}
			}
		}
	})
}

func (s *shard) lookChangedLocked(a *Ask, gen uint32, now time.Time) (again []Name) {
	changed := s.named.changed
	s.named.changed = nil
	for _, w := range changed {
		w.inChanged = false
		asked := w.asked == gen
		name := Name{w.entry.name, w.params}
		switch {
		case !w.wanted():
			if asked {
				a.Unsubscribe = append(a.Unsubscribe, name)
				w.asked = 0
			}
			s.deleteLocked(w)
		case !asked:
			a.Subscribe = append(a.Subscribe, s.askedLocked(w, gen, now))
		case w.refresh:
			a.Unsubscribe = append(a.Unsubscribe, name)
			again = append(again, s.askedLocked(w, gen, now))
		}
	}
	sortNames(a.Subscribe)
	sortNames(a.Unsubscribe)
	return again
}

func (s *shard) askedLocked(w *want, gen uint32, now time.Time) Name {
	w.asked = gen
	s.named.unheard = append(s.named.unheard, unheard{w, gen, now})
	w.answered, w.unanswered, w.refresh = 0, false, false
	return Name{w.entry.name, w.params}
}

func (s *shard) allAskedLocked() []Name {
	var all []Name
	for _, e := range s.named.entries {
		for _, w := range e.wants {
			if s.isAskedLocked(w) {
				all = append(all, Name{e.name, w.params})
			}
		}
	}
	sortNames(all)
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
