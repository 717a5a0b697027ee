package xds

import "github.com/weir-xds/weir/relay/intern"

// TrackedSet is the digest of a set that changes now and then, kept from one change to the next.
// The zero TrackedSet keeps nothing until it is asked: then the members are listed once.
type TrackedSet struct {
	tree    *Tree    // nil: the set was not listed yet, or was empty
	changes []Change // since tree, in their order
}

// fewChanges bounds the changes that are kept since a small set was asked for.
const fewChanges = 64

// Add notes a member that the set has from now on.
func (s *TrackedSet) Add(d Digest) { s.note(Change{Member: d, In: true}) }

// Remove notes a member that the set no longer has.
func (s *TrackedSet) Remove(d Digest) { s.note(Change{Member: d}) }

// note keeps a change. If there are so many that listing the members costs no more, the set is
// forgotten instead.
func (s *TrackedSet) note(c Change) {
	if s.tree == nil {
		return
	}
	if s.changes = append(s.changes, c); len(s.changes) > s.tree.Len()/4+fewChanges {
		s.Forget()
	}
}

// Forget gives up what is kept.
func (s *TrackedSet) Forget() { *s = TrackedSet{} }

// IsKept reports whether the set was listed, and is kept since.
func (s *TrackedSet) IsKept() bool { return s.tree != nil }

// Tree returns the tree of the set. list lists the members; it is called if nothing is kept.
func (s *TrackedSet) Tree(list func() []Digest) *Tree {
	switch {
	case s.tree == nil:
		s.tree = NewTree(list()).shared()
	case len(s.changes) > 0:
		s.tree, s.changes = s.tree.Apply(s.changes).shared(), nil
	}
	return s.tree
}

// trees are those that the process holds. Clients and groups that are sent the same hold one.
var trees = intern.New[SetDigest, Tree]()

// shared returns the tree that others hold of the same set, or t. A small one is not worth it.
func (t *Tree) shared() *Tree {
	if t.Len() <= leafMembers {
		return t
	}
	same := func(*Tree) bool { return true }
	if other := trees.Find(t.digest, same); other != nil {
		return other
	}
	return trees.Put(t.digest, t, same)
}
