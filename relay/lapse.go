package relay

import (
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// A SotW request names only what has subscribers now (RELAY-99). Some origins answer a type only if
// every name exists, so a stale name in the request could make them silent for all clients. When
// the last client of a name leaves, the name leaves the request, and linger keeps the entry alone.
// Such an entry has lapsed: no stream reports its changes. The name is asked again when a client
// subscribes to it, and the client waits for the answer (RELAY-4). While the origin is away it is
// sent the body that lingers. An origin that has sent this content on the stream already may stay
// silent for 15 s, which means that the body is current. But an origin that has removed the
// resource meanwhile may stay silent, too: go-control-plane's linear cache does. Where a list is
// the full state, a new stream tells the two cases apart.
//
// Between two polls a name has no subscriber, and stays in the request while it lingers (REST-10).
// Otherwise two pollers would take each other's names out of it, and an origin that answers only if
// all its names are asked would answer neither.
//
// The last names of a type stay in the request while they linger. They can harm no other name, and
// an empty list is a wildcard to many servers. They leave the request when the next name is asked.

// lists reports whether the name belongs in the requests.
func (k *store) lists(e *entry) bool {
	return e.clients > 0 || !e.lingerAt.IsZero() && (!k.group.config().SotW || k.polled(e))
}

// polls notes that a client polls the name, and will come again.
func (n *namedTable) polls(e *entry) {
	if n.polled == nil {
		n.polled = map[*entry]bool{}
	}
	n.polled[e] = true
}

// polled reports whether clients poll the name.
func (k *store) polled(e *entry) bool {
	return slices.ContainsFunc(k.all, func(s *shard) bool { return s.named.polled[e] })
}

// listsAny reports whether any name of the type belongs into the requests.
func (k *store) listsAny() bool {
	for _, s := range k.all {
		for _, e := range s.named.entries {
			if k.lists(e) {
				return true
			}
		}
	}
	return false
}

// lapse takes a name that lingers out of the request.
func (n *namedTable) lapse(e *entry) {
	if !n.shard.lists(e) && n.isAsked(e) {
		n.look(e)
	}
}

// believeNext is called for a full answer that leaves out names which came back into the request on
// this stream. It may have been made before, and so may each of the next: a request has no answer
// that is known to be its own. So the lane is reopened, and the first list on the new stream is
// believed, as its request had all names (RELAY-99, ABS-5).
func (n *namedTable) believeNext(gen uint32) {
	for _, e := range n.entries {
		if e.hasLeft() && e.asksOn(gen) && len(e.variants) > 0 {
			n.shard.lane(n.lane).fetch(n.shard.now) // if that is too early, lapsedSilent follows
			return
		}
	}
}

// lapsedSilent is for a name that came back into the request and was not answered for patience. If
// lists of the type are the full state, the lane is reopened, and the first list on the new stream
// decides whether the name exists. A lane is reopened for this once in refreshPause at most. Until
// then the name waits.
func (n *namedTable) lapsedSilent(e *entry) {
	if !e.hasLeft() || !xds.FullState(n.shard.typeURL) {
		return
	}
	if l := n.shard.lane(n.lane); l.live(e.asked()) && !l.fetch(n.shard.now) {
		n.unheard = append(n.unheard, unheard{e, e.asked(), e.asks, n.shard.now})
	}
}

// waitsForOrigin reports whether a body that may be old is held back, since a stream to the origin
// is open, or is just being opened anew (RELAY-4). Where somebody decides what clients have, as in
// a freeze, that is not the origin's present state, and nothing waits for it.
func (n *namedTable) waitsForOrigin(e *entry) bool {
	g, l := n.shard.group, n.shard.lane(n.lane)
	return e.isOld() && (l.gen.Load() != 0 || l.reopen.Load()) && g.origin.frozen.Load() == nil && g.hold.Load() == nil
}

// noteCurrent marks the clients that waited for the origin to speak of a name, which it has.
func (n *namedTable) noteCurrent(e *entry, wasOld bool) {
	if wasOld && !e.isOld() {
		e.markRecords(n.shard.rev)
	}
}
