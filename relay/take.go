package relay

import (
	"maps"
	"slices"
	"time"
)

// Answer is what one response has to say. Give it back to Ack or Nack.
type Answer struct {
	*Body
	// Errors are what to say of names instead of a resource; none of them is in Variants (ABS-11).
	Errors []*NameError
	// News are the Clusters in it that are new or changed on this stream: their endpoints must follow (WARM-1). Other types
	// have none.
	News []*Variant
	// Version is the version_info of a SotW answer (VER-4).
	Version string
	// Rev is the newest revision in it: nothing of a later type that is as new may be written before an earlier type's
	// changes up to here.
	Rev uint64
	// First is the revision of the oldest change in it.
	First uint64
	// Since is when the oldest change arrived from the origin; zero if the answer is due to a request.
	Since time.Time
	sub   *Sub  // whose it is; nil: of several
	parts *part // of several, which; in no order
	// number is which of sub's answers it is.
	number uint32
	// Waiting: `*` or a name still waits for its first answer.
	Waiting bool
	// Demanded: it answers names that the client asked for, and not only changes and what else is owed.
	Demanded bool
	gone     bool // of one of several lists: if it is empty, all of it is known to be gone
	// renewed: a list that is sent whole for the sake of a TTL (TTL-11).
	renewed bool
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
func (s *Sub) Take(now time.Time) *Answer { return s.TakeKeeping(now, keepNothing) }

// TakeKeeping is Take for Clusters in state of the world: what k does not let go stays in the list with its last body (ORD-3).
func (s *Sub) TakeKeeping(now time.Time, k Keep) *Answer {
	s.shard.mu.Lock()
	defer s.shard.unlock()
	s.shard.now = now
	if s.lagging {
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
	s.met = false
	var a *Answer
	switch {
	case s.delta:
		a = s.takeDeltaLocked()
	case s.wholeLocked():
		a = s.takeWholeLocked(k)
		s.insisted = false
	default:
		a = s.takeChangedLocked()
	}
	if a == nil && (len(s.dirty) > 0 || s.behindLocked()) {
		if s.unsent, s.since = first, since; first == 0 { // it could not be told yet (RELAY-7)
			s.unsent = s.shard.rev // what was kept went long ago
		}
	}
	if a != nil {
		s.tookLocked(a, from)
		a.First, a.Since = first, since
		a.Waiting, a.Demanded = s.waitingLocked(), s.met
		if s.delta && s.typeURL == ClusterType {
			a.News = a.Variants
		}
		if s.shard.group.origin.cfg.OriginVersions {
			a.Version = s.originVersionLocked(a.Version)
		}
		switch {
		case s.delta:
		case len(a.Heartbeats) > 0:
			a.Version = s.version // of the bodies that the client accepted (TTL-2)
		default:
			s.version = a.Version
		}
		s.spellLocked(a)
	}
	return a
}

// behindLocked reports whether a set has changed since the client was sent it.
func (s *Sub) behindLocked() bool {
	for p := s.pos; p != nil; p = p.also {
		if !p.fresh && p.sent < p.view.contentRev {
			return true
		}
	}
	return false
}

// wholeLocked reports whether every SotW answer holds the full view (SOTW-2, SOTW-4).
func (s *Sub) wholeLocked() bool {
	return !s.delta && (s.starLocked() != nil || s.asList || SentWhole(s.typeURL))
}

// originVersionLocked is the version of an answer where clients are told the origin's (VER-5): that of the newest response that
// had to do with it. In delta it is for people (VER-10). An empty one is replaced by that of the content: a client that
// comes back with none would count as one that holds nothing (RELAY-7).
func (s *Sub) originVersionLocked(content string) string {
	from := s.fromLocked()
	if from == nil || from.version == "" {
		return content
	}
	return from.version
}

// fromLocked is the newest response that had to do with what the client was sent.
func (s *Sub) fromLocked() *receipt {
	from := s.newest
	for p := s.pos; p != nil; p = p.also {
		from = newer(from, p.view.set.from)
	}
	return from
}

// effectiveLocked is the body a name has for this client. A name that both kinds hold has the one received last, and is gone only
// when neither holds it (RELAY-25).
func (s *Sub) effectiveLocked(r *record) (v *Variant, absent bool, rev uint64) {
	w := r.want
	v, rev = s.bodyLocked(r), w.rev
	// What was stated absent before the upstream stream broke is told to nobody who asks now (RELAY-38), but a removal that a
	// client was about to be sent still is: it happened.
	absent = s.shard.absentLocked(w) || w.wasAbsent && r.is(holds) && !r.is(claimed)
	if v != nil && w.entry.lost && !(r.is(holds) && s.alias.resource(r) == v.Name) {
		return nil, false, rev // an unresolved name to who has not come by it before (ALIAS-4)
	}
	if s.pos == nil {
		return v, absent, rev
	}
	name := s.alias.resource(r)
	if v != nil {
		name = v.Name
	}
	gone, waits := false, false
	s.coveringLocked(name, func(p *position) {
		it := p.view.items[name]
		switch {
		case p.waitsLocked():
			waits = true
		case v == nil && it != nil && !it.dead && name != w.entry.name && !it.variant.listsAs(w.entry.name):
			// The set has what the alias stood for, which says nothing of the alias.
		case it == nil:
			gone = gone || v == nil && r.is(holds) && !r.is(claimed) && !s.sparedLocked(name)
		case it.dead:
			gone, rev = true, max(rev, it.rev)
		case v == nil, v.Digest != it.variant.Digest && it.rev > rev, v.Digest == it.variant.Digest && it.variant.outlasts(v):
			v, rev = it.variant, it.rev
		}
	})
	return v, (absent || gone && !waits) && v == nil, rev
}

// saying is what a client must be told of a name.
type saying uint8

const (
	nothing saying = iota
	resource
	heartbeat
	removal
)

// settleLocked brings a record up to date and says what the client must be told. body is nil but for a resource, which
// may be a notice (ALIAS-5), or a heartbeat.
func (s *Sub) settleLocked(r *record) (what saying, body *Variant, rev uint64) {
	s.recognizeLocked(r)
	v, absent, rev := s.effectiveLocked(r)
	renewed := s.ttl && (r.is(beat) || r.is(claimed) && v != nil && v.timed()) // who comes back may have missed one
	r.flags &^= beat
	r.gaveLocked(v)
	switch {
	case v != nil:
		lost := v == r.want.chosen && r.want.entry.lost
		if ended := r.fault != nil && r.want.fault == nil; !r.is(owed) && !ended &&
			(r.sent == v.Digest || r.is(claimed) && v.stated(r.sent)) {
			s.sentLocked(r, v.Digest) // a claim may have another form
			r.flags &^= claimed       // what it said is so: it holds what was live here, and will be told if that goes
			if renewed {
				if what = s.renewLocked(r, v); what != nothing {
					return what, v, rev
				}
			}
			return nothing, nil, 0
		}
		if lost && r.sent == v.Digest {
			return nothing, nil, 0 // the subscription waits for its answer (ALIAS-4)
		}
		s.standsForLocked(r, v)
		s.sentLocked(r, v.Digest)
		s.newest = newer(s.newest, v.from)
		r.flags, r.at = r.flags&^claimed|holds, s.takes+1
		if !lost {
			s.oweLocked(r, false)
		}
		return resource, v, rev
	case absent:
		tell := r.is(owed | holds)
		s.newest = newer(s.newest, s.shard.named.from)
		if tell && s.delta { // SotW has no removal, and the word is told once (WARM-7)
			r.fault = nil // what is said of it follows the removal, or goes with it
		}
		switch {
		case tell && s.delta:
			what, body = s.endsLocked(r)
		case tell:
			what = removal
		}
		s.alias.set(r, r.want.entry.name, "")
		s.sentLocked(r, Digest{})
		r.flags &^= holds | claimed
		if r.want.absentGen != 0 || !r.want.wasAbsent { // or else what a lost alias stood for went, and it waits still (ALIAS-4)
			s.oweLocked(r, false)
		}
		return what, body, rev
	}
	return nothing, nil, 0
}

// sentLocked notes the digest of what the client holds of a name.
func (s *Sub) sentLocked(r *record, d Digest) {
	if r.sent != (Digest{}) {
		s.sum.sub(r.sent)
	}
	if d != (Digest{}) {
		s.sum.add(d)
	}
	r.sent = d
}

// eachDirtyLocked empties the dirty list.
func (s *Sub) eachDirtyLocked(f func(*record)) {
	list := s.dirty
	s.dirty = nil
	for _, r := range list {
		r.flags &^= dirty
		if !r.is(gone) {
			f(r)
		}
	}
}

// relookLocked has a name looked at in the same Take, or the next.
func (s *Sub) relookLocked(r *record) {
	if !r.is(dirty) {
		r.flags |= dirty
		s.dirty = append(s.dirty, r)
	}
}

func (s *Sub) takeDeltaLocked() *Answer {
	base, must, rev := s.takeSetsLocked()
	own, errs := &Body{}, []*NameError(nil)
	s.eachDirtyLocked(func(r *record) {
		what, body, at := s.settleLocked(r)
		if f := s.faultLocked(r, what); f != nil {
			errs, at = append(errs, f), max(at, r.want.rev)
			rev = max(rev, at)
		}
		switch what {
		case resource:
			own.Variants = append(own.Variants, body)
		case heartbeat:
			own.Heartbeats = append(own.Heartbeats, body)
		case removal:
			own.Removed = append(own.Removed, r.want.entry.name)
		default:
			return
		}
		rev = max(rev, at)
	})
	if s.more == nil {
		rev = max(rev, s.takeAgainLocked(base, own))
	}
	base, errs = s.tidyLocked(own, base, errs)
	a := &Answer{Body: own, Errors: errs, Rev: rev}
	switch {
	case own.empty() && (must || base != nil && !base.emptyInDelta()):
		a.Body = base
	case base != nil && !base.empty():
		own.Variants = append(own.Variants, base.Variants...)
		own.Heartbeats = append(own.Heartbeats, base.Heartbeats...)
		own.Removed = append(own.Removed, base.Removed...)
		own.spell(base.spelt)
	}
	for p := s.pos; p != nil; p = p.also {
		s.addFaultsLocked(a, p)
	}
	if !must && a.empty() && len(a.Errors) == 0 {
		return nil
	}
	return a
}

// addFaultsLocked adds what the client of a set must be told of members in error, and of the set. That a member does not exist is
// said in both ways, for clients that do not know the other (ABS-9).
func (s *Sub) addFaultsLocked(a *Answer, p *position) {
	if f := p.collectionFaultLocked(); f != nil {
		a.Errors, a.Rev = append(a.Errors, f), max(a.Rev, s.shard.rev)
	}
	if p.fresh {
		return
	}
	errs, rev := s.takeFaultsLocked(p, a)
	if len(errs)+len(p.spared) == 0 {
		return
	}
	a.Errors, a.Rev = append(a.Errors, errs...), max(a.Rev, rev)
	removed := make(map[string]bool, len(a.Removed))
	for _, name := range a.Removed {
		removed[name] = true
		delete(p.spared, name)
	}
	all := &Body{ // the other one may be shared
		Variants: a.Variants, Heartbeats: a.Heartbeats, Removed: slices.Clone(a.Removed), spelt: maps.Clone(a.spelt),
	}
	for _, name := range s.endSparedLocked(p) {
		removed[name] = true
		all.remove(name, "")
	}
	for _, e := range errs {
		if s.shard.group.origin.ends(e) && !removed[e.Name] {
			all.remove(e.Name, e.spelt)
		}
	}
	if len(all.Removed) > len(a.Removed) {
		a.Body = all
	}
}

// takeSetsLocked takes what the sets subscribed to have for the client.
func (s *Sub) takeSetsLocked() (b *Body, must bool, rev uint64) {
	if s.more != nil {
		return s.takeOverlapLocked()
	}
	return s.takeViewLocked()
}

// takeViewLocked takes the one set's part of a delta answer. Names with a record of their own are left to it. must: the answer
// goes out even if it is empty (DELTA-13).
func (s *Sub) takeViewLocked() (b *Body, must bool, rev uint64) {
	p := s.pos
	if p == nil {
		return nil, false, 0
	}
	v := p.view
	switch {
	case p.waitsLocked():
		return nil, false, 0
	case p.fresh:
		must, rev = true, v.contentRev
		b = s.ownLocked(v.fullBody(), true)
		s.initial, s.stated = nil, nil
		s.holds = false
	case p.resend:
		must, rev = true, v.contentRev
		full, recent := v.fullBody(), v.since(p.sent)
		all := &Body{
			Variants: full.Variants, Removed: recent.Removed, spelt: recent.spelt, nameless: full.nameless || recent.nameless,
		}
		b = s.ownLocked(all, false)
	case v.contentRev > p.sent:
		rev = v.contentRev
		b = s.ownLocked(s.renewedLocked(p, v.since(p.sent)), false)
	default:
		return nil, false, 0
	}
	b = b.named()
	if v.live == 0 && v.set.kind != wild && must {
		b = &Body{Variants: b.Variants, Removed: slices.Clone(b.Removed), spelt: maps.Clone(b.spelt)} // the other one may be shared
		p.emptyLocked(b)
	}
	p.resend = false
	v.passed(p, v.contentRev)
	return b, must, rev
}

// lookAtLocked has the records of a resource looked at, and reports whether there is any.
func (s *Sub) lookAtLocked(name string) bool {
	r, also := s.records[name], s.alias.by[name]
	if r != nil {
		s.relookLocked(r)
	}
	for _, r := range also {
		s.relookLocked(r)
	}
	return r != nil || len(also) > 0
}

// ownLocked is a view's body without the names that have a record of their own, which are marked to be looked at, and on the
// first answer without what the client holds already and with removals of what is no more (DELTA-11, DELTA-12). It is the
// shared body itself where that changes nothing.
func (s *Sub) ownLocked(b *Body, first bool) *Body {
	if len(s.records) == 0 && (!first || len(s.initial) == 0) && (len(b.Heartbeats) == 0 || len(s.again) == 0) {
		return b
	}
	own := &Body{nameless: b.nameless, spelt: maps.Clone(b.spelt)}
	skip := func(name string) bool {
		if r := s.records[name]; r != nil {
			s.renewedInSetLocked(s.pos, r, first)
		}
		for _, r := range s.alias.by[name] {
			s.renewedInSetLocked(s.pos, r, first)
		}
		return s.lookAtLocked(name)
	}
	for _, v := range b.Heartbeats {
		if _, again := s.again[v.Name]; !skip(v.Name) && !again { // what is owed goes in full
			own.Heartbeats = append(own.Heartbeats, v)
		}
	}
	for _, v := range b.Variants {
		if skip(v.Name) {
			continue
		}
		if d, stated := s.initial[v.Name]; first && stated && v.stated(d) {
			if s.ttl && v.timed() { // it may have missed some while it was away
				own.Heartbeats = append(own.Heartbeats, v)
			}
			continue
		}
		own.Variants = append(own.Variants, v)
	}
	for _, name := range b.Removed {
		if !skip(name) {
			own.Removed = append(own.Removed, name)
		}
	}
	if first {
		for name := range s.initial {
			switch {
			case s.pos.view.has(name), !s.pos.view.set.coversLocked(name), skip(name), s.sparedLocked(name):
			case s.alias.early > 0: // it may be what an alias stands for
				s.alias.later = append(s.alias.later, toldName{name, s.stated[name]})
			default:
				own.remove(name, s.stated[name])
			}
		}
	}
	return own
}

// takeAgainLocked answers unsubscribes of names that the one set still covers: the resource if it is in the set, else a removal (DELTA-9).
func (s *Sub) takeAgainLocked(base, own *Body) (rev uint64) {
	if len(s.again) == 0 || s.pos == nil || s.pos.fresh {
		return 0
	}
	listed := map[string]bool{} // DELTA-20
	if base != nil {
		for _, v := range base.Variants {
			listed[v.Name] = true
		}
		for _, name := range base.Removed {
			listed[name] = true
		}
	}
	for name, spelt := range s.again {
		it := s.pos.view.items[name]
		if s.pos.view.set.faults.byName[name] != nil && !slices.Contains(s.pos.untold, name) {
			s.pos.untold = append(s.pos.untold, name)
		}
		switch {
		case listed[name] || s.records[name] != nil || len(s.alias.by[name]) > 0:
		case it != nil && !it.dead:
			own.Variants = append(own.Variants, it.variant)
			rev = max(rev, it.rev)
		case s.sparedLocked(name):
		default:
			own.remove(name, spelt)
		}
	}
	s.again = nil
	return rev
}

// takeChangedLocked is a SotW answer of a grouped type: what changed or is owed (SOTW-3), of collections too (COLL-2). A removal cannot be expressed (RELAY-16).
func (s *Sub) takeChangedLocked() *Answer {
	a := &Answer{Body: &Body{}}
	base, _, rev := s.takeSetsLocked() // first: it may have names looked at
	var renewed []*record
	s.eachDirtyLocked(func(r *record) {
		if v, _, _ := s.effectiveLocked(r); s.withholdsLocked(v) {
			if f := s.withholdLocked(r); f != nil {
				a.Errors = append(a.Errors, f)
			}
			return
		}
		what, body, at := s.settleLocked(r)
		switch what {
		case resource:
			a.Variants = append(a.Variants, body)
			a.Rev = max(a.Rev, at)
		case heartbeat:
			a.Heartbeats, renewed = append(a.Heartbeats, body), append(renewed, r)
			a.Rev = max(a.Rev, at)
		}
		if f := s.faultLocked(r, what); f != nil {
			a.Errors = append(a.Errors, f)
			a.Rev = max(a.Rev, r.want.rev)
		}
	})
	if len(s.alias.of) > 0 {
		listed := map[string]bool{}
		a.Variants = s.onceEachLocked(a.Variants, listed)
		a.Heartbeats = s.onceEachLocked(a.Heartbeats, listed)
	}
	total := s.sumLocked()
	if base != nil {
		s.takeMembersLocked(a, base, rev)
	}
	for p := s.pos; p != nil; p = p.also {
		if f := p.collectionFaultLocked(); f != nil {
			a.Errors, a.Rev = append(a.Errors, f), max(a.Rev, s.shard.rev)
		}
		if !p.fresh {
			errs, at := s.takeFaultsLocked(p, a)
			a.Errors, a.Rev = append(a.Errors, errs...), max(a.Rev, at)
			total.join(p.view.sum)
		}
	}
	if len(a.Variants)+len(a.Heartbeats)+len(a.Errors) == 0 {
		return nil
	}
	if len(a.Heartbeats) > 0 && (len(a.Variants)+len(a.Errors) > 0 || s.united || s.version == "" || s.lastLocked() != accepted) {
		// A heartbeat goes under the version that the client has accepted, and with nothing else (TTL-9).
		a.Variants, a.Heartbeats = append(a.Variants, a.Heartbeats...), nil
		for _, r := range renewed {
			r.at = s.takes + 1
		}
	}
	a.Version = total.version()
	return a
}

// takeMembersLocked adds what collections have for a SotW client: bodies, in which a new TTL goes too. What it could not be told the end
// of is withheld (RELAY-51).
func (s *Sub) takeMembersLocked(a *Answer, base *Body, rev uint64) {
	for _, vs := range [][]*Variant{base.Variants, base.Heartbeats} {
		for _, v := range vs {
			if a.Rev = max(a.Rev, rev); s.withholdsLocked(v) {
				a.Errors = append(a.Errors, withheld(v.Name))
			} else {
				a.Variants = append(a.Variants, v)
			}
		}
	}
}
