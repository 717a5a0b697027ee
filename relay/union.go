package relay

import (
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
func (u *Union) Demands() bool { return u.any((*Sub).demands) }

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

// SettlesUntil is the time until which other types may wait for the sets that the client waits for;
// zero: it waits for none. If the time has passed, the wait was in vain.
func (u *Union) SettlesUntil(now time.Time) (until time.Time) {
	for i := range u.Len() {
		if x := u.Part(i).settlesUntil(now); x.After(until) {
			until = x
		}
	}
	return until
}
