package relay

import (
	"slices"
	"strings"
	"time"
)

// maxAudited bounds the resources that one audit remembers, and maxDrift the differences: about 40 MiB at most.
const maxAudited, maxDrift = 250_000, 10_000

// Drift is how a resource differs between the table and its origin.
type Drift struct {
	Name string
	// Kind is DriftChanged, DriftMissing or DriftExtra.
	Kind string
}

// The kinds of Drift: held with other content, not held at all, and held though the origin does not have it.
const (
	DriftChanged = "changed"
	DriftMissing = "missing"
	DriftExtra   = "extra"
)

// Audit is what an origin says of one type on a stream apart from the lane's, to be compared with what the table holds. Nothing here
// changes the table, and no body is kept. Its methods are not for concurrent use.
type Audit struct {
	// Set once by Lane.Audit.
	lane  *Lane
	shard *shard
	gen   uint32 // of the lane's stream
	from  *receipt
	wild  bool

	heard  map[auditKey]Digest // zero: stated not to exist
	unsure map[string]bool     // names in error, and those with a TTL, which end by themselves
	bad    bool                // a part was refused: what was not heard may have been in it
	found  map[auditKey]difference
	looks  int
}

type auditKey struct{ name, constraints string }

// difference is between two digests, of which zero means that there is nothing.
type difference struct{ held, heard Digest }

// Audit begins to compare a type that the lane's stream carries. asks is what to send on another stream; none if the type is not to be
// compared: what is private never is, nor is anything while the lane has no stream.
func (l *Lane) Audit(typeURL string, all bool) (a *Audit, asks []Ask) {
	i := slices.IndexFunc(l.shards(), func(s *shard) bool { return s.typeURL == typeURL })
	if gen := l.gen.Load(); gen != 0 && i >= 0 {
		s := l.shards()[i]
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.private() && s.wantsLaneLocked(l) && s.kindLocked(l.index, gen) != kindNone {
			asks = s.previewLocked(l.index, all)
			cfg := s.group.origin.config()
			a = &Audit{
				lane: l, shard: s, gen: gen, wild: len(asks) > 0 && asks[0].Wildcard,
				from:  &receipt{typeURL: typeURL, canonical: cfg.CanonicalHash},
				heard: map[auditKey]Digest{}, unsure: map[string]bool{},
			}
		}
	}
	return a, asks
}

// Types are the types that the lane may carry.
func (l *Lane) Types() (typeURLs []string) {
	for _, s := range l.shards() {
		if l.carries(s) {
			typeURLs = append(typeURLs, s.typeURL)
		}
	}
	return typeURLs
}

// LongPause is how long nothing new must come until a set is complete where a wrong guess would delete (RELAY-6).
func (l *Lane) LongPause() time.Duration { return firmFactor * l.group.origin.table.config().Settle }

// Hear takes up one response. news: it brought a name that was not heard before. more is false if it is too much to be compared.
func (a *Audit) Hear(now time.Time, u *Update) (news, more bool) {
	if u.Heartbeats {
		return false, true
	}
	a.bad = a.bad || u.Bad
	if u.Full && !u.Bad && FullState(u.TypeURL) {
		clear(a.heard)
	}
	for i := range u.Resources {
		r := &u.Resources[i]
		key := auditKey{r.Name, r.Constraints.Key()}
		if _, over := r.expiry(now); r.HasTTL || over || r.Any == nil {
			a.unsure[r.Name] = true
			continue
		}
		if _, known := a.heard[key]; !known {
			news = true
		}
		a.heard[key] = a.from.digest(r)
	}
	for _, name := range u.Removed {
		a.heard[auditKey{name: name}] = Digest{}
	}
	for _, r := range u.RemovedVariants {
		a.heard[auditKey{r.Name, r.Constraints}] = Digest{}
	}
	for _, e := range u.Errors {
		a.unsure[e.Name] = true
	}
	return news, len(a.heard)+len(a.unsure) <= maxAudited
}

