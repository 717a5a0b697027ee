package relay

import (
	"slices"
	"time"
)

// Applied says what Apply did with an Update.
type Applied struct {
	// Changed is the number of resources whose content was new, changed or gone.
	Changed int
	// Unrequested is the number of resources, and errors of names, that matched no subscription and were ignored (RELAY-28),
	// or were more errors than are kept.
	Unrequested int
	// Released: the type was in quarantine, and is out of it by this answer (RELAY-92).
	Released bool
	// Untimed is the number of resources that had a TTL and came again without one: perhaps the origin tells TTLs in the other
	// dialect alone (TTL-14).
	Untimed int
	// Expired is the number of resources whose TTL was over when they came (TTL-13).
	Expired int
	// Resumed is the number of resources presented as initial versions that came back unchanged all the same; if that is most
	// of them, the origin ignores initial versions (RELAY-46).
	Resumed int
}

// Apply takes one checked response into the table, atomically (RELAY-82). Hashing and comparing happen outside the lock, which
// is held for pointer swaps only. Only the reader of the lane's present stream calls it. ok is false if the lane never
// asked for the type on this stream: such a response is neither ACKed nor NACKed (RELAY-33).
func (l *Lane) Apply(now time.Time, u *Update) (a Applied, ok bool) {
	gen, cfg := l.gen.Load(), l.group.origin.config()
	from := &receipt{
		typeURL: u.TypeURL, server: uint8(l.server.Load()), version: u.Version,
		shown: cfg.OriginVersions, canonical: cfg.CanonicalHash,
	}
	l.group.mu.Lock()
	s := l.group.shards[u.TypeURL]
	l.group.mu.Unlock()
	if s == nil || gen == 0 {
		return a, false
	}
	s.mu.Lock()
	kind := s.kindLocked(l.index, gen)
	var old []*Variant
	switch kind {
	case kindSet:
		old = s.heldLocked(u, func(name string) []*Variant {
			if m := s.star.members[name]; m != nil {
				return m.variants
			}
			return s.memberLocked(gen, name)
		})
	case kindNamed:
		old = s.heldLocked(u, func(name string) []*Variant {
			if vs := s.bodiesLocked(name); vs != nil {
				return vs
			}
			return s.memberLocked(gen, name)
		})
	}
	s.mu.Unlock()
	if kind == kindNone {
		return a, false
	}

	bodies := make([]*Variant, len(u.Resources))
	for i := range u.Resources {
		r := &u.Resources[i]
		version := r.Version
		if version == "" && from.shown && cfg.SotW {
			version = u.Version // SotW has no version of a resource but this (VER-5, VER-9)
		}
		expires, over := r.expiry(now)
		switch {
		case r.Any == nil, over: // a heartbeat is no content (TTL-2), and what has expired is none any more
		case old[i] != nil && old[i].same(r):
			if bodies[i] = old[i].withOriginVersion(from, version).lasting(expires); old[i].timed() && !r.HasTTL {
				a.Untimed++
			}
		default:
			bodies[i] = newVariant(from, r, version)
			bodies[i].endAt(expires)
		}
	}

	s.mu.Lock()
	s.now = now
	from.rev = s.nextRevLocked()
	if kind == kindSet {
		s.applySetsLocked(&a, u, bodies, gen, from)
	} else {
		s.applyNamedLocked(&a, u, bodies, gen)
		s.applyCollectionsLocked(&a, u, bodies, gen)
		if !u.Heartbeats {
			s.named.from = from
		}
	}
	a.Released = s.proveLocked()
	s.unlock()
	if a.Expired > 0 {
		l.group.origin.counts.Type(u.TypeURL).Expired(a.Expired)
	}
	if l.heard.Swap(gen) != gen || a.Released {
		l.group.tryNext()
	}
	return a, true
}

// kindLocked is what the lane's present stream asked of the type.
func (s *shard) kindLocked(lane laneIndex, gen uint32) kind {
	if lane == mainLane && s.mainGen == gen && s.mainKind == kindSet && (s.star.askedGen == gen || s.spacesGen == gen) {
		return kindSet
	}
	if s.named.firstGen[lane] == gen {
		return kindNamed
	}
	return kindNone
}

func (s *shard) heldLocked(u *Update, held func(name string) []*Variant) []*Variant {
	old := make([]*Variant, len(u.Resources))
	for i := range u.Resources {
		r := &u.Resources[i]
		old[i] = find(held(r.Name), r.Constraints.Key())
	}
	return old
}

