package relay

import (
	"maps"
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

// entry finds the entry that holds the resource under any of its names, or else the entry of its
// own name. It is nil if there is neither.
func (n *namedTable) entry(name string) *entry {
	if h := n.other.held[name]; h != nil {
		return h.entries[0]
	}
	return n.entries[name]
}

// bodies are the variants of an entry; e may be nil.
func (e *entry) bodies() []*xds.Variant {
	if e == nil {
		return nil
	}
	return e.variants
}

// outdated reports whether a newer and different body of a member came by name.
func (n *namedTable) outdated(name string, it *item) bool {
	e := n.entry(name)
	return e != nil && e.chosen != nil && e.chosen.Digest != it.variant.Digest && e.rev > it.rev
}

// hold puts a body into an entry. An alias stands for one resource at a time, so the bodies of
// another resource are removed first.
func (n *namedTable) hold(e *entry, body *xds.Variant) {
	if len(e.variants) > 0 && e.variants[0].Name != body.Name {
		n.empty(e)
	}
	e.variants = put(e.variants, body)
	n.revise(e)
	if e.notice = nil; e.aliasDropped && body.ListsAs(e.name) {
		e.onListed()
	}
	if e.also != nil || len(body.Aliases) == 0 && e.name == body.Name {
		return
	}
	h := n.other.held[body.Name]
	if h == nil {
		h = &aliasGroup{name: body.Name}
		if n.other.held == nil {
			n.other = aliasIndex{map[string]*aliasGroup{}, map[string]string{}}
		}
		n.other.held[body.Name] = h
	}
	h.entries = append(h.entries, e)
	e.also = h
}

// empty removes all bodies from an entry.
func (n *namedTable) empty(e *entry) {
	n.revise(e)
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
		n.other.unlist(h)
		delete(n.other.held, h.name)
	}
}

// cut removes the variant with exactly these constraints from an entry.
func (n *namedTable) cut(e *entry, key string) {
	n.revise(e)
	if e.variants = cut(e.variants, key); len(e.variants) == 0 {
		n.empty(e)
	}
}

// unlist forgets the aliases of a resource.
func (o *aliasIndex) unlist(h *aliasGroup) {
	for _, alias := range h.aliases {
		if o.lister[alias] == h.name {
			delete(o.lister, alias)
		}
	}
	h.aliases = nil
}

// list updates the aliases of a resource to those that its variants list.
func (o *aliasIndex) list(h *aliasGroup) {
	if len(h.entries) == 0 {
		return
	}
	o.unlist(h)
	seen := map[*xds.Variant]bool{}
	for _, e := range h.entries {
		for _, v := range e.variants {
			if seen[v] {
				continue
			}
			seen[v] = true
			for _, alias := range v.Aliases {
				alias = xds.NameKey(alias)
				o.lister[alias] = h.name
				h.aliases = append(h.aliases, alias)
			}
		}
	}
}

// listAll updates the aliases of all resources. What an alias stood for last, as the origin has it,
// is kept where the resource lists it still (unbinds).
func (n *namedTable) listAll() {
	was := maps.Clone(n.other.lister)
	for _, name := range slices.Sorted(maps.Keys(n.other.held)) {
		n.other.list(n.other.held[name])
	}
	for alias, name := range was {
		if h := n.other.held[name]; h != nil && slices.Contains(h.aliases, alias) {
			n.other.lister[alias] = name
		}
	}
}

// share fills a new entry with what is already held of the resource that goes by its name, so a
// client that subscribes to another name of it is served at once (ALIAS-3). The name is asked
// upstream nevertheless, and the origin's answer corrects the entry.
func (n *namedTable) share(e *entry) {
	o := &n.other
	h := o.held[e.name]
	if h == nil {
		h = o.held[o.lister[e.name]]
	}
	if v := n.shard.stateBody(e.name); v != nil { // the group is held, and the alias may have moved
		h = o.held[v.Name]
	}
	if h == nil || n.shard.heldAbsent(e.name) {
		return
	}
	for _, x := range slices.Clone(h.entries) {
		for _, v := range x.variants {
			if v.ListsAs(e.name) {
				n.hold(e, v)
				e.onRestored(x.unconfirmed)
			}
		}
	}
	n.shard.expiring.track(expiringKey{name: e.name}, e.variants)
}

