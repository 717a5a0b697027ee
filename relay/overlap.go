package relay

import (
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// join subscribes to a set. A set that is subscribed already is answered again (DELTA-2).
func (s *Sub) join(t *set) {
	if p := s.sets.of(t); p != nil {
		s.demandSet(p)
		return
	}
	p := &position{sub: s, view: t.view(s.ttl), fresh: true}
	p.view.enter(p)
	if s.sets.first != nil && s.sets.more == nil {
		s.overlap()
	}
	if s.sets.more != nil {
		s.sets.more.by[t] = p
	}
	if at := s.sets.first; at != nil && t.kind != wild { // `*` stays first
		p.also, p.prior = at.also, at
		at.also = p
	} else {
		p.also, s.sets.first = at, p
	}
	if p.also != nil {
		p.also.prior = p
	}
	t.addClient()
	t.lookedUp()
	if p.settles() {
		t.await(s.shard.now)
	}
	s.mark(s.shard.rev)
}

// demandSet makes a set owed, whatever the client was sent of it before.
func (s *Sub) demandSet(p *position) {
	p.resend, p.collectionError = true, nil
	p.errorsSent, p.errorsSentBefore = 0, 0 // each error follows its body again
	s.mark(s.shard.rev)
}

// overlap starts the client's overlap with what its one set has sent so far.
func (s *Sub) overlap() {
	p := s.sets.first
	s.sets.more = &overlap{by: map[*set]*position{p.view.set: p}, sent: map[string]xds.Digest{}}
	if !p.fresh {
		for it := p.view.head; it != nil; it = it.next {
			switch name := it.variant.Name; {
			case s.record(name) != nil || !p.view.hadAt(it, p.sent):
			case it.rev <= p.sent:
				s.sets.more.sent[name] = it.variant.Digest
			default:
				s.sets.more.sent[name] = xds.Digest{}
			}
		}
	}
	for name := range s.sets.again { // owed in any case, also by a set that has sent nothing (DELTA-9)
		if s.record(name) == nil {
			s.sets.more.sent[name] = xds.Digest{}
		}
	}
}

// leave ends the subscription to a set, of a client that stays. A resource that the client has by
// the set, and is still subscribed to by name, may have to stand in for the name's own entry.
func (s *Sub) leave(p *position, now time.Time) {
	if p == nil {
		return
	}
	for r := range s.records.all() {
		if it := p.view.item(s.alias.resource(r)); it != nil && r.is(holds) && !r.is(claimed) {
			s.shard.named.standIn(r.entry, p.view.set, it, now)
		}
	}
	s.leaveSet(p, now)
}

// outlives reports whether the set's body supersedes an older "not found" of the entry. It does if
// the body is newer and the stream that stated the absence has closed.
func (s *shard) outlives(it *item, e *entry) bool {
	return !it.dead && it.rev > e.rev && !s.named.absent(e)
}

// leaveSet ends the subscription to a set. What the client has by the set, and still selects in
// another way, is looked at again: the body there may be another one, or none (DELTA-9). What the
// client selects no longer it drops by itself (DELTA-4).
func (s *Sub) leaveSet(p *position, now time.Time) {
	s.keepByAlias(p)
	for r := range s.records.all() {
		if it, e := p.view.item(s.alias.resource(r)), r.entry; it != nil && s.shard.outlives(it, e) {
			e.onOutlived()
		}
	}
	if p.fresh && s.alias.claims != nil { // the client may hold what aliases stand for
		s.alias.deferRest(s)
	}
	t := p.view.set
	s.sets.unlink(p)
	p.view.leave(p)
	// What came with the set is held by name from now on. No list may leave it out before it is
	// known (RELAY-7), and what was sent of a name may differ from its own entry (RELAY-25).
	s.holds = s.holds || !s.delta && s.sentWhole
	for r := range s.records.all() {
		r.markDirty(s.shard.rev)
	}
	if s.asList && t.kind != wild && !p.fresh && !s.delta {
		// A client of `*` at another origin may keep the members until a list leaves them out.
		s.removalDue = true
		if s.sets.first != nil {
			s.sets.first.resend = true
		}
		s.mark(s.shard.rev)
	}
	for name := range s.initial {
		if !s.sets.covered(name) && s.record(name) == nil {
			delete(s.initial, name) // the client drops what it said it holds, too
		}
	}
	if s.sets.more != nil {
		for name := range s.sets.more.sent {
			if !s.sets.covered(name) {
				delete(s.sets.more.sent, name)
			} else if it, _ := s.sets.itemOf(name); it == nil {
				// The client drops it. If it subscribes to the name again before the next answer,
				// it is sent the body again.
				s.sets.more.sent[name] = xds.Digest{}
			}
		}
		s.sets.more.look = true
		s.mark(s.shard.rev)
	}
	t.dropClient(now)
}

// takeOverlap is takeView for a client of several sets.
func (s *Sub) takeOverlap() (own *Body, must bool, rev uint64) {
	own = &Body{}
	x := overlapTake{sub: s, own: own, seen: map[string]bool{}}
	for p := s.sets.first; p != nil; p = p.also {
		if p.blocked() {
			x.waits = true
			continue
		}
		if p.fresh || p.resend || p.view.contentRev > p.sent {
			must = must || p.fresh || p.resend
			rev = max(rev, p.view.contentRev)
			x.collect(p)
		}
	}
	x.again()    // first, since only here the client's spelling of these names is known
	if x.fresh { // names may have waited for the set
		x.all(s.initial)
	}
	if x.fresh || s.sets.more.look {
		s.sets.more.look = false
		x.all(s.sets.more.sent)
	}
	if !x.waits {
		s.initial, s.stated, s.holds = nil, nil, false
	}
	return own, must, max(rev, x.rev)
}

// overlapTake is one Take of a client of several sets.
type overlapTake struct {
	sub          *Sub
	own          *Body
	seen         map[string]bool // true: the answer has something of the name
	rev          uint64
	fresh, waits bool
}

func (x *overlapTake) all(names map[string]xds.Digest) {
	for name := range names {
		x.name(name, x.sub.stated[name])
	}
}

// again answers unsubscribes of names that sets still cover (DELTA-9), with the resource or a
// removal. A set's error of the name is sent again, too.
func (x *overlapTake) again() {
	s := x.sub
	for name, spelt := range s.sets.again {
		if it, waits := s.sets.itemOf(name); it == nil && !waits && s.sets.spared(name) {
			delete(s.sets.more.sent, name) // the client keeps what it holds (ABS-8)
		}
		if x.name(name, spelt) {
			s.sets.covering(name, func(p *position) { p.errorAgain(name) })
			delete(s.sets.again, name)
		}
	}
}

// collect looks at what one set has for the client.
func (x *overlapTake) collect(p *position) {
	s, v := x.sub, p.view
	var body *Body
	switch {
	case p.fresh:
		x.fresh = true
		body = v.fullBody(s.delta)
	case p.resend:
		full, recent := v.fullBody(s.delta), v.since(p.sent)
		body = &Body{Variants: full.Variants, Removed: recent.Removed, spelt: recent.spelt, nameless: full.nameless || recent.nameless}
		for _, v := range body.Variants {
			if _, told := s.sets.more.sent[v.Name]; told {
				s.sets.more.sent[v.Name] = xds.Digest{}
			}
		}
	default:
		body = s.renewed(p, v.since(p.sent))
		// Unchanged content is sent in full if it lost its TTL (TTL-8), or if the client has not
		// accepted it and so may be sent no heartbeat (TTL-10).
		for _, b := range body.Variants {
			if _, told := s.sets.more.sent[b.Name]; told && v.item(b.Name).rev <= p.sent {
				s.sets.more.sent[b.Name] = xds.Digest{}
			}
		}
		for _, v := range body.Heartbeats {
			if r := s.record(v.Name); r != nil {
				s.renewedInSet(p, r, false)
			}
		}
	}
	p.empty(x.own)
	p.resend = false
	v.passed(p, v.contentRev)
	body = body.named()
	for _, v := range body.Variants {
		x.name(v.Name, "")
	}
	for _, name := range body.Removed {
		x.name(name, body.spelt[name])
	}
	for _, v := range body.Heartbeats {
		x.heartbeat(v)
	}
}

// heartbeat sends the new TTL of a body that the client has.
func (x *overlapTake) heartbeat(v *xds.Variant) {
	s := x.sub
	it, _ := s.sets.itemOf(v.Name)
	if x.name(v.Name, ""); it == nil || it.variant != v || s.sets.more.sent[v.Name] != v.Digest {
		return // a record sends it, or another set's body that lasts longer
	}
	if said, seen := x.seen[v.Name]; seen && !said {
		x.own.Heartbeats = append(x.own.Heartbeats, v)
		x.seen[v.Name] = true
	}
}

// name brings one name up to date in the answer. It reports false if the name has to wait for
// another set.
func (x *overlapTake) name(name, spelt string) bool {
	s := x.sub
	if _, seen := x.seen[name]; seen {
		return true
	}
	if s.lookAt(name) {
		return true
	}
	it, waits := s.sets.itemOf(name)
	last, told := s.sets.more.sent[name]
	claim, claimed := s.initial[name]
	if it == nil && waits {
		return false // that set may have it
	}
	x.seen[name] = false
	delete(s.initial, name)
	switch {
	case it != nil && (told && last == it.variant.Digest || claimed && !told && it.variant.ClaimedAs(claim)):
		s.sets.more.sent[name] = it.variant.Digest
		if !told && s.ttl && it.variant.Timed() { // it may have missed a TTL while it was away
			x.own.Heartbeats = append(x.own.Heartbeats, it.variant)
			x.seen[name] = true
		}
	case it != nil:
		x.own.Variants = append(x.own.Variants, it.variant)
		x.seen[name] = true
		x.rev = max(x.rev, it.rev)
		s.sets.more.sent[name] = it.variant.Digest
	case !told && (!claimed || !s.sets.covered(name) || s.sets.spared(name)):
	case !told && s.alias.undecided > 0: // an alias may stand for it
		s.alias.deferred = append(s.alias.deferred, heldName{name: name, spelt: spelt})
	default:
		x.seen[name] = true
		x.own.remove(name, spelt)
		delete(s.sets.more.sent, name)
	}
	return true
}

// empty adds the statement that a collection is empty, if all of it is sent and it has no members
// (COLL-3). A collection with members in error may not be empty.
func (p *position) empty(b *Body) {
	if t := p.view.set; t.kind != wild && p.view.live == 0 && len(t.nameErrors.byName) == 0 && (p.fresh || p.resend) && t.live() {
		b.remove(t.selector, t.spelt)
	}
}
