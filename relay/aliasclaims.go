package relay

import (
	"github.com/weir-xds/weir/relay/xds"
)

// claimAliases records that names of the first request may be aliases of what the client says it
// holds, which it states by the resources' own names (DELTA-11). If no alias of the type was ever
// seen, no name is waited for.
func (s *Sub) claimAliases() {
	if !xds.IsVirtualHost(s.typeURL) && len(s.shard.named.other.held) == 0 {
		return
	}
	named := 0
	for name := range s.claims.versions {
		if s.record(name) != nil {
			named++
		}
	}
	if named == len(s.claims.versions) {
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
	s.alias.claims = s.claims.clone()
	s.alias.deferRest(s)
}

// deferRest has the remaining claims removed once it is known that no alias stands for them. Those
// that a set would have are found when the set is sent.
func (a *aliasHoldings) deferRest(s *Sub) {
	known := make(map[string]bool, len(a.deferred))
	for _, x := range a.deferred {
		known[x.name] = true
	}
	for name := range a.claims.versions {
		if s.record(name) == nil && !known[name] && !s.sets.covered(name) {
			a.deferred = append(a.deferred, heldName{name: name, spelt: a.claims.spelt[name]})
		}
	}
}

// recognize decides whether a name of the first request stands for something that the client says
// it holds.
func (r *record) recognize() {
	s := r.sub
	e := r.entry
	switch {
	case !r.is(maybeAlias) || e.aliasDropped || r.heldBack():
		return
	case e.chosen != nil:
		if r.claims(e.chosen) {
			r.owe(false)
		} else if e.chosen.Name != e.name {
			r.claimsLast()
		}
	case r.absent():
		r.claimsLast()
	case e.isInDoubt():
		// Nothing is known of the name, so it may stand for what the client holds. Nothing is
		// removed.
		s.alias.deferred = nil
	default:
		return
	}
	r.decided()
}

// claimsLast records that the client has a virtual host by a name that stood for it while the
// client was away. So it is removed now that the name stands for nothing or for another, even if
// the origin is silent about a namespace that may have it (testdata/hosts_removed_away.txt).
func (r *record) claimsLast() {
	if v, s := r.entry.last, r.sub; v != nil && xds.IsVirtualHost(s.typeURL) && s.record(v.Name) == nil {
		r.claims(v)
	}
}

// claims reports whether the client says that it holds a resource which the name stands for. If so,
// it has the resource by this name.
func (r *record) claims(v *xds.Variant) bool {
	s := r.sub
	if v.Name == r.entry.name {
		return false
	}
	d, stated := s.alias.claims.versions[v.Name]
	if stated {
		r.setSent(d)
		s.alias.set(r, v.Name, s.alias.claims.spelt[v.Name])
		r.flags |= holds | claimed
	}
	return stated
}

func (r *record) decided() {
	s := r.sub
	if !r.is(maybeAlias) {
		return
	}
	r.flags &^= maybeAlias
	if s.alias.undecided--; s.alias.undecided == 0 {
		s.alias.claims = claims{}
	}
}

// keepByAlias is called when a delta client leaves a set. What the client has by the set, it keeps
// as what its aliases stand for (ALIAS-1), until the origin has answered for these.
func (p *position) keepByAlias() {
	s := p.sub
	if !s.delta || p.fresh || s.records.len() == 0 {
		return
	}
	for it := range p.view.all() {
		if !p.view.hadAt(it, p.sent) {
			continue
		}
		if it.rev > p.sent {
			s.mayKeep(heldName{name: it.variant.Name, spelt: it.variant.Spelt})
			continue
		}
		s.keepAs(it.variant, it.variant.Digest)
	}
}

// mayKeep is called when a delta client gives up a resource of which it was sent another form than
// the present one. That form may have listed any alias that still waits for its answer. Then the
// client keeps the resource by that alias, and has to be sent if the alias stands for something
// else.
func (s *Sub) mayKeep(x heldName) {
	if s.shard.named.other.held == nil { // no alias was ever seen
		return
	}
	a, waits := s.aliases(), false
	for r := range s.records.all() {
		if waits = waits || r.is(maybeAlias); r.is(owed) && !r.is(maybeAlias) && r.sent == (xds.Digest{}) && r.entry.name != x.name {
			waits = true // the client holds nothing by it, though it may be marked so (due)
			r.flags |= maybeAlias
			a.undecided++
		}
	}
	if !waits {
		return
	}
	a.claims.set(x.name, xds.Digest{}, x.spelt)
	a.deferred = append(a.deferred, x)
}

// keepAs records that the client keeps a resource, in the form v, by those of its aliases that are
// not answered yet.
func (s *Sub) keepAs(v *xds.Variant, d xds.Digest) {
	for _, alias := range v.Aliases {
		if r := s.record(xds.NameKey(alias)); r != nil && !r.is(holds) {
			r.keep(v, d)
		}
	}
}

// takeBack is called with the resources that a delta client is sent by name. One of them may list
// an alias that, as the client was sent, stands for nothing. The client may take the list as the
// later statement. So it holds the resource by the alias until it was sent the absence again.
func (s *Sub) takeBack(sent []*xds.Variant) {
	if s.shard.named.other.held == nil { // no alias was ever seen
		return
	}
	for _, v := range sent {
		if v.Notice() {
			continue
		}
		for _, alias := range v.Aliases {
			if r := s.record(xds.NameKey(alias)); r != nil && !r.is(holds|owed) {
				r.keep(v, v.Digest)
			}
		}
	}
}

// keep records that the client has the resource v, in the form d, by an alias.
func (r *record) keep(v *xds.Variant, d xds.Digest) {
	r.sub.alias.set(r, v.Name, v.Spelt)
	r.setSent(d)
	r.flags |= holds
	r.markDirty(r.sub.shard.rev)
}
