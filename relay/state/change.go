package state

import (
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// Change is what becomes of one set.
type Change struct {
	TypeURL  string
	Params   string // as those of Selected
	Selector string // "": the names that were asked
	Edits    []Edit
	Status   *Status // nil: as it was
	// From is the response that brought it; nil: as it was.
	From *xds.Provenance
	Drop bool // nobody wants the set any more
}

// after is the content after changes.
func (c *content) after(p passing, changes []Change) *content {
	next := &content{sets: slices.Clone(c.sets)}
	for i := range changes {
		x, _ := next.For(changes[i].Params, changes[i].TypeURL, changes[i].Selector)
		next.change(&changes[i], x.Members.With(changes[i].Edits...))
	}
	return next.finish(c, p)
}

// divide is what of changes is learned, as it was unknown. A set that is settled knows of each
// name. keep: others are of what was known.
func (c *content) divide(p passing, changes []Change) (learned []Change, keep bool) {
	for _, l := range changes {
		x, _ := c.For(l.Params, l.TypeURL, l.Selector)
		edits, unsettled := l.Edits, x.Phase < Settled
		l.Edits = nil
		for _, e := range edits {
			if was := x.Members.Get(e.Name); unsettled && !was.Known() {
				l.Edits = append(l.Edits, e)
			} else if e.Entry.Known() || l.Selector != "" { // otherwise it is forgotten
				keep = keep || !p.has(l.TypeURL) && !was.Same(e.Entry)
			}
		}
		if unsettled && !l.Drop && (l.Edits != nil || l.Status != nil) {
			learned = append(learned, l)
		}
	}
	return learned, keep
}

// memo keeps what learning a change made of a set, for all states that share the set.
type memo map[*Change]map[Set]Set

// learn is the content with what changes say of names and sets that were unknown.
func (c *content) learn(p passing, changes []Change, m memo) *content {
	next := &content{sets: slices.Clone(c.sets)}
	for i := range changes {
		by := &changes[i]
		x, _ := next.For(by.Params, by.TypeURL, by.Selector)
		if x.Phase >= Settled {
			continue
		}
		if m[by] == nil {
			m[by] = map[Set]Set{}
		}
		is, done := m[by][x.Members]
		if !done {
			fresh := slices.DeleteFunc(slices.Clone(by.Edits), func(e Edit) bool { return x.Members.Get(e.Name).Known() })
			is = x.Members.With(fresh...).resolved(fresh)
			m[by][x.Members] = is
		}
		next.change(by, is)
	}
	return next.finish(c, p)
}

// resolved is the set without those aliases in edits that its own body of the resource does not
// list.
func (s Set) resolved(edits []Edit) Set {
	var gone []Edit
	for _, e := range edits {
		lists := func(v *xds.Variant) bool { return v.ListsAs(e.Name) }
		if f := e.Entry.more; f != nil && f.Alias != "" && !slices.ContainsFunc(s.Get(f.Alias).Facts().Bodies, lists) {
			gone = append(gone, Edit{Name: e.Name})
		}
	}
	return s.With(gone...)
}

// change makes the set of a change another one, in a content that is being made.
func (c *content) change(by *Change, is Set) {
	x, _ := c.For(by.Params, by.TypeURL, by.Selector)
	was := x.Members
	x.TypeURL, x.Params, x.Selector, x.Members = by.TypeURL, by.Params, by.Selector, is
	if by.Status != nil {
		x.Status = *by.Status
	}
	c.put(x)
	if i, _ := c.index(x.Params, x.TypeURL, x.Selector); by.Drop {
		c.sets = slices.Delete(c.sets, i, i+1)
	}
	if i, is := c.index(by.Params, by.TypeURL, ""); is {
		asked := &c.sets[i]
		asked.Newer = asked.Newer.With(c.Kind(by.TypeURL).of(by.Params).newer(by, was, x.Members)...)
	}
}

// newer is what becomes of Newer by a change.
func (k Kind) newer(by *Change, was, is Set) (edits []Edit) {
	if len(k) == 1 && k[0].Newer.Len() == 0 {
		return nil
	}
	for _, e := range by.Edits {
		if e.Entry = is.Get(e.Name); was.Get(e.Name).Same(e.Entry) {
			continue
		}
		if e.Entry.Body() == nil || !k.differs(e.Name) {
			e.Entry = Entry{}
		}
		edits = append(edits, e)
	}
	for e := range k[0].Newer.All() {
		if by.Drop && !k.differs(e.Name()) {
			edits = append(edits, Edit{Name: e.Name()})
		}
	}
	return edits
}

// differs reports whether a name that was asked has another body in another set.
func (k Kind) differs(name string) bool {
	asked := k[0].Members.Get(name).Body()
	return asked != nil && slices.ContainsFunc(k[1:], func(x Selected) bool {
		v := x.Members.Get(name).Body()
		return v != nil && v.Digest != asked.Digest
	})
}
