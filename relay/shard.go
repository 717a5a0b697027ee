package relay

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/constraints"
)

// shard is one type of one group: the entries of both kinds under one mutex. The kinds (set: what arrived on the lane that
// asked `*`; named: what was asked by name) have their own entries and lifetimes (RELAY-20, RELAY-25), but a client
// subscribed both ways is answered from both at one instant, so they share the lock.
type shard struct {
	// Set once by newShard.
	group   *Group
	typeURL string

	// toAsk is set when the lane of that index has to look at this shard.
	toAsk [2]atomic.Bool
	// lanes are the group's two, or the type's own while it is apart (RELAY-92). Stored under mu.
	lanes atomic.Pointer[[2]*Lane]
	idle  atomic.Bool // nobody wants the type; see dropIfEmptyLocked

	mu   sync.Mutex // guards what follows; held for map and pointer work only
	dead bool       // dropped from the group: look it up again
	rev  uint64     // of the last change applied here
	now  time.Time  // of the last call that brought one
	subs int        // open Subs

	set       setTable
	named     namedTable
	refreshed refreshes

	// What the main lane carries of this type in its generation mainGen: one of the two kinds (RELAY-20).
	mainGen  uint32
	mainKind kind

	apart  *trial // nil unless the origin may end streams for the type (RELAY-92)
	proven bool   // answered by the origin

	unrequested uint64 // resources that matched no subscription (RELAY-28)
	unanswered  uint64 // names a healthy origin left unanswered (ABS-5)
	woken       []*Subscriber
}

type kind uint8

const (
	kindNone kind = iota
	kindSet
	kindNamed
)

func newShard(g *Group, typeURL string) *shard {
	s := &shard{group: g, typeURL: typeURL}
	s.lanes.Store(&g.lanes)
	s.set.members = map[string]*member{}
	s.set.views = map[viewKey]*view{}
	s.named.entries = map[string]*entry{}
	return s
}

func (s *shard) table() *Table { return s.group.origin.table }
func (s *shard) cfg() *Config  { return &s.group.origin.table.cfg }
func (s *shard) push(x timer)  { s.table().timers.push(x) }

// linger is how long an upstream subscription outlives its last client (RELAY-3). Secrets are dropped with it (RELAY-75).
func (s *shard) linger() time.Duration {
	if IsSecret(s.typeURL) {
		return 0
	}
	return s.group.linger()
}
func (s *shard) lane(i laneIndex) *Lane { return s.lanes.Load()[i] }

// unlock releases the shard and then wakes the clients the work concerned: nothing is signalled under the lock.
func (s *shard) unlock() {
	woken := s.woken
	s.woken = nil
	s.mu.Unlock()
	for _, w := range woken {
		signal(w.wake)
	}
}

// poke makes the lane of index i look at this shard.
func (s *shard) poke(i laneIndex) {
	if !s.group.origin.serves(s.typeURL) {
		return
	}
	s.toAsk[i].Store(true)
	s.lane(i).poke()
}

// maxIdleShards is how many types a stream may have been asked for in vain before it is opened anew without them.
const maxIdleShards = 256

// dropIfEmptyLocked marks the shard dead when nobody uses it. The caller calls group.dropShard after unlocking if it returns
// true. A type that was asked on a stream stays for as long as that stream, so that it is not asked there as if for the
// first time; made-up types end it before they pile up.
func (s *shard) dropIfEmptyLocked() bool {
	if s.dead || s.subs > 0 || s.set.wantedLocked() || len(s.named.entries) > 0 {
		return s.dead
	}
	if s.rememberLocked() {
		return false
	}
	s.dead = true
	for i, l := range s.lanes.Load() {
		if l.live(s.named.firstGen[i]) || i == int(mainLane) && l.live(s.set.askedGen) {
			s.dead = false
			s.idle.Store(true)
			if s.group.idle() > maxIdleShards {
				l.reopenSoon()
			}
		}
	}
	if s.dead && s.apart != nil {
		s.stageLocked(left) // whoever runs its lanes finds nothing to ask
	}
	return s.dead
}

// idle is how many types nobody wants and stay only for their stream.
func (g *Group) idle() (n int) {
	for _, s := range *g.all.Load() {
		if s.idle.Load() {
			n++
		}
	}
	return n
}

