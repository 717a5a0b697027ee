package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Answer is the content of one response. The client's reaction to it is reported by Ack or Nack.
type Answer struct {
	*Body
	// Located is the answer for names that the client named by locators; nil: there is none.
	Located *Located
	// Errors are the errors of names that are sent instead of resources. None of these names is in
	// Variants (ABS-11).
	Errors []*NameError
	// Follow are the names of endpoints that must be sent next, because Clusters in the answer
	// refer to them and are new or changed on this stream (WARM-1). The list may be shared by
	// several answers.
	Follow []string
	// Version is the version_info of a SotW answer (VER-4). In delta it is the origin's version,
	// for people to read, where a response of the origin had a part in the answer (VER-10).
	Version string
	// Rev is the newest revision in the answer. Before an earlier type's changes up to Rev are
	// written, nothing of a later type may be written that is as new.
	Rev uint64
	// First is the revision of the oldest change in the answer.
	First uint64
	// Since is when the oldest change arrived from the origin. It is zero if the answer is due to a
	// request.
	Since time.Time
	sub   *Sub       // the only Sub in the answer; nil: there are several
	parts *subExtent // the Subs, if there are several, in no order
	// number counts the answers of sub.
	number uint32
	// Waiting: `*` or a name still waits for its first answer.
	Waiting bool
	// Demanded: the answer has names that the client asked for, and not only changes and names that
	// are owed for other reasons.
	Demanded bool
	gone     bool // for one list of several that is empty: everything in it is known to be gone
	// renewed: a whole list is sent because a TTL changed (TTL-11).
	renewed bool
}

// newAnswer makes an answer with a body of its own. Both are one allocation, with space for one
// resource.
func newAnswer() *Answer {
	x := &struct {
		Answer
		body Body
		one  [1]*xds.Variant
	}{}
	x.Body, x.body.Variants = &x.body, x.one[:0]
	return &x.Answer
}

// Group is the group that the resources of the answer come from; nil if there are several.
func (a *Answer) Group() (g *Group) {
	if a.sub != nil {
		return a.sub.shard.group
	}
	for p := a.parts; p != nil; p = p.next {
		if g != nil && g != p.sub.shard.group {
			return nil
		}
		g = p.sub.shard.group
	}
	return g
}

// ttl reports whether the client is sent TTLs. All Subs of a stream-type have that in common.
func (a *Answer) ttl() bool {
	return a.sub != nil && a.sub.ttl || a.parts != nil && a.parts.sub.ttl
}

// Take returns what the client has not been sent, and records it as sent; nil: there is nothing.
func (s *Sub) Take(now time.Time) *Answer { return s.TakeDeferring(now, deferNothing) }

// TakeDeferring is Take with removals deferred by k. A removed Cluster stays in a SotW list with
// its last body until k releases it (ORD-3). For endpoints whose Cluster goes, k holds back the
// removal in SotW, and the empty assignment in both dialects (emptied.go).
func (s *Sub) TakeDeferring(now time.Time, k Deferral) *Answer {
	s.shard.mu.Lock()
	defer s.shard.unlock()
	return s.takeAnswer(now, k)
}

