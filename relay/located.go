package relay

import (
	"iter"
	"slices"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Located is what an answer tells of names that the client named by locators: with the constraints
// of the variant (DYN-7, DYN-16), and in state of the world wrapped, whatever features the client
// has (DYN-4). One name may be in it several times, with other constraints (DYN-15).
type Located struct {
	Variants []*Variant
	// Heartbeats are as those of a Body.
	Heartbeats []*Variant
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
func (a *Answer) Bodies() iter.Seq[*Variant] {
	return func(yield func(*Variant) bool) {
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
	add := func(v *Variant, beat bool) {
		left, ok := time.Duration(0), true
		if ttl && v.timed() {
			left, ok = v.remaining(now)
		}
		if !ok || delta && v.Nameless {
			return // it is about to be removed, or cannot be told (RELAY-18)
		}
		u := of(v.Name)
		from := len(u.Pieces)
		if pieces := v.located(delta, left, beat); from == 0 {
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

// located is Delta or SotW in located form: a head, and behind it the bytes that it shares with the
// other forms. All who are told a variant with constraints share the head, too. beat: a heartbeat,
// which is a head alone. ttl 0: none is told.
func (v *Variant) located(delta bool, ttl time.Duration, beat bool) [][]byte {
	if v.rare == nil || ttl > 0 || beat {
		head, rest := v.locatedParts(delta, ttl, beat)
		if beat {
			return [][]byte{head}
		}
		return [][]byte{head, rest}
	}
	kept := &v.rare.located[0]
	if delta {
		kept = &v.rare.located[1]
	}
	parts := kept.Load()
	if parts == nil {
		parts = &[2][]byte{}
		parts[0], parts[1] = v.locatedParts(delta, 0, false)
		kept.Store(parts) // one of two that come at once is as good as the other
	}
	return parts[:]
}

func (v *Variant) locatedParts(delta bool, ttl time.Duration, beat bool) (head, rest []byte) {
	name := v.Spelling()
	if v.Nameless {
		name = ""
	}
	var b []byte
	if !v.Notice() {
		b = xds.AppendString(b, resourceVersion, v.Version())
	}
	b = xds.AppendResourceName(b, resourceNameWrapped, name, v.written())
	if !beat {
		for _, a := range v.aliases {
			b = xds.AppendString(b, resourceAliases, a)
		}
		if v.DoNotCache {
			b = protowire.AppendTag(b, resourceCacheCtl, protowire.BytesType)
			b = append(b, 2, 0x08, 0x01)
		}
		if meta := v.meta(); len(meta) > 0 {
			b = protowire.AppendBytes(protowire.AppendTag(b, resourceMetadata, protowire.BytesType), meta)
		}
		rest = v.buf[v.sotw:] // both fields are number 2
	}
	if ttl > 0 {
		b = appendTTL(b, ttl)
	}
	if delta {
		return wrap(len(b)+len(rest), b), rest
	}
	return wrapAny(len(b)+len(rest), b), rest
}

// written are the constraints as the origin wrote them: the fields of a ResourceName but its name.
func (v *Variant) written() string {
	if v.rare == nil {
		return ""
	}
	return v.rare.constraints
}

const constraintsField = 2 // of a ResourceName

// constraintFields takes what is not the name out of an encoded ResourceName.
func constraintFields(resourceName []byte) string {
	var b []byte
	for f := xds.Walk(resourceName); f.Next(); { // it was decoded before
		if f.IsBytes(constraintsField) {
			b = protowire.AppendBytes(protowire.AppendTag(b, constraintsField, protowire.BytesType), f.Bytes)
		}
	}
	return string(b)
}

// mostKeys bounds the constraints of exact: more than constraints.MaxNodes are refused, and with
// them a whole response.
const mostKeys = constraints.MaxNodes / 4

// MostParams is how many dynamic parameters a locator may have: beyond it nothing could be said of
// it in an error or a removal.
const MostParams = mostKeys

// Exact are constraints that match a parameter map, and none of others. What is said of a name that
// a client named by a locator, and for which there is no variant, needs some: an error or a removal
// that gave the name alone would be about every map of it (DYN-13), and the client may have
// variants for the others. They are canonical, and written as the fields of a ResourceName.
func Exact(p constraints.Params, others []constraints.Params) (canonical, written string) {
	keys := map[string]bool{}
	for _, x := range others {
		for key := range x.All() {
			if _, mine := p.Lookup(key); !mine && len(keys) < mostKeys {
				keys[key] = true
			}
		}
	}
	var all []*discoveryv3.DynamicParameterConstraints
	for key, value := range p.All() {
		all = append(all, single(&discoveryv3.DynamicParameterConstraints_SingleConstraint{
			Key: key, ConstraintType: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Value{Value: value},
		}))
	}
	for key := range keys {
		all = append(all, &discoveryv3.DynamicParameterConstraints{
			Type: &discoveryv3.DynamicParameterConstraints_NotConstraints{
				NotConstraints: single(&discoveryv3.DynamicParameterConstraints_SingleConstraint{
					Key: key, ConstraintType: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Exists_{
						Exists: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Exists{},
					},
				}),
			},
		})
	}
	set, err := constraints.Compile(&discoveryv3.DynamicParameterConstraints{
		Type: &discoveryv3.DynamicParameterConstraints_AndConstraints{
			AndConstraints: &discoveryv3.DynamicParameterConstraints_ConstraintList{Constraints: all},
		},
	})
	if set == nil || err != nil { // of the empty map alone; an error there cannot be
		return "", ""
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&discoveryv3.ResourceName{DynamicParameterConstraints: set.Message()})
	if err != nil { // keys and values came from the wire, so they go there
		return "", ""
	}
	return set.Key(), string(b)
}

func single(c *discoveryv3.DynamicParameterConstraints_SingleConstraint) *discoveryv3.DynamicParameterConstraints {
	return &discoveryv3.DynamicParameterConstraints{Type: &discoveryv3.DynamicParameterConstraints_Constraint{Constraint: c}}
}
