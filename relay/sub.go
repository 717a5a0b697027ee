package relay

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/constraints"
)

// Wildcard is the reserved name of the set the origin chooses (WILD-1).
const Wildcard = "*"

// Subscriber is one client stream's mailbox: a wake-up of one slot, shared by all its Subs.
type Subscriber struct{ wake chan struct{} }

// NewSubscriber makes a mailbox.
func NewSubscriber() *Subscriber { return &Subscriber{wake: make(chan struct{}, 1)} }

// Wake is signalled when a Sub of the subscriber has become Pending.
func (s *Subscriber) Wake() <-chan struct{} { return s.wake }

// Signal wakes the subscriber, for its own reader: after an ACK the writer may go on.
func (s *Subscriber) Signal() { signal(s.wake) }

// SubOptions are fixed for the life of a Sub.
type SubOptions struct {
	TypeURL string
	Delta   bool
	// Initial are the initial_resource_versions of a first delta request (DELTA-11).
	Initial map[string]string
	// Version is the version_info of a first SotW request (RELAY-43).
	Version string
	// Params are the dynamic parameters of every name.
	Params constraints.Params
	// TTL: the client may be told TTLs (TTL-5). To all others the relay is the timekeeper (RELAY-51).
	TTL bool
}

// Sub is what one stream-type is subscribed to: its handle on one shard. One goroutine at a time calls Take; the other methods
// may be called beside it.
type Sub struct {
	// Set once by Group.Open.
	owner   *Subscriber
	shard   *shard
	typeURL string
	delta   bool
	ttl     bool // TTLs are told
	params  constraints.Params

	pending atomic.Bool

	// ColdFrom is the caller's to keep: when the present wait for a first answer began; zero: there is none (RELAY-8).
	ColdFrom time.Time

	// Guarded by shard.mu.
	pos     *position       // in each set subscribed to, `*` first, by position.also; nil: none
	more    *overlap        // once there are several; nil: there is one at most
	spaces  map[string]bool // names that are namespaces though they have slashes (ALIAS-6)
	records map[string]*record
	dirty   []*record
	owed    int               // records that must still be answered
	spelt   map[string]string // by canonical name, as the client writes it, where that is another
	initial map[string]Digest // claims, until the first answer to `*` is out
	stated  map[string]string // spelt, of the names in initial
	again   map[string]string // members owed by name under `*` (DELTA-9, WARM-3), as the client writes them
	sum     sum               // of what was sent by name and is still subscribed (VER-4)
	alias   *aliased
	whole   string          // the version of it, if a name was in it
	kept    map[string]kept // Clusters that are gone and still in the list (ORD-3); nil: none
	newest  *receipt        // of the last response that had to do with what was sent by name (VER-5)
	unsent  uint64          // revision of the first change not taken; 0: none
	since   time.Time       // when that change came from the origin; zero: it did not

	holds   bool // the first request said that the client holds something
	first   bool // before the first Update
	met     bool // within one Take: a name that was asked for is answered
	told    bool // something was sent whole
	late    bool // all of it is gone but for names not known yet: to be told when they are
	lagging bool
	// One of several (Union): united is set for good, asList while any of them is subscribed to `*`, insisted for the next Take.
	united, asList, insisted bool

	takes      uint32 // answers so far
	version    string // SotW: version_info of the first request, and then of the last answer
	unaccepted []span // by number; only if TTLs are told
}

