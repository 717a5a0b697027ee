package relay

import (
	"errors"
	"fmt"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/constraints"
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
}

// OriginLimits bound what an origin may fill: so many different resources, and so many bytes of
// memory. 0: by default as many as memory allows (budget.go).
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

// nodeRules are what the origin learns of its clients' nodes.
func (cfg *OriginConfig) nodeRules(deployment string) node.Rules {
	return node.Rules{GroupBy: cfg.GroupBy, Mapped: cfg.FromNode, Canary: cfg.Canary, ID: cfg.NodeID, Cluster: cfg.NodeCluster, IdentityTo: cfg.IdentityTo, Deployment: deployment}
}

func (o *Origin) nodeRules() node.Rules { return o.config().nodeRules(o.table.config().Name) }

// OwnNode is the node that is presented upstream for clients that present none (RELAY-62).
func (o *Origin) OwnNode() *corev3.Node {
	_, up := o.nodeRules().Group(nil, "")
	return up
}

// Identified returns a client's own node as it is presented upstream (node.Rules.Identified).
func (o *Origin) Identified(n *corev3.Node, who string) *corev3.Node {
	return o.nodeRules().Identified(n, who)
}

// checkParams says what is wrong with the settings that have to do with parameters and identities;
// the error begins with the key.
func checkParams(cfg *OriginConfig) error {
	switch {
	case cfg.TP2 && cfg.IgnoreParams:
		return errors.New("dynamic_parameters.otherwise: the origin understands parameters, so none are ignored")
	case !cfg.TP2 && len(cfg.FromNode) > 0:
		return errors.New("dynamic_parameters.from_node: the origin is not known to understand parameters")
	}
	rules := cfg.nodeRules("")
	if err := rules.CheckMapped(); err != nil {
		return fmt.Errorf("dynamic_parameters.from_node: %w", err)
	}
	if err := rules.CheckIdentityTo(); err != nil {
		return fmt.Errorf("identity_to: %w", err)
	}
	return nil
}

// Params are the parameters that plain names of a client have at the origin (node.Rules.Params).
// There are none at an origin that is not to see any (DYN-17).
func (o *Origin) Params(n *corev3.Node, typeURL string) constraints.Params {
	if !o.config().TP2 {
		return constraints.Params{}
	}
	return o.nodeRules().Params(n, typeURL)
}

// ParamsNode is as much of a node as Params looks at, for a stream to keep. It is nil if the
// origin's names have no parameters. It shares what it holds with n.
func (o *Origin) ParamsNode(n *corev3.Node) *corev3.Node {
	if !o.config().TP2 {
		return nil
	}
	return o.nodeRules().ParamsNode(n)
}

// TP2 reports whether the origin may be sent parameters (DYN-17).
func (o *Origin) TP2() bool { return o.config().TP2 }

// IgnoresParams reports whether the parameters that clients name are dropped, and not refused
// (DYN-18).
func (o *Origin) IgnoresParams() bool { return o.config().IgnoreParams }
