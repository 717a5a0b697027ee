package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Answer is what one response has to say. What the client says to it is told by Ack or Nack.
type Answer struct {
	*Body
	// Located is what is told of names that the client named by locators; nil: nothing, as nearly
	// always.
	Located *Located
	// Errors are what to say of names instead of a resource; none of them is in Variants (ABS-11).
	Errors []*NameError
	// Follow are the names of endpoints that must follow, since Clusters in it refer to them that
	// are new or changed on this stream (WARM-1). Many share the list.
	Follow []string
	// Version is the version_info of a SotW answer (VER-4). In delta it is the origin's, for
	// people, where one has a part in it (VER-10).
	Version string
	// Rev is the newest revision in it: nothing of a later type that is as new may be written
	// before an earlier type's changes up to here.
	Rev uint64
	// First is the revision of the oldest change in it.
	First uint64
	// Since is when the oldest change arrived from the origin; zero if the answer is due to a
	// request.
	Since time.Time
	sub   *Sub       // whose it is; nil: of several
	parts *subExtent // of several, which; in no order
	// number is which of sub's answers it is.
	number uint32
	// Waiting: `*` or a name still waits for its first answer.
	Waiting bool
	// Demanded: it answers names that the client asked for, and not only changes and what else is
	// owed.
	Demanded bool
	gone     bool // of one of several lists: if it is empty, all of it is known to be gone
	// renewed: a list that is sent whole for the sake of a TTL (TTL-11).
	renewed bool
}

// newAnswer is an answer with a body of its own, in one object as long as one resource is in it.
func newAnswer() *Answer {
	x := &struct {
		Answer
		body Body
		one  [1]*Variant
	}{}
	x.Body, x.body.Variants = &x.body, x.one[:0]
	return &x.Answer
}

// Group is the one whose resources the answer has; nil if it has several's.
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

// ttl reports whether TTLs are told: all Subs of a stream-type have that in common.
func (a *Answer) ttl() bool {
	return a.sub != nil && a.sub.ttl || a.parts != nil && a.parts.sub.ttl
}

// Take gives what the client has not been sent, and takes it as sent; nil if there is nothing.
func (s *Sub) Take(now time.Time) *Answer { return s.TakeDeferring(now, deferNothing) }

