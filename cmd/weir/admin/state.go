package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/weir-xds/weir/cmd/weir/canary"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
)

// Origin is the state of an origin.
type Origin struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"` // grpc, files or rest
	Default bool   `json:"default"`
	// Source is the server's address, or the path of the files.
	Source string `json:"source"`
	// Reached: it has answered at least once since the start.
	Reached   bool      `json:"reached"`
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since,omitzero"` // of the last change of Connected
	// LastProof is the time of the last response, LastUpdate of the last change.
	LastProof  time.Time `json:"last_proof,omitzero"`
	LastUpdate time.Time `json:"last_update,omitzero"`
	// Error is the last one, and ErrorAt its time, or since when a directory has it; empty once it
	// is over.
	Error    string    `json:"error,omitempty"`
	ErrorAt  time.Time `json:"error_at,omitzero"`
	Failures int       `json:"failures,omitempty"` // since the last response

	Streams int `json:"streams"`        // open
	Wanted  int `json:"wanted_streams"` // needed by what clients are subscribed to
	// Queued is how many of them wait for their turn to be opened (limits.new_groups_per_second).
	Queued int `json:"queued_streams,omitempty"`
	Groups int `json:"groups"`
	// Dedicated is the number of groups of one client stream (RELAY-29).
	Dedicated int `json:"dedicated_groups,omitempty"`
	// Differing is the number of groups whose members differ in a field that control planes tailor
	// by, though group_by leaves it out.
	Differing int `json:"differing_groups,omitempty"`
	// ParameterSets are the parameter maps in use, counted per group, not counting the empty one.
	ParameterSets int `json:"parameter_sets,omitempty"`
	Views         int `json:"views"`
	// Resources are the distinct names of each type that have content. Copies counts each as often
	// as it is held: in every group, as a member and by name, and for each parameter map.
	Resources int `json:"resources"`
	Copies    int `json:"copies"`
	Bytes     int `json:"bytes"`
	Stale     int `json:"stale"` // of Resources, those that no open stream vouches for
	// StaleCopies are those copies.
	StaleCopies int `json:"-"`
	// Revisions is the sum of the groups' revisions, which grow with each change.
	Revisions uint64 `json:"revisions"`

	// Frozen is since when clients are kept at what they have; zero: they are not. FrozenBy says by
	// whom: config, operator. FrozenChanged is when an operator last froze or unfroze it.
	// FrozenChanges is the number of resources that the origin has changed or removed.
	Frozen        time.Time `json:"frozen,omitzero"`
	FrozenBy      []string  `json:"frozen_by,omitempty"`
	FrozenChanged time.Time `json:"frozen_changed,omitzero"`
	FrozenChanges int       `json:"frozen_changes,omitempty"`
	// Rollback is which groups an operator has held at an earlier state; nil: none.
	Rollback *Rollback `json:"rollback,omitempty"`
	// Canary is how the canary gate of each group stands; empty: the origin has no canaries.
	Canary        []canary.Status `json:"canary,omitempty"`
	CanaryLeftOut int             `json:"canary_left_out,omitempty"` // how many more there are
	// HeldRemovals are resources of a mass removal that is held back until HeldUntil (RELAY-97).
	HeldRemovals int       `json:"held_removals,omitempty"`
	HeldUntil    time.Time `json:"held_until,omitzero"`

	NACKs        []OriginNACK `json:"nacks,omitempty"` // ours, of its responses
	NACKsLeftOut int          `json:"nacks_left_out,omitempty"`
	// Slow are the types that it was asked for more than five seconds ago, on a stream that is
	// open, and that clients wait for. Those that have waited longest come first.
	Slow      []SlowType `json:"slow,omitempty"`
	Questions []Question `json:"-"` // those of Slow are taken from them
	// Silent are groups whose node it has never answered on the open stream, the longest first, and
	// SilentGroups is how many there are.
	Silent       []Silence `json:"silent,omitempty"`
	SilentGroups int       `json:"silent_groups,omitempty"`
	// Quarantined are the types that it ends streams for. They are asked on streams of their own,
	// ever more rarely, until they are answered (RELAY-92).
	Quarantined        []QuarantinedType `json:"quarantined,omitempty"`
	QuarantinedLeftOut int               `json:"quarantined_left_out,omitempty"`
	Files              []File            `json:"files,omitempty"`
	Fallback           *Fallback         `json:"fallback,omitempty"` // nil: there is none
}

