package relay

import (
	"fmt"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// A response that would take its origin beyond what it may fill (budget.go) is refused in part
// (RELAY-32). What is held stays, and is brought up to date as far as it grows within the limit;
// what is new is taken while there is room; nothing is concluded from what the response leaves out.
// The origin may count as sent what was refused, and say no more of it. So the lane is opened anew
// when there is room, as clients are sent away whose names were refused (RELAY-79).

const (
	// The first and the longest pause before the lane looks whether there is room for what was
	// refused.
	firstRoomPause, lastRoomPause = 10 * time.Second, 10 * time.Minute
	// roomShare is the part of the limit that must be free before less is asked for again than was
	// refused.
	roomShare = 8
)

// admit takes out of a response what the origin may not fill, and says why; nil: all of it is
// taken. adds is for admitted. It is for a response that was looked up. It locks the stores of the
// origin, one at a time, where everything is counted.
func (l *Lane) admit(now time.Time, k *store, u *update) (adds amount, over *xds.RejectError) {
	o := l.group.origin
	f := &o.fill
	f.mu.Lock()
	defer f.mu.Unlock()
	f.came += len(u.Resources) + len(u.Removed)
	for i := range u.Resources {
		adds = adds.plus(u.adds(i))
	}
	if l.group.newest == nil && adds != (amount{}) && f.total.load().plus(adds).exceeds(o.bound()) {
		adds, over = l.admitPart(now, k, u, adds)
	}
	f.total.add(adds)
	f.applying.add(adds)
	return adds, over
}

// admitPart is admit for a response that may be too much. fill.mu is held.
func (l *Lane) admitPart(now time.Time, k *store, u *update, adds amount) (amount, *xds.RejectError) {
	o := l.group.origin
	o.countAll(now)
	held, most := o.fill.total.load(), o.bound()
	if !held.plus(adds).exceeds(most) {
		return adds, nil
	}
	gone, omitted := k.takenAway(u, l)
	if !held.less(gone).less(omitted).plus(adds).exceeds(most) {
		return adds, nil
	}
	taken, refused := u.keepWithin(held.less(gone), most, o)
	if refused == (amount{}) {
		return taken, nil
	}
	l.askForRoom(now, refused)
	return taken, u.refuse(held.plus(adds), most, refused)
}

// countAll counts what is held of the origin, and of those that have more than their reserve, which
// leave it the less. fill.mu is held. It locks that of another origin if it is free.
func (o *Origin) countAll(now time.Time) {
	o.fill.count(o, now)
	all := o.table.originBytes()
	for _, other := range o.table.Origins() {
		f := &other.fill
		if other == o || f.total.bytes.Load() <= other.reserve(all) || !f.mu.TryLock() {
			continue
		}
		f.count(other, now)
		f.mu.Unlock()
	}
}

// adds is what one of the resources adds at most.
func (u *update) adds(i int) amount {
	r := &u.Resources[i]
	if r.Any == nil {
		return amount{}
	}
	if old := u.found[i].body; old != nil {
		return amount{bytes: max(r.Cost()-old.Cost(), 0)}
	}
	return amount{1, r.Cost() + memberCost}
}

// takenAway is what the response takes away of what the lane has: gone in so many words, and
// omitted by a list that is complete. What is held back, or may be, does not count: a response
// after the other could bring something new. It locks the store.
func (k *store) takenAway(u *update, l *Lane) (gone, omitted amount) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.all) != 1 || k.all[0].guardsAny() {
		return gone, omitted
	}
	s, seen := k.all[0], map[*xds.Variant]bool{}
	drop := func(a *amount, vs []*xds.Variant) {
		for _, v := range vs {
			if !seen[v] {
				seen[v] = true
				*a = a.plus(amount{1, v.Cost() + memberCost})
			}
		}
	}
	set := l.index == mainLane && k.mainKind == kindSet && l.live(k.mainGen)
	removed := func(name string, of func([]*xds.Variant) []*xds.Variant) {
		s.walkName(name, func(x known) {
			if (x.set != nil) == set {
				drop(&gone, of(x.variants))
			}
		})
	}
	for _, name := range u.Removed {
		removed(name, func(all []*xds.Variant) []*xds.Variant { return all })
	}
	for _, r := range u.RemovedVariants {
		removed(r.Name, func(all []*xds.Variant) []*xds.Variant { return variantOf(all, r.Constraints) })
	}
	if !u.Full || u.Bad || !xds.FullState(u.TypeURL) || !set {
		return gone, omitted
	}
	for i := range u.Resources {
		if v := u.found[i].body; v != nil {
			seen[v] = true
		}
	}
	for _, n := range u.Repeats {
		seen[u.repeats[n].body] = true
	}
	s.star.each(func(x known) { drop(&omitted, x.variants) })
	return gone, omitted
}

