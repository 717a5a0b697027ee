package relay

import (
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// takeWhole makes a SotW answer that holds the full view (SOTW-2, SOTW-4), with the resources whose
// removal k defers.
func (s *Sub) takeWhole(k Deferral) *Answer {
	p := s.sets.first
	if p != nil && (p.also != nil || p.view.set.kind != wild) {
		return s.takeAssembled(k)
	}
	if p != nil && p.fresh {
		if p.unsettled() {
			return nil
		}
		if s.version != "" && !s.insisted && s.records.len() == 0 && s.version == p.view.versionInfo() && !s.shard.group.origin.config().OriginVersions &&
			!p.view.sendsTTLs() {
			// The client is in sync already (RELAY-43). An origin's own version does not prove that
			// (VER-5), nor does any version if TTLs are sent: the client may have missed one while
			// it was away.
			p.sum, s.sentWhole = p.view.sum, true
			p.view.passed(p, p.view.contentRev)
			if p.errorsSent < p.view.set.nameErrors.seq {
				s.mark(s.shard.rev) // there may be errors to send
			}
			return nil
		}
		if p.lacks() {
			return nil
		}
	}
	if s.holds && !s.resolved() {
		return nil // RELAY-7: the list would delete what has not arrived yet
	}
	if s.firstListWaits(k) {
		return nil
	}
	if p != nil && p.view.contentRev > p.sent {
		for r := range s.records.all() { // the set may have lost the body that held an error back
			if f := r.entry.nameError; f != nil && f != r.lastError() {
				r.lookAgain()
			}
		}
	}
	a := &Answer{Body: noBody}
	changed := s.endDeferrals(k)
	s.deferMembers(k)
	s.deferRestored(k)
	if p != nil && s.ttl && p.view.renewed > p.sent && s.unaccepted.last(s.takes) != rejected {
		changed, a.renewed = true, true // a heartbeat of a whole list has all bodies (TTL-11)
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
	all := s.deferred.sum(p.view.sum)
	if !p.fresh && p.sum == all && !changed && !p.resend {
		p.view.passed(p, p.view.contentRev)
		return nil
	}
	a.Rev = max(a.Rev, p.view.contentRev)
	if s.typeURL == xds.ClusterType {
		// Clip copies only if there are more names, which is rare.
		a.Follow = append(slices.Clip(p.newNames()), a.Follow...)
	}
	must := changed || p.fresh || p.resend
	p.sum, p.resend = all, false
	p.view.passed(p, p.view.contentRev)
	s.sentWhole, s.holds = true, false
	if s.records.len() == 0 {
		a.Body, a.Version = s.deferred.addTo(p.view.fullBody(s.delta)), p.view.versionInfo()
		if len(s.deferred) > 0 {
			a.Version = all.Version()
		}
		s.whole = ""
		return a
	}
	s.mixed(a)
	if !must && a.Version == s.whole {
		return nil // the set lost or changed only what the client has by name (RELAY-25)
	}
	s.lists()
	s.whole = a.Version
	return a
}

// lists records that a list is sent. For a name that is not in the list, this is the statement that
// there is none.
func (s *Sub) lists() {
	for r := range s.records.all() {
		if r.at == 0 {
			r.at = s.takes + 1
		}
	}
}

// settleWhole looks at the dirty names, and reports whether any of them requires a new response.
// The error of a name that has a body is not sent. Such a response would have to leave the body out
// (ABS-11), and older clients would delete it.
func (s *Sub) settleWhole(a *Answer, k Deferral) (changed bool) {
	size := 0 // of the errors
	s.eachDirty(func(r *record) {
		held, had, back, was := r.wasSent(), r.mayDefer(), r.back(), r.sent
		listed := r.at != 0 // the client has had a list, so leaving the name out is no change
		what, body, at := r.settle()
		if last := r.entry.last; what == removal && held && last != nil && !last.Timed() &&
			s.deferred.add(r.entry.name, deferredRemoval{body: last, until: at, named: had, returned: back, otherBody: had && was != last.Digest}, s.shard.now, &k) {
			what = nothing
		}
		if what != nothing && (what != removal || held || !listed) {
			changed, a.Rev = true, max(a.Rev, at)
		}
		if what == resource && s.typeURL == xds.ClusterType {
			a.Follow = append(a.Follow, needs([]*xds.Variant{body})...)
		}
		if v, _, _ := r.effective(); v != nil || s.deferred.has(r.entry.name) {
			r.setLastError(nil)
			return
		}
		if size > errorBytes {
			r.lookAgain() // its error comes with the next list (TRANS-10)
		} else if f := r.errorFor(what); f != nil {
			a.Errors = append(a.Errors, f)
			size += f.Size()
			changed, a.Rev = true, max(a.Rev, r.entry.rev)
		}
	}, nil)
	return changed
}

// known is RELAY-6 for a name: it was received, stated absent, or unanswered for 15 s on a healthy
// stream. A body that was received but is held back from this client does not count as known, since
// the client may hold the name.
func (r *record) known() bool {
	return r.body() != nil || r.entry.isGone() && !r.heldBack()
}

func (s *Sub) resolved() bool {
	for r := range s.records.all() {
		if !r.known() {
			return false
		}
	}
	return true
}

// wholeByName lists all names that have a body. An empty list means "delete all". It is sent only
// if all names are known to be gone, and the client held something or there is something to state
// (SOTW-9). A name that is in error and was not sent counts as gone. But a client that may hold it
// from before the stream is sent no empty list for errors alone. A Sub in a Union returns empty
// lists, too: the Union decides whether to send them.
func (s *Sub) wholeByName(a *Answer, changed bool) *Answer {
	if changed = changed || s.removalDue; !changed {
		return nil
	}
	// kept: no name is known to be gone, and the client may hold resources from before the stream.
	// The names are in errors that leave bodies in use, or the names it holds were denied.
	gone, kept := true, s.holds && !s.sentWhole
	a.Body = &Body{Variants: make([]*xds.Variant, 0, s.records.len())}
	for r := range s.records.all() {
		if v := r.body(); v != nil && !r.unresolved(v) {
			a.Variants = append(a.Variants, v)
		}
		gone = gone && r.ended()
		kept = kept && r.inError()
	}
	if len(s.alias.of) > 0 {
		a.Variants = s.onceEach(a.Variants, map[string]bool{})
	}
	gone = gone && !kept
	a.Body, a.gone = s.deferred.addTo(a.Body), gone
	if !s.inUnion && len(a.Variants) == 0 && (!gone || !s.sentWhole && !s.holds && len(a.Errors) == 0 && !s.insisted) {
		s.removalDue = s.sentWhole || s.holds || len(a.Errors) > 0
		for _, f := range a.Errors { // they are sent with the next list
			r := s.record(f.Name)
			r.setLastError(nil)
			r.lookAgain()
		}
		return nil
	}
	for r := range s.records.all() {
		r.at = s.takes + 1
		switch v := r.body(); {
		// What came with `*` is dropped with this list, whatever is stated of the name (VER-4).
		case v == nil || r.unresolved(v):
			r.setSent(xds.Digest{})
			r.flags &^= holds | claimed
		case r.sent != v.Digest: // its body was released since it was looked at
			r.setSent(v.Digest)
			r.setLastError(nil)
			r.flags = r.flags&^claimed | holds
		}
	}
	s.removalDue, s.sentWhole, s.holds = false, true, false
	a.Version = s.deferred.sum(s.versionSum()).Version()
	s.whole = ""
	return a
}

// ended reports whether a list without the name takes away only what is gone, as far as that can be
// known. A name in error counts as gone if its error was sent and the client did not come back with
// anything. A client that came back may hold the body; for it the name counts as gone after 15 s,
// like silence. The same holds for secrets, since Envoy refuses a list without them.
func (r *record) ended() bool {
	s := r.sub
	return r.entry.isGone() || r.inError() && r.lastError() != nil && !s.holds && !xds.IsSecret(s.typeURL)
}

// inError reports whether there is no body, and the last error would leave a body in use (ABS-8).
func (r *record) inError() bool {
	e := r.entry
	return e.chosen == nil && e.nameError != nil && !r.sub.shard.group.origin.ends(e.nameError)
}

// mixed merges the view and the names into one list. A name in both is listed once (RELAY-25). The
// result is the view's shared body, unless a name is not in the set or has another body there.
func (s *Sub) mixed(a *Answer) {
	view := s.sets.first.view
	all, full := view.sum, view.fullBody(s.delta)
	var loose []*xds.Variant
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
		r.flags, r.at = r.flags&^claimed|holds, s.takes+1
		r.owe(false)
		a.Rev = max(a.Rev, at)
		it := view.items[v.Name]
		switch {
		case len(s.alias.of) > 0 && slices.ContainsFunc(loose, func(x *xds.Variant) bool { return x.Name == v.Name }):
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
	a.Version = s.deferred.sum(all).Version()
	if len(loose) == 0 {
		a.Body = s.deferred.addTo(full)
		return
	}
	replaced := make(map[string]bool, len(loose))
	for _, v := range loose {
		replaced[v.Name] = true
	}
	own := &Body{Variants: make([]*xds.Variant, 0, len(full.Variants)+len(loose))}
	for _, v := range full.Variants {
		if !replaced[v.Name] {
			own.Variants = append(own.Variants, v)
		}
	}
	own.Variants = append(own.Variants, loose...)
	a.Body = s.deferred.addTo(own)
}
