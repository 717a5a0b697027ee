package relay

import (
	"hash/maphash"
	"iter"
)

// members are those of one set, by name. It is a hash table with open addressing: a map takes 54
// bytes for each entry, most of them for the name, which the member has already. This takes about
// 11. There are as many entries as groups times resources (BenchmarkEqualGroups). The zero value is
// empty. Guarded by the shard's lock.
type members struct {
	seed maphash.Seed // a set's own, since members of one set are added to another in this order
	// slots are the members, and tags a part of the hash of each: few others are looked at.
	slots []*member
	tags  []uint8
	n     int
	used  int // slots that are not free: members, and what is left of deleted ones
}

const (
	freeSlot    = 0 // a search ends here
	deletedSlot = 1 // and not here
	leastTag    = 2
	leastSlots  = 8
)

func (x *members) len() int { return x.n }

// expect makes room for n members at once. If it grew step by step they would be moved several
// times under the lock.
func (x *members) expect(n int) {
	if x.n == 0 && n > 0 {
		x.rebuild(n)
	}
}

// get is the member of that name; nil: there is none.
func (x *members) get(name string) *member {
	if x.n == 0 {
		return nil
	}
	if at := slotOf(x, maphash.String(x.seed, name), name); at >= 0 {
		return x.slots[at]
	}
	return nil
}

// getBytes is get for a name that is no string, and does not make one.
func (x *members) getBytes(name []byte) *member {
	if x.n == 0 {
		return nil
	}
	if at := slotOf(x, maphash.Bytes(x.seed, name), name); at >= 0 {
		return x.slots[at]
	}
	return nil
}

// put adds a member. There is none of that name.
func (x *members) put(m *member) {
	if 5*(x.used+1) > 4*len(x.slots) { // fuller, and searches are long
		x.rebuild(x.n + x.n/2 + 1)
	}
	x.add(m)
}

func (x *members) add(m *member) {
	at, tag := x.first(maphash.String(x.seed, m.name))
	for x.tags[at] >= leastTag {
		at = x.after(at)
	}
	if x.tags[at] == freeSlot {
		x.used++
	}
	x.slots[at], x.tags[at] = m, tag
	x.n++
}

// delete takes out the member of that name, if there is one.
func (x *members) delete(name string) {
	if x.n == 0 {
		return
	}
	at := slotOf(x, maphash.String(x.seed, name), name)
	if at < 0 {
		return
	}
	x.slots[at], x.tags[at] = nil, deletedSlot
	if x.n--; x.tags[x.after(at)] == freeSlot { // a search would end there anyway
		x.tags[at] = freeSlot
		x.used--
	}
}

// all gives every member, in no order. Members may be deleted meanwhile. Those that are added may
// be left out.
func (x *members) all() iter.Seq[*member] {
	return func(yield func(*member) bool) {
		slots := x.slots
		for i := range slots {
			if m := slots[i]; m != nil && !yield(m) {
				return
			}
		}
	}
}

// rebuild makes room for n members.
func (x *members) rebuild(n int) {
	if x.slots == nil {
		x.seed = maphash.MakeSeed()
	}
	old, size := x.slots, max(n+n/4+1, leastSlots)
	x.slots, x.tags = make([]*member, size), make([]uint8, size)
	x.n, x.used = 0, 0
	for _, m := range old {
		if m != nil {
			x.add(m)
		}
	}
}

// slotOf is where the member of that name and hash is; -1: there is none.
func slotOf[N string | []byte](x *members, hash uint64, name N) int {
	at, tag := x.first(hash)
	for ; x.tags[at] != freeSlot; at = x.after(at) {
		if x.tags[at] == tag && x.slots[at].name == string(name) {
			return at
		}
	}
	return -1
}

// first is the slot where the search for a hash begins, and its tag.
func (x *members) first(hash uint64) (at int, tag uint8) {
	at = int(hash >> 32 * uint64(len(x.slots)) >> 32)
	return at, max(uint8(hash), leastTag)
}

func (x *members) after(at int) int {
	if at++; at == len(x.slots) {
		return 0
	}
	return at
}
