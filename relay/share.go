package relay

import (
	"slices"
	"time"
)

// Sharing one upstream subscription between parameter maps (origins[].share, RELAY-69): a want that what another map's asked want has been
// answered with serves as well is not asked itself. That one represents it. When the two part, because the variant goes or is
// another, the want is asked, and keeps what it has until the origin has answered for its own map (RELAY-70).

// sharing is what a want has to do with those of other maps.
type sharing struct {
	rep  *want    // is asked in this one's place
	heir *want    // takes the place of this one, which is given up
	left *Variant // is kept until the origin has answered for the map
}

func (w *want) rep() *want {
	if w.sharing == nil {
		return nil
	}
	return w.sharing.rep
}

func (w *want) left() *Variant {
	if w.sharing == nil {
		return nil
	}
	return w.sharing.left
}

// unshare has the want stand for itself.
func (w *want) unshare() {
	if w.rep() != nil {
		w.sharing = nil
	}
}

// representativeLocked is the want of another map that may stand for this one; nil: none. Where it is never told that a variant has gone
// (DEL-3) nobody would learn that the two have parted.
func (s *shard) representativeLocked(w *want) (rep *want) {
	cfg := s.group.origin.config()
	if !cfg.Share || cfg.SotW && !FullState(s.typeURL) || w.refresh || w.left() != nil {
		return nil
	}
	s.othersLocked(func(x *shard) {
		e := x.named.entries[w.entry.name]
		if rep != nil || e == nil {
			return
		}
		for _, y := range e.wants {
			if y.rep() == nil && y.wanted() && y.asked != 0 && x.isAskedLocked(y) && y.answered == y.asked && y.serves(w) {
				rep = y
			}
		}
	})
	return rep
}

// serves reports whether what the want was answered with is what the other has.
func (w *want) serves(other *want) bool {
	a, b := w.chosen, other.chosen
	return a != nil && b != nil && !w.mute && a.Digest == b.Digest && !a.DoNotCache && w.fault == nil && other.fault == nil &&
		!w.entry.lost && a.Name == w.entry.name
}

// askedOn reports whether the name is asked on the stream of generation gen, by itself or by who represents it.
func (w *want) askedOn(gen uint32) bool {
	return w.asked == gen || w.rep() != nil && w.rep().asked == gen
}

// sharesLocked reports whether the want need not be asked, for there is one that stands for it.
func (s *shard) sharesLocked(w *want) bool {
	if w.representedLocked() {
		return true
	}
	w.unshare()
	rep := s.representativeLocked(w)
	if rep != nil {
		w.sharing = &sharing{rep: rep}
	}
	return rep != nil
}

// representedLocked reports whether the want is served by what stands for it.
func (w *want) representedLocked() bool {
	rep := w.rep()
	return rep != nil && rep.wanted() && rep.rep() == nil && rep.serves(w)
}

// partLocked has every want ask for itself that shares the name with one that does not serve it any more.
func (k *kin) partLocked(name string) {
	for _, s := range k.all {
		e := s.named.entries[name]
		if e == nil {
			continue
		}
		for _, w := range e.wants {
			if w.rep() != nil && !w.representedLocked() {
				w.unshare()
				s.lookLocked(w)
			}
		}
	}
}

// partTouchedLocked does so for names of which one map has lost something, not by a response, which other maps would have part in.
func (k *kin) partTouchedLocked(touched map[*entry]bool) {
	if !k.group.origin.config().Share {
		return
	}
	for e := range touched {
		k.partLocked(e.name)
	}
}

// partAllLocked does so for all names that a response speaks of.
func (k *kin) partAllLocked(u *Update) {
	if !k.group.origin.config().Share || len(k.all) < 2 {
		return
	}
	for i := range u.Resources {
		k.partLocked(u.Resources[i].Name)
	}
	for _, name := range u.Removed {
		k.partLocked(name)
	}
	for _, r := range u.RemovedVariants {
		k.partLocked(r.Name)
	}
	for _, e := range u.Errors {
		k.partLocked(e.Name)
	}
	if !u.Full || u.Bad {
		return
	}
	for _, s := range k.all { // a list says something by what it leaves out
		for name := range s.named.entries {
			k.partLocked(name)
		}
	}
}