// setTable is the wildcard's part of a shard.
type setTable struct {
	members map[string]*member
	views   map[viewKey]*view
	clients int      // Subs subscribed to `*`
	from    *receipt // of the last response that said something of the members
	// lingerAt is when the wildcard is given up; set while clients is 0 and it is still wanted.
	lingerAt time.Time
	timer    bool // a setEnd timer is in the heap

	askedGen    uint32    // generation of the main lane in which `*` was asked
	askedAt     time.Time // when
	answeredGen uint32    // generation in which it was answered

	// Settling (RELAY-6). first and news are the times of the first response and of the last that brought a new name.
	first, news   time.Time
	settled, firm bool
	// bad: the last response was refused in part. Who holds nothing gets what there is after cold_wait; who holds something
	// waits for a good one, since what is missing may be what was refused (RELAY-32).
	bad     bool
	pauseAt time.Time // of the earliest setPause timer in the heap

	// sweepGen is the generation whose end of pause removes the members not mentioned in it (RELAY-46, RELAY-91), if sweepAll, and
	// in any case the errors; sweepFirst and sweepNews are as above, on that stream alone.
	sweepGen              uint32
	sweepAll              bool
	sweepFirst, sweepNews time.Time

	faults faults
}

// member is one name of the set: its variants by constraints.
type member struct {
	name     string
	variants []*Variant
	seenGen  uint32 // generation of the main lane that mentioned it last
	listed   uint64 // revision of the last response that listed it
	rev      uint64 // revision of the last change of content
}

func (t *setTable) wantedLocked() bool { return t.clients > 0 || !t.lingerAt.IsZero() }

func (s *shard) addSetClientLocked() {
	s.set.clients++
	s.set.lingerAt = time.Time{}
	if s.set.clients == 1 {
		s.poke(mainLane)
	}
}

func (s *shard) dropSetClientLocked(now time.Time) {
	s.set.clients--
	if s.set.clients > 0 {
		return
	}
	s.set.lingerAt = now.Add(s.linger())
	if !s.set.timer {
		s.set.timer = true
		s.push(timer{at: s.set.lingerAt, kind: setEnd, shard: s})
	}
}

// endSet gives the wildcard up: the main lane is reopened without it (RELAY-22).
func (s *shard) endSet(now time.Time) {
	s.mu.Lock()
	s.set.timer = false
	if at := s.set.lingerAt; s.set.clients == 0 && !at.IsZero() {
		if at.After(now) {
			s.set.timer = true
			s.push(timer{at: at, kind: setEnd, shard: s})
		} else {
			s.set.lingerAt = time.Time{}
			s.poke(mainLane)
			s.clearSetLocked()
		}
	}
	dead := s.dropIfEmptyLocked()
	s.unlock()
	if dead {
		s.group.dropShard(s)
	}
}

// clearSetLocked drops the members of a set that nobody wants, all together (RELAY-81). While a stream is open on which `*` was
// asked they stay and are kept up: the wildcard may be wanted again before that stream is closed.
func (s *shard) clearSetLocked() {
	t := &s.set
	if t.wantedLocked() || s.lane(mainLane).live(t.askedGen) {
		return
	}
	t.members, t.faults = map[string]*member{}, faults{}
	t.first, t.news, t.settled, t.firm, t.bad = time.Time{}, time.Time{}, false, false, false
	t.sweepGen, t.from = 0, nil
}

// readyLocked reports whether the set may be told to a client, who holds something or not (RELAY-6, RELAY-7).
func (t *setTable) readyLocked(holds bool) bool {
	if holds {
		return t.firm
	}
	return t.settled
}

// answeredLocked moves the settling on after a response to `*`. news: it brought a name the set did not have. whole: it is a SotW
// response, which lists everything. bad: a part of it was refused.
func (s *shard) answeredLocked(now time.Time, gen uint32, news, whole, bad bool) {
	t := &s.set
	if t.answeredGen != gen && !t.firm {
		t.first = time.Time{} // what an earlier stream brought is no measure of this one
	}
	t.answeredGen, t.bad = gen, bad
	if bad {
		t.sweepGen = 0 // what was refused was not mentioned, and must stay, in error or not (RELAY-32)
	}
	if whole && !bad {
		t.settled, t.firm = true, true
		s.wakeFreshLocked()
		return
	}
	if t.firm && t.sweepGen != gen {
		return
	}
	if t.first.IsZero() {
		t.first, t.news = now, now
	}
	if news {
		t.news = now
	}
	if t.sweepGen == gen && t.sweepFirst.IsZero() {
		t.sweepFirst, t.sweepNews = now, now
	}
	s.pauseLocked(now)
}

// pause looks whether the pause after the last new name has been long enough.
func (s *shard) pause(now time.Time) {
	s.mu.Lock()
	s.now = now
	if !s.set.pauseAt.After(now) {
		s.set.pauseAt = time.Time{}
	}
	s.pauseLocked(now)
	s.rejoinClearedLocked()
	s.unlock()
}

