package relay

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/xds"
)

// The table's side of the guard: which removals are held back of each set, and how they are made in
// the end. Package gate decides what is held back, and for how long.

// guard is what the guard (package gate) holds back of one set, or of the names of a type, and what
// it has counted of it. Guarded by its shard's lock.
type guard struct {
	gate.Count

	// held are the resources that are to be removed, each with the error that the present stream
	// stated of it, mostly nil.
	held map[xds.Identity]*NameError
	// restored: something of it is of a snapshot, and no stream has confirmed it (RELAY-96).
	restored bool
	armed    time.Time // of the timer in the heap; zero: none
	// of a collection that is stated to be gone as a whole: sent with the removals
	collectionError *NameError
}

// pendingRemoval is a resource that a response removes, with the error by which it does, if there
// is one. seen: the same stream has brought it, so the origin has not just restarted. restored: it
// is of a snapshot, and not confirmed.
type pendingRemoval struct {
	xds.Identity
	err            *NameError
	seen, restored bool
}

// Alarm is a mass removal that is held back, for people.
type Alarm struct {
	Group, TypeURL string
	Selector       string // `*` or a collection; empty: names
	Removals, Size int    // held, of so many
	Until          time.Time
}

// String is the alarm for a log.
func (a *Alarm) String() string {
	of := "names"
	if a.Selector != "" {
		of = xds.Quote(a.Selector)
	}
	return fmt.Sprintf("the origin has come back without %d of %d resources of %s: they are kept until it has them again, or for as long "+
		"as guard.hold; POST /guard/release lets them go", a.Removals, a.Size, of)
}

// maxAlarms bounds the alarms that wait for TakeAlarms: one line says as much as many.
const maxAlarms = 100

// TakeAlarms gives what happened since the last call. Wake is signalled when there is something.
func (o *Origin) TakeAlarms() []Alarm { return takeAll(&o.mu, &o.alarms) }

// alarm queues an alarm for TakeAlarms; beyond maxAlarms it is dropped. It locks the origin.
func (o *Origin) alarm(a Alarm) {
	o.mu.Lock()
	if len(o.alarms) < maxAlarms {
		o.alarms = append(o.alarms, a)
	}
	o.mu.Unlock()
	signal(o.wake)
}

// scopes calls f with every set of the shard, and with the names.
func (s *shard) scopes(f func(*scope)) {
	s.sets(func(t *set) { f(&t.scope) })
	f(&s.named.scope)
}

// stream is how the stream of generation gen stands.
func (l *Lane) stream(gen uint32) gate.Stream {
	return gate.Stream{Live: l.live(gen), Answered: l.heard.Load() == gen}
}

func (n *namedTable) stream() gate.Stream {
	return n.shard.lane(n.lane).stream(n.firstGen[n.lane])
}

func (n *namedTable) subject() gate.Subject { return gate.Subject{} }
func (n *namedTable) standsIn() bool        { return false }

// isFallback reports whether what is held of a resource is of the last resort, and stands in.
func (c *scope) isFallback(id xds.Identity) bool {
	v := find(c.bodies(id.Name), id.Constraints)
	return v != nil && v.From.Fallback && c.of.standsIn()
}

// guardPolicy is the guard's policy of the shard's origin.
func (s *shard) guardPolicy() gate.Guard {
	return gate.Guard{GuardConfig: s.group.config().Guard, Quiet: s.cfg().FirmSettle, Most: firmMost}
}

// hears notes a response on the stream of generation gen. It reports whether removals still count
// as those of a reconnect.
func (c *scope) hears(gen uint32) (counts bool) {
	policy, g, now := c.shard.guardPolicy(), &c.guard, c.shard.now
	if policy.Off() {
		return false
	}
	if !g.Heard(gen) {
		n := 0
		if !c.of.standsIn() { // otherwise nothing of it came from the origin
			n = c.of.size()
		}
		g.Count = policy.Begin(g.Count, gen, now, n, len(g.held))
		c.armGuard()
	}
	return policy.Counts(g.Count, now)
}

// holdOver is called when the stream on which removals were stated has ended. They stay held back
// for the whole time anew, and the errors that came with them are dropped (RELAY-38).
func (c *scope) holdOver() {
	for id := range c.guard.held {
		c.guard.held[id] = nil
	}
	c.guard.collectionError = nil
	c.holdLonger()
}

