package relay

import (
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// namedTable is the part of a shard that clients asked for by name.
type namedTable struct {
	scope
	entries map[string]*entry
	made    uint32 // entries, ever
	// restoredAt is the revision at which a snapshot was restored; 0: none was. before are the
	// revisions from which on, before that, entries had what they have since.
	restoredAt uint64
	before     map[*entry]uint64
	other      aliasIndex
	// givenAs are the entries that were given what had retired of a resource of another name, by
	// that name. Some may have it no longer (publish.go).
	givenAs map[string]map[*entry]struct{}
	// lane is where the names are asked (RELAY-20): the main lane unless it carries the type's
	// wildcard.
	lane laneIndex
	// firstGen is the generation of each lane in which names were first asked there; what is not of
	// the lane's present generation is asked anew.
	firstGen [2]uint32
	firstAt  [2]time.Time
	changed  []*entry // to be looked at by the lane, besides asking anew
	asksMore bool     // of changed, after one Take
	// partial is how many lists are being taken in by shares. Until their ends no name leaves the
	// request: the next share may have it (longlist.go).
	partial int
	// waitsToList: a timer is set for names that are to be asked later (ask.go).
	waitsToList bool
	longAsk     longAsk
	touched     []*entry // within one response: what it concerns, in its order
	// unconfirmed: an entry may be. Those whose silence counts as the origin's word are confirmed
	// at confirmAt (confirm.go).
	unconfirmed bool
	confirmAt   time.Time
	confirming  bool   // a timer is set
	refusedGen  uint32 // generation of the last stream on which a part of a response was refused
	// presented: on the present stream the origin was told the versions of what is held, so its
	// silence means that they are current.
	presented bool
	// the side lane has to ask them before the main lane may be reopened without them
	moving bool
	// unheard are the names asked, in order of time, to be looked at after patience (ABS-1);
	// silentAt is when, zero if there are none.
	unheard  []unheard
	silentAt time.Time
	// parked are the virtual hosts among them, to be looked at after on_demand_wait (hosts.go).
	// They are a queue of its own.
	parked []unheard
	// aside are names that a SotW origin may be silent for: true, they are out of the lane's
	// request; false, they were found to exist. relist: the request has to be sent again for it
	// (aside.go).
	aside  map[*entry]bool
	polled map[*entry]bool // that clients have polled, until they go; nil: none
	relist bool
}

func (n *namedTable) begin(s *shard) {
	n.scope, n.entries = scope{shard: s, of: n}, map[string]*entry{}
}

// unheard is a name asked on the stream of generation gen.
type unheard struct {
	entry *entry
	gen   uint32
	asks  uint8 // which of the entry's questions it is
	at    time.Time
}

// entry is one name of kind named: its variants, and that some client is subscribed to it, or was
// less than linger ago. Interest is level-triggered: the lane compares what is wanted with what it
// asked.
type entry struct {
	spelt string      // as the client wrote it who asked first, if that is another (NAME-9)
	also  *aliasGroup // set while it holds a resource that other entries may hold too
	// stated with the absence, which told that an alias did not resolve (ALIAS-5)
	notice *xds.Variant

	state // what the origin has said
	// Clusters: chosen before it went (ORD-3). Virtual hosts: that, or another that the alias stood
	// for (aliasclaims.go).
	last *xds.Variant
	rev  uint64 // of the last change of chosen

	head *record // of the clients
	interest
	number    uint32 // one of its own, as good as any: see records
	gone      bool   // from the table
	inChanged bool
}

// record is what one client costs for one name.
type record struct {
	entry      *entry
	sub        *Sub
	prev, next *record    // of the name's clients
	chain      *record    // of the client's records
	sent       xds.Digest // of the body last sent, or stated by the client in its first request
	at         uint32     // number of the answer the body was in; 0: none
	flags      recordFlags
}

type recordFlags uint16

const (
	dirty          recordFlags = 1 << iota // in sub.dirty
	owed                                   // must be answered even if nothing changed (DELTA-2, SOTW-5)
	holds                                  // the client was sent a body, or says it holds one
	claimed                                // it only says so
	unsubscribed                           // unsubscribed while in sub.dirty
	unavailableDue                         // waits in vain, which is to be said
	// owed because the client asked: a request may wait for it (ALIAS-8)
	demanded
	// not answered yet, and may be an alias of what the client says it holds, or gave up
	maybeAlias
	heartbeatDue // a TTL came that the client has not been told
	revived      // holds what had retired, by our giving it
	// of a client that came back, and by what it said first holds it, or may
	returned
	errorSent  // an error was told last, which is in sub.records.faults
	listed     // within one Replace: it is in the list
	standIn    // and that is of the last resort
	hadRemoved // delta: it had what was taken as removed (ORD-10)
	// that its endpoints are empty is told now, and not kept back (emptied.go)
	sendEmpty
)

func (r *record) is(f recordFlags) bool { return r.flags&f != 0 }

func (n *namedTable) newEntry(name, spelt string) *entry {
	n.made++
	e := &entry{spelt: spelt, number: n.made}
	e.name = name
	n.entries[name] = e
	return e
}

// look makes the lane look at the name. Until the lane has asked for any name on its present stream
// it looks at all of them, so nothing is recorded while the origin is away.
func (n *namedTable) look(e *entry) {
	asked := n.shard.lane(n.lane).live(n.firstGen[n.lane])
	if asked && !e.inChanged {
		e.inChanged = true
		n.changed = append(n.changed, e)
	}
	n.shard.poke(n.lane)
}

// isAsked reports whether the name is asked on the stream that is open now.
func (n *namedTable) isAsked(e *entry) bool {
	return n.shard.lane(n.lane).live(e.asked())
}

// absent reports whether the origin's statement that the name does not exist is still valid: it is
// as long as the upstream subscription lasts (RELAY-37, RELAY-38).
func (n *namedTable) absent(e *entry) bool {
	return e.absentOn(e.asked()) && n.isAsked(e)
}

// Name is one subscription: a resource name, as the client wrote it who asked first (NAME-9), and
// dynamic parameters.
type Name struct {
	Name   string
	Params constraints.Params
	// Collection: it stands for others, as an xdstp glob or a namespace of virtual hosts.
	Collection bool
	// Located: it goes as a locator, with parameters or without.
	Located bool
}

// nameOf is the name as it goes upstream.
func (n *namedTable) nameOf(e *entry) Name {
	return Name{Name: xds.Spelling(e.name, e.spelt), Params: n.shard.params, Located: n.shard.byLocator()}
}

// want subscribes to a name. e is its entry, or nil if it has none yet. name may be a part of a
// larger string, so it is copied before it is kept.
func (n *namedTable) want(e *entry, name, spelt string) *entry {
	if e == nil {
		return n.newWant(name, spelt)
	}
	if len(e.variants) == 0 && !e.wasStatedAbsent() {
		// It dropped a body that must not be cached. An entry of another alias may still have it.
		n.share(e)
		e.onHeld(pick(e.variants, n.shard.params))
		n.revise(e)
		n.noteFirst(e)
	}
	if e.clients == 0 && n.shard.group.config().SotW {
		n.look(e) // it left the request, or now other names have to leave it
	}
	return e
}

// newWant makes the entry of a name and fills it with what is already held of the resource.
func (n *namedTable) newWant(name, spelt string) *entry {
	s := n.shard
	e := n.newEntry(strings.Clone(name), strings.Clone(spelt))
	retired, unconfirmed := s.unretire(s.retiredKey(e.name))
	e.onRestored(unconfirmed)
	n.share(e)
	n.shareMember(e)
	if len(e.variants) == 0 {
		for _, v := range n.match(e.name) {
			n.hold(e, v)
			e.onBorrowed()
			n.revise(e)
		}
	}
	if v := n.stateOf(e.name); v != nil && len(e.variants) == 0 {
		s.nextRev() // the shard may be a new one, and its history goes on
		if n.hold(e, v); e.also != nil {
			n.other.list(e.also)
		}
		s.expiring.track(expiringKey{name: e.name}, e.variants)
	}
	if e.unconfirmed {
		n.unconfirmed = true
	}
	switch {
	case len(e.variants) > 0:
		retired = nil
	case retired == nil:
		retired = n.fallbackOf(e.name)
	}
	if e.onRetired(retired); retired != nil {
		s.expect(s.lane(n.lane))
	}
	// a live variant that matches answers a new map at once (RELAY-68)
	e.onHeld(pick(e.variants, s.params))
	e.rev = s.rev
	n.revise(e)
	n.noteFirst(e)
	s.edited()
	n.look(e)
	return e
}

func (e *entry) link(r *record) {
	r.next = e.head
	if e.head != nil {
		e.head.prev = r
	}
	e.head = r
	e.join()
}

// unlink removes a client's record. The name outlives its last client by linger, unless it is known
// never to have existed (RELAY-39, which is about guessed names). A name that existed and went is
// kept: a client that was away when it went comes back with its version, and many origins do not
// state the absence of a name again. So is one that is polled, if only the origin's silence says
// that there is none: asked anew, it would have to be silent for as long again, and only the first
// poll after that would be answered (REST-10).
func (n *namedTable) unlink(r *record, now time.Time) {
	e := r.entry
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		e.head = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
	n.leave(e, now, r.sub.polls)
}

// leave counts one client less. polls: it will come again.
func (n *namedTable) leave(e *entry, now time.Time, polls bool) {
	e.clients--
	if polls {
		n.polls(e)
	}
	if e.clients > 0 {
		return
	}
	if e.chosen != nil && e.chosen.DoNotCache {
		n.abandon(e)
		return
	}
	linger := n.shard.linger()
	if n.shard.outlasts(e.unconfirmed) {
		linger = leastRestored
	}
	if linger > 0 && (e.existed || !n.absent(e) || polls && e.absence == presumedAbsent) {
		n.shard.lingerUntil(&e.interest, now.Add(linger), timer{entry: e})
		n.lapse(e)
		return
	}
	n.unwant(e)
}

// abandon drops at once the uncacheable bodies of a name that no client has, and gives the name up.
// If a client comes before the lane has unsubscribed, the name is asked anew (RELAY-9).
func (n *namedTable) abandon(e *entry) {
	if e.clients == 0 {
		for _, v := range slices.Clone(e.variants) {
			if v.DoNotCache {
				n.cut(e, v.Constraints.Key())
			}
		}
		if len(e.variants) == 0 {
			e.onNamed()
		}
		n.shard.expiring.track(expiringKey{name: e.name}, e.variants)
		n.noteUnwanted(e)
		e.onUnkept(pick(e.variants, n.shard.params), n.isAsked(e))
	}
	n.unwant(e)
}

// unwant gives a name up. If the lane has asked for it, the lane unsubscribes first and then
// deletes it.
func (n *namedTable) unwant(e *entry) {
	e.lingerAt = time.Time{}
	n.shard.edited()
	if n.isAsked(e) {
		n.look(e)
		return
	}
	n.delete(e)
}

func (n *namedTable) delete(e *entry) {
	s := n.shard
	s.edited()
	if n.entries[e.name] != e {
		return
	}
	n.noteUnwanted(e)
	n.revise(e)
	e.gone = true
	n.listAsked(e)
	delete(n.entries, e.name)
	delete(n.polled, e)
	delete(n.before, e)
	s.expiring.track(expiringKey{name: e.name}, nil)
	n.retire(e)
	n.empty(e)
	if n.moving && !s.hasNames() { // nothing is left for the side lane to ask first
		s.moved()
	}
	s.lane(n.lane).poke() // it may have been the last thing the lane was open for
}

// noteFirst notes what a name has from the start.
func (n *namedTable) noteFirst(e *entry) {
	n.shard.noteChange("", e.name, history.Change{Is: e.chosen, First: true, Since: n.shard.rev})
}

// noteUnwanted notes that the content of a name is about to be dropped, since nobody wants it.
func (n *namedTable) noteUnwanted(e *entry) {
	n.shard.noteChange("", e.name, history.Change{Was: e.chosen, Unwanted: true})
}
