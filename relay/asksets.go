package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// askSets asks for the type's sets on the main lane: first `*`, and then the namespaces by their
// names.
func (s *shard) askSets(asks []Ask, gen uint32, now time.Time, all bool) []Ask {
	switch asked, wanted := s.star.askedGen == gen, s.star.wanted(); {
	case wanted && !asked:
		if s.collections.spacesGen == gen {
			return asks // the stream will be reopened
		}
		// The type came here from a lane that was to be reopened for it (RELAY-92).
		if s.star.needsOrigin {
			s.star.forget()
		}
		a := Ask{TypeURL: s.typeURL, Wildcard: !s.byLocator()}
		if !a.Wildcard {
			a.Subscribe = []Name{s.starName()}
		}
		if s.star.members.len() > 0 && !s.star.revived {
			a.Initial = s.firstInitial(mainLane, gen, now, s.star.eachPresented)
		}
		a.First = s.store.ask(mainLane, gen)
		s.star.noteAsked(gen, now, a.Initial == nil)
		s.seedStar(gen)
		asks = append(asks, s.listed(a, gen, all))
	case asked && !wanted && s.byLocator():
		s.star.revise()
		s.star.askedGen = 0
		s.star.clear()
		a := s.listed(Ask{TypeURL: s.typeURL, Unsubscribe: []Name{s.starName()}}, gen, all)
		if all && !a.Wildcard && len(a.All) == 0 {
			s.lane(mainLane).reopenSoon() // an empty list is no reliable unsubscribe
			return asks
		}
		asks = append(asks, a)
	}
	a := Ask{TypeURL: s.typeURL}
	if s.collections.spacesGen != gen {
		spaces := s.collections.askAll(&a, namespace)
		if len(spaces) == 0 {
			return asks
		}
		s.collections.spacesGen, s.collections.spacesAt = gen, now
		a.Initial = s.firstInitial(mainLane, gen, now, func(add func(*xds.Variant) bool) {
			for _, t := range spaces {
				t.eachPresented(add)
			}
		})
		a.First = s.store.ask(mainLane, gen)
		for _, t := range spaces {
			t.noteAsked(gen, now, a.Initial == nil)
		}
		s.collections.seed(spaces, now)
	} else {
		s.collections.askChanged(&a, mainLane, gen, now)
	}
	if len(a.Subscribe)+len(a.Unsubscribe) == 0 {
		return asks
	}
	sortNames(a.Subscribe)
	sortNames(a.Unsubscribe)
	return append(asks, a)
}

// starName is the Name of `*`, for a request by locators.
func (s *shard) starName() Name { return Name{Name: xds.Wildcard, Params: s.params, Located: true} }

// seedStar fills `*` with the members that the same stream brought for the `*` of other parameter
// maps, and that match this map. They are members here (RELAY-72), and many servers do not send the
// same resource twice on one stream. Seeding does not count as an answer. It is not done where
// lists are whole. There the next list has the members, and if that list was made before this map
// was asked (askedLast), it could not take away what was removed meanwhile.
func (s *shard) seedStar(gen uint32) {
	if cfg := s.group.config(); cfg.SotW && cfg.absenceDeletes(s.typeURL) {
		return
	}
	seeded := map[*member]bool{}
	for _, x := range s.store.all {
		// Once `*` is unsubscribed for a map, no removals are stated for it any more.
		if x == s || x.star.askedGen != gen || !x.star.wanted() {
			continue
		}
		for m := range x.star.members.all() {
			if !m.seenOn(gen) || s.star.members.get(m.name) != nil || x.star.refetch[m.name] || x.star.guard.holdsAny(&m.held) {
				continue
			}
			own := newMember(m.name)
			own.onMentioned(gen)
			for _, v := range m.variants {
				// several match only if the origin made mistakes (DYN-9)
				if v.Constraints.Match(s.params) {
					own.variants = append(own.variants, v)
				}
			}
			if len(own.variants) > 0 {
				s.star.members.put(own)
				seeded[own] = true
			}
		}
	}
	if len(seeded) == 0 {
		return
	}
	rev := s.nextRev()
	for m := range seeded {
		s.star.offer(m, rev)
		s.star.noteChange(m, nil)
	}
	s.star.markChanged(rev)
}

// listed adds to an ask of `*` the `*` of the type's other maps, since a SotW request lists all of
// them every time (RELAY-27).
func (k *store) listed(a Ask, gen uint32, all bool) Ask {
	for _, s := range k.all {
		switch {
		case !all || s.star.askedGen != gen:
		case !s.byLocator():
			a.Wildcard = true
		default:
			a.All = append(a.All, s.starName())
		}
	}
	return a
}

// firstGen is the generation in which collections of a kind were first asked on their lane.
func (c *collections) firstGen(k selectorKind) uint32 {
	if k == namespace {
		return c.spacesGen
	}
	return c.shard.named.firstGen[c.shard.named.lane]
}

// askAll returns the wanted collections of a kind, and adds them to the ask's Subscribe. It is for
// a stream that has not asked any of them yet.
func (c *collections) askAll(a *Ask, k selectorKind) (wanted []*set) {
	for _, t := range c.byName {
		switch {
		case t.kind != k:
		case !t.wanted():
			c.drop(t)
		default:
			wanted = append(wanted, t)
			a.Subscribe = append(a.Subscribe, t.ask())
		}
	}
	c.changed = slices.DeleteFunc(c.changed, func(t *set) bool {
		t.inChanged = t.inChanged && t.kind != k
		return t.kind == k
	})
	return wanted
}

