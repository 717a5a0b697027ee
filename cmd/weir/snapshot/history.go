package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// How the history of a page is written: a head, and the changes in parts. What was written of it
// stays, and a write appends the changes since.

// Fields of parts of a history, and of a change.
const (
	partChange     = 1  // of a part's body; repeated, the oldest first
	changeBody     = 10 // of what was held before; missing: it is not kept
	changeStripped = 13 // the body was kept, and is not written
)

// maxRevision bounds the revisions of a file, so that they do not overflow, and are numbers to all
// who read them.
const maxRevision = 1 << 53

// historyPart is how many bytes of changes a part has, or a little more.
const historyPart = 256 << 10

// revisionRecord says how far the table had come.
func revisionRecord(revision uint64) record {
	return record{class: classHistory, meta: encode(func(c *coder) { c.number(1, &revision) })}
}

// historyHead is the head of the history of a page.
type historyHead struct {
	floor   uint64 // nothing before this revision is known
	parts   uint64 // how many there are
	floorAt time.Time
}

func (h *historyHead) fields(c *coder) {
	c.number(1, &h.floor)
	c.number(2, &h.parts)
	c.time(3, &h.floorAt) // missing: it is not known when the floor was
}

// headRecord is the record of the head of the history of a page.
func headRecord(page string, floor history.Edge, parts int) record {
	h := historyHead{floor.Revision, uint64(parts), floor.At()}
	return record{class: classHistory, key: page, meta: encode(h.fields)}
}

// partRecord is the record of a part of it.
func partRecord(page string, number int, body []byte) record {
	return record{class: classHistory, key: string(binary.BigEndian.AppendUint64([]byte(page), uint64(number))), body: body}
}

// partSize is the length of the key of a part.
const partSize = shardKeySize + 8

// appendChange appends a change to the body of a part. withheld: its body is not written.
func appendChange(b []byte, n *history.Noted, withheld bool, now, wall time.Time) []byte {
	x := keptChange{Noted: *n, lost: n.Lost.Revision, lostAt: n.Lost.At(), stripped: withheld}
	if n.Was != nil && n.Was.Body != nil && !withheld {
		image := n.Was.Body.Image(now, wall)
		x.body, x.response = &image, n.Was.Body.From.Version
	}
	return appendBytes(b, partChange, encode(x.fields))
}

// keptChange is a change as it is written and read.
type keptChange struct {
	history.Noted
	response string // the version of the response of the body
	body     *xds.BodyImage
	lost     uint64
	lostAt   time.Time
	stripped bool // it was not written
}

func (x *keptChange) fields(c *coder) {
	c.text(1, &x.Set)
	c.text(2, &x.Name)
	c.number(3, &x.Revision)
	c.time(4, &x.At)
	c.byte(5, (*uint8)(&x.Kind))
	c.number(6, &x.Since)
	c.number(7, &x.lost)
	c.time(12, &x.lostAt)
	c.bool(11, &x.First)
	c.bool(changeStripped, &x.stripped)
	c.array(8, x.Is[:])
	if c.is(9) {
		x.Was = &history.Version{}
	}
	if x.Was != nil {
		c.message(9, x.version) // what was held before; missing: nothing
	}
	if x.hasBody(c, changeBody) {
		c.bytes(changeBody, &x.body.Resource)
	}
}

// hasBody reports whether there is a body, or a field of one was read.
func (x *keptChange) hasBody(c *coder, numbers ...protowire.Number) bool {
	if x.body == nil && slices.ContainsFunc(numbers, c.is) {
		x.body = &xds.BodyImage{}
	}
	return x.body != nil
}

