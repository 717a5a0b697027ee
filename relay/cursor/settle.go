package cursor

import (
	"maps"
	"slices"

	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// settle compares what a client has of a name with what it is to have, and adds to the response
// what that takes; false: the step is not about it.
func (k *take) settle(p *part, name string) (o outcome, is bool) {
	if k.Delta && xds.IsNameless(name) { // it cannot be expressed (RELAY-18)
		return o, false
	}
	had := p.held.Get(name)
	o = outcome{name: name, was: had.Body(), told: p.told[name]}
	claim, claimed := p.claims[name]
	if claimed {
		had = state.Present(something)
	}
	stated, _ := k.known(p, name).For(p.Params)
	if !p.selects(name, o.was, stated) { // the client has forgotten it (DELTA-4, DELTA-10)
		return k.forgotten(p, o, claimed)
	}
	var to *found // what the newest state has, as far as the client may take it
	its := k.Parts[p.Group].Has(had, func(s *state.State) (state.Entry, bool) {
		f := k.find(p, s, name, o.was)
		mayHold := claimed || p.owed[name]&back != 0 || len(p.claims) > 0 && k.byAlias(p)
		if o.was == nil && k.doubts(&f, claimed, mayHold) {
			f.body, f.known, f.doubted = nil, false, true
		}
		if to == nil {
			to = &f
		}
		return f.entry(), f.known
	})
	if to == nil {
		to = &found{}
	}
	o.is = its.Body()
	due := k.due(p, name, o.is)
	if !k.concerned(had, its, due) {
		return o, false
	}
	if o.kept = o.is != to.body || !to.known && to.body == nil; o.is == something {
		o.is, o.claimed = nil, true
		k.say(p, &o, to)
		return o, true
	}
	if claimed && o.is == nil && !p.names.has(name) && k.byAlias(p) {
		if !k.last { // when the aliases were looked at
			k.later = append(k.later, name)
			return o, false
		} else if k.others(p, name) { // it may have it by one that is not answered yet
			o.claimed, o.again = true, true
			return o, true
		}
	}
	if to.body == nil && to.err != nil && !p.Ends(to.err) && !p.names.has(name) {
		k.waits = true // the client may have what is in error (RELAY-7)
	}
	same := o.is != nil && (o.was != nil && o.was.Digest == o.is.Digest || claimed && o.is.ClaimedAs(claim))
	switch {
	case o.is != nil && k.withholds(o.is) && !(same && o.was != nil): // what it has it keeps
		k.withhold(&o)
		return o, true
	case o.is != nil:
		k.present(p, &o, same, claimed, due, to)
	case had.Known():
		o.answered = everything
		k.remove(p, &o)
	default:
		k.absent(p, &o, due, to)
	}
	k.say(p, &o, to)
	return o, true
}

// forgotten is about a name that the client does not ask for. What it says that it holds it may
// have by an alias: that is waited for, and then it is taken away as anything else is.
func (k *take) forgotten(p *part, o outcome, claimed bool) (_ outcome, is bool) {
	o.told, o.answered = nil, everything
	switch {
	case k.Only != plan.Everything:
		return o, false
	case !claimed || !k.byAlias(p):
		return o, true
	case !k.last: // when the aliases were looked at
		k.later = append(k.later, o.name)
		return o, false
	case k.others(p, o.name):
		o.claimed, o.again = true, true
		return o, true
	}
	its := k.Parts[p.Group].Has(state.Present(something), func(s *state.State) (state.Entry, bool) {
		f := k.find(p, s, o.name, nil)
		return f.entry(), f.known
	})
	if o.claimed = its.Known(); o.claimed {
		o.kept = true
	} else {
		k.remove(p, &o)
	}
	return o, true
}

// others reports whether anything else is owed after this step.
func (k *take) others(p *part, name string) bool {
	left := maps.Clone(p.owed)
	delete(left, name)
	for i := range k.parts {
		if &k.parts[i] == p {
			for _, o := range k.outs[i].all {
				if left[o.name]&^o.answered == 0 {
					delete(left, o.name)
				}
			}
		}
	}
	return len(left) > 0
}

// known is what the newest state knows of a name, whoever asked for it.
func (k *take) known(p *part, name string) state.Entry {
	to := k.Parts[p.Group].To
	if to == nil {
		return state.Entry{}
	}
	x, _ := to.Of(k.TypeURL, "")
	return x.Members.Get(name)
}

// doubts reports whether what is known of a name is no news for a client that comes back: it may
// have something newer (RELAY-96), and what was stated before the stream was lost is not told to
// who asks now (RELAY-38).
func (k *take) doubts(f *found, claimed, mayHold bool) bool {
	switch {
	case f.body != nil && f.body.DoNotCache && f.stale: // it stays with those who have it (RELAY-9)
		return true
	case f.bySet || !f.byName:
		return false
	case f.body == nil:
		return claimed && f.age != state.Live
	}
	return mayHold && k.unsure(f.age)
}

// due is why an answer is due for a name, or for an alias that its body answers.
func (k *take) due(p *part, name string, v *xds.Variant) why {
	due := p.owed[name]
	for _, alias := range k.answers(p, v) {
		due |= p.owed[alias] &^ left
	}
	return due
}

// answers are the aliases of a body that are owed, and that are of nothing else now.
func (k *take) answers(p *part, v *xds.Variant) (all []string) {
	if v == nil {
		return nil
	}
	for _, alias := range v.Aliases {
		key := xds.NameKey(alias)
		if p.owed[key] == 0 {
			continue
		}
		of := k.known(p, key)
		if stands := of.Facts().Alias; stands == v.Name || stands == "" && !of.Known() {
			all = append(all, key)
		}
	}
	return all
}

// concerned reports whether a step is about a name.
func (k *take) concerned(had, its state.Entry, due why) bool {
	switch k.Only {
	case plan.Missing:
		return due&^left != 0 || !had.Known() && its.Known()
	case plan.Demanded:
		return due&demanded != 0
	case plan.Heartbeats:
		a, b := had.Body(), its.Body()
		return k.TTL && due == 0 && a != nil && b != nil && a.Digest == b.Digest && !a.Expires().Equal(b.Expires())
	}
	return true
}

// present is about a name that the client is to have.
func (k *take) present(p *part, o *outcome, same, claimed bool, due why, to *found) {
	if o.proven = claimed && same; o.proven { // it needs no answer (DELTA-11)
		due &^= asked | demanded
	}
	if due&left != 0 && k.Delta && p.covered(o.name) {
		due |= asked // DELTA-9
	}
	o.answered = everything
	if to.body == nil && !to.known { // that is no answer yet
		due, o.answered = due&^(asked|demanded), o.answered&^(asked|demanded)
	}
	renewed := k.TTL && same && (claimed && o.is.Timed() || o.was != nil && !o.was.Expires().Equal(o.is.Expires()))
	switch cured := o.told != nil && to.body != nil && to.err == nil; {
	case !same || due&(asked|demanded) != 0 || due&parent != 0 && k.Delta || cured:
		k.send(o)
	case renewed:
		k.renew(p, o)
	}
	switch {
	case o.sent:
		o.answered = everything
	case due&parent != 0 && !k.Delta: // it waits for a request (WARM-2)
		o.answered &^= parent
	}
}

func (k *take) send(o *outcome) {
	k.a.Changed = append(k.a.Changed, o.is)
	k.from = xds.Newer(k.from, o.is.From)
	k.wrote, o.sent, o.told = true, true, nil
}

// renew is about a body that has another end: a client that has accepted it is sent a heartbeat,
// and one that has rejected it nothing (TTL-10). That it ends no more takes the body (TTL-8).
func (k *take) renew(p *part, o *outcome) {
	has := func(s state.Set) bool {
		v := s.Get(o.name).Body()
		return v != nil && v.Digest == o.is.Digest
	}
	switch {
	case has(p.refused):
	case k.Whole(): // a list has all bodies (TTL-11)
		k.wrote = true
	case (o.proven || has(p.accepted)) && o.is.Timed():
		k.a.Heartbeats, k.wrote, o.renewed = append(k.a.Heartbeats, o.is), true, true
	default:
		k.send(o)
	}
}

// remove takes away what the client has, or says that there is none.
func (k *take) remove(p *part, o *outcome) {
	if o.told != nil && !p.Ends(o.told) { // that was of what there was
		o.told = nil
	}
	if k.wrote = k.wrote || k.Delta || k.Whole(); k.Delta {
		spelt := p.spelt[o.name]
		if o.was != nil && spelt == "" && !p.names.has(o.name) { // as it was sent
			spelt = o.was.Spelling()
		}
		k.a.Removed, o.removed = append(k.a.Removed, xds.Spelling(o.name, spelt)), true
	}
}

// absent is about a name that the client does not have, and is not to have.
func (k *take) absent(p *part, o *outcome, due why, to *found) {
	switch {
	case due&left != 0: // what it dropped
		has := func(of string) bool { // what it was an alias of: that is the answer then
			return p.held.Get(of).Known() || k.find(p, k.Parts[p.Group].To, of, nil).body != nil
		}
		if o.answered = left; to.known && !slices.ContainsFunc(k.resources(p, o.name), has) && k.Delta && p.covered(o.name) {
			k.remove(p, o)
		}
	case !p.names.has(o.name):
		o.answered = everything
	case to.alias: // what it stands for is the answer
		of := k.find(p, k.Parts[p.Group].To, k.known(p, o.name).Facts().Alias, nil)
		if o.answered = parent; of.body != nil && !k.doubts(&of, false, len(p.claims) > 0 && k.byAlias(p)) {
			o.answered = everything
		}
	case (!to.known || to.stale) && due&silent == 0: // nobody says so now (RELAY-38)
		comes := k.Only == plan.Everything && k.Parts[p.Group].To != nil && !to.known && !to.doubted && !p.covered(o.name)
		o.kept = !comes // otherwise a state will differ
		if o.answered = parent | silent | unreached; due&unreached != 0 && due.waits() {
			o.told = k.Unreachable(o.name)
			k.a.Errors, k.wrote = append(k.a.Errors, o.told), true
		}
	case k.Delta && (due != 0 || k.stoodFor(p, o.name) || o.told != nil && !p.Ends(o.told) && (to.err == nil || p.Ends(to.err))):
		if o.answered = everything; due&demanded != 0 && xds.IsVirtualHost(k.TypeURL) {
			k.a.Unresolved = append(k.a.Unresolved, xds.Spelling(o.name, p.spelt[o.name]))
		}
		k.remove(p, o)
	default:
		o.answered = everything
	}
}

// stoodFor reports whether a name that does not exist now was an alias of what the client keeps.
func (k *take) stoodFor(p *part, name string) bool {
	of := p.asked.Get(name).Facts().Alias
	return k.Only == plan.Everything && of != "" && p.held.Get(of).Known() && k.find(p, k.Parts[p.Group].To, of, nil).body != nil
}

// say adds the error of a name, once. If its body is in the response, the error follows in one of
// its own (ABS-9, ABS-11).
func (k *take) say(p *part, o *outcome, to *found) {
	err := to.err
	gone := o.was != nil && o.is == nil
	switch {
	case err == nil:
		if gone {
			o.told = nil
		}
	case k.Whole() && o.is != nil: // a list that tells it would have to leave the body out
	case err.Same(o.told), err.Own && k.Delta, to.stale && !(err.Expired && gone), o.is != nil && p.Ends(err):
	case o.sent, o.renewed:
		o.again = true
	default:
		spelt := *err
		if p.names.has(o.name) { // it may be of what an alias stands for
			spelt.Name, spelt.Spelt = o.name, p.spelt[o.name]
		}
		k.a.Errors, k.wrote, o.told = append(k.a.Errors, &spelt), true, err
		if k.Delta && p.Ends(err) && !o.removed && !o.claimed && o.is == nil && !p.names.has(o.name) {
			k.remove(p, o)
		}
	}
}

// withholds reports whether the client could not be told the end of a body (RELAY-51).
func (k *take) withholds(v *xds.Variant) bool {
	return k.Withhold && v.Timed() && !k.TTL && !k.Delta && !k.Whole()
}

const failedPrecondition = 9

func (k *take) withhold(o *outcome) {
	o.is, o.answered = nil, everything
	if o.told == nil || o.told.Code != failedPrecondition {
		const text = "it has a TTL, the client does not support TTLs, and the origin's ttl_unsupported is withhold"
		o.told = xds.NewNameError(o.name, failedPrecondition, text)
		k.a.Errors, k.wrote = append(k.a.Errors, o.told), true
	}
}
