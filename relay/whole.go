package relay

import (
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// whole makes a SotW answer that lists all there is (SOTW-2, SOTW-4), with the resources whose
// removal k defers.
func (t *take) whole() *Answer {
	s := t.sub
	if t.inSync() || s.listBlocked() || t.firstListWaits() {
		return nil
	}
	if s.sets.first != nil {
		for r := range s.records.all() {
			if f := r.entry.nameError; f != nil && f != r.lastError() {
				r.lookAgain() // a set may have lost the body that held the error back
			}
		}
	}
	a := &Answer{Body: noBody}
	t.a = a
	t.a = a
	must := t.endDeferrals() || s.insisted
	t.deferMembers()
	t.deferRestored()
	must = t.settleWhole() || must
	if s.sets.first == nil {
		if must = must || s.removalDue; !must {
			return nil
		}
	}
	if a.gone = t.nothingUnknown(); !s.inUnion && t.withholdsEmpty() {
		s.removalDue = s.sets.first == nil && (s.sentWhole || s.holds || len(a.Errors) > 0)
		for _, f := range a.Errors { // they are sent with the next list
			r := s.record(f.Name)
			r.setLastError(nil)
			r.lookAgain()
		}
		return nil
	}
	all, content := t.listAll() // before the positions move
	for p := s.sets.first; p != nil; p = p.also {
		if f := p.newCollectionError(); f != nil {
			a.Errors = append(a.Errors, f)
		}
		if p.blocked() {
			continue
		}
		if s.ttl && p.view.renewed > p.sent && s.unaccepted.last(s.takes) != rejected {
			must, a.renewed = true, true // a heartbeat of a whole list has all bodies (TTL-11)
		}
		errs, rev := p.takeErrors(a)
		a.Errors, a.Rev = append(a.Errors, errs...), max(a.Rev, rev, p.view.contentRev)
		if s.typeURL == xds.ClusterType {
			// Clip copies only if there are more names, which is rare.
			a.Follow = append(slices.Clip(p.newNames()), a.Follow...)
		}
		must = must || p.fresh || p.resend
		p.resend = false
		p.view.passed(p, p.view.contentRev)
	}
	a.Body, a.Version = s.deferred.addTo(all), s.listVersion(content)
	if !must && len(a.Errors) == 0 && a.Version == s.whole {
		return nil // for example, the set changed only what the client has by name (RELAY-25)
	}
	for r := range s.records.all() {
		r.at = s.takes + 1 // to leave a name out of the list is the statement that there is none
	}
	s.whole, s.sentWhole, s.removalDue = a.Version, true, false
	s.holds = s.holds && s.sets.first != nil && !a.gone
	return a
}

// inSync reports whether a client that comes back holds the present list of `*`, so that it needs
// no answer (RELAY-43). An origin's own version does not prove that (VER-5), nor does any version
// if TTLs are sent: the client may have missed one while it was away.
func (t *take) inSync() bool {
	s := t.sub
	p := s.sets.star()
	if p == nil || p.also != nil || !p.fresh || s.version == "" || s.insisted || s.records.len() > 0 || p.unsettled() ||
		s.version != p.view.versionInfo() || s.shard.group.config().OriginVersions || p.view.sendsTTLs() {
		return false
	}
	s.whole, s.sentWhole = s.version, true
	p.view.passed(p, p.view.contentRev)
	if p.errorsSent < p.view.set.nameErrors.seq {
		s.mark(s.shard.rev) // there may be errors to send
	}
	return true
}

// listBlocked reports whether a list that is sent whole has to wait, for its set or for a name
// (RELAY-7). If there are several sets, one of them is waited for only if the client may hold what
// is missing.
func (s *Sub) listBlocked() bool {
	waits, all := false, s.records.len() == 0
	for p := s.sets.first; p != nil; p = p.also {
		one := p.blocked()
		waits, all = waits || one, all && one
	}
	alone := s.sets.star() != nil && s.sets.first.also == nil
	return waits && (s.holds || all || alone) || s.holds && !s.resolved()
}

// nothingUnknown reports whether what a list leaves out is known not to exist, as far as that can
// be known. `*` alone says all by itself.
func (t *take) nothingUnknown() bool {
	s := t.sub
	if s.sets.alone() != nil {
		return true
	}
	for p := s.sets.first; p != nil; p = p.also {
		if p.blocked() {
			return false
		}
	}
	// denied: all names are in errors that leave bodies in use, and the client may hold resources
	// from before the stream; or it names nothing more that it may have.
	byName, denied := s.sets.first == nil, s.holds && !s.sentWhole && !s.denies
	for r := range s.records.all() {
		if !r.isGone() && !(byName && r.ended()) {
			return false
		}
		denied = denied && r.inError()
	}
	return !byName || !denied
}

// withholdsEmpty reports whether the list would be empty and may not be sent. An empty list means
// "delete all". It is sent only if nothing is unknown, and the client held something or there is
// something to state (SOTW-9). A Sub in a Union returns empty lists, too: the Union decides whether
// to send them.
func (t *take) withholdsEmpty() bool {
	s, a := t.sub, t.a
	for r := range s.records.all() {
		if v, _, _ := r.effective(); v != nil {
			return false
		}
	}
	for p := s.sets.first; p != nil; p = p.also {
		if p.view.live > 0 && !p.blocked() {
			return false
		}
	}
	return !a.gone || s.sets.first == nil && !s.sentWhole && !s.holds && len(a.Errors) == 0 && !s.insisted
}

// listAll lists what the client's names and sets hold, each resource once (RELAY-25), and records
// what is sent by name.
func (t *take) listAll() (all *Body, content contentOf) {
	s, a := t.sub, t.a
	s.names = nil // the version is that of the list
	named := make([]*xds.Variant, 0, s.records.len())
	for r := range s.records.all() {
		v, _, at := r.effective()
		r.gave(v)
		if v == nil {
			// What came with `*` is dropped with this list, whatever is stated of the name (VER-4).
			r.setSent(xds.Digest{})
			r.flags &^= holds | claimed
			continue
		}
		r.setSent(v.Digest)
		r.setLastError(nil)
		r.flags = r.flags&^claimed | holds
		r.owe(false)
		a.Rev = max(a.Rev, at)
		named = append(named, v)
	}
	if len(s.alias.of) > 0 {
		named = s.onceEach(named, map[string]bool{})
	}
	if p := s.sets.alone(); p != nil {
		return p.view.with(named, s.ttl)
	}
	all = &Body{Variants: named}
	if s.sets.first == nil {
		content.addAll(named)
		return all, content
	}
	listed := xds.NamesOf(named)
	for p := s.sets.first; p != nil; p = p.also {
		if p.blocked() {
			continue
		}
		full := p.view.fullBody(false)
		all.nameless = all.nameless || full.nameless
		for _, v := range full.Variants {
			if !listed[v.Name] && s.sets.live(v.Name) == p.view.item(v.Name) {
				all.Variants = append(all.Variants, v)
			}
		}
	}
	content.addAll(all.Variants)
	return all, content
}

// listVersion is the version_info of a list (VER-4), with the Clusters whose removal is deferred.
func (s *Sub) listVersion(content contentOf) string {
	for _, x := range s.deferred {
		if x.body != nil {
			content.add(x.body.Digest)
		}
	}
	return content.version()
}

// newNames is what endpoints the view's Clusters need that this client was not sent in their
// present form.
func (p *position) newNames() []string {
	if p.fresh {
		return p.view.fullBody(p.sub.delta).needs()
	}
	return p.view.since(p.sent).needs()
}

// settleWhole looks at the dirty names, and reports whether any of them requires a new response.
// The error of a name that has a body is not sent. Such a response would have to leave the body out
// (ABS-11), and older clients would delete it.
func (t *take) settleWhole() (changed bool) {
	s, a := t.sub, t.a
	size := 0 // of the errors
	s.eachDirty(func(r *record) {
		held, had, back, was := r.wasSent(), r.mayDefer(), r.back(), r.sent
		listed := r.at != 0 // the client has had a list, so leaving the name out is no change
		what, body, at := r.settle()
		if last := r.entry.last; what == removal && held && last != nil && !last.Timed() &&
			t.deferRemoval(r.entry.name, deferredRemoval{body: last, until: at, named: had, returned: back, otherBody: had && was != last.Digest}) {
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
	return r.body() != nil || r.isGone() && !r.heldBack()
}

// isGone is entry.isGone for this client.
func (r *record) isGone() bool { return r.entry.isGone() || r.isDenied() }

func (s *Sub) resolved() bool {
	for r := range s.records.all() {
		if !r.known() {
			return false
		}
	}
	return true
}

// ended reports whether a list without the name takes away only what is gone, as far as that can be
// known. A name in error counts as gone if its error was sent and the client did not come back with
// anything. A client that came back may hold the body; for it the name counts as gone after 15 s,
// like silence. The same holds for secrets, since Envoy refuses a list without them.
func (r *record) ended() bool {
	s := r.sub
	return r.isGone() || r.inError() && r.lastError() != nil && !s.holds && !xds.IsSecret(s.typeURL)
}

// inError reports whether there is no body, and the last error would leave a body in use (ABS-8).
func (r *record) inError() bool {
	e := r.entry
	return e.chosen == nil && e.nameError != nil && !r.sub.shard.group.origin.ends(e.nameError)
}
