package admin

import (
	"encoding/json"
	"time"

	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
)

// Origin is how an origin stands.
type Origin struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"` // grpc or files
	Default bool   `json:"default"`
	// Source is the server's address, or the path of the files.
	Source string `json:"source"`
	// Reached: at least once since the start.
	Reached   bool      `json:"reached"`
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since,omitzero"` // of the last change of connected
	// LastProof is when it last answered anything, LastUpdate when it last
	// changed something.
	LastProof  time.Time `json:"last_proof,omitzero"`
	LastUpdate time.Time `json:"last_update,omitzero"`
	// Error is the last one, which may be over.
	Error    string    `json:"error,omitempty"`
	ErrorAt  time.Time `json:"error_at,omitzero"`
	Failures int       `json:"failures,omitempty"` // since the last answer

	Streams   int `json:"streams"` // open now
	Groups    int `json:"groups"`
	Views     int `json:"views"`
	Resources int `json:"resources"`
	Bytes     int `json:"bytes"`
	Stale     int `json:"stale"` // resources no open stream vouches for

	// Frozen is since when clients are kept at what they have; zero: they are not.
	// FrozenChanges is how many resources it has another content of, or none.
	Frozen        time.Time `json:"frozen,omitzero"`
	FrozenChanges int       `json:"frozen_changes,omitempty"`
	// HeldRemovals are resources that it stated gone in a mass removal, and that
	// are kept until HeldUntil (RELAY-97).
	HeldRemovals int       `json:"held_removals,omitempty"`
	HeldUntil    time.Time `json:"held_until,omitzero"`

	NACKs []OriginNACK `json:"nacks,omitempty"` // ours, of its responses
	// Quarantined are the types it ends streams for, which are asked on streams of
	// their own, ever more rarely, until they are answered (RELAY-92).
	Quarantined []QuarantinedType `json:"quarantined,omitempty"`
	Files       []File            `json:"files,omitempty"`
}

// Snapshot is how the last known good on disk stands.
type Snapshot = snapshot.Status

// OriginNACK is what weir refused of an origin, by group and type.
type OriginNACK struct {
	Group  string `json:"group"`
	Type   string `json:"type"`
	Count  uint64 `json:"count"`
	Reason string `json:"reason"` // of the last
}

// QuarantinedType is a type that the origin ends streams for, in one group.
type QuarantinedType struct {
	Group   string    `json:"group"`
	Type    string    `json:"type"`
	TypeURL string    `json:"type_url"`
	Since   time.Time `json:"since"`
	Refused int       `json:"refused"` // streams of its own, in a row
	Reason  string    `json:"reason"`  // of the last
}

// File is how one file of a files origin stands.
type File struct {
	Path      string    `json:"path"`
	Loaded    time.Time `json:"loaded,omitzero"`
	Resources int       `json:"resources"`
	Error     string    `json:"error,omitempty"`
}

// group is how a group stands.
type group struct {
	Origin string `json:"origin"`
	Key    string `json:"key"`
	// Dedicated: to one client stream, whose own node is presented (RELAY-29).
	Dedicated bool `json:"dedicated"`
	// What is presented upstream. Node, the whole of it, is in lists only.
	NodeID  string          `json:"node_id"`
	Cluster string          `json:"node_cluster"`
	Node    json.RawMessage `json:"node,omitempty"`
	Clients int             `json:"clients"` // streams; none while the group lingers
	// Maps of dynamic parameters in use, the empty one not counted.
	ParameterSets int         `json:"parameter_sets,omitempty"`
	Revision      uint64      `json:"revision"`
	Main          lane        `json:"main_lane"`
	Side          lane        `json:"side_lane"`
	Types         []groupType `json:"types"`
}

type lane struct {
	Wanted bool `json:"wanted"`
	Open   bool `json:"open"`
}

