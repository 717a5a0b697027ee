package relay

import (
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// view is what all subscribers of one selector share: the items by revision, the tombstones, the
// version and the encoded bodies. Subscribers that are sent TTLs have a view of their own, since
// only for them a new TTL is an event. So have those that may have a part of the members, with all
// whose permits are equal. A view begins with the first subscriber and ends with the last. Guarded
// by its shard's lock.
type view struct {
	set    *set
	permit *Permit // nil: it has all members
	ttl    bool
	own    bool // it has TTLs or a permit, so items are all there are
	inner  bool // it is of a tier, which asks the newest (tier.go), and counts as none
	// items are by name all there are, if own. Else they are the tombstones: a member says itself
	// which live item is its own.
	items map[string]*item

	// head..tail are all items ordered by their last event, oldest first. Invariant: last never
	// falls along next, and is not before base. unchanged is how many members have no item, since
	// they are as they were at revision base.
	head, tail *item
	unchanged  int
	base       uint64
	live       int
	bytes      int
	digests    xds.TrackedSet // of the live items (version.go)
	version    string         // version_info of the full view; "": there was a change since
	// revision of the last event: a change of content, or of a TTL if TTLs are sent
	contentRev uint64
	renewed    uint64 // revision of the last change of a TTL alone
	changed    bool   // there was an event since markChanged

	// tombs are the tombstones in order of rev. If the item came back since, its rev differs and
	// the tombstone is skipped.
	tombs []tomb
	dead  int // items that are tombstones
	// gaps are the times in which items that came back were gone (viewbody.go). lastGap is the
	// revision at which the last of them ends.
	gaps    map[*item][]gap
	lastGap uint64

	fresh   posList // positions that wait for their first answer
	ordered posList // the others, by revision sent: the head is the slowest

	segments segments
	// deltas counts the positions of delta clients, and whole those of SotW clients, which are sent
	// the full view at each change.
	deltas, whole int
	full          *Body // every live item, of the present content
	// recent are the last differences that were made, up to the present content. Each is shared by
	// all positions at its revision.
	recent []recentBody
}

// item is one name in a view.
type item struct {
	variant *xds.Variant // the last one, of a tombstone too; its name is the member's
	rev     uint64       // of the last change of content
	last    uint64       // of the last event; later than rev if that was a new TTL
	// revision at which it was first sent; an earlier position was never sent the name
	birth      uint64
	segment    *segment // nil: it is dead
	at         uint32   // in the segment
	dead       bool
	prev, next *item
}

// place is where a view has the body of a member.
type place struct {
	segment *segment // nil: nowhere
	at      uint32   // in the segment
}

type tomb struct {
	item *item
	rev  uint64
	body uint64 // revision of the last body
}

// spareTombs is how many tombstones a view may keep beyond its live entries before the slowest
// streams are ended.
const spareTombs = 1000

// view is the set's view for clients that are sent TTLs or not, and have a permit.
func (t *set) view(ttl bool, p *Permit) *view {
	v := t.views.of(ttl, p)
	if v == nil {
		v = &view{set: t, ttl: ttl, own: ttl || p != nil, inner: t.shard.group.fed(), permit: p, items: map[string]*item{}}
		for m := range t.members.all() {
			v.offer(m, t.shard.rev)
		}
		v.changed, v.contentRev = false, t.shard.rev
		t.views.put(ttl, p, v)
		v.count(1)
	}
	return v
}

func (t *set) dropView(v *view) {
	t.views.put(v.ttl, v.permit, nil)
	if !v.own {
		for m := range t.members.all() {
			m.item, m.place = nil, place{}
		}
	}
	v.count(-1)
}

// count counts a view of clients.
func (v *view) count(n int64) {
	if !v.inner {
		v.set.shard.table().budget.views.Add(n)
	}
}

// item is that of a name; nil: there is none.
func (v *view) item(name string) *item {
	if m := v.set.members.get(name); m != nil && !v.own {
		return v.itemOf(m)
	}
	return v.items[name]
}

// itemOf is the item of a member; nil: there is none. A look-up costs more than all else that is
// done for a member, so the member says. What it says of a dead item may be over.
func (v *view) itemOf(m *member) *item {
	if !v.own && m.isUnchanged() {
		return v.itemise(m)
	}
	if it := m.item; !v.own && (it == nil && v.dead == 0 || it != nil && !it.dead) {
		return it
	}
	return v.items[m.name]
}

// offer updates the item of a member to the member's variants, if clients may have the member.
func (v *view) offer(m *member, rev uint64) {
	if !v.permit.Allows(m.name) {
		return
	}
	chosen := pick(m.variants, v.set.shard.params)
	if !v.own && m.isUnchanged() && v.stays(m, chosen) {
		return
	}
	it := v.itemOf(m)
	switch {
	case chosen == nil && (it == nil || it.dead):
	case chosen == nil:
		v.kill(it, rev)
	case it == nil && v.startsWith(m, chosen, rev):
		return
	case it == nil:
		it = &item{birth: rev}
		if v.own {
			v.items[m.name] = it
		}
		v.born(it, chosen, rev)
	case it.dead:
		// birth stays, since a position from before the death may still have the name.
		v.openGap(it, rev)
		v.unlink(it)
		it.dead = false
		v.dead--
		if !v.own {
			delete(v.items, m.name)
		}
		v.born(it, chosen, rev)
	case it.variant.Digest == chosen.Digest:
		more := chosen.Size() - it.variant.Size()
		v.bytes += more
		renewed, other := v.ttl && !it.variant.Expires().Equal(chosen.Expires()), !it.variant.SharesBytes(chosen)
		if renewed {
			v.unlink(it)
			it.last, v.renewed = rev, rev
			v.append(it)
			v.changed = true
		}
		if other {
			v.full = nil // what is sent from now on has the new metadata
			v.recent = nil
		}
		// Another origin version, metadata or TTL is no change of content (VER-7, TTL-7).
		if it.variant = chosen; renewed || other {
			it.segment.replaced(it.at, chosen, more)
		} else {
			it.segment.restate(it.at, chosen)
		}
	default:
		v.unlink(it)
		v.gone(it)
		v.born(it, chosen, rev)
	}
	if !v.own {
		m.item = it
	}
}

// renew makes an unchanged body be sent again. That ends the error that clients were sent (ABS-7).
func (v *view) renew(name string, rev uint64) {
	if it := v.item(name); it != nil && !it.dead {
		v.unlink(it)
		it.rev, it.last = rev, rev
		v.append(it)
		v.changed = true
		for p := v.ordered.head; p != nil; p = p.next {
			if more := p.sub.sets.more; more != nil && more.sent[name] == it.variant.Digest {
				more.sent[name] = xds.Digest{}
			}
		}
	}
}

// born puts a new or changed body at the end of the list.
func (v *view) born(it *item, body *xds.Variant, rev uint64) {
	was := it.variant
	it.variant, it.rev, it.last = body, rev, rev
	v.append(it)
	if it.segment == nil {
		it.onto(v.segments.add(body))
	} else {
		it.segment.replaced(it.at, body, body.Size()-was.Size())
	}
	v.enters(body)
}

// enters counts a body that lives.
func (v *view) enters(body *xds.Variant) {
	v.live++
	v.bytes += body.Size()
	v.digests.Add(body.Digest)
	v.version = ""
	v.changed = true
}

func (v *view) gone(it *item) {
	v.live--
	v.bytes -= it.variant.Size()
	v.digests.Remove(it.variant.Digest)
	v.version = ""
}

func (v *view) kill(it *item, rev uint64) {
	v.unlink(it)
	v.gone(it)
	v.segments.remove(place{it.segment, it.at}, v)
	it.onto(place{})
	v.tombs = append(v.tombs, tomb{it, rev, it.rev})
	it.dead, it.rev, it.last = true, rev, rev
	v.items[it.variant.Name] = it
	v.append(it)
	v.dead++
	if len(v.tombs) > 2*v.dead+spareTombs { // a name that comes and goes must not fill it
		v.tombs = slices.DeleteFunc(v.tombs, func(t tomb) bool { return !t.item.dead || t.item.rev != t.rev })
	}
	v.changed = true
}

func (v *view) append(it *item) {
	it.prev, it.next = v.tail, nil
	if v.tail != nil {
		v.tail.next = it
	} else {
		v.head = it
	}
	v.tail = it
}

func (v *view) unlink(it *item) {
	if it.prev != nil {
		it.prev.next = it.next
	} else {
		v.head = it.next
	}
	if it.next != nil {
		it.next.prev = it.prev
	} else {
		v.tail = it.prev
	}
	it.prev, it.next = nil, nil
}

// markChanged marks the clients that have to be sent a change. It is called once for each response.
// It also bounds the tombstones.
func (v *view) markChanged(rev uint64) {
	if !v.changed {
		return
	}
	v.changed = false
	v.contentRev = rev
	v.full, v.recent = nil, nil
	v.forgetFull()
	hurry := v.hurry()
	for p := v.ordered.head; p != nil; p = p.next {
		p.sub.markChanged(rev)
		if p.sent < hurry {
			p.sub.mark(rev)
		}
	}
	for p := v.fresh.head; p != nil; p = p.next {
		if v.set.settled || p.flows() {
			p.sub.mark(rev)
		}
	}
	v.prune()
	for v.dead > v.live+spareTombs && v.ordered.head != nil {
		v.lag(v.ordered.head)
		v.prune()
	}
}

// hurry is a revision. A position before it may not wait for more changes, since half of the
// allowed tombstones are newer than it.
func (v *view) hurry() uint64 {
	if n := (v.live + spareTombs) / 2; len(v.tombs) > n {
		return v.tombs[len(v.tombs)-n].rev
	}
	return 0
}

// prune drops the tombstones that every position has passed.
func (v *view) prune() {
	passed := v.set.shard.rev
	if p := v.ordered.head; p != nil {
		passed = p.sent
	}
	n := 0
	for ; n < len(v.tombs) && v.tombs[n].rev <= passed; n++ {
		if it := v.tombs[n].item; it.dead && it.rev == v.tombs[n].rev {
			v.unlink(it)
			delete(v.items, it.variant.Name)
			delete(v.gaps, it)
			v.dead--
		}
		v.tombs[n] = tomb{}
	}
	v.tombs = v.tombs[n:]
	if len(v.tombs) == 0 {
		v.tombs = nil
	}
	if passed >= v.lastGap {
		v.gaps = nil
	}
}

// lag removes a position whose stream will be ended. The client comes back and resumes by its
// versions.
func (v *view) lag(p *position) {
	v.ordered.remove(p)
	v.unlisted(p)
	p.sub.sets.unlink(p)
	p.sub.lagging = true
	p.sub.mark(v.set.shard.rev)
	v.set.dropClient(v.set.shard.now)
	if v.fresh.head == nil && v.ordered.head == nil {
		v.set.dropView(v)
	}
}
