package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/constraints"
)

// Name is one subscription: a resource name, as the client wrote it who asked first (NAME-9), and dynamic parameters.
type Name struct {
	Name   string
	Params constraints.Params
	// Collection: it stands for others, as an xdstp glob or a namespace of virtual hosts.
	Collection bool
}

// Ask is what to send upstream for one type.
type Ask struct {
	TypeURL string
	// First: nothing was sent for the type on this stream yet.
	First bool
	// Wildcard: the request is for `*`; no names go with it.
	Wildcard bool
	// Subscribe and Unsubscribe are the changes; no name is in both (DELTA-7).
	Subscribe, Unsubscribe []Name
	// Initial are the origin's versions of what is held, in the First ask only (RELAY-41).
	Initial map[string]string
	// All are all names asked on this stream, sorted: a SotW request lists them every time (RELAY-27).
	All []Name
}

// Take gives what has to be asked, in order, and takes it as asked. reopen: the stream has to be closed and opened anew,
// because what it carries cannot be taken back otherwise (RELAY-20, RELAY-22). all: also list every name (SotW).
func (l *Lane) Take(now time.Time, all bool) (asks []Ask, reopen bool) {
	gen := l.gen.Load()
	if gen == 0 {
		return nil, false
	}
	if l.reopen.Load() {
		return nil, true // what would be asked on this stream would be lost with it
	}
	wary, moved := l.only == nil && l.group.apart() >= maxTrials, false
	for _, s := range l.shards() {
		if !l.carries(s) || !s.toAsk[l.index].Swap(false) {
			continue
		}
		s.mu.Lock()
		switch {
		case !l.carries(s):
			s.poke(l.index) // it came to another lane meanwhile, whose mark this was
		case wary && s.strangerLocked(l, gen):
			s.suspectLocked(l.index)
			moved = true
		default:
			asks = s.askLocked(asks, l, gen, now, all)
		}
		dead := s.dropIfEmptyLocked()
		s.unlock()
		if dead {
			s.group.dropShard(s)
		}
	}
	if moved {
		l.group.tryNext()
	}
	return asks, l.reopen.Load()
}

func (s *shard) askLocked(asks []Ask, l *Lane, gen uint32, now time.Time, all bool) []Ask {
	if l.index == mainLane {
		s.placeLocked(gen)
		if s.mainKind == kindSet {
			asks = s.askSetsLocked(asks, gen, now)
		}
		if s.mainKind != kindNamed {
			return asks
		}
	}
	if s.named.lane == l.index {
		asks = s.askNamesLocked(asks, l.index, gen, now, all)
	}
	if l.index == sideLane && s.named.moving {
		// The side lane has asked the names; now the main lane may drop them (RELAY-20).
		s.named.moving = false
		s.lane(mainLane).reopenSoon()
	}
	return asks
}

// Urgent reports whether Take has something to ask that a request may wait for, which is not to be collected with what comes after it
// (ALIAS-8, RELAY-24).
func (l *Lane) Urgent() bool {
	return slices.ContainsFunc(l.shards(), func(s *shard) bool {
		return IsVirtualHost(s.typeURL) && s.toAsk[l.index].Load() && l.carries(s)
	})
}

func (l *Lane) reopenSoon() {
	l.reopen.Store(true)
	signal(l.wake)
}

// placeLocked decides what the main lane's present stream carries of the type. Placement depends on what is wanted, never on
// who came first.
func (s *shard) placeLocked(gen uint32) {
	if s.mainGen != gen {
		s.mainGen, s.mainKind = gen, kindNone
	}
	wantSet := s.wantsSetLocked()
	switch s.mainKind {
	case kindNone:
		switch {
		case wantSet:
			s.mainKind = kindSet
			s.moveLocked(sideLane)
			s.named.moving = false // the main lane carries no names on this stream
		case s.hasNamesLocked():
			s.mainKind = kindNamed
			if s.named.lane == sideLane {
				s.moveLocked(mainLane)
				if side := s.lane(sideLane); side.live(s.named.firstGen[sideLane]) {
					side.reopenSoon()
				}
			}
		}
	case kindSet:
		// `*` cannot be taken back, and has to be asked before anything is named (RELAY-21).
		if asked, wanted := s.star.askedGen == gen, s.star.wantedLocked(); asked && !wanted || wanted && !asked && s.spacesGen == gen {
			s.lane(mainLane).reopenSoon()
		}
	case kindNamed:
		if !wantSet {
			return
		}
		if s.named.lane == mainLane {
			s.moveLocked(sideLane)
			s.named.moving = s.hasNamesLocked()
		}
		if !s.named.moving {
			s.lane(mainLane).reopenSoon()
		}
	}
}

