package relay

import (
	"math"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Keep says what a state-of-the-world list of Clusters must not let go of yet: routes that are
// still to be written to the same client may point to it, in place of routes that did (ORD-3).
// Revisions are those of the table.
type Keep struct {
	// Pending is the revision of the oldest update of another type that has to be written first;
	// MaxUint64: there is none.
	Pending uint64
	// PendingEmpty is the same for the word that endpoints are empty.
	PendingEmpty uint64
	// Seen is the revision up to which Pending was looked for: what went after it is kept for the
	// next Take.
	Seen uint64
	// Hold is how long everything that went is kept at least (ORD-11), and HoldNamed what the
	// client asked for by name (ORD-10).
	Hold, HoldNamed time.Duration
	// HoldReturned is how long what went is kept at least of a client that comes back: it may have
	// yet to ask for its routes (comeback.go).
	HoldReturned time.Duration
}

// keepNothing lets everything go.
var keepNothing = Keep{Pending: math.MaxUint64, PendingEmpty: math.MaxUint64, Seen: math.MaxUint64}

// pending is Pending, or PendingEmpty.
func (k *Keep) pending(x *kept) uint64 {
	if x.empty {
		return k.PendingEmpty
	}
	return k.Pending
}

// kept is a Cluster that is gone, and still told. Of endpoints it is the word that they are gone,
// or empty, which is kept back, and there is no body: no list leaves them out.
type kept struct {
	body  *Variant
	until uint64    // it goes when nothing is pending up to this revision
	went  time.Time // when it would have been told
	named bool      // the client asked for it by name
	set   bool      // the client had it with a set
	back  bool      // the client came back with it
	empty bool      // it is the word that endpoints are empty
	news  bool      // the client has the body in another form
}

// goes reports whether what is kept need not be kept any longer.
func (x *kept) goes(now time.Time, k *Keep) bool {
	hold := k.Hold
	if x.named {
		hold = max(hold, k.HoldNamed)
	}
	if x.back {
		hold = max(hold, k.HoldReturned)
	}
	return k.pending(x) > x.until && now.Sub(x.went) >= hold
}

// mayKeep reports whether the removal of the name may be held back: the client was sent the
// resource, or says that it holds it, and the resource had no TTL, which it must not outlive
// (RELAY-50).
func (r *record) mayKeep() bool {
	if f := r.entry.fault; f != nil && f.HadTTL {
		return false
	}
	return r.has()
}

// has reports whether the client was sent the resource by the name, or says that it holds it.
func (r *record) has() bool { return r.sent != (xds.Digest{}) || r.is(claimed|returned) }

// wasSent reports whether the client was sent what it names, by name or with a set, or says
// that it holds it. Records are also marked so of which it is only owed that there is nothing
// (due).
func (s *Sub) wasSent(r *record) (sent bool) {
	if !r.is(holds) || r.has() {
		return r.is(holds)
	}
	s.covering(r.entry.name, func(p *position) {
		sent = sent || !p.fresh && p.view.hadAt(p.view.items[r.entry.name], p.sent)
	})
	return sent
}

func (v *view) has(name string) bool {
	it := v.items[name]
	return it != nil && !it.dead
}

// Keeps reports whether something that is gone is kept, and since when the oldest is. A list that
// waits for its set or for a name lets go of nothing (RELAY-7); its Sub becomes Pending when it
// can.
func (s *Sub) Keeps() (since time.Time, keeps bool) {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	if len(s.kept) == 0 || s.answersWhole() && s.waits() {
		return time.Time{}, false
	}
	for _, x := range s.kept {
		if since.IsZero() || x.went.Before(since) {
			since = x.went
		}
	}
	return since, true
}

// LetsGo reports whether the next answer would let go of something that Keeps tells of.
func (s *Sub) LetsGo(now time.Time, k Keep) bool {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	if len(s.kept) == 0 || s.answersWhole() && s.waits() {
		return false
	}
	for _, x := range s.kept {
		if x.goes(now, &k) {
			return true
		}
	}
	return false
}

// waits reports whether a list that is sent whole has to wait, for its set or for a name
// (RELAY-7). One of several sets is waited for only if the client may hold what is missing.
func (s *Sub) waits() bool {
	waits, all := false, s.records.len() == 0
	for p := s.pos; p != nil; p = p.also {
		one := p.waits()
		waits, all = waits || one, all && one
	}
	alone := s.star() != nil && s.pos.also == nil
	return waits && (s.holds || all || alone) || s.holds && !s.resolved()
}

// keeps reports whether a name that is gone is still told.
func (s *Sub) keeps(name string) bool {
	_, is := s.kept[name]
	return is
}

// letGo drops what need not be kept any longer, is there again, or is not subscribed any
// more. It reports whether something has to be told for it.
func (s *Sub) letGo(k Keep) (changed bool) {
	for name, x := range s.kept {
		switch r := s.record(name); {
		case x.empty && r != nil:
			if goes := x.goes(s.shard.now, &k); goes || !s.parting(r) {
				delete(s.kept, name)
				r.flags |= parted
				s.relook(r)
			}
		case s.pos != nil && s.held(name) != nil, r != nil && s.body(r) != nil:
			delete(s.kept, name) // what it is now is told anyway
		case r == nil && (x.named && !x.set || !s.covered(name)): // ORD-10: until it drops the name
			delete(s.kept, name)
		case x.goes(s.shard.now, &k):
			delete(s.kept, name)
			changed = changed || x.body != nil
			if r != nil && !r.is(dirty) { // an error may be told with it
				r.flags |= dirty
				s.dirty = append(s.dirty, r)
			}
		}
	}
	if len(s.kept) == 0 {
		s.kept = nil
	}
	return changed
}

// keepMembers keeps what went from the set since the client was sent it.
func (s *Sub) keepMembers(k Keep) {
	for p := s.pos; p != nil && k != keepNothing; p = p.also {
		if p.fresh || p.view.contentRev <= p.sent {
			continue
		}
		for _, name := range p.view.since(p.sent).Removed {
			if r := s.record(name); r != nil && s.body(r) != nil || s.held(name) != nil {
				continue // held by name (RELAY-25), or in another set
			}
			it := p.view.items[name]
			s.keep(name, kept{body: it.variant, until: it.rev, set: true}, k)
		}
	}
}

// keep keeps one that went at revision until, if it has to be.
func (s *Sub) keep(name string, x kept, k Keep) bool {
	if hold := k.Hold > 0 || x.named && k.HoldNamed > 0 || x.back && k.HoldReturned > 0; !hold && k.pending(&x) == math.MaxUint64 && x.until <= k.Seen {
		return false
	}
	if s.kept == nil {
		s.kept = map[string]kept{}
	}
	x.until, x.went, x.set = max(x.until, k.Seen), s.shard.now, x.set || s.kept[name].set
	s.kept[name] = x
	return true
}

// withKept is a list with what is kept.
func (s *Sub) withKept(b *Body) *Body {
	if len(s.kept) == 0 {
		return b
	}
	own := &Body{nameless: b.nameless, Variants: make([]*Variant, 0, len(b.Variants)+len(s.kept))}
	own.Variants = append(own.Variants, b.Variants...)
	for _, x := range s.kept {
		if x.body != nil {
			own.Variants = append(own.Variants, x.body)
		}
	}
	return own
}

// keptNews is what endpoints the kept Clusters of an answer need that the client had in
// another form before (WARM-1).
func (s *Sub) keptNews() (endpoints []string) {
	for name, x := range s.kept {
		if x.news {
			endpoints = append(endpoints, needs([]*Variant{x.body})...)
			x.news = false
			s.kept[name] = x
		}
	}
	return endpoints
}

// keptSum is the version hash of a list with what is kept.
func (s *Sub) keptSum(all xds.Sum) xds.Sum {
	for _, x := range s.kept {
		if x.body != nil {
			all.Add(x.body.Digest)
		}
	}
	return all
}