// holdLonger begins the time of what is held back again.
func (c *scope) holdLonger() {
	c.guard.Count = c.shard.guardPolicy().Extend(c.guard.Count, c.shard.now)
	c.armGuard()
}

// screen decides which removals of a response or a sweep are not made, and returns those. counts is
// the result of hears. whole: the response states all that exists, as a list and a sweep do.
// confirmed: what was held back before can be removed now; releaseHeld does that.
func (c *scope) screen(leaving []pendingRemoval, counts, whole bool) (kept map[xds.Identity]bool, confirmed bool) {
	if len(leaving) == 0 {
		return nil, false
	}
	if c.freezes().Removals() {
		kept = make(map[xds.Identity]bool, len(leaving))
		for _, p := range leaving {
			if v := find(c.bodies(p.Name), p.Constraints); v != nil && c.shard.passesUncached(v) {
				continue
			}
			kept[p.Identity] = true
			c.markFrozen(p.Identity, xds.Digest{})
		}
		return kept, false
	}
	s, g, policy := c.shard, &c.guard, c.shard.guardPolicy()
	if policy.Off() {
		return nil, false
	}
	var news []pendingRemoval
	restored := false
	for _, p := range leaving {
		r := gate.Removal{Held: g.holdsID(p.Identity), StandIn: c.isFallback(p.Identity), Seen: p.seen}
		switch r.Fate() {
		case gate.Stays:
			kept = g.hold(kept, p)
		case gate.New:
			restored = restored || p.restored
			news = append(news, p)
		}
	}
	var r gate.Ruling
	g.Count, r = policy.Judge(g.Count, gate.Statement{
		New: len(news), Stays: len(kept) > 0, Restored: restored, Counts: counts, Whole: whole,
	}, s.now)
	if !r.Hold {
		return kept, r.Release
	}
	for _, p := range news {
		kept = g.hold(kept, p)
	}
	g.restored = g.restored || restored
	if r.Alarm {
		s.group.origin.alarm(Alarm{
			Group: s.group.key, TypeURL: s.typeURL, Selector: xds.Spelling(c.selector, c.spelt),
			Removals: len(g.held), Size: g.Size(), Until: g.Until(),
		})
	}
	c.armGuard()
	return kept, r.Release
}

func (g *guard) hold(kept map[xds.Identity]bool, p pendingRemoval) map[xds.Identity]bool {
	if g.held == nil {
		g.held = map[xds.Identity]*NameError{}
	}
	if kept == nil {
		kept = map[xds.Identity]bool{}
	}
	// an error is stated once
	if kept[p.Identity] = true; p.err != nil || g.held[p.Identity] == nil {
		g.held[p.Identity] = p.err
	}
	return kept
}

// holdsID reports whether a body is held back from removal.
func (g *guard) holdsID(id xds.Identity) bool {
	_, held := g.held[id]
	return held
}

// cancel ends that a body is held back: the origin has it again, or it is removed now.
func (g *guard) cancel(id xds.Identity) {
	if len(g.held) == 0 {
		return
	}
	if delete(g.held, id); len(g.held) == 0 {
		g.clear()
	}
}

// clear cancels all.
func (g *guard) clear() {
	g.Count, g.held, g.collectionError, g.restored = g.Cleared(), nil, nil, false
}

// holds is holdsID of a variant.
func (g *guard) holds(v *xds.Variant) bool {
	return len(g.held) > 0 && g.holdsID(xds.Identity{Name: v.Name, Constraints: v.Constraints.Key()})
}

// armGuard sets the timer for the end of what is held back.
func (c *scope) armGuard() {
	g := &c.guard
	if at := g.Until(); len(g.held) > 0 && (g.armed.IsZero() || at.Before(g.armed)) {
		g.armed = at
		c.shard.push(timer{at: at, kind: guardEnd, scope: c})
	}
}

// guardEnd makes the removals that have been held back for long enough. It locks the shard.
func (c *scope) guardEnd(now time.Time) {
	s := c.shard
	s.mu.Lock()
	defer s.unlock()
	s.now = now
	g := &c.guard
	if !g.armed.After(now) {
		g.armed = time.Time{}
	}
	if len(g.held) == 0 {
		return
	}
	switch g.Due(now, c.of.stream(), c.freezes()) {
	case gate.Later:
		c.armGuard()
	case gate.Longer:
		c.holdLonger()
	case gate.Release:
		c.releaseHeld()
	}
}

