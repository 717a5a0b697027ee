package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// ask adds to asks what the shard has to ask on the lane: its sets, if the lane carries them, and
// its names.
func (s *shard) ask(asks []Ask, l *Lane, gen uint32, now time.Time, all bool) []Ask {
	if l.index == mainLane {
		s.place(gen)
		if s.mainKind == kindSet {
			asks = s.askSets(asks, gen, now, all)
		}
		if s.mainKind != kindNamed {
			return asks
		}
	}
	if s.named.lane == l.index {
		asks = s.named.ask(asks, l.index, gen, now, all)
	}
	if l.index == sideLane && s.named.moving && !s.named.asksMore {
		s.moved()
	}
	return asks
}

// place decides what the main lane's present stream carries of the type. The decision depends on
// what is wanted, and never on which client came first.
func (k *store) place(gen uint32) {
	if k.mainGen != gen {
		k.mainGen, k.mainKind = gen, kindNone
	}
	wantSet := k.wantsSet()
	switch k.mainKind {
	case kindNone:
		switch {
		case wantSet:
			k.mainKind = kindSet
			for _, s := range k.all {
				s.move(sideLane)
				s.named.moving = false // the main lane carries no names on this stream
			}
		case slices.ContainsFunc(k.all, (*shard).hasNames):
			k.mainKind = kindNamed
			for _, s := range k.all {
				if s.named.lane == sideLane {
					s.move(mainLane)
					if side := s.lane(sideLane); side.live(s.named.firstGen[sideLane]) {
						side.reopenSoon()
					}
				}
			}
		}
	case kindSet:
		// `*` can be unsubscribed only if it has parameters. It has to be asked before any name is
		// (RELAY-21).
		for _, s := range k.all {
			asked, wanted := s.star.askedGen == gen, s.star.wanted()
			if asked && !wanted && !s.byLocator() || wanted && !asked && s.collections.spacesGen == gen {
				s.lane(mainLane).reopenSoon()
			}
		}
	case kindNamed:
		if !wantSet {
			return
		}
		for _, s := range k.all {
			if s.named.lane == mainLane {
				s.move(sideLane)
				s.named.moving = s.hasNames()
			}
		}
		if !k.moving() {
			k.lane(mainLane).reopenSoon()
		}
	}
}

// move places the type's names on another lane. All of them are asked again there.
func (s *shard) move(to laneIndex) {
	if s.named.lane == to {
		return
	}
	s.named.lane = to
	s.reviseVouched()
	s.named.markHeldBack() // one lane may be down and the other may not
	if s.hasNames() {
		s.poke(to)
	}
}

// ask adds to asks what of the names is to be asked: all of them, if it is the stream's first
// request of names, or else what has changed since the last.
func (n *namedTable) ask(asks []Ask, lane laneIndex, gen uint32, now time.Time, all bool) []Ask {
	s := n.shard
	a := Ask{TypeURL: s.typeURL}
	var again []Name
	n.asksMore = false
	if n.firstGen[lane] != gen {
		n.lookAll(&a, gen, now, all)
		if len(a.Subscribe) == 0 {
			return asks // WILD-11: an empty first request would be a wildcard
		}
		a.First = s.store.ask(lane, gen)
	} else if all && n.listsLater(lane, now) || !all && n.waitsForAnswer(gen, now) {
		return asks
	} else {
		again = n.lookChanged(&a, gen, now, all)
	}
	if n.asksMore {
		s.poke(lane)
	}
	relist := s.relist()
	if len(a.Subscribe)+len(a.Unsubscribe) == 0 {
		if all && relist {
			if list := s.allAsked(); !s.asideOnly(list) {
				asks = append(asks, Ask{TypeURL: s.typeURL, All: list})
			}
		}
		return asks
	}
	n.startSilence()
	if len(a.Subscribe) > 0 {
		n.suspectLater(lane, gen, now)
	}
	n.confirmFrom(now, a.First)
	if all {
		a.All = s.allAsked()
		s.store.lastList[lane] = lastList{now, len(a.All)}
	}
	if len(again) == 0 {
		return append(asks, a)
	}
	// DELTA-7: a forced resend takes two messages.
	second := Ask{TypeURL: s.typeURL, Subscribe: again, All: a.All, alone: true}
	a.alone = true
	if all {
		a.All = slices.DeleteFunc(slices.Clone(a.All), func(x Name) bool {
			return slices.ContainsFunc(again, func(y Name) bool { return y.Name == x.Name && y.Params.Key() == x.Params.Key() })
		})
	}
	return append(asks, a, second)
}