type groupType struct {
	Type    string `json:"type"`
	TypeURL string `json:"type_url"`
	// Wildcard: everything is wanted upstream; Settled: that set is complete.
	Wildcard bool `json:"wildcard"`
	Settled  bool `json:"settled"`
	Members  int  `json:"members"` // of that set, and of collections
	// Collections are globs, and namespaces of virtual hosts, wanted upstream.
	Collections int `json:"collections"`
	Names       int `json:"names"` // wanted by name upstream
	Absent      int `json:"absent"`
	Waiting     int `json:"waiting"` // asked and unanswered
	// Resources held, of both kinds.
	Resources int `json:"resources"`
	Bytes     int `json:"bytes"`
	// Of the wildcard's set, and of what is held by name: equal where equal things are held, whichever replica it is.
	Digest      string `json:"digest,omitempty"`
	NamesDigest string `json:"names_digest,omitempty"`
	Stale       int    `json:"stale"`
	// As in Origin.
	HeldRemovals  int       `json:"held_removals,omitempty"`
	HeldUntil     time.Time `json:"held_until,omitzero"`
	FrozenChanges int       `json:"frozen_changes,omitempty"`
	Views         int       `json:"views"`
	Tombstones    int       `json:"tombstones"`
	Unrequested   uint64    `json:"unrequested"`
	Unanswered    uint64    `json:"unanswered"`
}

func groupOf(s *relay.GroupStatus) group {
	g := group{
		Origin: s.Origin, Key: s.Key, Dedicated: s.Dedicated, NodeID: s.Node.GetId(), Cluster: s.Node.GetCluster(),
		Clients: s.Clients, ParameterSets: s.ParameterSets, Revision: s.Revision,
		Main: lane(s.Lanes[0]), Side: lane(s.Lanes[1]), Types: make([]groupType, 0, len(s.Types)),
	}
	for i := range s.Types {
		t := &s.Types[i]
		g.Types = append(g.Types, groupType{
			Type: metrics.ShortName(t.TypeURL), TypeURL: t.TypeURL, Wildcard: t.Wildcard, Settled: t.Settled,
			Members: t.Members, Collections: t.Collections, Names: t.Names, Absent: t.Absent, Waiting: t.Waiting, Resources: t.Bodies, Bytes: t.Bytes,
			Digest: s.Digests[i].Set, NamesDigest: s.Digests[i].Names,
			Stale: t.Stale, HeldRemovals: t.Held, HeldUntil: t.Until, FrozenChanges: t.Frozen, Views: t.Views, Tombstones: t.Tombstones, Unrequested: t.Unrequested, Unanswered: t.Unanswered,
		})
	}
	return g
}

// Sum adds up what the groups hold, and lists what of them is in quarantine.
func (o *Origin) Sum(groups []relay.GroupStatus) {
	o.Groups = len(groups)
	for i := range groups {
		for _, t := range groups[i].Apart {
			if t.Quarantined.IsZero() {
				continue // only suspect
			}
			o.Quarantined = append(o.Quarantined, QuarantinedType{
				Group: groups[i].Key, Type: metrics.ShortName(t.TypeURL), TypeURL: t.TypeURL,
				Since: t.Quarantined, Refused: t.Refused, Reason: t.Reason,
			})
		}
		for j := range groups[i].Types {
			t := &groups[i].Types[j]
			o.Views += t.Views
			o.Resources += t.Bodies
			o.Bytes += t.Bytes
			o.Stale += t.Stale
			o.FrozenChanges += t.Frozen
			o.HeldRemovals += t.Held
			if t.Until.After(o.HeldUntil) {
				o.HeldUntil = t.Until
			}
		}
	}
}

// client is how a client stream stands.
type client struct {
	Stream      uint64       `json:"stream"`
	Peer        string       `json:"peer"`
	NodeID      string       `json:"node_id"`
	NodeCluster string       `json:"node_cluster"`
	Origin      string       `json:"origin"`
	Group       string       `json:"group"`
	Dedicated   []string     `json:"dedicated_groups,omitempty"` // as origin/key
	Dialect     string       `json:"dialect"`
	Since       time.Time    `json:"since"`
	Synced      bool         `json:"synced"` // every type is
	Types       []clientType `json:"types"`
}

