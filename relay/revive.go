package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/xds"
)

// Retired sets. A set retires and comes back as a whole (RELAY-81). A set that never settled does
// not retire, nor one with a member that must not be cached (RELAY-9) or that has a TTL. The
// members that came back in an outage stay the set's members, so clients that were sent them keep
// them. Once a stream is open, no other client is sent the set until the sweep has removed what the
// stream has not mentioned. A revived set is not firm: a client that holds something may hold a
// newer resource, and keeps it.

func (t *set) key() retiredKey {
	key := t.shard.retiredKey(t.selector)
	key.set = true
	return key
}

// retire keeps the members of a set that nobody wants. A set of a type in `absence_keeps` does not
// retire: the absence of a member is never learnt there, so a member that is gone could never be
// removed.
func (t *set) retire() {
	cfg := t.shard.group.config()
	told := !cfg.SotW || cfg.absenceDeletes(t.shard.typeURL)
	if t.standsIn() || !told || !t.firm && !t.revived && !t.restored || len(t.uncached) > 0 || t.needsOrigin || !t.shard.retires() {
		return
	}
	var variants []*xds.Variant
	for m := range t.members.all() {
		if slices.ContainsFunc(m.variants, (*xds.Variant).Timed) {
			return // what has a TTL does not retire
		}
		variants = append(variants, m.variants...)
	}
	// it comes back as what is not firm in any case
	t.shard.table().retired.add(t.key(), variants, false)
}

// expect is called when the first client asks for the set. It brings a retired set back, now or
// when no stream could be opened in time.
func (t *set) expect() {
	l := t.lane()
	if t.clients > 1 || t.settled || l.gen.Load() != 0 {
		return
	}
	if t.members.len() == 0 && !t.shard.table().retired.has(t.key()) && t.shard.fallback() == nil {
		return
	}
	if l.down.Load() {
		t.revive()
	} else {
		t.shard.expect(l)
	}
}

// revive brings the retired set back, if there is one. It is called when no stream can be opened.
func (t *set) revive() {
	switch {
	case t.clients == 0:
		return
	case !t.revived:
		if t.settled {
			return
		}
		if t.members.len() > 0 { // from a stream that ended before the set had settled
			t.wakeFlowing()
			return
		}
		variants, _ := t.shard.unretire(t.key())
		if t.fallback = variants == nil; t.fallback {
			variants = t.fallbackMembers()
		}
		if variants == nil {
			return
		}
		t.revived = true
		if t.fallback && t.lane().live(t.askedGen) && !t.shard.group.config().SotW {
			// as if it had been there when the set was asked
			t.sweepGen, t.sweepAll, t.sweepFirst = t.askedGen, true, time.Time{}
		}
		rev := t.shard.nextRev()
		for _, v := range variants {
			m := t.member(v.Name)
			m.variants = append(m.variants, v)
			t.shard.constrained = t.shard.constrained || v.Constraints != nil
			t.from = xds.Newer(t.from, v.From)
		}
		for m := range t.members.all() {
			t.offer(m, rev)
			t.noteChange(m, nil)
		}
		t.markChanged(rev)
	case t.fallback && t.shard.heard: // it may be half of what the origin has, and half of the last resort's
		return
	}
	t.settled = true
	t.wakeFresh()
}

// wakeFlowing marks the clients that are sent members before the set has settled.
func (t *set) wakeFlowing() {
	t.revise()
	for v := range t.views.all() {
		for p := v.fresh.head; p != nil; p = p.next {
			if p.flows() {
				p.sub.mark(t.shard.rev)
				t.shard.wake(p.sub.owner)
			}
		}
	}
}

// forget drops the members. No client was sent them.
func (t *set) forget() {
	t.askedGen, t.answeredGen = 0, 0 // as in clear
	t.noteUnwanted()
	t.reviseAll()
	rev := t.shard.nextRev()
	for m := range t.members.all() {
		m.variants = nil
		t.offer(m, rev)
	}
	t.markChanged(rev)
	t.nameErrors, t.from, t.refetch = nameErrors{}, nil, nil
	t.first, t.lastNew, t.settled, t.firm, t.badParts = time.Time{}, time.Time{}, false, false, badParts{}
	t.sweepGen, t.revived, t.needsOrigin, t.restored, t.restoredPart, t.filled, t.guard = 0, false, false, false, false, false, guard{}
}

// noteUncached notes whether a member must not be cached.
func (t *set) noteUncached(m *member) {
	switch {
	case !slices.ContainsFunc(m.variants, func(v *xds.Variant) bool { return v.DoNotCache }):
		delete(t.uncached, m.name)
	case t.uncached == nil:
		t.uncached = map[string]bool{m.name: true}
	default:
		t.uncached[m.name] = true
	}
}

// abandon gives up at once a set that nobody wants and that must not be cached. The lane is
// reopened without it. A client that subscribes before that waits for the next stream (RELAY-9).
func (t *set) abandon() {
	if t.kind != wild { // it is unsubscribed by its name
		t.unwant()
		return
	}
	t.shard.edited()
	t.lingerAt = time.Time{}
	if t.lane().live(t.askedGen) {
		t.needsOrigin = true
		t.revise()
		t.lane().reopenSoon()
	}
	t.shard.poke(mainLane)
	t.clear()
}

// lookedUp counts for the metrics what a client found that subscribes to the set.
func (t *set) lookedUp() {
	if t.barred {
		return
	}
	result := metrics.Miss
	switch {
	case t.revived:
		result = metrics.Retired
	case t.settled && t.live():
		result = metrics.Live
	case t.settled:
		result = metrics.Stale
	}
	t.shard.cfg().Metrics.Lookup(result)
}