// Open subscribes a stream-type to nothing yet. The caller holds a reference on the group for as long as the Sub is open.
func (g *Group) Open(owner *Subscriber, o SubOptions) *Sub {
	sub := &Sub{
		owner: owner, typeURL: o.TypeURL, delta: o.Delta, params: o.Params, ttl: o.TTL, version: o.Version,
		holds: o.Version != "" || len(o.Initial) > 0, records: map[string]*record{}, first: true, alias: noAliases,
	}
	if len(o.Initial) > 0 {
		sub.initial = make(map[string]Digest, len(o.Initial))
		for name, version := range o.Initial {
			sub.stateLocked(name, claim(version, g.origin.cfg.OriginVersions))
		}
	}
	for {
		s := g.shard(o.TypeURL)
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

// stateLocked notes what the client says it holds. Of a name written in two ways with two versions it may hold either.
func (s *Sub) stateLocked(name string, d Digest) {
	key, spelt := spell(name)
	if was, twice := s.initial[key]; twice && was != d {
		d = Digest{}
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

// Pending reports whether Take may have something, and clears the mark.
func (s *Sub) Pending() bool { return s.pending.Swap(false) }

// Remind makes the Sub Pending again, for a caller that could not Take yet.
func (s *Sub) Remind() { s.pending.Store(true) }

// Update applies a delta request: subscribes first, then unsubscribes (DELTA-6). Wildcard stands for `*`. Names may be written in
// any way that means them (NAME-4).
func (s *Sub) Update(now time.Time, subscribe, unsubscribe []string) {
	s.shard.mu.Lock()
	defer s.shard.unlock()
	s.shard.now = now
	for _, name := range subscribe {
		if name == Wildcard {
			s.joinLocked(s.shard.star)
			continue
		}
		s.subscribeLocked(name)
	}
	for _, name := range unsubscribe {
		if name == Wildcard {
			s.leaveLocked(s.starLocked(), now)
			continue
		}
		s.unsubscribeLocked(name, now)
	}
	s.firstDoneLocked()
}

// Namespaces declares names of route configurations: from now on Update takes them for those of all their virtual hosts, as it does
// every name without a slash (ALIAS-6).
func (s *Sub) Namespaces(names []string) {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	for _, name := range names {
		if s.spaces == nil {
			s.spaces = map[string]bool{}
		}
		s.spaces[NameKey(name)] = true
	}
}

// Subscribed reports whether the client names exactly this resource.
func (s *Sub) Subscribed(name string) bool {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	return s.records[NameKey(name)] != nil
}

// Replace applies a SotW request: names are the complete list (SOTW-1), without `*`.
func (s *Sub) Replace(now time.Time, names []string, wildcard bool) {
	s.shard.mu.Lock()
	defer s.shard.unlock()
	s.shard.now = now
	if star := s.starLocked(); wildcard {
		if star == nil {
			s.joinLocked(s.shard.star)
			if !s.first {
				s.version = "" // it spoke of what the client held before the stream (RELAY-43)
			}
		}
	} else {
		s.leaveLocked(star, now)
	}
	listed := make(map[string]bool, len(names))
	for _, name := range names {
		key := NameKey(name)
		listed[key] = true
		if s.records[key] == nil && s.selectsLocked(key) == nil {
			s.subscribeLocked(name)
		}
	}
	for p := s.pos; p != nil; {
		next := p.also
		if t := p.view.set; t.kind != wild && !listed[t.selector] {
			s.leaveLocked(p, now)
			delete(s.spelt, t.selector)
		}
		p = next
	}
	for name, r := range s.records {
		if !listed[name] {
			s.forgetLocked(r, now)
		}
	}
	s.firstDoneLocked()
}

func (s *Sub) firstDoneLocked() {
	if s.first && s.delta {
		s.claimAliasesLocked()
	}
	s.first = false
	if s.pos == nil {
		s.initial, s.stated = nil, nil // names have taken theirs over
	}
}

func (s *Sub) subscribeLocked(name string) {
	name, spelt := spell(name)
	if k, ok := s.shard.selectorOf(name, s.spaces); ok {
		s.spellAsLocked(name, spelt)
		s.joinLocked(s.shard.collectionLocked(name, spelt, k))
		return
	}
	r := s.records[name]
	if r == nil {
		r = &record{sub: s, want: s.shard.wantLocked(name, spelt, s.params)}
		r.want.link(r)
		s.records[name] = r
		s.lookedUpLocked(r)
		s.spellAsLocked(name, spelt)
		if d, stated := s.initial[name]; stated && s.first {
			// Only a version of ours that is current spares the answer (DELTA-11).
			r.sent = d
			r.flags |= holds | claimed
			if s.delta && d != (Digest{}) {
				s.sum.add(d)
			}
			s.dirtyLocked(r, s.shard.rev)
			return
		}
		s.coveringLocked(name, func(p *position) {
			if it := p.view.items[name]; !p.fresh && it != nil && it.birth <= p.sent {
				r.flags |= holds // it came with the set
			}
		})
		if s.more != nil {
			delete(s.more.told, name) // the record tells it from now on
		}
	}
	r.fault = nil // it may be all there is to answer
	s.oweLocked(r, true)
	r.flags |= demanded
	s.dirtyLocked(r, s.shard.rev)
}

// spellAsLocked notes how the client writes a name.
func (s *Sub) spellAsLocked(name, spelt string) {
	if spelt == "" {
		return
	}
	if s.spelt == nil {
		s.spelt = map[string]string{}
	}
	s.spelt[name] = spelt
}

// selectsLocked is the client's position in the collection of that name; nil: it is not subscribed to it.
func (s *Sub) selectsLocked(name string) *position {
	if s.pos == nil || len(s.shard.collections) == 0 {
		return nil
	}
	if t := s.shard.collections[name]; t != nil {
		return s.positionLocked(t)
	}
	return nil
}

func (s *Sub) unsubscribeLocked(name string, now time.Time) {
	name, spelt := spell(name)
	if p := s.selectsLocked(name); p != nil {
		s.leaveLocked(p, now)
		delete(s.spelt, name)
		return
	}
	r := s.records[name]
	told := toldName{name, spelling(name, spelt)}
	if r != nil && s.alias.of[r].name != "" {
		told = s.alias.of[r] // of an alias: the resource, if a set has it
	}
	s.coveringLocked(told.name, func(p *position) {
		if r != nil || p.view.has(told.name) { // DELTA-9, WILD-9
			s.againLocked(told.name, told.spelt)
			s.markLocked(s.shard.rev)
		}
	})
	if !s.coveredLocked(name) {
		delete(s.initial, name) // the client drops what it says it holds of it (DELTA-4)
	}
	if r != nil {
		if v := r.want.chosen; s.delta && v != nil && r.is(holds) {
			s.keepAsLocked(v, r.sent)
		}
		s.forgetLocked(r, now)
		if also := s.alias.by[name]; s.pos != nil && len(also) > 0 { // it has the resource by an alias still
			s.oweLocked(also[0], true)
			s.dirtyLocked(also[0], s.shard.rev)
		}
		return
	}
	for _, r := range s.knownAsLocked(name) {
		s.forgetLocked(r, now)
	}
}

// forgottenLocked looks at what the end of a name means for the rest of a SotW list that is sent whole: it may have been what the
// list waited for, or have stood in the place of the set's own body.
func (s *Sub) forgottenLocked(r *record) {
	if s.delta {
		return
	}
	if s.pos == nil && s.asList && r.is(holds) {
		s.late = true // the client of `*` at another origin may keep it until it is told otherwise
	}
	if s.holds || s.late {
		s.markLocked(s.shard.rev)
	}
	name := s.alias.resource(r)
	s.coveringLocked(name, func(p *position) {
		if it := p.view.items[name]; !p.fresh && r.is(holds) && (it == nil || it.dead || it.variant.Digest != r.sent) {
			p.resend = true
			s.markLocked(s.shard.rev)
		}
	})
}

func (s *Sub) forgetLocked(r *record, now time.Time) {
	s.oweLocked(r, false)
	s.forgottenLocked(r)
	if r.sent != (Digest{}) {
		s.sum.sub(r.sent)
	}
	s.alias.set(r, r.want.entry.name, "")
	if s.notEarlyLocked(r); s.alias.early == 0 && len(s.alias.later) > 0 {
		s.markLocked(s.shard.rev)
	}
	delete(s.records, r.want.entry.name)
	delete(s.spelt, r.want.entry.name)
	r.flags |= gone
	s.shard.unlinkLocked(r, now)
}

func (s *Sub) oweLocked(r *record, owe bool) {
	switch {
	case owe && !r.is(owed):
		r.flags |= owed
		s.owed++
	case !owe && r.is(owed):
		s.met = s.met || r.is(demanded)
		r.flags &^= owed | demanded
		s.owed--
	}
}

// arrivedLocked notes when the first change came that the client has not been told.
func (s *Sub) arrivedLocked() {
	if s.since.IsZero() {
		s.since = s.shard.now
	}
}

// dirtyLocked notes that a name has to be looked at.
func (s *Sub) dirtyLocked(r *record, rev uint64) {
	if !r.is(dirty) {
		r.flags |= dirty
		s.dirty = append(s.dirty, r)
		if len(s.dirty) > 2*len(s.records)+64 {
			s.dirty = slices.DeleteFunc(s.dirty, func(r *record) bool { return r.is(gone) })
		}
	}
	s.markLocked(rev)
}

// markLocked notes that there is something to take since revision rev, and has the stream woken when the shard is unlocked.
func (s *Sub) markLocked(rev uint64) {
	if s.unsent == 0 {
		s.unsent = max(rev, 1)
	}
	if !s.pending.Swap(true) {
		s.shard.woken = append(s.shard.woken, s.owner)
	}
}

// Close ends the subscription and lets go of every name.
func (s *Sub) Close(now time.Time) {
	sh := s.shard
	sh.mu.Lock()
	for s.pos != nil {
		s.leaveLocked(s.pos, now)
	}
	for _, r := range s.records {
		s.forgetLocked(r, now)
	}
	s.dirty = nil
	sh.subs--
	dead := sh.dropIfEmptyLocked()
	sh.unlock()
	if dead {
		sh.group.dropShard(sh)
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
	// Lagging: the stream fell so far behind that it has to end and resume by its versions.
	Lagging bool
	// Names is the number of names subscribed, those of collections included, and Sets that of sets.
	Names, Sets int
	// Dropped is the number of names unsubscribed that must still be answered (DELTA-9).
	Dropped int
	// Wildcard: subscribed to `*`.
	Wildcard bool
}

// Standing tells how the Sub stands.
func (s *Sub) Standing() Standing {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	x := Standing{
		Unsent: s.unsent, Waiting: s.waitingLocked(), Lagging: s.lagging, Names: len(s.records), Dropped: len(s.again),
	}
	for p := s.pos; p != nil; p = p.also {
		x.Sets++
		x.Settling = x.Settling || p.waitsLocked()
		if p.view.set.kind == wild {
			x.Wildcard = true
		} else {
			x.Names++
		}
	}
	return x
}

// waitingLocked reports whether a set or a name still waits for its first answer.
func (s *Sub) waitingLocked() bool {
	for p := s.pos; p != nil; p = p.also {
		if p.fresh {
			return true
		}
	}
	return s.owed > 0
}

// Upstream reports since when the upstream stream has been open that carries what the Sub waits for; false if none is. A type that
// is left out of it because the origin may end streams for it waits as for an origin that is silent about it (RELAY-92, RELAY-95).
func (s *Sub) Upstream() (since time.Time, open bool) {
	s.shard.mu.Lock()
	lane := s.shard.named.lane
	for p := s.pos; p != nil; p = p.also {
		if p.fresh {
			lane = p.view.set.laneIndex()
			break
		}
	}
	t, quarantined := s.shard.apart, time.Time{}
	if t != nil {
		quarantined = t.since
	}
	s.shard.mu.Unlock()
	if t != nil {
		return t.upstream(s.shard.group, lane, quarantined)
	}
	return s.shard.lane(lane).openedAt()
}
