package snapshot

import (
	"bytes"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/weir-xds/weir/cmd/weir/sensitive"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// book has what should be on disk, and what of that is not yet: the table's state at the last look,
// by pointers. A failed write changes nothing here, so the next one writes the difference between
// the state and what was written.
type book struct {
	pages   map[string]*page // by shardKey
	groups  map[groupID]*group
	origins map[string]Origin
	round   uint64 // of the last look
	base    int64  // bytes of the header and the origins, as of the last measure
	// secrets are the types that are left out of a file in plain text, by shardKey.
	secrets map[string]secretPage
	// encrypted: the file is, so nothing is left out. Set once.
	encrypted bool
	// restored are the groups that the file had at the start.
	restored map[groupID]bool

	past     *history.Log
	revision uint64 // of the table at the last look; 0: it keeps no history

	savedOrigins map[string]Origin // as the file has them
	gone         map[string]bool   // pages that the file still has, by key
	goneHistory  map[string]bool   // pages of which the file still has the history
}

// secretPage is a type of which nothing is written.
type secretPage struct {
	revision  uint64 // as that of page
	resources int
}

// page is one type of one group, for one parameter map.
type page struct {
	key      string
	group    *group
	revision uint64 // of the image that it was made from
	// keeps: it has something that the table has no more.
	keeps bool
	sets  map[string]*setSummary
	items map[itemID]*entry

	history pageHistory

	head         []byte // metadata of the page's own record
	unsavedHead  bool
	unsavedItems map[itemID]bool
}

// entry is a member of a set, or a name.
type entry struct {
	member *xds.Variant     // or
	name   *relay.NameImage // ...
	mark   xds.Digest       // mark of the record; members only
	size   int64            // of the record
	round  uint64           // of the last look at which the table had it
	// leftOut is how many of the bodies have a key in them and may not be written. If there are
	// any, a member has no record, and a name has one without bodies.
	leftOut int
}

func newBook(encrypted bool) *book {
	return &book{
		pages: map[string]*page{}, groups: map[groupID]*group{}, origins: map[string]Origin{}, secrets: map[string]secretPage{}, encrypted: encrypted,
		savedOrigins: map[string]Origin{}, gone: map[string]bool{}, goneHistory: map[string]bool{},
	}
}

// look takes over what changed in the table. Nothing of the origins in keep is dropped: it cannot
// be known now whether it is still wanted, or still exists.
func (b *book) look(t *relay.Table, now, wall time.Time, keep map[string]bool) {
	b.round++
	there := make(map[string]bool, len(b.pages))
	changedSince := func(x *relay.TypeImage) uint64 {
		key := shardKey(x)
		there[key] = true
		p := b.pages[key]
		switch {
		case p == nil, p.keeps && !keep[x.Origin]:
			return b.secrets[key].revision
		case p.history.noted == 0 && t.History().On():
			return 0 // it has been switched on
		}
		return p.revision
	}
	for x := range t.Images(changedSince) {
		b.take(&x, now, wall, keep[x.Origin])
	}
	for x := range t.SecretImages(changedSince) {
		if b.encrypted {
			b.take(&x, now, wall, keep[x.Origin])
		} else {
			b.secrets[shardKey(&x)] = secretPage{x.Revision, resources(&x)}
		}
	}
	maps.DeleteFunc(b.secrets, func(key string, _ secretPage) bool { return !there[key] })
	for key, p := range b.pages {
		switch {
		case there[key]:
		case keep[p.group.id.origin]:
			p.keeps = true
		default:
			b.drop(p)
		}
	}
	b.lookAtHistory(t)
}

func (b *book) drop(p *page) {
	delete(b.pages, p.key)
	delete(b.goneHistory, p.key) // it goes with the page
	if p.group.in {
		b.gone[p.key] = true
	}
}

// take updates a page from an image.
func (b *book) take(x *relay.TypeImage, now, wall time.Time, keep bool) {
	key := shardKey(x)
	p := b.pages[key]
	if p == nil {
		if x.Empty() {
			return
		}
		p = &page{
			key: key, group: b.group(x, now), sets: map[string]*setSummary{}, items: map[itemID]*entry{}, unsavedItems: map[itemID]bool{},
			history: pageHistory{of: history.Place{Origin: x.Origin, Group: x.Group, TypeURL: x.TypeURL}, params: x.Params.Key()},
		}
		b.pages[key] = p
	}
	p.revision, p.keeps, p.history.noted = x.Revision, false, x.Noted
	kept := b.takeSets(p, x.Sets, now, wall, keep)
	b.takeNames(p, x.Names, now, wall, keep)
	for id, e := range p.items {
		switch {
		case e.round == b.round:
		case keep && id.named, kept[id.selector] && !id.named:
			p.keeps = true
		default:
			delete(p.items, id)
			p.unsavedItems[id] = true
		}
	}
	if len(p.sets)+len(p.items) == 0 {
		b.drop(p)
		return
	}
	var sets []setSummary
	for _, selector := range slices.Sorted(maps.Keys(p.sets)) {
		sets = append(sets, *p.sets[selector])
	}
	if head := shardHead(x, sets); !bytes.Equal(head, p.head) {
		p.head, p.unsavedHead = head, true
	}
}

// takeSets returns the sets that are left as they were: with keep, those that are gone, and those
// that were complete and are not.
func (b *book) takeSets(p *page, sets []relay.SetImage, now, wall time.Time, keep bool) (kept map[string]bool) {
	kept = map[string]bool{}
	old := p.sets
	p.sets = make(map[string]*setSummary, len(sets))
	if keep {
		for selector, y := range old {
			i := slices.IndexFunc(sets, func(x relay.SetImage) bool { return x.Selector == selector })
			if i < 0 || y.Settled && !sets[i].Settled {
				p.sets[selector], kept[selector] = y, true
			}
		}
	}
	for i := range sets {
		x := &sets[i]
		if kept[x.Selector] {
			continue
		}
		y := &setSummary{SetImage: *x, members: uint64(len(x.Members))}
		y.Members = nil
		marks := make([]xds.Digest, 0, len(x.Members))
		for _, v := range x.Members {
			id := memberID(x.Selector, v)
			e := p.items[id]
			if e == nil || e.member != v {
				e = p.put(id, b.member(p.key, id, v, e, now, wall))
			}
			e.round = b.round
			if e.leftOut > 0 {
				y.members--
				y.lacking = true
				continue
			}
			y.sum.add(e.mark)
			marks = append(marks, e.mark)
		}
		y.digest = xds.SetOf(marks)
		p.sets[x.Selector] = y
	}
	return kept
}

// member returns the entry of a member of a set. old is the one before, if there was one.
func (b *book) member(page string, id itemID, v *xds.Variant, old *entry, now, wall time.Time) *entry {
	e := &entry{member: v}
	if old != nil && old.member.SharesBytes(v) {
		e.leftOut = old.leftOut
	} else if b.holds(v) {
		e.leftOut = 1
	}
	if e.leftOut == 0 {
		r := memberRecord(page, id, v, now, wall)
		e.mark, e.size = markOf(&r), r.size()
	}
	return e
}

// holds reports whether a body may not be written. It is called once for each new body.
func (b *book) holds(v *xds.Variant) bool { return !b.encrypted && sensitive.Holds(v.Any()) }

// name returns the entry of a name.
func (b *book) name(page string, id itemID, x *relay.NameImage, now, wall time.Time) *entry {
	e := &entry{name: x}
	if slices.ContainsFunc(x.Variants, b.holds) {
		e.leftOut = len(x.Variants)
	}
	r := e.record(page, id, now, wall)
	e.size = r.size()
	return e
}

func (b *book) takeNames(p *page, names []relay.NameImage, now, wall time.Time, keep bool) {
	for i := range names {
		x := &names[i]
		id := itemID{named: true, name: x.Name}
		e := p.items[id]
		switch {
		case e != nil && keep && len(x.Variants) == 0 && len(e.name.Variants) > 0:
			p.keeps = true
		case e == nil || !sameName(e.name, x):
			e = p.put(id, b.name(p.key, id, x, now, wall))
		}
		e.round = b.round
	}
}

func sameName(a, b *relay.NameImage) bool {
	return a.Spelt == b.Spelt && a.Retired == b.Retired && a.Since == b.Since && slices.Equal(a.Variants, b.Variants)
}

func (p *page) put(id itemID, e *entry) *entry {
	p.items[id] = e
	p.unsavedItems[id] = true
	return e
}

// everything returns the records of a complete file.
func (b *book) everything(now, wall time.Time) iter.Seq[record] {
	return func(yield func(record) bool) {
		for _, o := range b.origins {
			if !yield(o.record()) {
				return
			}
		}
		if b.revision > 0 && !yield(revisionRecord(b.revision)) {
			return
		}
		for p := range b.kept() {
			if !yield(p.record()) {
				return
			}
			for id, e := range p.items {
				if e.isWritten() && !yield(e.record(p.key, id, now, wall)) {
					return
				}
			}
			if !b.wholeHistory(p, now, wall, yield) {
				return
			}
		}
		b.unsavedMarks(true, yield)
	}
}

// unsaved returns the records that the file lacks.
func (b *book) unsaved(now, wall time.Time) iter.Seq[record] {
	return func(yield func(record) bool) {
		for _, o := range b.origins {
			if r := o.record(); b.isWritten(&o, &r) && !yield(r) {
				return
			}
		}
		for key := range b.gone { // before a new page with the same key
			if !yield(removal(classShard, key)) {
				return
			}
		}
		for key := range b.goneHistory {
			if !yield(removal(classHistory, key)) {
				return
			}
		}
		if b.revision > 0 && !yield(revisionRecord(b.revision)) {
			return
		}
		for p := range b.kept() {
			if p.unsavedHead && !yield(p.record()) {
				return
			}
			for id := range p.unsavedItems {
				r := removal(classItem, id.key(p.key))
				if e := p.items[id]; e != nil && e.isWritten() {
					r = e.record(p.key, id, now, wall)
				}
				if !yield(r) {
					return
				}
			}
			if !b.unsavedHistory(p, now, wall, yield) {
				return
			}
		}
		b.unsavedMarks(false, yield)
	}
}

// largeOrigin is how many bytes of metadata an origin may have to be written with every write, only
// since it has vouched again.
const largeOrigin = 4 << 10

// isWritten reports whether a write of changes has the record of an origin.
func (b *book) isWritten(o *Origin, r *record) bool {
	old, is := b.savedOrigins[o.Name]
	return len(r.meta) <= largeOrigin || !is || o.worthWriting(&old)
}

func removal(of class, key string) record {
	return record{class: classRemove, key: string([]byte{byte(of)}) + key}
}

func (p *page) record() record { return record{class: classShard, key: p.key, meta: p.head} }

// isWritten reports whether there is a record of the entry.
func (e *entry) isWritten() bool { return e.member == nil || e.leftOut == 0 }

func (e *entry) record(shard string, id itemID, now, wall time.Time) record {
	switch {
	case e.member != nil:
		return memberRecord(shard, id, e.member, now, wall)
	case e.leftOut > 0:
		return bareName(id.key(shard), e.name)
	}
	return nameRecord(shard, id, e.name, now, wall)
}

// hasUnsaved reports whether the file lacks anything.
func (b *book) hasUnsaved() bool {
	if len(b.gone)+len(b.goneHistory) > 0 {
		return true
	}
	for name, o := range b.origins {
		if old, ok := b.savedOrigins[name]; !ok || o.worthWriting(&old) {
			return true
		}
	}
	for _, g := range b.groups {
		if g.hasUnsavedMarks() {
			return true
		}
	}
	for p := range b.kept() {
		if p.unsavedHead || len(p.unsavedItems) > 0 || p.history.unsaved && p.group.historyIn {
			return true
		}
	}
	return false
}

// saved records that the file has everything.
func (b *book) saved() {
	for name, o := range b.origins {
		if r := o.record(); b.isWritten(&o, &r) {
			b.savedOrigins[name] = o
		}
	}
	clear(b.gone)
	clear(b.goneHistory)
	for _, g := range b.groups {
		if g.in && g.historyIn {
			g.savedMarks = g.marks
		}
	}
	for _, p := range b.pages {
		p.history.historySaved()
		p.unsavedHead = false
		clear(p.unsavedItems)
	}
}
