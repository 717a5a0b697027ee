package relay

import (
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// Towards a SotW origin a request names what has subscribers now, and nothing else (RELAY-99): an
// origin may answer a type only if every name exists, and a name too many would make it silent for
// all clients. So when the last client of a name leaves, the name leaves the request, and linger
// keeps the entry alone. Such an entry is not live: nobody says when it changes. Whoever comes for
// it is given its body at once, as during an outage (RELAY-2), and the name is asked again; the
// answer corrects it. An origin that finds that it has sent this content on the stream already may
// stay silent, which means that it is current. An origin that has removed the resource meanwhile
// may stay silent, too: go-control-plane's linear cache does. Where a list is the full state, a new
// stream tells the two apart.
//
// Between two polls a name has no subscriber, and stays in the request while it lingers (REST-10):
// else two pollers would take each other's names out of it, and an origin that answers only if all
// its names are asked would answer neither.
//
// The last names of a type stay in the request while they linger: there is nobody whom they could
// harm, and an empty list is a wildcard to many servers. They leave it with the next name that is
// asked.

// lists reports whether the name belongs into the requests.
func (k *store) lists(e *entry) bool {
	return e.clients > 0 || !e.lingerAt.IsZero() && (!k.group.origin.config().SotW || k.polled(e))
}

// polls notes that a client has polled the name, and comes again.
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

// lapse has a name that lingers leave the request.
func (n *namedTable) lapse(e *entry) {
	if !n.shard.lists(e) && n.isAsked(e) {
		n.bequeath(e)
		n.look(e)
	}
}

// askLapsedAgain looks at names that came back into the request and that a full answer leaves
// out. It may have been under way before they were asked again, so the names are asked once more,
// and the next answer is believed. An origin that has sent such a list may have no more to say; its
// silence is that of a name which came back (lapsedSilent).
func (n *namedTable) askLapsedAgain(gen uint32) {
	for _, e := range n.entries {
		if e.hasLeft() && e.asksOn(gen) && len(e.variants) > 0 {
			e.onLeftOut()
			n.look(e)
		}
	}
}

// lapsedSilent looks at a name that came back into the request and of which the origin said
// nothing for patience. Of a type whose lists are the full state it is asked on a new stream, whose
// first list has the name or has it no more. The lane is opened anew for it once in refreshPause at
// most; until then the name waits.
func (n *namedTable) lapsedSilent(e *entry) {
	if !e.cameBack() || !xds.FullState(n.shard.typeURL) {
		return
	}
	if l := n.shard.lane(n.lane); l.live(e.asked()) && !l.fetch(n.shard.now) {
		n.unheard = append(n.unheard, unheard{e, e.asked(), e.asks, n.shard.now})
	}
}
