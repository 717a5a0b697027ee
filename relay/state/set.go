package state

import (
	"cmp"
	"iter"
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// Set is an immutable set of entries by name. Equal sets are the same nodes, however they came
// about and whichever group they are of. The zero Set is empty.
type Set struct{ root *node }

// Edit is a change of what is known of one name.
type Edit struct {
	Name  string // canonical
	Entry Entry  // of that name; the zero one: nothing is known of it any more
}

// With is the set after edits, of which several of a name are alike. If they change nothing it is
// s.
func (s Set) With(edits ...Edit) Set {
	all := make([]edit, len(edits))
	for i, e := range edits {
		all[i] = edit{hashOf(e.Name), e}
	}
	slices.SortFunc(all, func(a, b edit) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.Name, b.Name)) })
	all = slices.CompactFunc(all, func(a, b edit) bool { return a.hash == b.hash && a.Name == b.Name })
	return Set{s.root.with(all, 0)}
}

// Get is what is known of a name.
func (s Set) Get(name string) Entry {
	if n := cmp.Or(s.root, &nothing); n.kids == nil && len(n.items) <= few { // to look at each is less than a hash
		for i := range n.items {
			if n.items[i].Name() == name {
				return n.items[i].Entry
			}
		}
		return Entry{}
	}
	hash, n := hashOf(name), s.root
	for depth := 0; n != nil && n.kids != nil; depth++ {
		n = n.kids.at[slot(hash, depth)]
	}
	items := cmp.Or(n, &nothing).items
	if i, is := slices.BinarySearchFunc(items, name, func(i item, name string) int { return i.compare(hash, name) }); is {
		return items[i].Entry
	}
	return Entry{}
}

// few is how many names are compared in the time that a hash takes, about.
const few = 8

// Len is the number of entries.
func (s Set) Len() int { return int(cmp.Or(s.root, &nothing).count) }

// Sum identifies the content of the set: what version_info is made of (VER-4). Sets with equal sums
// are equal, on every replica and in every build.
func (s Set) Sum() xds.SetDigest { return cmp.Or(s.root, &nothing).sum }

// Timed reports whether a body may have a TTL: one has, or had.
func (s Set) Timed() bool { return cmp.Or(s.root, &nothing).marks&timed != 0 }

// All gives every entry, in the same order in every process.
func (s Set) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) { s.root.each(0, func(i item) bool { return yield(i.Entry) }) }
}

// Diff gives what is known otherwise in one set than in another, by name: was and is, of which one
// may know nothing. It costs what differs. Another end of a TTL is given, too, at equal digests.
func Diff(from, to Set) iter.Seq2[Entry, Entry] {
	return func(yield func(was, is Entry) bool) { diff(from.root, to.root, yield) }
}

// Alone is about how many bytes of bodies s keeps alive that a set of another moment does not: what
// a state costs that is kept, or a client that is behind.
func (s Set) Alone(than Set) (bytes int64) {
	for was, is := range Diff(s, than) {
		if a, b := was.Body(), is.Body(); a == nil || b == nil || !a.SharesBytes(b) {
			had, _ := was.size()
			bytes += had
		}
	}
	return bytes
}

// Form is how resources are encoded.
type Form uint8

// The forms: the field `resources` of a DeltaDiscoveryResponse or DiscoveryResponse, without TTLs.
const (
	Delta Form = iota
	SotW
)

// Pieces appends all bodies, encoded: one piece for each leaf. It is kept when it is asked for once
// more, and shared by all sets that have the leaf: who is alone needs no copy of what it was sent.
// Nobody may change them.
func (s Set) Pieces(to [][]byte, f Form) [][]byte { return s.root.pieces(to, f) }

func (n *node) pieces(to [][]byte, f Form) [][]byte {
	switch {
	case n == nil || n.bytes == 0:
		return to
	case n.kids != nil:
		for _, k := range n.kids.at {
			to = k.pieces(to, f)
		}
		return to
	}
	p := n.encoded[f].Load()
	switch p {
	case nil:
		n.encoded[f].Store(&askedOnce)
		return append(to, n.encode(f))
	case &askedOnce:
		b := n.encode(f)
		p = &b
		n.encoded[f].Store(p)
	}
	return append(to, *p)
}

var askedOnce []byte // a leaf's pieces were asked for, and are not kept

func (n *node) encode(f Form) []byte {
	form := (*xds.Variant).Delta
	if f == SotW {
		form = (*xds.Variant).SotW
	}
	if v := n.items[0].Body(); v != nil && len(n.items) == 1 {
		return form(v) // nothing is joined, so nothing is copied
	}
	b := make([]byte, 0, n.bytes)
	for _, i := range n.items {
		for v := range i.Variants() {
			b = append(b, form(v)...)
		}
	}
	return b
}
