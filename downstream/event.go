package downstream

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/cursor"
	"github.com/weir-xds/weir/relay/xds"
	"go.uber.org/zap"
)

// EventKind is what happens to a client stream. It is a closed set.
type EventKind string

// The kinds, in the order in which they happen to a stream first.
const (
	EventOpened     EventKind = "opened"
	EventJoined     EventKind = "joined"     // its node is known, and so its group
	EventSubscribed EventKind = "subscribed" // the client changed what it subscribes to
	EventWaits      EventKind = "waits"      // an answer is held back
	EventSent       EventKind = "sent"       // an answer is written to the client
	EventAcked      EventKind = "acked"
	EventNacked     EventKind = "nacked"
	EventEnded      EventKind = "ended"
)

// Event is something in the life of one client stream, for people and traces. What comes from
// clients is cut. Of secrets there are names, and no versions (RELAY-76). Which fields are set
// depends on Kind; those before TypeURL always are, as far as they are known.
type Event struct {
	At     time.Time
	Kind   EventKind
	Stream uint64
	NodeID string
	Peer   string

	TypeURL string
	// Version is of the answer, in state of the world; Nonce that of the last of its messages.
	Version, Nonce string
	// Number is that of the answer on its stream. Later ones have higher numbers.
	Number uint64
	// Of EventJoined.
	Identity, NodeCluster, Dialect, Origin, Group string
	// Of EventSubscribed: the first few names, how many were subscribed and unsubscribed, or in
	// state of the world how many are in the list, and whether all are subscribed.
	Names               []string
	Named, Unsubscribed int
	Wildcard            bool
	// Of EventSent.
	Resources, Removed, Errors, Messages, Bytes int
	// Waited is how long it took: of EventSent since the oldest change in the answer came from the
	// origin; of EventAcked and EventNacked since the answer was written; of EventEnded since the
	// stream was opened. Held is how much of that the answer was held back, and Why what for, as a
	// wait of package metrics; of EventEnded why, as in the metric of ended streams.
	Waited, Held time.Duration
	Why          string
	// Text is what the client says of a NACK, or how the stream ended.
	Text string

	// Source is the group that an answer came from; nil if there are several. First and Rev are the
	// revisions of the oldest and the newest change in it.
	Source     *relay.Group
	First, Rev uint64
}

// maxEventNames is how many names of a request an event has.
const maxEventNames = 5

// event notes an event, for the caller to tell once the session is unlocked.
func (s *session) event(now time.Time, kind EventKind, st *streamType) *Event {
	e := &Event{At: now, Kind: kind, NodeID: clip(s.nodeID, maxNodeShown)}
	if st != nil {
		e.TypeURL = clip(st.typeURL, maxBookedName)
	}
	s.notes = append(s.notes, note{event: e})
	return e
}

// looks finds out whether anybody wants to know what happens to the client. It is asked whenever
// something happens, and costs next to nothing.
func (s *session) looks() { s.telling = s.cfg.watchers.wants(s.nodeID) }

// eventJoined is the event of a client whose node is known.
func (s *session) eventJoined(now time.Time) {
	if s.looks(); !s.telling {
		return
	}
	e := s.event(now, EventJoined, nil)
	e.Identity, e.NodeCluster, e.Dialect = clip(s.from.who(), maxNodeShown), clip(s.nodeCluster, maxNodeShown), s.dialect()
	e.Origin, e.Group = s.cfg.origin.Name(), s.group.Key()
	e.Waited = now.Sub(s.opened)
}

// eventSubscribed is the event of a request that changes what the client subscribes to.
func (s *session) eventSubscribed(now time.Time, st *streamType, in *content) {
	if !s.telling {
		return
	}
	e := s.event(now, EventSubscribed, st)
	e.Named, e.Unsubscribed = in.names.n+len(in.locators), in.unsubscribe.n+len(in.leaving)
	for name := range in.names.values() {
		if len(e.Names) == maxEventNames {
			break
		}
		e.Names = append(e.Names, clip(string(name), maxBookedName))
	}
	for _, l := range in.locators {
		if len(e.Names) == maxEventNames {
			break
		}
		e.Names = append(e.Names, clip(l.GetName(), maxBookedName))
	}
	e.Wildcard = st.sub.wildcard()
}

