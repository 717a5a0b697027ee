package downstream

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// ClientStatus is the state of one client stream, as a copy.
type ClientStatus struct {
	Stream uint64 `json:"stream"` // unique in this process
	Peer   string `json:"peer"`   // the client's address
	Origin string `json:"origin"` // the listener's own
	Group  string `json:"group"`  // key of the client's group at Origin; empty before the first request
	// Dedicated are the groups that only this stream uses, as origin/key (RELAY-29).
	Dedicated   []string `json:"dedicated_groups,omitempty"`
	NodeID      string   `json:"node_id"`
	NodeCluster string   `json:"node_cluster"`
	// Identity is who the client is by its connection, as package identity writes it.
	Identity string         `json:"identity,omitempty"`
	Dialect  string         `json:"dialect"` // "delta" or "sotw"
	Since    time.Time      `json:"since"`
	Types    []TypeStatus   `json:"-"` // in the order of writing (ORD-1)
	Waits    []metrics.Wait `json:"-"` // what the stream waits for, whatever the type
	// NodeChanges counts later requests with a different node, which is ignored (STREAM-3).
	NodeChanges int `json:"-"`
}

// TypeStatus is the state of one type of a client stream.
type TypeStatus struct {
	TypeURL  string `json:"type_url"`
	Names    int    `json:"names"` // subscriptions by name
	Wildcard bool   `json:"wildcard"`
	// Parts are Names and Wildcard by origin and parameters. Nil if all are at the listener's own
	// origin and without parameters.
	Parts []PartStatus `json:"origins,omitempty"`
	// SentVersion and AckedVersion are version_info in SotW. Empty in delta, and for secrets
	// (RELAY-76).
	SentVersion  string `json:"sent_version,omitempty"`
	AckedVersion string `json:"acked_version,omitempty"`
	Responses    uint64 `json:"responses"` // written; a delta answer in several messages counts once
	// InFlightSince is when the oldest unanswered response was written; zero: there is none.
	InFlightSince time.Time `json:"in_flight_since,omitzero"`
	// UnsyncedSince is since when the client has not accepted the current state; zero: it has.
	UnsyncedSince time.Time `json:"unsynced_since,omitzero"`
	// Behind is the origin whose change it has not accepted; if it has, the first that it asks.
	Behind   string `json:"-"`
	Nacks    uint64 `json:"nacks"`
	LastNack Nack   `json:"-"` // the last one; zero: none
	// Nacking: the client refused the response that it judged last.
	Nacking bool `json:"nacking,omitempty"`
	// Refused counts names that were refused without asking an origin.
	Refused uint64 `json:"refused_names,omitempty"`
	// Held counts answers that were held back for the order between types (ORD-5).
	Held uint64 `json:"held,omitempty"`
	// Cold counts waits of cold_wait with nothing to serve that did not end the stream (RELAY-8).
	Cold uint64 `json:"cold,omitempty"`
	// Waits is what the type waits for. It may wait for several things.
	Waits []metrics.Wait `json:"-"`
	// ByName is what has become of the names; only Explain counts them, for a type as a whole.
	ByName relay.Names `json:"-"`
}

// PartStatus is what a type of a client stream is subscribed to at one origin with one map of
// dynamic parameters.
type PartStatus struct {
	Origin   string `json:"origin"`
	Group    string `json:"group"`
	Names    int    `json:"names"`
	Wildcard bool   `json:"wildcard"`
	Params   string `json:"parameters,omitempty"` // canonical; "" if there are none
	Located  bool   `json:"located,omitempty"`    // by locators, not by plain names
}

// Nack is a client's rejection of a response (RELAY-34). Message is the client's text, for people
// only.
type Nack struct {
	Nonce, Message string
	At             time.Time
}

// Clients returns the state of every stream, oldest first.
func (s *Server) Clients() []ClientStatus {
	streams, now := s.list(), time.Now()
	clients := make([]ClientStatus, len(streams))
	for i, st := range streams {
		clients[i] = st.status(now)
	}
	return clients
}

// status is the state of the stream. It locks the session.
func (st *stream) status(now time.Time) ClientStatus {
	c := st.session.status(now)
	c.Stream, c.Peer = st.id, st.address()
	c.Waits = append(c.Waits, st.waits(now)...)
	return c
}