func (s *Sub) takeAnswer(now time.Time, k Deferral) *Answer {
	s.shard.now = now
	if s.lagging || s.partial {
		return nil
	}
	from := uint64(0)
	for p := s.sets.first; p != nil; p = p.also {
		switch {
		case p.fresh || p.resend:
			from = 0
		case p == s.sets.first || p.sent < from:
			from = p.sent
			continue
		default:
			continue
		}
		break
	}
	first, since := s.unsent, s.since
	s.unsent, s.since = 0, time.Time{}
	s.answeredDemand, s.moreLeft = false, false
	var a *Answer
	switch {
	case s.delta:
		a = s.takeDelta(k)
	case s.answersWhole():
		a = s.takeWhole(k)
		s.insisted = false
	default:
		a = s.takeChanged(k)
	}
	if a == nil && (len(s.dirty) > 0 || s.sets.behind()) {
		if s.unsent, s.since = first, since; first == 0 { // it cannot be sent yet (RELAY-7)
			s.unsent = s.shard.rev // what was deferred was removed long ago
		}
	}
	if a != nil {
		s.took(a, from)
		if len(a.Errors) > 0 && len(s.dirty) > 0 {
			s.mark(s.shard.rev) // there are more errors
		}
		if s.moreLeft {
			s.mark(first)
			s.since = since
		}
		a.First, a.Since = first, since
		s.sentTTLs = s.sentTTLs || s.ttl && len(s.shard.expiring.order) > 0
		a.Waiting, a.Demanded = s.waiting(), s.answeredDemand
		switch {
		case s.typeURL != xds.ClusterType:
		case s.delta:
			a.Follow = a.Body.needs()
		case len(s.sets.again)+len(s.deferred) > 0:
			a.Follow = append(slices.Clip(a.Follow), s.uncovered()...)
			a.Follow = append(a.Follow, s.deferred.needs()...)
		}
		switch {
		case s.shard.group.origin.config().OriginVersions:
			a.Version = s.originVersion(a.Version)
		case s.delta:
			a.Version = s.shownVersion()
		}
		switch {
		case s.delta:
		case len(a.Heartbeats) > 0:
			a.Version = s.version // the version of the bodies that the client accepted (TTL-2)
		default:
			s.version = a.Version
		}
		s.spell(a)
	}
	return a
}

// originVersion is the version of an answer where clients are sent the origin's versions (VER-5):
// that of the newest response that had a part in the answer. If the origin's version is empty, the
// content version replaces it. A client that comes back with an empty version would count as one
// that holds nothing (RELAY-7).
func (s *Sub) originVersion(content string) string {
	from := s.from()
	if from == nil || from.Version == "" {
		return content
	}
	return from.Version
}

// maxVersionShown is the length up to which an origin's version is sent in delta for people to
// read.
const maxVersionShown = 256

// shownVersion is the origin's version for a delta answer. It is for people; no decision depends on
// it (VER-10).
func (s *Sub) shownVersion() string {
	from := s.from()
	if from == nil || len(from.Version) > maxVersionShown {
		return ""
	}
	return from.Version
}

// from is the newest response that had a part in what the client was sent.
func (s *Sub) from() *xds.Provenance {
	from := s.newest
	for p := s.sets.first; p != nil; p = p.also {
		from = xds.Newer(from, p.view.set.from)
	}
	return from
}

// takeChanged makes a SotW answer of a grouped type. It has what changed or is owed (SOTW-3), of
// collections too (COLL-2). It cannot express a removal (RELAY-16).
func (s *Sub) takeChanged(k Deferral) *Answer {
	a := newAnswer()
	s.endDeferrals(k)
	base, _, rev := s.takeSets() // first, since it may mark names as dirty
	var renewed []*record
	size := 0 // of the errors
	s.eachDirty(func(r *record) {
		if v, _, _ := r.effective(); s.withholds(v) {
			if size > errorBytes {
				r.lookAgain() // it comes with the next answer
			} else if f := r.withhold(); f != nil {
				a.Errors = append(a.Errors, f)
				size += f.Size()
			}
			return
		}
		if r.defersEmpty(k) {
			return
		}
		had, back := r.mayDefer(), r.back()
		what, body, at := r.settle()
		if what == removal && had && s.deferred.add(r.entry.name, deferredRemoval{named: true, returned: back}, s.shard.now, &k) || s.deferred.has(r.entry.name) && what == nothing {
			return // it is sent when the deferral ends
		}
		switch what {
		case resource:
			a.Variants = append(a.Variants, body)
			a.Rev = max(a.Rev, at)
		case heartbeat:
			a.Heartbeats, renewed = append(a.Heartbeats, body), append(renewed, r)
			a.Rev = max(a.Rev, at)
		}
		if size > errorBytes {
			r.lookAgain() // its error comes with the next answer (TRANS-10)
		} else if f := r.errorFor(what); f != nil {
			a.Errors = append(a.Errors, f)
			size += f.Size()
			a.Rev = max(a.Rev, r.entry.rev)
		}
	}, nil)
	if len(s.alias.of) > 0 {
		listed := map[string]bool{}
		a.Variants = s.onceEach(a.Variants, listed)
		a.Heartbeats = s.onceEach(a.Heartbeats, listed)
	}
	total := s.versionSum()
	if base != nil {
		s.takeMembers(a, base, rev)
	}
	for p := s.sets.first; p != nil; p = p.also {
		if f := p.newCollectionError(); f != nil {
			a.Errors, a.Rev = append(a.Errors, f), max(a.Rev, s.shard.rev)
		}
		if !p.fresh {
			errs, at := s.takeErrors(p, a)
			a.Errors, a.Rev = append(a.Errors, errs...), max(a.Rev, at)
			total.Join(p.view.sum)
		}
	}
	if len(a.Variants)+len(a.Heartbeats)+len(a.Errors) == 0 {
		return nil
	}
	if len(a.Heartbeats) > 0 && (len(a.Variants)+len(a.Errors) > 0 || s.inUnion || s.version == "" || s.unaccepted.last(s.takes) != accepted) {
		// A heartbeat is sent under the version that the client has accepted, and without anything
		// else (TTL-9).
		a.Variants, a.Heartbeats = append(a.Variants, a.Heartbeats...), nil
		for _, r := range renewed {
			r.at = s.takes + 1
		}
	}
	a.Version = total.Version()
	return a
}

