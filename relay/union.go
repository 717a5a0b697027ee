package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

// Union is what one stream-type is subscribed to, whichever origins its names belong to. It has a
// plain Sub for each group that its names are in, and a located Sub for each parameter map that its
// locators name there. With one plain Sub it behaves as that Sub. With several Subs, an answer
// merges what all of them have to send. A list that is sent whole is the union of the Subs' lists,
// and waits for each of them (FED-5). The zero Union is subscribed to nothing. Like Sub.Take, its
// Take is called by one goroutine at a time. The caller calls no other method at the same time.
type Union struct {
	one  *Sub        // the first one opened; nil: no Sub is open
	more *multiUnion // nil: there is only the plain Sub one
}

// multiUnion is the Subs of a Union that has several, and what the client was sent of all of them.
type multiUnion struct {
	subs  []*Sub // in the order they were opened
	star  *Sub   // the plain Sub subscribed to `*`; nil: there is none
	stars int    // number of Subs subscribed to `*`, located ones included

	// sent are the constraints that names were sent with to a delta client, for each located Sub
	// (located.go).
	sent map[*Sub]map[string]sentAs

	// For SotW lists that are sent whole.
	sentVersion string        // version of the last one; "": none was sent
	waived      map[*Sub]bool // Subs that the first list does not wait for
	// due is what was taken from Subs and could not be sent yet, without their bodies.
	due *Answer
}

// None reports whether no Sub was opened.
func (u *Union) None() bool { return u.one == nil }

// Len is the number of Subs.
func (u *Union) Len() int {
	switch {
	case u.one == nil:
		return 0
	case u.more == nil:
		return 1
	}
	return len(u.more.subs)
}

// Part is one of the Subs, for callers that distinguish the origins. Only the Union may change what
// it is subscribed to, or take from it.
func (u *Union) Part(i int) *Sub {
	if u.more == nil {
		return u.one
	}
	return u.more.subs[i]
}

// In is the plain Sub of a group; nil if none was opened.
func (u *Union) In(g *Group) *Sub {
	for i := range u.Len() {
		if s := u.Part(i); !s.located && s.shard.group == g {
			return s
		}
	}
	return nil
}

// At is the located Sub of a group and a parameter map; nil if none was opened.
func (u *Union) At(g *Group, p constraints.Params) *Sub {
	for i := range u.Len() {
		if s := u.Part(i); s.located && s.shard.group == g && s.shard.params.Key() == p.Key() {
			return s
		}
	}
	return nil
}

// Open adds a Sub for one more group, or for other parameters. It is subscribed to nothing yet. The
// caller holds a reference on the group until Close. The Version in the options is that of the
// stream-type's first request; a Sub that is opened by a later request gets none. The result is nil
// if the group has no room for the parameters, as for Group.Open.
func (u *Union) Open(g *Group, owner *Subscriber, o SubOptions) *Sub {
	s := g.Open(owner, o)
	switch {
	case s == nil:
	case u.one == nil && s.located:
		u.one, u.more = s, &multiUnion{subs: []*Sub{s}}
	case u.one == nil:
		u.one = s
	case u.more == nil:
		u.more = &multiUnion{subs: []*Sub{u.one}}
		u.more.add(s)
	default:
		u.more.add(s)
	}
	return s
}

// add adds a Sub to the others. From now on a list of a Sub is one of several. The version_info
// that a client presented is not that of a single Sub's list, and a stream-type that names
// resources is answered in full anyway (RELAY-43). If one of the Subs must wait because the client
// holds something, all of them must (RELAY-7).
func (m *multiUnion) add(s *Sub) {
	if one := m.subs[0]; !one.inUnion {
		if one.sentWhole {
			// SentWhole is read by the goroutine that takes, which is this one.
			m.sentVersion = "by one"
		}
		m.join(one)
	}
	m.subs = append(m.subs, s)
	m.join(s)
	holds := false
	for _, x := range m.subs {
		holds = holds || x.listing().holds
	}
	m.shape(holds)
}

// join makes a Sub part of the union. It locks the shard.
func (m *multiUnion) join(s *Sub) {
	s.shard.mu.Lock()
	s.inUnion, s.version = true, ""
	s.shard.mu.Unlock()
	m.look(s)
}

// shape sets the form that the answers of all Subs have. holds: the client holds something that no
// list may leave out before everything is known. It locks each shard in turn.
func (m *multiUnion) shape(holds bool) {
	for _, s := range m.subs {
		s.shard.mu.Lock()
		s.asList = m.stars > 0
		s.holds = s.holds || holds && !s.delta
		s.shard.mu.Unlock()
	}
}

