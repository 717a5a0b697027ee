package relay

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

// Subscriber is one client stream's mailbox: a wake-up of one slot, shared by all its Subs.
type Subscriber struct {
	wake chan struct{} // nil: it is called
	call func()
	due  atomic.Bool // some store wakes it when it is unlocked
	// names that nobody had asked for before its Subs did, until NewNames is asked
	newNames atomic.Uint32
}

// NewSubscriber makes a mailbox to be waited at.
func NewSubscriber() *Subscriber { return &Subscriber{wake: make(chan struct{}, 1)} }

// CallSubscriber makes a mailbox that calls instead, from any goroutine and with locks held: call
// does not block.
func CallSubscriber(call func()) *Subscriber { return &Subscriber{call: call} }

// Wake is signalled when a Sub of the subscriber has become Pending.
func (s *Subscriber) Wake() <-chan struct{} { return s.wake }

// Signal wakes the subscriber, for its own reader: after an ACK the writer may go on.
func (s *Subscriber) Signal() {
	if s.call != nil {
		s.call()
		return
	}
	signal(s.wake)
}

// NewNames is how many names the subscriber's Subs have asked for, since the last call, that nobody
// was subscribed to by any name and that were not remembered.
func (s *Subscriber) NewNames() int {
	if s.newNames.Load() == 0 {
		return 0
	}
	return int(s.newNames.Swap(0))
}

// SubOptions are fixed for the life of a Sub.
type SubOptions struct {
	TypeURL string
	Delta   bool
	// Initial are the initial_resource_versions of a first delta request (DELTA-11).
	Initial map[string]string
	// Version is the version_info of a first SotW request (RELAY-43).
	Version string
	// StandIn: that is the version of something of the last resort, so the client holds nothing
	// that may be newer than what stands in.
	StandIn bool
	// Params are the dynamic parameters of every name.
	Params constraints.Params
	// Located: the client named the parameters, and is told variants with their constraints (DYN-7,
	// DYN-16).
	Located bool
	// TTL: the client may be told TTLs (TTL-5). To all others the relay is the timekeeper
	// (RELAY-51).
	TTL bool
	// Polls: the client ends its subscription after each answer, and comes again (REST-10).
	Polls bool
}

// Sub is what one stream-type is subscribed to: its handle on one shard. One goroutine at a time
// calls Take, and one Update, Replace and Close; the other methods may be called beside them.
type Sub struct {
	// Set once by Group.Open.
	owner   *Subscriber
	shard   *shard
	typeURL string
	delta   bool
	ttl     bool // TTLs are told
	located bool // see SubOptions
	polls   bool // see SubOptions
	starred bool // subscribed to `*`; the Union's to keep

	pending atomic.Uint32 // what Take may have: pendingChange, pendingUrgent

	// ColdFrom is the caller's to keep: when the present wait for a first answer began; zero: there
	// is none (RELAY-8).
	ColdFrom time.Time

	// Guarded by shard.mu.
	pos     *position       // in each set subscribed to, `*` first, by position.also; nil: none
	more    *overlap        // once there are several; nil: there is one at most
	spaces  map[string]bool // names that are namespaces though they have slashes (ALIAS-6)
	records *records        // by name; nil: none
	dirty   []*record
	owed    int                   // records that must still be answered
	standIn int                   // records whose client has something of the last resort
	spelt   map[string]string     // by canonical name, as the client writes it, where that is another
	initial map[string]xds.Digest // claims, until the first answer to `*` is out
	stated  map[string]string     // spelt, of the names in initial
	// members owed by name under `*` (DELTA-9, WARM-3), as the client writes them; SotW: those
	// whose endpoints follow the next list (WARM-1)
	again    map[string]string
	sum      xds.Sum // of what was sent by name and is still subscribed (VER-4)
	alias    *aliasHoldings
	whole    string                     // the version of it, if a name was in it
	deferred map[string]deferredRemoval // Clusters that are gone and still in the list (ORD-3); nil: none
	// of the last response that had to do with what was sent by name (VER-5)
	newest *provenance
	unsent uint64    // revision of the first change not taken; 0: none
	since  time.Time // when that change came from the origin; zero: it did not

	holds          bool // the first request said that the client holds something
	holdsFallback  bool // and that is of the last resort (SubOptions.StandIn)
	exact          bool // and its version that this is all it names (comeback.go)
	listHeld       bool // the first list by name waits (comeback.go)
	first          bool // before the first Update
	answeredDemand bool // within one Take: a name that was asked for is answered
	moreLeft       bool // within one Take: there is more than one answer may have (absences.go)
	sentWhole      bool // something was sent whole
	removalDue     bool // all of it is gone but for names not known yet: to be told when they are
	sentTTLs       bool // it was told of a type with TTLs
	lagging        bool
	partial        bool // a part of a long list was taken in (longlist.go)
	// One of several (Union): united is set for good, asList while any of them is subscribed to
	// `*`. insisted, for the next Take: a list is told that need not have changed.
	inUnion, asList, insisted bool

	// Of the last answer, for its extent: a list of all there was, and how many revisions it told
	// of sets.
	tookWhole bool
	tookSpan  uint32

	takes      uint32 // answers so far
	version    string // SotW: version_info of the first request, and then of the last answer
	unaccepted []span // by number; only if TTLs are told
}

