package relay

import (
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

// forgetJoined drops what was joined for clients that have become few.
func (v *view) forgetJoined() {
	v.full, v.recent, v.segments.held = nil, nil, false
	v.segments.forget(true)
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
