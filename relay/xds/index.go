package xds

import "hash/maphash"

// index finds the resources of a response by identity. A map of strings would cost more than
// everything else that is done with an unchanged resource.
type index struct {
	seed maphash.Seed
	// A hash table with linear probing; 0: free. At most half of the slots are taken.
	slots []int32
}

func newIndex(n int) index {
	size := 8
	for size < 2*n {
		size *= 2
	}
	return index{maphash.MakeSeed(), make([]int32, size)}
}

// at returns the slot of an identity: with its number, or free. of returns the identity of a
// number.
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