func (s *shard) pauseLocked(now time.Time) {
	t, cfg := &s.set, s.cfg()
	if !s.lane(mainLane).live(t.askedGen) {
		// The stream broke half-way: a pause after it says nothing about what was still to come.
		t.first, t.sweepFirst = time.Time{}, time.Time{}
	}
	if t.first.IsZero() && t.sweepFirst.IsZero() {
		return
	}
	var next time.Time
	at := func(x time.Time) {
		if next.IsZero() || x.Before(next) {
			next = x
		}
	}
	if !t.first.IsZero() && !t.settled {
		x := earlier(t.news.Add(cfg.Settle), t.first.Add(cfg.ColdWait))
		if t.bad {
			x = t.first.Add(cfg.ColdWait)
		}
		if x.After(now) {
			at(x)
		} else {
			t.settled = true
			s.wakeFreshLocked()
		}
	}
	if !t.first.IsZero() && !t.firm && !t.bad {
		if x := earlier(t.news.Add(firmFactor*cfg.Settle), t.first.Add(firmMost)); x.After(now) {
			at(x)
		} else {
			t.firm = true
			s.wakeFreshLocked()
		}
	}
	if t.sweepGen != 0 && !t.sweepFirst.IsZero() {
		if x := earlier(t.sweepNews.Add(firmFactor*cfg.Settle), t.sweepFirst.Add(firmMost)); x.After(now) {
			at(x)
		} else {
			s.sweepLocked()
		}
	}
	if !next.IsZero() && (t.pauseAt.IsZero() || next.Before(t.pauseAt)) {
		t.pauseAt = next
		s.push(timer{at: next, kind: setPause, shard: s})
	}
}

// sweepLocked removes the members that the present stream has not mentioned (RELAY-46). A stream that ended sweeps nothing.
func (s *shard) sweepLocked() {
	gen := s.set.sweepGen
	s.set.sweepGen = 0
	if !s.lane(mainLane).live(gen) {
		return
	}
	rev := s.nextRevLocked()
	for _, m := range s.set.members {
		if s.set.sweepAll && m.seenGen != gen {
			m.variants = nil
			s.set.faults.clear(m.name)
			s.offerLocked(m, rev)
		}
	}
	ended := s.forgetFaultsLocked(gen, rev)
	s.setChangedLocked(rev)
	if ended {
		s.statedLocked(rev)
	}
}

func (s *shard) nextRevLocked() uint64 {
	s.rev = s.table().rev.Add(1)
	return s.rev
}

// offerLocked shows a member's variants to every view, and forgets a member that has none left.
func (s *shard) offerLocked(m *member, rev uint64) {
	m.rev = rev
	for _, v := range s.set.views {
		v.offer(m, rev)
	}
	if len(m.variants) == 0 {
		delete(s.set.members, m.name)
	}
}

// setChangedLocked tells the views' clients after the members of one response were offered.
func (s *shard) setChangedLocked(rev uint64) {
	for _, v := range s.set.views {
		v.changedLocked(rev)
	}
}

func (s *shard) wakeFreshLocked() {
	for _, v := range s.set.views {
		for p := v.fresh.head; p != nil; p = p.next {
			p.sub.markLocked(s.rev)
			s.woken = append(s.woken, p.sub.owner) // marked before or not: other types of the stream may wait for the set
		}
	}
}

// put replaces the variant of the same constraints, or adds it.
func put(vs []*Variant, v *Variant) []*Variant {
	key := v.Constraints.Key()
	for i := range vs {
		if vs[i].Constraints.Key() == key {
			vs[i] = v
			return vs
		}
	}
	return append(vs, v)
}

// find is the variant of exactly these constraints.
func find(vs []*Variant, key string) *Variant {
	for _, v := range vs {
		if v.Constraints.Key() == key {
			return v
		}
	}
	return nil
}

// cut removes the variant of exactly these constraints.
func cut(vs []*Variant, key string) []*Variant {
	return slices.DeleteFunc(vs, func(v *Variant) bool { return v.Constraints.Key() == key })
}

// pick chooses the variant for a parameter map: the match with the most distinct keys, then the smallest canonical form
// (DYN-9), so that every replica chooses alike.
func pick(vs []*Variant, p constraints.Params) *Variant {
	var best *Variant
	for _, v := range vs {
		if !v.Constraints.Match(p) {
			continue
		}
		if best == nil || v.Constraints.Keys() > best.Constraints.Keys() ||
			v.Constraints.Keys() == best.Constraints.Keys() && v.Constraints.Key() < best.Constraints.Key() {
			best = v
		}
	}
	return best
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