// version is what is known of what was held before besides its body. What the body says as well is
// written without it alone.
func (x *keptChange) version(c *coder) {
	w := x.Was
	c.byte(7, &w.Server)
	c.time(9, &w.Received)
	c.bool(5, &w.Fallback)
	c.text(6, &w.Source)
	if c.reads || x.body == nil {
		c.array(1, w.Digest[:])
		c.text(2, &w.Name)
		c.text(3, &w.Origin) // the origin's version
		c.bool(4, &w.Shown)
		c.count(8, &w.Bytes)
	}
	if c.reads || x.body != nil {
		c.text(10, &x.response)
	}
	if x.hasBody(c, 11, 12) {
		c.time(11, &x.body.Expires)
		c.duration(12, &x.body.Left)
	}
}

// readPart returns the changes of a part.
func readPart(b []byte) (all []keptChange, err error) {
	err = decode(b, func(c *coder) {
		if !c.is(partChange) {
			return
		}
		if len(all) == maxSaid {
			c.err = tooMany(maxSaid, "changes")
			return
		}
		all = append(all, keptChange{})
		all[len(all)-1].read(c)
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// read reads the change that a field has.
func (x *keptChange) read(c *coder) {
	if c.read(c.field.bytes, x.fields); c.err != nil {
		return
	}
	if x.body != nil && (x.Was == nil || len(x.body.Resource) == 0) {
		x.body = nil // what is known of it is in Was alone
	}
	if x.Lost = history.EdgeAt(x.lost, x.lostAt); x.stripped {
		x.Lose()
	}
}

// historyRecords are the records of the history of one page.
type historyRecords struct {
	head  record // class 0: it was not found
	parts map[string]record
}

var errNoHead = errors.New("its head was not found")

// changes returns what is there, the oldest first. It has to be all of it.
func (h *historyRecords) changes(page string) (floor history.Edge, all []keptChange, err error) {
	if h.head.class != classHistory {
		return floor, nil, errNoHead
	}
	var head historyHead
	if err := decode(h.head.meta, head.fields); err != nil {
		return floor, nil, err
	}
	floor = history.EdgeAt(head.floor, head.floorAt)
	if uint64(len(h.parts)) != head.parts {
		return floor, nil, fmt.Errorf("it has %d parts, and %d are there", head.parts, len(h.parts))
	}
	for n := range int(head.parts) {
		r := partRecord(page, n, nil)
		part, is := h.parts[r.key]
		if !is {
			return floor, nil, fmt.Errorf("part %d of %d is not there", n, head.parts)
		}
		some, err := readPart(part.body)
		if err != nil {
			return floor, nil, fmt.Errorf("part %d of %d: %w", n, head.parts, err)
		}
		all = append(all, some...)
	}
	return floor, all, nil
}

// Of each group it is kept, with its history, which of its states were seen good.

// keptMarks are the marks of a group.
type keptMarks struct {
	id  groupID
	all []history.Mark
}

func (m *keptMarks) fields(c *coder) {
	c.text(1, &m.id.origin)
	c.text(2, &m.id.key)
	list(c, 3, &m.all, maxSaid, "marks", func(m *history.Mark, c *coder) {
		c.number(1, &m.Revision)
		c.time(2, &m.At)
	})
}

// unsavedMarks yields the marks of the groups that a file lacks; with whole, those of all.
func (b *book) unsavedMarks(whole bool, yield func(record) bool) {
	for _, g := range b.groups {
		if !g.in || !g.historyIn || len(g.marks) == 0 && len(g.savedMarks) == 0 || !whole && !g.hasUnsavedMarks() {
			continue
		}
		m := keptMarks{g.id, g.marks}
		if !yield(record{class: classMarks, key: m.id.origin + "\x00" + m.id.key, meta: encode(m.fields)}) {
			return
		}
	}
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
		var marks keptMarks
		if err := decode(x.meta, marks.fields); err != nil || !r.remembered[marks.id] {
			continue
		}
		for _, m := range marks.all {
			if m.Revision <= r.newest {
				r.table.History().Mark(marks.id.origin, marks.id.key, m, 0)
			}
		}
	}
}
