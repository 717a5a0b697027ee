package relay

import (
	"strings"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// This file changes what a Sub is subscribed to.

// Update applies a delta request. Subscribes come before unsubscribes (DELTA-6). What is in both
// lists, and was not subscribed before, is not asked of the origin (WILD-8). The name `*` stands
// for the wildcard. Names may be in any spelling (NAME-4). A name that is denied for lack of memory
// counts as not asked for.
func (s *Sub) Update(now time.Time, subscribe, unsubscribe []string) []Denied {
	s.shard.mu.Lock()
	defer s.shard.unlock()
	s.shard.now = now
	list := longList{sub: s, now: now}
	both := namesInBoth(subscribe, unsubscribe)
	for _, name := range subscribe {
		list.next()
		key, spelt := xds.Spell(name)
		switch {
		case both[key] && !s.sets.covered(key): // DELTA-9 has a covered name answered
		case name == xds.Wildcard:
			s.joinStar()
		default:
			s.subscribe(key, spelt, s.shard.named.entries[key])
		}
	}
	for _, name := range unsubscribe {
		list.next()
		if name == xds.Wildcard {
			s.sets.star().leave(now)
			continue
		}
		s.unsubscribe(name, now)
	}
	s.firstDone()
	return list.done()
}

// namesInBoth are the canonical names that a request subscribes to and unsubscribes from; nil:
// there are none.
func namesInBoth(subscribe, unsubscribe []string) (both map[string]bool) {
	if len(subscribe) == 0 || len(unsubscribe) == 0 {
		return nil
	}
	left := make(map[string]bool, len(unsubscribe))
	for _, name := range unsubscribe {
		left[xds.NameKey(name)] = true
	}
	for _, name := range subscribe {
		if key := xds.NameKey(name); left[key] {
			if both == nil {
				both = map[string]bool{}
			}
			both[key] = true
		}
	}
	return both
}

// Namespaces declares names of route configurations. From now on Update takes them for the
// namespaces of their virtual hosts, as it does every name without a slash (ALIAS-6).
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

// Went reports whether the client names exactly this resource, and held it until the relay sent its
// removal, or is about to.
func (s *Sub) Went(name string) bool {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	r := s.record(xds.NameKey(name))
	return r != nil && r.is(hadRemoved)
}

// Unsend takes back an answer that was taken and then discarded. Everything that the client is
// subscribed to is answered again, as if it had subscribed again (DELTA-2). Deferred removals were
// in no answer, and stay deferred.
func (s *Sub) Unsend() {
	s.shard.mu.Lock()
	defer s.shard.unlock()
	for r := range s.records.all() {
		if !s.deferred.has(r.entry.name) {
			r.demand()
		}
	}
	for p := s.sets.first; p != nil; p = p.also {
		p.demand()
	}
}

// Replace applies a SotW request. The names are the complete list (SOTW-1), without `*`. A name
// that is denied for lack of memory counts as not listed.
func (s *Sub) Replace(now time.Time, names []string, wildcard bool) []Denied {
	s.shard.mu.Lock()
	defer s.shard.unlock()
	s.shard.now = now
	if star := s.sets.star(); wildcard {
		if star == nil {
			s.joinStar()
			if !s.first {
				s.version = "" // it says what the client held before the stream (RELAY-43)
			}
		}
	} else {
		star.leave(now)
	}
	// selectors are the collections in the list.
	var selectors map[string]bool
	list := longList{sub: s, now: now}
	for _, name := range names {
		list.next()
		key, spelt := xds.Spell(name)
		e := s.shard.named.entries[key]
		r := s.recordOf(e)
		if r == nil && s.sets.selects(key) == nil {
			r = s.subscribe(key, spelt, e)
		}
		if r != nil {
			r.flags |= listed
		}
		if s.sets.selects(key) != nil {
			if selectors == nil {
				selectors = map[string]bool{}
			}
			selectors[key] = true
		}
	}
	for p := s.sets.first; p != nil; {
		next := p.also
		if t := p.view.set; t.kind != wild && !selectors[t.selector] {
			p.leave(now)
			delete(s.spelt, t.selector)
		}
		p = next
	}
	for r := range s.records.all() {
		list.next()
		if !r.is(listed) {
			r.forget(now)
		}
		r.flags &^= listed
	}
	if s.first && s.holds && s.typeURL == xds.ClusterType {
		s.exact = s.holdsExactly()
	}
	s.firstDone()
	return list.done()
}

// Denies records for a SotW client whether its list has names that it may not have. They are as if
// they did not exist: a client that comes back with something is sent a list without them, even if
// that has nothing else.
func (s *Sub) Denies(some bool) {
	s.shard.mu.Lock()
	defer s.shard.unlock()
	if some && !s.denies && s.holds && xds.SentWhole(s.typeURL) {
		s.removalDue = true
		s.mark(s.shard.rev)
	}
	s.denies = some
}

func (s *Sub) joinStar() {
	star, c := s.shard.star, &s.shard.collections
	switch may := s.permit.meets(xds.Wildcard, wild, true); {
	case may && !s.deniedSet(star, xds.Wildcard, ""):
		s.join(star)
	case !may && !s.deniedSet(c.barred[xds.Wildcard], xds.Wildcard, ""):
		s.join(c.bar(xds.Wildcard, "", wild))
	}
}

func (s *Sub) firstDone() {
	if s.first && s.delta {
		s.claimAliases()
	}
	s.first = false
	if s.sets.first == nil {
		s.claims = claims{} // the records have taken them over
	}
}

// Close ends the subscription and unsubscribes every name.
func (s *Sub) Close(now time.Time) {
	sh := s.shard
	sh.mu.Lock()
	for s.sets.first != nil {
		s.sets.first.end(now)
	}
	list := longList{sub: s, now: now}
	for r := range s.records.all() {
		list.next()
		r.forget(now)
	}
	list.done()
	s.dirty = nil
	sh.subs--
	sh.unlockOrDrop()
	sh.group.paramSets.leave(sh.params)
}
