package relay

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

// SubOptions are fixed for the life of a Sub.
type SubOptions struct {
	TypeURL string
	Delta   bool
	// Initial are the initial_resource_versions of a first delta request (DELTA-11).
	Initial map[string]string
	// Version is the version_info of a first SotW request (RELAY-43).
	Version string
	// StandIn: Version is that of fallback content. So the client holds nothing that may be newer
	// than the fallback.
	StandIn bool
	// Params are the dynamic parameters of every name.
	Params constraints.Params
	// Located: the client named the parameters by locators, and is sent variants with their
	// constraints (DYN-7, DYN-16).
	Located bool
	// TTL: the client may be sent TTLs (TTL-5). For all other clients the relay watches the expiry
	// itself (RELAY-51).
	TTL bool
	// Permit is what the client may have; nil: everything. Of sets it is sent that part. A name
	// that it may not have is not subscribed to; the caller refuses it.
	Permit *Permit
	// Polls: the client ends its subscription after each answer, and subscribes again later
	// (REST-10).
	Polls bool
}

// Sub is the subscription of one stream-type: its handle on one shard. At any time at most one
// goroutine calls Take, and at most one calls Update, Replace and Close. The other methods may be
// called concurrently with these.
type Sub struct {
	// Set once by Group.Open.
	owner   *Subscriber
	shard   *shard
	typeURL string
	permit  *Permit // see SubOptions
	delta   bool
	ttl     bool // the client is sent TTLs
	located bool // see SubOptions
	polls   bool // see SubOptions
	starred bool // subscribed to `*`; kept by the Union

	pending atomic.Uint32 // whether Take may have something: pendingChange, pendingUrgent

	// ColdFrom is kept by the caller. It is when the present wait for a first answer began; zero:
	// the client does not wait for one (RELAY-8).
	ColdFrom time.Time

	// Guarded by shard.mu.
	sets     positions
	spaces   map[string]bool // names with slashes that are namespaces nevertheless (ALIAS-6)
	records  *records        // one for each subscribed name; nil: none
	dirty    []*record
	owed     int               // number of records that must still be answered
	standIn  int               // number of records whose client was sent fallback content
	spelt    map[string]string // the client's spelling, by canonical name, where the two differ
	claims   claims            // initial_resource_versions, until the sets are first answered
	names    *xds.TrackedSet   // what the records were sent, if it is much (version.go); nil: not kept
	alias    *aliasHoldings
	whole    string // content version of the last whole list
	deferred deferrals
	// newest is the last response that concerned what was sent by name (VER-5).
	newest *xds.Provenance
	unsent uint64    // revision of the first change not taken; 0: none
	since  time.Time // when that change came from the origin; zero: it did not

	holds          bool // the first request said that the client holds something
	holdsFallback  bool // what it holds is fallback content (SubOptions.StandIn)
	exact          bool // by its version it holds exactly the names it lists (comeback.go)
	listHeld       bool // the first list by name has to wait (comeback.go)
	first          bool // no Update has been done
	answeredDemand bool // during a Take: a name that the client asked for is answered
	moreLeft       bool // during a Take: there is more than fits into one answer (longlist.go)
	sentWhole      bool // a whole list was sent
	removalDue     bool // an empty list is due, once all names are known to be gone
	denies         bool // SotW: see Denies
	sentTTLs       bool // the client was sent answers of a type with TTLs
	lagging        bool
	partial        bool // only a part of a long list has been processed (longlist.go)
	// For a Sub in a Union of several. inUnion is set for good. asList is set while any of the Subs
	// is subscribed to `*`. insisted concerns the next Take: it gives a list even if nothing
	// changed.
	inUnion, asList, insisted bool

	// Of the last answer, for its extent: whether it was a whole list, and how many revisions of
	// its sets it covers.
	tookWhole bool
	tookSpan  uint32

	takes      uint32     // number of answers so far
	version    string     // SotW: version_info of the first request, and then of the last answer
	unaccepted unaccepted // kept only if the client is sent TTLs
}

// Open opens a stream-type's handle, subscribed to nothing yet. The caller holds a reference on the
// group for as long as the Sub is open. The result is nil if the group has no room for another
// parameter map (ErrParameterSets).
func (g *Group) Open(owner *Subscriber, o SubOptions) *Sub {
	if !g.paramSets.join(o.Params, g.origin.table.config().MaxParameterSets) {
		return nil
	}
	sub := &Sub{
		owner: owner, typeURL: o.TypeURL, delta: o.Delta, ttl: o.TTL, located: o.Located, permit: o.Permit, polls: o.Polls, version: o.Version,
		holds: o.Version != "" || len(o.Initial) > 0, holdsFallback: o.StandIn, first: true, alias: noAliases,
	}
	if len(o.Initial) > 0 {
		sub.claims.versions = make(map[string]xds.Digest, len(o.Initial))
		for name, version := range o.Initial {
			sub.claims.add(name, xds.Claim(version, g.config().OriginVersions))
		}
	}
	sub.shard = g.enter(o.TypeURL, o.Params)
	return sub
}

