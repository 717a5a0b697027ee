package snapshot

import (
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/history"
)

// What is written of the history. The book has no copy of it: changes are read from the table's log
// as they are written, and the book only knows how far the file has come.

// pageHistory is the history of a page.
type pageHistory struct {
	of     history.Place
	params string // canonical
	// noted is the number of the last change that is in the page's content already; 0: there is no
	// history. What is newer is not written before that content is, so that the two fit.
	noted uint64

	// What was looked at so far: up to which change, how many these were, and their bytes as they
	// are written, about. withheld are those that may not be written with their bodies.
	seen     uint64
	n        int
	bytes    int64
	withheld map[uint64]bool

	// What the file has: changes up to one, in so many parts.
	saved uint64
	parts int
	// unsaved: it lacks something.
	unsaved bool
	// wrote is what a write that succeeds leaves there; nil: the last one had nothing of it.
	wrote *writtenHistory
}

type writtenHistory struct {
	saved    uint64
	parts    int
	whole    bool // all was written, as follows
	n        int
	bytes    int64
	withheld map[uint64]bool
}

// lookAtHistory takes over what was noted. It comes after the look at the content.
func (b *book) lookAtHistory(t *relay.Table) {
	b.past = t.History()
	if b.revision = 0; b.past.On() {
		b.revision = t.Revision()
	}
	for _, p := range b.pages {
		h := &p.history
		if b.revision == 0 {
			b.forgetHistory(p)
			h.noted, h.seen, h.n, h.bytes, h.withheld = 0, 0, 0, 0, nil
			continue
		}
		for n := range b.past.Noted(h.of, h.params, h.seen, h.noted) {
			b.lookAtChange(h, &n)
		}
		h.seen = h.noted
	}
	b.lookAtMarks()
}

// aboutChange is how many bytes a change takes besides names and body, about.
const aboutChange = 96

func (b *book) lookAtChange(h *pageHistory, n *history.Noted) {
	h.unsaved = true
	h.n++
	h.bytes += int64(aboutChange + len(n.Set) + len(n.Name))
	if n.Was == nil || n.Was.Body == nil {
		return
	}
	if b.holds(n.Was.Body) {
		if h.withheld == nil {
			h.withheld = map[uint64]bool{}
		}
		h.withheld[n.Seq] = true
		return
	}
	h.bytes += int64(n.Was.Body.Size())
}

// size is how many bytes a complete file has of it, about.
func (h *pageHistory) size(log *history.Log) int64 {
	if h.noted == 0 {
		return 0
	}
	size := int64(headSize + shardKeySize + 16)
	if h.n > 0 {
		_, kept := log.FloorOf(h.of)
		size += h.bytes / int64(h.n) * int64(min(kept, h.n))
	}
	return size
}

// forgetHistory has the history of a page removed from the file.
func (b *book) forgetHistory(p *page) {
	if h := &p.history; h.saved > 0 {
		b.goneHistory[p.key] = true
		h.saved, h.parts, h.unsaved, h.wrote = 0, 0, false, nil
	}
}

func (b *book) forgetHistories(g *group) {
	for _, p := range g.pages {
		b.forgetHistory(p)
	}
}

// chooseHistory decides of which groups the history is written, so that it takes so many bytes at
// most: of those that had clients last. One that was left out stays so for a while. It comes after
// the groups themselves were chosen: of the two the history is what is left out.
func (b *book) chooseHistory(room int64, now time.Time) {
	order := b.byUse()
	for _, g := range order {
		switch {
		case !g.historyIn:
		case !g.in || g.historyBytes > room:
			g.historyIn = false
			if g.in {
				g.historyOut = now
			}
			b.forgetHistories(g)
		default:
			room -= g.historyBytes
		}
	}
	for _, g := range order {
		if g.historyIn || !g.in || g.historyBytes > gap(room) || !g.historyOut.IsZero() && now.Sub(g.historyOut) < patience {
			continue
		}
		g.historyIn = true
		room -= g.historyBytes
		for _, p := range g.pages {
			p.history.unsaved = p.history.noted > 0
		}
	}
}

