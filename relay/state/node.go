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

// The first byte of what is hashed, so that a sum of one kind is none of another, nor one of xds.
const (
	hashedEntry = 16 + iota
	hashedLeaf
	hashedInner
	hashedState
)

const (
	fanBits = 3
	fan     = 1 << fanBits // children of an inner node
	// A subtree with at most so many entries and encoded bytes, or with one entry, is a leaf.
	mostEntries, mostBytes = 64, 64 << 10
	// deepest is the level that has no bits of the hash left.
	deepest = 64 / fanBits
)

// node is a subtree, for all sets that have its content. Items and kids are that; the rest follows.
type node struct {
	items   []item // of a leaf, by hash and name
	kids    *kids
	encoded [2]atomic.Pointer[[]byte] // of a leaf, by Form
	sum     xds.SetDigest
	bytes   int64 // of the encoded bodies
	count   int32
	marks   marks
}

// kids are the children of an inner node, and their sums, as they are far away in memory.
type kids struct {
	at   [fan]*node
	sums [fan]xds.SetDigest
}

// item is an entry at its place.
type item struct {
	hash uint64 // of its name
	Entry
}

var nothing node

var sharedNodes shares[node]

// marks are what some entry of a subtree has, or had.
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
	next := n
	for from, to := 0, 0; from < len(edits); from = to {
		i := slot(edits[from].hash, depth)
		for to < len(edits) && slot(edits[to].hash, depth) == i {
			to++
		}
		was := next.kids.at[i]
		if k := was.with(edits[from:to], depth+1); k != was {
			if next == n {
				next = inner(n)
			}
			next.put(i, k)
		}
	}
	if next == n {
		return n
	}
	return next.join(depth)
}

// inner is an inner node to be made: what another one is, if any.
func inner(of *node) *node {
	x := &struct {
		node
		its kids
	}{}
	if x.kids = &x.its; of != nil {
		x.its, x.count, x.bytes, x.marks = *of.kids, of.count, of.bytes, of.marks
	}
	return &x.node
}

func (n *node) put(i int, k *node) {
	was, is := cmp.Or(n.kids.at[i], &nothing), cmp.Or(k, &nothing)
	n.count, n.bytes, n.marks = n.count+is.count-was.count, n.bytes+is.bytes-was.bytes, n.marks|is.marks
	n.kids.at[i], n.kids.sums[i] = k, is.sum
}

// join ends what is made of children: a leaf if they have little.
func (n *node) join(depth int) *node {
	if isInner(int(n.count), n.bytes) {
		return n.finish()
	}
	return treeOf(n.allItems(), n.bytes, n.marks, depth)
}

// withItems is a leaf after edits. What is encoded of the leaf before goes: most are past it.
func (n *node) withItems(edits []edit, depth int) *node {
	leaf, changed := cmp.Or(n, &nothing), false
	bytes, marks := leaf.bytes, leaf.marks
	was, items := leaf.items, make([]item, 0, len(leaf.items)+len(edits))
	for _, e := range edits {
		for len(was) > 0 && was[0].compare(e.hash, e.Name) < 0 {
			items, was = append(items, was[0]), was[1:]
		}
		var old Entry
		if len(was) > 0 && was[0].compare(e.hash, e.Name) == 0 {
			old, was = was[0].Entry, was[1:]
		}
		if old.Same(e.Entry) {
			e.Entry = old
		}
		if e.Entry.Known() {
			items = append(items, item{e.hash, e.Entry})
		}
		if old != e.Entry {
			had, _ := old.size()
			has, m := e.Entry.size()
			bytes, marks, changed = bytes+has-had, marks|m, true
		}
	}
	if !changed {
		return n
	}
	for f := range leaf.encoded {
		leaf.encoded[f].Store(nil)
	}
	return treeOf(append(items, was...), bytes, marks, depth)
}

func isInner(count int, bytes int64) bool {
	return count > 1 && (count > mostEntries || bytes > mostBytes)
}

// treeOf is the subtree of some items, which have so many bytes and no other marks.
func treeOf(items []item, bytes int64, m marks, depth int) *node {
	switch {
	case len(items) == 0:
		return nil
	case depth < deepest && isInner(len(items), bytes):
		n := inner(nil)
		for from, to := 0, 0; from < len(items); from = to {
			i := slot(items[from].hash, depth)
			bytes, m = 0, 0
			for ; to < len(items) && slot(items[to].hash, depth) == i; to++ {
				its, marks := items[to].size()
				bytes, m = bytes+its, m|marks
			}
			n.put(i, treeOf(slices.Clone(items[from:to]), bytes, m, depth+1))
		}
		return n.finish()
	}
	n := &node{items: items, count: int32(len(items)), bytes: bytes, marks: m}
	return n.finish()
}

// finish gives a node its sum, and returns the one that is there already, if any.
func (n *node) finish() *node {
	var room [1 + mostEntries*len(n.sum)]byte
	b := append(room[:0], hashedLeaf)
	for i := range n.items {
		sum := n.items[i].sum()
		b = append(b, sum[:]...)
	}
	if n.kids != nil {
		b[0] = hashedInner
		for i := range n.kids.sums {
			b = append(b, n.kids.sums[i][:]...)
		}
	}
	n.sum = xds.SumOf(b)
	return sharedNodes.put(n.sum, n, (*node).has)
}

// has reports whether nodes have the same content.
func (n *node) has(o *node) bool {
	if n.kids != nil && o.kids != nil {
		return n.kids.at == o.kids.at
	}
	return n.kids == nil && o.kids == nil && slices.EqualFunc(n.items, o.items, func(a, b item) bool { return a.Same(b.Entry) })
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
		for _, k := range n.kids.at {
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

// diff gives what two subtrees at one place have otherwise.
func diff(a, b *node, yield func(was, is Entry) bool) bool {
	if a == b {
		return true
	}
	var none kids
	was, is := &none, &none
	if a != nil {
		was = a.kids
	}
	if b != nil {
		is = b.kids
	}
	if was != nil && is != nil { // not two lists, and a list only with a subtree
		for i := range was.at {
			if !diff(was.at[i], is.at[i], yield) {
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
			if as[0] == bs[0] {
				as, bs = as[1:], bs[1:]
				continue
			}
			order = as[0].compare(bs[0].hash, bs[0].Name())
		}
		if order <= 0 {
			was, as = as[0].Entry, as[1:]
		}
		if order >= 0 {
			is, bs = bs[0].Entry, bs[1:]
		}
		if !was.Same(is) && !yield(was, is) {
			return false
		}
	}
	return true
}
