package snapshot

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// TestOldSets: a file of a build that knew sums of marks alone is read as it was, also with a member
// missing, and is written with digests.
func TestOldSets(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "old", "sums"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(File(dir), data, fileMode); err != nil {
		t.Fatal(err)
	}
	if sums, digests := setsOf(t, dir); sums != 1 || digests != 0 {
		t.Fatalf("the file has %d sets with sums and %d with digests", sums, digests)
	}
	w := newWorld(t, dir)
	if r := w.load(); r.Lost > 0 || r.Damaged || r.Resources != 40 || !strings.Contains(w.text(), "* settled=true") {
		t.Errorf("restored %+v", r)
	}
	w.want(clusters, xds.Wildcard)
	w.apply(clusters, map[string]string{"c7": "another"})
	w.save()
	if sums, digests := setsOf(t, dir); sums != 1 || digests != 1 {
		t.Errorf("then the file has %d sets with sums and %d with digests", sums, digests)
	}
	if restoredText(t, dir) != w.text() {
		t.Error("what was written is not what there is")
	}
}

// setsOf counts the sets of a file by what they have of the members.
func setsOf(t *testing.T, dir string) (sums, digests int) {
	t.Helper()
	c, err := Read(File(dir), nil)
	if err != nil || c.Check() != nil {
		t.Fatal(err, c.Check())
	}
	for _, s := range c.shards {
		_, sets, err := readShard(s.head.meta)
		if err != nil {
			t.Fatal(err)
		}
		for i := range sets {
			if sets[i].sum != (sum{}) {
				sums++
			}
			if sets[i].digest != (xds.SetDigest{}) {
				digests++
			}
		}
	}
	return sums, digests
}

// keptOf is a set as it was written with members of these marks, read from its encoded form.
func keptOf(t *testing.T, digest bool, marks ...xds.Digest) *keptSet {
	t.Helper()
	y := setSummary{SetImage: relay.SetImage{Selector: "*"}, members: uint64(len(marks))}
	for _, m := range marks {
		y.sum.add(m)
	}
	if digest {
		y.digest = xds.SetOf(append([]xds.Digest(nil), marks...))
	}
	var read setSummary
	if err := decode(encode(y.fields), read.fields); err != nil {
		t.Fatal(err)
	}
	return &keptSet{setSummary: read}
}

// TestSetsAreWhole: a set is whole if all its members are found, and no others. Others that have the
// same sum do not stand for them, unless the file is an old one, which has nothing better.
func TestSetsAreWhole(t *testing.T) {
	a, b := xds.Digest{0: 1, 8: 7}, xds.Digest{0: 2, 8: 9}
	c, d := xds.Digest{0: 1, 8: 9}, xds.Digest{0: 2, 8: 7} // of the same sum as a and b
	for _, digest := range []bool{true, false} {
		for i, row := range []struct {
			found []xds.Digest
			want  bool
		}{
			{[]xds.Digest{a, b}, true},
			{[]xds.Digest{b, a}, true},
			{[]xds.Digest{a}, false},
			{[]xds.Digest{a, a}, false},
			{[]xds.Digest{a, c}, false},
			{[]xds.Digest{a, b, c}, false},
			{nil, false},
			{[]xds.Digest{c, d}, !digest},
		} {
			y := keptOf(t, digest, a, b)
			y.marks = row.found
			if y.isWhole() != row.want {
				t.Errorf("digest %v, row %d: whole is %v", digest, i, !row.want)
			}
		}
		if empty := keptOf(t, digest); !empty.isWhole() {
			t.Errorf("digest %v: an empty set is not whole", digest)
		}
	}
}

// TestSetsLose: a set that was whole is whole without what is taken from it, and one that lacked
// something still does.
func TestSetsLose(t *testing.T) {
	var marks []xds.Digest
	for range 50 {
		var m xds.Digest
		_, _ = rand.Read(m[:]) // never fails
		marks = append(marks, m)
	}
	lost := map[xds.Digest]bool{marks[0]: true, marks[1]: true}
	for _, digest := range []bool{true, false} {
		for _, lacks := range []int{0, 1} {
			had := keptOf(t, digest, marks...)
			had.marks = append(had.marks, marks[:len(marks)-lacks]...)
			y := had.setSummary
			y.lose(had, lost)
			left := &keptSet{setSummary: y, marks: append([]xds.Digest(nil), marks[2:len(marks)-lacks]...)}
			if got := fmt.Sprint(left.isWhole(), y.members, y.Settled); got != fmt.Sprint(lacks == 0, 48, false) {
				t.Errorf("digest %v, %d lacking: %s", digest, lacks, got)
			}
		}
	}
}
