package relay

import (
	"cmp"
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// recentBody is the difference since a revision.
type recentBody struct {
	from uint64
	body *Body
}

// maxRecent bounds the differences that a view keeps. Clients are at few different revisions, apart
// from slow ones.
const maxRecent = 8

// fewClients is the number of a view's delta clients up to which nothing is joined for them. What
// is joined is a copy of what was sent, and the view holds it for clients to come. That saves each
// response a list of its resources, and where a group has few clients it is a large part of what
// each of them costs. SotW clients are sent the same at each change.
const fewClients = 16

// unjoined is the body of an answer in delta without the copy, if there are few clients.
func (v *view) unjoined(b *Body) *Body {
	if v.deltas > fewClients || len(b.Variants)+len(b.Removed) < 2 {
		return b
	}
	c := *b
	c.few = true
	return &c
}

// sendsTTLs reports whether clients are sent the TTL of any item.
func (v *view) sendsTTLs() bool {
	for it := v.head; it != nil && v.ttl; it = it.next {
		if !it.dead && it.variant.Timed() {
			return true
		}
	}
	return false
}

// fullBody has every live item. It is made once for each content. delta: it is for a delta client.
func (v *view) fullBody(delta bool) *Body {
	if delta {
		v.segments.held, v.segments.asked = true, true
	}
	if v.full == nil {
		v.full = v.segments.body(v)
	}
	return v.full
}

// forgetFull drops the encoded full set for delta clients, if the content has changed twice since
// the last new client, since only new clients are sent it. The encoding for SotW clients is needed
// at each change, for as long as there is such a client.
func (v *view) forgetFull() {
	x := &v.segments
	if x.held && !x.asked && v.fresh.head == nil {
		x.held = false
		x.forget(true)
	}
	x.asked = false
}

// since is the difference since revision from. All positions at that revision share it.
func (v *view) since(from uint64) *Body {
	for i := range v.recent {
		if v.recent[i].from == from {
			return v.recent[i].body
		}
	}
	b := newShared()
	it := v.tail
	for it != nil && it.prev != nil && it.prev.last > from {
		it = it.prev
	}
	if from < v.base {
		for body := range v.allUnchanged() {
			b.Variants, b.nameless = append(b.Variants, body), b.nameless || body.Nameless
		}
	}
	for ; it != nil; it = it.next {
		b.nameless = b.nameless || it.variant.Nameless
		switch {
		case it.last <= from:
		case !it.dead && it.rev <= from && it.variant.Timed():
			b.Heartbeats = append(b.Heartbeats, it.variant)
		case !it.dead:
			b.Variants = append(b.Variants, it.variant) // changed, or without its TTL (TTL-8)
		// No delta client was sent a nameless resource by its key, which is ours (RELAY-18).
		case v.hadAt(it, from) && !it.variant.Nameless:
			b.remove(it.variant.Name, it.variant.Spelt)
		}
	}
	if len(v.recent) == maxRecent {
		v.recent = slices.Delete(v.recent, 0, 1)
	}
	v.recent = append(v.recent, recentBody{from, b})
	return b
}

// with is the full body for SotW with the bodies that a client has by name, each in place of the
// view's own. It is the shared body itself if they make no difference.
func (v *view) with(named []*xds.Variant, ttl bool) (*Body, contentOf) {
	full, content := v.fullBody(false), contentOf{view: v}
	var own map[string]bool
	for _, x := range named {
		if it := v.item(x.Name); it != nil && !it.dead {
			if it.variant.Digest == x.Digest && (!ttl || it.variant == x || it.variant.Expires().Equal(x.Expires())) {
				continue
			}
			content.remove(it.variant.Digest)
		}
		if own == nil {
			own = make(map[string]bool, len(named))
		}
		own[x.Name] = true
		content.add(x.Digest)
	}
	if own == nil {
		return full, content
	}
	all := &Body{Variants: make([]*xds.Variant, 0, len(full.Variants)+len(own)), nameless: full.nameless}
	for _, x := range full.Variants {
		if !own[x.Name] {
			all.Variants = append(all.Variants, x)
		}
	}
	for _, x := range named {
		if own[x.Name] {
			all.Variants = append(all.Variants, x)
		}
	}
	return all, content
}

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