// askChanged adds to an ask the collections that were subscribed or unsubscribed since the lane's
// last ask.
func (c *collections) askChanged(a *Ask, i laneIndex, gen uint32, now time.Time) {
	var asked []*set
	c.changed = slices.DeleteFunc(c.changed, func(t *set) bool {
		if t.laneIndex() != i {
			return false
		}
		t.inChanged = false
		switch {
		case !t.wanted():
			if t.askedGen == gen {
				a.Unsubscribe = append(a.Unsubscribe, t.ask())
			}
			c.drop(t)
		case t.askedGen != gen:
			a.Subscribe = append(a.Subscribe, t.ask())
			t.noteAsked(gen, now, true)
			asked = append(asked, t)
		}
		return true
	})
	c.seed(asked, now)
}

// seed fills collections that were just asked with what the same stream brought for a name that
// they cover, or for `*`. What it brought exists, so it is a member, and many servers do not send
// the same resource twice on one stream.
func (c *collections) seed(asked []*set, now time.Time) {
	if len(asked) == 0 {
		return
	}
	rev, seeded := c.shard.rev, map[*set]bool{}
	seed := func(name string, vs []*xds.Variant) {
		c.eachOf(asked[0].askedGen, name, func(t *set) {
			m := t.members.get(name)
			if known := m != nil && (!t.revived || m.seenOn(t.askedGen)); len(vs) > 0 && !known {
				if len(seeded) == 0 {
					rev = c.shard.nextRev()
				}
				m = t.member(name)
				was := t.given(m)
				m.variants = slices.Clone(vs)
				m.onMentioned(t.askedGen)
				if !t.settled && t.first.IsZero() { // there may be no other member, and no answer
					t.first, t.lastNew = now, now.Add(silence)
				}
				seeded[t] = true
				t.offer(m, rev)
				t.noteChange(m, was)
			}
		})
	}
	if asked[0].kind == namespace {
		if c.shard.star.askedGen == asked[0].askedGen {
			for m := range c.shard.star.members.all() {
				if !c.shard.star.guard.holdsAny(&m.held) {
					seed(m.name, m.variants)
				}
			}
		}
	} else {
		for name, e := range c.shard.named.entries {
			if xds.IsNewStyle(name) && e.ownName() && e.asksOn(asked[0].askedGen) && !c.shard.named.guard.holdsAny(&e.held) {
				seed(name, e.variants)
			}
		}
	}
	for t := range seeded {
		t.markChanged(rev)
		t.startPause(now)
	}
}

// drop forgets a collection that nobody wants. Its members go with it.
func (c *collections) drop(t *set) {
	if c.byName[t.selector] != t {
		return
	}
	delete(c.byName, t.selector)
	t.retire()
	t.revise()
	t.noteUnwanted()
	for m := range t.members.all() {
		c.shard.expiring.track(expiringKey{t, m.name}, nil)
	}
	t.members, t.guard = members{}, guard{}
	// Nothing is left that the side lane has to ask first.
	if t.kind == glob && c.shard.named.moving && !c.shard.hasNames() {
		c.shard.moved()
	}
	c.shard.lane(t.laneIndex()).poke() // the lane may have been open for it alone
}

// eachPresented calls add with the bodies of the members that may be presented, until add returns
// false.
func (t *set) eachPresented(add func(*xds.Variant) bool) {
	for m := range t.members.all() {
		if t.revived || t.refetch[m.name] { // TTL-4
			continue
		}
		for _, v := range m.variants {
			if !t.guard.holds(v) && !add(v) {
				return
			}
		}
	}
}

// noteAsked records that the set was asked on the stream of generation gen. sweep: its members were
// not presented there, so those that the stream does not mention are removed (RELAY-46).
func (t *set) noteAsked(gen uint32, now time.Time, sweep bool) {
	t.revise()
	t.askedGen, t.askedAt, t.askedAs = gen, now, t.shard.store.questions.Add(1)
	t.shard.restGen = [2]uint32{}
	t.shard.now = now
	t.holdOver()
	t.badParts = badParts{}
	if t.revived { // asked as if nothing were held, so silence must not bring it back (RELAY-4)
		// firm may be set if a bad part prevented a sweep (RELAY-32)
		t.settled, t.firm = false, false
	}
	if !t.firm {
		// What is left of a pause on an earlier stream does not count for this one.
		t.first = time.Time{}
	}
	if !t.firm && (t.settled || !sweep && !t.revived && t.members.len() > 0) {
		// An origin that finds us in sync may not answer at all. Without a response the longest
		// wait applies.
		t.first, t.lastNew = now, now.Add(firmMost)
		if cfg := t.shard.cfg(); t.settled && !sweep {
			// All of it was presented, so an origin that does not answer has nothing else. As an
			// earlier stream brought it in pieces, perhaps, and ended before the set was firm, that
			// takes longer than after an answer. A client that holds something misses what that
			// stream brought until then.
			t.lastNew = now.Add(max(cfg.ColdWait-cfg.FirmSettle, 0))
		}
		if t.unconfirmed() && !sweep {
			// If the origin is silent for firm_settle, that confirms a restored set (RELAY-96). It
			// does not confirm members that were not presented, since the origin does not know of
			// them.
			t.lastNew = now
		}
		t.startPause(now)
	}
	if len(t.uncached) > 0 || t.firm && t.views.limited != nil {
		t.wakeFresh() // from now on clients may be sent it
	}
	sweep = sweep || t.revived
	t.sweepGen, t.sweepFirst, t.sweepAll = 0, time.Time{}, sweep
	if t.firm && !sweep {
		t.shard.push(timer{at: now.Add(t.shard.cfg().FirmSettle), kind: setPause, set: t})
	}
	if (sweep && t.members.len() > 0 || len(t.nameErrors.byName)+len(t.refetch) > 0) && !t.shard.group.config().SotW {
		t.sweepGen = gen
	}
}