// Picture fills in the client side of p at time now.
func (s *Server) Picture(now time.Time, p *metrics.Picture) {
	subs := map[string]map[string]int{"delta": {}, "sotw": {}}
	streams := map[string]int{}
	var oldest time.Time
	if p.Waiting == nil {
		p.Waiting = map[metrics.WaitReason]int{}
	}
	for _, st := range s.list() {
		c := st.status(now)
		streams[c.Dialect]++
		count(p, c.Waits)
		unsynced := false
		for i := range c.Types {
			t := &c.Types[i]
			count(p, t.Waits)
			subs[c.Dialect][t.TypeURL] += t.Names
			if t.Wildcard {
				subs[c.Dialect][t.TypeURL]++
			}
			late := time.Duration(-1) // nothing is
			if at := t.UnsyncedSince; !at.IsZero() {
				unsynced, late = true, max(now.Sub(at), 0)
				if oldest.IsZero() || at.Before(oldest) {
					oldest = at
				}
			}
			p.Age(t.Behind, t.TypeURL, late)
		}
		if unsynced {
			p.Unsynced++
		}
	}
	p.Connections = s.conns.count()
	p.Waiting[metrics.WaitCalmed] += int(s.greeting.Load())
	for _, dialect := range []string{"delta", "sotw"} {
		p.Dialects = append(p.Dialects, metrics.DialectPicture{
			Dialect: dialect, Streams: streams[dialect], Subscriptions: subs[dialect],
		})
	}
	if !oldest.IsZero() {
		p.Lag = max(p.Lag, now.Sub(oldest))
	}
}

// count counts what something waits for, each reason once.
func count(p *metrics.Picture, waits []metrics.Wait) {
	for i := range waits {
		if !slices.ContainsFunc(waits[:i], func(w metrics.Wait) bool { return w.Reason == waits[i].Reason }) {
			p.Waiting[waits[i].Reason]++
		}
	}
}

// status returns the session's part of a ClientStatus. It locks the session.
func (s *session) status(now time.Time) ClientStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := ClientStatus{
		Origin: s.cfg.origin.Name(), NodeID: s.nodeID, NodeCluster: s.nodeCluster, Dialect: s.dialect(), Identity: s.from.who(),
		Since: s.opened, NodeChanges: s.nodeChanges, Waits: s.streamWaits(),
	}
	if s.group != nil {
		c.Group = s.group.Key()
	}
	for o, g := range s.dedicated {
		c.Dedicated = append(c.Dedicated, o.Name()+"/"+g.Key())
	}
	slices.Sort(c.Dedicated)
	c.Types = make([]TypeStatus, 0, len(s.types))
	for _, st := range s.types {
		c.Types = append(c.Types, st.status(s.cfg.origin, s.delta))
		c.Types[len(c.Types)-1].Waits = s.waits(now, st)
	}
	return c
}

func (st *streamType) status(own *relay.Origin, delta bool) TypeStatus {
	t := TypeStatus{
		TypeURL: st.typeURL, SentVersion: st.sentVersion, AckedVersion: st.ackedVersion, Responses: st.responses,
		UnsyncedSince: st.lacksSince(), Behind: st.behind(own).Name(), Nacks: st.nacks, LastNack: st.nacked.last(), Nacking: st.nacking,
		Refused: st.refusedCount, Held: st.heldCount, Cold: st.coldCount,
	}
	if delta || xds.IsSecret(st.typeURL) {
		t.SentVersion, t.AckedVersion = "", "" // versions are for people (VER-10), and here they would be digests of secrets (RELAY-76)
	}
	if len(st.unanswered) > 0 {
		t.InFlightSince = st.unanswered[0].at
	}
	if st.sub != nil {
		st.sub.status(own, &t)
	}
	return t
}

// behind is the origin whose change the client has not accepted. If it has accepted all, or it is
// not known, it is the first that it asks.
func (st *streamType) behind(own *relay.Origin) *relay.Origin {
	switch {
	case st.sub == nil || len(st.sub.sources) == 0:
		return own
	case len(st.unanswered) > 0 && st.unanswered[0].dated.from != nil:
		return st.unanswered[0].dated.from
	case !st.sub.lackedSince.IsZero():
		return st.sub.sources[st.sub.lacked].group.Origin()
	}
	for i := range st.sub.sources {
		if _, waits, _ := st.sub.Awaits(i); waits {
			return st.sub.sources[i].group.Origin()
		}
	}
	return st.sub.sources[0].group.Origin()
}