// takeMembers adds the changed members of collections for a SotW client. They are sent as bodies,
// even if only the TTL changed. A body is withheld if the client could not be sent its expiry
// (RELAY-51).
func (s *Sub) takeMembers(a *Answer, base *Body, rev uint64) {
	for _, vs := range [][]*xds.Variant{base.Variants, base.Heartbeats} {
		for _, v := range vs {
			if a.Rev = max(a.Rev, rev); s.withholds(v) {
				a.Errors = append(a.Errors, withheld(v.Name))
			} else {
				a.Variants = append(a.Variants, v)
			}
		}
	}
}

// errorFor is the error that the client has to be sent of a name, once; nil: there is none. what is
// sent of the name in the same answer. If that is its body, the error follows in a response of its
// own (ABS-9, ABS-11). Like an absence, an error is valid only as long as the upstream stream on
// which it was stated (RELAY-38). A TTL that has passed is the exception: a client that held the
// body is sent that error with or without a stream.
func (r *record) errorFor(what event) *NameError {
	s := r.sub
	e, sent := r.entry, what == resource || what == heartbeat
	if what == resource {
		r.setLastError(nil) // the body ends the error that was sent before
	}
	if r.is(unavailableDue) {
		r.flags &^= unavailableDue
		if r.is(owed) && !sent {
			r.setLastError(unreachable(e.name))
			return r.lastError()
		}
	}
	switch f := e.nameError; {
	case f == nil:
		if what == removal {
			r.setLastError(nil)
		}
		// Otherwise the client remembers the error until the resource arrives, which may be held
		// back for now (ABS-7).
		return nil
	case f == r.lastError(), f.Own && s.delta:
		return nil
	case (!s.shard.named.isAsked(e) || !e.isAnswered()) && !(f.Expired && what == removal):
		return nil
	case !sent && s.inSet(e) && s.shard.group.origin.ends(f):
		return nil // the name is gone only if neither holds it (RELAY-25)
	case sent:
		r.markDirty(e.rev)
		return nil
	default:
		// A name without a body stays owed: the client has still to be sent whether it exists
		// (ABS-4).
		s.answeredDemand = s.answeredDemand || r.is(demanded)
		r.setLastError(f)
		return r.about(f)
	}
}

// inSet reports whether the client has the name's resource by a set.
func (s *Sub) inSet(e *entry) bool {
	name := e.name
	if e.chosen != nil {
		name = e.chosen.Name
	}
	it, _ := s.sets.itemOf(name)
	return it != nil
}
