package relay

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

// maxAudited bounds the resources that one audit remembers, and maxDrift the differences: about 40
// MiB at most.
const maxAudited, maxDrift = 250_000, 10_000

// Drift is how a resource differs between the table and its origin.
type Drift struct {
	Name string
	// Kind is DriftChanged, DriftMissing or DriftExtra.
	Kind string
}

// The kinds of Drift: held with other content, not held at all, and held though the origin does not
// have it.
const (
	DriftChanged = "changed"
	DriftMissing = "missing"
	DriftExtra   = "extra"
)

// Audit is what an origin says of one type on a stream apart from the lane's, to be compared with
// what the table holds. Nothing here changes the table, and no body is kept. Its methods are not
// for concurrent use.
type Audit struct {
	// Set once by Lane.Audit.
	lane  *Lane
	store *store
	gen   uint32 // of the lane's stream
	from  *xds.Provenance
	wild  bool

	heard map[auditKey]xds.Digest     // zero: stated not to exist
	sets  map[string]*constraints.Set // of what was heard, by key
	// names in error, and those with a TTL, which end by themselves
	unsure map[string]bool
	bad    bool // a part was refused: what was not heard may have been in it
	found  map[auditKey]difference
	looks  int
}

type auditKey struct{ name, constraints string }

// difference is between two digests, of which zero means that there is nothing.
type difference struct{ held, heard xds.Digest }

