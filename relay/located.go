package relay

import (
	"iter"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"

	"google.golang.org/protobuf/encoding/protowire"
)

// Located is what an answer tells of names that the client named by locators: with the constraints
// of the variant (DYN-7, DYN-16), and in state of the world wrapped, whatever features the client
// has (DYN-4). One name may be in it several times, with other constraints (DYN-15).
type Located struct {
	Variants []*xds.Variant
	// Heartbeats are as those of a Body.
	Heartbeats []*xds.Variant
	Removed    []Gone // delta only
}

// Gone is a variant that the client has no more, by its constraints (DYN-14): those that it was
// sent with, as its origin wrote them. To a client that was sent none for its parameters they are
// such that they match these and no others of its (exact).
type Gone struct {
	Name        string // as it is to be told
	Constraints string // canonical (DYN-6)

	written string // the constraints, as the fields of a ResourceName
	known   bool   // the client was sent them
	absent  *Sub   // it has no other in its place for the Sub's parameters; nil: it has
}

// Sent reports whether the client was sent the variant, so that it may hold it.
func (g *Gone) Sent() bool { return g.known }

// Append adds it to the given field of a response, a ResourceName.
func (g *Gone) Append(b []byte, field protowire.Number) []byte {
	return xds.AppendResourceName(b, field, g.Name, g.written)
}

// Size is what it takes in a response, in bytes, or a little more.
func (g *Gone) Size() int { return len(g.Name) + len(g.written) + 16 }

// Bodies are those in both forms.
func (a *Answer) Bodies() iter.Seq[*xds.Variant] {
	return func(yield func(*xds.Variant) bool) {
		for _, v := range a.Variants {
			if !yield(v) {
				return
			}
		}
		if a.Located == nil {
			return
		}
		for _, v := range a.Located.Variants {
			if !yield(v) {
				return
			}
		}
	}
}

// None reports whether there is nothing in it.
func (l *Located) None() bool {
	return l == nil || len(l.Variants)+len(l.Heartbeats)+len(l.Removed) == 0
}

// Unit is all that a response says of one located name. A client must not see a variant go before
// what replaces it comes, so do not part it (DYN-11).
type Unit struct {
	Pieces  [][]byte // encoded `resources` fields, written one after the other; not to be changed
	Removed []Gone
	Size    int // in a message, or a little more
}

// Units are what is told if it is sent now, by name. They are put in room, as far as it goes.
func (a *Answer) Units(delta bool, now time.Time, budget []Unit) []Unit {
	l := a.Located
	if l == nil {
		return nil
	}
	var at map[string]int // nil: there is one thing to tell
	if n := len(l.Variants) + len(l.Heartbeats) + len(l.Removed); n > 1 {
		at = make(map[string]int, n)
	}
	units := budget
	of := func(name string) *Unit {
		i, known := at[name]
		if !known {
			i, units = len(units), append(units, Unit{})
			if at != nil {
				at[name] = i
			}
		}
		return &units[i]
	}
	ttl := a.ttl()
	add := func(v *xds.Variant, beat bool) {
		left, ok := time.Duration(0), true
		if ttl && v.Timed() {
			left, ok = v.Remaining(now)
		}
		if !ok || delta && v.Nameless {
			return // it is about to be removed, or cannot be told (RELAY-18)
		}
		u := of(v.Name)
		from := len(u.Pieces)
		if pieces := v.Located(delta, left, beat); from == 0 {
			u.Pieces = slices.Clip(pieces) // which others may share
		} else {
			u.Pieces = append(u.Pieces, pieces...)
		}
		for _, b := range u.Pieces[from:] {
			u.Size += len(b)
		}
	}
	for _, v := range l.Heartbeats {
		add(v, true)
	}
	for _, v := range l.Variants {
		add(v, false)
	}
	for _, g := range l.Removed {
		u := of(xds.NameKey(g.Name))
		u.Removed, u.Size = append(u.Removed, g), u.Size+g.Size()
	}
	return units
}
