package cursor

import (
	"maps"

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
	step := k.Parts[p.Group]
	if step.All = step.All || step.Named && p.names.has(name); k.expired(o.was) {
		step.All, step.Keep = false, [3]*state.State{}
	}
	its := step.Has(had, func(s *state.State) (state.Entry, bool) {
		f := k.find(p, s, name, o.was)
		mayHold := claimed || p.owed[name]&back != 0 || len(p.claims) > 0 && k.byAlias(p)
		if o.was == nil && (k.doubts(&f, claimed, mayHold) || k.overlaps(p, &f)) {
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
	due := p.owed[name]
	if !k.concerned(had, its, due) {
		return o, false
	}
	if newest := k.Parts[p.Group].Newest; newest != nil && k.TTL && o.is != nil && o.is.Timed() {
		o.is = k.endingAs(p, newest, o.is)
	}
	if k.elsewhere(p, name) {
		o.is, o.answered, o.told = nil, everything, nil
		return o, true
	}
	if o.kept = o.is != to.body || to.doubted; o.is == something {
		o.is, o.claimed = nil, true
		k.say(p, &o, to)
		return o, true
	}
	if claimed && o.is == nil && !p.names.has(name) && k.byAlias(p) {
		if !k.last { // when the aliases were looked at
			k.later = append(k.later, name)
			return o, false
		} else if k.others(name) { // it may have it by one that is not answered yet
			o.claimed, o.again = true, true
			return o, true
		}
	}
	if to.body == nil && to.err != nil && !p.Ends(to.err) && !p.names.has(name) {
		k.waits = true // the client may have what is in error (RELAY-7)
	}
	if due&back != 0 && o.is == nil && k.Parts[p.Group].All { // it may hold it
		if to.known && !to.stale {
			o.is = k.stillHas(p, name)
		}
		if o.kept = true; o.is != nil {
			o.answered, k.assumed = everything, true
		}
		return o, true
	}
	same := o.is != nil && (o.was != nil && o.was.Digest == o.is.Digest || claimed && o.is.ClaimedAs(claim))
	switch {
	case o.is != nil && k.withholds(o.is) && !(same && o.was != nil): // what it has it keeps
		k.withhold(p, &o)
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

// expired reports whether a body has come to its end: it is of no use to whatever else needs it
// (RELAY-53).
func (k *take) expired(v *xds.Variant) bool {
	return v != nil && v.Timed() && !v.Expires().After(k.now)
}

// stillHas is the body of a name that a state has of which nothing is taken away yet.
func (k *take) stillHas(p *part, name string) *xds.Variant {
	for _, s := range k.Parts[p.Group].Keep {
		if f := k.find(p, s, name, nil); f.body != nil {
			return f.body
		}
	}
	if k.States != nil { // once, as it costs the client's names in each of them
		k.came, k.States = k.cameWith(p), nil
	}
	return k.came.Get(name).Body()
}

// mostCame bounds the states in which is looked for what a client came back with: the newest ones.
const mostCame = 8

// cameWith is what a client has that came back with a version: that of its names in an earlier
// state (RELAY-43).
func (k *take) cameWith(p *part) state.Set {
	if !k.Whole() || len(k.parts) > 1 || k.OriginVersions {
		return state.Set{}
	}
	for _, s := range k.States[max(0, len(k.States)-mostCame):] {
		var edits []state.Edit
		for name, w := range p.owed {
			if v := k.find(p, s, name, nil).body; w&back != 0 && v != nil {
				edits = append(edits, state.Edit{Name: name, Entry: state.Present(v)})
			}
		}
		if set := (state.Set{}).With(edits...); len(edits) > 0 && set.Sum().TreeVersion() == k.Version {
			return set
		}
	}
	return state.Set{}
}

// endingAs is a body with the end that it has in the newest state, if that has the same: heartbeats
// tell of it before the client is brought there.
func (k *take) endingAs(p *part, newest *state.State, v *xds.Variant) *xds.Variant {
	if f := k.find(p, newest, v.Name, v); f.body != nil && f.body.Digest == v.Digest {
		return f.body
	}
	return v
}

// forgotten is about a name that the client does not ask for. What it says that it holds it may
// have by an alias: that is waited for, and then it is taken away as anything else is.
func (k *take) forgotten(p *part, o outcome, claimed bool) (_ outcome, is bool) {
	o.told, o.answered = nil, everything
	switch {
	case k.Only != plan.Everything:
		return o, false
	case (o.was != nil || claimed) && k.wildBeside(p):
		k.remove(p, &o)
		return o, true
	case !claimed || !k.byAlias(p):
		return o, true
	case !k.last: // when the aliases were looked at
		k.later = append(k.later, o.name)
		return o, false
	case k.others(o.name):
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
func (k *take) others(name string) bool {
	return len(k.left) > 1 || len(k.left) == 1 && k.left[name] == 0
}

// stillOwed is what is owed when some names were looked at.
func (p *part) stillOwed(all []outcome) map[string]why {
	left := maps.Clone(p.owed)
	for i := range all {
		if left[all[i].name]&^all[i].answered == 0 {
			delete(left, all[i].name)
		}
	}
	return left
}

// known is what the newest state knows of a name, whoever asked for it.
func (k *take) known(p *part, name string) state.Entry {
	to := k.Parts[p.Group].To
	if to == nil {
		return state.Entry{}
	}
	return k.named(p, to).Members.Get(name)
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
