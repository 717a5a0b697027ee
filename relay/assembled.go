package relay

import (
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// takeAssembled is takeWhole for a client that subscribes to collections: the list is
// made for it alone. A set that is not told yet holds it back only if the client may have held
// members of it from before the stream (RELAY-7).
func (s *Sub) takeAssembled(k Deferral) *Answer {
	if s.listBlocked() {
		return nil
	}
	known := true // an empty list would say that there is nothing (SOTW-9)
	for p := s.sets.first; p != nil; p = p.also {
		known = known && !p.blocked()
	}
	for r := range s.records.all() {
		known = known && r.entry.isGone()
		if f := r.entry.nameError; f != nil && f != r.lastError() {
			r.lookAgain() // a set may have lost what kept an error back
		}
	}
	a := &Answer{Body: &Body{}, gone: known}
	must := s.endDeferrals(k) || s.insisted
	s.deferMembers(k)
	must = s.settleWhole(a, k) || must
	if s.assemble(a); len(a.Variants) == 0 && !known && !s.inUnion {
		for _, f := range a.Errors { // to be told with the rest
			r := s.record(f.Name)
			r.setLastError(nil)
			r.lookAgain()
		}
		return nil
	}
	for p := s.sets.first; p != nil; p = p.also {
		if s.ttl && p.view.renewed > p.sent && s.unaccepted.last(s.takes) != rejected {
			must, a.renewed = true, true // heartbeats are the whole list with bodies (TTL-11)
		}
		if f := p.newCollectionError(); f != nil {
			a.Errors = append(a.Errors, f)
		}
		if p.blocked() {
			continue
		}
		errs, rev := s.takeErrors(p, a)
		a.Errors, a.Rev = append(a.Errors, errs...), max(a.Rev, rev, p.view.contentRev)
		if s.typeURL == xds.ClusterType {
			a.Follow = append(slices.Clip(a.Follow), p.newNames()...)
		}
		must = must || p.fresh || p.resend
		p.resend = false
		p.view.passed(p, p.view.contentRev)
	}
	if !must && len(a.Errors) == 0 && a.Version == s.whole {
		return nil
	}
	a.Body = s.deferred.addTo(a.Body)
	s.lists()
	s.whole, s.sentWhole, s.holds, s.removalDue = a.Version, true, s.holds && !known, false
	return a
}

// assemble lists what the client's sets and names hold, each name once.
func (s *Sub) assemble(a *Answer) {
	own := &Body{}
	var total xds.Sum
	add := func(v *xds.Variant) {
		total.Add(v.Digest)
		own.Variants = append(own.Variants, v)
	}
	for r := range s.records.all() {
		v, _, at := r.effective()
		r.gave(v)
		if v == nil {
			r.setSent(xds.Digest{})
			r.flags &^= holds | claimed
			continue
		}
		r.setSent(v.Digest)
		r.setLastError(nil)
		r.flags = r.flags&^claimed | holds
		r.owe(false)
		a.Rev = max(a.Rev, at)
		add(v)
	}
	for p := s.sets.first; p != nil; p = p.also {
		if p.blocked() {
			continue
		}
		own.nameless = own.nameless || p.view.fullBody(s.delta).nameless
		for _, v := range p.view.fullBody(s.delta).Variants {
			if s.record(v.Name) == nil && s.sets.live(v.Name) == p.view.items[v.Name] {
				add(v)
			}
		}
	}
	a.Body, a.Version = own, s.deferred.sum(total).Version()
}

// newNames is what endpoints the view's Clusters need that this client was not sent in their
// present form.
func (p *position) newNames() []string {
	if p.fresh {
		return p.view.fullBody(p.sub.delta).needs()
	}
	return p.view.since(p.sent).needs()
}