// Look compares. What differs may only be under way on one of the two streams, so of a second look only that is left in which neither
// side has changed since the first. ok is false if nothing can be said: the lane has another stream by now, or its sets are not
// at rest, or hold what they do on purpose (RELAY-97).
func (a *Audit) Look() (differences int, ok bool) {
	a.shard.mu.Lock()
	found, ok := a.compareLocked()
	a.shard.mu.Unlock()
	if !ok {
		return 0, false
	}
	if a.looks > 0 {
		for key, d := range found {
			if a.found[key] != d {
				delete(found, key)
			}
		}
	}
	a.found = found
	a.looks++
	return len(found), true
}

// Drift is what the last Look found, by name.
func (a *Audit) Drift() []Drift {
	all := make([]Drift, 0, len(a.found))
	for key, d := range a.found {
		kind := DriftChanged
		switch (Digest{}) {
		case d.held:
			kind = DriftMissing
		case d.heard:
			kind = DriftExtra
		}
		all = append(all, Drift{Name: key.name, Kind: kind})
	}
	slices.SortFunc(all, func(x, y Drift) int { return strings.Compare(x.Name, y.Name) })
	return all
}

func (a *Audit) compareLocked() (found map[auditKey]difference, ok bool) {
	s, cfg := a.shard, a.shard.group.origin.config()
	if !a.lane.live(a.gen) || !a.lane.carries(s) || s.kindLocked(a.lane.index, a.gen) == kindNone {
		return nil, false
	}
	_, frozen := s.group.origin.Frozen()
	if held, _ := s.guardedLocked(); frozen || held > 0 {
		return nil, false // what differs does so on purpose
	}
	found = map[auditKey]difference{}
	held := map[auditKey]bool{}
	compare := func(v *Variant, whole bool) {
		key := auditKey{v.Name, v.Constraints.Key()}
		heard, spoken := a.heard[key]
		held[key] = true
		if v.timed() || a.unsure[v.Name] || !spoken && (!whole || a.bad) || heard == v.Digest || len(found) >= maxDrift {
			return
		}
		found[key] = difference{v.Digest, heard}
	}
	ok = true
	wholeSet := !cfg.SotW || absenceDeletes(s.typeURL) || slices.Contains(cfg.AbsenceDeletes, s.typeURL)
	s.setsLocked(func(t *set) {
		if t.lane() != a.lane || !t.wantedLocked() {
			return
		}
		ok = ok && t.liveLocked() && t.firm && !t.revived && t.sweepGen != a.gen && len(t.doubted) == 0
		for _, m := range t.members {
			for _, v := range m.variants {
				compare(v, wholeSet && !t.faults.keeps(m.name, a.gen))
			}
		}
	})
	if s.named.lane == a.lane.index {
		for _, e := range s.named.entries {
			for _, v := range e.variants {
				if e.askedOn(a.gen) && !e.lost {
					compare(v, cfg.SotW && FullState(s.typeURL))
				}
			}
		}
	}
	for key, heard := range a.heard {
		if heard != (Digest{}) && !held[key] && !a.unsure[key.name] && len(found) < maxDrift && a.wantsLocked(key.name) {
			found[key] = difference{heard: heard}
		}
	}
	return found, ok
}

// wantsLocked reports whether a resource that is not held should be.
func (a *Audit) wantsLocked(name string) (wanted bool) {
	s := a.shard
	if a.wild {
		return true
	}
	if e := s.named.entries[name]; e != nil && e.askedOn(a.gen) && len(e.variants) == 0 {
		return true
	}
	s.eachOfLocked(a.gen, name, func(*set) { wanted = true })
	return wanted
}

// Renew has the lane opened anew and everything asked from the beginning, so that what drifted is told again and what the origin does
// not have is swept. The cache stays in use meanwhile, and the bounds on removals hold.
func (l *Lane) Renew() {
	l.Doubt()
	l.reopenSoon()
}
