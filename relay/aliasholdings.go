package relay

import (
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// aliasHoldings is what a client holds under other names than those it subscribed to. A client that
// subscribed to an alias holds the resource under the resource's own name. Names that are no
// aliases cost nothing here. Guarded by the shard's lock.
type aliasHoldings struct {
	of map[*record]heldName // the resource that an alias stands for, as the client was sent it
	by map[string][]*record // the reverse, by canonical name

	// A client that comes back states what it holds by the resources' own names, and subscribes to
	// names that may be aliases of these. claims are what it says it holds, until all such names
	// are decided. undecided is the number of these names. deferred are the claims to remove if no
	// alias stands for them. The same fields serve a client that gives up a resource and may keep
	// it by aliases whose answers it waits for.
	claims    claims
	deferred  []heldName
	undecided int

	// During one Take: the resources that records no longer stand for, whether notices are to be
	// sent, and the virtual hosts on demand that are answered as not existing.
	dropped      []droppedAlias
	notices      bool
	missingHosts []missingHost
}

// noAliases is shared by all Subs none of whose names is or may be an alias. It is never written;
// see aliases.
var noAliases = &aliasHoldings{}

// aliases is the Sub's own aliasHoldings, which may be written. It is made if there is none.
func (s *Sub) aliases() *aliasHoldings {
	if s.alias == noAliases {
		s.alias = &aliasHoldings{}
	}
	return s.alias
}

// none reports whether an answer can be made without looking at aliases.
func (a *aliasHoldings) none() bool {
	return len(a.of)+len(a.dropped)+len(a.deferred)+len(a.missingHosts) == 0 && !a.notices
}

// heldName is a resource's own name. rev is the revision of the body that the client was sent last,
// if it was sent one.
type heldName struct {
	name, spelt string
	rev         uint64
}

// droppedAlias is a resource that an alias no longer stands for. absent: the alias stands for
// nothing, and the client has to be sent that. asked: the client asked for the alias and has not
// been answered.
type droppedAlias struct {
	heldName
	record *record
	absent bool
	asked  bool
	sent   xds.Digest // the body that the client has of it
}

// resource is the canonical name of the resource that the record stands for.
func (a *aliasHoldings) resource(r *record) string {
	if x, is := a.of[r]; is {
		return x.name
	}
	return r.entry.name
}

// set records the resource that a record stands for. The record's own name needs no entry.
func (a *aliasHoldings) set(r *record, name, spelt string) {
	was, is := a.of[r]
	if is && was.name == name || !is && r.entry.name == name {
		return
	}
	r.sub.names = nil // two records may have the same
	if is {
		delete(a.of, r)
		list := a.by[was.name]
		if i := slices.Index(list, r); len(list) > 1 {
			a.by[was.name] = slices.Delete(list, i, i+1)
		} else {
			delete(a.by, was.name)
		}
	}
	if r.entry.name == name {
		return
	}
	if a = r.sub.aliases(); a.of == nil {
		a.of, a.by = map[*record]heldName{}, map[string][]*record{}
	}
	a.of[r] = heldName{name: name, spelt: spelt}
	a.by[name] = append(a.by[name], r)
}

// unresolved reports whether the origin has still to answer for the name, as far as this client is
// concerned: v is what a dropped alias stood for, and the client was not sent v by the alias
// (ALIAS-4).
func (r *record) unresolved(v *xds.Variant) bool {
	return v != nil && r.entry.aliasDropped && !(r.is(holds) && r.sub.alias.resource(r) == v.Name)
}

// standsFor records the resource that the client is sent for a record.
func (r *record) standsFor(v *xds.Variant, rev uint64) {
	s := r.sub
	if was := s.alias.resource(r); s.delta && was != v.Name && r.is(holds) {
		a := s.aliases()
		a.dropped = append(a.dropped, droppedAlias{heldName: a.heldAs(r), record: r, sent: r.sent})
	}
	s.alias.set(r, v.Name, v.Spelt)
	if x, is := s.alias.of[r]; is {
		x.rev = rev
		s.alias.of[r] = x
	}
}

// heldAs is the name under which the client holds the record's resource.
func (a *aliasHoldings) heldAs(r *record) heldName {
	if x, is := a.of[r]; is {
		return x
	}
	return heldName{name: r.entry.name}
}

// ends decides how a delta client is sent that a name does not exist. The forms are the removal of
// the resource that it holds, the notice that an alias did not resolve (ALIAS-5), and the removal
// of the name itself. A resource that has to be removed besides is added to dropped.
func (r *record) ends() (what event, notice *xds.Variant) {
	s := r.sub
	if notice = r.entry.notice; notice != nil && !s.mayRead(notice) {
		notice = nil
	}
	name, own := s.alias.resource(r), r.entry.name
	// an owed record may be marked as holding something (due)
	held := name != own || r.sent != (xds.Digest{})
	if held && notice != nil && notice.Name == name {
		notice = nil // one answer cannot have both for one name (DELTA-20)
	}
	r.addMissingHost(notice != nil)
	if held && (name != own || notice != nil) {
		a := s.aliases()
		a.dropped = append(a.dropped, droppedAlias{a.heldAs(r), r, notice == nil, r.is(demanded), r.sent})
		s.alias.set(r, own, "")
		what = nothing
	} else {
		what = removal
	}
	if notice != nil {
		s.aliases().notices = true
		what = resource
	}
	return what, notice
}

// mayRead reports whether the client may have all names that a notice has.
func (s *Sub) mayRead(notice *xds.Variant) bool {
	denied := func(name string) bool { return !s.permit.Allows(xds.NameKey(name)) }
	return s.permit == nil || !denied(notice.Name) && !slices.ContainsFunc(notice.Aliases, denied)
}

// knownAs are the records that an unsubscribe of this name ends, although they have other names. If
// aliases of a resource of this name were subscribed, these are all of them. Otherwise it is the
// record of the resource that lists this name as an alias (ALIAS-1). Other aliases are
// subscriptions of their own.
func (s *Sub) knownAs(name string) []*record {
	if by := s.alias.by[name]; len(by) > 0 {
		return slices.Clone(by)
	}
	if resource, is := s.shard.named.other.lister[name]; is && s.record(resource) != nil {
		return []*record{s.record(resource)}
	}
	return nil
}

// about is an error as it is sent for a record. It has the name of the resource if the client holds
// that, and otherwise the alias.
func (r *record) about(f *NameError) *NameError {
	s := r.sub
	name := r.entry.name
	if f.Name == name || s.delta && (r.is(holds) && s.alias.resource(r) == f.Name || s.record(f.Name) != nil) {
		return f
	}
	c := *f
	c.Name, c.Spelt = name, ""
	return &c
}

// namesResource reports whether the client has the resource by a name that it is subscribed to.
func (s *Sub) namesResource(name string) bool {
	r := s.record(name)
	return r != nil && r.is(holds) && s.alias.resource(r) == name || len(s.alias.by[name]) > 0
}

// stillSelects reports whether any of the client's subscriptions still has the resource.
func (s *Sub) stillSelects(name string) bool {
	return s.namesResource(name) || s.sets.live(name) != nil
}

// demands is Union.Demands for one Sub. It locks the shard.
func (s *Sub) demands() bool {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	return slices.ContainsFunc(s.dirty, func(r *record) bool {
		if !r.is(demanded) || r.is(unsubscribed) {
			return false
		}
		v, absent, _ := r.effective()
		return v != nil || absent || r.entry.nameError != nil || s.shard.named.silentOf(r.entry)
	})
}
