package state

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weir-xds/weir/relay/xds"
)

// checkSet checks what holds for the nodes of every set.
func checkSet(t *testing.T, s Set) {
	t.Helper()
	var names []string
	for e := range s.All() {
		names = append(names, e.Name())
		if s.Get(e.Name()) != e {
			t.Fatalf("%s is not found where it is", e.Name())
		}
	}
	if len(names) != s.Len() {
		t.Fatalf("%d names, want %d", len(names), s.Len())
	}
	checkNode(t, s.root, 0, 0)
}

func checkNode(t *testing.T, n *node, depth int, prefix uint64) (count int, size int64) {
	t.Helper()
	if n == nil {
		return 0, 0
	}
	if n.kids == nil {
		last := uint64(0)
		for _, e := range n.items {
			hash := hashOf(e.Name())
			if hash < last || hash != e.hash || depth > 0 && hash>>(64-fanBits*depth) != prefix {
				t.Fatalf("%s is in the wrong place", e.Name())
			}
			last = hash
			more, _ := e.size()
			size += more
		}
		count = len(n.items)
	} else {
		for i, k := range n.kids.at {
			c, s := checkNode(t, k, depth+1, prefix<<fanBits|uint64(i))
			count, size = count+c, size+s
		}
	}
	if count == 0 || count != int(n.count) || size != n.bytes || depth < deepest && isInner(count, size) != (n.kids != nil) {
		t.Fatalf("a node at level %d has %d entries and %d bytes, and says %d and %d", depth, count, size, n.count, n.bytes)
	}
	return count, size
}

// TestEqualSetsAreOne: equal content is the same nodes, by 10,000 random ways there.
func TestEqualSetsAreOne(t *testing.T) {
	ways := 10_000
	if testing.Short() {
		ways = 500
	}
	rnd := rng(7)
	for _, n := range []int{1, 30, 64, 65, 300, 3000} {
		all := bodies(n, "0")
		one := setOf(all...)
		checkSet(t, one)
		for range max(1, ways*14/(30+n)) {
			var two Set
			for part := range slices.Chunk(shuffled(rnd, all), 1+rnd.IntN(n)) {
				two = two.With(part...)
			}
			more := make([]Edit, rnd.IntN(100))
			less := make([]Edit, len(more))
			for i := range more {
				more[i] = say(cds, fmt.Sprint("n", i*2), fmt.Sprint("else", i))
				less[i].Name = more[i].Name
				if i*2 < n {
					less[i] = all[i*2]
				}
			}
			two = two.With(more...).With(less...)
			if two != one || two.Sum() != one.Sum() {
				t.Fatalf("%d: equal sets are two trees", n)
			}
		}
	}
}