func (s *shard) applyNamedLocked(a *Applied, u *Update, bodies []*Variant, gen uint32) {
	rev := s.rev
	touched := make(map[*entry]bool, len(bodies)) // true: the origin spoke of the name without a body
	for i, body := range bodies {
		r := &u.Resources[i]
		if body != nil && (len(body.aliases) > 0 || s.named.other.held[body.Name] != nil) {
			s.spreadLocked(a, body, touched, gen)
			continue
		}
		if r.Any == nil && s.noticeLocked(a, r, touched, gen) {
			continue
		}
		e := s.named.entries[r.Name]
		if h := s.named.other.held[r.Name]; h != nil {
			e = h.entries[0]
		}
		if e == nil {
			s.strayLocked(a, gen, r.Name)
			continue
		}
		if !e.askedOn(gen) {
			continue // the name lives on the other lane by now, which may have brought something newer
		}
		if body == nil {
			s.heardAllLocked(a, e, u, r, touched, gen)
			continue
		}
		touched[e] = false
		old := find(e.variants, body.Constraints.Key())
		if old == nil || old.Digest != body.Digest {
			a.Changed++
		} else {
			a.Resumed++
		}
		if old != body {
			s.holdLocked(e, body)
		}
	}
	remove := func(name, key string) {
		changed := false
		es := s.holdersLocked(name)
		if !slices.ContainsFunc(es, func(e *entry) bool { return e.askedOn(gen) }) {
			return // DEL-4
		}
		for _, e := range es {
			if find(e.variants, key) != nil {
				s.cutLocked(e, key)
				changed = true
			}
			touched[e], e.notice = true, nil
			e.lost = e.lost && e.name != name // it speaks of the alias itself
		}
		if h := s.named.other.held[name]; h != nil {
			s.listLocked(h)
		}
		if changed {
			a.Changed++
		}
	}
	for _, name := range u.Removed {
		remove(name, "")
	}
	for _, r := range u.RemovedVariants {
		remove(r.Name, r.Constraints)
	}
	if u.Full && !u.Bad && FullState(u.TypeURL) {
		inError := u.inError()
		for _, e := range s.named.entries {
			// Absence of a name that had been received is a deletion; of one never received it is not conclusive (ABS-3), nor of
			// one in error: the origin states an error once, and then leaves the name out of its lists (TP3).
			known := len(e.variants) > 0 || e.retired != nil && e.served // what was served was asked before all else on this stream
			if _, listed := touched[e]; !listed && known && !e.in(inError) && !e.kept(gen) && s.askedBeforeLocked(e, gen) {
				s.emptyLocked(e)
				touched[e] = true
				a.Changed++
			}
		}
	}
	s.confirmLaterLocked(u.Bad)
	for e, stated := range touched {
		if !slices.ContainsFunc(e.wants, func(w *want) bool { return w.refresh }) { // or else what it was told of was another body
			s.confirmLocked(e)
		}
		s.mindLocked(mortalKey{name: e.name}, e.variants)
		s.offerNamedLocked(e, rev, gen, stated)
	}
	for _, f := range u.Errors {
		es := s.holdersLocked(f.Name)
		switch {
		case len(es) == 0:
			s.strayErrorLocked(a, gen, f.Name)
		case slices.ContainsFunc(es, func(e *entry) bool { return e.askedOn(gen) }):
			for _, e := range es {
				if e.name == f.Name || !e.lost || s.group.origin.ends(f) {
					s.failLocked(e, f, rev, gen)
				}
			}
		}
	}
}

// in reports whether any of the names is the entry's, or that of the resource it holds.
func (e *entry) in(names map[string]bool) bool {
	return names[e.name] || len(e.variants) > 0 && names[e.variants[0].Name]
}

// askedOn reports whether the name was asked on the stream of generation gen.
func (e *entry) askedOn(gen uint32) bool {
	return slices.ContainsFunc(e.wants, func(w *want) bool { return w.asked == gen })
}

// kept reports whether the name is in an error, stated on the stream of generation gen, that leaves its body in use (ABS-8).
func (e *entry) kept(gen uint32) bool {
	return slices.ContainsFunc(e.wants, func(w *want) bool { return w.faulted && w.answered == gen })
}

// askedBeforeLocked reports whether every want of the entry is asked on the present stream, so that a full answer covers it.
func (s *shard) askedBeforeLocked(e *entry, gen uint32) bool {
	for _, w := range e.wants {
		if w.asked != gen {
			return false
		}
	}
	return len(e.wants) > 0
}
