package relay

import (
	"maps"
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// aliasHoldings is what a client holds under other names than those it subscribed to: it subscribed
// to an alias, and holds the resource under its own name. Names that are no aliases cost nothing
// here. Guarded by the shard's lock.
type aliasHoldings struct {
	of map[*record]heldName // what an alias stands for, as the client was sent it
	by map[string][]*record // the reverse, by canonical name

	// Of a client that came back: claims are what it says it holds, as long as names of its first
	// request may turn out to be aliases of that. undecided counts these names. deferred are the
	// claims that are to be removed unless one does. The same holds for what a client gave up and
	// may keep by aliases that it waits for.
	claims    map[string]xds.Digest
	spelt     map[string]string // of claims
	deferred  []heldName
	undecided int

	// Within one Take: what records no longer stand for, whether notices are sent, and the virtual
	// hosts on demand that are answered as not existing.
	dropped      []droppedAlias
	notices      bool
	missingHosts []missingHost
}

// noAliases is what every Sub has until one of its names is an alias, or may be. It is never
// written: see aliases.
var noAliases = &aliasHoldings{}

// aliases is the Sub's own, to be written.
func (s *Sub) aliases() *aliasHoldings {
	if s.alias == noAliases {
		s.alias = &aliasHoldings{}
	}
	return s.alias
}

// none reports whether no answer has to look at aliases.
func (a *aliasHoldings) none() bool {
	return len(a.of)+len(a.dropped)+len(a.deferred)+len(a.missingHosts) == 0 && !a.notices
}

// heldName is a resource's own name. rev is of the body that the client was sent last, if one was
// sent.
type heldName struct {
	name, spelt string
	rev         uint64
}

// droppedAlias is a resource that an alias no longer stands for. absent: the alias stands for
// nothing at all, and the client is to be sent that. asked: the client asked for the alias and has
// not been answered.
type droppedAlias struct {
	heldName
	record *record
	absent bool
	asked  bool
	sent   xds.Digest // of what the client has of it
}

// resource is the canonical name of what the record stands for.
func (a *aliasHoldings) resource(r *record) string {
	if x, is := a.of[r]; is {
		return x.name
	}
	return r.entry.name
}

// set notes what a record stands for; its own name is nothing to be noted.
func (a *aliasHoldings) set(r *record, name, spelt string) {
	was, is := a.of[r]
	if is && was.name == name || !is && r.entry.name == name {
		return
	}
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

// unresolved reports whether the origin has yet to answer for the name, for this client: v is what
// an alias stood for before it was dropped, and the client was not sent it as such (ALIAS-4).
func (s *Sub) unresolved(r *record, v *Variant) bool {
	return v != nil && r.entry.aliasDropped && !(r.is(holds) && s.alias.resource(r) == v.Name)
}

// standsFor notes what the client is being sent for a record.
func (s *Sub) standsFor(r *record, v *Variant, rev uint64) {
	if was := s.alias.resource(r); s.delta && was != v.Name && r.is(holds) {
		a := s.aliases()
		a.dropped = append(a.dropped, droppedAlias{heldName: a.heldAs(r), record: r, sent: r.sent})
	}
	s.alias.set(r, v.Name, v.spelt)
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

// ends returns how a delta client is sent that a name does not exist: by the removal of what it
// holds, by the notice that an alias did not resolve (ALIAS-5), or by the removal of the name
// itself. What is removed besides is added to dropped.
func (s *Sub) ends(r *record) (what event, notice *Variant) {
	notice = r.entry.notice
	name, own := s.alias.resource(r), r.entry.name
	held := name != own || r.sent != (xds.Digest{}) // what is owed may be marked as held (due)
	if held && notice != nil && notice.Name == name {
		notice = nil // one answer cannot say both of a name (DELTA-20)
	}
	s.addMissingHost(r, notice != nil)
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

// claimAliases notes that names of the first request may be aliases of what the client says
// it holds: that is named by resource (DELTA-11). Where no alias was ever seen none is waited for.
func (s *Sub) claimAliases() {
	if !xds.IsVirtualHost(s.typeURL) && len(s.shard.named.other.held) == 0 {
		return
	}
	named := 0
	for name := range s.initial {
		if s.record(name) != nil {
			named++
		}
	}
	if named == len(s.initial) {
		return
	}
	for r := range s.records.all() {
		if !r.is(claimed) {
			r.flags |= maybeAlias
			s.aliases().undecided++
		}
	}
	if s.alias.undecided == 0 {
		return
	}
	s.alias.claims, s.alias.spelt = maps.Clone(s.initial), maps.Clone(s.stated)
	if s.pos != nil {
		return // what the set does not have is found when it is told
	}
	s.alias.deferRest(s)
}

// deferRest has the rest of what a client says to hold removed once it is known that no alias
// stands for it.
func (a *aliasHoldings) deferRest(s *Sub) {
	for name := range a.claims {
		if s.record(name) == nil {
			a.deferred = append(a.deferred, heldName{name: name, spelt: a.spelt[name]})
		}
	}
}

// recognize checks whether a name of the first request stands for what the client says it holds.
func (s *Sub) recognize(r *record) {
	e := r.entry
	switch {
	case !r.is(maybeAlias) || e.aliasDropped || r.heldBack():
		return
	case e.chosen != nil:
		if d, stated := s.alias.claims[e.chosen.Name]; stated && e.chosen.Name != e.name {
			s.sent(r, d)
			s.alias.set(r, e.chosen.Name, s.alias.spelt[e.chosen.Name])
			r.flags |= holds | claimed
			s.owe(r, false)
		}
	case s.shard.absent(e):
	case e.isInDoubt():
		// nothing is known of it, and what the client holds may be what it stands for
		s.alias.deferred = nil
	default:
		return
	}
	s.notEarly(r)
}

func (s *Sub) notEarly(r *record) {
	if !r.is(maybeAlias) {
		return
	}
	r.flags &^= maybeAlias
	if s.alias.undecided--; s.alias.undecided == 0 {
		s.alias.claims, s.alias.spelt = nil, nil
	}
}

// knownAs are the records, subscribed to by another name, that an unsubscribe of this one ends.
// These are all that came by aliases of the resource of that name, or that came by the name of the
// resource that has this alias (ALIAS-1). Other aliases are subscriptions of their own.
func (s *Sub) knownAs(name string) []*record {
	if by := s.alias.by[name]; len(by) > 0 {
		return slices.Clone(by)
	}
	if resource, is := s.shard.named.other.lister[name]; is && s.record(resource) != nil {
		return []*record{s.record(resource)}
	}
	return nil
}

// versionSum is the version hash of what was sent by name: each resource counts once (VER-4).
func (s *Sub) versionSum() xds.Sum {
	if len(s.alias.of) == 0 {
		return s.sum
	}
	var all xds.Sum
	counted := make(map[string]bool, s.records.len())
	for r := range s.records.all() {
		if name := s.alias.resource(r); r.sent != (xds.Digest{}) && !counted[name] {
			counted[name] = true
			all.Add(r.sent)
		}
	}
	return all
}

// about is an error as a record's client is sent it: with the name of the resource if the client
// holds that, or else with the alias.
func (s *Sub) about(r *record, f *NameError) *NameError {
	name := r.entry.name
	if f.Name == name || s.delta && (r.is(holds) && s.alias.resource(r) == f.Name || s.record(f.Name) != nil) {
		return f
	}
	c := *f
	c.Name, c.Spelt = name, ""
	return &c
}

// keepByAlias is called when a delta client leaves a set. What it has of the set it keeps as what
// its aliases stand for (ALIAS-1), until the origin has answered for these.
func (s *Sub) keepByAlias(p *position) {
	if !s.delta || p.fresh || s.records.len() == 0 {
		return
	}
	for _, it := range p.view.items {
		if !p.view.hadAt(it, p.sent) {
			continue
		}
		if it.rev > p.sent {
			s.mayKeep(heldName{name: it.variant.Name, spelt: it.variant.spelt})
			continue
		}
		s.keepAs(it.variant, it.variant.Digest)
	}
}

// mayKeep is called when a delta client gives up a resource of which it was sent another form than
// the present one. That form may have listed any alias that waits for its answer. Then the client
// keeps by the alias what it has, and is sent if the alias stands for something else.
func (s *Sub) mayKeep(x heldName) {
	if s.shard.named.other.held == nil { // no alias was ever seen
		return
	}
	a, waits := s.aliases(), false
	for r := range s.records.all() {
		if waits = waits || r.is(maybeAlias); r.is(owed) && !r.is(maybeAlias) && r.sent == (xds.Digest{}) && r.entry.name != x.name {
			waits = true // it holds nothing by it, though it may be marked so (due)
			r.flags |= maybeAlias
			a.undecided++
		}
	}
	if !waits {
		return
	}
	if a.claims == nil {
		a.claims = map[string]xds.Digest{}
	}
	if a.spelt == nil {
		a.spelt = map[string]string{}
	}
	a.claims[x.name], a.spelt[x.name] = xds.Digest{}, x.spelt
	a.deferred = append(a.deferred, x)
}

// keepAs notes that what the client has of a resource, in that form, is from now on what its
// unanswered aliases stand for.
func (s *Sub) keepAs(v *Variant, d xds.Digest) {
	for _, alias := range v.aliases {
		r := s.record(xds.NameKey(alias))
		if r == nil || r.is(holds) {
			continue
		}
		s.alias.set(r, v.Name, v.spelt)
		s.sent(r, d)
		r.flags |= holds
		s.markDirty(r, s.shard.rev)
	}
}

// namesResource reports whether the client has the resource by a name that it subscribed.
func (s *Sub) namesResource(name string) bool {
	r := s.record(name)
	return r != nil && r.is(holds) && s.alias.resource(r) == name || len(s.alias.by[name]) > 0
}

// inView is the body that the client's sets have of a name, if the client was sent these sets.
func (s *Sub) inView(name string) *Variant {
	it, _ := s.itemOf(name)
	if it == nil {
		return nil
	}
	return it.variant
}

// stillSelects reports whether the client has the resource by any of its subscriptions still.
func (s *Sub) stillSelects(name string) bool {
	return s.namesResource(name) || s.inView(name) != nil
}

// demands is Union.Demands of one part. It locks the shard.
func (s *Sub) demands() bool {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	return slices.ContainsFunc(s.dirty, func(r *record) bool {
		if !r.is(demanded) || r.is(unsubscribed) {
			return false
		}
		v, absent, _ := s.effective(r)
		return v != nil || absent || r.entry.nameError != nil || s.shard.silentOf(r.entry)
	})
}