func (n *namedTable) lookAll(a *Ask, gen uint32, now time.Time, all bool) {
	s := n.shard
	for _, e := range n.changed {
		e.inChanged = false
	}
	n.changed = nil
	n.settled()
	unknown := 0
	for _, e := range n.entries {
		if !e.wanted() {
			n.delete(e)
			continue
		}
		if !s.lists(e) {
			// The name may have been asked on an earlier stream that is still open, and to which
			// the type may return (RELAY-92). If it comes back into the requests of this stream,
			// a list may be under way that leaves it out.
			e.onStream(gen)
			e.onLapsed()
			n.revise(e)
			continue
		}
		if !all && n.mayBeAskedLater(e) {
			if unknown++; unknown > askedAtOnce {
				e.inChanged, n.asksMore = true, true
				n.changed = append(n.changed, e)
				continue
			}
			n.askedLong(unknown, e, gen, now)
		}
		a.Subscribe = append(a.Subscribe, n.noteAsked(e, gen, now))
	}
	globs := s.collections.askAll(a, glob)
	if len(a.Subscribe) == 0 {
		return
	}
	// The generation is noted first, so that names which the seeding gives up are looked at again
	// (RELAY-9).
	n.firstGen[n.lane], n.firstAt[n.lane] = gen, now
	sortNames(a.Subscribe)
	a.Initial = s.firstInitial(n.lane, gen, now, func(add func(*xds.Variant) bool) {
		for _, t := range globs {
			t.eachPresented(add)
		}
		for _, e := range n.entries {
			for _, v := range e.variants {
				if !n.guard.holdsAny(&e.held) && !n.unbinds(v) && !add(v) {
					return
				}
			}
		}
	})
	n.presented = a.Initial != nil
	s.now = now
	n.holdOver()
	for _, t := range globs {
		t.noteAsked(gen, now, a.Initial == nil)
	}
	s.collections.seed(globs, now)
	n.seedNames(a, len(globs), gen)
}

// mayBeAskedLater reports whether a name need not be in the first request of a stream. A name with
// a body has to be in it, since only that request presents versions (DELTA-11).
func (n *namedTable) mayBeAskedLater(e *entry) bool {
	return len(e.variants) == 0 && e.retired == nil && len(n.shard.collections.byName) == 0
}

// seedNames fills names without a body with what a glob holds of them, if that was presented to the
// origin. The origin may be silent about what has not changed (DELTA-11).
func (n *namedTable) seedNames(a *Ask, globs int, gen uint32) {
	if globs == 0 || len(a.Initial) == 0 {
		return
	}
	rev := uint64(0)
	for _, e := range n.entries {
		held := n.shard.collections.memberBodies(gen, e.name)
		if len(e.variants) > 0 || len(held) == 0 || a.Initial[held[0].Spelling()] == "" {
			continue
		}
		if rev == 0 {
			rev = n.shard.nextRev()
		}
		n.shareMember(e)
		n.offer(e, rev, gen, false)
	}
}

// lookChanged adds to an ask the names that changed since the lane's last ask. again are names that
// have to be unsubscribed and subscribed anew (DELTA-7).
func (n *namedTable) lookChanged(a *Ask, gen uint32, now time.Time, all bool) (again []Name) {
	s := n.shard
	changed := n.changed
	n.changed = nil
	if !all && len(changed) > askedAtOnce {
		changed, n.changed = changed[:askedAtOnce:askedAtOnce], changed[askedAtOnce:]
		n.asksMore = true
	}
	stays := len(changed) > 0 && (n.partial > 0 || !s.listsAny())
	for _, e := range changed {
		e.inChanged = false
		asked := e.asksOn(gen)
		name := n.nameOf(e)
		switch {
		case !e.wanted():
			if asked {
				a.Unsubscribe = append(a.Unsubscribe, name)
				e.onUnasked()
			}
			n.delete(e)
		case !s.lists(e) && asked && stays:
			e.inChanged = true
			n.changed = append(n.changed, e)
		case !s.lists(e):
			if asked {
				n.listAsked(e)
				a.Unsubscribe = append(a.Unsubscribe, name)
				e.onLapsed()
				n.revise(e)
			}
		case !asked:
			a.Subscribe = append(a.Subscribe, n.noteAsked(e, gen, now))
			n.askedLong(len(a.Subscribe), e, gen, now)
		case e.refresh:
			a.Unsubscribe = append(a.Unsubscribe, name)
			again = append(again, n.noteAsked(e, gen, now))
		}
	}
	s.collections.askChanged(a, n.lane, gen, now)
	sortNames(a.Subscribe)
	sortNames(a.Unsubscribe)
	sortNames(again)
	return again
}

func (n *namedTable) noteAsked(e *entry, gen uint32, now time.Time) Name {
	e.onAsked(gen)
	n.revise(e)
	n.unheard = append(n.unheard, unheard{e, gen, e.asks, now})
	n.park(e, gen, now)
	if e.chosen != nil && e.chosen.DoNotCache {
		e.markRecords(n.shard.rev) // from now on it may be given to clients
	}
	return n.nameOf(e)
}
