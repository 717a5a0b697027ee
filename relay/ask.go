package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Ask is one request to send upstream for one type.
type Ask struct {
	TypeURL string
	// First: nothing was sent for the type on this stream yet.
	First bool
	// Wildcard: the request is for `*`, and no names are in it. If `*` is asked by a locator, it is
	// a Name instead.
	Wildcard bool
	// Subscribe and Unsubscribe are the changes. No name is in both with the same parameters
	// (DELTA-7).
	Subscribe, Unsubscribe []Name
	// Initial are the origin's versions of what is held. Only the First ask has them (RELAY-41).
	Initial map[string]string
	// All are all names asked on this stream, sorted. A SotW request lists them every time
	// (RELAY-27).
	All []Name

	alone bool // one of two asks that must not be merged (DELTA-7)
}

// join merges the last two asks, which are those of two parameter maps of one type, if they may be
// one request. all: as in Take.
func join(asks []Ask, from int, all bool) []Ask {
	if from == 0 || len(asks) != from+1 {
		return asks
	}
	a, b := &asks[from-1], &asks[from]
	if a.TypeURL != b.TypeURL || a.alone || b.alone || (a.Wildcard || b.Wildcard) && !all || len(b.Initial) > 0 {
		return asks
	}
	a.Subscribe, a.Unsubscribe = append(a.Subscribe, b.Subscribe...), append(a.Unsubscribe, b.Unsubscribe...)
	a.Wildcard, a.All = b.Wildcard, b.All
	return asks[:from]
}

// Take returns what has to be asked, in order, and records it as asked. reopen: the stream has to
// be closed and opened again, since what it carries cannot be unsubscribed otherwise (RELAY-20,
// RELAY-22). all: each ask also lists every name (SotW).
func (l *Lane) Take(now time.Time, all bool) (asks []Ask, reopen bool) {
	gen := l.gen.Load()
	if gen == 0 {
		return nil, false
	}
	if l.reopen.Load() {
		return nil, true // what is asked on this stream would be lost with it
	}
	wary, moved := l.only == nil && l.group.quarantined() >= maxProbing, false
	for _, s := range l.shards() {
		if !l.carries(s.store) || !s.toAsk[l.index].Swap(false) {
			continue
		}
		s.mu.Lock()
		switch {
		case !l.carries(s.store):
			s.poke(l.index) // the type moved to another lane, and the mark was that lane's
		case wary && s.unproven(l, gen):
			s.suspend(l.index)
			s.wakeLane(l.index) // that lane may have looked at the store already
			moved = true
		default:
			asks = join(s.ask(asks, l, gen, now, all), len(asks), all)
			s.askedForFallback(now)
		}
		dead := s.dropIfEmpty()
		s.unlock()
		if dead {
			s.group.dropShard(s)
		}
	}
	if moved {
		l.group.probeNext()
	}
	for i := range asks {
		// here, where no store is locked, since sorting a long list takes long
		sortNames(asks[i].All)
	}
	return asks, l.reopen.Load()
}

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
		asks = s.askNames(asks, l.index, gen, now, all)
	}
	if l.index == sideLane && s.named.moving && !s.named.asksMore {
		s.moved()
	}
	return asks
}