// TakeDeferring is Take for Clusters in state of the world: what k does not let go stays in the
// list with its last body (ORD-3). For endpoints it keeps back the word that they are gone, in
// state of the world, or that they are empty, since their Cluster goes (emptied.go).
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
	for p := s.pos; p != nil; p = p.also {
		switch {
		case p.fresh || p.resend:
			from = 0
		case p == s.pos || p.sent < from:
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
	if a == nil && (len(s.dirty) > 0 || s.behind()) {
		if s.unsent, s.since = first, since; first == 0 { // it could not be told yet (RELAY-7)
			s.unsent = s.shard.rev // what was kept went long ago
		}
	}
	if a != nil {
		s.took(a, from)
		if len(a.Errors) > 0 && len(s.dirty) > 0 {
			s.mark(s.shard.rev) // there are more
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
		case len(s.again)+len(s.deferred) > 0:
			a.Follow = append(slices.Clip(a.Follow), s.uncovered()...)
			a.Follow = append(a.Follow, s.deferredNeeds()...)
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
			a.Version = s.version // of the bodies that the client accepted (TTL-2)
		default:
			s.version = a.Version
		}
		s.spell(a)
	}
	return a
}

// behind reports whether a set has changed since the client was sent it.
func (s *Sub) behind() bool {
	for p := s.pos; p != nil; p = p.also {
		if !p.fresh && p.sent < p.view.contentRev {
			return true
		}
	}
	return false
}

// originVersion is the version of an answer where clients are told the origin's (VER-5): that
// of the newest response that had to do with it. An empty one is replaced by that of the content: a
// client that comes back with none would count as one that holds nothing (RELAY-7).
func (s *Sub) originVersion(content string) string {
	from := s.from()
	if from == nil || from.version == "" {
		return content
	}
	return from.version
}

// maxVersionShown is how long an origin's version may be to be told for people.
const maxVersionShown = 256

// shownVersion is the origin's version in a delta answer, where it is for people (VER-10):
// nobody decides anything by it.
func (s *Sub) shownVersion() string {
	from := s.from()
	if from == nil || len(from.version) > maxVersionShown {
		return ""
	}
	return from.version
}

// from is the newest response that had to do with what the client was sent.
func (s *Sub) from() *provenance {
	from := s.newest
	for p := s.pos; p != nil; p = p.also {
		from = newer(from, p.view.set.from)
	}
	return from
}

// takeChanged is a SotW answer of a grouped type: what changed or is owed (SOTW-3), of
// collections too (COLL-2). A removal cannot be expressed (RELAY-16).
func (s *Sub) takeChanged(k Deferral) *Answer {
	a := newAnswer()
	s.endDeferrals(k)
	base, _, rev := s.takeSets() // first: it may have names looked at
	var renewed []*record
	size := 0 // of errors
	s.eachDirty(func(r *record) {
		if v, _, _ := s.effective(r); s.withholds(v) {
			if size > errorBytes {
				s.addDirty(r) // with the next
			} else if f := s.withhold(r); f != nil {
				a.Errors = append(a.Errors, f)
				size += f.Size()
			}
			return
		}
		if s.defersEmpty(r, k) {
			return
		}
		had, back := r.mayDefer(), r.back()
		what, body, at := s.settle(r)
		if what == removal && had && s.deferRemoval(r.entry.name, deferredRemoval{named: true, returned: back}, k) || s.defers(r.entry.name) && what == nothing {
			return // what is said of it comes when it is let go of
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
			s.addDirty(r) // what is said of it beside that comes with the next (TRANS-10)
		} else if f := s.errorFor(r, what); f != nil {
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
	for p := s.pos; p != nil; p = p.also {
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
	if len(a.Heartbeats) > 0 && (len(a.Variants)+len(a.Errors) > 0 || s.inUnion || s.version == "" || s.last() != accepted) {
		// A heartbeat goes under the version that the client has accepted, and with nothing else
		// (TTL-9).
		a.Variants, a.Heartbeats = append(a.Variants, a.Heartbeats...), nil
		for _, r := range renewed {
			r.at = s.takes + 1
		}
	}
	a.Version = total.Version()
	return a
}

// takeMembers adds what collections have for a SotW client: bodies, in which a new TTL goes
// too. What it could not be told the end of is withheld (RELAY-51).
func (s *Sub) takeMembers(a *Answer, base *Body, rev uint64) {
	for _, vs := range [][]*Variant{base.Variants, base.Heartbeats} {
		for _, v := range vs {
			if a.Rev = max(a.Rev, rev); s.withholds(v) {
				a.Errors = append(a.Errors, withheld(v.Name))
			} else {
				a.Variants = append(a.Variants, v)
			}
		}
	}
}

// errorFor is the error a client must be told of a name, once. what is told of it right now;
// after its body the error follows in a response of its own (ABS-9, ABS-11). An error is as good as
// the upstream stream, like absence (RELAY-38), but for a TTL that has passed: a client who held
// the body is told whether or not there is a stream.
func (s *Sub) errorFor(r *record, what event) *NameError {
	e, sent := r.entry, what == resource || what == heartbeat
	if what == resource {
		r.setLastError(nil) // the body ends what was told before
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
		// else the client remembers what it was told until the resource arrives, which may be held
		// back yet (ABS-7)
		return nil
	case f == r.lastError(), f.Own && s.delta:
		return nil
	case (!s.shard.isAsked(e) || !e.isAnswered()) && !(f.Expired && what == removal):
		return nil
	case !sent && s.inSet(e) && s.shard.group.origin.ends(f):
		return nil // it is gone only when neither holds it (RELAY-25)
	case sent:
		s.markDirty(r, e.rev)
		return nil
	default:
		// A name without a body stays owed: whether it exists has still to be told (ABS-4).
		s.answeredDemand = s.answeredDemand || r.is(demanded)
		r.setLastError(f)
		return s.about(r, f)
	}
}

// inSet reports whether the client has the name from a set.
func (s *Sub) inSet(e *entry) bool {
	name := e.name
	if e.chosen != nil {
		name = e.chosen.Name
	}
	it, _ := s.itemOf(name)
	return it != nil
}