// Update is Sub.Update for one of the Subs.
func (u *Union) Update(now time.Time, s *Sub, subscribe, unsubscribe []string) []Denied {
	m := u.more
	if m == nil {
		return s.Update(now, subscribe, unsubscribe)
	}
	if star := m.star; star != nil && star != s && !s.located {
		for _, name := range unsubscribe {
			for _, member := range s.members(name) {
				star.dropFromStar(member, false)
			}
			star.dropFromStar(name, s.names(name))
		}
	}
	denied := s.Update(now, subscribe, unsubscribe)
	m.look(s)
	m.unsent(s, unsubscribe)
	return denied
}

// Replace is Sub.Replace for one of the Subs. names are the names of a list that belong to it. It
// has to be called, too, for a Sub that has no more names in the list.
func (u *Union) Replace(now time.Time, s *Sub, names []string, wildcard bool) []Denied {
	m := u.more
	denied := s.Replace(now, names, wildcard)
	if m != nil && m.look(s) && s.inUnion {
		// What came with `*` is held by name from now on, whichever origin is asked for it.
		m.shape(m.sentVersion != "" && m.stars == 0)
		u.Remind() // other Subs may have waited for this one
	}
	return denied
}

// Leave closes the located Subs that are subscribed to nothing any more, so that a client may
// change from one parameter map to the next any number of times. One Sub always stays.
func (u *Union) Leave(now time.Time) {
	m := u.more
	if m == nil {
		return
	}
	for i := 0; i < len(m.subs) && len(m.subs) > 1; i++ {
		s := m.subs[i]
		if x := s.Standing(); !s.located || x.Names+x.Sets+x.Dropped > 0 {
			continue
		}
		s.Close(now)
		delete(m.sent, s)
		delete(m.waived, s)
		m.subs = slices.Delete(m.subs, i, i+1)
		i--
		u.one = m.subs[0]
		if s.Pending() { // it may have been reminded on behalf of another Sub (Remind)
			u.Remind()
		}
		if m.sentVersion != "" && m.stars > 0 && !s.delta {
			// The client of `*` may keep what it had until a list leaves it out.
			if m.due == nil {
				m.due = &Answer{}
			}
			u.Remind()
		}
	}
}

// look records whether a Sub is subscribed to `*`, and reports whether that has changed.
func (m *multiUnion) look(s *Sub) (changed bool) {
	was := s.starred
	if s.starred = s.Standing().Wildcard; was == s.starred {
		return false
	}
	if s.starred {
		m.stars++
	} else {
		m.stars--
	}
	switch {
	case s.located:
	case s.starred:
		m.star = s
	case m.star == s:
		m.star = nil
	}
	return true
}

// Pending is Sub.Pending of any Sub. It clears the mark of each.
func (u *Union) Pending() bool {
	if u.more == nil {
		return u.one.Pending()
	}
	pending := false
	for _, s := range u.more.subs {
		pending = s.Pending() || pending
	}
	return pending
}

// Peek is Sub.Peek of any Sub.
func (u *Union) Peek() bool { return u.any((*Sub).Peek) }

// Restated is Sub.Restated; false if there are several Subs.
func (u *Union) Restated() bool { return u.more == nil && u.one.Restated() }

// Resolved is Sub.Resolved of all Subs.
func (u *Union) Resolved() bool { return !u.any(func(s *Sub) bool { return !s.Resolved() }) }

// Changed is Sub.Changed of any Sub.
func (u *Union) Changed() bool { return u.any((*Sub).Changed) }

// Urgent is Sub.Urgent of any Sub.
func (u *Union) Urgent() bool { return u.any((*Sub).Urgent) }

func (u *Union) any(is func(*Sub) bool) bool {
	for i := range u.Len() {
		if is(u.Part(i)) {
			return true
		}
	}
	return false
}

// Remind is Sub.Remind.
func (u *Union) Remind() { u.one.Remind() } // Take takes from all Subs

// Insist makes the next Take give a whole list even if nothing in it has changed, because something
// has to be sent with it.
func (u *Union) Insist() {
	switch m := u.more; {
	case m == nil || !u.one.inUnion:
		u.one.expectList()
	case m.due == nil:
		m.due = &Answer{}
	}
}

// Since is Sub.Since of all Subs together: the oldest.
func (u *Union) Since() (since time.Time) {
	for i := range u.Len() {
		if at := u.Part(i).Since(); since.IsZero() || !at.IsZero() && at.Before(since) {
			since = at
		}
	}
	return since
}

// Standing is Sub.Standing of all Subs together.
func (u *Union) Standing() Standing {
	all := u.one.Standing()
	for i := 1; i < u.Len(); i++ {
		x := u.Part(i).Standing()
		all.Unsent = older(all.Unsent, x.Unsent)
		all.Waiting = all.Waiting || x.Waiting
		all.Settling = all.Settling || x.Settling
		all.Arriving = all.Arriving || x.Arriving
		all.Held = all.Held || x.Held
		all.StandIn = all.StandIn || x.StandIn
		all.Lagging = all.Lagging || x.Lagging
		all.Names += x.Names
		all.Sets += x.Sets
		all.Dropped += x.Dropped
		all.Wildcard = all.Wildcard || x.Wildcard
	}
	return all
}

