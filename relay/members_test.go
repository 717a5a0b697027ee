package relay

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestMembers: members and a map that are put, deleted and looked up at random hold the same.
func TestMembers(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 19))
		x, same := members{}, map[string]*member{}
		names := 1 + r.IntN(300)
		if r.IntN(2) == 0 {
			x.expect(r.IntN(300))
		}
		for step := range 5000 {
			name := fmt.Sprint("name-", r.IntN(names))
			switch m := same[name]; {
			case x.get(name) != m || x.getBytes([]byte(name)) != m:
				t.Fatalf("seed %d, step %d: %q is another member than was put", seed, step, name)
			case m == nil && r.IntN(3) > 0:
				same[name] = newMember(name)
				x.put(same[name])
			case m != nil && r.IntN(3) == 0, m == nil:
				x.delete(name)
				delete(same, name)
			}
			if x.len() != len(same) {
				t.Fatalf("seed %d, step %d: %d members, %d were put", seed, step, x.len(), len(same))
			}
		}
		left := x.len()
		for m := range x.all() {
			if same[m.name] != m {
				t.Fatalf("seed %d: %q was given twice, or is none", seed, m.name)
			}
			delete(same, m.name)
			x.delete(m.name)
		}
		if len(same) > 0 || x.len() > 0 || x.get("name-0") != nil {
			t.Errorf("seed %d: of %d members %d were not given, %d are left", seed, left, len(same), x.len())
		}
		if 5*x.used > 4*max(len(x.slots), leastSlots) {
			t.Errorf("seed %d: %d of %d slots are used", seed, x.used, len(x.slots))
		}
	}
}

// TestMembersOfAnotherSet: members that are added in the order in which another set gives them are
// not all looked at for each.
func TestMembersOfAnotherSet(t *testing.T) {
	const n = 20_000
	var x, y members
	x.expect(n)
	for i := range n {
		x.put(newMember(fmt.Sprint(i)))
	}
	for m := range x.all() {
		y.put(m)
	}
	longest, run := 0, 0
	for _, tag := range y.tags {
		if run++; tag == freeSlot {
			run = 0
		}
		longest = max(longest, run)
	}
	if longest > 2000 {
		t.Errorf("%d slots in a row are not free, of %d", longest, len(y.slots))
	}
}
