package relay

import "slices"

// A tombstone stays in a view until every position has passed it, and a name that comes back before
// that keeps its item. So a position may stand between a removal and the return: its client was
// told of the removal, or joined after it, and holds nothing of that name. If the name goes again
// before the next answer, that client must not be told of a second removal (DEL-5, DEL-6).

// gap is a span of revisions, from a removal up to the return, without it.
type gap struct{ from, to uint64 }

// maxGaps bounds those of one item. Without the oldest, a client that lags that far may be told of
// one removal twice.
const maxGaps = 16

// openGap notes that an item, which is dead, comes back at revision rev.
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

// passGaps forgets the gaps once every position has passed them.
func (v *view) passGaps(passed uint64) {
	if passed >= v.lastGap {
		v.gaps = nil
	}
}

// hadAt reports whether the item was alive at a revision, which is that of a position: then its
// client was sent it.
func (v *view) hadAt(it *item, rev uint64) bool {
	if it == nil || it.birth > rev || it.dead && it.rev <= rev {
		return false
	}
	return !slices.ContainsFunc(v.gaps[it], func(g gap) bool { return g.from <= rev && rev < g.to })
}
