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
			s.suspend(l.index, false)
			s.wakeLane(l.index) // that lane may have looked at the store already
			moved = true
		default:
			asks = join(s.ask(asks, l, gen, now, all), len(asks), all)
			s.askedForFallback(now)
		}
		s.unlockOrDrop()
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

// Urgent reports whether Take has something to ask that an HTTP request may wait for. It must not
// be delayed to be sent together with later changes (ALIAS-8, RELAY-24).
func (l *Lane) Urgent() bool {
	return slices.ContainsFunc(l.shards(), func(s *shard) bool {
		return xds.IsVirtualHost(s.typeURL) && s.toAsk[l.index].Load() && l.carries(s.store)
	})
}

// initial collects the versions of what is held, as the lane's server gave them. The result is nil
// if they cannot be presented: the origin ignores versions (RELAY-46), a version is empty
// (RELAY-91) or was given by another server (FED-7), the versions are in doubt, or the request
// would be too long (RELAY-41). Then members that the stream does not mention are swept.
func (s *shard) initial(lane laneIndex, now time.Time, each func(add func(*xds.Variant) bool)) map[string]string {
	// DYN-20: such an origin is asked by locators alone.
	if cfg := s.group.config(); cfg.NoResume || cfg.SotW || s.lane(lane).fresh.Load() || cfg.TP2 {
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

// A SotW request lists every name of its type (RELAY-27), so one more name costs as much as all of
// them. A list of 200,000 names takes a quarter of a second to make, and as much at the origin.
// After a long list further changes of the type's names are collected for a while, and other types
// are asked meanwhile. The first request of a stream never waits.

const (
	// listPause is how long changes are collected for each name of a list that has more than
	// shortAsk.
	listPause = 5 * time.Microsecond
	// leastListPause is how long they are collected at least: the names of one client come by
	// shares (longlist.go).
	leastListPause = 10 * time.Millisecond
	// longestListPause is how long they are collected at most.
	longestListPause = 2 * time.Second
)

// lastList is the last SotW request of a type on a lane.
type lastList struct {
	at    time.Time
	names int
}

// again is when the next one may list names.
func (x *lastList) again() time.Time {
	if x.names <= shortAsk {
		return x.at
	}
	return x.at.Add(min(max(time.Duration(x.names)*listPause, leastListPause), longestListPause))
}

// listsLater reports whether the names have to wait, and sets the timer for asking them. It is
// false for the shard of another map if the request is the one that was just made.
func (n *namedTable) listsLater(lane laneIndex, now time.Time) bool {
	x := &n.shard.store.lastList[lane]
	at := x.again()
	if !now.Before(at) || now.Equal(x.at) {
		return false
	}
	if !n.waitsToList {
		n.waitsToList = true
		n.shard.push(timer{at: at, kind: listAgain, shard: n.shard})
	}
	return true
}

// listAgain has the lane look at the names that waited. It locks the shard.
func (n *namedTable) listAgain() {
	n.shard.mu.Lock()
	defer n.shard.mu.Unlock()
	n.waitsToList = false
	if !n.shard.dead {
		n.shard.poke(n.lane)
	}
}

// allAsked are the names that a request lists, in no order. Names that are aside are left out,
// unless there are no others.
func (k *store) allAsked() []Name {
	var all, aside []Name
	for _, s := range k.all {
		for _, e := range s.named.entries {
			switch {
			case !s.named.isAsked(e):
			case s.named.aside[e]:
				aside = append(aside, s.named.nameOf(e))
			default:
				all = append(all, s.named.nameOf(e))
			}
		}
	}
	if len(all) == 0 {
		all = aside
	}
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

// A client may ask for 100,000 names, of which nothing is held. What the origin states waits behind
// the answer on its one stream, so a delta origin is asked a share of them at a time, in turns with
// all else, and the next when it has answered the last: an origin that is slower than we are makes
// one answer of all that was asked meanwhile. A SotW request has to list every name anyway.

const (
	// askedAtOnce is how many names, of which nothing is held, one Take asks of a delta origin.
	askedAtOnce = 2000
	// answerWait is how long the next names wait for an answer at most: many origins are silent of
	// what does not exist.
	answerWait = 30 * time.Millisecond
	// shortAsk is how many names do not wait, as they make no answer much longer.
	shortAsk = 100
)

// longAsk is the last request for many names. The zero value: it was answered.
type longAsk struct {
	entry *entry // one of them
	gen   uint32 // of the stream
	at    time.Time
}

// isAnswered reports whether the names were, or are of no interest any more.
func (x *longAsk) isAnswered() bool {
	return x.entry == nil || !x.entry.asksOn(x.gen) || x.entry.answeredOn(x.gen)
}

// waitsForAnswer reports whether the names that changed wait for the answer to the last ones.
func (n *namedTable) waitsForAnswer(gen uint32, now time.Time) bool {
	if len(n.changed) <= shortAsk {
		return false
	}
	due := n.longAsk.at.Add(answerWait)
	if n.longAsk.isAnswered() || n.longAsk.gen != gen || !now.Before(due) {
		n.longAsk = longAsk{}
		return false
	}
	n.asksMore = true
	if !n.waitsToList {
		n.waitsToList = true
		n.shard.push(timer{at: due, kind: listAgain, shard: n.shard})
	}
	return true
}

// askedLong notes that so many names were asked, e the last of them.
func (n *namedTable) askedLong(count int, e *entry, gen uint32, now time.Time) {
	if count >= askedAtOnce/2 {
		n.longAsk = longAsk{e, gen, now}
	}
}

// longAnswer has the lane ask the next names, if those before were answered.
func (n *namedTable) longAnswer() {
	if n.longAsk.entry != nil && n.longAsk.isAnswered() {
		n.longAsk = longAsk{}
		if n.asksMore {
			n.shard.poke(n.lane)
		}
	}
}

// DoNotWait has the next Take not wait for the answer to the last names: what follows was asked
// already, of a server that takes over.
func (l *Lane) DoNotWait() {
	for _, s := range l.shards() {
		s.mu.Lock()
		s.named.longAsk = longAsk{}
		s.mu.Unlock()
	}
}
