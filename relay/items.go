package relay

import (
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// ItemStatus is how a client stands to one resource (CSDS-3). The worse one is the greater.
type ItemStatus uint8

const (
	ItemSynced  ItemStatus = iota + 1 // accepted and current, or answered without a resource
	ItemNotSent                       // nothing was sent yet
	ItemStale                         // sent, and not judged, or not current any more
	ItemRefused                       // the client refused what it was sent last
)

// Item describes one resource that a client is subscribed to, by its name or by a set.
type Item struct {
	Name   string
	Status ItemStatus
	// Refusal is the index in Judged.Refused of the answer that had it. It is set if Status is
	// ItemRefused. If Unjudged, it is the index in Judged.Unjudged instead.
	Refusal  int
	Unjudged bool // the client has not answered what it was sent last
	// Version is the version that was sent last. It is "" if nothing was sent, if that version is
	// not known any more, or if people must not see it (RELAY-76).
	Version string
	// Updated is when the resource came from the origin. It is zero if that is not known, or if
	// nothing was sent.
	Updated time.Time
	// Body is what was sent last. It is nil if it is not held any more, must not be cached
	// (RELAY-9), or must not be seen.
	Body *xds.Variant
}

// Judged are the answers of a stream-type that the client has not accepted, oldest first.
type Judged struct {
	Unwritten []Receipt // taken, and not written yet
	Unjudged  []Receipt // written, and neither accepted nor refused yet
	Refused   []Receipt
}

// Items calls f with each resource that the client is subscribed to. A name may occur once for each
// Sub of the Union. The store of one Sub is locked at a time, and none is locked while f runs.
func (u *Union) Items(j *Judged, f func(Item)) {
	for i := range u.Len() {
		for _, x := range u.Part(i).items(j) {
			f(x.item())
		}
	}
}

// seenItem is an Item whose texts are still to be made, which needs no lock.
type seenItem struct {
	name, spelt string
	status      ItemStatus
	refusal     int
	unjudged    bool
	body        *xds.Variant // sent last; nil: it is not held any more
	sent        xds.Digest   // of what was sent last, if body is nil
	shown       bool         // clients are sent the origin's versions
	secret      bool
}

func (x *seenItem) item() Item {
	it := Item{Name: xds.Spelling(x.name, x.spelt), Status: x.status, Refusal: x.refusal, Unjudged: x.unjudged}
	switch {
	case x.body != nil:
		it.Updated = x.body.Received()
		if x.body.Nameless {
			it.Name = ""
		}
		if !x.secret {
			it.Version = x.body.Version()
		}
		if !x.secret && !x.body.DoNotCache {
			it.Body = x.body
		}
	case x.sent != (xds.Digest{}) && !x.shown && !x.secret:
		it.Version = x.sent.String()
	}
	return it
}

// items lists the resources that the Sub is subscribed to. It locks the shard.
func (s *Sub) items(j *Judged) []seenItem {
	s.shard.mu.Lock()
	defer s.shard.unlock()
	l := itemList{sub: s, judged: j, all: make([]seenItem, 0, s.records.len())}
	for r := range s.records.all() {
		l.record(r)
	}
	if s.sets.more != nil {
		l.listed = map[string]bool{}
	}
	for p := s.sets.first; p != nil; p = p.also {
		for it := range p.view.all() {
			l.member(p, it)
		}
	}
	return l.all
}

// itemList is a list of one Sub's resources while it is made.
type itemList struct {
	sub    *Sub
	judged *Judged
	all    []seenItem
	listed map[string]bool // names that a set has added; nil: there is one set only
}

// blank makes an item of a name. Its status is not set.
func (l *itemList) blank(name, spelt string) seenItem {
	return seenItem{
		name: name, spelt: spelt, secret: xds.IsSecret(l.sub.typeURL), shown: l.sub.shard.group.config().OriginVersions,
	}
}

// record adds a name that the client is subscribed to.
func (l *itemList) record(r *record) {
	if r.is(unsubscribed) {
		return
	}
	s := l.sub
	x := l.blank(r.entry.name, s.spelt[r.entry.name])
	body, _, _ := r.effective()
	holdsIt := r.is(holds) && !r.is(claimed)
	switch {
	case !holdsIt && r.is(owed|claimed):
		x.status = ItemNotSent
	case !holdsIt:
		x.status = ItemSynced // it was sent that the name does not exist
	default:
		x.sent = r.sent
		x.status, x.refusal = l.judge(func(e *extent) bool { return e.number == r.at || e.whole && r.at <= e.number })
		x.unjudged = x.status == ItemStale
		if body != nil && body.Digest == r.sent {
			x.body = body
		} else if x.status == ItemSynced {
			x.status = ItemStale
		}
	}
	if x.status == ItemNotSent {
		x.sent, x.body = xds.Digest{}, nil
	}
	l.all = append(l.all, x)
}

// member adds a member of a set, unless the client is subscribed to it by name, too.
func (l *itemList) member(p *position, it *item) {
	name := it.variant.Name
	switch {
	case it.variant.Nameless && l.sub.delta, l.sub.record(name) != nil, l.listed[name]:
		return
	case it.dead && (p.fresh || it.rev <= p.sent || it.birth > p.sent):
		return // the client was sent its removal, or was never sent the member
	}
	x := l.blank(name, it.variant.Spelt)
	switch {
	case p.fresh, it.birth > p.sent:
		x.status = ItemNotSent
	case it.dead:
		x.status, x.body = ItemStale, it.variant
	case it.rev > p.sent:
		x.status = ItemStale // the body that was sent is not kept
	default:
		x.body = it.variant
		x.status, x.refusal = l.judge(func(e *extent) bool { return it.rev <= e.to && (e.whole || it.rev > e.from) })
		x.unjudged = x.status == ItemStale
		if x.status == ItemNotSent {
			x.body = nil
		}
	}
	if l.listed != nil {
		l.listed[name] = true
	}
	l.all = append(l.all, x)
}

// judge returns the status by the newest answer for which covers is true. Answers that the client
// accepted are not remembered, so without such an answer the client is in sync. refusal is the
// index in Judged.Refused.
func (l *itemList) judge(covers func(*extent) bool) (status ItemStatus, refusal int) {
	status, newest := ItemSynced, uint32(0)
	look := func(all []Receipt, is ItemStatus) {
		for i := range all {
			if e := all[i].of(l.sub); e != nil && e.number > newest && covers(e) {
				status, refusal, newest = is, i, e.number
			}
		}
	}
	look(l.judged.Unwritten, ItemNotSent)
	look(l.judged.Unjudged, ItemStale)
	look(l.judged.Refused, ItemRefused)
	return status, refusal
}

// of is the part of the answer that came from a Sub; nil: there is none.
func (t *Receipt) of(s *Sub) *extent {
	if t.sub == s {
		return &t.extent
	}
	for p := t.parts; p != nil; p = p.next {
		if p.sub == s {
			return &p.extent
		}
	}
	return nil
}

// Covers reports whether the answer was a whole list for each Sub of an earlier answer. Then the
// client's verdict on it replaces that on the earlier one.
func (t *Receipt) Covers(earlier *Receipt) bool {
	whole := func(s *Sub) bool {
		e := t.of(s)
		return e != nil && e.whole
	}
	if earlier.sub != nil && !whole(earlier.sub) {
		return false
	}
	for p := earlier.parts; p != nil; p = p.next {
		if !whole(p.sub) {
			return false
		}
	}
	return true
}
