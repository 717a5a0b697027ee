package relay

import (
	"strings"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// overlap is what is kept of a client that selects in more ways than one, by `*` and globs say: the
// sets may hold one name each, as one body or as two, and the client is told of it once. A client
// of one set costs none of this: its position tells what it holds.
type overlap struct {
	by map[*set]*position
	// sent is the body last told of each name that no record stands for; the zero Digest: another
	// one than is held now, so that the next look at the name tells something.
	sent map[string]xds.Digest
	look bool // a set was left: all of sent is to be looked at
}

// join subscribes to a set; again if it is subscribed already (DELTA-2).
func (s *Sub) join(t *set) {
	if p := s.position(t); p != nil {
		s.demandSet(p)
		return
	}
	p := &position{sub: s, view: t.view(s.ttl), fresh: true}
	p.view.enter(p)
	if s.pos != nil && s.more == nil {
		s.overlap()
	}
	if s.more != nil {
		s.more.by[t] = p
	}
	if at := s.pos; at != nil && t.kind != wild { // `*` stays the first
		p.also, p.prior = at.also, at
		at.also = p
	} else {
		p.also, s.pos = at, p
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

// demandSet makes a set be answered, whatever the client was sent of it.
func (s *Sub) demandSet(p *position) {
	p.resend, p.collectionError = true, nil
	p.errorsSent, p.errorsSentBefore = 0, 0 // its error follows each body anew
	s.mark(s.shard.rev)
}

// overlap notes what the one set has told so far.
func (s *Sub) overlap() {
	p := s.pos
	s.more = &overlap{by: map[*set]*position{p.view.set: p}, sent: map[string]xds.Digest{}}
	if !p.fresh {
		for name, it := range p.view.items {
			switch {
			case s.record(name) != nil || !p.view.hadAt(it, p.sent):
			case it.rev <= p.sent:
				s.more.sent[name] = it.variant.Digest
			default:
				s.more.sent[name] = xds.Digest{}
			}
		}
	}
	for name := range s.again { // owed whatever it is, of a set that has told nothing too (DELTA-9)
		if s.record(name) == nil {
			s.more.sent[name] = xds.Digest{}
		}
	}
}

// position is where the client stands in a set; nil: it is not subscribed to it.
func (s *Sub) position(t *set) *position {
	switch {
	case s.more != nil:
		return s.more.by[t]
	case s.pos != nil && s.pos.view.set == t:
		return s.pos
	}
	return nil
}

// star is where the client stands in `*`; nil: it is not subscribed to it.
func (s *Sub) star() *position {
	if s.pos != nil && s.pos.view.set.kind == wild {
		return s.pos
	}
	return nil
}

// unlink takes a position out of the client's, but not out of its view.
func (s *Sub) unlink(p *position) {
	if p.prior != nil {
		p.prior.also = p.also
	} else {
		s.pos = p.also
	}
	if p.also != nil {
		p.also.prior = p.prior
	}
	p.also, p.prior = nil, nil
	if s.more != nil {
		delete(s.more.by, p.view.set)
	}
	if s.pos == nil {
		s.more, s.again = nil, nil
	}
}

// leave ends the subscription to a set, of a client that stays: what it has by it and keeps
// by name may have to stand in there.
func (s *Sub) leave(p *position, now time.Time) {
	if p == nil {
		return
	}
	for r := range s.records.all() {
		if it := p.view.items[s.alias.resource(r)]; it != nil && r.is(holds) && !r.is(claimed) {
			s.shard.standIn(r.entry, p.view.set, it, now)
		}
	}
	s.leaveSet(p, now)
}

// outlives: an absence of a name stated before the set's last word is none, once its stream
// is gone.
func (s *shard) outlives(it *item, e *entry) bool {
	return !it.dead && it.rev > e.rev && !s.absent(e)
}

// leaveSet ends the subscription to a set. What the client has by it and still selects in another
// way is looked at: it may be another body there, or none (DELTA-9). What it selects no more it
// drops itself (DELTA-4).
func (s *Sub) leaveSet(p *position, now time.Time) {
	s.keepByAlias(p)
	for r := range s.records.all() {
		if it, e := p.view.items[s.alias.resource(r)], r.entry; it != nil && s.shard.outlives(it, e) {
			e.onOutlived()
		}
	}
	if p.fresh && s.alias.claims != nil { // the client may hold what aliases stand for
		s.alias.deferRest(s)
	}
	t := p.view.set
	s.unlink(p)
	p.view.leave(p)
	// What came with the set is held by name from now on: no list may leave it out before it is
	// known (RELAY-7), and what was told of a name may not be what its own entry says (RELAY-25).
	s.holds = s.holds || !s.delta && s.sentWhole
	for r := range s.records.all() {
		s.markDirty(r, s.shard.rev)
	}
	if s.asList && t.kind != wild && !p.fresh && !s.delta {
		s.removalDue = true // the client of `*` at another origin may keep its members until it is told otherwise
		if s.pos != nil {
			s.pos.resend = true
		}
		s.mark(s.shard.rev)
	}
	for name := range s.initial {
		if !s.covered(name) && s.record(name) == nil {
			delete(s.initial, name) // the client drops what it says it holds of it, too
		}
	}
	if s.more != nil {
		for name := range s.more.sent {
			if !s.covered(name) {
				delete(s.more.sent, name)
			} else if it, _ := s.itemOf(name); it == nil {
				// it goes, and is sent anew should the client come back for it first
				s.more.sent[name] = xds.Digest{}
			}
		}
		s.more.look = true
		s.mark(s.shard.rev)
	}
	t.dropClient(now)
}

// answerAgain owes an answer for a name that a set covers.
func (s *Sub) answerAgain(name, spelt string) {
	if s.again == nil {
		s.again = map[string]string{}
	}
	same := spelt == name
	if name = strings.Clone(name); same { // they may be parts of a whole request
		spelt = name
	} else {
		spelt = strings.Clone(spelt)
	}
	s.again[name] = spelt
	if s.more != nil {
		s.more.sent[name] = xds.Digest{}
	}
}

// covering calls f with the client's positions in the sets that may have a resource of that
// name.
func (s *Sub) covering(name string, f func(*position)) {
	switch {
	case s.pos == nil:
	case s.more == nil:
		if s.pos.view.set.includes(name) {
			f(s.pos)
		}
	default:
		if p := s.star(); p != nil {
			f(p)
		}
		s.shard.covering(name, func(t *set) {
			if p := s.more.by[t]; p != nil {
				f(p)
			}
		})
	}
}

func (s *Sub) covered(name string) (covered bool) {
	s.covering(name, func(*position) { covered = true })
	return covered
}

// itemOf is what the client's sets hold of a name, the body received last if they hold
// several (RELAY-25); nil: none does. A set that is not told yet counts for nothing, and waits says
// that there is one.
func (s *Sub) itemOf(name string) (live *item, waits bool) {
	s.covering(name, func(p *position) {
		it := p.view.items[name]
		switch {
		case p.blocked():
			waits = true
		case it == nil || it.dead:
		case live == nil, live.variant.Digest != it.variant.Digest && it.rev > live.rev,
			live.variant.Digest == it.variant.Digest && it.variant.outlasts(live.variant):
			live = it
		}
	})
	return live, waits
}

// takeOverlap is takeView for a client of several sets.
func (s *Sub) takeOverlap() (own *Body, must bool, rev uint64) {
	own = &Body{}
	x := overlapTake{sub: s, own: own, seen: map[string]bool{}}
	for p := s.pos; p != nil; p = p.also {
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
	x.again()    // before others find these names, who do not know how the client wrote them
	if x.fresh { // it may be what names waited for
		x.all(s.initial)
	}
	if x.fresh || s.more.look {
		s.more.look = false
		x.all(s.more.sent)
	}
	if !x.waits {
		s.initial, s.stated, s.holds = nil, nil, false
	}
	return own, must, max(rev, x.rev)
}

// overlapTake is one take of a client of several sets.
type overlapTake struct {
	sub          *Sub
	own          *Body
	seen         map[string]bool // true: something is told of it
	rev          uint64
	fresh, waits bool
}

func (x *overlapTake) all(names map[string]xds.Digest) {
	for name := range names {
		x.name(name, x.sub.stated[name])
	}
}

// again answers unsubscribes of names that sets still cover (DELTA-9): the resource, a removal, and
// what is said instead of it.
func (x *overlapTake) again() {
	s := x.sub
	for name, spelt := range s.again {
		if it, waits := s.itemOf(name); it == nil && !waits && s.spared(name) {
			delete(s.more.sent, name) // it keeps what it holds (ABS-8)
		}
		if x.name(name, spelt) {
			s.covering(name, func(p *position) { p.errorAgain(name) })
			delete(s.again, name)
		}
	}
}

// collect looks at what one set has to tell.
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
			if _, told := s.more.sent[v.Name]; told {
				s.more.sent[v.Name] = xds.Digest{}
			}
		}
	default:
		body = s.renewed(p, v.since(p.sent))
		// the same with another TTL, which has to go in full (TTL-8, TTL-10)
		for _, b := range body.Variants {
			if _, told := s.more.sent[b.Name]; told && v.items[b.Name].rev <= p.sent {
				s.more.sent[b.Name] = xds.Digest{}
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

// heartbeat tells of the new TTL of a body that the client has.
func (x *overlapTake) heartbeat(v *Variant) {
	s := x.sub
	it, _ := s.itemOf(v.Name)
	if x.name(v.Name, ""); it == nil || it.variant != v || s.more.sent[v.Name] != v.Digest {
		return // a record tells of it, or another set's body does, which lasts longer
	}
	if said, seen := x.seen[v.Name]; seen && !said {
		x.own.Heartbeats = append(x.own.Heartbeats, v)
		x.seen[v.Name] = true
	}
}

// name brings one name up to date. It reports whether it is, or waits for another set.
func (x *overlapTake) name(name, spelt string) bool {
	s := x.sub
	if _, seen := x.seen[name]; seen {
		return true
	}
	if s.lookAt(name) {
		return true
	}
	it, waits := s.itemOf(name)
	last, told := s.more.sent[name]
	claim, claimed := s.initial[name]
	if it == nil && waits {
		return false // it may be there
	}
	x.seen[name] = false
	delete(s.initial, name)
	switch {
	case it != nil && (told && last == it.variant.Digest || claimed && !told && it.variant.stated(claim)):
		s.more.sent[name] = it.variant.Digest
		if !told && s.ttl && it.variant.timed() { // it may have missed some while it was away
			x.own.Heartbeats = append(x.own.Heartbeats, it.variant)
			x.seen[name] = true
		}
	case it != nil:
		x.own.Variants = append(x.own.Variants, it.variant)
		x.seen[name] = true
		x.rev = max(x.rev, it.rev)
		s.more.sent[name] = it.variant.Digest
	case !told && (!claimed || !s.covered(name) || s.spared(name)):
	case !told && s.alias.undecided > 0: // it may be what an alias stands for
		s.alias.deferred = append(s.alias.deferred, heldName{name: name, spelt: spelt})
	default:
		x.seen[name] = true
		x.own.remove(name, spelt)
		delete(s.more.sent, name)
	}
	return true
}

// empty says of a collection that is told whole and has nothing in it that it is empty
// (COLL-3). What is in error may exist.
func (p *position) empty(b *Body) {
	if t := p.view.set; t.kind != wild && p.view.live == 0 && len(t.nameErrors.byName) == 0 && (p.fresh || p.resend) && t.live() {
		b.remove(t.selector, t.spelt)
	}
}