// bequeathLocked hands over what a want that is given up stands for: one of those it represents is asked, and represents the rest
// (RELAY-71).
func (s *shard) bequeathLocked(w *want) {
	if !s.group.origin.config().Share {
		return
	}
	var heir *want
	s.othersLocked(func(x *shard) {
		e := x.named.entries[w.entry.name]
		if e == nil {
			return
		}
		for _, y := range e.wants {
			switch {
			case y.rep() != w:
			case heir == nil:
				heir = y
				y.unshare()
				x.lookLocked(y)
			default:
				y.sharing = &sharing{rep: heir}
			}
		}
	})
	if heir != nil {
		w.sharing = &sharing{heir: heir}
	}
}

// waitsForHeirLocked reports whether the want may not be unsubscribed yet: who takes its place has to be asked before (RELAY-71).
func (s *shard) waitsForHeirLocked(w *want) bool {
	if w.sharing == nil || w.sharing.heir == nil {
		return false
	}
	h := w.sharing.heir
	return h.rep() == nil && h.wanted() && h.asked != w.asked
}

// keepsLocked reports whether a removal is no word about what the shard holds of the name: it was never asked for this map. Then the name
// is asked, and what there is stays until the answer, or for cold_wait. gen is the stream's: on that of `*` it is a word about `*` alone.
func (s *shard) keepsLocked(p *portion, id identity, gen uint32, now time.Time) bool {
	e := s.named.entries[id.name]
	if e == nil || !e.askedOn(gen) || find(e.variants, id.constraints) == nil ||
		p != nil && slices.ContainsFunc(p.Resources, func(r Resource) bool { return r.Name == id.name && r.Any != nil }) {
		return false
	}
	kept := false
	for _, w := range e.wants {
		if w.rep() != nil && w.chosen != nil && w.chosen.Constraints.Key() == id.constraints {
			w.sharing, kept = &sharing{left: w.chosen}, true
			s.lookLocked(w)
			s.push(timer{at: now.Add(s.cfg().ColdWait), kind: keptEnd, shard: s, want: w})
		}
	}
	return kept
}

// awaitsLocked reports whether the name was asked for its map at last, and what is kept of it waits for the answer.
func (s *shard) awaitsLocked(name string, gen uint32) bool {
	e := s.named.entries[name]
	return e != nil && slices.ContainsFunc(e.wants, func(w *want) bool { return w.left() != nil && w.asked == gen })
}

// replaceLeftLocked adds to what a response says the removal of what was kept, if it answers for the map.
func (p *portion) replaceLeftLocked(s *shard, gen uint32) {
	answer := func(name string) {
		e := s.named.entries[name]
		if e == nil {
			return
		}
		for _, w := range e.wants {
			if v := w.left(); v != nil && w.asked == gen {
				w.sharing = nil
				listed := slices.ContainsFunc(p.Resources, func(r Resource) bool {
					return r.Name == name && r.Constraints.Key() == v.Constraints.Key()
				})
				if !listed {
					p.RemovedVariants = append(p.RemovedVariants, RemovedVariant{name, v.Constraints.Key(), v.Constraints})
				}
			}
		}
	}
	for i := range p.Resources {
		answer(p.Resources[i].Name)
	}
	for _, name := range p.Removed {
		answer(name)
	}
}

// endKept takes what was kept from a want for which the origin has not answered.
func (s *shard) endKept(w *want, now time.Time) {
	s.mu.Lock()
	if v := w.left(); v != nil && s.named.entries[w.entry.name] == w.entry {
		s.now, w.sharing = now, nil
		touched := map[*entry]bool{}
		rev := s.nextRevLocked()
		s.removeNameLocked(identity{w.entry.name, v.Constraints.Key()}, touched)
		s.offerTouchedLocked(touched, rev, w.asked)
		s.partTouchedLocked(touched)
	}
	s.unlock()
}
