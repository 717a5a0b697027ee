package relay

import (
	"cmp"
	"slices"
)

// A tombstone stays in a view until every position has passed it. A name that comes back before
// that keeps its item. So a position may be between a removal and the return. Its client was sent
// the removal, or joined after it, and has nothing of that name. If the name is removed again
// before the next answer, that client must not be sent a second removal (DEL-5, DEL-6).

// gap is a span of revisions in which an item was gone: from the removal up to the return,
// exclusive.
type gap struct{ from, to uint64 }

// maxGaps bounds the gaps of one item. The oldest is dropped first. A client that lags that far
// behind may be sent one removal twice.
const maxGaps = 16

// openGap records that a dead item comes back at revision rev.
func (v *view) openGap(it *item, rev uint64) {
	if v.gaps == nil {
		v.gaps = map[*item][]gap{}
	}
	list := v.gaps[it]
	if len(list) == maxGaps {
		list = slices.Delete(list, 0, 1)
	}
	v.gaps[it] = append(list, gap{it.rev, rev})
	v.lastGap = rev
}

// passGaps drops the gaps once every position has passed them.
func (v *view) passGaps(passed uint64) {
	if passed >= v.lastGap {
		v.gaps = nil
	}
}

// hadAt reports whether the item was alive at a revision. If that is the revision of a position,
// its client was sent the item.
func (v *view) hadAt(it *item, rev uint64) bool {
	if it == nil || it.birth > rev || it.dead && it.rev <= rev {
		return false
	}
	return !slices.ContainsFunc(v.gaps[it], func(g gap) bool { return g.from <= rev && rev < g.to })
}

// lastBody is the revision of the last body of a dead item.
func (v *view) lastBody(it *item) uint64 {
	i, _ := slices.BinarySearchFunc(v.tombs, it.rev, func(t tomb, rev uint64) int { return cmp.Compare(t.rev, rev) })
	for ; v.tombs[i].item != it; i++ {
	}
	return v.tombs[i].body
}
