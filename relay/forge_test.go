package relay

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

var forge = flag.Bool("forge", false, "search the forgeries in testdata/forged anew, which takes a minute")

// forged is how many resources one tenant controls.
const forged = 256

// number128 is a Digest as a number modulo 2^128.
type number128 struct{ hi, lo uint64 }

func asNumber(d xds.Digest) number128 {
	return number128{binary.BigEndian.Uint64(d[:8]), binary.BigEndian.Uint64(d[8:])}
}

func (a number128) plus(b number128) number128 {
	lo, c := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(a.hi, b.hi, c)
	return number128{hi, lo}
}

func (a number128) minus(b number128) number128 {
	lo, c := bits.Sub64(a.lo, b.lo, 0)
	hi, _ := bits.Sub64(a.hi, b.hi, c)
	return number128{hi, lo}
}

// low is the number's lowest n bits without the lowest from.
func (a number128) low(from, n int) uint64 {
	x := a.hi >> max(0, from-64)
	if from < 64 {
		x = a.lo>>from | a.hi<<(64-from)
	}
	return x & (1<<n - 1)
}

// digestAs is the digest of a resource with a body, under a kind of forgery.
type digestAs func(i int, body string) xds.Digest

// asContent is what a version of a set is made of, asState what the ID of a state is made of.
func asContent(i int, body string) xds.Digest {
	r := madeResource(xds.ClusterType, forgedName(i), "v", body)
	return xds.ContentDigest(xds.ClusterType, r.Name, "", nil, r.PayloadType, r.Payload)
}

func asState(i int, body string) xds.Digest {
	key := resourceKey{typeURL: xds.ClusterType, set: xds.Wildcard, name: forgedName(i)}
	return key.digest(asContent(i, body))
}

func forgedName(i int) string { return fmt.Sprintf("n%03d", i) }

// sumAs adds up digests, as versions did before they were trees.
func sumAs(digest digestAs, bodies []string) (sum number128) {
	for i, body := range bodies {
		sum = sum.plus(asNumber(digest(i, body)))
	}
	return sum
}

// TestForgedSets: one who controls 256 resources has found other bodies for them whose digests have
// the same sum. They have another version, so a client is sent them, a client that comes back with
// the version of the former is not in sync, and for the gate they are another state (VER-4).
func TestForgedSets(t *testing.T) {
	before := make([]string, forged)
	for i := range before {
		before[i] = "0"
	}
	for kind, digest := range map[string]digestAs{"content": asContent, "state": asState} {
		t.Run(kind, func(t *testing.T) {
			after := forgery(t, kind, digest)
			if sumAs(digest, before) != sumAs(digest, after) {
				t.Fatal("the sums differ: search the forgery anew, with -forge")
			}
			for client, names := range map[string][]string{"*": {xds.Wildcard}, "names": forgedNames()} {
				judgeForgery(t, client, names, before, after)
			}
		})
	}
}

func judgeForgery(t *testing.T, client string, names, before, after []string) {
	r := newRig(t, Config{})
	s, o := r.sub(xds.ClusterType, false, names...), r.table.Origin("mesh")
	r.open()
	r.apply(forgedUpdate(before))
	r.table.Advance(zero.Add(time.Minute))
	first := s.Take(zero)
	was, _ := o.Capture(r.group.Key())

	r.apply(forgedUpdate(after))
	second := s.Take(zero)
	is, _ := o.Capture(r.group.Key())
	if second == nil || second.Version == first.Version {
		t.Errorf("a client of %s is not sent the change, or under the former version", client)
	}
	back := r.group.Open(NewSubscriber(), SubOptions{TypeURL: xds.ClusterType, Version: first.Version})
	back.Update(zero, names, nil)
	if a := back.Take(zero); a == nil || a.Version == first.Version {
		t.Errorf("a client of %s comes back with the former version, and is sent nothing or that version", client)
	}
	if client == xds.Wildcard && (!is.Differs(o, was) || !was.Differs(o, is)) {
		t.Error("the gate takes the candidate for what the clients have")
	}
	if is.ID(o) == was.ID(o) {
		t.Errorf("both states have the same ID, of %s", client)
	}
}

func forgedNames() (names []string) {
	for i := range forged {
		names = append(names, forgedName(i))
	}
	return names
}

func forgedUpdate(bodies []string) *xds.Update {
	u := &xds.Update{TypeURL: xds.ClusterType}
	for i, body := range bodies {
		u.Resources = append(u.Resources, madeResource(xds.ClusterType, forgedName(i), "v"+body, body))
	}
	return u
}

// forgery reads the bodies that were found, or searches them.
func forgery(t *testing.T, kind string, digest digestAs) []string {
	file := filepath.Join("testdata", "forged", kind)
	if *forge {
		search := forgerySearch{digest: digest}
		text := strings.Join(search.find(t), "\n") + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// forgerySearch is Wagner's search for the generalised birthday problem. Each resource has a list of
// how its digest changes with its body. Lists are joined in pairs: what is kept of two are sums
// whose next bits are 0, until all lists are one and all bits 0.
type forgerySearch struct {
	digest digestAs
}

const (
	forgedBodies = 1 << 15 // tried for each resource, and kept of each join
	forgedBits   = 15      // that are cleared by one join
)

// joinedLists are sums of the resources below, and of what each is made.
type joinedLists struct {
	left, right *joinedLists
	sums        []number128
	of          [][2]int32 // in left and right
}

func (f *forgerySearch) find(t *testing.T) []string {
	all := f.join(0, forged)
	if len(all.of) == 0 {
		t.Fatal("no forgery was found")
	}
	return all.bodies(0)
}

// bodies are those that a sum is made of.
func (l *joinedLists) bodies(i int32) []string {
	if l.left == nil {
		return []string{strconv.Itoa(int(i) + 1)}
	}
	return append(l.left.bodies(l.of[i][0]), l.right.bodies(l.of[i][1])...)
}

// join joins the lists of n resources, whose sums have from bits cleared already.
func (f *forgerySearch) join(first, n int) *joinedLists {
	if n == 1 {
		l, was := &joinedLists{}, asNumber(f.digest(first, "0"))
		for j := range forgedBodies {
			l.sums = append(l.sums, asNumber(f.digest(first, strconv.Itoa(j+1))).minus(was))
		}
		return l
	}
	l := &joinedLists{left: f.join(first, n/2), right: f.join(first+n/2, n/2)}
	l.cross((bits.Len(uint(n))-2)*forgedBits, n == forged)
	return l
}

// cross keeps the pairs whose sum has the next bits cleared too; all of them, if these are the last.
func (l *joinedLists) cross(from int, all bool) {
	const mask = 1 << forgedBits
	byBits := make([][]int32, mask)
	for i, x := range l.right.sums {
		at := x.low(from, forgedBits)
		byBits[at] = append(byBits[at], int32(i))
	}
	for i, x := range l.left.sums {
		for _, j := range byBits[(mask-x.low(from, forgedBits))%mask] {
			sum := x.plus(l.right.sums[j])
			if all && sum != (number128{}) || len(l.of) == forgedBodies {
				continue
			}
			l.sums, l.of = append(l.sums, sum), append(l.of, [2]int32{int32(i), j})
		}
	}
	l.left.sums, l.right.sums = nil, nil
}
