package cursor

import (
	"iter"
	"slices"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// A locator is a name with dynamic parameters, and the two are one subscription (DYN-1, DYN-2). All
// of one parameter map in one group are a source. What it has is sent with its constraints (DYN-7),
// which the client knows it by.

// Located is what an answer says of names that the client wrote in locators. One name may be in it
// several times, with different constraints (DYN-15).
type Located struct {
	Bodies
	All  []*xds.Variant // of a list that is sent whole
	Gone []Gone         // in delta
}

// Sent are the bodies that are new to the client, or sent again.
func (a *Answer) Sent() iter.Seq[*xds.Variant] {
	return func(yield func(*xds.Variant) bool) {
		for _, vs := range [][]*xds.Variant{a.Changed, a.Located.Changed} {
			for _, v := range vs {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// Gone is the removal of a variant, by the constraints that the client was sent (DYN-14). If it was
// sent none, they match its parameters, and no others of the client.
type Gone struct {
	Name        string // as the client is to be sent it
	Constraints string // canonical (DYN-6)
	Written     string // the constraints, as the fields of a ResourceName
	known       bool   // the client was sent them
	of          *part  // which has nothing of the name now; nil: it has another variant
}

// goneOf is the removal of what a part had; was is nil if the client was sent nothing.
func goneOf(spelt string, was *xds.Variant, p *part) Gone {
	g := Gone{Name: spelt, of: p}
	if g.known = was != nil; g.known {
		g.Constraints, g.Written = was.Constraints.Key(), was.Written()
	}
	return g
}

// replace takes away the variant that the client had, as it is sent one with other constraints
// (DYN-10).
func (k *take) replace(o *outcome) {
	if k.Delta && o.was != nil { // of the same constraints it is not gone: see list
		k.a.Located.Gone = append(k.a.Located.Gone, goneOf(o.was.Spelling(), o.was, nil))
	}
}

// list completes an answer: a list has all that the client holds by locators, and each variant is
// in it once, whatever maps it is for (DELTA-20). A variant that the client still has for others is
// not removed.
func (c *Cursor) list(a *Answer, all []state.Set) {
	if !anyOf(c.parts, func(p *part) bool { return p.Located }) {
		a.All = all
		return
	}
	l := &a.Located
	for i, s := range all {
		if !c.parts[i].Located {
			a.All = append(a.All, s)
			continue
		}
		for e := range s.All() {
			l.All = append(l.All, e.Body())
		}
	}
	listed := once{}
	l.Changed, l.Heartbeats, l.All = listed.of(l.Changed), listed.of(l.Heartbeats), once{}.of(l.All)
	l.Gone = slices.DeleteFunc(l.Gone, func(g Gone) bool { return g.of == nil && c.hasVariant(g.Name, g.Constraints) })
	for i := range l.Gone {
		if g := &l.Gone[i]; !g.known || c.hasVariant(g.Name, g.Constraints) {
			g.Constraints, g.Written = c.exact(g.of)
		}
	}
	l.Gone = slices.DeleteFunc(l.Gone, func(g Gone) bool { return listed.is(xds.NameKey(g.Name), g.Constraints) })
}

// once is what an answer has already (DELTA-20).
type once map[xds.Identity]struct{}

// is reports whether the answer has a variant, and notes that it has.
func (o once) is(name, constraints string) bool {
	id := xds.Identity{Name: name, Constraints: constraints}
	_, is := o[id]
	o[id] = struct{}{}
	return is
}

// of are those of the bodies that the answer has not. It uses up the list.
func (o once) of(bodies []*xds.Variant) []*xds.Variant {
	return slices.DeleteFunc(bodies, func(v *xds.Variant) bool { return o.is(v.Name, v.Constraints.Key()) })
}

// hasVariant reports whether the client has a variant, for any parameters.
func (c *Cursor) hasVariant(spelt, constraints string) bool {
	name := xds.NameKey(spelt)
	return anyOf(c.parts, func(p *part) bool {
		v := p.held.Get(name).Body()
		return p.Located && v != nil && v.Constraints.Key() == constraints
	})
}

// exact are constraints that match the parameters of a part, and no others of the client's
// locators.
func (c *Cursor) exact(p *part) (canonical, written string) {
	if p.exactly != nil {
		return p.exactly[0], p.exactly[1]
	}
	var others []constraints.Params
	for i := range c.parts {
		if x := &c.parts[i]; x.Located {
			others = append(others, x.Params)
		}
	}
	canonical, written = xds.Exact(p.Params, others)
	p.exactly = &[2]string{canonical, written}
	return canonical, written
}

// overlaps reports whether a variant that no answer for this parameter map has confirmed matches
// another of the client's maps, too, which has another one by now: it was replaced there, and here
// the origin has yet to say so. Without a stream nobody will, and what there is is sent.
func (k *take) overlaps(p *part, f *found) bool {
	to := k.Parts[p.Group].To
	if !p.Located || f.body == nil || !f.stale || to == nil || !to.Lanes[0].Open && !to.Lanes[1].Open {
		return false
	}
	return anyOf(k.parts, func(q *part) bool {
		if q == p || !q.Located || q.Group != p.Group || !q.selects(f.body.Name, f.body) || !f.body.Constraints.Match(q.Params) {
			return false
		}
		v := k.find(q, to, f.body.Name, nil).body
		return v != nil && v.Digest != f.body.Digest
	})
}

// passOn leaves what the client drops to another source of which it asks for it: it has it still,
// and is to be told when it goes.
func (c *Cursor) passOn(from *part, had state.Entry) {
	v := had.Body()
	for i := range c.parts {
		p := &c.parts[i]
		its := p != from && p.selects(v.Name, v) && p.Located == from.Located
		if p.Located {
			its = its && c.Delta && v.Constraints.Match(p.Params)
		}
		if its && !p.held.Get(v.Name).Known() {
			p.held = p.held.With(state.Edit{Name: v.Name, Entry: had})
			p.look.add(v.Name)
		}
	}
}
