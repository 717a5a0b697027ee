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

// Sum identifies content: SHA-256 over a tree, cut to 128 bits at each node, as an xds.Digest is.
// So sets with equal sums are equal, on every replica and in every build (VER-4), and whoever
// chooses some of the content cannot find other content with the same sum. The zero Sum is of
// nothing.
type Sum [16]byte

// The first byte of what is hashed, so that a sum of one kind is none of another.
const (
	hashedEntry = 1 + iota
	hashedLeaf
	hashedInner
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

// node is a subtree. It is immutable, and shared by all sets that have its content. All but
// entries and kids is derived from them.
type node struct {
	entries []Entry // of a leaf, by hash and name
	tags    string  // of a leaf: the last byte of each hash
	kids    *[fan]*node
	encoded [2]atomic.Pointer[[]byte] // of a leaf, by Form
	sum     Sum
	bytes   int64 // of the encoded bodies
	count   int32
	marks   marks
}

// inner is a node and its children, in one piece of memory.
type inner struct {
	node
	all [fan]*node
}

var sharedNodes shares[node]

// marks are what some entry of a subtree has.
type marks uint8

const (
	timed    marks = 1 << iota // a TTL
	uncached                   // it must not be kept (RELAY-9)
)

func marksOf(v *xds.Variant) (m marks) {
	if v.Timed() {
		m |= timed
	}
	if v.DoNotCache {
		m |= uncached
	}
	return m
}

// edit is an Edit on its way down.
type edit struct {
	hash uint64
	Edit
}

// hashOf gives a name its place. It is the beginning of SHA-256, so nobody can choose names that
// make a deep tree, and the shape is the same in every process.
func hashOf(name string) uint64 {
	var room [96]byte
	sum := sha256.Sum256(append(room[:0], name...))
	return binary.BigEndian.Uint64(sum[:])
}

func slot(hash uint64, depth int) int { return int(hash >> (64 - fanBits*(depth+1)) & (fan - 1)) }

func (e *edit) compare(hash uint64, name string) int {
	return cmp.Or(cmp.Compare(e.hash, hash), strings.Compare(e.Name, name))
}

// with is the subtree after edits in the order of their hashes, one of a name at most. It is n
// itself if they change nothing.
func with(n *node, edits []edit, depth int) *node {
	if n == nil || n.kids == nil {
		if len(edits) <= mostEntries || depth == deepest {
			return withEach(n, edits, depth)
		}
		n = split(n, depth)
	}
	var kids [fan]*node
	for i := range kids {
		to := 0
		for to < len(edits) && slot(edits[to].hash, depth) == i {
			to++
		}
		if kids[i] = n.kids[i]; to > 0 {
			kids[i] = with(n.kids[i], edits[:to], depth+1)
			edits = edits[to:]
		}
	}
	if kids == *n.kids && n.sum != (Sum{}) {
		return n
	}
	return join(&kids, depth)
}

// withEach is a leaf after edits.
func withEach(n *node, edits []edit, depth int) *node {
	if n == nil {
		n = &node{}
	}
	entries, tags, bytes := n.entries, n.tags, n.bytes
	changed := false
	for i := range edits {
		e := &edits[i]
		at, is := place(entries, tags, e)
		if is && e.Entry.same(entries[at]) || !is && !e.Entry.Known() {
			continue
		}
		if !changed {
			entries, changed = append(make([]Entry, 0, len(entries)+len(edits)-i), entries...), true
		}
		if is {
			was, _ := entries[at].size()
			bytes -= was
		}
		more, _ := e.Entry.size()
		bytes += more
		switch {
		case is && e.Entry.Known():
			entries[at] = e.Entry
		case is:
			entries, tags = slices.Delete(entries, at, at+1), tags[:at]+tags[at+1:]
		default:
			entries, tags = slices.Insert(entries, at, e.Entry), tags[:at]+string([]byte{byte(e.hash)})+tags[at:]
		}
	}
	if !changed && len(n.entries) > 0 {
		return n
	}
	return treeOf(entries, tags, bytes, depth)
}

// place is where a name is among the entries of a leaf, or would be.
func place(entries []Entry, tags string, e *edit) (at int, is bool) {
	if at := find(entries, tags, e.hash, e.Name); at >= 0 {
		return at, true
	}
	return slices.BinarySearchFunc(entries, e, func(x Entry, e *edit) int { return -e.compare(hashOf(x.Name()), x.Name()) })
}

// find is where a name is among the entries of a leaf; -1: it is not.
func find(entries []Entry, tags string, hash uint64, name string) int {
	for from := 0; ; from++ {
		i := strings.IndexByte(tags[from:], byte(hash))
		if i < 0 {
			return -1
		}
		if from += i; entries[from].Name() == name {
			return from
		}
	}
}

func isInner(count int, bytes int64) bool {
	return count > 1 && (count > mostEntries || bytes > mostBytes)
}

// treeOf is the subtree of some entries, whose bodies have so many bytes.
func treeOf(entries []Entry, tags string, bytes int64, depth int) *node {
	n := &node{entries: entries, tags: tags, count: int32(len(entries)), bytes: bytes}
	switch {
	case len(entries) == 0:
		return nil
	case depth < deepest && isInner(len(entries), bytes):
		return join(split(n, depth).kids, depth)
	}
	return n.finish()
}

// split is a leaf, or nothing, as an inner node, which is no part of any set.
func split(n *node, depth int) *node {
	var kids [fan]*node
	for from := 0; n != nil && from < len(n.entries); {
		at, to, bytes := slot(hashOf(n.entries[from].Name()), depth), from, int64(0)
		for to < len(n.entries) && slot(hashOf(n.entries[to].Name()), depth) == at {
			more, _ := n.entries[to].size()
			bytes += more
			to++
		}
		kids[at] = treeOf(n.entries[from:to:to], n.tags[from:to], bytes, depth+1)
		from = to
	}
	return &node{kids: &kids}
}

// join is the subtree of some children: a leaf if they have little.
func join(kids *[fan]*node, depth int) *node {
	n := &inner{all: *kids}
	n.kids = &n.all
	for _, k := range kids {
		if k != nil {
			n.count, n.bytes = n.count+k.count, n.bytes+k.bytes
		}
	}
	if isInner(int(n.count), n.bytes) {
		return n.finish()
	}
	var entries []Entry
	var tags string
	for _, k := range kids { // all are leaves, as they have no more than this one
		if k != nil {
			entries, tags = append(entries, k.entries...), tags+k.tags
		}
	}
	return treeOf(slices.Clip(entries), tags, n.bytes, depth)
}

// finish derives what a node says of its content, and returns the one that is there already, if
// any.
func (n *node) finish() *node {
	var room [1 + mostEntries*len(Sum{})]byte
	b := append(room[:0], hashedLeaf)
	for _, e := range n.entries {
		sum := e.sum()
		_, m := e.size()
		b, n.marks = append(b, sum[:]...), n.marks|m
	}
	if n.kids != nil {
		b[0] = hashedInner
		for _, k := range n.kids {
			var sum Sum
			if k != nil {
				sum, n.marks = k.sum, n.marks|k.marks
			}
			b = append(b, sum[:]...)
		}
	}
	sum := sha256.Sum256(b)
	copy(n.sum[:], sum[:])
	return sharedNodes.put(n.sum, n, (*node).has)
}

// has reports whether nodes have the same content.
func (n *node) has(o *node) bool {
	if n.kids != nil && o.kids != nil {
		return *n.kids == *o.kids
	}
	return n.kids == nil && o.kids == nil && n.tags == o.tags && slices.EqualFunc(n.entries, o.entries, Entry.same)
}
