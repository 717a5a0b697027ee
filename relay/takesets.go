package relay

import (
	"maps"
	"slices"
)

// takeSets takes what the subscribed sets have for the client, without the names that have a
// record. must: the answer is sent even if it is empty (DELTA-13). A client of one set of which
// nothing else is to be known gets the body that it shares with others. For any other client the
// names that the sets speak of are looked at one by one.
func (s *Sub) takeSets() (b *Body, must bool, rev uint64) {
	one := s.sets.more == nil
	x := setsTake{sub: s}
	shared := one && s.records.len()+len(s.claims.versions)+len(s.sets.again) == 0
	for p := s.sets.first; p != nil; p = p.also {
		if p.blocked() || one && p.defersRemoval() {
			x.waits = true
			continue
		}
		if !p.fresh && !p.resend && p.view.contentRev <= p.sent {
			continue
		}
		must = must || p.fresh || p.resend
		rev = max(rev, p.view.contentRev)
		if x.fresh = x.fresh || p.fresh; p.fresh && one {
			p.shownEarly = !p.view.set.settled
			p.view.set.shownEarly = p.view.set.shownEarly || p.shownEarly
		}
		if shared {
			b = p.view.unjoined(p.sharedNews())
			p.passed()
			continue
		}
		x.collect(p)
	}
	if !shared {
		x.rest()
		b = x.own
	}
	if !x.waits && (x.fresh || !one) {
		s.claims, s.holds = claims{}, false
	}
	return b, must, max(rev, x.rev)
}

// passed records that the client is sent all there is of the set.
func (p *position) passed() {
	p.resend = false
	p.view.passed(p, p.view.contentRev)
}

// news is what the set has for the client, as far as the position tells.
func (p *position) news() *Body {
	v := p.view
	switch {
	case p.fresh:
		return v.fullBody(p.sub.delta).named()
	case p.resend:
		full, recent := v.fullBody(p.sub.delta), v.since(p.sent)
		all := &Body{
			Variants: full.Variants, Removed: recent.Removed, spelt: recent.spelt, nameless: full.nameless || recent.nameless, of: full,
		}
		return all.named()
	}
	return p.renewed(v.since(p.sent)).named()
}

// sharedNews is news for a client to whom the set is all there is.
func (p *position) sharedNews() *Body {
	b := p.news()
	if t := p.view.set; t.kind != wild && p.view.live == 0 && (p.fresh || p.resend) {
		// the present body may be shared
		b = &Body{Variants: b.Variants, Removed: slices.Clone(b.Removed), spelt: maps.Clone(b.spelt)}
		p.empty(b)
	}
	return b
}

// empty adds the statement that a collection is empty, if all of it is sent and it has no members
// (COLL-3). A collection with members in error may not be empty.
func (p *position) empty(b *Body) {
	t := p.view.set
	if t.kind == wild || p.view.live > 0 || !p.fresh && !p.resend || !p.view.emptyNow() {
		return
	}
	if !p.inErrors(func(string, *nameErrorState) bool { return true }) {
		b.remove(t.selector, t.spelt)
	}
}

// setsTake is one Take of a client for which the names that its sets speak of are looked at one by
// one: it is subscribed to several sets, or to names besides, says that it holds something, or is
// owed members by name.
type setsTake struct {
	sub   *Sub
	own   *Body // nil: nothing was looked at
	rev   uint64
	taken []*position // of what was collected
	// seen are names that were looked at; nil: no name is looked at twice. true: the answer has
	// something of the name.
	seen         map[string]bool
	fresh, waits bool
}

// found is what came of the look at a name.
type found uint8

const (
	waiting  found = iota // another set may have it
	byRecord              // a record sends it
	current               // the client has it, or there is nothing to be had
	said                  // the answer has something of it
)

func (x *setsTake) begin() {
	if x.own != nil {
		return
	}
	x.own = &Body{}
	if s := x.sub; s.sets.more != nil || len(s.sets.again) > 0 {
		x.seen = map[string]bool{}
	}
}

