package relay

import (
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// takeWhole is a SotW answer that holds the full view (SOTW-2, SOTW-4), and what k keeps in
// it.
func (s *Sub) takeWhole(k Deferral) *Answer {
	p := s.pos
	if p != nil && (p.also != nil || p.view.set.kind != wild) {
		return s.takeAssembled(k)
	}
	if p != nil && p.fresh {
		if p.unsettled() {
			return nil
		}
		if s.version != "" && !s.insisted && s.records.len() == 0 && s.version == p.view.versionInfo() && !s.shard.group.origin.config().OriginVersions &&
			!p.view.sendsTTLs() {
			// In sync already (RELAY-43); an origin's own version proves nothing (VER-5), and who
			// was away may have missed a TTL.
			p.sum, s.sentWhole = p.view.sum, true
			p.view.passed(p, p.view.contentRev)
			if p.errorsSent < p.view.set.nameErrors.seq {
				s.mark(s.shard.rev) // what is in error may still have to be said
			}
			return nil
		}
		if p.lacks() {
			return nil
		}
	}
	if s.holds && !s.resolved() {
		return nil // RELAY-7: it would delete what is only not there yet
	}
	if s.firstListWaits(k) {
		return nil
	}
	if p != nil && p.view.contentRev > p.sent {
		for r := range s.records.all() { // the set may have lost what kept an error back
			if f := r.entry.nameError; f != nil && f != r.lastError() {
				s.addDirty(r)
			}
		}
	}
	a := &Answer{Body: noBody}
	changed := s.endDeferrals(k)
	s.deferMembers(k)
	s.deferRestored(k)
	if p != nil && s.ttl && p.view.renewed > p.sent && s.last() != rejected {
		changed, a.renewed = true, true // heartbeats are the whole view with bodies (TTL-11)
	}
	changed = s.settleWhole(a, k) || changed || s.insisted
	if p == nil {
		return s.wholeByName(a, changed)
	}
	a.gone = true
	if errs, rev := s.takeErrors(p, a); len(errs) > 0 {
		a.Errors, a.Rev = append(a.Errors, errs...), max(a.Rev, rev)
		changed = true
	}
	all := s.deferredSum(p.view.sum)
	if !p.fresh && p.sum == all && !changed && !p.resend {
		p.view.passed(p, p.view.contentRev)
		return nil
	}
	a.Rev = max(a.Rev, p.view.contentRev)
	if s.typeURL == xds.ClusterType {
		// nearly always there are no others
		a.Follow = append(slices.Clip(p.newNames()), a.Follow...)
	}
	must := changed || p.fresh || p.resend
	p.sum, p.resend = all, false
	p.view.passed(p, p.view.contentRev)
	s.sentWhole, s.holds = true, false
	if s.records.len() == 0 {
		a.Body, a.Version = s.withDeferred(p.view.fullBody(s.delta)), p.view.versionInfo()
		if len(s.deferred) > 0 {
			a.Version = all.Version()
		}
		s.whole = ""
		return a
	}
	s.mixed(a)
	if !must && a.Version == s.whole {
		return nil // the set lost, or changed, what the client has by name (RELAY-25)
	}
	s.lists()
	s.whole = a.Version
	return a
}

// lists notes that a list goes: of a name that is not in it, it has said so.
func (s *Sub) lists() {
	for r := range s.records.all() {
		if r.at == 0 {
			r.at = s.takes + 1
		}
	}
}

// settleWhole looks at the names that changed and reports whether any makes a new response.
// The error of a name that has a body is not told: such a response would have to leave the body out
// (ABS-11), which deletes it at older clients.
func (s *Sub) settleWhole(a *Answer, k Deferral) (changed bool) {
	size := 0 // of errors
	s.eachDirty(func(r *record) {
		held, had, back, was := s.wasSent(r), r.mayDefer(), r.back(), r.sent
		listed := r.at != 0 // and so a list without it is not news to the client
		what, body, at := s.settle(r)
		if last := r.entry.last; what == removal && held && last != nil && !last.timed() &&
			s.deferRemoval(r.entry.name, deferredRemoval{body: last, until: at, named: had, returned: back, otherBody: had && was != last.Digest}, k) {
			what = nothing
		}
		if what != nothing && (what != removal || held || !listed) {
			changed, a.Rev = true, max(a.Rev, at)
		}
		if what == resource && s.typeURL == xds.ClusterType {
			a.Follow = append(a.Follow, needs([]*Variant{body})...)
		}
		if v, _, _ := s.effective(r); v != nil || s.defers(r.entry.name) {
			r.setLastError(nil)
			return
		}
		if size > errorBytes {
			s.addDirty(r) // what is said of it comes with the next list (TRANS-10)
		} else if f := s.errorFor(r, what); f != nil {
			a.Errors = append(a.Errors, f)
			size += f.Size()
			changed, a.Rev = true, max(a.Rev, r.entry.rev)
		}
	}, nil)
	return changed
}

// known is RELAY-6 for a name: received, stated absent, or unanswered for 15 s on a healthy
// stream. What was received and cannot be given to this client now is not resolved: it may hold it.
func (s *Sub) known(r *record) bool {
	return s.body(r) != nil || r.entry.isGone() && !r.heldBack()
}

func (s *Sub) resolved() bool {
	for r := range s.records.all() {
		if !s.known(r) {
			return false
		}
	}
	return true
}

// wholeByName lists every name there is. An empty list means "delete all" and is sent only if
// all is known to be gone, and something was there or there is something to say of it (SOTW-9).
// What is in error and was not sent counts as gone, but a client that may hold it from before the
// stream is sent no empty list for errors alone. Of one of several lists, whoever puts them
// together decides.
func (s *Sub) wholeByName(a *Answer, changed bool) *Answer {
	if changed = changed || s.removalDue; !changed {
		return nil
	}
	// kept: of no name it may hold is it known that it is gone, and it may hold others that are
	// refused
	gone, kept := true, s.holds && !s.sentWhole
	a.Body = &Body{Variants: make([]*Variant, 0, s.records.len())}
	for r := range s.records.all() {
		if v := s.body(r); v != nil && !s.unresolved(r, v) {
			a.Variants = append(a.Variants, v)
		}
		gone = gone && s.ended(r)
		kept = kept && s.inError(r)
	}
	if len(s.alias.of) > 0 {
		a.Variants = s.onceEach(a.Variants, map[string]bool{})
	}
	gone = gone && !kept
	a.Body, a.gone = s.withDeferred(a.Body), gone
	if !s.inUnion && len(a.Variants) == 0 && (!gone || !s.sentWhole && !s.holds && len(a.Errors) == 0 && !s.insisted) {
		s.removalDue = s.sentWhole || s.holds || len(a.Errors) > 0
		for _, f := range a.Errors { // to be told with the rest
			r := s.record(f.Name)
			r.setLastError(nil)
			s.addDirty(r)
		}
		return nil
	}
	for r := range s.records.all() {
		r.at = s.takes + 1
		switch v := s.body(r); {
		case v == nil || s.unresolved(r, v): // what came with `*` goes with this list, whatever is said of the name (VER-4)
			s.sent(r, xds.Digest{})
			r.flags &^= holds | claimed
		case r.sent != v.Digest: // it may be given since it was looked at
			s.sent(r, v.Digest)
			r.setLastError(nil)
			r.flags = r.flags&^claimed | holds
		}
	}
	s.removalDue, s.sentWhole, s.holds = false, true, false
	a.Version = s.deferredSum(s.versionSum()).Version()
	s.whole = ""
	return a
}

// ended reports whether a list without the name takes away only what is gone, as far as that
// can be known. A client that comes back may hold what is in error, so that counts as gone after 15
// s, like silence. So it does for secrets, as Envoy refuses a list without any.
func (s *Sub) ended(r *record) bool {
	return r.entry.isGone() || s.inError(r) && r.lastError() != nil && !s.holds && !xds.IsSecret(s.typeURL)
}

// inError reports whether the name is in an error that leaves the body in use, and there is
// none (ABS-8).
func (s *Sub) inError(r *record) bool {
	e := r.entry
	return e.chosen == nil && e.nameError != nil && !s.shard.group.origin.ends(e.nameError)
}

// mixed puts the view and the names into one list, a name in both once (RELAY-25). It is the
// view's shared body, unless a name is not in the set or has another body there.
func (s *Sub) mixed(a *Answer) {
	view := s.pos.view
	all, full := view.sum, view.fullBody(s.delta)
	var loose []*Variant
	for r := range s.records.all() {
		v, _, at := s.effective(r)
		r.gave(v)
		if v == nil {
			s.sent(r, xds.Digest{})
			r.flags &^= holds | claimed
			continue
		}
		s.sent(r, v.Digest)
		r.setLastError(nil)
		r.flags, r.at = r.flags&^claimed|holds, s.takes+1
		s.owe(r, false)
		a.Rev = max(a.Rev, at)
		it := view.items[v.Name]
		switch {
		case len(s.alias.of) > 0 && slices.ContainsFunc(loose, func(x *Variant) bool { return x.Name == v.Name }):
			continue
		case it == nil || it.dead:
		case it.variant.Digest == v.Digest && (!s.ttl || it.variant == v || it.variant.Expires().Equal(v.Expires())):
			continue
		default:
			all.Sub(it.variant.Digest)
		}
		all.Add(v.Digest)
		loose = append(loose, v)
	}
	a.Version = s.deferredSum(all).Version()
	if len(loose) == 0 {
		a.Body = s.withDeferred(full)
		return
	}
	replaced := make(map[string]bool, len(loose))
	for _, v := range loose {
		replaced[v.Name] = true
	}
	own := &Body{Variants: make([]*Variant, 0, len(full.Variants)+len(loose))}
	for _, v := range full.Variants {
		if !replaced[v.Name] {
			own.Variants = append(own.Variants, v)
		}
	}
	own.Variants = append(own.Variants, loose...)
	a.Body = s.withDeferred(own)
}
