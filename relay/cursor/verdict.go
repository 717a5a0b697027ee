package cursor

import (
	"iter"
	"slices"

	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// What the client has said of what it was sent: heartbeats are for what it accepted (TTL-10), and
// people are told the rest.

// flight is an answer that the client has not accepted or rejected.
type flight struct {
	number uint64
	sent   [][]*xds.Variant // by source
	all    []state.Set      // by source, if it was all that the client has then; nil: it was not
	by     []state.Set      // all that it had, by source; nil: it is to be worked out
}

// refusal is an answer that the client has rejected, without what it accepted since.
type refusal struct {
	number uint64
	sets   []state.Set // by source
}

// mostFlights is how many of either are kept. What was in an older one counts as accepted.
const mostFlights = 16

func (c *Cursor) fly(f flight) {
	f.number = c.number
	if c.flights = append(c.flights, f); len(c.flights) > mostFlights {
		c.flights = slices.Delete(c.flights, 0, 1)
	}
}

// of are the bodies of a source in the answer.
func (f *flight) of(source int) iter.Seq[*xds.Variant] {
	return func(yield func(*xds.Variant) bool) {
		if source < len(f.all) {
			for e := range f.all[source].All() {
				if !yield(e.Body()) {
					return
				}
			}
		} else if source < len(f.sent) {
			slices.Values(f.sent[source])(yield)
		}
	}
}

func (r *refusal) of(source int) (s state.Set) {
	if source < len(r.sets) {
		return r.sets[source]
	}
	return s
}

// sent are the bodies in the response, by source.
func (k *take) sent() [][]*xds.Variant {
	all := make([][]*xds.Variant, len(k.outs))
	for i := range k.outs {
		for _, o := range k.outs[i].all {
			if o.sent {
				all[i] = append(all[i], o.is)
			}
		}
	}
	return all
}

// source is the index of a part.
func (c *Cursor) source(p *part) int {
	for i := range c.parts {
		if x := &c.parts[i]; x == p || x.Group == p.Group && x.Located == p.Located && x.Params.Key() == p.Params.Key() {
			return i
		}
	}
	return -1
}

// without is a list by source without one of them.
func without[T any](list []T, source int) []T {
	if source >= len(list) {
		return list
	}
	return slices.Delete(slices.Clone(list), source, source+1)
}

// Ack notes that the client has accepted an answer, or rejected it. In state of the world nothing
// is heard of those before it any more (NONCE-2).
func (c *Cursor) Ack(number uint64, accepted bool) {
	at := slices.IndexFunc(c.flights, func(f flight) bool { return f.number == number })
	if at < 0 {
		return
	}
	f := c.flights[at]
	from := at
	if !c.Delta {
		from = 0
	}
	if c.flights = slices.Delete(c.flights, from, at+1); len(c.flights) == 0 {
		c.flights = nil
		for i := range c.parts {
			c.parts[i].ghosts = nil
		}
	}
	switch {
	case !accepted:
		if c.refusals = append(c.refusals, refusal{f.number, f.sets(len(c.parts))}); len(c.refusals) > mostFlights {
			c.refusals = slices.Delete(c.refusals, 0, 1)
		}
		return
	case f.all != nil:
		c.refusals = nil
	case len(c.refusals) > 0:
		c.forgive(f.sets(len(c.parts)))
	}
	if c.TTL {
		for i, s := range f.sets(len(c.parts)) {
			if p := &c.parts[i]; f.all != nil {
				p.accepted = s
			} else {
				p.accepted = plus(p.accepted, s)
			}
		}
	}
}

// sets are the bodies in the answer, by source.
func (f *flight) sets(sources int) []state.Set {
	if len(f.by) == sources {
		return f.by
	}
	sets := make([]state.Set, sources)
	copy(sets, f.all)
	for i := len(f.all); i < sources; i++ {
		var edits []state.Edit
		for v := range f.of(i) {
			edits = append(edits, state.Edit{Name: v.Name, Entry: state.Present(v)})
		}
		sets[i] = sets[i].With(edits...)
	}
	f.by = sets
	return slices.Clone(sets)
}

// onTheWay reports whether a delta client may be about to read that it has a name: it is in an
// answer that it has not answered.
func (c *Cursor) onTheWay(source int, name string) bool {
	for i := range c.flights {
		if c.flights[i].sets(len(c.parts))[source].Get(name).Known() {
			return c.Delta
		}
	}
	return false
}

// forgive forgets the refusals of names that the client has accepted since.
func (c *Cursor) forgive(accepted []state.Set) {
	c.refusals = slices.DeleteFunc(c.refusals, func(r refusal) bool {
		left := 0
		for i := range r.sets {
			if i < len(accepted) {
				r.sets[i] = minus(r.sets[i], accepted[i])
			}
			left += r.sets[i].Len()
		}
		return left == 0
	})
}

// plus is a set with the entries of another one.
func plus(s, more state.Set) state.Set {
	var edits []state.Edit
	for e := range more.All() {
		edits = append(edits, state.Edit{Name: e.Name(), Entry: e})
	}
	return s.With(edits...)
}

// minus is a set without the names of another one.
func minus(s, less state.Set) state.Set {
	if s.Len() == 0 {
		return s
	}
	var edits []state.Edit
	for e := range less.All() {
		edits = append(edits, state.Edit{Name: e.Name()})
	}
	return s.With(edits...)
}

// Seen is how the client stands to one resource, for people.
type Seen struct {
	Source      int
	Name, Spelt string
	Body        *xds.Variant // what it was sent last; nil: nothing
	Waits       bool         // it has no answer yet
	Current     bool         // the state has nothing else
	// Refused: the client has rejected the body. Unjudged: it has not answered it yet. Answer is by
	// which it was sent then.
	Refused, Unjudged bool
	Answer            uint64
}

// Seen gives all that the client asks for, as compared with the states of the groups. A name may
// occur once for each source.
func (c *Cursor) Seen(states func(group int) *state.State) iter.Seq[Seen] {
	return func(yield func(Seen) bool) {
		for i := range c.parts {
			p := &c.parts[i]
			s, judged := states(p.Group), c.judged(i)
			done := names{}
			for _, name := range c.seenNames(p, s) {
				if done.has(name) || c.Delta && xds.IsNameless(name) {
					continue
				}
				done.add(name)
				if !yield(c.seen(i, s, name, judged)) {
					return
				}
			}
		}
	}
}

// SeenOf is how the client stands to a name that it asks for, may have of a set, or holds; false:
// to none of that.
func (c *Cursor) SeenOf(source int, s *state.State, name string) (x Seen, is bool) {
	if c.Delta && xds.IsNameless(name) {
		return x, false
	}
	p := &c.parts[source]
	is = p.names.has(name) || p.held.Get(name).Known()
	for i := range p.sets {
		is = is || c.members(p, i, s).Get(name).Known()
	}
	if !is {
		return x, false
	}
	if of := c.named(p, s).Members.Get(name).Besides().Alias; p.held.Get(of).Known() { // it is told of by what it stands for
		name = of
	}
	return c.seen(source, s, name, c.judged(source)), true
}

// seenNames are the names that a part asks for, holds, or may have of its sets.
func (c *Cursor) seenNames(p *part, s *state.State) (all []string) {
	for name := range p.names {
		all = append(all, name)
	}
	for e := range p.held.All() {
		all = append(all, e.Name())
	}
	for i := range p.sets {
		for e := range c.members(p, i, s).All() {
			all = append(all, e.Name())
		}
	}
	slices.Sort(all)
	return all
}

func (c *Cursor) seen(source int, s *state.State, name string, judged map[string]Seen) Seen {
	p := &c.parts[source]
	x := judged[name]
	x.Source, x.Name, x.Spelt, x.Body = source, name, p.spelt[name], p.held.Get(name).Body()
	f := c.find(p, s, name, x.Body)
	_, claimed := p.claims[name]
	switch {
	case x.Body == nil && f.alias: // it is told of by what it stands for
		x.Current = true
	case x.Body == nil:
		x.Waits = claimed || p.owed[name].waits() || f.body != nil
	default:
		x.Current = f.body != nil && f.body.Digest == x.Body.Digest
		if x.Spelt == "" {
			x.Spelt = x.Body.Spelt
		}
	}
	if x.Body == nil {
		x.Refused, x.Unjudged, x.Answer = false, false, 0
	}
	return x
}

// judged is by which answer a name was sent last, if the client has not accepted that.
func (c *Cursor) judged(source int) map[string]Seen {
	all := map[string]Seen{}
	for i := range c.refusals {
		for e := range c.refusals[i].of(source).All() {
			all[e.Name()] = Seen{Refused: true, Answer: c.refusals[i].number}
		}
	}
	for i := range c.flights {
		for v := range c.flights[i].of(source) {
			if was := all[v.Name]; was.Answer < c.flights[i].number {
				all[v.Name] = Seen{Unjudged: true, Answer: c.flights[i].number}
			}
		}
	}
	return all
}

// Part is a resource that an answer had.
type Part struct {
	Source int
	Body   *xds.Variant
	Set    bool // the client has it from a set
}

// Contents are the one resource of an answer that is not judged yet, or those of some names that it
// had. whole: it was a list of one source.
func (c *Cursor) Contents(number uint64, of []string) (all []Part, whole bool) {
	at := slices.IndexFunc(c.flights, func(f flight) bool { return f.number == number })
	if at < 0 {
		return nil, false
	}
	asked := names{}
	for _, name := range of {
		asked.add(xds.NameKey(name))
	}
	f, n := &c.flights[at], 0
	var first Part
	for i := range c.parts {
		p := &c.parts[i]
		for v := range f.of(i) {
			x := Part{i, v, !p.names.has(v.Name) && p.covered(v.Name)}
			if n++; n == 1 {
				first = x
			}
			if asked.has(v.Name) {
				all = append(all, x)
			}
		}
	}
	if n == 1 {
		all = []Part{first}
	}
	return all, len(c.parts) == 1
}
