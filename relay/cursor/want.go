package cursor

import (
	"cmp"
	"slices"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// found is what a client's subscription selects of a name in a state: a pure function of the two.
// All of names, sets, aliases, parameters and permits is here.
type found struct {
	body  *xds.Variant // nil: there is none
	known bool         // all of it is; of what is there, it does not matter
	err   *xds.NameError
	// byName: the client asks for the name, or has it by an alias; age is that of what was said of
	// it then. bySet: a set has it.
	byName, bySet bool
	age           state.Age
	stale         bool         // what is said of it was said before its stream was lost
	alias         bool         // the name is an alias of what the client may have
	unsaid        bool         // nothing is known of the name itself
	doubted       bool         // it is known, and not for this client
	gone          bool         // it is stated of the name itself that there is none
	notice        *xds.Variant // in the origin's words (ALIAS-5); nil: it has none
}

func (f *found) entry() state.Entry {
	if f.body == nil {
		return state.Entry{}
	}
	return state.Present(f.body)
}

// find is what the client is to have of a resource in a state. had is what it has.
func (c *Cursor) find(p *part, s *state.State, name string, had *xds.Variant) found {
	f := found{known: true}
	if s == nil {
		return found{}
	}
	if p.Allows != nil && !p.Allows(name) { // it is not there, as far as a set is known
		for i := range p.sets {
			x := p.sets[i].in(s)
			f.known = f.known && (p.names.has(name) || c.ready(p, &p.sets[i], &x) || !p.sets[i].Covers(name))
		}
		return f
	}
	names := c.named(p, s)
	f.inNames(p, s, &names, name, had)
	both := f.body != nil
	for i := range p.sets {
		if !p.sets[i].Covers(name) { // the peer chooses how many sets there are
			continue
		}
		x := p.sets[i].in(s)
		f.inSet(c, p, &p.sets[i], &x, name, had)
	}
	if both { // what came last counts, and what the client has of it by a set that it dropped (RELAY-25)
		if newer, _ := names.Newer.Get(name).For(p.Params); newer != nil && (f.bySet || had != nil && had.Digest == newer.Digest && p.selects(name, newer)) {
			f.body = newer
		}
	}
	return f
}

// inNames finds what is known by the name, or by an alias of it.
func (f *found) inNames(p *part, s *state.State, x *state.Selected, name string, had *xds.Variant) {
	e := x.Members.Get(name)
	v, what := e.For(p.Params)
	named := p.names.has(name)
	if what == state.Exists && (named || p.standsFor(x.Members, v)) {
		f.body, f.byName, f.age, f.err = v, true, ageOf(s, e, x), p.errorOf(e)
		f.stale = f.age != state.Live
		return
	}
	if named {
		f.unsaid = what == state.Unknown && e.Besides().Alias == ""
		of := e.Besides().Alias
		f.byName, f.age, f.err = true, ageOf(s, e, x), p.errorOf(e)
		f.stale = f.age != state.Live
		f.alias = of != "" && (p.Allows == nil || p.Allows(of))
		f.gone = p.absent(e) || f.err != nil && p.Ends(f.err)
		f.known = f.gone || of != ""
		if f.notice = e.Besides().Notice; f.notice != nil && p.Allows != nil && slices.ContainsFunc(append(slices.Clip(f.notice.Aliases), f.notice.Name), p.denies) {
			f.notice = nil
		}
	}
	if waits, gone := p.waitsFor(x.Members, had); waits && !f.gone {
		f.known, f.unsaid = false, false
	} else {
		f.unsaid, f.gone = f.unsaid && had != nil, f.gone || gone && !waits && !named
	}
}

func (p *part) denies(name string) bool { return !p.Allows(xds.NameKey(name)) }

// absent reports whether it is stated that there is none, whatever else is said of the name.
func (p *part) absent(e state.Entry) bool {
	return slices.ContainsFunc(e.Besides().Absent, func(q constraints.Params) bool { return q.Key() == p.Params.Key() })
}

// inSet finds the member of a set.
func (f *found) inSet(c *Cursor, p *part, t *taken, x *state.Selected, name string, had *xds.Variant) {
	if !c.ready(p, t, x) {
		if !f.gone {
			f.known, f.unsaid = false, false
		}
		return
	}
	e := x.Members.Get(name)
	v, what := e.For(p.Params)
	switch {
	case what == state.Exists && f.body == nil:
		f.body, f.err, f.bySet, f.stale = v, p.errorOf(e), true, x.Age == state.Stale
	case what == state.Exists:
		if f.bySet = true; v.Digest == f.body.Digest && v.Outlasts(f.body) {
			f.body = v
		}
	case x.Phase < state.Settled && !f.gone:
		f.known, f.unsaid = false, false
	case f.unsaid && what == state.Unknown: // the set has the last word of what the client has
		f.known = true
	case what == state.Failed:
		if f.err == nil {
			f.err, f.stale = p.errorOf(e), x.Age == state.Stale
		}
		if err := p.errorOf(e); err != nil && !p.Ends(err) { // its body stays in use, if there is one (ABS-8)
			f.known, f.unsaid = false, false
		}
	}
}

// Resolved reports whether the states of the groups say of everything that is asked for what it is,
// or that there is none. A poll waits for that (REST-5).
func (c *Cursor) Resolved(states func(group int) *state.State) bool {
	for i := range c.parts {
		p := &c.parts[i]
		s := states(p.Group)
		for j := range p.sets {
			if x := p.sets[j].in(s); !c.ready(p, &p.sets[j], &x) || x.Phase < state.Settled {
				return false
			}
		}
		for name := range p.names {
			if f := c.find(p, s, name, nil); f.body == nil && f.err == nil && (!f.known || f.stale) {
				return false
			}
		}
	}
	return true
}

// Answerable reports whether the states of the groups have a first answer that the client waits
// for.
func (c *Cursor) Answerable(states func(group int) *state.State) bool {
	for i := range c.parts {
		p := &c.parts[i]
		s := states(p.Group)
		for j := range p.sets {
			if x := p.sets[j].in(s); p.sets[j].fresh && c.ready(p, &p.sets[j], &x) {
				return true
			}
		}
		if p.waiting == 0 {
			continue
		}
		for name, w := range p.owed {
			if f := c.find(p, s, name, nil); w.waits() && (f.body != nil || f.err != nil || f.known && !f.stale) {
				return true
			}
		}
	}
	return false
}

// StandsIn reports whether anything that the client has is of a last resort.
func (c *Cursor) StandsIn(states func(group int) *state.State) bool {
	for i := range c.parts {
		p := &c.parts[i]
		s := states(p.Group)
		if anyOf(p.sets, func(t *taken) bool { return t.members.Len() > 0 && t.in(s).Age == state.Fallback }) {
			return true
		}
		known := c.named(p, s).Members
		for name := range p.names {
			if p.held.Get(name).Known() && known.Get(name).Besides().Age == state.Fallback {
				return true
			}
		}
	}
	return false
}

// ready reports whether a set may be sent: a wrong guess of what has come already would take away
// what the client holds (RELAY-6, 7, 96), and that a collection was empty before its stream was
// lost is no answer now (RELAY-38).
func (c *Cursor) ready(p *part, t *taken, x *state.Selected) bool {
	switch {
	case t.fresh && t.late && x.Members.Len() > 0:
		return true
	case x.Phase == state.Unanswered:
		return false
	case !t.fresh:
		return true
	case t.Name.Name != xds.Wildcard && x.Age == state.Stale && t.filtered(x).Len() == 0:
		return false
	case c.holds(p) && !(c.StandIn && x.Age == state.Fallback):
		return x.Phase == state.Firm && !c.unsure(x.Age)
	case !c.Delta:
		return x.Phase >= state.Settled
	}
	return true
}

// holds reports whether the client may have something of a part from before. No version says so of
// what delta clients name by locators (DYN-20).
func (c *Cursor) holds(p *part) bool { return c.Holds && !(c.Delta && p.Located) }

// unsure reports whether a client that holds something may have something newer.
func (c *Cursor) unsure(a state.Age) bool {
	return a == state.Restored || a == state.Fallback && !c.StandIn
}

// standsFor reports whether the client has asked for an alias of a body (ALIAS-3).
func (p *part) standsFor(names state.Set, v *xds.Variant) bool {
	for _, alias := range v.Aliases {
		key := xds.NameKey(alias)
		if p.names.has(key) && names.Get(key).Besides().Alias == v.Name {
			return true
		}
	}
	return false
}

// waitsFor reports whether the client has a body by an alias of which nothing is known now: then it
// waits for the origin's answer (ALIAS-4). gone: it has it by one that does not exist any more, or
// stands for something else.
func (p *part) waitsFor(names state.Set, had *xds.Variant) (waits, gone bool) {
	if had == nil {
		return false, false
	}
	for _, alias := range had.Aliases {
		key := xds.NameKey(alias)
		if !p.names.has(key) || key == had.Name {
			continue
		}
		e := names.Get(key)
		_, what := e.For(p.Params)
		err := p.errorOf(e)
		switch {
		case p.absent(e), err != nil && p.Ends(err), e.Besides().Alias != "" && e.Besides().Alias != had.Name:
			gone = true
		case e.Besides().Alias == "" && what != state.Exists:
			waits = true
		}
	}
	return waits, gone
}

// errorOf is the origin's error of a name, for the client's parameters.
func (p *part) errorOf(e state.Entry) *xds.NameError {
	if err := e.Besides().Err; err != nil && err.Constraints.Match(p.Params) {
		return err
	}
	return nil
}

// ageOf is how sure a statement about a name is.
func ageOf(s *state.State, e state.Entry, x *state.Selected) state.Age {
	switch age := cmp.Or(e.Besides().Age, x.Age); {
	case age != state.Inherit:
		return age
	case s.Lanes[0].Open || s.Lanes[1].Open:
		return state.Live
	}
	return state.Stale
}

// selects reports whether the client asks for what may have a name, or for an alias of what it has
// or may have.
func (p *part) selects(name string, bodies ...*xds.Variant) bool {
	return p.names.has(name) || p.covered(name) || slices.ContainsFunc(bodies, p.byAliasOf)
}

// byAliasOf reports whether the client asks for an alias of a body, which may be nil.
func (p *part) byAliasOf(v *xds.Variant) bool {
	return v != nil && slices.ContainsFunc(v.Aliases, func(alias string) bool { return p.names.has(xds.NameKey(alias)) })
}

// covered reports whether a set may have a name.
func (p *part) covered(name string) bool {
	for i := range p.sets {
		if p.sets[i].Covers(name) {
			return true
		}
	}
	return false
}

// members are what the client may have of a set in a state; nothing before it is ready.
func (c *Cursor) members(p *part, set int, s *state.State) state.Set {
	x := p.sets[set].in(s)
	if !c.ready(p, &p.sets[set], &x) {
		return state.Set{}
	}
	return p.sets[set].filtered(&x)
}

// filtered are the members of a set, without those that the client may not have.
func (t *taken) filtered(x *state.Selected) state.Set {
	if t.Filter != nil {
		return t.Filter.Of(x.Members)
	}
	return x.Members
}