// moveLocked places the type's names on another lane, where all of them are asked anew.
func (s *shard) moveLocked(to laneIndex) {
	if s.named.lane == to {
		return
	}
	s.named.lane = to
	if s.hasNamesLocked() {
		s.poke(to)
	}
}

// askSetsLocked asks what the main lane carries of the type's sets: `*`, and then the namespaces by their names.
func (s *shard) askSetsLocked(asks []Ask, gen uint32, now time.Time) []Ask {
	if s.star.wantedLocked() && s.star.askedGen != gen {
		if s.spacesGen == gen {
			return asks // the stream is opened anew
		}
		a := Ask{TypeURL: s.typeURL, First: true, Wildcard: true}
		if len(s.star.members) > 0 && !s.star.revived {
			a.Initial = s.initialLocked(mainLane, now, s.star.eachLocked)
		}
		s.star.askedLocked(gen, now, a.Initial == nil)
		asks = append(asks, a)
	}
	a := Ask{TypeURL: s.typeURL}
	if s.spacesGen != gen {
		spaces := s.askableLocked(&a, namespace)
		if len(spaces) == 0 {
			return asks
		}
		s.spacesGen, s.spacesAt = gen, now
		if a.First = s.star.askedGen != gen; a.First {
			a.Initial = s.initialLocked(mainLane, now, func(add func(*Variant) bool) {
				for _, t := range spaces {
					t.eachLocked(add)
				}
			})
		}
		for _, t := range spaces {
			t.askedLocked(gen, now, a.Initial == nil)
		}
		s.seedLocked(spaces, now)
	} else {
		s.askChangedLocked(&a, mainLane, gen, now)
	}
	if len(a.Subscribe)+len(a.Unsubscribe) == 0 {
		return asks
	}
	sortNames(a.Subscribe)
	sortNames(a.Unsubscribe)
	return append(asks, a)
}

// firstGenLocked is the generation in which collections of a kind were first asked on their lane.
func (s *shard) firstGenLocked(k selectorKind) uint32 {
	if k == namespace {
		return s.spacesGen
	}
	return s.named.firstGen[s.named.lane]
}

// askableLocked are the collections of a kind, on a stream that has asked none of them yet, and adds them to what is subscribed.
func (s *shard) askableLocked(a *Ask, k selectorKind) (wanted []*set) {
	for _, t := range s.collections {
		switch {
		case t.kind != k:
		case !t.wantedLocked():
			s.dropCollectionLocked(t)
		default:
			wanted = append(wanted, t)
			a.Subscribe = append(a.Subscribe, t.ask())
		}
	}
	s.changed = slices.DeleteFunc(s.changed, func(t *set) bool {
		t.inChanged = t.inChanged && t.kind != k
		return t.kind == k
	})
	return wanted
}

// askChangedLocked takes up collections that came or went since the lane asked.
func (s *shard) askChangedLocked(a *Ask, i laneIndex, gen uint32, now time.Time) {
	var asked []*set
	s.changed = slices.DeleteFunc(s.changed, func(t *set) bool {
		if t.laneIndex() != i {
			return false
		}
		t.inChanged = false
		switch {
		case !t.wantedLocked():
			if t.askedGen == gen {
				a.Unsubscribe = append(a.Unsubscribe, t.ask())
			}
			s.dropCollectionLocked(t)
		case t.askedGen != gen:
			a.Subscribe = append(a.Subscribe, t.ask())
			t.askedLocked(gen, now, true)
			asked = append(asked, t)
		}
		return true
	})
	s.seedLocked(asked, now)
}

