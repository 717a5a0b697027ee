package relay

import (
	"errors"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/node"
)

// Config of a Table. It is not modified after New or Prepare.
type Config struct {
	// Name is the deployment's, equal on all replicas; part of the node ids presented upstream
	// (RELAY-62). Default "weir".
	Name string
	// Settle is how long a delta set must bring no new name to count as complete (RELAY-6). Default
	// 50 ms.
	Settle time.Duration
	// FirmSettle is the same where a wrong guess would delete: towards who holds something, and for
	// sweeps. Default 2.5 s; at least Settle.
	FirmSettle time.Duration
	// Gather is how long changes of listeners and routes wait for clusters of the same moment
	// (ORD-9). 0: not at all.
	Gather time.Duration
	// ColdWait bounds settling for clients that hold nothing (RELAY-6). Default 10 s.
	ColdWait time.Duration
	// OnDemandWait is how long a client waits for a virtual host that a connected origin is silent
	// about (ALIAS-10). Default 5 s.
	OnDemandWait time.Duration
	// Linger is how long an upstream subscription outlives its last client (RELAY-3). Default 60 s;
	// negative: not at all.
	Linger time.Duration
	// RetiredEntries and RetiredBytes bound what is kept of resources that nobody wants any more,
	// for an outage of the origin (RELAY-78): names and whole sets, and the bytes of their bodies.
	// Default 100,000 and 256 MiB; negative: nothing is kept.
	RetiredEntries, RetiredBytes int
	// History bounds what is kept of the past. Its zero value keeps nothing.
	History history.Bounds
	// Metrics counts look-ups, evictions and what expires; nil counts nothing.
	Metrics *metrics.Metrics
	// Traces draws updates to be followed to the clients; nil: none is.
	Traces *Traces
	// MaxGroups bounds the groups of one origin (RELAY-67). 0: no limit.
	MaxGroups int
	// MaxGroupsPerPeer bounds those of them that one peer opened (Origin.GroupFor) and that nobody
	// else has come to use, until they end. 0: no limit.
	MaxGroupsPerPeer int
	// MaxParameterSets bounds the distinct parameter maps of one group (RELAY-73). 0: no limit.
	MaxParameterSets int
	// MaxViews bounds the views of all origins. 0: no limit.
	MaxViews int
	// Origins are the config sources. At least one.
	Origins []OriginConfig
}

