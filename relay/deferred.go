package relay

import (
	"math"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Deferral says what a state-of-the-world list of Clusters must not leave out yet: routes that are
// still to be written to the same client may replace routes that point to it (ORD-3). Revisions
// are those of the table.
type Deferral struct {
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

// deferNothing defers no removal.
var deferNothing = Deferral{Pending: math.MaxUint64, PendingEmpty: math.MaxUint64, Seen: math.MaxUint64}

// pending is PendingEmpty for endpoints that are sent empty, and else Pending.
func (k *Deferral) pending(x *deferredRemoval) uint64 {
	if x.empty {
		return k.PendingEmpty
	}
	return k.Pending
}

// deferredRemoval is a deferred removal: a Cluster that is gone here, and still in the client's
// list. For endpoints it is the statement that they are gone or empty, which is held back. It has
// no body then, since no list leaves endpoints out.
type deferredRemoval struct {
	body      *xds.Variant
	until     uint64    // it is removed when nothing is pending up to this revision
	since     time.Time // when the removal would have been sent
	named     bool      // the client asked for it by name
	set       bool      // the client had it with a set
	returned  bool      // the client came back with it
	empty     bool      // it is the statement that endpoints are empty
	otherBody bool      // the client has the body in another form
}

// due reports whether the removal need not be deferred any longer.
func (x *deferredRemoval) due(now time.Time, k *Deferral) bool {
	hold := k.Hold
	if x.named {
		hold = max(hold, k.HoldNamed)
	}
	if x.returned {
		hold = max(hold, k.HoldReturned)
	}
	return k.pending(x) > x.until && now.Sub(x.since) >= hold
}

// mayDefer reports whether the removal of the name may be deferred. It may if the client was sent
// the resource, or says that it holds it, and the resource had no TTL: it must not outlive that
// (RELAY-50).
func (r *record) mayDefer() bool {
	if f := r.entry.nameError; f != nil && f.HadTTL {
		return false
	}
	return r.has()
}

// has reports whether the client was sent the resource by the name, or says that it holds it.
func (r *record) has() bool { return r.sent != (xds.Digest{}) || r.is(claimed|returned) }

// wasSent reports whether the client was sent what it names, by name or with a set, or says that it
// holds it. The flag holds alone does not prove that: it also marks records whose absence has still
// to be sent (due).
func (r *record) wasSent() (sent bool) {
	if !r.is(holds) || r.has() {
		return r.is(holds)
	}
	r.sub.sets.covering(r.entry.name, func(p *position) {
		sent = sent || !p.fresh && p.view.hadAt(p.view.item(r.entry.name), p.sent)
	})
	return sent
}

func (v *view) has(name string) bool {
	it := v.item(name)
	return it != nil && !it.dead
}

// Deferred reports whether a removal is deferred, and since when the oldest is. A list that waits
// for its set or for a name removes nothing (RELAY-7); its Sub becomes Pending when it can be sent.
func (s *Sub) Deferred() (since time.Time, keeps bool) {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	if len(s.deferred) == 0 || s.answersWhole() && s.listBlocked() {
		return time.Time{}, false
	}
	return s.deferred.oldest(), true
}

// DeferredDue reports whether the next answer would carry a removal that Deferred reports as
// deferred.
func (s *Sub) DeferredDue(now time.Time, k Deferral) bool {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	return s.deferred.anyDue(now, &k) && !(s.answersWhole() && s.listBlocked())
}

// deferRemoval defers a removal, if it has to be deferred, and reports whether it does.
func (t *take) deferRemoval(name string, x deferredRemoval) bool {
	return t.sub.deferred.add(name, x, t.sub.shard.now, &t.k)
}

// endDeferrals ends the deferral of names whose time has come, that exist again, or that are no
// longer subscribed. It reports whether the list has changed by that.
func (t *take) endDeferrals() (changed bool) {
	s := t.sub
	for name, x := range s.deferred {
		switch r := s.record(name); {
		case x.empty && r != nil:
			if goes := x.due(s.shard.now, &t.k); goes || !r.orphaned() {
				delete(s.deferred, name)
				r.flags |= sendEmpty
				r.lookAgain()
			}
		case s.sets.live(name) != nil, r != nil && r.body() != nil:
			delete(s.deferred, name) // its present body is sent anyway
		case r == nil && (x.named && !x.set || !s.sets.covered(name)): // ORD-10: until it drops the name
			delete(s.deferred, name)
		case x.due(s.shard.now, &t.k):
			delete(s.deferred, name)
			changed = changed || x.body != nil
			if r != nil {
				r.lookAgain() // its error may be sent with the list
			}
		}
	}
	if len(s.deferred) == 0 {
		s.deferred = nil
	}
	return changed
}

// deferMembers defers the removal of members that left the set since the client was sent it.
func (t *take) deferMembers() {
	s := t.sub
	for p := s.sets.first; p != nil && t.k != deferNothing; p = p.also {
		if p.fresh || p.view.contentRev <= p.sent {
			continue
		}
		for _, name := range p.view.since(p.sent).Removed {
			if r := s.record(name); r != nil && r.body() != nil || s.sets.live(name) != nil {
				continue // held by name (RELAY-25), or in another set
			}
			it := p.view.item(name)
			changed := p.view.lastBody(it) > p.sent
			t.deferRemoval(name, deferredRemoval{body: it.variant, until: it.rev, set: true, otherBody: changed})
		}
	}
}

// deferrals are the removals that a client has not been sent yet, by name (ORD-3); nil: there are
// none.
type deferrals map[string]deferredRemoval

// has reports whether the removal of a name is deferred.
func (d deferrals) has(name string) bool {
	_, is := d[name]
	return is
}

// add defers a removal that would be sent now, if it has to be deferred, and reports whether it
// does.
func (d *deferrals) add(name string, x deferredRemoval, now time.Time, k *Deferral) bool {
	hold := k.Hold > 0 || x.named && k.HoldNamed > 0 || x.returned && k.HoldReturned > 0
	if !hold && k.pending(&x) == math.MaxUint64 && x.until <= k.Seen {
		return false
	}
	if *d == nil {
		*d = deferrals{}
	}
	x.until, x.since = max(x.until, k.Seen), now
	x.set, x.otherBody = x.set || (*d)[name].set, x.otherBody || (*d)[name].otherBody
	(*d)[name] = x
	return true
}

// oldest is when the removal would have been sent that is deferred longest.
func (d deferrals) oldest() (since time.Time) {
	for _, x := range d {
		if since.IsZero() || x.since.Before(since) {
			since = x.since
		}
	}
	return since
}

// anyDue reports whether any of the removals need not be deferred any longer.
func (d deferrals) anyDue(now time.Time, k *Deferral) bool {
	for _, x := range d {
		if x.due(now, k) {
			return true
		}
	}
	return false
}

// addTo is a list with the Clusters whose removal is deferred.
func (d deferrals) addTo(b *Body) *Body {
	if len(d) == 0 {
		return b
	}
	own := &Body{nameless: b.nameless, Variants: make([]*xds.Variant, 0, len(b.Variants)+len(d))}
	own.Variants = append(own.Variants, b.Variants...)
	for _, x := range d {
		if x.body != nil {
			own.Variants = append(own.Variants, x.body)
		}
	}
	return own
}

// needs are the endpoints that deferred Clusters need because the client had these Clusters in
// another form before (WARM-1).
func (d deferrals) needs() (endpoints []string) {
	for name, x := range d {
		if x.otherBody {
			endpoints = append(endpoints, needs([]*xds.Variant{x.body})...)
			x.otherBody = false
			d[name] = x
		}
	}
	return endpoints
}
