package relay

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/metrics"
)

type laneIndex uint8

const (
	// mainLane carries every wildcard, and the names of all types nobody wants as wildcard
	// (RELAY-20).
	mainLane laneIndex = iota
	// sideLane carries the names of the types whose wildcard is on the main lane.
	sideLane
)

// Lane is one upstream stream of one group. Package upstream owns it from Origin.TakeLanes until
// Release returns true, and calls Open, Take, Apply and Close from one goroutine at a time (Take
// may run beside Apply).
type Lane struct {
	// Set once by newLane.
	group *Group
	index laneIndex
	// the one type it carries: apart from all others (RELAY-92), or in its own service; nil: the
	// rest
	only *store
	wake chan struct{}

	owned  atomic.Bool   // somebody runs it, or is queued to
	gen    atomic.Uint32 // the present stream; 0 while none is open
	server atomic.Uint32 // that the present stream goes to
	reopen atomic.Bool   // the stream must be opened anew to change what it carries
	// the relays that were presented last, but for this one; nil: it presents none
	via  atomic.Pointer[[]string]
	down atomic.Bool // no stream can be opened; see Missed
	// the last stream that was answered, or has been open for long (RELAY-92)
	heard atomic.Uint32
	fresh atomic.Bool // the present stream presents no versions; see Doubt
	doubt atomic.Bool // the next one is to be so

	suspicion chan struct{} // see Suspicion

	// waits is what the owner waits for before the next stream (Waiting); nil: nothing is known.
	waits atomic.Pointer[metrics.Wait]
	// turn is when the last wait for its turn in the queue ended, in Unix nanoseconds (RELAY-98).
	turn atomic.Int64

	arrivals atomic.Pointer[Arrivals] // on the connection of the present stream; nil: not known

	mu      sync.Mutex // guards what follows; a leaf
	later   []Late     // not returned by Later yet
	reports reports    // of what clients rejected
	opened  time.Time
	fetched time.Time // when it was last opened anew to fetch a body
	short   shortage

	counted bool // in Group.open; guarded by the group's lock
}

func newLane(g *Group, i laneIndex, only *store) *Lane {
	return &Lane{group: g, index: i, only: only, wake: make(chan struct{}, 1), suspicion: make(chan struct{}, 1)}
}

// ownLanes are a main and a side lane for one type, which place its wildcard and its names as the
// group's do (RELAY-20).
func (k *store) ownLanes() *[2]*Lane {
	return &[2]*Lane{newLane(k.group, mainLane, k), newLane(k.group, sideLane, k)}
}

// Group is the group the lane belongs to.
func (l *Lane) Group() *Group { return l.group }

// Identify notes what the origin calls itself (STREAM-10). A change of it alone is sent to no
// client.
func (l *Lane) Identify(id string) {
	if id != "" && id != l.group.Identifier() {
		l.group.identifier.Store(&id)
	}
}

// Side reports whether this is the side lane.
func (l *Lane) Side() bool { return l.index == sideLane }

// OnlyType is the one type that the lane carries, because the origin may end streams for it
// (RELAY-92) or has a service for each type; "" for all other lanes.
func (l *Lane) OnlyType() string {
	if l.only == nil {
		return ""
	}
	return l.only.typeURL
}

// shards are the types that the lane may carry; carries reports which it does. It locks the type's
// store, if the lane is for one type.
func (l *Lane) shards() []*shard {
	if l.only != nil {
		l.only.mu.Lock()
		defer l.only.mu.Unlock()
		return l.only.all
	}
	return *l.group.all.Load()
}

func (l *Lane) carries(k *store) bool { return k.lane(l.index) == l }

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

// Open starts a new stream on which nothing is asked yet. server tells the servers of the origin
// apart: versions learnt from one are not presented to another (FED-7).
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
	l.down.Store(false)
	l.waits.Store(nil)
	l.reopen.Store(false)
	l.fresh.Store(l.doubt.Swap(false)) // whether it presents no versions
	l.connect(true)
	l.checkVia()
	watch := l.only != nil
	for _, s := range l.shards() {
		if l.carries(s.store) && s.group.origin.Serves(s.typeURL) {
			s.toAsk[l.index].Store(true)
		}
		watch = watch || s.inQuarantine()
	}
	if watch {
		l.group.origin.table.timers.push(timer{at: now.Add(quietFor), kind: laneQuiet, lane: l, gen: gen})
	}
	if l.only != nil {
		l.group.origin.table.timers.push(timer{at: now.Add(suspectFor), kind: laneQuiet, lane: l, gen: gen})
	}
	signal(l.wake)
}

// Close ends the stream. What was answered stays servable (RELAY-2). What was asked is asked again
// on the next stream.
func (l *Lane) Close() {
	l.group.gathering.allOf(l)
	l.mu.Lock()
	l.gen.Store(0)
	l.mu.Unlock()
	l.connect(false)
	for _, s := range l.shards() {
		s.mu.Lock()
		s.rejoinClosed(l)
		l.revise(s)
		s.sets((*set).clear)
		s.named.notSoon(l)
		s.unlockOrDrop()
	}
	if !l.reopen.Load() { // else it is for us that it ends
		l.group.tiersAnew()
	}
}

// Reporting reports whether the origin is told what clients reject (RELAY-35).
func (l *Lane) Reporting() bool { return l.group.config().NACKReport }

// Reports returns what is to be reported by now, and when the next report is due; zero: there is
// none. Wake is signalled when there is a new one.
func (l *Lane) Reports(now time.Time) (due []*Report, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reports.take(now)
}