// releaseHeld makes the removals that are held back, and returns how many resources that is.
func (c *scope) releaseHeld() (n int) {
	g := c.guard
	c.guard.clear()
	c.shard.nextRev()
	return c.of.release(&g)
}

func (n *namedTable) release(g *guard) (released int) {
	s, rev, held := n.shard, n.shard.rev, g.held
	gen := n.firstGen[n.lane]
	if !s.lane(n.lane).live(gen) {
		gen = 0 // removed, but a client that asks now is not sent an absence (RELAY-38)
	}
	for id := range held {
		if !slices.ContainsFunc(n.holders(id.Name), func(e *entry) bool { return find(e.variants, id.Constraints) != nil }) {
			delete(held, id) // it was removed otherwise, and the origin may have stated something since
			continue
		}
		if n.removeName(id) {
			released++
		}
	}
	n.offerTouched(rev, gen)
	for id, err := range held {
		for _, e := range n.holders(id.Name) {
			if err != nil && gen != 0 && len(e.variants) == 0 {
				n.fail(e, err, rev, gen)
			}
		}
	}
	return released
}

func (t *set) release(g *guard) (n int) {
	rev, held, told := t.shard.rev, g.held, false
	for id := range held {
		if m := t.members.get(id.Name); m != nil && find(m.variants, id.Constraints) != nil {
			t.touch(m)
			m.variants = cut(m.variants, id.Constraints)
			told = t.clearError(id.Name) || told
			n++
		}
	}
	t.offerTouched()
	for id, err := range held {
		if err != nil && t.members.get(id.Name) == nil {
			told = t.noteError(err, t.askedGen, rev) || told
		}
	}
	t.markChanged(rev)
	if g.restored {
		t.wakeFresh()
	}
	if told {
		t.stated(rev)
	}
	if g.collectionError != nil {
		t.collectionError, t.collectionErrorGen = g.collectionError, t.askedGen
		t.revise()
		t.notifyAll(rev)
	}
	return n
}

// ReleaseGuard removes at once what is held back of mass removals, of one type or, if typeURL is
// empty, of all. It returns how many resources were removed. While the origin is frozen none is.
func (o *Origin) ReleaseGuard(now time.Time, typeURL string) (n int) {
	for _, g := range o.groupList() {
		for _, s := range *g.all.Load() {
			if typeURL == "" || s.typeURL == typeURL {
				n += s.releaseGuard(now)
			}
		}
	}
	return n
}

// releaseGuard removes what the guard holds back, but for what a freeze keeps, and returns how much
// it was. It locks the shard.
func (s *shard) releaseGuard(now time.Time) (n int) {
	s.mu.Lock()
	defer s.unlock()
	s.now = now
	s.scopes(func(c *scope) {
		if len(c.guard.held) > 0 && !c.freezes().Removals() {
			n += c.releaseHeld()
		}
	})
	return n
}

// holdsAny reports whether any of the bodies of a name, which may be an alias, is held back.
func (g *guard) holdsAny(h *held) bool {
	return len(g.held) > 0 && slices.ContainsFunc(h.variants, func(v *xds.Variant) bool {
		return g.holds(v) || g.holdsID(xds.Identity{Name: h.name, Constraints: v.Constraints.Key()})
	})
}

// isIn reports whether one of the variants is among the resources, under the name or under the
// resource's own.
func (h *held) isIn(ids map[xds.Identity]bool) bool {
	return len(ids) > 0 && slices.ContainsFunc(h.variants, func(v *xds.Variant) bool {
		key := v.Constraints.Key()
		return ids[xds.Identity{Name: h.name, Constraints: key}] || ids[xds.Identity{Name: v.Name, Constraints: key}]
	})
}

// cancelAll is cancel for all bodies of a name.
func (g *guard) cancelAll(vs []*xds.Variant) {
	for _, v := range vs {
		g.cancel(xds.Identity{Name: v.Name, Constraints: v.Constraints.Key()})
	}
}

// guarded is how many of the shard's resources are held back in mass removals, and until when. few:
// others, too.
func (s *shard) guarded(few bool) (n int, until time.Time) {
	s.scopes(func(c *scope) {
		if !few && !c.guard.Mass() {
			return
		}
		for id := range c.guard.held {
			if find(c.bodies(id.Name), id.Constraints) == nil {
				continue // it was removed otherwise
			}
			if n++; c.guard.Until().After(until) {
				until = c.guard.Until()
			}
		}
	})
	return n, until
}
