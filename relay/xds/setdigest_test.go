package xds

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// digestNumber is a Digest as random as that of a resource.
func digestNumber(i int) Digest {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))
	return Digest(sum[:len(Digest{})])
}

func digestNumbers(n int) []Digest {
	all := make([]Digest, n)
	for i := range all {
		all[i] = digestNumber(i)
	}
	return all
}

// TestGoldenSets: versions of sets are pure functions of content, for ever (VER-4, RELAY-56).
func TestGoldenSets(t *testing.T) {
	for n, want := range map[int]string{
		0: "w2AAAAAAAAAAAAAAAAAAAAAA", 1: "w28fUYTQR4x1AeEcfOmMTIWg", 32: "w278_FYZ_K_jvy3Rui-bFedg", 33: "w2mJOoN0QmMuE4QE3vvMOuZA", 1000: "w2Hhtv3ip13KgevBIswlzmuQ",
		100_000: "w2sFddn23tbkPFx6MhXFW_9w",
	} {
		if got := SetOf(digestNumbers(n)).Version(); got != want {
			t.Errorf("version %s of the first %d, want %s", got, n, want)
		}
	}
	if SetOf(nil).Shown() != "" || SetOf(digestNumbers(1)).Shown() == "" {
		t.Error("the version of the empty set is shown, or that of another is not")
	}
	two := digestNumber(1).String()
	for _, bad := range []string{
		"", "w1", "v1" + two[2:], "w2" + two[2:], two + "A", "w1AAAAAAAAAAAAAAAAAAAAAB", "w1AAAAAAAAAAAAAAAAAAAA==", SetOf(digestNumbers(2)).Version(),
	} {
		if _, ok := ParseVersion(bad); ok {
			t.Errorf("%q reads as a version of a resource", bad)
		}
	}
}

// TestSetsDiffer: sets whose digests have the same sum, and sets that differ in where their members
// are, have other digests. A member that comes twice counts once.
func TestSetsDiffer(t *testing.T) {
	a, b := Digest{0: 1, 15: 7}, Digest{0: 2, 15: 9}
	c, d := Digest{0: 1, 15: 9}, Digest{0: 2, 15: 7} // a+b = c+d, in each byte
	whole, half := digestNumbers(2*leafMembers), digestNumbers(leafMembers)
	sets := [][]Digest{nil, {a}, {b}, {a, b}, {c, d}, {a, b, c, d}, half, whole, whole[leafMembers:], append(whole[:10:10], whole[11:]...)}
	seen := map[SetDigest]int{}
	for i, set := range sets {
		is := SetOf(slices.Clone(set))
		if other, known := seen[is]; known {
			t.Errorf("sets %d and %d have the same digest", other, i)
		}
		if seen[is] = i; SetOf(append(slices.Clone(set), set...)) != is {
			t.Errorf("set %d: a member counts twice", i)
		}
	}
	if SetOf([]Digest{a}) == SetDigest(a) {
		t.Error("a set is its only member")
	}
}

// TestJoinedSets: sets side by side are told from their union, from one of them and from others, in
// any order.
func TestJoinedSets(t *testing.T) {
	all := digestNumbers(100)
	a, b, c := SetOf(all[:10:10]), SetOf(all[10:60:60]), SetOf(all[60:])
	join := func(sets ...SetDigest) SetDigest { return JoinSets(sets) }
	is := join(a, b, c)
	if join(c, SetDigest{}, a, b) != is || join(SetDigest{}, a) != a || join() != (SetDigest{}) {
		t.Error("the order counts, or the empty set does")
	}
	for i, other := range []SetDigest{SetOf(all), a, join(a, b), join(a, b, b), join(a, b, c, c), join(join(a, b), c)} {
		if other == is {
			t.Errorf("other sets have the same digest: %d", i)
		}
	}
}

// treeModel is a set, and what has its digest by other ways.
type treeModel struct {
	members map[Digest]bool
	tree    *Tree
	tracked TrackedSet
	pending []Change
}

func (m *treeModel) change(d Digest, in bool) {
	if in {
		m.members[d] = true
		m.tracked.Add(d)
	} else {
		delete(m.members, d)
		m.tracked.Remove(d)
	}
	m.pending = append(m.pending, Change{Member: d, In: in})
}

func (m *treeModel) list() []Digest {
	all := make([]Digest, 0, len(m.members))
	for d := range m.members { // in random order
		all = append(all, d)
	}
	return all
}

// check applies what is pending, and returns what is wrong; "": nothing.
func (m *treeModel) check() string {
	m.tree, m.pending = m.tree.Apply(m.pending), nil
	want := SetOf(m.list())
	switch tracked := m.tracked.Tree(m.list); {
	case m.tree.Digest() != want:
		return "the tree differs from the list"
	case tracked.Digest() != want:
		return "what was tracked differs from the list"
	case NewTree(m.list()).Digest() != want:
		return "a new tree differs from the list"
	case m.tree.Len() != len(m.members) || tracked.Len() != len(m.members):
		return fmt.Sprintf("%d and %d members are counted, of %d", m.tree.Len(), tracked.Len(), len(m.members))
	}
	return m.tree.wrong(0)
}