// enter counts one more who asks for a type, and returns its shard. It locks the group and the
// shard.
func (g *Group) enter(typeURL string, p constraints.Params) *shard {
	for {
		s := g.shard(typeURL, p)
		s.mu.Lock()
		if s.dead { // dropped since g.shard returned it; the next look-up makes a new one
			s.mu.Unlock()
			g.dropShard(s)
			continue
		}
		s.subs++
		s.idle.Store(false)
		s.mu.Unlock()
		return s
	}
}

// Group is the group that it is subscribed in.
func (s *Sub) Group() *Group { return s.shard.group }

// Params are the dynamic parameters of every name subscribed to.
func (s *Sub) Params() constraints.Params { return s.shard.params }

// Located reports whether the client named the parameters by locators, and so is sent variants with
// their constraints.
func (s *Sub) Located() bool { return s.located }

// Bits of Sub.pending.
const (
	// pendingChange: the origin changed something. The answer may wait for more changes
	// (`coalesce`).
	pendingChange uint32 = 1 << iota
	// pendingUrgent: anything else. The client asked for it, waits for it, or could lose by
	// waiting.
	pendingUrgent
)

// Pending reports whether Take may have something, and clears the mark.
func (s *Sub) Pending() bool { return s.pending.Swap(0) != 0 }

// Peek is Pending without clearing the mark.
func (s *Sub) Peek() bool { return s.pending.Load() != 0 }

// Changed reports whether there are changes that nobody waits for. Urgent reports whether there may
// be anything else.
func (s *Sub) Changed() bool { return s.pending.Load()&pendingChange != 0 }

// Urgent reports whether Take may have something that the client must not wait for; see Changed.
func (s *Sub) Urgent() bool { return s.pending.Load()&pendingUrgent != 0 }

// Remind makes the Sub Pending again, for a caller that could not Take yet.
func (s *Sub) Remind() { s.pending.Or(pendingUrgent) }

func (r *record) owe(owe bool) {
	s := r.sub
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

// oweAgain makes the client owed an answer for the name, though nothing changed.
func (r *record) oweAgain() {
	r.owe(true)
	r.markDirty(r.sub.shard.rev)
}

// arrived records when the first change arrived that the client has not been sent.
func (s *Sub) arrived() {
	if s.since.IsZero() {
		s.since = s.shard.now
	}
}

// markChanged records a change that the origin made at revision rev. Its answer may wait for more
// changes. If the client is sent TTLs it may not, since what the client holds could expire
// meanwhile.
func (s *Sub) markChanged(rev uint64) {
	s.arrived()
	if s.sentTTLs {
		s.mark(rev)
		return
	}
	s.pend(rev, pendingChange)
}

// touched is markChanged for a name. It is urgent if the client waits for the name's answer.
func (r *record) touched(rev uint64) {
	s := r.sub
	r.lookAgain()
	if r.is(owed) {
		s.arrived()
		s.mark(rev)
		return
	}
	s.markChanged(rev)
}

// markDirty has the next Take look at a name.
func (r *record) markDirty(rev uint64) {
	r.lookAgain()
	r.sub.mark(rev)
}

func (r *record) lookAgain() {
	s := r.sub
	if !r.is(dirty) {
		r.flags |= dirty
		s.dirty = append(s.dirty, r)
		if len(s.dirty) > 2*s.records.len()+64 {
			s.dirty = slices.DeleteFunc(s.dirty, func(r *record) bool { return r.is(unsubscribed) })
		}
	}
}

// mark records that there is something to take since revision rev. The stream is woken when the
// shard is unlocked.
func (s *Sub) mark(rev uint64) { s.pend(rev, pendingUrgent) }

// pend is mark for one of the two kinds. A stream that was already woken for this kind, or for a
// more urgent one, is not woken again before it takes.
func (s *Sub) pend(rev uint64, what uint32) {
	if s.unsent == 0 {
		s.unsent = max(rev, 1)
	}
	if s.pending.Or(what) < what {
		s.shard.wake(s.owner)
	}
}

// answersWhole reports whether every SotW answer holds the full view (SOTW-2, SOTW-4).
func (s *Sub) answersWhole() bool {
	return !s.delta && (s.sets.star() != nil || s.asList || xds.SentWhole(s.typeURL))
}

// claims are what a client says it holds, until it is known whether that is so: the versions, by
// canonical name. The zero Digest is a version that is not known.
type claims struct {
	versions map[string]xds.Digest
	spelt    map[string]string // how the client spelt names, where that differs
}

// add takes in what a client states. If a name is given in two spellings with two versions, the
// client may hold either, so no version is recorded.
func (c *claims) add(name string, d xds.Digest) {
	key, spelt := xds.Spell(name)
	if was, twice := c.versions[key]; twice && was != d {
		d = xds.Digest{}
	}
	c.set(key, d, spelt)
}

func (c *claims) set(name string, d xds.Digest, spelt string) {
	if c.versions == nil {
		c.versions = map[string]xds.Digest{}
	}
	if c.versions[name] = d; spelt == "" {
		return
	}
	if c.spelt == nil {
		c.spelt = map[string]string{}
	}
	c.spelt[name] = spelt
}

// doubt makes a name be sent whatever the client says of it.
func (c *claims) doubt(name string) {
	if _, stated := c.versions[name]; stated {
		c.versions[name] = xds.Digest{}
	}
}

func (c *claims) clone() claims {
	return claims{versions: maps.Clone(c.versions), spelt: maps.Clone(c.spelt)}
}
