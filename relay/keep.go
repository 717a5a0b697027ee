package relay

import (
	"math"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Keep says what a state-of-the-world list of Clusters must not leave out yet: routes that are
// still to be written to the same client may replace routes that point to it (ORD-3). Revisions
// are those of the table.
type Keep struct {
	// Pending is the revision of the oldest update of another type that has to be written first;
	// MaxUint64: there is none.
	Pending uint64
	// PendingEmpty is the same for endpoints that are sent empty.
	PendingEmpty uint64
	// Seen is the revision up to which Pending was computed: what was removed after it is kept
	// until the next Take.
	Seen uint64
	// Hold is how long each removed Cluster is kept at least (ORD-11), and HoldNamed how long one
	// that the client asked for by name (ORD-10).
	Hold, HoldNamed time.Duration
	// HoldReturned is the same for a client that comes back: it may have yet to ask for its routes
	// (comeback.go).
	HoldReturned time.Duration
}

// keepNothing defers no removal.
var keepNothing = Keep{Pending: math.MaxUint64, PendingEmpty: math.MaxUint64, Seen: math.MaxUint64}

// pending is PendingEmpty for endpoints that are sent empty, and else Pending.
func (k *Keep) pending(x *kept) uint64 {
	if x.empty {
		return k.PendingEmpty
	}
	return k.Pending
}

// kept is a deferred removal: a Cluster that is gone here, and still in the client's list. For
// endpoints it is the statement that they are gone or empty, which is held back. It has no body
// then, since no list leaves endpoints out.
type kept struct {
	body  *Variant
	until uint64    // it is removed when nothing is pending up to this revision
	went  time.Time // when the removal would have been sent
	named bool      // the client asked for it by name
	set   bool      // the client had it with a set
	back  bool      // the client came back with it
	empty bool      // it is the statement that endpoints are empty
	news  bool      // the client has the body in another form
}

// goes reports whether the removal need not be deferred any longer.
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

// mayKeep reports whether the removal of the name may be deferred. It may if the client was sent
// the resource, or says that it holds it, and the resource had no TTL: it must not outlive that
// (RELAY-50).
func (r *record) mayKeep() bool {
	if f := r.entry.fault; f != nil && f.HadTTL {
		return false
	}
	return r.has()
}

// has reports whether the client was sent the resource by the name, or says that it holds it.
func (r *record) has() bool { return r.sent != (xds.Digest{}) || r.is(claimed|returned) }

// wasSent reports whether the client was sent what it names, by name or with a set, or says that
// it holds it. The flag holds alone does not tell: it also marks records whose absence has still
// to be sent (due).
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

// Keeps reports whether a removal is deferred, and since when the oldest is. A list that waits for
// its set or for a name removes nothing (RELAY-7); its Sub becomes Pending when it can be sent.
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

// LetsGo reports whether the next answer would carry a removal that Keeps reports as deferred.
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
// (RELAY-7). If there are several sets, one of them is waited for only if the client may hold what
// is missing.
func (s *Sub) waits() bool {
	waits, all := false, s.records.len() == 0
	for p := s.pos; p != nil; p = p.also {
		one := p.waits()
		waits, all = waits || one, all && one
	}
	alone := s.star() != nil && s.pos.also == nil
	return waits && (s.holds || all || alone) || s.holds && !s.resolved()
}

// keeps reports whether the removal of a name is deferred.
func (s *Sub) keeps(name string) bool {
	_, is := s.kept[name]
	return is
}

// letGo ends the deferral of names whose time has come, that exist again, or that are no longer
// subscribed. It reports whether the list has changed by that.
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

// keepMembers defers the removal of members that left the set since the client was sent it.
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

// keep defers a removal, if it has to be deferred, and reports whether it does.
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

// withKept is a list with the Clusters whose removal is deferred.
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

// keptNews is the endpoints that deferred Clusters of an answer need if the client had these in
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

// keptSum is the version hash of a list with the Clusters whose removal is deferred.
func (s *Sub) keptSum(all xds.Sum) xds.Sum {
	for _, x := range s.kept {
		if x.body != nil {
			all.Add(x.body.Digest)
		}
	}
	return all
}
