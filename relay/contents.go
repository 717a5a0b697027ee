package relay

import (
	"cmp"

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

	// Of what was sent, to find it in the newest tier (tierreport.go).
	shard *shard
	set   bool         // it is from a set
	body  *xds.Variant // nil: the list as a whole
	upTo  uint64       // the revision of the list
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
	c = s.content(nil, "", s.sets.first != nil && from != s.newest)
	c.from, c.upTo = from, e.to
	if !xds.IsSecret(s.typeURL) {
		c.Version = from.Version
	}
	return c, true
}

// contents are those of one Sub. alone: the answer has nothing of others. It locks the shard.
func (s *Sub) contents(e *extent, names []string, alone bool) (all []Content) {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
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
				all = append(all, s.content(it.variant, it.variant.Name, true))
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
			c, ok = s.content(it.variant, it.variant.Name, true), true
		}
	}
	if unchanged := v.unchangedItem(nil); !unchanged.within(e) {
		return c, ok
	}
	for body := range v.allUnchanged() {
		if ok || v.unchanged > 1 {
			return Content{}, false
		}
		c, ok = s.content(body, body.Name, true), true
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
	return s.content(body, r.entry.name, false)
}

// content describes a resource of the answer. set: the client has it from a set, and not by name.
func (s *Sub) content(body *xds.Variant, name string, set bool) Content {
	k, g := s.shard.store, s.shard.group
	c := Content{Name: name, Origin: g.origin.Name(), Group: g.Key(), shard: s.shard, set: set, body: body}
	scope := &s.shard.named.scope
	if c.lane = k.lane(s.shard.named.lane); set {
		c.lane, scope = k.lane(mainLane), &s.shard.star.scope
	}
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
	if c.from = body.From; xds.FullState(s.typeURL) && g.config().SotW && len(scope.guard.held) == 0 {
		c.from = xds.Newer(c.from, scope.from) // each list has all that there is
	}
	return c
}