// Reported notes that a report is sent. False: there was one of its version before.
func (l *Lane) Reported(r *Report) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reports.tell(r.TypeURL, r.Version)
}

// openedAt is when the present stream was opened; false if there is none. It locks the lane.
func (l *Lane) openedAt() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opened, l.gen.Load() != 0
}

// Queued reports whether the lane waits for its turn to open a stream (RELAY-98).
func (l *Lane) Queued() bool {
	w := l.waits.Load()
	return w != nil && w.Reason == metrics.WaitQueue
}

// turnCame is when the lane's last wait for its turn ended: now, if it waits still. Zero: it has
// not waited.
func (l *Lane) turnCame(now time.Time) time.Time {
	if l.Queued() {
		return now
	}
	if at := l.turn.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Wanted reports whether anything is to be asked on the lane.
func (l *Lane) Wanted() bool {
	for _, s := range l.shards() {
		s.mu.Lock()
		w := s.wantsLane(l)
		s.mu.Unlock()
		if w {
			return true
		}
	}
	return false
}

func (s *shard) wantsLane(l *Lane) bool {
	if !l.carries(s.store) || s.quarantine != nil && !s.quarantine.asked() {
		return false
	}
	return s.wants(l.index)
}

// wants reports whether there is something to be asked on the lane of that index, whichever
// it is.
func (s *shard) wants(i laneIndex) bool {
	return s.group.origin.Serves(s.typeURL) &&
		(i == mainLane && s.wantsSet() || s.named.lane == i && s.hasNames())
}

func (l *Lane) busy() bool { return l.owned.Load() || l.Wanted() }

// Abandon gives the lane to the next caller of Origin.TakeLanes: its present owner ends, and what
// is wanted stays wanted. The caller must not use the lane afterwards.
func (l *Lane) Abandon() { l.group.origin.enqueue(l) }

// Release ends the caller's ownership if nothing is wanted on the lane; false means go on.
func (l *Lane) Release() bool {
	if l.Wanted() {
		return false
	}
	if l.down.Swap(false) { // an idle lane is not tried
		l.reviseAll()
	}
	l.waits.Store(nil)
	l.owned.Store(false)
	// A want that came between the two lines above saw an owner and did not queue the lane.
	if l.Wanted() && l.owned.CompareAndSwap(false, true) {
		return false
	}
	if l.only != nil {
		l.only.stopProbing()
	}
	l.group.probeNext()
	return true
}

// reopenSoon has the stream opened anew, if there is one. The next one is new anyway.
func (l *Lane) reopenSoon() {
	if l.gen.Load() != 0 {
		l.reopen.Store(true)
	}
	signal(l.wake)
}

// What clients reject is told to the origin, if that is configured (RELAY-35). A report is about
// one response on the present stream of a lane: the one that brought what was rejected.

const (
	// reportAfter is how long the clients are counted that reject a response, after the first. They
	// nearly all do so at once, and a SotW origin ignores a report on another list than its last.
	reportAfter = 500 * time.Millisecond
	// mostReports bounds the responses of one lane that are to be reported, and mostReported the
	// versions that are remembered as reported.
	mostReports, mostReported = 100, 1000
	// mostCounted is how far the clients of one report are counted.
	mostCounted = 10_000
)

// Report is what the clients of a group rejected of one response.
type Report struct {
	TypeURL string
	Came    int64 // when the response came: Apply's time, in nanoseconds of Unix time
	Version string
	// Resource is what the first client rejected; "": it does not say. Message is what it says of
	// it.
	Resource, Message string
	Clients           int // at most mostCounted

	due     time.Time
	clients map[uint64]struct{}
}

// reports are those of one lane. Guarded by its lock.
type reports struct {
	waiting []*Report // by when they are due
	told    []versionOf
}

// versionOf is a version of a type.
type versionOf struct{ typeURL, version string }

// note counts a client. It returns true if the response has not been reported on before.
func (r *reports) note(now time.Time, about Report, client uint64) (isNew bool) {
	i := slices.IndexFunc(r.waiting, func(x *Report) bool { return x.Came == about.Came && x.TypeURL == about.TypeURL })
	switch {
	case i >= 0:
	case len(r.waiting) == mostReports:
		return false
	default:
		i, isNew = len(r.waiting), true
		about.due, about.clients = now.Add(reportAfter), map[uint64]struct{}{}
		r.waiting = append(r.waiting, &about)
	}
	if x := r.waiting[i]; len(x.clients) < mostCounted {
		x.clients[client] = struct{}{}
		x.Clients = len(x.clients)
	}
	return isNew
}

// take removes and returns those that are due, and returns when the next one is; zero: there is
// none.
func (r *reports) take(now time.Time) (due []*Report, next time.Time) {
	n := 0
	for n < len(r.waiting) && !r.waiting[n].due.After(now) {
		n++
	}
	due, r.waiting = r.waiting[:n], r.waiting[n:]
	if len(r.waiting) == 0 {
		r.waiting = nil
		return due, time.Time{}
	}
	return due, r.waiting[0].due
}

// tell notes that a version is reported. False: it was before. A response without a version is one
// of its own.
func (r *reports) tell(typeURL, version string) bool {
	is := versionOf{typeURL, version}
	if version == "" {
		return true
	}
	if slices.Contains(r.told, is) {
		return false
	}
	if len(r.told) == mostReported {
		r.told = slices.Delete(r.told, 0, 1)
	}
	r.told = append(r.told, is)
	return true
}
