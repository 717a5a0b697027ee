package xds

import "hash/maphash"

// index finds what a response lists by what tells its resources apart. A map of strings would cost
// more than all else that is done with a resource that has not changed.
type index struct {
	seed maphash.Seed
	// hashed, with the next free slot after a collision; 0: free. At most half of them are taken.
	slots []int32
}

func newIndex(n int) index {
	size := 8
	for size < 2*n {
		size *= 2
	}
	return index{maphash.MakeSeed(), make([]int32, size)}
}

// at is the slot of an identity: with the number it was put in by, or free. of gives what a number
// was put in for.
func (x *index) at(id Identity, of func(int32) Identity) *int32 {
	h := maphash.String(x.seed, id.Name)
	if id.Constraints != "" {
		h ^= maphash.String(x.seed, id.Constraints) << 1
	}
	for mask := uint64(len(x.slots) - 1); ; h++ {
		if slot := &x.slots[h&mask]; *slot == 0 || of(*slot) == id {
			return slot
		}
	}
}