// Open subscribes a stream-type to nothing yet. The caller holds a reference on the group for as
// long as the Sub is open. It gives nil if the parameters would be one map too many for the group
// (ErrParameterSets).
func (g *Group) Open(owner *Subscriber, o SubOptions) *Sub {
	if !g.paramSets.join(o.Params, g.origin.table.config().MaxParameterSets) {
		return nil
	}
	sub := &Sub{
		owner: owner, typeURL: o.TypeURL, delta: o.Delta, ttl: o.TTL, located: o.Located, polls: o.Polls, version: o.Version,
		holds: o.Version != "" || len(o.Initial) > 0, holdsFallback: o.StandIn, first: true, alias: noAliases,
	}
	if len(o.Initial) > 0 {
		sub.initial = make(map[string]xds.Digest, len(o.Initial))
		for name, version := range o.Initial {
			sub.state(name, claim(version, g.origin.config().OriginVersions))
		}
	}
	for {
		s := g.shard(o.TypeURL, o.Params)
		s.mu.Lock()
		if s.dead { // dropped between the two lines above; the next look-up makes a new one
			s.mu.Unlock()
			g.dropShard(s)
			continue
		}
		s.subs++
		s.idle.Store(false)
		sub.shard = s
		s.mu.Unlock()
		return sub
	}
}

// state notes what the client says it holds. Of a name written in two ways with two versions
// it may hold either.
func (s *Sub) state(name string, d xds.Digest) {
	key, spelt := xds.Spell(name)
	if was, twice := s.initial[key]; twice && was != d {
		d = xds.Digest{}
	}
	s.initial[key] = d
	if spelt != "" {
		if s.stated == nil {
			s.stated = map[string]string{}
		}
		s.stated[key] = spelt
	}
}

// Group is where it is subscribed.
func (s *Sub) Group() *Group { return s.shard.group }

// TypeURL is the type subscribed to.
func (s *Sub) TypeURL() string { return s.typeURL }

// Params are the dynamic parameters of every name subscribed to.
func (s *Sub) Params() constraints.Params { return s.shard.params }

// Located reports whether the client named them, and is told variants with their constraints.
func (s *Sub) Located() bool { return s.located }

// Bits of Sub.pending.
const (
	pendingChange uint32 = 1 << iota // changes of the origin's, which may wait for others to come (`coalesce`)
	// anything else: what the client asked for, or waits for, or could lose by waiting
	pendingUrgent
)

// Pending reports whether Take may have something, and clears the mark.
func (s *Sub) Pending() bool { return s.pending.Swap(0) != 0 }

// Peek is Pending without clearing the mark.
func (s *Sub) Peek() bool { return s.pending.Load() != 0 }

// Changed reports whether changes are pending that nobody waits for, and Urgent whether there may
// be anything else.
func (s *Sub) Changed() bool { return s.pending.Load()&pendingChange != 0 }

// Urgent is the other half of Changed.
func (s *Sub) Urgent() bool { return s.pending.Load()&pendingUrgent != 0 }

// Remind makes the Sub Pending again, for a caller that could not Take yet.
func (s *Sub) Remind() { s.pending.Or(pendingUrgent) }

func (s *Sub) owe(r *record, owe bool) {
	switch {
	case owe && !r.is(owed):
		r.flags |= owed
		s.owed++
	case !owe && r.is(owed):
		s.answeredDemand = s.answeredDemand || r.is(demanded)
		r.flags &^= owed | demanded
		s.owed--
	}
}

// arrived notes when the first thing came that the client has not been told.
func (s *Sub) arrived() {
	if s.since.IsZero() {
		s.since = s.shard.now
	}
}

// markChanged notes a change that the origin made at revision rev. It may wait for others, unless
// what the client holds may run out before.
func (s *Sub) markChanged(rev uint64) {
	s.arrived()
	if s.sentTTLs {
		s.mark(rev)
		return
	}
	s.pend(rev, pendingChange)
}

// touched is markChanged of a name, unless the client waits for it.
func (s *Sub) touched(r *record, rev uint64) {
	s.lookAgain(r)
	if r.is(owed) {
		s.arrived()
		s.mark(rev)
		return
	}
	s.markChanged(rev)
}

