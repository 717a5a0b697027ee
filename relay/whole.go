package relay

import (
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// takeWholeLocked is a SotW answer that holds the full view (SOTW-2, SOTW-4), and what k keeps in
// it.
func (s *Sub) takeWholeLocked(k Keep) *Answer {
	p := s.pos
	if p != nil && (p.also != nil || p.view.set.kind != wild) {
		return s.takeAssembledLocked(k)
	}
	if p != nil && p.fresh {
		if p.unsettledLocked() {
			return nil
		}
		if s.version != "" && !s.insisted && s.records.len() == 0 && s.version == p.view.versionLocked() && !s.shard.group.origin.config().OriginVersions &&
			!p.view.tellsTTLs() {
			// In sync already (RELAY-43); an origin's own version proves nothing (VER-5), and who
			// was away may have missed a TTL.
			p.sum, s.told = p.view.sum, true
			p.view.passed(p, p.view.contentRev)
			if p.told < p.view.set.faults.seq {
				s.markLocked(s.shard.rev) // what is in error may still have to be said
			}
			return nil
		}
		if p.lacksLocked() {
			return nil
		}
	}
	if s.holds && !s.resolvedLocked() {
		return nil // RELAY-7: it would delete what is only not there yet
	}
	if s.staysLocked(k) {
		return nil
	}
	if p != nil && p.view.contentRev > p.sent {
		for r := range s.records.all() { // the set may have lost what kept an error back
			if f := r.entry.fault; f != nil && f != r.fault() {
				s.relookLocked(r)
			}
		}
	}
	a := &Answer{Body: noBody}
	changed := s.letGoLocked(k)
	s.keepMembersLocked(k)
	s.keepRestoredLocked(k)
	if p != nil && s.ttl && p.view.renewed > p.sent && s.lastLocked() != rejected {
		changed, a.renewed = true, true // heartbeats are the whole view with bodies (TTL-11)
	}
	changed = s.settleWholeLocked(a, k) || changed || s.insisted
	if p == nil {
		return s.wholeByNameLocked(a, changed)
	}
	a.gone = true
	if errs, rev := s.takeFaultsLocked(p, a); len(errs) > 0 {
		a.Errors, a.Rev = append(a.Errors, errs...), max(a.Rev, rev)
		changed = true
	}
	all := s.keptSumLocked(p.view.sum)
	if !p.fresh && p.sum == all && !changed && !p.resend {
		p.view.passed(p, p.view.contentRev)
		return nil
	}
	a.Rev = max(a.Rev, p.view.contentRev)
	if s.typeURL == xds.ClusterType {
		// nearly always there are no others
		a.Follow = append(slices.Clip(p.newsLocked()), a.Follow...)
	}
	must := changed || p.fresh || p.resend
	p.sum, p.resend = all, false
	p.view.passed(p, p.view.contentRev)
	s.told, s.holds = true, false
	if s.records.len() == 0 {
		a.Body, a.Version = s.withKeptLocked(p.view.fullBody(s.delta)), p.view.versionLocked()
		if len(s.kept) > 0 {
			a.Version = all.Version()
		}
		s.whole = ""
		return a
	}
	s.mixedLocked(a)
	if !must && a.Version == s.whole {
		return nil // the set lost, or changed, what the client has by name (RELAY-25)
	}
	s.listsLocked()
	s.whole = a.Version
	return a
}

// listsLocked notes that a list goes: of a name that is not in it, it has said so.
func (s *Sub) listsLocked() {
	for r := range s.records.all() {
		if r.at == 0 {
			r.at = s.takes + 1
		}
	}
}

// settleWholeLocked looks at the names that changed and reports whether any makes a new response.
// The error of a name that has a body is not told: such a response would have to leave the body out
// (ABS-11), which deletes it at older clients.
func (s *Sub) settleWholeLocked(a *Answer, k Keep) (changed bool) {
	size := 0 // of errors
	s.eachDirtyLocked(func(r *record) {
		held, had, back, was := s.wasSentLocked(r), r.mayKeepLocked(), r.backLocked(), r.sent
		listed := r.at != 0 // and so a list without it is not news to the client
		what, body, at := s.settleLocked(r)
		if last := r.entry.last; what == removal && held && last != nil && !last.timed() &&
			s.keepLocked(r.entry.name, kept{body: last, until: at, named: had, back: back, news: had && was != last.Digest}, k) {
			what = nothing
		}
		if what != nothing && (what != removal || held || !listed) {
			changed, a.Rev = true, max(a.Rev, at)
		}
		if what == resource && s.typeURL == xds.ClusterType {
			a.Follow = append(a.Follow, needs([]*Variant{body})...)
		}
		if v, _, _ := s.effectiveLocked(r); v != nil || s.keepsLocked(r.entry.name) {
			r.setFault(nil)
			return
		}
		if size > faultBytes {
			s.relookLocked(r) // what is said of it comes with the next list (TRANS-10)
		} else if f := s.faultLocked(r, what); f != nil {
			a.Errors = append(a.Errors, f)
			size += f.Size()
			changed, a.Rev = true, max(a.Rev, r.entry.rev)
		}
	}, nil)
	return changed
}

// knownLocked is RELAY-6 for a name: received, stated absent, or unanswered for 15 s on a healthy
// stream. What was received and cannot be given to this client now is not resolved: it may hold it.
func (s *Sub) knownLocked(r *record) bool {
	return s.bodyLocked(r) != nil || r.entry.goneLocked() && !r.heldBack()
}

func (s *Sub) resolvedLocked() bool {
	for r := range s.records.all() {
		if !s.knownLocked(r) {
			return false
		}
	}
	return true
}

// wholeByNameLocked lists every name there is. An empty list means "delete all" and is sent only if
// all is known to be gone, and something was there or there is something to say of it (SOTW-9).
// What is in error and was not sent counts as gone, but a client that may hold it from before the
// stream is sent no empty list for errors alone. Of one of several lists, whoever puts them
// together decides.
func (s *Sub) wholeByNameLocked(a *Answer, changed bool) *Answer {
	if changed = changed || s.late; !changed {
		return nil
	}
	// kept: of no name it may hold is it known that it is gone, and it may hold others that are
	// refused
	gone, kept := true, s.holds && !s.told
	a.Body = &Body{Variants: make([]*Variant, 0, s.records.len())}
	for r := range s.records.all() {
		if v := s.bodyLocked(r); v != nil && !s.unresolvedLocked(r, v) {
			a.Variants = append(a.Variants, v)
		}
		gone = gone && s.endedLocked(r)
		kept = kept && s.inErrorLocked(r)
	}
	if len(s.alias.of) > 0 {
		a.Variants = s.onceEachLocked(a.Variants, map[string]bool{})
	}
	gone = gone && !kept
	a.Body, a.gone = s.withKeptLocked(a.Body), gone
	if !s.united && len(a.Variants) == 0 && (!gone || !s.told && !s.holds && len(a.Errors) == 0 && !s.insisted) {
		s.late = s.told || s.holds || len(a.Errors) > 0
		for _, f := range a.Errors { // to be told with the rest
			r := s.recordLocked(f.Name)
			r.setFault(nil)
			s.relookLocked(r)
		}
		return nil
	}
	for r := range s.records.all() {
		r.at = s.takes + 1
		switch v := s.bodyLocked(r); {
		case v == nil || s.unresolvedLocked(r, v): // what came with `*` goes with this list, whatever is said of the name (VER-4)
			s.sentLocked(r, xds.Digest{})
			r.flags &^= holds | claimed
		case r.sent != v.Digest: // it may be given since it was looked at
			s.sentLocked(r, v.Digest)
			r.setFault(nil)
			r.flags = r.flags&^claimed | holds
		}
	}
	s.late, s.told, s.holds = false, true, false
	a.Version = s.keptSumLocked(s.sumLocked()).Version()
	s.whole = ""
	return a
}

// endedLocked reports whether a list without the name takes away only what is gone, as far as that
// can be known. A client that comes back may hold what is in error, so that counts as gone after 15
// s, like silence. So it does for secrets, as Envoy refuses a list without any.
func (s *Sub) endedLocked(r *record) bool {
	return r.entry.goneLocked() || s.inErrorLocked(r) && r.fault() != nil && !s.holds && !xds.IsSecret(s.typeURL)
}

// inErrorLocked reports whether the name is in an error that leaves the body in use, and there is
// none (ABS-8).
func (s *Sub) inErrorLocked(r *record) bool {
	e := r.entry
	return e.chosen == nil && e.fault != nil && !s.shard.group.origin.ends(e.fault)
}

// mixedLocked puts the view and the names into one list, a name in both once (RELAY-25). It is the
// view's shared body, unless a name is not in the set or has another body there.
func (s *Sub) mixedLocked(a *Answer) {
	view := s.pos.view
	all, full := view.sum, view.fullBody(s.delta)
	var loose []*Variant
	for r := range s.records.all() {
		v, _, at := s.effectiveLocked(r)
		r.gaveLocked(v)
		if v == nil {
			s.sentLocked(r, xds.Digest{})
			r.flags &^= holds | claimed
			continue
		}
		s.sentLocked(r, v.Digest)
		r.setFault(nil)
		r.flags, r.at = r.flags&^claimed|holds, s.takes+1
		s.oweLocked(r, false)
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
	a.Version = s.keptSumLocked(all).Version()
	if len(loose) == 0 {
		a.Body = s.withKeptLocked(full)
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
	a.Body = s.withKeptLocked(own)
}
