package relay

import (
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// What clients of a tier reject is told to the origin (RELAY-35), whose streams are those of the
// newest tier: the report has to be on a lane of that, and about a response that came on it.

// Report notes for the origin that a client rejected this (RELAY-35), unless the origin is not to
// be told. The client is told apart from others by a hash. It locks the lane, and before that the
// store of the newest tier.
func (c *Content) Report(now time.Time, client uint64, message string) {
	if c.from == nil || !c.shard.group.origin.config().NACKReport {
		return
	}
	if c.shard.group.tier != Newest && !c.ofNewest() {
		return
	}
	c.lane.mu.Lock()
	isNew := c.lane.reports.note(now, Report{
		TypeURL: c.from.TypeURL, Came: c.from.Came, Version: c.from.Version, Resource: c.Name, Message: message,
	}, client)
	c.lane.mu.Unlock()
	if isNew {
		signal(c.lane.wake)
	}
}

// ofNewest has a content be that of the newest tier. False: nothing of it is known there, or the
// list is another one by now. It locks the store there.
func (c *Content) ofNewest() bool {
	k := c.shard.group.newest.store(c.shard.typeURL)
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.all {
		if s.params.Key() == c.shard.params.Key() {
			return c.in(s)
		}
	}
	return false
}

// in is ofNewest for the shard of the same parameter map there.
func (c *Content) in(s *shard) bool {
	scope := &s.named.scope
	if c.lane = s.lane(s.named.lane); c.set {
		c.lane, scope = s.lane(mainLane), &s.star.scope
	}
	if c.body == nil {
		c.from = scope.from
		return c.from != nil && c.from.Revision <= c.upTo
	}
	// A body that the newest has no more is reported of the response that it came in: a tier was
	// given it from there.
	if v := s.holding(c.body); v != nil {
		c.from = v.From
	}
	if xds.FullState(s.typeURL) && s.group.config().SotW && len(scope.guard.held) == 0 {
		c.from = xds.Newer(c.from, scope.from) // each list has all that there is
	}
	return !c.from.Fallback
}

// holding is the variant of a body's content that the shard has, from wherever; nil: it has none.
func (s *shard) holding(body *xds.Variant) *xds.Variant {
	same := func(vs []*xds.Variant) *xds.Variant {
		if v := find(vs, body.Constraints.Key()); v != nil && v.Digest == body.Digest {
			return v
		}
		return nil
	}
	for _, e := range s.named.holders(body.Name) {
		if v := same(e.variants); v != nil {
			return v
		}
	}
	var found *xds.Variant
	s.sets(func(t *set) {
		if m := t.members.get(body.Name); m != nil && found == nil {
			found = same(m.variants)
		}
	})
	return found
}
