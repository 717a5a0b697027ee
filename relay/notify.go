package relay

import (
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// What a response changed of a name, and which clients are to be sent it.

// offer chooses the variant for the map after a response, and notifies the clients if it is
// another. stated: the origin spoke of the name itself, so that no matching variant means that
// there is none.
func (n *namedTable) offer(e *entry, rev uint64, gen uint32, stated bool) {
	n.revise(e)
	old, was := e.retiredBodies(), n.givenOf(e)
	if stated || len(e.variants) > 0 {
		e.onRetired(nil) // the origin has spoken
	}
	switch chosen := pick(e.variants, n.shard.params); {
	case chosen != nil:
		changed := e.chosen == nil || e.chosen.Digest != chosen.Digest
		if e.nameError != nil && !changed {
			e.cured(rev)
		}
		if !changed && !e.chosen.Expires().Equal(chosen.Expires()) {
			e.renewed(rev)
		}
		e.noteLast(chosen)
		wasOld := e.isOld()
		e.onBody(chosen, gen)
		n.noteCurrent(e, wasOld)
		if changed {
			n.noteChange(e, was)
			e.rev = rev
			e.notify(rev)
		}
		if e.clients == 0 && chosen.DoNotCache {
			n.abandon(e)
		}
	case stated:
		// If there was no body, its end is no news, unless clients remember an error since (ABS-7)
		// or were given what had retired.
		known, words := was.variant == nil && (e.absentOn(gen) && !e.inError || gen == 0 && e.chosen == nil), e.nameError
		if !e.aliasDropped && (words == nil || !n.shard.group.origin.ends(words)) {
			words = notFound(e.name) // for clients who could not be told otherwise (ABS-10)
		}
		if words != nil && e.chosen != nil && e.chosen.Timed() {
			// This includes a NOT_FOUND in the origin's words: a relay upstream states in this way
			// that a TTL has passed.
			words.HadTTL = true
		}
		if last := e.chosen; n.shard.typeURL == xds.ClusterType || xds.IsVirtualHost(n.shard.typeURL) {
			if last == nil {
				last = pick(old, n.shard.params)
			}
			if last != nil {
				e.last = last
			}
		}
		e.onAbsent(words, gen)
		n.noteChange(e, was)
		if !known {
			e.rev = rev
			e.due()
			e.notify(rev)
		}
		if e.lingers() && !e.existed { // RELAY-39: absence does not linger
			n.unwant(e)
		}
	}
	if len(e.variants) == 0 {
		e.onNamed()
	}
}

// noteLast notes what the name stood for before it has this body. A client may be away, and come
// back with a virtual host that its alias stood for.
func (e *entry) noteLast(now *xds.Variant) {
	switch was := e.chosen; {
	case !xds.IsVirtualHost(now.From.TypeURL), e.last != nil && e.last.Name == now.Name:
		e.last = nil
	case was != nil && was.Name != now.Name:
		e.last = was
	}
}

// given is what clients have of a name, and since which revision: its content, or what they were
// sent in its place during an outage.
type given struct {
	variant *xds.Variant
	since   uint64
	first   bool // nobody was told whether there is one
}

func (n *namedTable) givenOf(e *entry) given {
	switch {
	case e.chosen != nil:
		return given{variant: e.chosen, since: n.since(e)}
	case e.isServed():
		return given{variant: pick(e.retiredBodies(), n.shard.params), since: n.shard.rev}
	}
	return given{since: n.since(e), first: e.absence == notAbsent}
}

// since is the revision from which on the content of a name is held, or from which on the history
// has its changes.
func (n *namedTable) since(e *entry) uint64 {
	if e.rev == n.restoredAt {
		if since, is := n.before[e]; is {
			return since
		}
	}
	return e.rev
}

// noteChange notes that the content of a name has changed.
func (n *namedTable) noteChange(e *entry, was given) {
	n.shard.noteChange("", e.name, history.Change{Was: was.variant, Is: e.chosen, First: was.first, Since: was.since})
}

// cured sends an unchanged resource again to the clients that were sent an error of it, since they
// remember the error until the resource arrives (ABS-7).
func (e *entry) cured(rev uint64) {
	for r := e.head; r != nil; r = r.next {
		if r.lastError() != nil {
			r.markDirty(rev)
		}
	}
}

// renewed is called when only the TTL has changed. Clients that understand TTLs are sent the new
// one. From other clients the body may have been withheld (RELAY-51), so they are looked at again
// if they were sent an error.
func (e *entry) renewed(rev uint64) {
	for r := e.head; r != nil; r = r.next {
		if r.sub.ttl {
			r.flags |= heartbeatDue
		}
		if r.sub.ttl || r.lastError() != nil {
			r.touched(rev)
		}
	}
}

// due makes sure that each client which is subscribed while a removal is stated will be sent the
// removal, whatever becomes of the upstream stream. The removal may have to wait: a SotW client
// that came back is answered once everything that it names is known (RELAY-7).
func (e *entry) due() {
	for r := e.head; r != nil; r = r.next {
		if r.is(owed|holds) && !r.heldBack() {
			r.flags = r.flags&^claimed | holds
		}
	}
}

// remembersError reports whether the last that the client was sent of the name is an error that is
// no absence. It remembers that until it is told otherwise (ABS-7).
func (r *record) remembersError() bool {
	f := r.lastError()
	return f != nil && !r.sub.shard.group.origin.ends(f)
}

// notify marks the clients of a name.
func (e *entry) notify(rev uint64) {
	for r := e.head; r != nil; r = r.next {
		r.touched(rev)
	}
}
