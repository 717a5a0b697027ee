package relay

import (
	"strings"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// subscribe subscribes to a name, or to the collection that the name stands for. A name that is
// subscribed already is answered again (DELTA-2). e is the name's entry; nil: it has none. The
// result is the name's record; nil if the name stands for a collection or is denied.
func (s *Sub) subscribe(name, spelt string, e *entry) *record {
	if k, ok := s.shard.selectorOf(name, s.spaces); ok {
		s.joinCollection(name, spelt, k)
		return nil
	}
	if !s.permit.Allows(name) {
		return nil
	}
	r := s.recordOf(e)
	if r == nil {
		if s.denied(e, name, spelt) {
			return nil
		}
		if e == nil {
			s.owner.newNames.Add(1)
		}
		r = s.recordFor(s.shard.named.want(e, name, spelt))
		r.sub.shard.named.lookedUp(r.entry, func() bool { return r.retired() != nil })
		s.spellAs(name, spelt)
		d, stated := s.claims.versions[name]
		if stated && s.first {
			// The answer is skipped only if the client states our current version (DELTA-11).
			r.setSent(d)
			r.flags |= holds | claimed
			r.markDirty(s.shard.rev)
			return r
		}
		s.sets.covering(name, func(p *position) {
			if !p.fresh && p.view.hadAt(p.view.item(name), p.sent) {
				r.flags |= holds // it was sent with the set
			}
		})
		if len(s.alias.by[name]) > 0 {
			r.flags |= holds // by an alias
			// which may stand for nothing by now: no list may leave it out before it is known
			// (RELAY-7)
			s.holds = s.holds || !s.delta && s.sentWhole
		}
		s.sets.dropped(name) // from now on the record has what was sent
		if stated || s.holds && !s.delta && (s.first || s.sets.first != nil && s.sets.first.fresh) {
			r.flags |= returned
		}
	}
	r.demand()
	return r
}

// joinCollection subscribes to a glob or a namespace.
func (s *Sub) joinCollection(name, spelt string, k selectorKind) {
	c := &s.shard.collections
	known, of := c.byName, c.set
	if !s.permit.meets(name, k, s.shard.group.config().RecursiveGlobs) {
		known, of = c.barred, c.bar
	}
	if !s.deniedSet(known[name], name, spelt) {
		s.spellAs(name, spelt)
		s.join(of(name, spelt, k))
	}
}

// demand makes a name owed, whatever the client was sent of it before.
func (r *record) demand() {
	r.setLastError(nil) // the error may be the only answer there is
	r.flags |= demanded
	r.oweAgain()
}

// spellAs records the client's spelling of a name.
func (s *Sub) spellAs(name, spelt string) {
	if spelt == "" {
		return
	}
	if s.spelt == nil {
		s.spelt = map[string]string{}
	}
	s.spelt[name] = strings.Clone(spelt)
}

func (s *Sub) unsubscribe(name string, now time.Time) {
	name, spelt := xds.Spell(name)
	if p := s.sets.selects(name); p != nil {
		p.leave(now)
		delete(s.spelt, name)
		return
	}
	r := s.record(name)
	told := heldName{name: name, spelt: xds.Spelling(name, spelt)}
	if r != nil && s.alias.of[r].name != "" {
		told = s.alias.of[r] // for an alias: the resource, which a set may have
	}
	named := r != nil || len(s.alias.by[name]) > 0
	s.sets.covering(told.name, func(p *position) {
		if named || p.view.has(told.name) && s.mayHold(told.name) { // DELTA-9, WILD-9
			s.sets.answerAgain(told.name, told.spelt)
			s.mark(s.shard.rev)
		}
	})
	if !s.sets.covered(name) {
		delete(s.claims.versions, name) // the client drops what it said it holds (DELTA-4)
	}
	if r != nil {
		switch v := r.body(); {
		case !s.delta || !r.is(holds):
		case v != nil && v.Digest == r.sent:
			s.keepAs(v, r.sent)
		default:
			s.mayKeep(told)
		}
		r.forget(now)
		// The client still has the resource by an alias.
		if also := s.alias.by[name]; s.sets.first != nil && len(also) > 0 {
			also[0].oweAgain()
		}
		return
	}
	for _, r := range s.knownAs(name) {
		r.forget(now)
	}
}

// mayHold reports whether the client may hold a resource that it does not name: it was sent it with
// a set, or says that it holds it. A member that it was not sent yet does not count. It comes with
// the set, unless it is removed before.
func (s *Sub) mayHold(name string) bool {
	if _, stated := s.claims.versions[name]; stated {
		return true
	}
	_, told := s.sets.sent(name)
	return told
}

// forgotten updates the rest of a SotW list that is sent whole, after a name in it ended. The list
// may have waited for the name, or may have had its body in place of the set's own body.
func (r *record) forgotten() {
	s := r.sub
	if s.delta {
		return
	}
	if s.sets.first == nil && s.asList && (r.is(holds) || s.deferred.has(r.entry.name)) {
		s.removalDue = true // a client of `*` elsewhere may keep it until a list leaves it out
	}
	if s.holds || s.removalDue {
		s.mark(s.shard.rev)
	}
	name := s.alias.resource(r)
	s.sets.covering(name, func(p *position) {
		it := p.view.item(name)
		there := it != nil && !it.dead
		if p.fresh || !r.is(holds) || there && it.variant.Digest == r.sent {
			return
		}
		p.resend = true
		if there && s.typeURL == xds.ClusterType {
			s.sets.answerAgain(name, name) // it gets the set's body, and its endpoints (WARM-1)
		}
		s.mark(s.shard.rev)
	})
}

func (r *record) forget(now time.Time) {
	s := r.sub
	r.owe(false)
	r.forgotten()
	s.noteSent(r.sent, xds.Digest{})
	s.alias.set(r, r.entry.name, "")
	if r.decided(); s.alias.undecided == 0 && len(s.alias.deferred) > 0 {
		s.mark(s.shard.rev)
	}
	r.standsIn(false)
	s.records.remove(r)
	delete(s.spelt, r.entry.name)
	r.flags |= unsubscribed
	s.shard.named.unlink(r, now)
}
