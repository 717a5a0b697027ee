package state

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

// Entry is what is known of one name: nearly always one body. It is immutable. The zero Entry is
// that of a name of which nothing is known, which is not the same as absent.
type Entry struct {
	body *xds.Variant
	more *Facts // nil: body is all
}

// Facts are all that can be known of a name.
type Facts struct {
	Name string // canonical; of a resource its own name
	// Bodies are its variants, one for each set of constraints (DYN-5); nearly always one.
	Bodies []*xds.Variant
	// Absent are the parameter maps for which the origin states that there is none (DYN-13).
	Absent []constraints.Params
	// Alias is the resource that the name is an alias of. Nothing else is known of the name then.
	Alias string
	// Notice has the origin's own words for the absence of an alias (ALIAS-5); mostly nil.
	Notice *xds.Variant
	Err    *xds.NameError // the last error, until a body or another error comes (ABS-7)
	Age    Age            // its own, where it differs from that of its set
	sum    xds.SetDigest
}

// Age says how sure it is that something is still what the origin has.
type Age uint8

// The ages, from the surest on.
const (
	Inherit  Age = iota // an entry's: it is as old as its set; a set's: as its lane
	Live                // the origin has said it on a stream that is open
	Stale               // that stream is gone
	Retired             // nobody asked for it for a while
	Restored            // it comes from disk, or from a sibling (RELAY-96)
	Fallback            // it comes from a file that stands in for the origin
)

// Present is the entry of a resource of which only a body is known.
func Present(v *xds.Variant) Entry { return Entry{body: v} }

// NewEntry is the entry of some facts, whose lists it uses up.
func NewEntry(f Facts) Entry {
	slices.SortFunc(f.Bodies, func(a, b *xds.Variant) int { return cmp.Compare(a.Constraints.Key(), b.Constraints.Key()) })
	slices.SortFunc(f.Absent, func(a, b constraints.Params) int { return cmp.Compare(a.Key(), b.Key()) })
	bodies := len(f.Bodies)
	if len(f.Absent) > 0 || f.Alias != "" || f.Err != nil {
		bodies = -1
	}
	switch {
	case bodies == 0:
		return Entry{}
	case bodies == 1 && f.Age == Inherit:
		return Present(f.Bodies[0])
	case bodies == 1: // an age is no content
		f.sum = xds.SetDigest(f.Bodies[0].Digest)
		return Entry{more: &f}
	}
	h := xds.Hasher{hashedEntry}
	h.Text(f.Name)
	h.Text(f.Alias)
	for _, v := range f.Bodies {
		h.Digest(v.Digest)
	}
	h.Text("") // no body is
	for _, p := range f.Absent {
		h.Text(p.Key() + ".") // never empty
	}
	h.Text("")
	if f.Notice != nil {
		h.Text(string(f.Notice.Delta()))
	}
	if f.Err != nil {
		h.Text(fmt.Sprint(f.Err.Code, f.Err.Message))
	}
	f.sum = h.Sum()
	return Entry{more: &f}
}

// Known reports whether anything is known of the name.
func (e Entry) Known() bool { return e != Entry{} }

// Name is the canonical name; "" if nothing is known.
func (e Entry) Name() string {
	if e.more != nil {
		return e.more.Name
	} else if e.body != nil {
		return e.body.Name
	}
	return ""
}

// Facts are all that is known. The lists belong to the entry.
func (e Entry) Facts() Facts {
	if e.more != nil {
		return *e.more
	} else if e.body != nil {
		return Facts{Name: e.body.Name, Bodies: []*xds.Variant{e.body}}
	}
	return Facts{}
}

// Besides is what Facts has but for Name and Bodies, which it may lack. It is not to be changed.
func (e Entry) Besides() *Facts {
	if e.more != nil {
		return e.more
	}
	return &noFacts
}

var noFacts Facts

// Body is the only body of the name; nil if it has none, or several.
func (e Entry) Body() *xds.Variant {
	if e.more != nil && len(e.more.Bodies) == 1 {
		return e.more.Bodies[0]
	}
	return e.body
}

// Knowledge is what is known of a name for one parameter map.
type Knowledge uint8

// What is known: nothing, a body, that there is none, or that the origin has an error for it.
const (
	Unknown Knowledge = iota
	Exists
	Gone
	Failed
)

// For is what clients with these parameters have of the name. Of several bodies that is the match
// with the most distinct keys, then the smallest canonical form (DYN-9), so that every replica
// chooses alike. Of an alias nothing is known but what it stands for.
func (e Entry) For(p constraints.Params) (best *xds.Variant, what Knowledge) {
	for v := range e.Variants() { // in the order of their canonical forms
		if v.Constraints.Match(p) && (best == nil || v.Constraints.Keys() > best.Constraints.Keys()) {
			best = v
		}
	}
	switch f := e.more; {
	case best != nil:
		return best, Exists
	case f == nil:
		return nil, Unknown
	case f.Err != nil && f.Err.Constraints.Match(p):
		return nil, Failed
	case slices.ContainsFunc(f.Absent, func(q constraints.Params) bool { return q.Key() == p.Key() }):
		return nil, Gone
	}
	return nil, Unknown
}

// sum identifies what is known, but for ages and ends of TTLs.
func (e Entry) sum() xds.SetDigest {
	if e.more != nil {
		return e.more.sum
	}
	return xds.SetDigest(e.body.Digest)
}

// Restates reports whether both say that there is nothing, in the same words, whatever their age.
func (e Entry) Restates(o Entry) bool {
	return e.Known() && o.Known() && !e.Has() && !o.Has() && e.sum() == o.sum()
}

// Has reports whether the name has any body.
func (e Entry) Has() bool { return e.body != nil || e.more != nil && len(e.more.Bodies) > 0 }

// Variants gives what Facts has as Bodies, and allocates nothing.
func (e Entry) Variants() iter.Seq[*xds.Variant] {
	return func(yield func(*xds.Variant) bool) {
		if e.body != nil {
			yield(e.body)
		} else if e.more != nil {
			slices.Values(e.more.Bodies)(yield)
		}
	}
}

// size is how many bytes the encoded bodies have, and what marks.
func (e Entry) size() (bytes int64, m marks) {
	for v := range e.Variants() {
		if bytes += int64(v.Size()); v.Timed() {
			m |= timed
		}
		if v.DoNotCache {
			m |= uncached
		}
	}
	return bytes, m
}

// Same reports whether clients are sent the same for both, now and until its end. Which response
// brought a body is not compared, as by that no two groups would share anything.
func (e Entry) Same(o Entry) bool {
	alike := func(a, b *xds.Variant) bool {
		return a == b || a.SharesBytes(b) && a.Expires().Equal(b.Expires()) && a.Orphaned() == b.Orphaned()
	}
	switch {
	case e == o:
		return true
	case e.body != nil && o.body != nil:
		return alike(e.body, o.body)
	case e.more == nil || o.more == nil:
		return false
	}
	return e.more.sum == o.more.sum && e.more.Age == o.more.Age && slices.EqualFunc(e.more.Bodies, o.more.Bodies, alike)
}
