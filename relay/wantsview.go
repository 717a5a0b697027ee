package relay

import (
	"slices"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/cursor"
	"github.com/weir-xds/weir/relay/xds"
)

// What a client that is served from states waits for, and what is known of a name that it asks for:
// for people (waits.go, why.go). Nothing here changes anything.

// Waits are what the origin has still to say of what the client asks for, and what it said that is
// not taken up. It locks the group's queue if nobody has it, and then the shard.
func (w *Wants) Waits(waits cursor.Awaited) (all []metrics.Wait) {
	s := w.shard
	if x, is := s.group.gathering.wait(s.store, ""); is {
		all = append(all, x)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, selector := range waits.Sets {
		if t := w.setOf(selector); t != nil {
			all = w.setWait(all, t, waits.Holds)
		}
	}
	for x := range w.allSelected {
		if x.set != nil {
			all = x.set.withheld(all, nil)
		}
	}
	if e := w.unknown(waits.Names); e != nil && e.unconfirmed {
		all = append(all, metrics.Wait{Reason: metrics.WaitConfirm, Until: s.named.confirmAt})
	} else if e != nil {
		all = append(all, s.named.wait(e, mostLooked))
	}
	if len(w.names) > 0 {
		all = s.named.withheld(all, func(name string) bool { return w.entry(name) != nil })
	}
	return all
}

// setWait adds what a set waits for that the client waits for.
func (w *Wants) setWait(all []metrics.Wait, t *set, holds bool) []metrics.Wait {
	switch {
	case t.barred:
	case holds && t.unconfirmed() && t.ready(false):
		all = append(all, metrics.Wait{Reason: metrics.WaitConfirm, Until: t.pauseAt})
	case holds && t.nameErrors.lackUntil.After(w.shard.now):
		all = append(all, metrics.Wait{Reason: metrics.WaitError, Since: t.nameErrors.lackFrom, Until: t.nameErrors.lackUntil})
	case !t.ready(holds):
		all = append(all, t.wait(holds))
	}
	return all
}

// unknown is one of some names of which nothing is known, or nothing that is confirmed; nil: there
// is none among the first.
func (w *Wants) unknown(names []string) (unknown *entry) {
	for _, name := range names[:min(len(names), mostLooked)] {
		switch e := w.names[name]; {
		case e == nil:
		case e.unconfirmed:
			return e
		case unknown == nil && e.chosen == nil && !e.isGone():
			unknown = e
		}
	}
	return unknown
}

// entry is the entry that the client asks for which holds a resource under any of its names; nil:
// it asks for none.
func (w *Wants) entry(name string) *entry {
	if e := w.names[name]; e != nil {
		return e
	}
	if h := w.shard.named.other.held[name]; h != nil {
		if i := slices.IndexFunc(h.entries, func(e *entry) bool { return w.names[e.name] == e }); i >= 0 {
			return h.entries[i]
		}
	}
	return nil
}

// View is what is known of a name in any spelling that the client may ask for. A selector stands
// for itself, and no name for the type as a whole. It locks the group's queue if nobody has it, and
// then the shard.
func (w *Wants) View(name string, waits cursor.Awaited) (v NameView) {
	s, key := w.shard, xds.NameKey(name)
	queued, gathers := s.group.gathering.wait(s.store, key)
	servers := s.group.origin.Servers()
	s.mu.Lock()
	defer s.mu.Unlock()
	if v = s.view(key, w.permit); gathers {
		v.Waits = append(v.Waits, queued)
	}
	e, t := w.entry(key), w.setOf(key)
	switch {
	case t != nil:
		v.Sets, v.Denied = []string{xds.Spelling(t.selector, t.spelt)}, false
	case name == "" && w.first() != nil:
		t = w.first()
		key = t.selector
		v.Sets, v.Denied = []string{xds.Spelling(t.selector, t.spelt)}, false
	case name == "":
		v.Lane = s.lane(s.named.lane)
	default:
		t = w.covering(key, &v)
	}
	switch {
	case e != nil:
		owed := slices.Contains(waits.Names, e.name)
		if v.Named = e.name; e.spelt != "" {
			v.Named = e.spelt
		}
		v.ofName(&s.named, e, owed && e.chosen == nil && !e.isGone(), owed && e.unconfirmed)
	case t != nil:
		if slices.Contains(waits.Sets, t.selector) && !v.Denied {
			v.Waits = w.setWait(v.Waits, t, waits.Holds)
		}
		v.ofSet(t, key)
	}
	v.complete(s, key, servers)
	return v
}

// first is `*`, or any set that is asked for if that is not; nil: none is.
func (w *Wants) first() *set {
	for x := range w.allSelected {
		if x.set != nil {
			return x.set
		}
	}
	return nil
}

// covering notes the sets that may have a name, and is the one that has it; nil: none may.
func (w *Wants) covering(key string, v *NameView) (of *set) {
	for x := range w.allSelected {
		if t := x.set; t != nil && x.Covers(key) {
			v.Sets = append(v.Sets, xds.Spelling(t.selector, t.spelt))
			if of == nil || t.members.get(key) != nil {
				of = t
			}
		}
	}
	slices.Sort(v.Sets)
	return of
}

// Counts are how many names are asked for, and what has become of them. It locks the shard.
func (w *Wants) Counts() (n Names) {
	s := w.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	n.All = len(w.names) + len(w.selects)
	for _, e := range w.names {
		s.named.count(e, &n)
	}
	return n
}

// Item is how the client stands to a resource, but for which answer it has refused.
func (w *Wants) Item(x cursor.Seen) Item {
	s := w.shard
	it := seenItem{name: x.Name, spelt: x.Spelt, body: x.Body, secret: xds.IsSecret(s.typeURL), shown: s.group.config().OriginVersions}
	switch {
	case x.Body == nil && x.Waits:
		it.status = ItemNotSent
	case x.Refused:
		it.status = ItemRefused
	case x.Unjudged, x.Body != nil && !x.Current:
		it.status, it.unjudged = ItemStale, x.Unjudged
	default:
		it.status = ItemSynced
	}
	return it.item()
}

// Content is what a resource was that an answer had. It locks the shard.
func (w *Wants) Content(x cursor.Part) Content {
	s := w.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.content(x.Body, x.Body.Name, x.Set)
}

// List is an answer as a whole, which a response of the origin had the last part in; ok: it can be
// told apart.
func (w *Wants) List(from *xds.Provenance) (c Content, ok bool) {
	if from == nil || from.Fallback {
		return c, false
	}
	s := w.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	c = s.content(nil, "", w.star != nil || len(w.selects) > 0)
	if c.from = from; !xds.IsSecret(s.typeURL) {
		c.Version = from.Version
	}
	return c, true
}