// chooseHistory decides of which groups the history is kept, and says if that has changed.
func (k *Keeper) chooseHistory(room int64, now time.Time) {
	k.book.chooseHistory(room, now)
	k.sayHistory()
}

// sayHistory says of how many groups the history is left out, once for as long as there are any.
func (k *Keeper) sayHistory() {
	before, n := k.state.HistoryLeftOut, k.book.historyLeftOut()
	switch k.state.HistoryLeftOut = n; {
	case n > 0 && before == 0:
		k.cfg.Log.Warn("the snapshot leaves the history of groups out: cache.snapshot.max_bytes has no room for all",
			zap.String("path", k.cfg.Path), zap.Int64("max_bytes", k.cfg.MaxBytes), zap.Int("groups", n))
	case n == 0 && before > 0:
		k.cfg.Log.Info("the history of all groups is in the snapshot again", zap.String("path", k.cfg.Path))
	}
}

// historyRecords yields the records of the history of a page that a file lacks. The file has the
// changes up to one, in so many parts.
func (b *book) historyRecords(p *page, saved uint64, parts int, now, wall time.Time, yield func(record) bool) bool {
	h := &p.history
	w := &writtenHistory{saved: h.noted, parts: parts, whole: parts == 0}
	var body []byte
	put := func() bool {
		r := partRecord(p.key, w.parts, body)
		w.parts++
		w.bytes += int64(len(body))
		body = nil // the record has it
		return yield(r)
	}
	for n := range b.past.Noted(h.of, h.params, saved, h.noted) {
		if w.n++; h.withheld[n.Seq] {
			w.withhold(n.Seq)
		}
		body = appendChange(body, &n, h.withheld[n.Seq], now, wall)
		if len(body) >= historyPart && !put() {
			return false
		}
	}
	if len(body) > 0 && !put() {
		return false
	}
	floor, _ := b.past.FloorOf(h.of) // after all was read: see Noted
	if !yield(headRecord(p.key, floor, w.parts)) {
		return false
	}
	h.wrote = w
	return true
}

func (w *writtenHistory) withhold(seq uint64) {
	if w.withheld == nil {
		w.withheld = map[uint64]bool{}
	}
	w.withheld[seq] = true
}

// historyLeftOut is how many groups are written without their history.
func (b *book) historyLeftOut() (n int) {
	for _, g := range b.groups {
		if b.revision > 0 && g.in && !g.historyIn {
			n++
		}
	}
	return n
}

// leaveHistoryOut leaves all of it out, and reports whether there was any.
func (b *book) leaveHistoryOut(now time.Time) (had bool) {
	for _, g := range b.groups {
		if !g.historyIn {
			continue
		}
		had = true
		g.historyIn, g.historyOut = false, now
		b.forgetHistories(g)
	}
	return had
}

// wholeHistory yields all of the history of a page.
func (b *book) wholeHistory(p *page, now, wall time.Time, yield func(record) bool) bool {
	p.history.wrote = nil
	return !p.group.historyIn || p.history.noted == 0 || b.historyRecords(p, 0, 0, now, wall, yield)
}

// unsavedHistory yields what the file lacks of the history of a page. The floor is written with
// each change of the content, since there may be none of the history.
func (b *book) unsavedHistory(p *page, now, wall time.Time, yield func(record) bool) bool {
	h := &p.history
	h.wrote = nil
	if !p.group.historyIn || h.noted == 0 || !h.unsaved && !p.unsavedHead && len(p.unsavedItems) == 0 {
		return true
	}
	return b.historyRecords(p, h.saved, h.parts, now, wall, yield)
}

// historySaved notes that the file has what was written of it.
func (h *pageHistory) historySaved() {
	w := h.wrote
	if w == nil {
		return
	}
	if w.whole {
		h.n, h.bytes, h.withheld = w.n, w.bytes, w.withheld
	}
	h.saved, h.parts, h.unsaved, h.wrote = w.saved, w.parts, false, nil
}