// Unsent is Standing().Unsent.
func (u *Union) Unsent() uint64 {
	unsent := u.one.Unsent()
	for i := 1; i < u.Len(); i++ {
		unsent = older(unsent, u.Part(i).Unsent())
	}
	return unsent
}

// older is the smaller revision; 0 is none.
func older(a, b uint64) uint64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Deferred is Sub.Deferred of all Subs together.
func (u *Union) Deferred() (since time.Time, keeps bool) {
	if u.more == nil {
		return u.one.Deferred()
	}
	for _, s := range u.more.subs {
		if u.more.mustWait(s, s.listing()) {
			return time.Time{}, false
		}
		at, is := s.Deferred()
		if is && (!keeps || at.Before(since)) {
			since, keeps = at, true
		}
	}
	return since, keeps
}

// DeferredDue is Sub.DeferredDue of any Sub.
func (u *Union) DeferredDue(now time.Time, k Deferral) bool {
	return u.any(func(s *Sub) bool { return s.DeferredDue(now, k) })
}

// Went is Sub.Went of any Sub.
func (u *Union) Went(name string) bool { return u.any(func(s *Sub) bool { return s.Went(name) }) }

// Owe is Sub.Owe.
func (u *Union) Owe(names []string) {
	for i := range u.Len() {
		u.Part(i).Owe(names)
	}
}

// Unsend is Sub.Unsend.
func (u *Union) Unsend() {
	for i := range u.Len() {
		u.Part(i).Unsend()
	}
}

// Demands reports whether the next Take answers a name that the client asked for and waits for. An
// HTTP request may wait for that answer, so nothing may delay it (ALIAS-8).
func (u *Union) Demands() bool {
	for i := range u.Len() {
		if u.Part(i).demands() {
			return true
		}
	}
	return false
}

// OweNamespaces is Sub.OweNamespaces.
func (u *Union) OweNamespaces(routes []string, except []*xds.Variant) {
	for i := range u.Len() {
		u.Part(i).OweNamespaces(routes, except)
	}
}

// Ack is Sub.Ack.
func (u *Union) Ack(t Receipt) { t.judged(accepted) }

// Nack is Sub.Nack.
func (u *Union) Nack(t Receipt) { t.judged(rejected) }

// judged records what the client said of the answer, for each Sub that had a part in it.
func (t Receipt) judged(said verdict) {
	if t.sub != nil {
		t.sub.judge(t.number, said)
	}
	for p := t.parts; p != nil; p = p.next {
		p.sub.judge(p.number, said)
	}
}

// Close is Sub.Close.
func (u *Union) Close(now time.Time) {
	for i := range u.Len() {
		u.Part(i).Close(now)
	}
}

// Waive makes the first list not wait for a Sub that cannot be sent yet. A client that holds
// nothing is better off with the rest (FED-5). The Sub's list is added as soon as it can be sent.
// The result is false if the list must go on waiting: there is no rest, or the client holds
// something that the list would delete. That may be what it was sent by name before it asked for
// `*`.
func (u *Union) Waive(part *Sub) bool {
	m := u.more
	if m == nil || m.sentVersion != "" || u.one.delta || !m.mustWait(part, part.listing()) || part.hasNames() {
		return false
	}
	for _, s := range m.subs {
		if s.listing().holds {
			return false
		}
	}
	if m.waived == nil {
		m.waived = map[*Sub]bool{}
	}
	m.waived[part] = true
	u.Remind()
	return true
}

// mustWait reports whether a list has to wait for a Sub. The first list with `*` waits for the
// names at other origins, too, since what comes with `*` may need them.
func (m *multiUnion) mustWait(s *Sub, x listing) bool {
	settled := x.ready && (x.resolved || m.sentVersion != "" || m.stars == 0 || s.starred)
	return !settled && !m.waived[s]
}

// Take is Sub.Take.
func (u *Union) Take(now time.Time) *Answer { return u.TakeDeferring(now, deferNothing) }

// TakeDeferring is Sub.TakeDeferring. What all Subs have to send is one answer.
func (u *Union) TakeDeferring(now time.Time, k Deferral) *Answer {
	m := u.more
	switch {
	case m == nil:
		return u.one.TakeDeferring(now, k)
	case !u.one.inUnion: // one Sub alone, and it is located
		a := u.one.TakeDeferring(now, k)
		if a != nil {
			m.locate(u.one, a)
			m.tidy(a.Located)
		}
		return a
	case !u.one.delta && (m.stars > 0 || xds.SentWhole(u.one.typeURL)):
		return m.takeWhole(now, k)
	}
	return m.takeChanges(now, k)
}
