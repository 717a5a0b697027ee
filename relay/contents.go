package relay

import (
	"cmp"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Content is a resource that an answer had.
type Content struct {
	Name   string // as the origin spells it; "": the list as a whole
	Origin string
	Group  string // key
	// Version is the origin's, of the body that was sent: its own, or else that of the response
	// that brought it. "" if that is not known any more, or must not be seen (RELAY-76).
	Version string

	lane *Lane
	from *xds.Provenance // of the response that Report is about; nil: there is none
	body *xds.Variant    // nil: it is not known, or the list
	set  bool            // the client has it from a set
}

// mostChanges is how far a set, or a list of names, is looked through for the only resource of an
// answer.
const mostChanges = 64

// Contents gives the one resource that an answer had, and if it had several, those of names that
// were among them. If none was, it gives the list as a whole, unless that is of several origins or
// parameter maps. It costs a look-up for each name, however much the client is subscribed to.
func (u *Union) Contents(t *Receipt, names []string) (all []Content) {
	for i := range u.Len() {
		s := u.Part(i)
		if e := t.of(s); e != nil {
			all = append(all, s.contents(e, names, t.parts == nil)...)
		}
	}
	if len(all) == 0 && t.sub != nil && t.parts == nil {
		if c, ok := t.sub.list(&t.extent); ok {
			all = append(all, c)
		}
	}
	return all
}

// list is the answer as a whole, if nothing newer has been sent since. It locks the shard.
func (s *Sub) list(e *extent) (c Content, ok bool) {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	from := s.from()
	if from == nil || from.Fallback || from.Revision > e.to {
		return c, false
	}
	c = s.shard.content(nil, "", s.sets.first != nil && from != s.newest)
	c.from = from
	if !xds.IsSecret(s.typeURL) {
		c.Version = from.Version
	}
	return c, true
}

// contents are those of one Sub. alone: the answer has nothing of others. It locks the shard.
func (s *Sub) contents(e *extent, names []string, alone bool) (all []Content) {
	s.shard.mu.Lock()
	defer s.shard.unlock()
	if alone {
		if c, ok := s.only(e); ok {
			return append(all, c)
		}
	}
	for _, name := range names {
		key, err := xds.CanonicalName(name)
		if err != nil {
			continue
		}
		if r := s.record(key); r != nil && r.within(e) {
			all = append(all, s.contentOf(r))
			continue
		}
		for p := s.sets.first; p != nil; p = p.also {
			if it := p.view.item(key); it != nil && it.within(e) {
				all = append(all, s.shard.content(it.variant, it.variant.Name, true))
				break
			}
		}
	}
	return all
}

// only is the one resource of the answer, if it had no other.
func (s *Sub) only(e *extent) (c Content, ok bool) {
	if s.sets.first == nil {
		if s.records.len() > mostChanges {
			return c, false
		}
		for r := range s.records.all() {
			switch {
			case !r.within(e):
			case ok:
				return Content{}, false
			default:
				c, ok = s.contentOf(r), true
			}
		}
		return c, ok
	}
	if s.records.len() > 0 || s.sets.first.also != nil {
		return c, false
	}
	v, steps := s.sets.first.view, 0
	for it := v.tail; it != nil && (e.whole || it.last > e.from); it = it.prev {
		if steps++; steps > mostChanges {
			return Content{}, false
		}
		switch {
		case !it.within(e):
		case ok:
			return Content{}, false
		default:
			c, ok = s.shard.content(it.variant, it.variant.Name, true), true
		}
	}
	if unchanged := v.unchangedItem(nil); !unchanged.within(e) {
		return c, ok
	}
	for body := range v.allUnchanged() {
		if ok || v.unchanged > 1 {
			return Content{}, false
		}
		c, ok = s.shard.content(body, body.Name, true), true
	}
	return c, ok
}

// within reports whether an answer had the name's resource.
func (r *record) within(e *extent) bool {
	return !r.is(unsubscribed) && r.is(holds) && (e.number == r.at || e.whole && r.at <= e.number)
}

// within reports whether an answer had the item as it is now.
func (it *item) within(e *extent) bool {
	return !it.dead && it.rev <= e.to && (e.whole || it.rev > e.from)
}

// contentOf is the content of a record. If another body than the one that was sent is held by now,
// its version is not known.
func (s *Sub) contentOf(r *record) Content {
	body, _, _ := r.effective()
	if body != nil && body.Digest != r.sent {
		body = nil
	}
	return s.shard.content(body, r.entry.name, false)
}

// content describes a resource of the answer. set: the client has it from a set, and not by name.
func (s *shard) content(body *xds.Variant, name string, set bool) Content {
	g := s.group
	c := Content{Name: name, Origin: g.origin.Name(), Group: g.Key(), body: body, set: set}
	c.lane = s.laneOf(set)
	if body == nil {
		return c
	}
	c.Name = body.Spelling()
	if !xds.IsSecret(s.typeURL) {
		c.Version = cmp.Or(body.OriginVersion(), body.From.Version)
	}
	if body.From.Fallback {
		return c
	}
	c.from = s.lastSaid(body, set)
	return c
}

// laneOf is the lane that brings a set, or names.
func (s *shard) laneOf(set bool) *Lane {
	if set {
		return s.lane(mainLane)
	}
	return s.lane(s.named.lane)
}

// lastSaid is of the response that said last what a body is, of a set or by name.
func (s *shard) lastSaid(body *xds.Variant, set bool) *xds.Provenance {
	scope := &s.named.scope
	if set {
		scope = &s.star.scope
	}
	if xds.FullState(s.typeURL) && s.group.config().SotW && len(scope.guard.held) == 0 {
		return xds.Newer(body.From, scope.from) // each list has all that there is
	}
	return body.From
}

// atOrigin is where the origin brought what a client of a tier rejected: the lane of the newest
// tier, and the response there. What was given to the tier when it was held has the response with
// it. Of what the tier asked for, the newest has the same body; nil: it has another by now. It
// locks the newest tier's group, and then its store.
func (c *Content) atOrigin() (*Lane, *xds.Provenance) {
	g := c.lane.group
	k := g.newest.store(c.from.TypeURL)
	if k == nil {
		return nil, nil
	}
	given := c.from
	if g.origin.Servers()[given.Server] == TierServer {
		given = nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.all {
		if c.body == nil {
			break
		}
		set, by := s.same(c.body)
		if by != nil {
			return s.laneOf(set), s.lastSaid(by, set)
		}
	}
	if len(k.all) == 0 {
		return nil, nil
	}
	return k.all[0].laneOf(c.set), given
}

// same is the body that the shard has, of a set or by name, if it is the same as that of another
// group; nil: it has none such.
func (s *shard) same(body *xds.Variant) (set bool, same *xds.Variant) {
	look := func(vs []*xds.Variant) bool {
		v := find(vs, body.Constraints.Key())
		if v != nil && v.Digest == body.Digest {
			same = v
		}
		return same != nil
	}
	if m := s.star.members.get(body.Name); m != nil && look(m.variants) {
		return true, same
	}
	if e := s.named.entries[xds.NameKey(body.Name)]; e != nil {
		look(e.variants)
	}
	return false, same
}

// Report notes for the origin that a client rejected this (RELAY-35), unless the origin is not to
// be told. The client is told apart from others by a hash. It locks the lane.
func (c *Content) Report(now time.Time, client uint64, message string) {
	if c.from == nil {
		return
	}
	l, from := c.lane, c.from
	if l.group.newest != nil {
		if l, from = c.atOrigin(); from == nil {
			return
		}
	}
	if !l.Reporting() {
		return
	}
	l.mu.Lock()
	isNew := l.reports.note(now, Report{
		TypeURL: from.TypeURL, Came: from.Came, Version: from.Version, Resource: c.Name, Message: message,
	}, client)
	l.mu.Unlock()
	if isNew {
		signal(l.wake)
	}
}