// seedLocked gives collections that were just asked what the same stream brought for a name, or for `*`, that they cover: it exists, so
// it is a member, and many servers do not send twice on one stream what has not changed.
func (s *shard) seedLocked(asked []*set, now time.Time) {
	if len(asked) == 0 {
		return
	}
	rev, seeded := s.rev, map[*set]bool{}
	seed := func(name string, vs []*Variant) {
		s.eachOfLocked(asked[0].askedGen, name, func(t *set) {
			m := t.members[name]
			if known := m != nil && (!t.revived || m.seenGen == t.askedGen); len(vs) > 0 && !known {
				if len(seeded) == 0 {
					rev = s.nextRevLocked()
				}
				if m == nil {
					m = &member{name: name}
				}
				m.variants, m.seenGen = slices.Clone(vs), t.askedGen
				if !t.settled && t.first.IsZero() { // there may be no more, and no answer
					t.first, t.news = now, now.Add(silence)
				}
				t.members[name], seeded[t] = m, true
				t.offerLocked(m, rev)
			}
		})
	}
	if asked[0].kind == namespace {
		if s.star.askedGen == asked[0].askedGen {
			for name, m := range s.star.members {
				seed(name, m.variants)
			}
		}
	} else {
		for name, e := range s.named.entries {
			if IsNewStyle(name) && e.ownName() && e.askedOn(asked[0].askedGen) {
				seed(name, e.variants)
			}
		}
	}
	for t := range seeded {
		t.changedLocked(rev)
		t.pauseLocked(now)
	}
}

// dropCollectionLocked forgets a collection that nobody wants. Its members go with it.
func (s *shard) dropCollectionLocked(t *set) {
	if s.collections[t.selector] != t {
		return
	}
	delete(s.collections, t.selector)
	t.retireLocked()
	for name := range t.members {
		s.mindLocked(mortalKey{t, name}, nil)
	}
	t.members = nil
	if t.kind == glob && s.named.moving && !s.hasNamesLocked() { // nothing is left for the side lane to ask first
		s.named.moving = false
		s.lane(mainLane).reopenSoon()
	}
	s.lane(t.laneIndex()).poke() // it may have been the last thing the lane was open for
}

// eachLocked calls add with the bodies of the members that can be presented until it returns false.
func (t *set) eachLocked(add func(*Variant) bool) {
	for _, m := range t.members {
		if t.revived || t.doubted[m.name] { // TTL-4
			continue
		}
		for _, v := range m.variants {
			if !add(v) {
				return
			}
		}
	}
}

// askedLocked notes that the set was asked on the stream of generation gen. sweep: what is held of it was not presented there, so
// what the stream does not mention goes (RELAY-46).
func (t *set) askedLocked(gen uint32, now time.Time, sweep bool) {
	t.askedGen, t.askedAt = gen, now
	if t.revived { // asked as if nothing were held: silence must not bring it back (RELAY-4)
		t.settled, t.firm, t.first = false, false, time.Time{} // firm, if a bad part kept it from being swept (RELAY-32)
	}
	if !t.firm && (t.settled || !sweep && !t.revived && len(t.members) > 0) {
		// An origin that finds us in sync may answer nothing at all. Without a response it takes the longest wait.
		t.first, t.news = now, now.Add(firmMost)
		t.pauseLocked(now)
	}
	if t.uncached > 0 {
		t.wakeFreshLocked() // they may be given it from now on
	}
	sweep = sweep || t.revived
	t.sweepGen, t.sweepFirst, t.sweepAll = 0, time.Time{}, sweep
	if (sweep && len(t.members) > 0 || len(t.faults.byName)+len(t.doubted) > 0) && !t.shard.group.origin.cfg.SotW {
		t.sweepGen = gen
	}
}

// initialLocked collects the versions of what is held that the lane's server gave; nil if they cannot be presented: the origin
// ignores them (RELAY-46), one is empty (RELAY-91) or another server's (FED-7), or the request would be too long (RELAY-41).
// Then members are swept.
func (s *shard) initialLocked(lane laneIndex, now time.Time, each func(add func(*Variant) bool)) map[string]string {
	if s.group.origin.cfg.NoResume || s.group.origin.cfg.SotW {
		return nil
	}
	initial, size, server := map[string]string{}, 0, uint8(s.lane(lane).server.Load())
	each(func(v *Variant) bool {
		switch {
		case v.Constraints != nil: // DYN-20
			return true
		case v.timed() && !v.end.After(now): // RELAY-41
			return true
		case v.originVersion == "", v.from.server != server:
			initial = nil
			return false
		}
		initial[v.Spelling()] = v.originVersion
		size += len(v.Name) + len(v.originVersion) + 8
		if size > firstRequestBytes {
			initial = nil
		}
		return initial != nil
	})
	return initial
}

