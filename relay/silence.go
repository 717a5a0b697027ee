package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Names that the origin leaves unanswered, or answers with an error.

// fail applies an error that the origin states of a name. The body is removed or stays (ABS-8).
// Either counts as an answer.
func (n *namedTable) fail(e *entry, nameError *NameError, rev uint64, gen uint32) {
	n.revise(e)
	if n.shard.group.origin.ends(nameError) {
		n.markConfirmed(e) // another error would state nothing about the body
		known := e.answeredOn(gen) && e.nameError.Same(nameError)
		e.onWords(nameError)
		// This includes clients that were sent an absence. The same error is new to clients that
		// came since the name was asked anew (RELAY-99).
		if !known {
			e.notify(rev)
		}
		n.empty(e)
		e.notice = nil
		n.offer(e, rev, gen, true)
		return
	}
	known := e.answeredOn(gen) && e.nameError.Same(nameError)
	if !e.nameError.Same(nameError) {
		e.rev = rev
	}
	e.onError(nameError, gen)
	if !known { // on a new stream the same error is new to clients that came since (RELAY-38)
		e.notify(rev)
	}
}

// startSilence sets the timer for the names just asked.
func (n *namedTable) startSilence() {
	if n.silentAt.IsZero() && len(n.unheard) > 0 {
		n.silentAt = n.unheard[0].at.Add(n.shard.group.origin.patience())
		n.shard.push(timer{at: n.silentAt, kind: silentNames, shard: n.shard})
	}
}

// silent looks at the names that were asked 15 s ago. A name that a healthy origin has left
// unanswered is absent if the origin speaks SotW (ABS-2, ABS-5), or in error if the configuration
// says so (ABS-6). Otherwise it is counted, and what waited for it no longer does (RELAY-6).
// Silence about a body whose version was presented means that it is current. It locks the shard.
func (n *namedTable) silent(now time.Time) {
	s := n.shard
	s.mu.Lock()
	s.now = now
	n.silentAt = time.Time{}
	i, patience := 0, s.group.origin.patience()
	for ; i < len(n.unheard) && !n.unheard[i].at.Add(patience).After(now); i++ {
		if u := n.unheard[i]; u.isLast() && n.isAsked(u.entry) {
			n.heardNothing(u.entry)
		}
		n.unheard[i] = unheard{}
	}
	n.unheard = n.unheard[i:]
	n.startSilence()
	s.unlock()
}

// isLast reports whether the question is the last of its name, and no other is about to be asked:
// that one has 15 s of its own (testdata/uncached_asked_anew.txt).
func (u *unheard) isLast() bool {
	return u.entry.asksOn(u.gen) && u.entry.asks == u.asks && !u.entry.refresh
}

// heardNothing applies that the origin has stated nothing of a name for patience.
func (n *namedTable) heardNothing(e *entry) {
	n.revise(e)
	if e.isDoubted() {
		n.endDoubt(e)
	}
	waited, nameError, old := !e.isAnswered(), e.nameError, e.isOld()
	news := e.onSilence(n.quiet())
	if e.unconfirmed {
		e.markRecords(n.shard.rev) // lists that wait for it do so no longer
	}
	if !e.hasLeft() || !xds.FullState(n.shard.typeURL) { // else a new stream tells (lapsedSilent)
		e.onCurrent()
		n.noteCurrent(e, old)
	}
	switch {
	case news:
		if waited {
			n.shard.unanswered++
		}
		e.notify(n.shard.rev)
	case e.chosen != nil && !e.aliasDropped:
		if nameError != e.nameError {
			e.cured(n.shard.rev)
		}
		n.lapsedSilent(e)
	}
}

// quiet is what the silence of the origin means.
func (n *namedTable) quiet() quiet {
	switch cfg := n.shard.group.config(); {
	case cfg.SotW && cfg.AbsenceTransient:
		return meansError
	case cfg.SotW:
		return meansAbsent
	default:
		return meansNothing
	}
}

// A stream to an origin that understands parameters begins as if nothing were held. No versions can
// be presented (DYN-20), so the origin does not state what went while there was no stream. The
// first variant of a name that the stream brings replaces what the map held from earlier streams.
// It is harder to know that there is none for the map: the plain name in removed_resources may be
// meant for another map, and says nothing about variants with constraints (DYN-13). So the name is
// in doubt. If no variant comes within patience, the removal was meant for this map.

// stale is what the shard holds of a name from earlier streams, at the moment when the stream of
// generation gen speaks of the name for the first time.
func (s *shard) stale(name string, gen uint32) (vs []*xds.Variant) {
	if e := s.named.entries[name]; e != nil && !e.seenOn(gen) && e.asksOn(gen) {
		vs = append(vs, e.variants...)
	}
	s.sets(func(t *set) {
		if m := t.members.get(name); m != nil && !m.seenOn(gen) && t.askedGen == gen {
			vs = append(vs, m.variants...)
		}
	})
	return vs
}

// doubt applies a removal of a name, or of a variant that matches the map, while something is held
// of the name that the stream has not spoken of. If variants with other constraints are held, the
// name is in doubt.
//
// early: so is the variant that the removal names, as the origin may have made the removal before
// it read that the name is asked for this map. That is so if the map has the variant from another
// map (RELAY-68), and has no answer of its own. Then it keeps the variant until that answer
// (RELAY-70), which may replace the variant (DYN-10). A client would otherwise be sent an absence
// that was never stated (ABS-5). A client of locators is sent at once that the variant is gone
// (DYN-14). That was stated, and another of its maps may have the variant that replaces it.
func (n *namedTable) doubt(now time.Time, id xds.Identity, gen uint32) (early bool) {
	e := n.entries[id.Name]
	if e == nil || e.seenOn(gen) || !e.asksOn(gen) {
		return false
	}
	early = (e.isBorrowed() || e.isDoubted()) && !e.answeredOn(gen) && !e.isLocated()
	if early || slices.ContainsFunc(e.variants, func(v *xds.Variant) bool { return v.Constraints.Key() != id.Constraints }) {
		e.onDoubted()
		n.revise(e)
		n.unheard = append(n.unheard, unheard{e, gen, e.asks, now})
		n.startSilence()
	}
	return early
}

// isLocated reports whether a client of the name asks by locators.
func (e *entry) isLocated() bool {
	r := e.head
	for r != nil && !r.sub.located {
		r = r.next
	}
	return r != nil
}

// endDoubt removes what is held of a name in doubt.
func (n *namedTable) endDoubt(e *entry) {
	gen := e.asked()
	ps := make([]pendingRemoval, len(e.variants))
	for i, v := range e.variants {
		ps[i].Identity = xds.Identity{Name: e.name, Constraints: v.Constraints.Key()}
	}
	kept, _ := n.screen(ps, n.hears(gen), false)
	rev := n.shard.nextRev()
	for _, p := range ps {
		if !kept[p.Identity] {
			n.removeName(p.Identity)
		}
	}
	n.offerTouched(rev, gen)
}
