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
		list.nextLocked()
		if name == xds.Wildcard {
			s.joinStarLocked()
			continue
		}
		key, spelt := xds.Spell(name)
		s.subscribeLocked(key, spelt, s.shard.named.entries[key])
	}
	for _, name := range unsubscribe {
		list.nextLocked()
		if name == xds.Wildcard {
			s.leaveLocked(s.starLocked(), now)
			continue
		}
		s.unsubscribeLocked(name, now)
	}
	s.firstDoneLocked()
	return list.doneLocked()
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
	return s.recordLocked(xds.NameKey(name)) != nil
}

// Went reports whether the client names exactly this resource, and had what it was last told, or is
// to be told, is gone.
func (s *Sub) Went(name string) bool {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	r := s.recordLocked(xds.NameKey(name))
	return r != nil && r.is(went)
}

// Replace applies a SotW request: names are the complete list (SOTW-1), without `*`. What is denied
// for want of room is as if it were not in the list.
func (s *Sub) Replace(now time.Time, names []string, wildcard bool) []Denied {
	s.shard.mu.Lock()
	defer s.shard.unlock()
	s.shard.now = now
	if star := s.starLocked(); wildcard {
		if star == nil {
			s.joinStarLocked()
			if !s.first {
				s.version = "" // it spoke of what the client held before the stream (RELAY-43)
			}
		}
	} else {
		s.leaveLocked(star, now)
	}
	var selectors map[string]bool // that are listed
	list := longList{sub: s, now: now}
	for _, name := range names {
		list.nextLocked()
		key, spelt := xds.Spell(name)
		e := s.shard.named.entries[key]
		r := s.recordOfLocked(e)
		if r == nil && s.selectsLocked(key) == nil {
			r = s.subscribeLocked(key, spelt, e)
		}
		if r != nil {
			r.flags |= listed
		}
		if s.selectsLocked(key) != nil {
			if selectors == nil {
				selectors = map[string]bool{}
			}
			selectors[key] = true
		}
	}
	for p := s.pos; p != nil; {
		next := p.also
		if t := p.view.set; t.kind != wild && !selectors[t.selector] {
			s.leaveLocked(p, now)
			delete(s.spelt, t.selector)
		}
		p = next
	}
	for r := range s.records.all() {
		list.nextLocked()
		if !r.is(listed) {
			s.forgetLocked(r, now)
		}
		r.flags &^= listed
	}
	if s.first && s.holds && s.typeURL == xds.ClusterType {
		s.exact = s.exactLocked()
	}
	s.firstDoneLocked()
	return list.doneLocked()
}