// Fallback is the state of an origin's fallback.
type Fallback struct {
	Kind   string `json:"kind"`   // files
	Source string `json:"source"` // path
	// Ready: it can stand in. Serving is the number of its resources that clients have, counted per
	// group.
	Ready   bool      `json:"ready"`
	Serving int       `json:"serving"`
	Error   string    `json:"error,omitempty"`
	ErrorAt time.Time `json:"error_at,omitzero"`
	Files   []File    `json:"files,omitempty"`
}

// Snapshot is the state of the snapshot.
type Snapshot = snapshot.Status

// OriginNACK says what weir rejected of an origin, by group and type.
type OriginNACK struct {
	Group  string `json:"group"`
	Type   string `json:"type"`
	Count  uint64 `json:"count"`
	Reason string `json:"reason"` // of the last
}

// SlowType is a type that an origin leaves unanswered, in that many groups.
type SlowType struct {
	Type   string    `json:"type"`
	Groups int       `json:"groups"`
	Since  time.Time `json:"since"` // when it was asked for the first of them
}

// Question is what an origin was asked and has not answered, of one group.
type Question struct {
	Group, Type string
	Since       time.Time
}

// QuarantinedType is a type in quarantine, of one group.
type QuarantinedType struct {
	Group   string    `json:"group"`
	Type    string    `json:"type"`
	TypeURL string    `json:"type_url"`
	Since   time.Time `json:"since"`
	Refused int       `json:"refused"` // streams of its own that ended, in a row
	Reason  string    `json:"reason"`  // of the last
}

// File is the state of one file of a files origin.
type File struct {
	Path      string    `json:"path"`
	Loaded    time.Time `json:"loaded,omitzero"`
	Resources int       `json:"resources"`
	// Error is what is wrong with it now, and ErrorAt since when.
	Error   string    `json:"error,omitempty"`
	ErrorAt time.Time `json:"error_at,omitzero"`
}

// Group is the state of a group. If the origin has canaries, Tier is which of the three groups of
// one key it is: newest has no clients, and what the origin says; canary and rest have what their
// clients are given.
type Group struct {
	inspect.GroupStatus
	// What is presented upstream. Only lists have Node, which is the whole node.
	NodeID  string          `json:"node_id"`
	Cluster string          `json:"node_cluster"`
	Node    json.RawMessage `json:"node,omitempty"`
	Main    lane            `json:"main_lane"`
	Side    lane            `json:"side_lane"`
	Types   []groupType     `json:"types"`
}

type lane struct {
	Wanted bool `json:"wanted"`
	Open   bool `json:"open"`
}

func groupOf(s *inspect.GroupStatus, full bool) Group {
	return Group{
		GroupStatus: *s, NodeID: s.Node.GetId(), Cluster: s.Node.GetCluster(), Main: lane(s.Lanes[0]), Side: lane(s.Lanes[1]), Types: typesOf(s, full),
	}
}

// slowAfter is from when on an origin that answers nothing is slow, as in the alert WeirOriginSlow.
const slowAfter = 5 * time.Second

// late notes the questions that have been open for long, and whose answer is waited for. Others may
// stay open: a SotW origin does not say that what it is asked for does not exist.
func (o *Origin) late(now time.Time, groups []inspect.GroupStatus) {
	waits := map[[2]string]bool{} // by group and type
	for i := range groups {
		for j := range groups[i].Types {
			if t := &groups[i].Types[j]; t.Waiting > 0 || t.Wildcard && !t.Settled {
				waits[[2]string{groups[i].Key, metrics.ShortName(t.TypeURL)}] = true
			}
		}
	}
	at := map[string]int{}
	for _, q := range o.Questions {
		if now.Sub(q.Since) < slowAfter || !waits[[2]string{q.Group, q.Type}] {
			continue
		}
		n, known := at[q.Type]
		if !known {
			n = len(o.Slow)
			at[q.Type], o.Slow = n, append(o.Slow, SlowType{Type: q.Type, Since: q.Since})
		}
		s := &o.Slow[n]
		s.Groups++
		if q.Since.Before(s.Since) {
			s.Since = q.Since
		}
	}
	slices.SortFunc(o.Slow, func(x, y SlowType) int { return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.Type, y.Type)) })
}