// Urgent reports whether Take has something to ask that an HTTP request may wait for. It must not
// be delayed to be sent together with later changes (ALIAS-8, RELAY-24).
func (l *Lane) Urgent() bool {
	return slices.ContainsFunc(l.shards(), func(s *shard) bool {
		return xds.IsVirtualHost(s.typeURL) && s.toAsk[l.index].Load() && l.carries(s.store)
	})
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
			if asked && !wanted && !s.byLocator() || wanted && !asked && s.spacesGen == gen {
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
	s.markHeldBack() // one lane may be down and the other may not
	if s.hasNames() {
		s.poke(to)
	}
}

// initial collects the versions of what is held, as the lane's server gave them. The result is nil
// if they cannot be presented: the origin ignores versions (RELAY-46), a version is empty
// (RELAY-91) or was given by another server (FED-7), the versions are in doubt, or the request
// would be too long (RELAY-41). Then members that the stream does not mention are swept.
func (s *shard) initial(lane laneIndex, now time.Time, each func(add func(*xds.Variant) bool)) map[string]string {
	// DYN-20: such an origin is asked by locators alone.
	if cfg := s.group.origin.config(); cfg.NoResume || cfg.SotW || s.lane(lane).fresh.Load() || cfg.TP2 {
		return nil
	}
	initial, size, server := map[string]string{}, 0, uint8(s.lane(lane).server.Load())
	each(func(v *xds.Variant) bool {
		switch {
		case v.Constraints != nil: // DYN-20
			return true
		case v.Expired(now): // RELAY-41
			return true
		case v.OriginVersion() == "", v.From.Server != server:
			initial = nil
			return false
		}
		initial[v.Spelling()] = v.OriginVersion()
		size += len(v.Name) + len(v.OriginVersion()) + 8
		if size > firstRequestBytes {
			initial = nil
		}
		return initial != nil
	})
	return initial
}

// firstInitial is initial for a request that may not be the first for the type on the stream. Then
// there are none, since origins read them in the first request only (DELTA-11).
func (s *shard) firstInitial(lane laneIndex, gen uint32, now time.Time, each func(add func(*xds.Variant) bool)) map[string]string {
	if s.askedGen[lane] == gen {
		return nil
	}
	return s.initial(lane, now, each)
}

func (s *shard) askNames(asks []Ask, lane laneIndex, gen uint32, now time.Time, all bool) []Ask {
	t := &s.named
	a := Ask{TypeURL: s.typeURL}
	var again []Name
	t.asksMore = false
	if t.firstGen[lane] != gen {
		s.lookAll(&a, gen, now, all)
		if len(a.Subscribe) == 0 {
			return asks // WILD-11: an empty first request would be a wildcard
		}
		a.First = s.store.ask(lane, gen)
	} else if all && s.listsLater(lane, now) || !all && s.waitsForAnswer(gen, now) {
		return asks
	} else {
		again = s.lookChanged(&a, gen, now, all)
	}
	if t.asksMore {
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
	s.startSilence()
	if len(a.Subscribe) > 0 {
		s.suspectLater(lane, gen, now)
	}
	s.confirmFrom(now, a.First)
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
		a.All = slices.DeleteFunc(slices.Clone(a.All), func(n Name) bool {
			return slices.ContainsFunc(again, func(x Name) bool { return x.Name == n.Name && x.Params.Key() == n.Params.Key() })
		})
	}
	return append(asks, a, second)
}

func (s *shard) lookAll(a *Ask, gen uint32, now time.Time, all bool) {
	t := &s.named
	for _, e := range t.changed {
		e.inChanged = false
	}
	t.changed = nil
	t.settled()
	shared, unknown := false, 0
	for _, e := range t.entries {
		if !e.wanted() {
			s.delete(e)
			continue
		}
		if !s.lists(e) {
			// The name may have been asked on an earlier stream that is still open, and to which
			// the type may return (RELAY-92). If it comes back into the requests of this stream,
			// a list may be under way that leaves it out.
			e.onStream(gen)
			e.onLapsed()
			continue
		}
		if s.shares(e) {
			shared = true
			continue
		}
		if !all && s.mayBeAskedLater(e) {
			if unknown++; unknown > askedAtOnce {
				e.inChanged, t.asksMore = true, true
				t.changed = append(t.changed, e)
				continue
			}
			s.askedLong(unknown, e, gen, now)
		}
		a.Subscribe = append(a.Subscribe, s.noteAsked(e, gen, now))
	}
	globs := s.askable(a, glob)
	if shared {
		t.firstGen[t.lane], t.firstAt[t.lane] = gen, now
	}
	if len(a.Subscribe) == 0 {
		return
	}
	// The generation is noted first, so that names which the seeding gives up are looked at again
	// (RELAY-9).
	t.firstGen[t.lane], t.firstAt[t.lane] = gen, now
	sortNames(a.Subscribe)
	a.Initial = s.firstInitial(t.lane, gen, now, func(add func(*xds.Variant) bool) {
		for _, t := range globs {
			t.eachPresented(add)
		}
		for _, e := range t.entries {
			for _, v := range e.variants {
				if !t.guard.holdsAny(&e.held) && !add(v) {
					return
				}
			}
		}
	})
	t.presented = a.Initial != nil
	s.now = now
	t.holdOver()
	for _, t := range globs {
		t.noteAsked(gen, now, a.Initial == nil)
	}
	s.seed(globs, now)
	s.seedNames(a, len(globs), gen)
}

// mayBeAskedLater reports whether a name need not be in the first request of a stream. A name with
// a body has to be in it, since only that request presents versions (DELTA-11).
func (s *shard) mayBeAskedLater(e *entry) bool {
	return len(e.variants) == 0 && e.retired == nil && len(s.collections) == 0
}

// seedNames fills names without a body with what a glob holds of them, if that was presented to the
// origin. The origin may be silent about what has not changed (DELTA-11).
func (s *shard) seedNames(a *Ask, globs int, gen uint32) {
	if globs == 0 || len(a.Initial) == 0 {
		return
	}
	rev := uint64(0)
	for _, e := range s.named.entries {
		held := s.memberBodies(gen, e.name)
		if len(e.variants) > 0 || len(held) == 0 || a.Initial[held[0].Spelling()] == "" {
			continue
		}
		if rev == 0 {
			rev = s.nextRev()
		}
		s.shareMember(e)
		s.offerNamed(e, rev, gen, false)
	}
}

func (s *shard) lookChanged(a *Ask, gen uint32, now time.Time, all bool) (again []Name) {
	changed := s.named.changed
	s.named.changed = nil
	if !all && len(changed) > askedAtOnce {
		changed, s.named.changed = changed[:askedAtOnce:askedAtOnce], changed[askedAtOnce:]
		s.named.asksMore = true
	}
	listsAny := len(changed) > 0 && s.listsAny()
	for _, e := range changed {
		e.inChanged = false
		asked := e.asksOn(gen)
		name := s.nameOf(e)
		switch {
		case !s.lists(e) && asked && s.waitsForHeir(e):
			s.look(e)
		case !e.wanted():
			if asked {
				a.Unsubscribe = append(a.Unsubscribe, name)
				s.store.gaveBack(s.named.lane, gen, name)
				e.onUnasked()
			}
			s.delete(e)
		case !s.lists(e) && asked && !listsAny:
			e.inChanged = true
			s.named.changed = append(s.named.changed, e)
		case !s.lists(e):
			if asked {
				s.listAsked(e)
				a.Unsubscribe = append(a.Unsubscribe, name)
				s.store.gaveBack(s.named.lane, gen, name)
				e.onLapsed()
			}
		case !asked:
			if !s.shares(e) {
				a.Subscribe = append(a.Subscribe, s.noteAsked(e, gen, now))
				s.askedLong(len(a.Subscribe), e, gen, now)
			}
		case e.refresh:
			a.Unsubscribe = append(a.Unsubscribe, name)
			again = append(again, s.noteAsked(e, gen, now))
		}
	}
	s.askChanged(a, s.named.lane, gen, now)
	sortNames(a.Subscribe)
	sortNames(a.Unsubscribe)
	sortNames(again)
	return again
}

func (s *shard) noteAsked(e *entry, gen uint32, now time.Time) Name {
	e.onAsked(gen)
	s.named.unheard = append(s.named.unheard, unheard{e, gen, e.asks, now})
	s.parked(e, gen, now)
	if e.chosen != nil && e.chosen.DoNotCache {
		s.markRecords(e) // from now on it may be given to clients
	}
	return s.nameOf(e)
}