// collect looks at what one set has for the client.
func (x *setsTake) collect(p *position) {
	x.begin()
	x.taken = append(x.taken, p)
	body := p.news()
	p.empty(x.own)
	for _, v := range body.Variants {
		x.renewed(p, v.Name)
		// Unchanged content is sent in full if the set was subscribed again (DELTA-2), if it lost
		// its TTL (TTL-8), or if the client has not accepted it and so may be sent no heartbeat
		// (TTL-10).
		x.look(v.Name, "", p.resend || !p.fresh && p.view.item(v.Name).rev <= p.sent)
	}
	for _, name := range body.Removed {
		x.look(name, body.spelt[name], false)
	}
	for _, v := range body.Heartbeats {
		x.renewed(p, v.Name)
		it := x.sub.sets.live(v.Name)
		// Otherwise a record sends it, or another set has a body that lasts longer.
		if x.look(v.Name, "", false) == current && it != nil && it.variant == v {
			x.own.Heartbeats = append(x.own.Heartbeats, v)
			x.note(v.Name, true)
		}
	}
}

// renewed notes that the set's body, with which names are answered, has a new TTL.
func (x *setsTake) renewed(p *position, name string) {
	s := x.sub
	if !s.ttl || p.fresh {
		return
	}
	if r := s.record(name); r != nil {
		r.renewedInSet(p)
	}
	for _, r := range s.alias.by[name] {
		r.renewedInSet(p)
	}
}

// rest looks at the names that no set has news of.
func (x *setsTake) rest() {
	s := x.sub
	x.again()    // first, since only here the client's spelling of these names is known
	if x.fresh { // names may have waited for the set
		for name := range s.claims.versions {
			x.begin()
			x.look(name, s.claims.spelt[name], false)
		}
	}
	if more := s.sets.more; more != nil && (x.fresh || more.look) {
		more.look = false
		x.begin()
		for name := range more.sent {
			x.look(name, s.claims.spelt[name], false)
		}
	}
	for _, p := range x.taken { // last, since a position says what the client was sent
		p.resend = false
		p.view.advance(p, p.view.contentRev)
	}
}

// again answers unsubscribes of names that sets still cover (DELTA-9), with the resource or a
// removal. A set's error of the name is sent again, too.
func (x *setsTake) again() {
	s := x.sub
	for name, spelt := range s.sets.again {
		x.begin()
		it, waits := s.sets.itemOf(name)
		if it == nil && !waits && s.record(name) == nil && s.sets.spared(name) {
			s.sets.dropped(name) // the client keeps what it holds (ABS-8)
			delete(s.sets.again, name)
		}
		if x.look(name, spelt, false) != waiting {
			s.sets.covering(name, func(p *position) { p.errorAgain(name) })
			delete(s.sets.again, name)
		}
	}
	if len(s.sets.again) == 0 {
		s.sets.again = nil
	}
}

// lookAt marks the records of a resource as dirty, and reports whether there are any.
func (s *Sub) lookAt(name string) bool {
	r, also := s.record(name), s.alias.by[name]
	if r != nil {
		r.lookAgain()
	}
	for _, r := range also {
		r.lookAgain()
	}
	return r != nil || len(also) > 0
}

// note records that a name was looked at.
func (x *setsTake) note(name string, said bool) {
	if x.seen != nil {
		x.seen[name] = said
	}
}

// look brings one name up to date in the answer. anew: it is sent although the client has it. So is
// what is owed by name.
func (x *setsTake) look(name, spelt string, anew bool) found {
	s := x.sub
	_, owed := s.sets.again[name]
	anew = anew || owed
	switch has, seen := x.seen[name]; {
	case seen && has:
		return said
	case seen && !anew:
		return current
	case s.lookAt(name):
		return byRecord
	}
	it, waits := s.sets.itemOf(name)
	if it == nil && waits {
		return waiting
	}
	last, told := s.sets.sent(name)
	claim, claimed := s.claims.versions[name]
	delete(s.claims.versions, name)
	x.note(name, true)
	switch {
	case it != nil && !anew && (told && last == it.variant.Digest || claimed && !told && it.variant.ClaimedAs(claim)):
		s.sets.setSent(name, it.variant.Digest)
		if !told && s.ttl && it.variant.Timed() { // it may have missed a TTL while it was away
			x.own.Heartbeats = append(x.own.Heartbeats, it.variant)
			return said
		}
	case it != nil:
		x.own.Variants = append(x.own.Variants, it.variant)
		x.rev = max(x.rev, it.rev)
		s.sets.setSent(name, it.variant.Digest)
		return said
	case !told && !owed && (!claimed || !s.sets.covered(name) || s.sets.spared(name)):
	case !told && !owed && s.alias.undecided > 0: // an alias may stand for it
		s.alias.deferred = append(s.alias.deferred, heldName{name: name, spelt: spelt})
	default:
		x.own.remove(name, spelt)
		s.sets.dropped(name)
		return said
	}
	x.note(name, false)
	return current
}
