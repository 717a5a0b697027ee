package relay

import (
	"runtime"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Applied is what Apply did with an Update.
type Applied struct {
	// Changed is the number of resources whose content was new, changed or gone.
	Changed int
	// Unrequested is the number of resources, and errors of names, that matched no subscription and
	// were ignored (RELAY-28), or were more errors than are kept.
	Unrequested int
	// Stray is the name of one of them, "" if it has none. A client may wait for its name in vain.
	Stray string
	// Unmatched is how many of those are variants whose constraints match no client's parameters.
	Unmatched int
	// Released: the type was in quarantine, and is out of it by this answer (RELAY-92).
	Released bool
	// Untimed is the number of resources that had a TTL and came again without one: perhaps the
	// origin tells TTLs in the other dialect alone (TTL-14).
	Untimed int
	// Expired is the number of resources whose TTL was over when they came (TTL-13).
	Expired int
	// Resumed is the number of resources presented as initial versions that came back unchanged all
	// the same; if that is most of them, the origin ignores initial versions (RELAY-46).
	Resumed int
	// Over is why a part of the response was not taken, since the origin would fill more than it
	// may (admit.go); nil: that is not so. It has to be refused.
	Over *xds.RejectError
	// Waiting is the number of resources whose content, or removal, is not taken because the origin
	// is frozen.
	Waiting int

	// Unconstrained is the number of resources told in plain form, without constraints, though they
	// were asked with parameters.
	Unconstrained int
	// Overlapping is how often one of several variants that match a map was chosen, and Overlaps
	// are some of those (DYN-9).
	Overlapping int
	Overlaps    []Overlap

	strays map[xds.Identity]int // how many maps did not ask for it; nil: there is one
}

// Overlap is a name of which several variants match one parameter map.
type Overlap struct{ Name, Params string }

// Apply takes one checked response into the table, atomically (RELAY-82). Hashing and comparing
// happen outside the lock, which is held for pointer swaps only. Many absences follow by shares
// (longlist.go). Only the reader of the lane's present stream calls it. ok is false if the lane
// never asked for the type on this stream: such a response is neither ACKed nor NACKed (RELAY-33).
func (l *Lane) Apply(now time.Time, response *xds.Update) (a Applied, ok bool) {
	gen := l.gen.Load()
	k := l.group.store(response.TypeURL)
	if k == nil || gen == 0 {
		return a, false
	}
	u := &update{Update: *response}
	u.repeats, _ = response.Held.(repeated)
	u.variants = u.speaksOfVariants()
	if !k.find(u, l.index, gen) {
		return a, false
	}
	adds, over := l.admit(now, k, u)
	defer l.group.origin.fill.admitted(adds)
	if a.Over = over; u.Over {
		l.askForRoom(now, amount{})
	}
	k.mu.Lock()
	k.rejected[l.index].note(u, gen, now)
	k.mu.Unlock()
	rest, absent := k.absentOf(u, l.index, gen)
	l.take(now, k, gen, rest, &a)
	for names := range slices.Chunk(absent, shareNames) {
		// writers would wait for all of it where there are few processors
		// (TestAbsencesLeaveTheProcessor)
		runtime.Gosched()
		if u := (&update{Update: xds.Update{TypeURL: u.TypeURL, Version: u.Version, Removed: names}}); k.find(u, l.index, gen) {
			l.take(now, k, gen, u, &Applied{})
		}
	}
	return a, true
}

// take applies a response, or a share of one.
func (l *Lane) take(now time.Time, k *store, gen uint32, u *update, a *Applied) {
	cfg := l.group.config()
	from := &xds.Provenance{
		TypeURL: u.TypeURL, Among: l.group.origin.sharing, Server: uint8(l.server.Load()), Version: u.Version,
		Shown: cfg.OriginVersions, Canonical: cfg.CanonicalHash, Came: now.UnixNano(),
	}
	from.Source = l.group.resort(k.typeURL)
	from.Fallback = from.Source != ""
	x := arrival{lane: l, store: k, gen: gen, u: u, from: from, came: now}
	l.group.gathering.take(&x, l.group.origin.table.config().Gather, a)
}

// makeBodies makes the bodies of a response's resources, or finds those that are held already.
func (x *arrival) makeBodies(a *Applied) {
	u, from, cfg, made := x.u, x.from, x.lane.group.config(), x.bodies
	bodies := make([]*xds.Variant, len(u.Resources))
	for i := range u.Resources {
		r := &u.Resources[i]
		version := r.Version
		if version == "" && from.Shown && cfg.SotW {
			version = u.Version // SotW has no version of a resource but this (VER-5, VER-9)
		}
		expires, over := r.Expiry(x.came)
		switch old := u.found[i].body; {
		case r.Any == nil, over: // a heartbeat is no content (TTL-2), and what has expired is none any more
		case old != nil && old.Same(r):
			if bodies[i] = old.WithOriginVersion(from, version).Lasting(expires); old.Timed() && !r.HasTTL {
				a.Untimed++
			}
		case made != nil && made[i] != nil && made[i].From == from:
			bodies[i] = made[i]
		default:
			bodies[i] = xds.NewVariant(from, r, version)
			bodies[i].EndAt(expires)
		}
	}
	x.bodies = bodies
}

// hear notes that the origin has answered the type, so nothing stands in for it any more.
func (k *store) hear() {
	if k.heard {
		return
	}
	k.heard = true
	for _, s := range k.all {
		s.named.reviseDoubtful()
	}
}

// apply applies the response to its store. It locks the store.
func (x *arrival) apply(a *Applied) {
	k, u, l := x.store, x.u, x.lane
	traces, before := l.group.origin.table.config().Traces, a.Changed
	k.mu.Lock()
	k.hear()
	k.apply(a, x.came, u, x.bodies, l.index, x.gen, x.from)
	if a.Changed > before && l.group.behind.Load() == 0 && traces.draws() { // before any client can take it; a tier draws for itself
		traces.add(&Traced{
			Source: l.group, TypeURL: u.TypeURL, Version: u.Version, Came: x.came, Revision: x.from.Revision,
			Resources: len(u.Resources), Removed: len(u.Removed), Changed: a.Changed - before,
		})
	}
	a.Released = k.prove()
	for _, s := range k.all {
		s.named.longAnswer()
	}
	left := k.left
	k.left = nil
	k.unlock()
	l.group.putAside(left, x.came)
	u.found, u.holder, x.bodies = nil, nil, nil
	if a.Expired > 0 && l.group.tier == Newest {
		l.group.origin.counts.Type(u.TypeURL).Expired(a.Expired)
	}
	l.group.origin.counts.VariantAmbiguity(a.Overlapping)
	if l.heard.Swap(x.gen) != x.gen || a.Released {
		l.group.seen.Store(true)
		l.group.probeNext()
	}
}

// kind is what the lane's present stream asked of the type: the set, names, or nothing.
func (s *shard) kind(lane laneIndex, gen uint32) kind {
	if lane == mainLane && s.mainGen == gen && s.mainKind == kindSet && (s.star.askedGen == gen || s.collections.spacesGen == gen) {
		return kindSet
	}
	if s.named.firstGen[lane] == gen {
		return kindNamed
	}
	return kindNone
}

// fewTouched is for how many names the list is kept for the next response, which mostly brings one:
// to make it is an object less.
const fewTouched = 8

// apply applies a response to the names.
func (n *namedTable) apply(a *Applied, u *update, bodies []*xds.Variant, gen uint32) {
	s := n.shard
	rev := s.rev
	counts := n.hears(gen)
	n.touched = slices.Grow(n.touched, len(bodies))
	for i, body := range bodies {
		r, e := &u.Resources[i], u.entry(s, i)
		if body != nil && !n.stays(body, e.bodies(), gen) {
			a.Waiting++
			continue
		}
		if body != nil && (len(body.Aliases) > 0 || n.other.held[body.Name] != nil) {
			n.spread(a, body, gen)
			continue
		}
		if r.Any == nil && n.notice(a, r, gen) {
			continue
		}
		if e == nil {
			s.stray(a, gen, r.Identity())
			continue
		}
		// the name is asked on the other lane by now, which may have brought something newer
		if !e.asksOn(gen) {
			n.prolong(e, u, r, gen)
			continue
		}
		if body == nil {
			n.heardAll(a, e, u, r, gen)
			continue
		}
		if e.isBorrowed() || e.isDoubted() {
			n.revise(e)
		}
		e.onSeen(gen)
		n.listAsked(e)
		n.touch(e, false)
		old := find(e.variants, body.Constraints.Key())
		if old == nil || old.Digest != body.Digest {
			a.Changed++
		} else {
			a.Resumed++
		}
		if old != body {
			n.hold(e, body)
		}
	}
	kept, confirmed := n.takeAway(a, u, gen, counts)
	if n.dropOmitted(a, u, kept, gen); n.omits(u) {
		n.believeNext(gen)
	}
	n.confirmLater(gen, u.Bad)
	n.offerTouched(rev, gen)
	if u.Full && !u.Heartbeats {
		n.harmless(u, gen, s.now)
	}
	for _, f := range u.Errors {
		es := n.holders(f.Name)
		switch {
		case len(es) == 0:
			s.strayError(a, gen, f)
		case slices.ContainsFunc(es, func(e *entry) bool { return e.asksOn(gen) }):
			for _, e := range es {
				if s.group.origin.ends(f) && e.isIn(kept) {
					continue // the error is sent with the removal, which is held back
				}
				if !s.group.origin.ends(f) {
					n.guard.cancelAll(e.variants) // it exists
				}
				if e.name == f.Name || !e.aliasDropped || s.group.origin.ends(f) {
					n.fail(e, f, rev, gen)
				}
			}
		}
	}
	if confirmed {
		a.Changed += n.releaseHeld()
	}
}

// removeName removes a body from all entries that hold it under any of its names.
func (n *namedTable) removeName(id xds.Identity) (changed bool) {
	for _, e := range n.holders(id.Name) {
		if find(e.variants, id.Constraints) != nil {
			n.cut(e, id.Constraints)
			changed = true
		}
		// the same response may state it in both ways (ALIAS-10)
		if e.notice != nil && e.notice.From.Revision != n.shard.rev {
			e.notice = nil
		}
		n.touch(e, true)
		if e.name == id.Name { // it speaks of the alias itself
			e.onNamed()
		}
	}
	if h := n.other.held[id.Name]; h != nil {
		n.other.list(h)
	}
	return changed
}

// omits: a list that is the full state of its type removes what it leaves out.
func (n *namedTable) omits(u *update) bool {
	return u.Full && !u.Bad && xds.FullState(u.TypeURL)
}

func (n *namedTable) answers(name string, gen uint32) (held []*xds.Variant, seen bool) {
	if e := n.entries[name]; e != nil && len(e.variants) > 0 && !e.ownName() && !n.freezes().Removals() {
		return nil, false // it is an alias, and the resource that it stood for may still exist
	}
	for _, e := range n.holders(name) {
		if len(e.variants) > 0 {
			held, seen = e.variants, e.seenOn(gen)
		}
		if e.asksOn(gen) && len(held) > 0 {
			return held, seen
		}
	}
	return nil, false
}

// remove ignores a name that was not asked on the stream (DEL-4).
func (n *namedTable) remove(id xds.Identity, gen uint32, kept bool) bool {
	asked := false
	for _, e := range n.holders(id.Name) {
		if asked = asked || e.asksOn(gen); kept {
			old := e.isOld()
			e.onHeard(gen)
			n.revise(e)
			n.noteCurrent(e, old)
		}
	}
	return asked && !kept && n.removeName(id)
}

func (n *namedTable) listsAll(uint64) bool { return false }

func (n *namedTable) drop(k known) {
	n.empty(k.entry)
	n.touch(k.entry, true)
}

// touch notes that the entry has to be offered to clients again. Entries are offered in the order
// of the response. stated: the origin spoke of the name, without a body.
func (n *namedTable) touch(e *entry, stated bool) {
	if e.touched == untouched {
		n.touched = append(n.touched, e)
	}
	if e.touched = spokenOf; stated {
		e.touched = bare
	}
}

// offerTouched offers the entries that a response touched.
func (n *namedTable) offerTouched(rev uint64, gen uint32) {
	touched := n.touched
	n.touched = nil
	for _, e := range touched {
		stated := e.touched == bare
		e.touched = untouched
		if !e.refresh { // otherwise the response is about a body that has still to be fetched
			n.markConfirmed(e)
		}
		n.shard.expiring.track(expiringKey{name: e.name}, e.variants)
		n.offer(e, rev, gen, stated)
	}
	if cap(touched) <= fewTouched {
		clear(touched)
		n.touched = touched[:0]
	}
}

// size counts the entries that hold one resource once.
func (n *namedTable) size() (count int) {
	for _, e := range n.entries {
		if len(e.variants) > 0 && e.counts() {
			count++
		}
	}
	return count
}

// arrival is one response on its way into the table.
type arrival struct {
	lane  *Lane
	store *store
	gen   uint32
	u     *update
	from  *xds.Provenance
	came  time.Time

	bodies []*xds.Variant // made of its resources; nil where the table had the same
	at     time.Time      // when it is taken up, if it waits
	// removals: it has only the removals of a response, or the endpoints that one emptied. moved:
	// it was put behind the routes.
	removals, moved bool
}