// wrong returns what is wrong with the shape; "": nothing.
func (t *Tree) wrong(level int) string {
	switch {
	case t == nil:
	case t.count == 0, t.children == nil && (len(t.members) != int(t.count) || t.count > leafMembers):
		return fmt.Sprintf("a leaf of %d of %d members", len(t.members), t.count)
	case t.children != nil && (t.count <= leafMembers || len(t.members) > 0 || level*branchBits >= 8*len(Digest{})):
		return fmt.Sprintf("an inner node of %d members at level %d", t.count, level)
	case t.children != nil:
		for _, c := range t.children {
			if w := c.wrong(level + 1); w != "" {
				return w
			}
		}
	}
	return ""
}

// TestTrees: a set has one digest, by whatever changes it came about, many at once or one by one. An
// older tree stays what it was.
func TestTrees(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{3, leafMembers, 200, 5000} {
		m := treeModel{members: map[Digest]bool{}}
		for range 300 {
			many := 1 + rnd.IntN(1+rnd.IntN(size))
			in := rnd.IntN(2) == 0
			for range many {
				d := digestNumber(rnd.IntN(size))
				if rnd.IntN(8) == 0 {
					in = !in
				}
				m.change(d, in)
			}
			old := m.tree
			was, listed := old.Digest(), SetOf(old.appendTo(nil))
			if wrong := m.check(); wrong != "" {
				t.Fatalf("of %d: %s", size, wrong)
			}
			if old.Digest() != was || SetOf(old.appendTo(nil)) != listed || was != listed {
				t.Fatal("a change has changed an older tree")
			}
		}
	}
}

// TestGroundDigests: one who grinds digests until they begin alike gets a deep path, of no more
// nodes than a digest has bits for, and nobody else's change costs more.
func TestGroundDigests(t *testing.T) {
	m := treeModel{members: map[Digest]bool{}}
	for i := range 10_000 {
		d := digestNumber(i)
		if i%2 == 0 { // not possible: all but the last 24 bits are alike
			d = Digest{13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)}
		}
		m.change(d, true)
	}
	if wrong := m.check(); wrong != "" {
		t.Fatal(wrong)
	}
	nodes, deepest := m.tree.nodes(0)
	if deepest > 8*len(Digest{})/branchBits || nodes > 10_000/4 {
		t.Errorf("%d nodes, the deepest at %d", nodes, deepest)
	}
	for d := range m.members {
		if m.change(d, false); len(m.members)%1000 == 0 {
			if wrong := m.check(); wrong != "" {
				t.Fatal(wrong)
			}
		}
	}
}

func (t *Tree) nodes(level int) (n, deepest int) {
	if t == nil {
		return 0, level - 1
	}
	n, deepest = 1, level
	if t.children == nil {
		return n, deepest
	}
	for _, c := range t.children {
		below, deep := c.nodes(level + 1)
		n, deepest = n+below, max(deepest, deep)
	}
	return n, deepest
}

// FuzzTree makes changes of a set of digests that begin alike, as the input says.
func FuzzTree(f *testing.F) {
	f.Add([]byte("\x01\x02\x03\xff\x81\x82\x83"))
	f.Add(slices.Repeat([]byte{1, 77, 200, 13, 9, 255, 3}, 100))
	f.Fuzz(func(t *testing.T, script []byte) {
		m := treeModel{members: map[Digest]bool{}}
		for i := 0; i+2 < len(script); i += 3 {
			d := Digest{0: script[i+1] & 0xf0, 7: script[i+1], 15: script[i+2]}
			if m.change(d, script[i]&1 == 0); script[i] >= 0xf0 {
				if wrong := m.check(); wrong != "" {
					t.Fatal(wrong)
				}
			}
		}
		if wrong := m.check(); wrong != "" {
			t.Fatal(wrong)
		}
	})
}

// BenchmarkTree is a change of a set and its new digest, and the first digest of a set.
func BenchmarkTree(b *testing.B) {
	for _, size := range []int{10, 1000, 100_000} {
		all := digestNumbers(size + 1)
		b.Run(fmt.Sprintf("change/members=%d", size), func(b *testing.B) {
			tree := NewTree(slices.Clone(all[:size]))
			b.ReportAllocs()
			for i := range b.N {
				at := i % (size + 1) // it is the one that is not in the set
				tree = tree.Apply([]Change{{Member: all[(at+1)%(size+1)]}, {Member: all[at], In: true}})
				if i == 0 {
					tree = tree.Apply([]Change{{Member: all[size], In: true}, {Member: all[1%size]}})
				}
			}
		})
		b.Run(fmt.Sprintf("first/members=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				NewTree(slices.Clone(all))
			}
		})
		b.Run(fmt.Sprintf("list/members=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				SetOf(slices.Clone(all))
			}
		})
	}
}