// variantOf is the variant of exactly these constraints, alone.
func variantOf(all []*xds.Variant, key string) []*xds.Variant {
	if v := find(all, key); v != nil {
		return []*xds.Variant{v}
	}
	return nil
}

// guardsAny reports whether removals are held back.
func (s *shard) guardsAny() (held bool) {
	s.sets(func(t *set) { held = held || len(t.guard.held) > 0 })
	return held || len(s.named.guard.held) > 0
}

// keepWithin drops the resources for which there is no room beside what is held, and gives what the
// others add and what was dropped would have. fill.mu is held.
func (u *update) keepWithin(held, most amount, o *Origin) (taken, refused amount) {
	cfg := o.config()
	from := &xds.Provenance{TypeURL: u.TypeURL, Shown: cfg.OriginVersions, Canonical: cfg.CanonicalHash}
	resources, found := make([]xds.Resource, 0, len(u.Resources)), make([]lookup, 0, len(u.Resources))
	for i := range u.Resources {
		r, adds := &u.Resources[i], u.adds(i)
		if adds.resources > 0 && r.KnownIn(o.fill.number, from) {
			adds = amount{bytes: memberCost} // another group has it
		}
		if adds != (amount{}) && held.plus(taken).plus(adds).exceeds(most) {
			refused = refused.plus(adds)
			if u.Bad = true; len(u.Refused) < maxBadParts { // as Accept does
				u.Refused = append(u.Refused, r.Name)
			} else {
				u.Unread = true
			}
			continue
		}
		taken = taken.plus(adds)
		resources, found = append(resources, *r), append(found, u.found[i])
	}
	u.Resources, u.found = resources, found
	return taken, refused
}

// refuse gives the reason of a response that was refused in part, which becomes that of each of its
// resources.
func (u *update) refuse(would, most, refused amount) *xds.RejectError {
	limit, why := xds.LimitResources, fmt.Sprintf("the origin would have %d resources, of at most %d (origins[].limits.resources)",
		would.resources, most.resources)
	if most.resources < 0 || would.resources <= most.resources {
		limit, why = xds.LimitBytes, fmt.Sprintf("the origin would take %d bytes of memory, of at most %d (origins[].limits.bytes, limits.memory)",
			would.bytes, most.bytes)
	}
	why = fmt.Sprintf("%s: %d new resources and %d bytes of the response are not taken", why, refused.resources, refused.bytes)
	for len(u.Reasons) < len(u.Refused) {
		u.Reasons = append(u.Reasons, why)
	}
	return &xds.RejectError{TypeURL: u.TypeURL, Reasons: []string{why}, Limit: limit}
}

// askForRoom notes that something was refused, so that it is asked for again when there is room. It
// locks the lane.
func (l *Lane) askForRoom(now time.Time, lacks amount) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x, gen := &l.short, l.gen.Load()
	if x.gen == gen {
		x.lacks, x.last = x.lacks.plus(lacks), now
		return // a timer is set
	}
	if x.pause = min(2*x.pause, lastRoomPause); x.last.IsZero() || now.Sub(x.last) > 2*x.pause {
		x.pause = firstRoomPause
	}
	x.lacks, x.gen, x.last = lacks, gen, now
	l.group.origin.table.timers.push(timer{at: now.Add(x.pause), kind: roomAgain, lane: l, gen: gen})
}

// lookForRoom opens the lane anew if there is room for what was refused on its stream, or for a
// good part of the limit. It locks the origin's fill, and then the lane.
func (l *Lane) lookForRoom(gen uint32, now time.Time) {
	if !l.live(gen) {
		return // the next stream asks for everything
	}
	o := l.group.origin
	l.mu.Lock()
	lacks, pause := l.short.lacks, l.short.pause
	l.mu.Unlock()
	o.fill.mu.Lock()
	o.countAll(now)
	most := o.bound()
	least := amount{max(most.resources/roomShare, 1), max(most.bytes/roomShare, 1)}
	lacks = amount{min(lacks.resources, least.resources), min(lacks.bytes, least.bytes)}
	full := o.fill.total.load().plus(lacks).exceeds(most)
	o.fill.mu.Unlock()
	if full {
		l.group.origin.table.timers.push(timer{at: now.Add(pause), kind: roomAgain, lane: l, gen: gen})
		return
	}
	l.reopenSoon()
}
