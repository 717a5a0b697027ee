package state

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// State is all that the clients of a group may be sent at one moment. It is immutable.
type State struct {
	Revision uint64    // of the table: revisions of groups and types compare
	At       time.Time // when it was published
	Lanes    [2]Lane   // to the origin, as they are now
	from     []*xds.Provenance
	*content
}

// Lane is a stream to the origin, on which it says what is Live.
type Lane struct {
	Open       bool
	Identifier string // what the origin calls itself
}

// Kind is one resource type of a state: its sets, by parameter map and selector.
type Kind []Selected

// Selected is what the origin sent for one selector: `*`, a glob, a namespace; of "", for names
// that were asked, aliases among them.
type Selected struct {
	TypeURL  string
	Params   string // the key of the parameter map with which it was asked (constraints.Params.Key)
	Selector string
	Members  Set
	// Newer has, of names that were asked and that another set has with another body, what came
	// last (RELAY-25).
	Newer Set
	Status
}

// Status is how far the origin has answered for a set.
type Status struct {
	Phase Phase
	Age   Age
	Asked time.Time      // until it is settled: when the origin was asked, or began to answer (ORD-8)
	Err   *xds.NameError // of the collection as a whole (ABS-12)
	// Version is the origin's, of its last response, where clients are sent those (VER-5).
	Version string
}

// Phase is how much of a set is there (RELAY-6, 7). What a settled one has not does not exist.
type Phase uint8

// The phases, in the order in which a set passes them.
const (
	Unanswered Phase = iota
	Arriving
	Settled
	Firm
)

// content is what a state has, and one for all groups that have the same.
type content struct {
	id   xds.SetDigest
	sets []Selected // by type, parameter map and selector
}

var sharedContents shares[content]

var noContent = content{id: xds.SumOf([]byte{hashedState})}

// as is the state with other content, at the same place in time.
func (s *State) as(c *content) *State { return &State{s.Revision, s.At, s.Lanes, s.from, c} }

// From is the origin's response that changed a type last; nil: that is not known. It belongs to the
// group, as a body may come from the response of another group that has the same.
func (s *State) From(typeURL string) *xds.Provenance {
	if s == nil {
		return nil
	}
	for _, x := range s.from {
		if x.TypeURL == typeURL {
			return x
		}
	}
	return nil
}

// said is what State.From is made of after changes.
func (s *State) said(changes []Change) []*xds.Provenance {
	all := s.from
	for i := range changes {
		is := changes[i].From
		if is == nil {
			continue
		}
		at := slices.IndexFunc(all, func(x *xds.Provenance) bool { return x.TypeURL == is.TypeURL })
		switch {
		case at < 0:
			all = append(slices.Clip(all), is)
		case is.Revision > all[at].Revision:
			all = slices.Clone(all)
			all[at] = is
		}
	}
	return all
}

// Same reports whether clients are sent the same for both.
func (s *State) Same(o *State) bool { return o != nil && s.content == o.content }

// ID is that of what was known, without urgent types and secrets. It is equal on all replicas.
func (c *content) ID() xds.SetDigest { return c.id }

// Kind is what is known of a type. The list belongs to the state.
func (c *content) Kind(typeURL string) Kind {
	from, _ := c.index("", typeURL, "")
	to := from
	for to < len(c.sets) && c.sets[to].TypeURL == typeURL {
		to++
	}
	return c.sets[from:to]
}

// Sets is how many sets there are, of all types.
func (c *content) Sets() int { return len(c.sets) }

// Of is the set of a selector that was asked without parameters, and whether anybody has asked for
// it.
func (c *content) Of(typeURL, selector string) (x Selected, is bool) {
	return c.For("", typeURL, selector)
}

// For is the set of a selector that was asked with a parameter map, by its key.
func (c *content) For(params, typeURL, selector string) (x Selected, is bool) {
	if i, is := c.index(params, typeURL, selector); is {
		return c.sets[i], true
	}
	return x, false
}

func (c *content) index(params, typeURL, selector string) (int, bool) {
	return slices.BinarySearchFunc(c.sets, typeURL, func(x Selected, _ string) int {
		return cmp.Or(cmp.Compare(x.TypeURL, typeURL), cmp.Compare(x.Params, params), cmp.Compare(x.Selector, selector))
	})
}

