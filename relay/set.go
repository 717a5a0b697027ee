package relay

import (
	"time"

	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// set is one collection of a type: what the origin sent for one selector, and how that is asked.
// Guarded by its shard's lock.
type set struct {
	scope

	// Set once by newSet.
	kind  selectorKind
	reach xds.Glob // of a glob
	// barred: it is that of clients that may have no member. It is known to be empty, and never
	// asked for.
	barred bool

	members members
	views   byPermit[view]
	interest
	// inChanged: a collection that its lane has to look at, besides asking anew.
	inChanged bool
	// news are members of which the state is to say something else, perhaps; nil: of none, and the
	// set is as far as it says.
	news []string

	// Within one response: touched are the members that it concerns, in its order. errorEnded: the
	// error of a name has ended.
	touched    []*member
	errorEnded bool
	// were is what clients had of touched, if that is noted. unnoted is the revision of the last
	// change that was not: content that was the first, or the end of what nobody wanted. lost: what
	// was before this revision is not known, since nobody wanted the set then.
	were          []*xds.Variant
	unnoted, lost uint64

	// listed is how many members the response of revision listedRev lists.
	listed    int
	listedRev uint64

	askedGen    uint32    // generation of its lane in which it was asked
	askedAt     time.Time // when
	askedAs     uint64    // which of store.questions
	answeredGen uint32    // generation in which it was answered
	// inSyncGen is a generation that had said nothing of it for firm_settle, and was presented all
	// of it (publish.go).
	inSyncGen uint32

	// Settling (RELAY-6). first is the time of the first response, lastNew that of the last one
	// that brought a new name.
	first, lastNew time.Time
	settled, firm  bool
	// filled: it has what a state knows of it, which lacks a member. The set is complete once the
	// origin has answered, and what the state knows waits in that answer, too.
	filled     bool
	shownEarly bool // clients were sent members before it had settled
	// badParts is what was refused of the answers on the present stream. A client that holds
	// something waits until it was stated again (RELAY-32). One that holds nothing is sent what is
	// good; if nothing is, it waits for that, at most cold_wait.
	badParts badParts
	// awaited is since when a client waits for the set, and the origin does not answer
	// (standing.go); zero: none does.
	awaited time.Time
	pauseAt time.Time // of the earliest setPause timer in the heap

	// sweepGen is the generation of a stream after whose pause the members that it has not
	// mentioned are removed, if sweepAll (RELAY-46, RELAY-91). Errors that it has not stated again
	// end in any case. sweepFirst and sweepLastNew are first and lastNew of that stream alone.
	sweepGen                 uint32
	sweepAll                 bool
	sweepFirst, sweepLastNew time.Time

	// refetch are members of which a heartbeat came for another body than the one held. The body is
	// asked for again, as if it were not held.
	refetch map[string]bool

	nameErrors nameErrors
	// collectionError is what the origin said of a collection as a whole (ABS-12), on the stream of
	// generation collectionErrorGen.
	collectionError    *NameError
	collectionErrorGen uint32

	// shares are what clients of states have in common, by the key of their permit (wants.go).
	shares map[string]*sharedSet

	// revived: the members are those of a set that had retired (revive.go), as far as no stream
	// since has said otherwise.
	revived bool
	// fallback: if revived, they are those of the last resort instead (fallback.go).
	fallback bool
	// restored: the members are those of a snapshot, all of them. Until the set is firm no stream
	// has confirmed them (confirm.go).
	restored bool
	// restoredPart: of a snapshot, too, but some may be missing, and some may be gone long since.
	restoredPart bool
	// gathered is when the last response is taken up that waited while the set was unconfirmed
	// (gather.go): its silence does not confirm it before.
	gathered time.Time
	// uncached are the members that must not be cached. needsOrigin: there was one when the last
	// client left, so a client that comes now waits for what the origin sends on the next stream
	// (RELAY-9).
	uncached    map[string]bool
	needsOrigin bool
}

func newSet(s *shard, selector string) *set {
	t := &set{unnoted: s.table().Revision() + 1}
	t.scope = scope{shard: s, of: t, selector: selector}
	return t
}

// laneIndex is the lane that the set is asked on. Globs are asked where the names are (RELAY-20).
func (t *set) laneIndex() laneIndex {
	if t.kind == glob {
		return t.shard.named.lane
	}
	return mainLane
}

func (t *set) lane() *Lane { return t.shard.lane(t.laneIndex()) }

// ask is the name by which a collection is subscribed upstream.
func (t *set) ask() Name {
	return Name{Name: xds.Spelling(t.selector, t.spelt), Params: t.shard.params, Collection: true, Located: t.shard.byLocator()}
}

func (t *set) addClient() {
	t.join()
	if t.barred {
		return
	}
	t.fill()
	t.expect()
	if t.clients == 1 {
		t.reviseAll()
		t.shard.edited()
		t.look()
	}
}

// look makes the lane look at the set.
func (t *set) look() {
	s := t.shard
	if t.kind != wild && !t.inChanged && s.lane(t.laneIndex()).live(s.collections.firstGen(t.kind)) {
		t.inChanged = true
		s.collections.changed = append(s.collections.changed, t)
	}
	s.poke(t.laneIndex())
}

// dropClient removes a client. The set outlives its last client by linger. A collection that is
// known to be empty does not, since clients can make such names up (RELAY-39).
func (t *set) dropClient(now time.Time) {
	t.clients--
	switch {
	case t.clients > 0:
		return
	case t.barred:
		delete(t.shard.collections.barred, t.selector)
		return
	}
	if t.kind != wild && (t.shard.cfg().Linger == 0 || len(t.uncached) > 0 || t.firm && t.members.len() == 0) {
		t.unwant()
		return
	}
	if len(t.uncached) > 0 {
		t.abandon()
		return
	}
	t.shard.lingerUntil(&t.interest, now.Add(t.shard.linger()), timer{set: t})
}

// unconfirmed reports whether members were restored, and no stream has confirmed them. What the
// guard keeps of them is not confirmed either.
func (t *set) unconfirmed() bool {
	return t.restored && !t.firm || (t.restored || t.restoredPart) && t.guard.restored
}

// unvouched reports whether members were restored, all or some, and no stream has confirmed them.
func (t *set) unvouched() bool { return t.unconfirmed() || t.restoredPart && !t.firm }

// endLinger ends the interest in a set, or else in a name, once linger has passed. It locks the
// shard.
func (s *shard) endLinger(end timer, now time.Time) {
	s.mu.Lock()
	t, e := end.set, end.entry
	var w *interest
	var holds, unconfirmed bool
	if t != nil {
		w, holds, unconfirmed = &t.interest, t.firm, t.unconfirmed()
	} else {
		w, holds, unconfirmed = &e.interest, e.chosen != nil, e.unconfirmed
	}
	w.timer = false
	if w.lingers() {
		outlasts := s.outlasts(unconfirmed)
		end.at = gate.Linger(w.lingerAt, now, s.cfg().Linger, holds || outlasts, outlasts || s.group.origin.frozen.Load() != nil)
		switch {
		case !end.at.IsZero(): // it is kept for longer
			w.timer = true
			s.push(end)
		case t != nil:
			t.unwant()
		default:
			s.named.unwant(e)
		}
	}
	s.unlockOrDrop()
}

// unwant gives the set up: the main lane is reopened without `*` (RELAY-22), a collection is
// unsubscribed by its name.
func (t *set) unwant() {
	t.lingerAt = time.Time{}
	t.revise()
	t.shard.edited()
	t.look()
	t.clear()
}

// clear drops the members of a set that nobody wants, all together (RELAY-81). While a stream is
// open on which the set was asked they stay and are kept up to date, since the set may be wanted
// again before that stream ends.
func (t *set) clear() {
	if t.lane().live(t.askedGen) {
		return
	}
	if t.needsOrigin && t.wanted() {
		t.forget()
		t.fill()
	}
	if t.wanted() {
		return
	}
	if t.kind != wild {
		t.shard.collections.drop(t)
		return
	}
	t.retire()
	t.reviseAll()
	// A stream that the type was taken off may still be open (RELAY-92). It would state differences
	// to the members that are dropped here.
	t.askedGen, t.answeredGen = 0, 0
	t.revived, t.uncached, t.needsOrigin = false, nil, false
	t.noteUnwanted()
	for m := range t.members.all() {
		t.shard.expiring.track(expiringKey{t, m.name}, nil)
	}
	t.members, t.nameErrors, t.refetch = members{}, nameErrors{}, nil
	t.first, t.lastNew, t.settled, t.firm, t.badParts, t.awaited = time.Time{}, time.Time{}, false, false, badParts{}, time.Time{}
	t.sweepGen, t.from, t.restored, t.restoredPart, t.filled, t.guard = 0, nil, false, false, false, guard{}
}

// ready reports whether the set may be sent to a client, which holds something or not (RELAY-6,
// RELAY-7).
func (t *set) ready(holds bool) bool {
	switch {
	case t.needsOrigin, len(t.uncached) > 0 && !t.lane().live(t.askedGen):
		return false // a part of a set must not be sent (RELAY-81)
	case holds:
		return t.firm && !t.unconfirmed()
	}
	return t.settled
}

// live reports whether the set was asked and answered on the stream that is open now (RELAY-1).
func (t *set) live() bool { return t.lane().live(t.askedGen) && t.answeredGen == t.askedGen }

func (t *set) stream() gate.Stream { return t.lane().stream(t.askedGen) }

func (t *set) subject() gate.Subject {
	return gate.Subject{Set: true, Complete: t.firm || t.filled, Restored: t.restored, Revived: t.revived}
}

func (t *set) size() int { return t.members.len() }

// standsIn reports whether the members are those of the last resort, and no stream has replaced
// them yet.
func (t *set) standsIn() bool { return t.revived && t.fallback }

// expectMembers allocates the maps for a first answer at once. If they grew step by step they would
// be copied several times under the lock.
func (t *set) expectMembers(n int) {
	t.members.expect(n)
	if v := t.views.timed; v != nil && len(v.items) == 0 {
		v.items = make(map[string]*item, n)
	}
}

// offer updates every view with the variants of a member, and drops a member that has none left.
func (t *set) offer(m *member, rev uint64) {
	t.revise(m.name)
	t.shard.expiring.track(expiringKey{t, m.name}, m.variants)
	t.noteUncached(m)
	for v := range t.views.all() {
		v.offer(m, rev)
	}
	if len(m.variants) == 0 {
		t.members.delete(m.name)
	}
}

// markChanged marks the clients of all views once the members of one response were offered.
func (t *set) markChanged(rev uint64) {
	for v := range t.views.all() {
		v.markChanged(rev)
	}
}

// given is what clients are given of a member; nil: nothing.
func (t *set) given(m *member) *xds.Variant { return pick(m.variants, t.shard.params) }

// noteChange notes that a member has changed, of which clients were given something before. Until
// the set has settled, what is new is the first that anybody is given of it.
func (t *set) noteChange(m *member, was *xds.Variant) {
	first := was == nil && !t.settled
	if first {
		t.unnoted = t.shard.rev
	}
	t.shard.noteChange(t.selector, m.name, history.Change{Was: was, Is: t.given(m), First: first, Since: t.unnoted})
}

// noteUnwanted notes that the members are about to be dropped, since nobody wants the set.
func (t *set) noteUnwanted() {
	s := t.shard
	t.unnoted = s.table().Revision() + 1
	if t.lost = t.unnoted; !s.past.Any() {
		return
	}
	for m := range t.members.all() {
		s.noteChange(t.selector, m.name, history.Change{Was: t.given(m), Unwanted: true})
	}
}

// wakeFresh marks the clients that wait for the set, which may have settled, and those that wait
// for a removal that was held back until it settled.
func (t *set) wakeFresh() {
	s := t.shard
	s.edited() // it may have settled
	t.revise()
	t.awaited = time.Time{}
	for v := range t.views.all() {
		for p := v.fresh.head; p != nil; p = p.next {
			p.sub.mark(s.rev)
			// marked before or not: other types of the stream may wait for the set
			s.wake(p.sub.owner)
		}
		for p := v.ordered.head; p != nil && t.settled && t.shownEarly; p = p.next {
			if p.shownEarly {
				p.shownEarly = false
				if v.contentRev > p.sent { // a removal was kept back, and what came after it
					p.sub.mark(s.rev)
				} else {
					s.wake(p.sub.owner)
				}
			}
		}
	}
	t.shownEarly = t.shownEarly && !t.settled
}

// viewsOfClients are the views that count as such.
func (t *set) viewsOfClients() (n int) {
	for v := range t.views.all() {
		if !v.inner {
			n++
		}
	}
	for _, x := range t.shares {
		if !x.inner {
			n++
		}
	}
	return n
}
