package xds

import (
	"cmp"
	"slices"
)

// Tree is the hash tree of a large set (SetDigest), of which a change costs a path and not the set.
// It never changes: a change makes another Tree, which shares all nodes that are off the paths. So
// groups that hold the same may share one. nil is that of the empty set.
type Tree struct {
	digest   SetDigest
	count    int32            // members
	children *[branches]*Tree // nil: it is a leaf
	members  []Digest         // of a leaf, sorted
}

// Change is a change of a set: the member is in it from now on, or no longer.
type Change struct {
	Member Digest
	In     bool
	order  int32 // during Apply
}

// NewTree returns the tree of the set of these members. The list is used up.
func NewTree(members []Digest) *Tree { return newNode(asSet(members), 0) }

// Digest returns the digest of the set.
func (t *Tree) Digest() SetDigest {
	if t == nil {
		return SetDigest{}
	}
	return t.digest
}

// Len returns how many members the set has.
func (t *Tree) Len() int {
	if t == nil {
		return 0
	}
	return int(t.count)
}

// Apply returns the tree after changes, in their order: the last one of a member counts. The list
// is used up.
func (t *Tree) Apply(changes []Change) *Tree {
	for i := range changes {
		changes[i].order = int32(i)
	}
	slices.SortFunc(changes, func(a, b Change) int { // which is faster than a stable sort
		return cmp.Or(a.Member.compare(b.Member), cmp.Compare(a.order, b.order))
	})
	last := changes[:0]
	for i, c := range changes {
		if i+1 == len(changes) || changes[i+1].Member != c.Member {
			last = append(last, c)
		}
	}
	return t.apply(last, 0)
}

// newNode returns the node of a sorted set at a level of the tree. It keeps none of the list.
func newNode(members []Digest, level int) *Tree {
	if len(members) <= leafMembers {
		return newLeaf(slices.Clone(members))
	}
	var children [branches]*Tree
	for i := range children {
		n := inBranch(members, i, level)
		children[i] = newNode(members[:n], level+1)
		members = members[n:]
	}
	return newInner(children)
}

// newLeaf returns the leaf of a sorted set, which keeps the list.
func newLeaf(members []Digest) *Tree {
	if len(members) == 0 {
		return nil
	}
	return &Tree{digest: hashLeaf(members), count: int32(len(members)), members: members}
}

// newInner returns the node of the branches: a leaf if they have few members.
func newInner(children [branches]*Tree) *Tree {
	count, all := 0, [branches]SetDigest{}
	for i, c := range children {
		count += c.Len()
		all[i] = c.Digest()
	}
	if count <= leafMembers {
		members := make([]Digest, 0, count)
		for _, c := range children {
			members = c.appendTo(members)
		}
		return newLeaf(members)
	}
	inner := &struct { // one allocation for both
		Tree
		children [branches]*Tree
	}{Tree{digest: hashInner(&all), count: int32(count)}, children}
	inner.Tree.children = &inner.children
	return &inner.Tree
}

// appendTo appends the members, in order.
func (t *Tree) appendTo(members []Digest) []Digest {
	if t == nil {
		return members
	}
	if t.children == nil {
		return append(members, t.members...)
	}
	for _, c := range t.children {
		members = c.appendTo(members)
	}
	return members
}

// apply returns a node after changes, which are sorted, one of a member.
func (t *Tree) apply(changes []Change, level int) *Tree {
	switch {
	case len(changes) == 0:
		return t
	case t == nil || t.children == nil:
		return t.applyToLeaf(changes, level)
	}
	children, changed := *t.children, false
	for i, c := range children {
		n := 0
		for n < len(changes) && changes[n].Member.branch(level) == i {
			n++
		}
		children[i] = c.apply(changes[:n], level+1)
		changed = changed || children[i] != c
		changes = changes[n:]
	}
	if !changed {
		return t
	}
	return newInner(children)
}

// applyToLeaf is apply for a leaf, or for no node.
func (t *Tree) applyToLeaf(changes []Change, level int) *Tree {
	var old []Digest
	if t != nil {
		old = t.members
	}
	members, changed := make([]Digest, 0, len(old)+len(changes)), false
	for _, c := range changes {
		n, has := slices.BinarySearchFunc(old, c.Member, Digest.compare)
		members, old = append(members, old[:n]...), old[n:]
		changed = changed || has != c.In
		if has {
			old = old[1:]
		}
		if c.In {
			members = append(members, c.Member)
		}
	}
	if !changed {
		return t
	}
	if members = append(members, old...); len(members) <= leafMembers {
		return newLeaf(members)
	}
	return newNode(members, level)
}
