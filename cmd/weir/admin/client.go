package admin

import (
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
)

// client is the state of a client stream.
type client struct {
	Stream      uint64    `json:"stream"`
	Peer        string    `json:"peer"`
	NodeID      string    `json:"node_id"`
	NodeCluster string    `json:"node_cluster"`
	Identity    string    `json:"identity,omitempty"` // by its connection
	Origin      string    `json:"origin"`
	Group       string    `json:"group"`
	Dedicated   []string  `json:"dedicated_groups,omitempty"` // as origin/key
	Dialect     string    `json:"dialect"`
	Since       time.Time `json:"since"`
	Synced      bool      `json:"synced"` // of all types
	// ParameterSets are the distinct parameter maps in use, not counting the empty one.
	ParameterSets int          `json:"parameter_sets,omitempty"`
	Types         []clientType `json:"types"`
	Waits         []wait       `json:"waits,omitempty"` // of the stream as a whole
}

// wait is what a client or a type of it waits for.
type wait struct {
	Reason string    `json:"reason"`
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"` // at the latest; missing: it has no such time
	Text   string    `json:"text,omitempty"` // in /explain alone
}

func waitsOf(all []metrics.Wait) (out []wait) {
	for _, w := range all {
		out = append(out, wait{Reason: w.Reason.String(), Since: w.Since, Until: w.Until})
	}
	return out
}

type clientType struct {
	Type     string `json:"type"`
	TypeURL  string `json:"type_url"`
	Wildcard bool   `json:"wildcard"`
	Names    int    `json:"names"`
	// Origins are the names by origin and parameters, if some are not the client's own origin's, or
	// have parameters: the first parts, or all with full=true.
	Origins []clientPart `json:"origins,omitempty"`
	LeftOut int          `json:"origins_left_out,omitempty"`
	// Versions of SotW; in delta a whole type has none.
	SentVersion   string    `json:"sent_version,omitempty"`
	AckedVersion  string    `json:"acked_version,omitempty"`
	Responses     uint64    `json:"responses"`
	InFlightSince time.Time `json:"in_flight_since,omitzero"`
	UnsyncedSince time.Time `json:"unsynced_since,omitzero"`
	NACKs         uint64    `json:"nacks"`
	// Nacking: it refused the response that it judged last, for the reason in Rejected.
	Nacking  bool      `json:"nacking,omitempty"`
	Rejected *rejected `json:"rejected,omitempty"`
	Refused  uint64    `json:"refused_names,omitempty"`
	Held     uint64    `json:"held,omitempty"`
	Cold     uint64    `json:"cold,omitempty"`
	Waits    []wait    `json:"waits,omitempty"`
}

// rejected is the last refusal of a type by a client.
type rejected struct {
	Message string    `json:"message"` // the client's
	At      time.Time `json:"at"`
}

// clientPart is what a client is subscribed to, of one type at one origin with one parameter map.
type clientPart struct {
	Origin string `json:"origin"`
	Group  string `json:"group"`
	// Parameters are the map as canonical text. Located: the client used locators; otherwise the
	// parameters are its node's.
	Parameters string `json:"parameters,omitempty"`
	Located    bool   `json:"located,omitempty"`
	Wildcard   bool   `json:"wildcard"`
	Names      int    `json:"names"`
}

func clientOf(s *downstream.ClientStatus, full bool) client {
	maps := map[string]bool{}
	c := client{
		Stream: s.Stream, Peer: s.Peer, NodeID: s.NodeID, NodeCluster: s.NodeCluster, Identity: s.Identity, Origin: s.Origin, Group: s.Group,
		Dedicated: s.Dedicated, Dialect: s.Dialect, Since: s.Since, Synced: true, Types: make([]clientType, 0, len(s.Types)), Waits: waitsOf(s.Waits),
	}
	for i := range s.Types {
		t := &s.Types[i]
		c.Synced = c.Synced && t.UnsyncedSince.IsZero()
		c.Types = append(c.Types, clientType{
			Type: metrics.ShortName(t.TypeURL), TypeURL: t.TypeURL, Wildcard: t.Wildcard, Names: t.Names,
			SentVersion: t.SentVersion, AckedVersion: t.AckedVersion, Responses: t.Responses,
			InFlightSince: t.InFlightSince, UnsyncedSince: t.UnsyncedSince, NACKs: t.Nacks,
			Refused: t.Refused, Held: t.Held, Cold: t.Cold, Waits: waitsOf(t.Waits),
		})
		last := &c.Types[i]
		if t.Nacking {
			last.Nacking, last.Rejected = true, &rejected{t.LastNack.Message, t.LastNack.At}
		}
		for _, x := range t.Parts {
			if x.Params != "" {
				maps[x.Params] = true
			}
			if !full && len(last.Origins) == shownMaps {
				last.LeftOut++
				continue
			}
			last.Origins = append(last.Origins, clientPart{
				Origin: x.Origin, Group: x.Group, Parameters: x.Params, Located: x.Located, Wildcard: x.Wildcard, Names: x.Names,
			})
		}
	}
	c.ParameterSets = len(maps)
	return c
}