func (s *shard) askNamesLocked(asks []Ask, lane laneIndex, gen uint32, now time.Time, all bool) []Ask {
	t := &s.named
	a := Ask{TypeURL: s.typeURL}
	var again []Name
	if t.firstGen[lane] != gen {
		s.lookAllLocked(&a, gen, now)
		if len(a.Subscribe) == 0 {
			return asks // WILD-11: an empty first request would be a wildcard
		}
		a.First = true
	} else {
		again = s.lookChangedLocked(&a, gen, now)
	}
	if len(a.Subscribe)+len(a.Unsubscribe) == 0 {
		return asks
	}
	s.silentLocked()
	if all {
		a.All = s.allAskedLocked()
	}
	if len(again) == 0 {
		return append(asks, a)
	}
	second := Ask{TypeURL: s.typeURL, Subscribe: again, All: a.All} // DELTA-7: a forced resend is two messages
	if all {
		a.All = slices.DeleteFunc(slices.Clone(a.All), func(n Name) bool {
			return slices.ContainsFunc(again, func(x Name) bool { return x.Name == n.Name && x.Params.Key() == n.Params.Key() })
		})
	}
	return append(asks, a, second)
}

func (s *shard) lookAllLocked(a *Ask, gen uint32, now time.Time) {
	t := &s.named
	for _, w := range t.changed {
		w.inChanged = false
	}
	t.changed = nil
	for _, e := range t.entries {
		for _, w := range slices.Clone(e.wants) {
			if !w.wanted() {
				s.deleteLocked(w)
				continue
			}
			a.Subscribe = append(a.Subscribe, s.askedLocked(w, gen, now))
		}
	}
	globs := s.askableLocked(a, glob)
	if len(a.Subscribe) == 0 {
		return
	}
	t.firstGen[t.lane], t.firstAt[t.lane] = gen, now // what the seeding abandons is to be looked at (RELAY-9)
	sortNames(a.Subscribe)
	a.Initial = s.initialLocked(t.lane, now, func(add func(*Variant) bool) {
		for _, t := range globs {
			t.eachLocked(add)
		}
		for _, e := range t.entries {
			for _, v := range e.variants {
				if !add(v) {
					return
				}
			}
		}
	})
	for _, t := range globs {
		t.askedLocked(gen, now, a.Initial == nil)
	}
	s.seedLocked(globs, now)
	s.seedNamesLocked(a, len(globs), gen)
}

// seedNamesLocked gives names that nothing is held of what a glob holds of them and was presented to the origin: it may be silent about
// what is so still (DELTA-11).
func (s *shard) seedNamesLocked(a *Ask, globs int, gen uint32) {
	if globs == 0 || len(a.Initial) == 0 {
		return
	}
	rev := uint64(0)
	for _, e := range s.named.entries {
		held := s.memberLocked(gen, e.name)
		if len(e.variants) > 0 || len(held) == 0 || a.Initial[held[0].Spelling()] == "" {
			continue
		}
		if rev == 0 {
			rev = s.nextRevLocked()
		}
		s.shareMemberLocked(e)
		s.offerNamedLocked(e, rev, gen, false)
	}
}

func (s *shard) lookChangedLocked(a *Ask, gen uint32, now time.Time) (again []Name) {
	changed := s.named.changed
	s.named.changed = nil
	for _, w := range changed {
		w.inChanged = false
		asked := w.asked == gen
		name := w.ask()
		switch {
		case !w.wanted():
			if asked {
				a.Unsubscribe = append(a.Unsubscribe, name)
				w.asked = 0
			}
			s.deleteLocked(w)
		case !asked:
			a.Subscribe = append(a.Subscribe, s.askedLocked(w, gen, now))
		case w.refresh:
			a.Unsubscribe = append(a.Unsubscribe, name)
			again = append(again, s.askedLocked(w, gen, now))
		}
	}
	s.askChangedLocked(a, s.named.lane, gen, now)
	sortNames(a.Subscribe)
	sortNames(a.Unsubscribe)
	return again
}

func (s *shard) askedLocked(w *want, gen uint32, now time.Time) Name {
	w.asked = gen
	s.named.unheard = append(s.named.unheard, unheard{w, gen, now})
	w.answered, w.unanswered, w.refresh = 0, false, false
	if w.chosen != nil && w.chosen.DoNotCache {
		s.reshowLocked(w) // it may be given out from now on
	}
	return w.ask()
}

func (s *shard) allAskedLocked() []Name {
	var all []Name
	for _, e := range s.named.entries {
		for _, w := range e.wants {
			if s.isAskedLocked(w) {
				all = append(all, w.ask())
			}
		}
	}
	sortNames(all)
	return all
}

func sortNames(ns []Name) {
	slices.SortFunc(ns, func(a, b Name) int {
		if c := cmpString(a.Name, b.Name); c != 0 {
			return c
		}
		return cmpString(a.Params.Key(), b.Params.Key())
	})
}
