package relay

import (
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// aliasIndex records, for the names of a shard, the resources that go by more names than their own
// (ALIAS-1). Its size is bounded by what the entries hold.
type aliasIndex struct {
	held   map[string]*aliasGroup // by the resource's name
	lister map[string]string      // by alias: the resource that listed it last
}

// aliasGroup is one resource that has aliases, or had some when it was asked for by one.
type aliasGroup struct {
	name string
	// entries hold the resource, the entry of its own name among them. Invariant: each has the
	// group as its also.
	entries []*entry
	// aliases are the canonical names in lister. Another resource may list them by now.
	aliases []string
}

// counts reports whether the entry is the one that is counted among those that hold the same
// resource.
func (e *entry) counts() bool { return e.also == nil || e.also.entries[0] == e }

// entry is an entry that holds the resource, under whichever of its names, or the entry of its own
// name if none holds it; nil: there is none.
func (s *shard) entry(name string) *entry {
	if h := s.named.other.held[name]; h != nil {
		return h.entries[0]
	}
	return s.named.entries[name]
}

// bodies is what is held by name of a resource, under whichever of its names.
func (s *shard) bodies(name string) []*xds.Variant { return s.entry(name).bodies() }

// bodies are the variants of an entry; e may be nil.
func (e *entry) bodies() []*xds.Variant {
	if e == nil {
		return nil
	}
	return e.variants
}

// outdated reports whether a newer, different body of a set's member was received by name.
func (s *shard) outdated(name string, it *item) bool {
	e := s.entry(name)
	return e != nil && e.chosen != nil && e.chosen.Digest != it.variant.Digest && e.rev > it.rev
}

// hold puts a body into an entry. An alias stands for one resource, so the bodies of another
// resource are removed first.
func (s *shard) hold(e *entry, body *xds.Variant) {
	if len(e.variants) > 0 && e.variants[0].Name != body.Name {
		s.empty(e)
	}
	e.variants = put(e.variants, body)
	if e.notice = nil; e.aliasDropped && body.ListsAs(e.name) {
		e.onListed()
	}
	if e.also != nil || len(body.Aliases) == 0 && e.name == body.Name {
		return
	}
	h := s.named.other.held[body.Name]
	if h == nil {
		h = &aliasGroup{name: body.Name}
		if s.named.other.held == nil {
			s.named.other = aliasIndex{map[string]*aliasGroup{}, map[string]string{}}
		}
		s.named.other.held[body.Name] = h
	}
	h.entries = append(h.entries, e)
	e.also = h
}

// empty removes all bodies from an entry.
func (s *shard) empty(e *entry) {
	e.variants = nil
	h := e.also
	if h == nil {
		return
	}
	e.also = nil
	i := slices.Index(h.entries, e)
	h.entries[i] = h.entries[len(h.entries)-1]
	h.entries[len(h.entries)-1] = nil
	if h.entries = h.entries[:len(h.entries)-1]; len(h.entries) == 0 {
		s.unlist(h)
		delete(s.named.other.held, h.name)
	}
}

// cut removes the variant with exactly these constraints from an entry.
func (s *shard) cut(e *entry, key string) {
	if e.variants = cut(e.variants, key); len(e.variants) == 0 {
		s.empty(e)
	}
}

func (s *shard) unlist(h *aliasGroup) {
	for _, alias := range h.aliases {
		if s.named.other.lister[alias] == h.name {
			delete(s.named.other.lister, alias)
		}
	}
	h.aliases = nil
}

// list updates the aliases of a resource to those that its variants list.
func (s *shard) list(h *aliasGroup) {
	if len(h.entries) == 0 {
		return
	}
	s.unlist(h)
	seen := map[*xds.Variant]bool{}
	for _, e := range h.entries {
		for _, v := range e.variants {
			if seen[v] {
				continue
			}
			seen[v] = true
			for _, alias := range v.Aliases {
				alias = xds.NameKey(alias)
				s.named.other.lister[alias] = h.name
				h.aliases = append(h.aliases, alias)
			}
		}
	}
}

// share fills a new entry with what is already held of the resource that goes by its name, so a
// client that subscribes to another name of it is served at once (ALIAS-3). The name is asked
// upstream nevertheless, and the origin's answer corrects the entry.
func (s *shard) share(e *entry) {
	o := &s.named.other
	h := o.held[e.name]
	if h == nil {
		h = o.held[o.lister[e.name]]
	}
	if h == nil {
		return
	}
	for _, x := range slices.Clone(h.entries) {
		for _, v := range x.variants {
			if v.ListsAs(e.name) {
				s.hold(e, v)
				e.onRestored(x.unconfirmed)
			}
		}
	}
	s.trackExpiry(expiringKey{name: e.name}, e.variants)
}

// spread puts a body into the entry of its name and into those of its aliases (ALIAS-1), which
// share it (ALIAS-3). An entry that holds the resource of its own name is no alias of another.
//
// An alias that the body no longer lists is an unresolved name from now on (ALIAS-4). It is asked
// again, and clients that subscribe now are not answered with what it stood for. Clients that hold
// the resource by the alias may be using it. They are sent its updates until the origin has
// answered for the alias; then they lose it.
func (s *shard) spread(a *Applied, body *xds.Variant, gen uint32) {
	key := body.Constraints.Key()
	listed, lost := map[*entry]bool{}, []*entry(nil)
	if e := s.named.entries[body.Name]; e != nil {
		listed[e] = true
	}
	for _, alias := range body.Aliases {
		if e := s.named.entries[xds.NameKey(alias)]; e != nil && !e.ownName() {
			listed[e] = true
		}
	}
	if h := s.named.other.held[body.Name]; h != nil {
		for _, e := range h.entries {
			if !listed[e] && find(e.variants, key) != nil {
				lost = append(lost, e)
			}
		}
	}
	asked := slices.ContainsFunc(lost, func(e *entry) bool { return e.askedOn(gen) })
	for e := range listed {
		asked = asked || e.askedOn(gen)
	}
	switch {
	case len(listed)+len(lost) == 0:
		s.ignore(a, xds.Identity{Name: body.Name, Constraints: body.Constraints.Key()})
		return
	case !asked:
		return // asked on another stream; see applyNamed
	}
	changed := false
	swap := func(e *entry) {
		old := find(e.variants, key)
		changed = changed || old == nil || old.Digest != body.Digest
		s.hold(e, body)
		e.onSeen(gen)
		s.touch(e, false)
	}
	for e := range listed {
		swap(e)
	}
	for _, e := range lost {
		if len(e.variants) > 1 { // another variant may still list the name
			s.cut(e, key)
			s.touch(e, false)
			changed = true
			continue
		}
		if swap(e); !e.aliasDropped {
			e.onDropped()
			s.look(e)
			for r := e.head; r != nil; r = r.next {
				r.owe(true)
			}
		}
	}
	if h := s.named.other.held[body.Name]; h != nil {
		s.list(h)
	}
	if changed {
		a.Changed++
	} else {
		a.Resumed++
	}
}

// holders are the entries that a removal or an error of this name concerns: the name's own, and
// those that hold the resource.
func (s *shard) holders(name string) (es []*entry) {
	own := s.named.entries[name]
	if own != nil {
		es = append(es, own)
	}
	if h := s.named.other.held[name]; h != nil {
		for _, e := range h.entries {
			if e != own {
				es = append(es, e)
			}
		}
	}
	return es
}

// heardAll applies a resource without a body to all entries that hold the resource.
func (s *shard) heardAll(a *Applied, e *entry, u *update, r *xds.Resource, gen uint32) {
	all := []*entry{e}
	if e.also != nil {
		all = slices.Clone(e.also.entries)
	}
	key := r.Constraints.Key()
	gone := s.heardName(a, e, u, r, gen)
	held := find(e.variants, key)
	for _, x := range all {
		switch {
		case x == e || find(x.variants, key) == nil:
		case gone:
			s.cut(x, key)
		default:
			x.variants = put(x.variants, held)
		}
		s.touch(x, gone)
	}
}

// notice looks at a resource without a payload. If it states that an alias did not resolve
// (ALIAS-5), notice applies that and returns true. For a VirtualHost it always states that (TTL-3).
// For another type it may be a heartbeat, and it is one if the resource is held.
func (s *shard) notice(a *Applied, r *xds.Resource, gen uint32) bool {
	names := r.Aliases
	switch {
	case xds.IsVirtualHost(s.typeURL) && len(names) == 0:
		names = []string{r.Spelling()}
	case len(names) == 0, !xds.IsVirtualHost(s.typeURL) && len(s.bodies(r.Name)) > 0:
		return false
	}
	notice := xds.NewNotice(r.Spelling(), r.Aliases, "")
	notice.From.Revision = s.rev
	known := false
	for _, name := range names {
		e := s.named.entries[xds.NameKey(name)]
		if e == nil {
			continue
		}
		known = true
		if !e.askedOn(gen) {
			continue
		}
		if len(e.variants) > 0 && s.named.freezes().Changes() {
			s.named.markFrozen(xds.Identity{Name: e.name, Constraints: r.Constraints.Key()})
			a.Waiting++
			continue
		}
		if len(e.variants) > 0 {
			s.empty(e)
			a.Changed++
		}
		e.onNamed()
		if e.notice = notice; len(r.Aliases) == 0 || e.name == notice.Name {
			e.notice = nil // a removal says the same, and Envoy refuses this form
		}
		s.touch(e, true)
	}
	if !known {
		s.ignore(a, r.Identity())
	}
	return true
}

// ignore counts a resource that was not asked for. If there are several parameter maps, the count
// waits until it is known whether any of them asked for it (countStrays).
func (s *shard) ignore(a *Applied, id xds.Identity) {
	if a.strays != nil {
		a.strays[id]++
		return
	}
	a.Unrequested++
	s.unrequested++
}

// ownName reports whether the entry holds the resource of its own name.
func (e *entry) ownName() bool { return len(e.variants) > 0 && e.variants[0].Name == e.name }
