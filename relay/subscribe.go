package relay

import (
	"strings"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// What a Sub is subscribed to, and how that changes.

// Update applies a delta request: subscribes first, then unsubscribes (DELTA-6). Wildcard stands
// for `*`. Names may be written in any way that means them (NAME-4). What is denied for want of
// room is as if it had not been asked for.
func (s *Sub) Update(now time.Time, subscribe, unsubscribe []string) []Denied {
	s.shard.mu.Lock()
	defer s.shard.unlock()
	s.shard.now = now
	list := longList{sub: s, now: now}
	for _, name := range subscribe {
		list.next()
		if name == xds.Wildcard {
			s.joinStar()
			continue
		}
		key, spelt := xds.Spell(name)
		s.subscribe(key, spelt, s.shard.named.entries[key])
	}
	for _, name := range unsubscribe {
		list.next()
		if name == xds.Wildcard {
			s.leave(s.star(), now)
			continue
		}
		s.unsubscribe(name, now)
	}
	s.firstDone()
	return list.done()
}

// Namespaces declares names of route configurations: from now on Update takes them for those of all
// their virtual hosts, as it does every name without a slash (ALIAS-6).
func (s *Sub) Namespaces(names []string) {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	for _, name := range names {
		if s.spaces == nil {
			s.spaces = map[string]bool{}
		}
		s.spaces[strings.Clone(xds.NameKey(name))] = true
	}
}

// Subscribed reports whether the client names exactly this resource.
func (s *Sub) Subscribed(name string) bool {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	return s.record(xds.NameKey(name)) != nil
}

// Went reports whether the client names exactly this resource, and had what it was last told, or is
// to be told, is gone.
func (s *Sub) Went(name string) bool {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	r := s.record(xds.NameKey(name))
	return r != nil && r.is(hadRemoved)
}

// Unsend takes an answer back that was taken and thrown away: everything that the client is
// subscribed to is answered again, as if it had subscribed to it again (DELTA-2). What is kept back
// was in no answer, and stays so.
func (s *Sub) Unsend() {
	s.shard.mu.Lock()
	defer s.shard.unlock()
	for r := range s.records.all() {
		if !s.defers(r.entry.name) {
			s.demand(r)
		}
	}
	for p := s.pos; p != nil; p = p.also {
		s.demandSet(p)
	}
}

// Replace applies a SotW request: names are the complete list (SOTW-1), without `*`. What is denied
// for want of room is as if it were not in the list.
func (s *Sub) Replace(now time.Time, names []string, wildcard bool) []Denied {
	s.shard.mu.Lock()
	defer s.shard.unlock()
	s.shard.now = now
	if star := s.star(); wildcard {
		if star == nil {
			s.joinStar()
			if !s.first {
				s.version = "" // it spoke of what the client held before the stream (RELAY-43)
			}
		}
	} else {
		s.leave(star, now)
	}
	var selectors map[string]bool // that are listed
	list := longList{sub: s, now: now}
	for _, name := range names {
		list.next()
		key, spelt := xds.Spell(name)
		e := s.shard.named.entries[key]
		r := s.recordOf(e)
		if r == nil && s.selects(key) == nil {
			r = s.subscribe(key, spelt, e)
		}
		if r != nil {
			r.flags |= listed
		}
		if s.selects(key) != nil {
			if selectors == nil {
				selectors = map[string]bool{}
			}
			selectors[key] = true
		}
	}
	for p := s.pos; p != nil; {
		next := p.also
		if t := p.view.set; t.kind != wild && !selectors[t.selector] {
			s.leave(p, now)
			delete(s.spelt, t.selector)
		}
		p = next
	}
	for r := range s.records.all() {
		list.next()
		if !r.is(listed) {
			s.forget(r, now)
		}
		r.flags &^= listed
	}
	if s.first && s.holds && s.typeURL == xds.ClusterType {
		s.exact = s.holdsExactly()
	}
	s.firstDone()
	return list.done()
}

func (s *Sub) joinStar() {
	if star := s.shard.star; !s.deniedSet(star, xds.Wildcard, "") {
		s.join(star)
	}
}

func (s *Sub) firstDone() {
	if s.first && s.delta {
		s.claimAliases()
	}
	s.first = false
	if s.pos == nil {
		s.initial, s.stated = nil, nil // names have taken theirs over
	}
}

// subscribe subscribes to a name, or to the collection that it stands for, again if it is
// subscribed already (DELTA-2). e is the name's entry, if there is one. It gives the name's record;
// nil: there is none, since it is a collection's or was denied.
func (s *Sub) subscribe(name, spelt string, e *entry) *record {
	if k, ok := s.shard.selectorOf(name, s.spaces); ok {
		if !s.deniedSet(s.shard.collections[name], name, spelt) {
			s.spellAs(name, spelt)
			s.join(s.shard.collection(name, spelt, k))
		}
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
		r = s.recordFor(s.shard.want(e, name, spelt))
		s.lookedUp(r)
		s.spellAs(name, spelt)
		d, stated := s.initial[name]
		if stated && s.first {
			// Only a version of ours that is current spares the answer (DELTA-11).
			r.sent = d
			r.flags |= holds | claimed
			if s.delta && d != (xds.Digest{}) {
				s.sum.Add(d)
			}
			s.markDirty(r, s.shard.rev)
			return r
		}
		s.covering(name, func(p *position) {
			if !p.fresh && p.view.hadAt(p.view.items[name], p.sent) {
				r.flags |= holds // it came with the set
			}
		})
		if len(s.alias.by[name]) > 0 {
			r.flags |= holds // by an alias
			// which may stand for nothing by now: no list may leave it out before it is known (RELAY-7)
			s.holds = s.holds || !s.delta && s.sentWhole
		}
		if s.more != nil {
			delete(s.more.sent, name) // the record tells it from now on
		}
		if stated || s.holds && !s.delta && (s.first || s.pos != nil && s.pos.fresh) {
			r.flags |= returned
		}
	}
	s.demand(r)
	return r
}

// demand makes a name be answered, whatever the client was sent of it.
func (s *Sub) demand(r *record) {
	r.setLastError(nil) // it may be all there is to answer
	s.owe(r, true)
	r.flags |= demanded
	s.markDirty(r, s.shard.rev)
}

// spellAs notes how the client writes a name.
func (s *Sub) spellAs(name, spelt string) {
	if spelt == "" {
		return
	}
	if s.spelt == nil {
		s.spelt = map[string]string{}
	}
	s.spelt[name] = strings.Clone(spelt)
}

// selects is the client's position in the collection of that name; nil: it is not subscribed
// to it.
func (s *Sub) selects(name string) *position {
	if s.pos == nil || len(s.shard.collections) == 0 {
		return nil
	}
	if t := s.shard.collections[name]; t != nil {
		return s.position(t)
	}
	return nil
}

func (s *Sub) unsubscribe(name string, now time.Time) {
	name, spelt := xds.Spell(name)
	if p := s.selects(name); p != nil {
		s.leave(p, now)
		delete(s.spelt, name)
		return
	}
	r := s.record(name)
	told := heldName{name: name, spelt: xds.Spelling(name, spelt)}
	if r != nil && s.alias.of[r].name != "" {
		told = s.alias.of[r] // of an alias: the resource, if a set has it
	}
	named := r != nil || len(s.alias.by[name]) > 0
	s.covering(told.name, func(p *position) {
		if named || p.view.has(told.name) && s.mayHold(told.name) { // DELTA-9, WILD-9
			s.answerAgain(told.name, told.spelt)
			s.mark(s.shard.rev)
		}
	})
	if !s.covered(name) {
		delete(s.initial, name) // the client drops what it says it holds of it (DELTA-4)
	}
	if r != nil {
		switch v := s.body(r); {
		case !s.delta || !r.is(holds):
		case v != nil && v.Digest == r.sent:
			s.keepAs(v, r.sent)
		default:
			s.mayKeep(told)
		}
		s.forget(r, now)
		// it has the resource by an alias still
		if also := s.alias.by[name]; s.pos != nil && len(also) > 0 {
			s.owe(also[0], true)
			s.markDirty(also[0], s.shard.rev)
		}
		return
	}
	for _, r := range s.knownAs(name) {
		s.forget(r, now)
	}
}

// mayHold reports whether the client may hold a resource that it does not name: it was sent
// it with a set, or says that it holds it. What it was not sent yet comes with the set, if it does
// not go before.
func (s *Sub) mayHold(name string) bool {
	if _, stated := s.initial[name]; stated {
		return true
	}
	if s.more != nil {
		_, told := s.more.sent[name]
		return told
	}
	return s.pos != nil && !s.pos.fresh && s.pos.view.hadAt(s.pos.view.items[name], s.pos.sent)
}

// forgotten looks at what the end of a name means for the rest of a SotW list that is sent
// whole: it may have been what the list waited for, or have stood in the place of the set's own
// body.
func (s *Sub) forgotten(r *record) {
	if s.delta {
		return
	}
	if s.pos == nil && s.asList && r.is(holds) {
		s.removalDue = true // the client of `*` at another origin may keep it until it is told otherwise
	}
	if s.holds || s.removalDue {
		s.mark(s.shard.rev)
	}
	name := s.alias.resource(r)
	s.covering(name, func(p *position) {
		it := p.view.items[name]
		there := it != nil && !it.dead
		if p.fresh || !r.is(holds) || there && it.variant.Digest == r.sent {
			return
		}
		p.resend = true
		if there && s.typeURL == xds.ClusterType {
			s.answerAgain(name, name) // to the client it changes (WARM-1)
		}
		s.mark(s.shard.rev)
	})
}

func (s *Sub) forget(r *record, now time.Time) {
	s.owe(r, false)
	s.forgotten(r)
	if r.sent != (xds.Digest{}) {
		s.sum.Sub(r.sent)
	}
	s.alias.set(r, r.entry.name, "")
	if s.notEarly(r); s.alias.undecided == 0 && len(s.alias.deferred) > 0 {
		s.mark(s.shard.rev)
	}
	s.standsIn(r, false)
	s.records.remove(r)
	delete(s.spelt, r.entry.name)
	r.flags |= unsubscribed
	s.shard.unlink(r, now)
}

// Close ends the subscription and lets go of every name.
func (s *Sub) Close(now time.Time) {
	sh := s.shard
	sh.mu.Lock()
	for s.pos != nil {
		s.leaveSet(s.pos, now)
	}
	list := longList{sub: s, now: now}
	for r := range s.records.all() {
		list.next()
		s.forget(r, now)
	}
	s.dirty = nil
	sh.subs--
	dead := sh.dropIfEmpty()
	sh.unlock()
	if dead {
		sh.group.dropShard(sh)
	}
	sh.group.paramSets.leave(sh.params)
}
