package relay

import (
	"iter"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"

	"google.golang.org/protobuf/encoding/protowire"
)

// Located is the part of an answer for names that the client subscribed to by locators. Each
// variant is sent with its constraints (DYN-7, DYN-16). In SotW it is wrapped in a Resource,
// whatever features the client has (DYN-4). One name may occur several times, with different
// constraints (DYN-15).
type Located struct {
	Variants []*xds.Variant
	// Heartbeats are as those of a Body.
	Heartbeats []*xds.Variant
	Removed    []Gone // delta only
}

// Gone is the removal of a variant, which is named by its constraints (DYN-14): those that the
// client was sent, as the origin wrote them. If the client was sent none for its parameters, the
// constraints match these parameters and no others of the client (exact).
type Gone struct {
	Name        string // as the client is to be sent it
	Constraints string // canonical (DYN-6)

	written string // the constraints, as the fields of a ResourceName
	known   bool   // the client was sent them
	absent  *Sub   // the Sub for whose parameters no other variant replaces it; nil: one does
}

// Sent reports whether the client was sent the variant, so that it may hold it.
func (g *Gone) Sent() bool { return g.known }

// Append appends it to b as a ResourceName in the given field of a response.
func (g *Gone) Append(b []byte, field protowire.Number) []byte {
	return xds.AppendResourceName(b, field, g.Name, g.written)
}

// Size is its size in a response in bytes, or a little more.
func (g *Gone) Size() int { return len(g.Name) + len(g.written) + 16 }

// Bodies are the answer's resources, those sent by plain names and those sent by locators.
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

// None reports whether it is empty.
func (l *Located) None() bool {
	return l == nil || len(l.Variants)+len(l.Heartbeats)+len(l.Removed) == 0
}

// Unit is everything that a response states of one located name. It must not be divided between
// messages, since a client must not lose a variant before it has the one that replaces it (DYN-11).
type Unit struct {
	Pieces  [][]byte // encoded `resources` fields, written one after the other; not to be changed
	Removed []Gone
	Size    int // in a message in bytes, or a little more
}

// Units are the located part of an answer that is sent now, by name. They are appended to budget,
// whose array is used as far as it goes.
func (a *Answer) Units(delta bool, now time.Time, budget []Unit) []Unit {
	l := a.Located
	if l == nil {
		return nil
	}
	var at map[string]int // nil: there is one statement
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
			return // its TTL has ended, or delta cannot express it (RELAY-18)
		}
		u := of(v.Name)
		from := len(u.Pieces)
		if pieces := v.Located(delta, left, beat); from == 0 {
			u.Pieces = slices.Clip(pieces) // others may share the array
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