// spread puts a body into the entry of its name and into those of its aliases (ALIAS-1), which
// share it (ALIAS-3). An entry that holds the resource of its own name is no alias of another.
//
// An alias that the body no longer lists is an unresolved name from now on (ALIAS-4). It is asked
// again, and clients that subscribe now are not answered with what it stood for. Clients that hold
// the resource by the alias may be using it. They are sent its updates until the origin has
// answered for the alias; then they lose it.
func (n *namedTable) spread(a *Applied, body *xds.Variant, gen uint32) {
	key := body.Constraints.Key()
	listed, lost := map[*entry]bool{}, []*entry(nil)
	if e := n.entries[body.Name]; e != nil {
		listed[e] = true
	}
	for _, alias := range body.Aliases {
		if e := n.entries[xds.NameKey(alias)]; e != nil && !e.ownName() && !n.bound(e, body) {
			listed[e] = true
		}
	}
	if h := n.other.held[body.Name]; h != nil {
		for _, e := range h.entries {
			if !listed[e] && find(e.variants, key) != nil {
				lost = append(lost, e)
			}
		}
	}
	asked := slices.ContainsFunc(lost, func(e *entry) bool { return e.asksOn(gen) })
	for e := range listed {
		asked = asked || e.asksOn(gen)
	}
	switch {
	case len(listed)+len(lost) == 0:
		n.shard.ignore(a, xds.Identity{Name: body.Name, Constraints: body.Constraints.Key()})
		return
	case !asked:
		return // asked on another stream; see apply
	}
	changed := false
	swap := func(e *entry) {
		old := find(e.variants, key)
		changed = changed || old == nil || old.Digest != body.Digest
		n.hold(e, body)
		e.onSeen(gen)
		n.revise(e)
		n.touch(e, false)
	}
	for e := range listed {
		swap(e)
	}
	for _, e := range lost {
		if len(e.variants) > 1 { // another variant may still list the name
			n.cut(e, key)
			n.touch(e, false)
			changed = true
			continue
		}
		if swap(e); !e.aliasDropped {
			e.onDropped()
			n.look(e)
			for r := e.head; r != nil; r = r.next {
				r.owe(true)
			}
		}
	}
	if h := n.other.held[body.Name]; h != nil {
		n.other.list(h)
	}
	if changed {
		a.Changed++
	} else {
		a.Resumed++
	}
}

// holders are the entries that a removal or an error of a resource concerns: the entry of that
// name, and all that hold the resource.
func (n *namedTable) holders(name string) (es []*entry) {
	own := n.entries[name]
	if own != nil {
		es = append(es, own)
	}
	if h := n.other.held[name]; h != nil {
		for _, e := range h.entries {
			if e != own {
				es = append(es, e)
			}
		}
	}
	return es
}

// heardAll applies a resource without a body to all entries that hold the resource.
func (n *namedTable) heardAll(a *Applied, e *entry, u *update, r *xds.Resource, gen uint32) {
	all := []*entry{e}
	if e.also != nil {
		all = slices.Clone(e.also.entries)
	}
	key := r.Constraints.Key()
	gone := n.heard(a, e, u, r, gen)
	held := find(e.variants, key)
	for _, x := range all {
		switch {
		case x == e || find(x.variants, key) == nil:
		case gone:
			n.cut(x, key)
		default:
			x.variants = put(x.variants, held)
		}
		n.touch(x, gone)
	}
}

// notice looks at a resource without a payload. If it states that an alias did not resolve
// (ALIAS-5), notice applies that and returns true. For a VirtualHost it always states that (TTL-3).
// For another type it may be a heartbeat, and it is one if the resource is held.
func (n *namedTable) notice(a *Applied, r *xds.Resource, gen uint32) bool {
	s := n.shard
	names := r.Aliases
	switch {
	case xds.IsVirtualHost(s.typeURL) && len(names) == 0:
		names = []string{r.Spelling()}
	case len(names) == 0, !xds.IsVirtualHost(s.typeURL) && len(n.bodies(r.Name)) > 0:
		return false
	}
	notice := xds.NewNotice(r.Spelling(), r.Aliases, "")
	notice.From.Revision = s.rev
	known := false
	for _, name := range names {
		e := n.entries[xds.NameKey(name)]
		if e == nil {
			continue
		}
		known = true
		if !e.asksOn(gen) {
			continue
		}
		if len(e.variants) > 0 && n.freezes().Removals() {
			n.markFrozen(xds.Identity{Name: e.name, Constraints: r.Constraints.Key()}, xds.Digest{})
			a.Waiting++
			continue
		}
		if len(e.variants) > 0 {
			n.empty(e)
			a.Changed++
		}
		e.onNamed()
		if e.notice = notice; len(r.Aliases) == 0 || e.name == notice.Name {
			e.notice = nil // a removal says the same, and Envoy refuses this form
		}
		n.touch(e, true)
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
	a.stray(id.Name)
	s.unrequested++
}

// stray counts a resource or an error that was not asked for.
func (a *Applied) stray(name string) {
	if a.Unrequested++; a.Unrequested == 1 && !xds.IsNameless(name) {
		a.Stray = name
	}
}

// ownName reports whether the entry holds the resource of its own name.
func (e *entry) ownName() bool { return len(e.variants) > 0 && e.variants[0].Name == e.name }