func shuffled[T any](rnd interface{ Shuffle(int, func(int, int)) }, all []T) []T {
	all = slices.Clone(all)
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// TestSetDiff: the difference is what differs, whatever the sizes.
func TestSetDiff(t *testing.T) {
	rnd := rng(3)
	for range 300 {
		content := func() map[string]string {
			m := map[string]string{}
			for range rnd.IntN([]int{5, 100, 1000}[rnd.IntN(3)]) {
				m[fmt.Sprint("n", rnd.IntN(1000))] = fmt.Sprint("b", rnd.IntN(2))
			}
			return m
		}
		set := func(m map[string]string) Set {
			var edits []Edit
			for name, word := range m {
				edits = append(edits, say(cds, name, word))
			}
			return setOf(edits...)
		}
		a, b := content(), content()
		if rnd.IntN(2) == 0 {
			b = maps.Clone(a)
			b["n1"] = "new"
		}
		want := map[string]string{}
		for name, word := range a {
			if b[name] != word {
				want[name] = word + ">" + b[name]
			}
		}
		for name, word := range b {
			if a[name] != word {
				want[name] = a[name] + ">" + word
			}
		}
		got := map[string]string{}
		for was, is := range Diff(set(a), set(b)) {
			got[cmpName(was, is)] = payloadOf(was) + ">" + payloadOf(is)
		}
		if !maps.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		for range Diff(set(a), set(b)) {
			break // it may be ended
		}
	}
}

func cmpName(was, is Entry) string {
	if was.Known() {
		return was.Name()
	}
	return is.Name()
}

func payloadOf(e Entry) string {
	if e.Body() == nil {
		return ""
	}
	_, payload, _ := xds.AnyParts(e.Body().Any())
	return string(payload)
}

// TestPieces: the pieces are the bodies, whatever has more than one or none among them.
func TestPieces(t *testing.T) {
	s := setOf(append(bodies(500, "x"), gone("absent"), say(cds, "large", strings.Repeat("y", 70<<10)),
		Edit{"two", NewEntry(Facts{Name: "two", Bodies: []*xds.Variant{located("two", "a", "a"), located("two", "b", "")}})})...)
	checkSet(t, s)
	for f, form := range map[Form]func(*xds.Variant) []byte{Delta: (*xds.Variant).Delta, SotW: (*xds.Variant).SotW} {
		var want []byte
		for e := range s.All() {
			for _, v := range e.Facts().Bodies {
				want = append(want, form(v)...)
			}
		}
		if got := bytes.Join(s.Pieces(nil, f), nil); !bytes.Equal(got, want) {
			t.Errorf("form %d: %d bytes, want %d", f, len(got), len(want))
		}
		again := s.With(say(cds, "n7", "z")).Pieces(nil, f)
		same := 0
		for i, p := range s.Pieces(nil, f) {
			if &again[i][0] == &p[0] {
				same++
			}
		}
		if same != len(again)-1 {
			t.Errorf("%d of %d pieces are shared after one change", same, len(again))
		}
	}
}

// TestMerelyDeep: names whose hashes are equal, which nobody can choose, are found all the same.
func TestMerelyDeep(t *testing.T) {
	var edits []edit
	for i := range 3 * mostEntries {
		edits = append(edits, edit{7, say(cds, fmt.Sprintf("n%03d", i), strings.Repeat("x", 1000))})
	}
	n := (*node)(nil).with(edits, 0)
	depth := 0
	for ; n.kids != nil; n = n.kids.at[slot(7, depth-1)] {
		depth++
	}
	if depth != deepest || len(n.items) != len(edits) {
		t.Fatalf("%d entries at level %d", len(n.items), depth)
	}
	for i := range edits {
		if n.items[i].compare(7, edits[i].Name) != 0 {
			t.Errorf("%s is not where it is looked for", edits[i].Name)
		}
	}
}

// FuzzWith: whatever is done to a set, it has what a map has, and the nodes of a set that is made at
// once.
func FuzzWith(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6}, uint16(3))
	f.Add(bytes.Repeat([]byte{9, 200, 17, 3}, 100), uint16(400))
	f.Fuzz(func(t *testing.T, data []byte, names uint16) {
		want := map[string]string{}
		var s Set
		for data = data[:min(len(data), 400)]; len(data) > 1; {
			n := min(int(data[0])/2+1, len(data)-1)
			edits := map[string]Edit{}
			for i, b := range data[1 : n+1] {
				name := fmt.Sprint((int(b)*31 + i) % (int(names) + 1))
				switch word := fmt.Sprint(b % 5); word {
				case "0":
					edits[name] = Edit{Name: name}
					delete(want, name)
				case "1":
					edits[name], want[name] = gone(name), ""
				case "2":
					if b < 25 {
						word = strings.Repeat("y", 40<<10)
					}
					fallthrough
				default:
					edits[name], want[name] = say(cds, name, word), word
				}
			}
			s = s.With(slices.Collect(maps.Values(edits))...)
			data = data[n+1:]
		}
		got := map[string]string{}
		var again []Edit
		for e := range s.All() {
			got[e.Name()] = payloadOf(e)
			again = append(again, Edit{e.Name(), e})
		}
		if !maps.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		checkSet(t, s)
		if setOf(again...) != s {
			t.Fatal("equal sets are two trees")
		}
	})
}
