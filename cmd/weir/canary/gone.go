package canary

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay/gate"
)

// Canaries that were given a candidate and are gone. What a proxy accepts, and is then killed by,
// is never rejected: that the proxy is gone is all that it says.

// mostHolders bounds the canaries of a group that are followed: node ids are what clients say.
const mostHolders = 10_000

// holder is a canary that was given the candidate.
type holder struct {
	id      string
	streams map[uint64]bool // at the last look
	since   time.Time       // of the first look that saw it
	// later: it came after the candidate had begun, so it may be there in place of another one.
	later bool

	away time.Time // since when it has no stream; zero: it has one
	back time.Time // when it last came back
	// left is how often it went, and absent for how long it was away before this time. Both are
	// forgotten when it has stayed for the grace.
	left   int
	absent time.Duration
}

// clientOf names the client of a stream.
func clientOf(m *downstream.Member) string { return cmp.Or(m.NodeID, fmt.Sprint(m.Stream)) }

// follow takes note of the canaries that are there, and of those that are not any more. later:
// others may come in their place.
func (x *group) follow(now time.Time, members []downstream.Member, grace time.Duration, later bool) {
	here := map[string]map[uint64]bool{}
	for i := range members {
		id := clientOf(&members[i])
		if here[id] == nil {
			here[id] = map[uint64]bool{}
		}
		here[id][members[i].Stream] = true
	}
	for id, streams := range here {
		if h := x.holders[id]; h != nil {
			h.seen(now, streams, grace)
		} else if len(x.holders) < mostHolders {
			x.holders[id] = &holder{id: id, streams: streams, since: now, later: later}
		}
	}
	for id, h := range x.holders {
		if here[id] == nil && h.away.IsZero() {
			h.away = now
			h.left++
		}
	}
}

// seen takes note of the streams of a canary that is there.
func (h *holder) seen(now time.Time, streams map[uint64]bool, grace time.Duration) {
	stays := false
	for stream := range streams {
		stays = stays || h.streams[stream]
	}
	switch {
	case !h.away.IsZero():
		h.absent += now.Sub(h.away)
		h.away, h.back = time.Time{}, now
	case !stays: // it went, and came back, between two looks
		h.back = now
		h.left++
	case h.left > 0 && now.Sub(h.back) >= grace:
		h.left, h.absent = 0, 0
	}
	h.streams = streams
}

// gone reports whether the canary is away, or came back and went again, and lost whether it has
// been away for longer than the grace.
func (h *holder) gone(now time.Time, grace time.Duration) (gone, lost bool) {
	absent := h.absent
	if !h.away.IsZero() {
		absent += now.Sub(h.away)
	}
	gone = !h.away.IsZero() || h.left > 1
	return gone, gone && absent >= grace
}

// count is how many canaries have been given the candidate, and how many of them are gone. One that
// has come in the place of another counts for it, as in a rolling update with new names, once it
// has accepted the candidate.
func (x *group) count(now time.Time, s *gate.Seen, grace time.Duration) {
	var gone []*holder
	var later []time.Time
	for _, h := range x.holders {
		if is, _ := h.gone(now, grace); is {
			gone = append(gone, h)
		} else if h.later && x.accepted(h) {
			later = append(later, h.since)
		}
	}
	slices.SortFunc(gone, func(a, b *holder) int { return cmp.Or(a.away.Compare(b.away), cmp.Compare(a.id, b.id)) })
	slices.SortFunc(later, time.Time.Compare)
	s.Given, x.goneIDs = len(x.holders), nil
	for _, h := range gone {
		i := slices.IndexFunc(later, func(since time.Time) bool { return !since.Before(h.away.Add(-grace)) })
		if i >= 0 && !h.away.IsZero() {
			later = slices.Delete(later, i, i+1)
			s.Given--
			continue
		}
		s.Gone++
		if _, lost := h.gone(now, grace); lost {
			s.Lost++
		}
		x.goneIDs = append(x.goneIDs, h.id)
	}
}

// accepted reports whether all streams of a canary have accepted the candidate.
func (x *group) accepted(h *holder) bool {
	for stream := range h.streams {
		if !x.acked[stream] {
			return false
		}
	}
	return true
}
