package relay

import (
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// join subscribes to a set. A set that is subscribed already is answered again (DELTA-2).
func (s *Sub) join(t *set) {
	if p := s.sets.of(t); p != nil {
		p.demand()
		return
	}
	p := &position{sub: s, view: t.view(s.ttl, s.permit), fresh: true}
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

// Meets reports whether the client may have any of the names that `*`, a glob or a namespace stands
// for, which is asked of an origin.
func (p *Permit) Meets(o *Origin, selector string) bool {
	k := namespace
	switch {
	case selector == xds.Wildcard:
		k = wild
	case xds.IsNewStyle(selector):
		k = glob
	}
	return p.meets(xds.NameKey(selector), k, o.config().RecursiveGlobs)
}

// meets reports whether the client may have any of the names that a selector stands for. deep:
// globs reach to any depth.
func (p *Permit) meets(selector string, k selectorKind, deep bool) bool {
	switch {
	case p == nil:
		return true
	case k == glob:
		before, after := xds.GlobOf(selector).Ends()
		return p.some(before, after, deep)
	case k == namespace:
		return p.has(selector) || p.some(selector+"/", "", false)
	}
	return p.some("", "", true)
}

// demand makes a set owed, whatever the client was sent of it before.
func (p *position) demand() {
	s := p.sub
	p.resend, p.collectionError = true, nil
	p.errorsSent, p.errorsSentBefore = 0, 0 // each error follows its body again
	s.mark(s.shard.rev)
}

// overlap starts the client's overlap with what its one set has sent so far.
func (s *Sub) overlap() {
	p := s.sets.first
	sent := map[string]xds.Digest{}
	for it := range p.view.all() {
		name := it.variant.Name
		if d, told := s.sets.sent(name); told && s.record(name) == nil {
			sent[name] = d
		}
	}
	for name := range s.sets.again { // owed in any case, also by a set that has sent nothing (DELTA-9)
		if s.record(name) == nil {
			sent[name] = xds.Digest{}
		}
	}
	s.sets.more = &overlap{by: map[*set]*position{p.view.set: p}, sent: sent}
}

// leave ends the subscription to a set, of a client that stays. A resource that the client has by
// the set, and is still subscribed to by name, may have to stand in for the name's own entry.
func (p *position) leave(now time.Time) {
	if p == nil {
		return
	}
	s := p.sub
	for r := range s.records.all() {
		if it := p.view.item(s.alias.resource(r)); it != nil && r.is(holds) && !r.is(claimed) {
			s.shard.named.standIn(r.entry, p.view.set, it, now)
		}
	}
	p.end(now)
}

// outlives reports whether the set's body supersedes an older "not found" of the entry. It does if
// the body is newer and the stream that stated the absence has closed.
func (s *shard) outlives(it *item, e *entry) bool {
	return !it.dead && it.rev > e.rev && !s.named.absent(e)
}

// end ends the subscription to a set. What the client has by the set, and still selects in
// another way, is looked at again: the body there may be another one, or none (DELTA-9). What the
// client selects no longer it drops by itself (DELTA-4).
func (p *position) end(now time.Time) {
	s := p.sub
	p.keepByAlias()
	for r := range s.records.all() {
		if it, e := p.view.item(s.alias.resource(r)), r.entry; it != nil && s.shard.outlives(it, e) {
			e.onOutlived()
			s.shard.named.revise(e)
		}
	}
	t := p.view.set
	s.sets.unlink(p)
	if p.fresh && s.alias.claims.versions != nil { // the client may hold what aliases stand for
		s.alias.deferRest(s)
	}
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
	for name := range s.claims.versions {
		if !s.sets.covered(name) && s.record(name) == nil {
			delete(s.claims.versions, name) // the client drops what it said it holds, too
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
