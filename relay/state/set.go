package state

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/weir-xds/weir/relay/xds"
)

// Set is an immutable set of entries by name. Its shape depends on its content alone: equal sets
// are the same nodes, however they came about and whichever group they are of, so two sets are
// compared by skipping what they share. The zero Set is empty. All methods may be called at the
// same time.
type Set struct{ root *node }

// Edit is a change of what is known of one name.
type Edit struct {
	Name  string // canonical
	Entry Entry  // of that name; the zero one: nothing is known of it any more
}

// With is the set after edits, at most one of a name. If they change nothing it is s.
func (s Set) With(edits ...Edit) Set {
	all := make([]edit, len(edits))
	for i, e := range edits {
		all[i] = edit{hashOf(e.Name), e}
	}
	if len(all) > 1 {
		slices.SortFunc(all, func(a, b edit) int { return a.compare(b.hash, b.Name) })
	}
	return Set{with(s.root, all, 0)}
}

// Get is what is known of a name.
func (s Set) Get(name string) Entry {
	hash, n := hashOf(name), s.root
	for depth := 0; n != nil; depth++ {
		if n.kids != nil {
			n = n.kids[slot(hash, depth)]
		} else if i := find(n.entries, n.tags, hash, name); i >= 0 {
			return n.entries[i]
		} else {
			break
		}
	}
	return Entry{}
}

var nothing node

func (s Set) top() *node { return cmp.Or(s.root, &nothing) }

// Len is the number of entries.
func (s Set) Len() int { return int(s.top().count) }

// Bytes is how long the bodies of the set are, encoded.
func (s Set) Bytes() int64 { return s.top().bytes }

// Sum identifies the content of the set: what version_info is made of (VER-4).
func (s Set) Sum() Sum { return s.top().sum }

// Timed reports whether any body has a TTL.
func (s Set) Timed() bool { return s.top().marks&timed != 0 }

// All gives every entry, in the same order in every process.
func (s Set) All() iter.Seq[Entry] { return func(yield func(Entry) bool) { s.root.each(0, yield) } }

// each gives the entries that have the marks.
func (n *node) each(of marks, yield func(Entry) bool) bool {
	if n == nil || n.marks&of != of {
		return true
	}
	for _, e := range n.entries {
		if _, m := e.size(); m&of == of && !yield(e) {
			return false
		}
	}
	if n.kids != nil {
		for _, k := range n.kids {
			if !k.each(of, yield) {
				return false
			}
		}
	}
	return true
}

// Diff gives what is known otherwise in one set than in another, by name: was and is, of which
// one may know nothing. It costs what differs. Entries that differ in the end of a TTL alone are
// given, too: they have equal digests.
func Diff(from, to Set) iter.Seq2[Entry, Entry] {
	return func(yield func(was, is Entry) bool) { diff(from.root, to.root, 0, yield) }
}

func diff(a, b *node, depth int, yield func(was, is Entry) bool) bool {
	switch {
	case a == b:
		return true
	case (a == nil || a.kids == nil) && (b == nil || b.kids == nil):
		return diffLeaves(cmp.Or(a, &nothing).entries, cmp.Or(b, &nothing).entries, yield)
	}
	if a == nil || a.kids == nil {
		a = split(a, depth)
	}
	if b == nil || b.kids == nil {
		b = split(b, depth)
	}
	for i := range a.kids {
		if !diff(a.kids[i], b.kids[i], depth+1, yield) {
			return false
		}
	}
	return true
}

func diffLeaves(as, bs []Entry, yield func(was, is Entry) bool) bool {
	for len(as)+len(bs) > 0 {
		var was, is Entry
		order := orderOf(as, bs)
		if order <= 0 {
			was, as = as[0], as[1:]
		}
		if order >= 0 {
			is, bs = bs[0], bs[1:]
		}
		if !was.same(is) && !yield(was, is) {
			return false
		}
	}
	return true
}

// orderOf compares the first names of two lists. That of an empty one comes last.
func orderOf(as, bs []Entry) int {
	if len(as) == 0 || len(bs) == 0 {
		return cmp.Compare(len(bs), len(as))
	}
	a, b := as[0].Name(), bs[0].Name()
	if a == b {
		return 0
	}
	return cmp.Or(cmp.Compare(hashOf(a), hashOf(b)), strings.Compare(a, b))
}

// Form is how resources are encoded.
type Form uint8

// The forms: the `resources` field of a DeltaDiscoveryResponse, and that of a DiscoveryResponse,
// both without TTLs.
const (
	Delta Form = iota
	SotW
)

// Pieces appends all bodies, encoded: one piece for each leaf, made when it is asked for first,
// and shared by all sets that have the leaf. Nobody may change them.
func (s Set) Pieces(to [][]byte, f Form) [][]byte { return s.root.pieces(to, f) }

func (n *node) pieces(to [][]byte, f Form) [][]byte {
	switch {
	case n == nil || n.bytes == 0:
		return to
	case n.kids != nil:
		for _, k := range n.kids {
			to = k.pieces(to, f)
		}
		return to
	}
	p := n.encoded[f].Load()
	if p == nil {
		b := n.encode(f)
		n.encoded[f].CompareAndSwap(nil, &b) // of two that are made at the same time the first stays
		p = n.encoded[f].Load()
	}
	return append(to, *p)
}

func (n *node) encode(f Form) []byte {
	form := (*xds.Variant).Delta
	if f == SotW {
		form = (*xds.Variant).SotW
	}
	if v := n.entries[0].Body(); v != nil && len(n.entries) == 1 {
		return form(v) // nothing is joined, so nothing is copied
	}
	b := make([]byte, 0, n.bytes)
	for _, e := range n.entries {
		if e.body != nil {
			b = append(b, form(e.body)...)
			continue
		}
		for _, v := range e.more.Bodies {
			b = append(b, form(v)...)
		}
	}
	return b
}
