package relay

import (
	"maps"
	"slices"
	"strings"
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

// Group is the group that the resources of the answer come from; nil if there are several, or none
// as there is no answer.
func (a *Answer) Group() (g *Group) {
	if a == nil {
		return nil
	}
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

// take is one Take of a Sub: it makes one answer.
type take struct {
	sub *Sub
	k   Deferral
	a   *Answer
	// renewed are names of which SotW is sent a heartbeat.
	renewed []*record
}

func (s *Sub) takeAnswer(now time.Time, k Deferral) *Answer {
	s.shard.now = now
	if s.lagging || s.partial {
		return nil
	}
	from := s.shard.rev // of sets that have to wait the answer has nothing
	for p := s.sets.first; p != nil; p = p.also {
		switch {
		case p.fresh && p.blocked():
		case p.fresh || p.resend:
			from = 0
		default:
			from = min(from, p.sent)
		}
	}
	first, since := s.unsent, s.since
	s.unsent, s.since = 0, time.Time{}
	s.answeredDemand, s.moreLeft = false, false
	var a *Answer
	t := take{sub: s, k: k}
	if s.answersWhole() {
		a = t.whole()
		s.insisted = false
	} else {
		a = t.changes()
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
		case s.shard.group.config().OriginVersions:
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

// Owe makes names be answered again though nothing changed (WARM-6), as far as the client is
// subscribed to them. Wildcard stands for all of them.
func (s *Sub) Owe(names []string) {
	s.shard.mu.Lock()
	defer s.shard.unlock()
	for _, name := range names {
		if name == xds.Wildcard {
			s.oweAll()
			return
		}
		if r := s.record(name); r != nil {
			r.flags |= sendEmpty
			r.oweAgain()
			continue
		}
		if also := s.alias.by[name]; len(also) > 0 {
			also[0].oweAgain()
			continue
		}
		s.oweMember(name)
	}
}

func (s *Sub) oweAll() {
	for r := range s.records.all() {
		r.flags |= sendEmpty
		r.oweAgain()
	}
	for p := s.sets.first; p != nil; p = p.also {
		if p.fresh {
			s.version = ""
			for name := range s.claims.versions {
				s.claims.doubt(name)
			}
			continue
		}
		p.resend = true
		s.mark(s.shard.rev)
	}
}

// oweMember owes a name that the client has by a set.
func (s *Sub) oweMember(name string) {
	s.sets.covering(name, func(p *position) {
		switch it := p.view.item(name); {
		case p.fresh:
			// The first answer has it, whatever the client says to hold (WARM-6).
			s.version = ""
			s.claims.doubt(name)
		case it == nil || it.dead:
		case s.delta:
			s.sets.answerAgain(name, it.variant.Spelling())
			s.mark(s.shard.rev)
		default:
			p.resend = true // it is sent whole
			s.mark(s.shard.rev)
		}
	})
}

// uncovered is what endpoints the Clusters in a SotW list need that are a set's, where the list
// before had another body by a name that was dropped since.
func (s *Sub) uncovered() []string {
	var clusters []*xds.Variant
	for _, name := range slices.Sorted(maps.Keys(s.sets.again)) {
		if it := s.sets.live(name); it != nil && s.record(name) == nil {
			clusters = append(clusters, it.variant)
		}
	}
	s.sets.again = nil
	return needs(clusters)
}

// OweNamespaces makes the virtual hosts of these route configurations be answered again though
// nothing changed (WARM-4), as far as the client is subscribed to them, but for those in except.
// They are named `<route configuration>/<host>`, split at the last slash (ALIAS-6).
func (s *Sub) OweNamespaces(routes []string, except []*xds.Variant) {
	done := xds.NamesOf(except)
	of := make(map[string]bool, len(routes))
	for _, name := range routes {
		of[name] = true
	}
	covers := func(name string) bool {
		i := strings.LastIndexByte(name, '/')
		return !done[name] && (of[name] || i >= 0 && of[name[:i]])
	}
	s.shard.mu.Lock()
	defer s.shard.unlock()
	for r := range s.records.all() {
		name := r.entry.name
		if resource := s.alias.resource(r); covers(name) && !done[resource] || covers(resource) {
			r.oweAgain()
		}
	}
	for p := s.sets.first; p != nil; p = p.also {
		for it := range p.view.all() {
			if name := it.variant.Name; covers(name) && !it.dead && s.record(name) == nil {
				s.oweMember(name)
			}
		}
	}
}