// markDirty notes that a name has to be looked at.
func (s *Sub) markDirty(r *record, rev uint64) {
	s.lookAgain(r)
	s.mark(rev)
}

func (s *Sub) lookAgain(r *record) {
	if !r.is(dirty) {
		r.flags |= dirty
		s.dirty = append(s.dirty, r)
		if len(s.dirty) > 2*s.records.len()+64 {
			s.dirty = slices.DeleteFunc(s.dirty, func(r *record) bool { return r.is(unsubscribed) })
		}
	}
}

// mark notes that there is something to take since revision rev, and has the stream woken
// when the shard is unlocked.
func (s *Sub) mark(rev uint64) { s.pend(rev, pendingUrgent) }

// pend is mark of one kind. A stream that was woken for as much is not woken again
// before it takes.
func (s *Sub) pend(rev uint64, what uint32) {
	if s.unsent == 0 {
		s.unsent = max(rev, 1)
	}
	if s.pending.Or(what) < what {
		s.shard.wake(s.owner)
	}
}

// Standing is how a Sub stands between two Takes.
type Standing struct {
	// Unsent is the revision of the first change not taken; 0: none.
	Unsent uint64
	// Waiting: a set or a name still waits for its first answer.
	Waiting bool
	// Settling: a set subscribed to has to settle before it is told (RELAY-7).
	Settling bool
	// Arriving: a set that is told as it comes has not settled.
	Arriving bool
	// Held: there is something for it that was restored and that the origin has not confirmed yet.
	// The client says that it holds something, and is left as it is (RELAY-96). Or its list waits
	// as it would take away what went (comeback.go).
	Held bool
	// StandIn: it was told something of the last resort, and nothing in its place yet.
	StandIn bool
	// Lagging: the stream fell so far behind that it has to end and resume by its versions.
	Lagging bool
	// Names is the number of names subscribed, those of collections included, and Sets that of
	// sets.
	Names, Sets int
	// Dropped is the number of names unsubscribed that must still be answered (DELTA-9).
	Dropped int
	// Wildcard: subscribed to `*`.
	Wildcard bool
}

// Since is when the first change came from the origin that was not taken; zero: there is none.
func (s *Sub) Since() time.Time {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	return s.since
}

// Unsent is Standing().Unsent.
func (s *Sub) Unsent() uint64 {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	return s.unsent
}

// Standing tells how the Sub stands.
func (s *Sub) Standing() Standing {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	x := Standing{
		Unsent: s.unsent, Waiting: s.waiting(), Lagging: s.lagging, Names: s.records.len(), Dropped: len(s.again),
		StandIn: s.standIn > 0,
	}
	if s.shard.named.unconfirmed {
		for r := range s.records.all() {
			x.Held = x.Held || r.heldBack()
		}
	}
	x.Held = x.Held || s.listHeld
	for p := s.pos; p != nil; p = p.also {
		x.Sets++
		x.Arriving = x.Arriving || p.shownEarly
		x.StandIn = x.StandIn || p.view.set.standsIn()
		held := p.heldBack()
		x.Held = x.Held || held
		// No route waits for a Listener that was restored and is not confirmed (ORD-11).
		x.Settling = x.Settling || p.settles() && (!held || !xds.ChoosesClusters(s.typeURL))
		if p.view.set.kind == wild {
			x.Wildcard = true
		} else {
			x.Names++
		}
	}
	return x
}

// waiting reports whether a set or a name still waits for its first answer.
func (s *Sub) waiting() bool {
	for p := s.pos; p != nil; p = p.also {
		if p.fresh {
			return true
		}
	}
	return s.owed > 0
}

// Upstream reports since when the upstream stream has been open that carries what the Sub waits
// for; false if none is. A type that is left out of it because the origin may end streams for it
// waits as for an origin that is silent about it (RELAY-92, RELAY-95).
func (s *Sub) Upstream() (since time.Time, open bool) {
	s.shard.mu.Lock()
	lane := s.shard.named.lane
	for p := s.pos; p != nil; p = p.also {
		if p.fresh {
			lane = p.view.set.laneIndex()
			break
		}
	}
	t, quarantined := s.shard.quarantine, time.Time{}
	if t != nil {
		quarantined = t.since
	}
	s.shard.mu.Unlock()
	if t != nil {
		return t.upstream(s.shard.group, lane, quarantined)
	}
	return s.shard.lane(lane).openedAt()
}

// answersWhole reports whether every SotW answer holds the full view (SOTW-2, SOTW-4).
func (s *Sub) answersWhole() bool {
	return !s.delta && (s.star() != nil || s.asList || xds.SentWhole(s.typeURL))
}
