package snapshot

import (
	"slices"

	"github.com/weir-xds/weir/relay/history"
)

// Of each group it is kept, with its history, which of its states were seen good.

// Fields of classMarks.
const (
	marksOrigin = 1
	marksGroup  = 2
	marksMark   = 3 // repeated

	markRevision = 1
	markAt       = 2
)

// marksRecord is the record of the marks of a group.
func marksRecord(id groupID, marks []history.Mark) record {
	b := appendText(appendText(nil, marksOrigin, id.origin), marksGroup, id.key)
	for _, m := range marks {
		b = appendBytes(b, marksMark, appendTime(appendNumber(nil, markRevision, m.Revision), markAt, m.At))
	}
	return record{class: classMarks, key: id.origin + "\x00" + id.key, meta: b}
}

func readMarks(meta []byte) (id groupID, marks []history.Mark, err error) {
	for f, err := range fields(meta) {
		if err != nil {
			return id, nil, err
		}
		switch f.number {
		case marksOrigin:
			id.origin = f.text()
		case marksGroup:
			id.key = f.text()
		case marksMark:
			m, err := readMark(f.bytes)
			if err != nil {
				return id, nil, err
			}
			if marks = append(marks, m); len(marks) > maxSaid {
				return id, nil, tooMany(maxSaid, "marks")
			}
		}
	}
	return id, marks, nil
}

func readMark(b []byte) (m history.Mark, err error) {
	for f, err := range fields(b) {
		if err != nil {
			return m, err
		}
		switch f.number {
		case markRevision:
			m.Revision = f.n
		case markAt:
			m.At = f.time()
		}
	}
	return m, nil
}

// unsavedMarks yields the marks of the groups that a file lacks; with whole, those of all.
func (b *book) unsavedMarks(whole bool, yield func(record) bool) bool {
	for _, g := range b.groups {
		if !g.in || !g.historyIn || len(g.marks) == 0 && len(g.savedMarks) == 0 || !whole && !g.hasUnsavedMarks() {
			continue
		}
		if !yield(marksRecord(g.id, g.marks)) {
			return false
		}
	}
	return true
}

func (g *group) hasUnsavedMarks() bool {
	return g.in && g.historyIn && !slices.Equal(g.marks, g.savedMarks)
}

// lookAtMarks takes over which states were seen good.
func (b *book) lookAtMarks() {
	for id, g := range b.groups {
		if g.marks = nil; b.revision > 0 {
			g.marks = b.past.Marks(id.origin, id.key)
		}
	}
}

// restoreMarks puts back the marks of the groups whose history was restored.
func (r *restoration) restoreMarks() {
	if r.newest == 0 {
		return
	}
	for _, x := range r.content.marks {
		id, marks, err := readMarks(x.meta)
		if err != nil || !r.remembered[id] {
			continue
		}
		for _, m := range marks {
			if m.Revision <= r.newest {
				r.table.History().Mark(id.origin, id.key, m, 0)
			}
		}
	}
}