// of are the sets of a type that were asked with one parameter map.
func (k Kind) of(params string) Kind {
	from, _ := slices.BinarySearchFunc(k, params, func(x Selected, _ string) int { return cmp.Compare(x.Params, params) })
	to := from
	for to < len(k) && k[to].Params == params {
		to++
	}
	return k[from:to]
}

// put is for a content that is being made.
func (c *content) put(x Selected) {
	i, is := c.index(x.Params, x.TypeURL, x.Selector)
	if !is {
		c.sets = slices.Insert(c.sets, i, x)
	}
	c.sets[i] = x
}

// passing are the types that are always those of the newest state: a hold does not hold them.
type passing func(typeURL string) bool

func (p passing) has(typeURL string) bool {
	return typeURL == xds.SecretType || p != nil && p(typeURL)
}

// finish returns before if that is what c has, or what is the same in any group.
func (c *content) finish(before *content, p passing) *content {
	c.sets = slices.DeleteFunc(c.sets, func(x Selected) bool { return x.Selector == "" && x.Members.Len() == 0 })
	switch {
	case slices.Equal(c.sets, before.sets):
		return before
	case len(c.sets) == 0:
		return &noContent
	}
	c.sets = slices.Clip(c.sets)
	id, all := xds.Hasher{hashedState}, xds.Hasher{hashedState}
	for _, x := range c.sets { // ages, phases and errors of sets are no content
		from := len(all)
		all.Text(x.TypeURL)
		all.Text(x.Params)
		all.Text(x.Selector)
		if all.Digest(x.Members.Sum()); !p.has(x.TypeURL) {
			id = append(id, all[from:]...)
		}
	}
	c.id = id.Sum()
	return sharedContents.put(all.Sum(), c, func(a, b *content) bool { return slices.Equal(a.sets, b.sets) })
}

// kept is the content without bodies that must not be kept (RELAY-9), and secrets.
func (c *content) kept(p passing) *content {
	next := &content{}
	for _, x := range c.sets {
		gone := x.Members.uncached()
		x.Members, x.Newer = x.Members.With(gone...), x.Newer.With(gone...)
		if x.Newer = x.Newer.With(x.Newer.uncached()...); x.TypeURL != xds.SecretType {
			next.sets = append(next.sets, x)
		}
	}
	return next.finish(c, p)
}

// uncached are the edits by which nothing is known of what must not be kept.
func (s Set) uncached() (edits []Edit) {
	s.root.each(uncached, func(i item) bool {
		edits = append(edits, Edit{Name: i.Name()})
		return true
	})
	return edits
}

// askedWith is a type and the key of a parameter map.
type askedWith struct{ typeURL, params string }

// over is what clients are sent that are held at c: of the newest content secrets, sets of urgent
// types, and what it knows of names of urgent types. Those are kept up by differences in asked.
func (c *content) over(newest *content, p passing, asked map[askedWith]*derived) *content {
	next := &content{}
	for _, x := range c.sets {
		if !p.has(x.TypeURL) {
			next.sets = append(next.sets, x)
		}
	}
	for _, x := range newest.sets {
		if p.has(x.TypeURL) {
			next.put(x)
		}
	}
	for _, x := range c.sets {
		its, is := newest.For(x.Params, x.TypeURL, x.Selector)
		if !p.has(x.TypeURL) || x.TypeURL == xds.SecretType || is && x.Selector != "" {
			continue
		}
		if held := x.Members; x.Selector == "" {
			at := askedWith{x.TypeURL, x.Params}
			if asked[at] == nil {
				asked[at] = &derived{held, held}
			}
			x.Newer = its.Newer
			x.Members = asked[at].follow(its.Members, func(name string, is Entry) Entry {
				if is.Known() {
					return is
				}
				return held.Get(name)
			})
		}
		next.put(x)
	}
	return next.finish(c, p)
}

// Alone is about how many bytes of bodies a state keeps alive that another one does not.
func (c *content) Alone(than *State) (bytes int64) {
	for _, x := range c.sets {
		other, _ := than.For(x.Params, x.TypeURL, x.Selector)
		bytes += x.Members.Alone(other.Members)
	}
	return bytes
}
