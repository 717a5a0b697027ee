package admin

import (
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
)

// shownMaps is how many parameter maps of a type or a client are listed by default.
const shownMaps = 10

// groupType is the state of a type of a group, summed over the parameter maps that it is asked
// with.
type groupType struct {
	Type    string `json:"type"`
	TypeURL string `json:"type_url"`
	typeState
	// ParameterSets is the number of those maps, not counting the empty one. Unless the empty map
	// is the only one, ByParameters has the first of them, or all with full=true.
	ParameterSets int       `json:"parameter_sets,omitempty"`
	ByParameters  []typeMap `json:"by_parameters,omitempty"`
}

// typeMap is the state of a type for one parameter map, as canonical text; "" is the empty map.
type typeMap struct {
	Parameters string `json:"parameters"`
	typeState
}

type typeState struct {
	// Wildcard: `*` is subscribed upstream. Settled: that set is complete.
	Wildcard bool `json:"wildcard"`
	Settled  bool `json:"settled"`
	Members  int  `json:"members"` // of that set, and of collections
	// Collections are the globs, and namespaces of virtual hosts, subscribed upstream.
	Collections int `json:"collections"`
	Names       int `json:"names"` // subscribed by name upstream
	Absent      int `json:"absent"`
	Waiting     int `json:"waiting"` // of Names, those without an answer
	// Resources held, as members and by name. One that several maps hold counts for each, except in
	// Bytes.
	Resources int `json:"resources"`
	Bytes     int `json:"bytes"`
	// Digests of the wildcard's set, and of what is held by name: equal on replicas that hold the
	// same. A sum over maps has none.
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

func stateOf(t *relay.TypeStatus, digest relay.TypeDigest) typeState {
	return typeState{
		Wildcard: t.Wildcard, Settled: t.Settled, Members: t.Members, Collections: t.Collections, Names: t.Names, Absent: t.Absent,
		Waiting: t.Waiting, Resources: t.Bodies, Bytes: t.Bytes, Digest: digest.Set, NamesDigest: digest.Names, Stale: t.Stale,
		HeldRemovals: t.Held, HeldUntil: t.Until, FrozenChanges: t.Frozen, Views: t.Views, Tombstones: t.Tombstones,
		Unrequested: t.Unrequested, Unanswered: t.Unanswered,
	}
}

// typesOf returns the types of a group. A type that is asked with several maps is settled if every
// subscribed set is.
func typesOf(s *inspect.GroupStatus, full bool) []groupType {
	all, digests := make([]groupType, 0, len(s.Types)), s.Digests()
	for i := range s.Types {
		t := &s.Types[i]
		state := stateOf(t, digests[i])
		if i == 0 || s.Types[i-1].TypeURL != t.TypeURL {
			all = append(all, groupType{Type: metrics.ShortName(t.TypeURL), TypeURL: t.TypeURL, typeState: state})
		} else {
			all[len(all)-1].add(&state, t.Shared)
		}
		g, others := &all[len(all)-1], i+1 < len(s.Types) && s.Types[i+1].TypeURL == t.TypeURL
		if t.Params != "" {
			g.ParameterSets++
		}
		if (others || t.Params != "") && (full || len(g.ByParameters) < shownMaps) {
			g.ByParameters = append(g.ByParameters, typeMap{t.Params, state})
		}
	}
	return all
}

// add adds the state for another map. shared are the bytes that it has in common with those before.
func (g *groupType) add(s *typeState, shared int) {
	switch {
	case g.Wildcard && s.Wildcard:
		g.Settled = g.Settled && s.Settled
	case s.Wildcard:
		g.Settled = s.Settled
	}
	g.Wildcard = g.Wildcard || s.Wildcard
	g.Members += s.Members
	g.Collections += s.Collections
	g.Names += s.Names
	g.Absent += s.Absent
	g.Waiting += s.Waiting
	g.Resources += s.Resources
	g.Bytes += s.Bytes - shared
	g.Digest, g.NamesDigest = "", ""
	g.Stale += s.Stale
	g.HeldRemovals += s.HeldRemovals
	if s.HeldUntil.After(g.HeldUntil) {
		g.HeldUntil = s.HeldUntil
	}
	g.FrozenChanges += s.FrozenChanges
	g.Views += s.Views
	g.Tombstones += s.Tombstones
	g.Unrequested += s.Unrequested
	g.Unanswered += s.Unanswered
}
