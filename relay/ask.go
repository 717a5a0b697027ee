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