func (s *Sub) joinStarLocked() {
	if star := s.shard.star; !s.deniedSetLocked(star, xds.Wildcard, "") {
		s.joinLocked(star)
	}
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

// subscribeLocked subscribes to a name, or to the collection that it stands for, again if it is
// subscribed already (DELTA-2). e is the name's entry, if there is one. It gives the name's record;
// nil: there is none, since it is a collection's or was denied.
func (s *Sub) subscribeLocked(name, spelt string, e *entry) *record {
	if k, ok := s.shard.selectorOf(name, s.spaces); ok {
		if !s.deniedSetLocked(s.shard.collections[name], name, spelt) {
			s.spellAsLocked(name, spelt)
			s.joinLocked(s.shard.collectionLocked(name, spelt, k))
		}
		return nil
	}
	r := s.recordOfLocked(e)
	if r == nil {
		if s.deniedLocked(e, name, spelt) {
			return nil
		}
		if e == nil {
			s.owner.newNames.Add(1)
		}
		r = s.recordForLocked(s.shard.wantLocked(e, name, spelt))
		s.lookedUpLocked(r)
		s.spellAsLocked(name, spelt)
		d, stated := s.initial[name]
		if stated && s.first {
			// Only a version of ours that is current spares the answer (DELTA-11).
			r.sent = d
			r.flags |= holds | claimed
			if s.delta && d != (xds.Digest{}) {
				s.sum.Add(d)
			}
			s.dirtyLocked(r, s.shard.rev)
			return r
		}
		s.coveringLocked(name, func(p *position) {
			if !p.fresh && p.view.hadAt(p.view.items[name], p.sent) {
				r.flags |= holds // it came with the set
			}
		})
		if len(s.alias.by[name]) > 0 {
			r.flags |= holds // by an alias
		}
		if s.more != nil {
			delete(s.more.told, name) // the record tells it from now on
		}
		if stated || s.holds && !s.delta && (s.first || s.pos != nil && s.pos.fresh) {
			r.flags |= returned
		}
	}
	r.setFault(nil) // it may be all there is to answer
	s.oweLocked(r, true)
	r.flags |= demanded
	s.dirtyLocked(r, s.shard.rev)
	return r
}

// spellAsLocked notes how the client writes a name.
func (s *Sub) spellAsLocked(name, spelt string) {
	if spelt == "" {
		return
	}
	if s.spelt == nil {
		s.spelt = map[string]string{}
	}
	s.spelt[name] = strings.Clone(spelt)
}

// selectsLocked is the client's position in the collection of that name; nil: it is not subscribed
// to it.
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
	name, spelt := xds.Spell(name)
	if p := s.selectsLocked(name); p != nil {
		s.leaveLocked(p, now)
		delete(s.spelt, name)
		return
	}
	r := s.recordLocked(name)
	told := heldName{name: name, spelt: xds.Spelling(name, spelt)}
	if r != nil && s.alias.of[r].name != "" {
		told = s.alias.of[r] // of an alias: the resource, if a set has it
	}
	named := r != nil || len(s.alias.by[name]) > 0
	s.coveringLocked(told.name, func(p *position) {
		if named || p.view.has(told.name) && s.mayHoldLocked(told.name) { // DELTA-9, WILD-9
			s.againLocked(told.name, told.spelt)
			s.markLocked(s.shard.rev)
		}
	})
	if !s.coveredLocked(name) {
		delete(s.initial, name) // the client drops what it says it holds of it (DELTA-4)
	}
	if r != nil {
		switch v := s.bodyLocked(r); {
		case !s.delta || !r.is(holds):
		case v != nil && v.Digest == r.sent:
			s.keepAsLocked(v, r.sent)
		default:
			s.mayKeepLocked(told)
		}
		s.forgetLocked(r, now)
		// it has the resource by an alias still
		if also := s.alias.by[name]; s.pos != nil && len(also) > 0 {
			s.oweLocked(also[0], true)
			s.dirtyLocked(also[0], s.shard.rev)
		}
		return
	}
	for _, r := range s.knownAsLocked(name) {
		s.forgetLocked(r, now)
	}
}

// mayHoldLocked reports whether the client may hold a resource that it does not name: it was sent
// it with a set, or says that it holds it. What it was not sent yet comes with the set, if it does
// not go before.
func (s *Sub) mayHoldLocked(name string) bool {
	if _, stated := s.initial[name]; stated {
		return true
	}
	if s.more != nil {
		_, told := s.more.told[name]
		return told
	}
	return s.pos != nil && !s.pos.fresh && s.pos.view.hadAt(s.pos.view.items[name], s.pos.sent)
}

// forgottenLocked looks at what the end of a name means for the rest of a SotW list that is sent
// whole: it may have been what the list waited for, or have stood in the place of the set's own
// body.
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
	if r.sent != (xds.Digest{}) {
		s.sum.Sub(r.sent)
	}
	s.alias.set(r, r.entry.name, "")
	if s.notEarlyLocked(r); s.alias.early == 0 && len(s.alias.later) > 0 {
		s.markLocked(s.shard.rev)
	}
	s.standsInLocked(r, false)
	s.records.remove(r)
	delete(s.spelt, r.entry.name)
	r.flags |= gone
	s.shard.unlinkLocked(r, now)
}

// Close ends the subscription and lets go of every name.
func (s *Sub) Close(now time.Time) {
	sh := s.shard
	sh.mu.Lock()
	for s.pos != nil {
		s.partLocked(s.pos, now)
	}
	list := longList{sub: s, now: now}
	for r := range s.records.all() {
		list.nextLocked()
		s.forgetLocked(r, now)
	}
	s.dirty = nil
	sh.subs--
	dead := sh.dropIfEmptyLocked()
	sh.unlock()
	if dead {
		sh.group.dropShard(sh)
	}
	sh.group.paramSets.leave(sh.params)
}