// OriginConfig says how one origin's part of the table behaves.
type OriginConfig struct {
	Name string
	// SotW: the origin speaks state of the world, so that silence of 15 s means absence (ABS-5).
	SotW bool
	// GroupBy are the node fields that decide what the origin answers: cluster, locality,
	// user_agent_name, user_agent_version, client_features, metadata, metadata.KEY, id,
	// dynamic_parameters; or identity, which is no field. Empty: one group for all (RELAY-60,
	// RELAY-63).
	GroupBy []string
	// Untailored: the origin's answers depend on nothing of a node, so members of a group may
	// differ in whatever they like (RELAY-63).
	Untailored bool
	// NodeID and NodeCluster, if set, are presented upstream instead of the group's (RELAY-62).
	NodeID, NodeCluster string
	// IdentityTo is the key of the metadata presented upstream that has the client's identity,
	// where GroupBy has it and in dedicated groups. What clients say under the key is dropped. "":
	// none.
	IdentityTo string
	// Authorities are those of the xdstp names that the origin is asked for; "" is the empty one
	// (FED-1).
	Authorities []string
	// Types restricts what is asked of the origin, by type URL. Empty: everything.
	Types []string
	// OriginVersions: clients are told the origin's versions instead of those of the content
	// (VER-5).
	OriginVersions bool
	// CanonicalHash: the origin's serialiser is not deterministic, so messages that are known are
	// put in order before they are hashed (VER-6).
	CanonicalHash bool
	// NoResume: the origin ignores initial_resource_versions, so none are sent and members not
	// mentioned are swept (RELAY-46).
	NoResume bool
	// AbsenceTransient: a name that a SotW origin leaves unanswered is in error after 30 s, and
	// never absent (ABS-6).
	AbsenceTransient bool
	// Secrets: resources of type Secret may be asked of the origin (RELAY-74), in dedicated groups.
	// Package downstream sees to it.
	Secrets bool
	// SecretsByIdentity: they are asked in the groups of all other types, for clients with an
	// identity and by the rules. It counts with Secrets alone.
	SecretsByIdentity bool
	// DropOnDataError: a name whose error is about itself (PERMISSION_DENIED) loses its cached body
	// (ABS-8).
	DropOnDataError bool
	// RecursiveGlobs: a glob has members at any depth, not only in its last segment (COLL-5).
	RecursiveGlobs bool
	// WithholdTTL: what has a TTL is kept from clients who can be told neither the TTL nor the
	// removal, those of SotW who name resources of a grouped type and do not know TTLs (RELAY-51).
	WithholdTTL bool
	// PerType: the origin is spoken to in a service for each type, so each that has one (ServiceOf)
	// gets lanes of its own. All others share the group's, which are ADS.
	PerType bool
	// V2: those services are meant by their names in v2, each for its type as it is spelled there.
	V2 bool
	// Limits bound what the origin may fill, of all its groups together (admit.go).
	Limits OriginLimits
	// Guard holds back mass removals after a (re)connect (RELAY-97). Its zero value holds nothing
	// back.
	Guard gate.GuardConfig
	// AbsenceKeeps lists types of which a SotW response to `*` may leave out what there still is:
	// absence from it deletes nothing (RELAY-11).
	AbsenceKeeps []string
	// Urgent are the types whose changes pass although a group is held (Origin.Hold); nil: those of
	// endpoints and secrets.
	Urgent []string
	// NACKReport: the origin is told what clients reject of it (RELAY-35).
	NACKReport bool
	// TP2: the origin understands resource_locators, so it may be sent dynamic parameters (DYN-17).
	TP2 bool
	// FromNode gives clients that name no parameters theirs: by parameter, the field of the node
	// that has its value, as "metadata.PATH", where dots lead into structs (RELAY-64). What is
	// mapped is no part of a group's key. It needs TP2.
	FromNode map[string]string
	// IgnoreParams: the parameters of clients are dropped instead of refused, as nothing the origin
	// has depends on them (DYN-18). It needs an origin that is not TP2.
	IgnoreParams bool
	// Canary says which clients are canaries. Clients are then in tiers (tier.go). Nil: none is,
	// and there are no tiers.
	Canary *node.Canary
	// Share: parameter maps may share one upstream subscription while a live variant matches them
	// all (RELAY-69). It needs TP2.
	Share bool
}

// OriginLimits bound what an origin may fill: so many different resources, and so many bytes of
// memory. 0: by default as many as memory allows (fill.go).
type OriginLimits struct {
	Resources int
	Bytes     int64
}

// check fills in the defaults, and gives what is wrong with all but the single origins.
func (c *Config) check() error {
	orDefault(&c.Name, "weir")
	orDefault(&c.Settle, 50*time.Millisecond)
	orDefault(&c.FirmSettle, 2500*time.Millisecond)
	orDefault(&c.ColdWait, 10*time.Second)
	orDefault(&c.OnDemandWait, 5*time.Second)
	orDefault(&c.Linger, time.Minute)
	c.Linger = max(c.Linger, 0)
	orDefault(&c.RetiredEntries, 100_000)
	orDefault(&c.RetiredBytes, 256<<20)
	var errs []error
	if min(c.Settle, c.FirmSettle, c.Gather, c.ColdWait, c.OnDemandWait) < 0 {
		errs = append(errs, errors.New("settle, firm_settle, gather, cold_wait and on_demand_wait must not be negative"))
	}
	c.FirmSettle = max(c.FirmSettle, c.Settle)
	if len(c.Origins) == 0 {
		errs = append(errs, errors.New("origins: at least one is needed"))
	}
	return errors.Join(errs...)
}

// orDefault puts a default in place of zero.
func orDefault[T comparable](v *T, zero T) {
	if *v == *new(T) {
		*v = zero
	}
}