// eventSent is the event of an answer that was divided into messages; a is nil if there are
// refusals alone.
func (s *session) eventSent(now time.Time, st *streamType, a *cursor.Answer, x *sent, refused int, out []*response) {
	e := s.eventWritten(now, st, refused, out)
	if a == nil {
		return
	}
	e.Errors, e.Removed = refused+len(a.Errors), len(a.Removed)
	if e.Resources = len(a.Changed) + len(a.Heartbeats); a.Whole {
		e.Resources = 0
		for _, list := range a.All {
			e.Resources += list.Len()
		}
	}
	if i := slices.IndexFunc(st.sub.sources, func(x source) bool { return x.number == a.Group }); i >= 0 {
		e.Source = st.sub.sources[i].group
		e.Rev = s.serving.targets[a.Group].Revision
		e.First = min(st.sub.sources[i].has+1, e.Rev) // what is owed for the first time is no change that it lacked
	}
	if x.dated.from != nil {
		e.Waited = now.Sub(s.opened) - x.dated.since
	}
	if !st.heldSince.IsZero() {
		e.Held, e.Why = now.Sub(st.heldSince), st.heldFor.String()
	}
}

// eventWritten is what the events of all answers have.
func (s *session) eventWritten(now time.Time, st *streamType, refused int, out []*response) *Event {
	e := s.event(now, EventSent, st)
	e.Messages, e.Errors, e.Nonce = len(out), refused, s.nonce(s.lastNonce)
	e.Number = s.lastNonce
	for _, r := range out {
		e.Bytes += r.size
	}
	if !s.delta {
		e.Version = s.shownVersion(st, st.sentVersion)
	}
	return e
}

// eventJudged is the event of an answer that was acknowledged or refused.
func (s *session) eventJudged(now time.Time, kind EventKind, st *streamType, x *sent) *Event {
	e := s.event(now, kind, st)
	e.Number, e.Nonce, e.Waited = x.last, s.nonce(x.last), now.Sub(x.at)
	if !s.delta {
		e.Version = s.shownVersion(st, x.version)
	}
	return e
}

// shownVersion is a version for people; that of secrets would be a digest of them.
func (s *session) shownVersion(st *streamType, version string) string {
	if xds.IsSecret(st.typeURL) {
		return ""
	}
	return clip(version, maxNodeShown)
}

// messages are what happened, in the words of the log.
var messages = map[EventKind]string{
	EventOpened:     "a client stream is open",
	EventJoined:     "a client has joined its group",
	EventSubscribed: "a client changed its subscriptions",
	EventWaits:      "an answer to a client is held back",
	EventSent:       "an answer is written to a client",
	EventAcked:      "a client acknowledged an answer",
	EventNacked:     "a client refused an answer",
	EventEnded:      "a client stream has ended",
}

// fields are the event's for the log.
func (e *Event) fields() []zap.Field {
	all := []zap.Field{zap.Uint64("stream", e.Stream), zap.String("client", e.NodeID), zap.String("peer", e.Peer)}
	text := func(key, value string) {
		if value != "" {
			all = append(all, zap.String(key, value))
		}
	}
	number := func(key string, n int) {
		if n != 0 {
			all = append(all, zap.Int(key, n))
		}
	}
	text("identity", e.Identity)
	text("cluster", e.NodeCluster)
	text("dialect", e.Dialect)
	text("origin", e.Origin)
	text("group", e.Group)
	text("type_url", e.TypeURL)
	text("version", e.Version)
	text("nonce", e.Nonce)
	if e.Kind == EventSubscribed {
		all = append(all, zap.Int("named", e.Named), zap.Bool("wildcard", e.Wildcard))
		if len(e.Names) > 0 {
			all = append(all, zap.Strings("names", e.Names))
		}
	}
	number("unsubscribed", e.Unsubscribed)
	if e.Kind == EventSent {
		all = append(all, zap.Int("resources", e.Resources), zap.Int("bytes", e.Bytes), zap.Int("messages", e.Messages))
	}
	number("removed", e.Removed)
	number("errors", e.Errors)
	if e.Waited > 0 {
		all = append(all, zap.Duration("after", e.Waited))
	}
	if e.Held > 0 {
		all = append(all, zap.Duration("held", e.Held))
	}
	text("why", e.Why)
	text("text", e.Text)
	return all
}