// Audit begins to compare a type that the lane's stream carries. asks is what to send on another
// stream; none if the type is not to be compared: what is private never is, nor is anything while
// the lane has no stream.
func (l *Lane) Audit(typeURL string, all bool) (a *Audit, asks []Ask) {
	gen := l.gen.Load()
	for k := range kinds(l.shards()) {
		if k.typeURL != typeURL || gen == 0 {
			continue
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if s := k.all; len(s) > 0 && !s[0].private() && len(k.askers(l.index, gen)) > 0 {
			asks = k.preview(l, all)
			a = &Audit{
				lane: l, store: k, gen: gen, wild: len(asks) > 0 && asks[0].Wildcard,
				from:  &xds.Provenance{TypeURL: typeURL, Canonical: k.group.config().CanonicalHash},
				heard: map[auditKey]xds.Digest{}, sets: map[string]*constraints.Set{}, unsure: map[string]bool{},
			}
		}
		break
	}
	return a, asks
}

// Types are the types that the lane may carry.
func (l *Lane) Types() (typeURLs []string) {
	for k := range kinds(l.shards()) {
		if l.carries(k) {
			typeURLs = append(typeURLs, k.typeURL)
		}
	}
	return typeURLs
}

// LongPause is how long nothing new must come until a set is complete where a wrong guess would
// delete (RELAY-6).
func (l *Lane) LongPause() time.Duration { return l.group.origin.table.config().FirmSettle }

// Hear takes up one response. news: it brought a name that was not heard before. more is false if
// it is too much to be compared.
func (a *Audit) Hear(now time.Time, u *xds.Update) (news, more bool) {
	if u.Heartbeats {
		return false, true
	}
	a.bad = a.bad || u.Bad
	if u.Full && !u.Bad && xds.FullState(u.TypeURL) {
		clear(a.heard)
	}
	for i := range u.Resources {
		r := &u.Resources[i]
		key := auditKey{r.Name, r.Constraints.Key()}
		if _, over := r.Expiry(now); r.HasTTL || over || r.Any == nil {
			a.unsure[r.Name] = true
			continue
		}
		if _, known := a.heard[key]; !known {
			news = true
		}
		a.heard[key], a.sets[key.constraints] = a.from.Digest(r), r.Constraints
	}
	for _, name := range u.Removed {
		a.heard[auditKey{name: name}] = xds.Digest{}
	}
	for _, r := range u.RemovedVariants {
		a.heard[auditKey{r.Name, r.Constraints}] = xds.Digest{}
	}
	for _, e := range u.Errors {
		a.unsure[e.Name] = true
	}
	return news, len(a.heard)+len(a.unsure) <= maxAudited
}

// Look compares. What differs may only be under way on one of the two streams, so of a second look
// only that is left in which neither side has changed since the first. ok is false if nothing can
// be said: the lane has another stream by now, or its sets are not at rest, or hold what they do on
// purpose (RELAY-97).
func (a *Audit) Look() (differences int, ok bool) {
	a.store.mu.Lock()
	found, ok := a.compare()
	a.store.mu.Unlock()
	if !ok {
		return 0, false
	}
	if a.looks > 0 {
		maps.DeleteFunc(found, func(key auditKey, d difference) bool { return a.found[key] != d })
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
		switch (xds.Digest{}) {
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

func (a *Audit) compare() (found map[auditKey]difference, ok bool) {
	k := a.store
	asked := k.askers(a.lane.index, a.gen)
	if !a.lane.live(a.gen) || !a.lane.carries(k) || len(asked) == 0 {
		return nil, false
	}
	if _, frozen := k.group.origin.Frozen(); frozen {
		return nil, false // what differs does so on purpose
	}
	found = map[auditKey]difference{}
	held := map[auditKey]bool{}
	compare := func(v *xds.Variant, whole bool) {
		key := auditKey{v.Name, v.Constraints.Key()}
		heard, spoken := a.heard[key]
		held[key] = true
		if v.Timed() || a.unsure[v.Name] || !spoken && (!whole || a.bad) || heard == v.Digest || len(found) >= maxDrift {
			return
		}
		found[key] = difference{v.Digest, heard}
	}
	ok = true
	for _, s := range asked {
		ok = a.compareShard(s, compare) && ok
	}
	for key, heard := range a.heard {
		if heard != (xds.Digest{}) && !held[key] && !a.unsure[key.name] && len(found) < maxDrift && a.wants(key) {
			found[key] = difference{heard: heard}
		}
	}
	return found, ok
}

// compareShard calls compare with all that is held for one parameter map. ok is false if it
// is not at rest, or holds what it does on purpose.
func (a *Audit) compareShard(s *shard, compare func(v *xds.Variant, whole bool)) (ok bool) {
	cfg := s.group.config()
	held, _ := s.guarded(true)
	ok = held == 0
	wholeSet := !cfg.SotW || cfg.absenceDeletes(s.typeURL)
	wholeNames := cfg.SotW && xds.FullState(s.typeURL)
	s.walk(func(t *set) bool {
		switch {
		case t == nil:
			return s.named.lane == a.lane.index
		case t.lane() != a.lane || !t.wanted():
			return false
		}
		ok = ok && t.live() && t.firm && !t.revived && t.sweepGen != a.gen && len(t.refetch) == 0
		return true
	}, func(k known) {
		if k.set == nil && (!k.entry.asksOn(a.gen) || k.entry.aliasDropped) {
			return
		}
		for _, v := range k.variants {
			compare(v, k.set == nil && wholeNames || k.set != nil && wholeSet && !k.set.nameErrors.keepsBody(k.name, a.gen))
		}
	})
	return ok
}

// wants reports whether a resource that is not held should be.
func (a *Audit) wants(key auditKey) (wanted bool) {
	if a.wild {
		return true
	}
	for _, s := range a.store.shardsMatching(a.sets[key.constraints]) {
		wanted = wanted || s.star.askedGen == a.gen && s.star.lane() == a.lane
		if e := s.named.entries[key.name]; e != nil && e.asksOn(a.gen) && (len(e.variants) == 0 || key.constraints != "") {
			return true
		}
		s.collections.eachOf(a.gen, key.name, func(*set) { wanted = true })
	}
	return wanted
}

// Renew has the lane opened anew and everything asked from the beginning, so that what drifted is
// told again and what the origin does not have is swept. The cache stays in use meanwhile, and the
// bounds on removals hold.
func (l *Lane) Renew() {
	l.Doubt()
	l.reopenSoon()
}