type clientType struct {
	Type     string `json:"type"`
	TypeURL  string `json:"type_url"`
	Wildcard bool   `json:"wildcard"`
	Names    int    `json:"names"`
	// Origins has the names by origin, if some are another's than the client's.
	Origins []clientPart `json:"origins,omitempty"`
	// The versions are of SotW; delta has none for a whole type.
	SentVersion   string    `json:"sent_version,omitempty"`
	AckedVersion  string    `json:"acked_version,omitempty"`
	Responses     uint64    `json:"responses"`
	InFlightSince time.Time `json:"in_flight_since,omitzero"`
	UnsyncedSince time.Time `json:"unsynced_since,omitzero"`
	NACKs         uint64    `json:"nacks"`
	Refused       uint64    `json:"refused_names,omitempty"`
	Held          uint64    `json:"held,omitempty"`
	Cold          uint64    `json:"cold,omitempty"`
}

// clientPart is what a client is subscribed to of one type at one origin with one map of dynamic parameters.
type clientPart struct {
	Origin   string `json:"origin"`
	Group    string `json:"group"`
	Params   string `json:"params,omitempty"`  // "key"="value", in order
	Located  bool   `json:"located,omitempty"` // by locators
	Wildcard bool   `json:"wildcard"`
	Names    int    `json:"names"`
}

func clientOf(s *downstream.ClientStatus) client {
	c := client{
		Stream: s.Stream, Peer: s.Peer, NodeID: s.NodeID, NodeCluster: s.NodeCluster, Origin: s.Origin, Group: s.Group,
		Dedicated: s.Dedicated, Dialect: s.Dialect, Since: s.Since, Synced: true, Types: make([]clientType, 0, len(s.Types)),
	}
	for i := range s.Types {
		t := &s.Types[i]
		c.Synced = c.Synced && t.UnsyncedSince.IsZero()
		c.Types = append(c.Types, clientType{
			Type: metrics.ShortName(t.TypeURL), TypeURL: t.TypeURL, Wildcard: t.Wildcard, Names: t.Names,
			SentVersion: t.SentVersion, AckedVersion: t.AckedVersion, Responses: t.Responses,
			InFlightSince: t.InFlightSince, UnsyncedSince: t.UnsyncedSince, NACKs: t.Nacks,
			Refused: t.Refused, Held: t.Held, Cold: t.Cold,
		})
		for _, x := range t.Parts {
			last := &c.Types[i]
			last.Origins = append(last.Origins, clientPart{
				Origin: x.Origin, Group: x.Group, Params: x.Params, Located: x.Located, Wildcard: x.Wildcard, Names: x.Names,
			})
		}
	}
	return c
}

// clientNACK is the last refusal of one type by one client stream.
type clientNACK struct {
	Stream  uint64    `json:"stream"`
	Peer    string    `json:"peer"`
	NodeID  string    `json:"node_id"`
	Origin  string    `json:"origin"`
	Group   string    `json:"group"`
	Type    string    `json:"type"`
	TypeURL string    `json:"type_url"`
	Count   uint64    `json:"count"`
	Nonce   string    `json:"nonce"`
	Message string    `json:"message"` // the client's
	At      time.Time `json:"at"`
}

func nacksOf(s *downstream.ClientStatus) []clientNACK {
	var all []clientNACK
	for i := range s.Types {
		if t := &s.Types[i]; t.Nacks > 0 {
			all = append(all, clientNACK{
				Stream: s.Stream, Peer: s.Peer, NodeID: s.NodeID, Origin: s.Origin, Group: s.Group,
				Type: metrics.ShortName(t.TypeURL), TypeURL: t.TypeURL, Count: t.Nacks,
				Nonce: t.LastNack.Nonce, Message: t.LastNack.Message, At: t.LastNack.At,
			})
		}
	}
	return all
}

// originNACK is an OriginNACK with its origin.
type originNACK struct {
	Origin string `json:"origin"`
	OriginNACK
}
