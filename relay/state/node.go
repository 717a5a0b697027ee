package state

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weir-xds/weir/relay/xds"
)

// The first byte of what is hashed, so that a sum of one kind is none of another.
const (
	hashedEntry = 1 + iota
	hashedLeaf
	hashedInner
	hashedState
)

const (
	fanBits = 3
	fan     = 1 << fanBits // children of an inner node
	// A subtree is a leaf if its entries are at most so many, with at most so many encoded bytes,
	// or if it is one entry. No other subtree is, so content alone decides the shape.
	mostEntries, mostBytes = 64, 64 << 10
	// deepest is the level that has no bits of the hash left. Names that get there together have
	// equal hashes of 64 bits.
	deepest = 64 / fanBits
)

// node is a subtree, for all sets that have its content. All but items and kids is derived from them.
type node struct {
	items   []item // of a leaf, by hash and name
	kids    *[fan]*node
	encoded [2]atomic.Pointer[[]byte] // of a leaf, by Form
	sum     xds.SetDigest
	bytes   int64 // of the encoded bodies
	count   int32
	marks   marks
}

// item is an entry at its place.
type item struct {
	hash uint64 // of its name
	Entry
}

var (
	nothing     node
	sharedNodes shares[node]
)

// marks are what some entry of a subtree has.
type marks uint8

const (
	timed    marks = 1 << iota // a TTL
	uncached                   // it must not be kept (RELAY-9)
)

// edit is an Edit on its way down.
type edit struct {
	hash uint64
	Edit
}

// hashOf gives a name its place, the same in every process.
func hashOf(name string) uint64 {
	var room [96]byte
	sum := sha256.Sum256(append(room[:0], name...))
	return binary.BigEndian.Uint64(sum[:])
}

func slot(hash uint64, depth int) int { return int(hash >> (64 - fanBits*(depth+1)) & (fan - 1)) }

func (i *item) compare(hash uint64, name string) int {
	if i.hash != hash {
		return cmp.Compare(i.hash, hash)
	}
	return strings.Compare(i.Name(), name)
}

// with is the subtree after edits in the order of their hashes, one of a name at most. It is n
// itself if they change nothing.
func (n *node) with(edits []edit, depth int) *node {
	if n == nil || n.kids == nil {
		return n.withItems(edits, depth)
	}
	kids := *n.kids
	for from, to := 0, 0; from < len(edits); from = to {
		i := slot(edits[from].hash, depth)
		for to < len(edits) && slot(edits[to].hash, depth) == i {
			to++
		}
		kids[i] = kids[i].with(edits[from:to], depth+1)
	}
	if kids == *n.kids {
		return n
	}
	return join(kids, depth)
}

// withItems is a leaf after edits. What is encoded of the leaf before goes: most are past it.
func (n *node) withItems(edits []edit, depth int) *node {
	leaf, changed := cmp.Or(n, &nothing), false
	was, items := leaf.items, make([]item, 0, len(leaf.items)+len(edits))
	for _, e := range edits {
		for len(was) > 0 && was[0].compare(e.hash, e.Name) < 0 {
			items, was = append(items, was[0]), was[1:]
		}
		var old Entry
		if len(was) > 0 && was[0].compare(e.hash, e.Name) == 0 {
			old, was = was[0].Entry, was[1:]
		}
		if old.same(e.Entry) {
			e.Entry = old
		}
		if changed = changed || old != e.Entry; e.Entry.Known() {
			items = append(items, item{e.hash, e.Entry})
		}
	}
	if !changed {
		return n
	}
	for f := range leaf.encoded {
		leaf.encoded[f].Store(nil)
	}
	return treeOf(append(items, was...), depth)
}

func isInner(count int, bytes int64) bool {
	return count > 1 && (count > mostEntries || bytes > mostBytes)
}

// treeOf is the subtree of some items.
func treeOf(items []item, depth int) *node {
	n := &node{count: int32(len(items))}
	for _, i := range items {
		bytes, marks := i.size()
		n.bytes, n.marks = n.bytes+bytes, n.marks|marks
	}
	switch {
	case len(items) == 0:
		return nil
	case depth < deepest && isInner(len(items), n.bytes):
		var kids [fan]*node
		for from, to := 0, 0; from < len(items); from = to {
			i := slot(items[from].hash, depth)
			for to < len(items) && slot(items[to].hash, depth) == i {
				to++
			}
			kids[i] = treeOf(items[from:to], depth+1)
		}
		return join(kids, depth)
	}
	n.items = slices.Clone(items)
	return n.finish()
}

// join is the subtree of some children: a leaf if they have little.
func join(kids [fan]*node, depth int) *node {
	n := &node{kids: &kids}
	for _, k := range kids {
		k = cmp.Or(k, &nothing)
		n.count, n.bytes, n.marks = n.count+k.count, n.bytes+k.bytes, n.marks|k.marks
	}
	if isInner(int(n.count), n.bytes) {
		return n.finish()
	}
	return treeOf(n.allItems(), depth)
}

// finish gives a node its sum, and returns the one that is there already, if any.
func (n *node) finish() *node {
	var room [1 + mostEntries*len(n.sum)]byte
	h := xds.Hasher(append(room[:0], hashedLeaf))
	for _, i := range n.items {
		h.Digest(i.sum())
	}
	if n.kids != nil {
		h[0] = hashedInner
		for _, k := range n.kids {
			h.Digest(cmp.Or(k, &nothing).sum)
		}
	}
	n.sum = h.Sum()
	return sharedNodes.put(n.sum, n, (*node).has)
}

// has reports whether nodes have the same content.
func (n *node) has(o *node) bool {
	if n.kids != nil && o.kids != nil {
		return *n.kids == *o.kids
	}
	return n.kids == nil && o.kids == nil && slices.EqualFunc(n.items, o.items, func(a, b item) bool { return a.same(b.Entry) })
}

// each gives the items that have the marks.
func (n *node) each(of marks, yield func(item) bool) bool {
	if n == nil || n.marks&of != of {
		return true
	}
	for _, i := range n.items {
		if _, m := i.size(); m&of == of && !yield(i) {
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

func (n *node) allItems() (items []item) {
	if n != nil && n.kids == nil {
		return n.items
	}
	n.each(0, func(i item) bool {
		items = append(items, i)
		return true
	})
	return items
}

// diff gives what two subtrees at one place have otherwise. If only one of them has children, it
// has more, so there is nothing to skip.
func diff(a, b *node, yield func(was, is Entry) bool) bool {
	if a == b {
		return true
	}
	if a != nil && b != nil && a.kids != nil && b.kids != nil {
		for i := range a.kids {
			if !diff(a.kids[i], b.kids[i], yield) {
				return false
			}
		}
		return true
	}
	as, bs := a.allItems(), b.allItems()
	for len(as)+len(bs) > 0 {
		var was, is Entry
		order := cmp.Compare(len(bs), len(as)) // what is in one list alone
		if len(as) > 0 && len(bs) > 0 {
			order = as[0].compare(bs[0].hash, bs[0].Name())
		}
		if order <= 0 {
			was, as = as[0].Entry, as[1:]
		}
		if order >= 0 {
			is, bs = bs[0].Entry, bs[1:]
		}
		if !was.same(is) && !yield(was, is) {
			return false
		}
	}
	return true
}