// Sum adds up what the groups hold, and collects their types in quarantine, and those that the
// origin is slow with. With canaries, the tiers of a group are one, which holds what the newest
// does; but each has its own views.
func (o *Origin) Sum(groups []inspect.GroupStatus) {
	if len(o.Questions) > 0 {
		o.late(time.Now(), groups)
	}
	o.silent(groups)
	differing := map[string]bool{}
	for i := range groups {
		of, tier := relay.CutTier(groups[i].Key)
		o.Revisions += groups[i].Revision
		for j := range groups[i].Types {
			o.Views += groups[i].Types[j].Views
		}
		if len(groups[i].Differing) > 0 {
			differing[of] = true
		}
		if tier != relay.Newest {
			continue
		}
		o.Groups++
		o.ParameterSets += groups[i].ParameterSets
		if groups[i].Dedicated {
			o.Dedicated++
		}
		for _, t := range groups[i].Quarantined {
			if t.Quarantined.IsZero() {
				continue // only suspected
			}
			o.Quarantined = append(o.Quarantined, QuarantinedType{
				Group: groups[i].Key, Type: metrics.ShortName(t.TypeURL), TypeURL: t.TypeURL,
				Since: t.Quarantined, Refused: t.Refused, Reason: t.Reason,
			})
		}
		for j := range groups[i].Types {
			t := &groups[i].Types[j]
			o.Resources += t.Resources.Origin
			o.Copies += t.Bodies
			o.Bytes += t.Bytes - t.Shared
			o.Stale += t.StaleResources.Origin
			o.StaleCopies += t.Stale
			o.FrozenChanges += t.Frozen
			o.HeldRemovals += t.Held
			if t.Until.After(o.HeldUntil) {
				o.HeldUntil = t.Until
			}
		}
	}
	o.Differing = len(differing)
}

// ClientNACK is the last NACK of one type by one client stream.
type ClientNACK struct {
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

func nacksOf(s *downstream.ClientStatus) []ClientNACK {
	var all []ClientNACK
	for i := range s.Types {
		if t := &s.Types[i]; t.Nacks > 0 {
			all = append(all, ClientNACK{
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

// Many control planes never answer a node that they do not know (RELAY-62). The log, the headline,
// the origin's state and /explain say the same of it.

// Silence is a group with an open stream on which the origin has answered nothing for ten seconds.
type Silence struct {
	Group string `json:"group"`
	// The node that weir sent.
	NodeID  string    `json:"node_id"`
	Cluster string    `json:"node_cluster"`
	Since   time.Time `json:"since"` // the first request
	// Answered: it has answered this node before.
	Answered bool `json:"answered_before"`
}

// mostSilences bounds those that an origin lists.
const mostSilences = 10

// silent completes the silences with the nodes of their groups, and keeps the longest. A group with
// two silent streams is one.
func (o *Origin) silent(groups []inspect.GroupStatus) {
	slices.SortStableFunc(o.Silent, func(x, y Silence) int { return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.Group, y.Group)) })
	known := map[string]bool{}
	o.Silent = slices.DeleteFunc(o.Silent, func(s Silence) bool {
		before := known[s.Group]
		known[s.Group] = true
		return before
	})
	if o.SilentGroups = len(o.Silent); o.SilentGroups > mostSilences {
		o.Silent = o.Silent[:mostSilences]
	}
	for i := range o.Silent {
		s := &o.Silent[i]
		for j := range groups {
			if groups[j].Key == s.Group {
				s.NodeID, s.Cluster = groups[j].Node.GetId(), groups[j].Node.GetCluster()
			}
		}
	}
}

// silenceOf is the silence about a group's node, or nil.
func (o *Origin) silenceOf(group string) *Silence {
	for i := range o.Silent {
		if o.Silent[i].Group == group {
			return &o.Silent[i]
		}
	}
	return nil
}

// Node is the node that was sent, in words.
func (s *Silence) Node() string {
	text := fmt.Sprintf("node id %q", s.NodeID)
	if s.Cluster != "" {
		text += fmt.Sprintf(" (cluster %q)", s.Cluster)
	}
	return text
}

// Why is what it may mean, and where to look.
func (s *Silence) Why() string {
	if s.Answered {
		return "it has answered this node before, so it may be starting, or busy"
	}
	return "it may not know the node; see origins[].node and origins[].group_by"
}

// because is the silence as the cause that a client waits for.
func (s *Silence) because() string {
	return fmt.Sprintf("it has answered nothing since weir sent it %s: %s", s.Node(), s.Why())
}
