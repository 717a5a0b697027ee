package main

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
	"github.com/weir-xds/weir/upstream"
)

// In the config file zero means "none" or "no limit"; in the packages' Configs it means "default".
// What follows translates.

// none is the shortest time that is not zero.
const none = time.Nanosecond

// forever is grpc's value for "no keepalive".
const forever = time.Duration(math.MaxInt64)

func orNone(d time.Duration) time.Duration { return max(d, none) }

func tableConfig(cfg *config.Config) relay.Config {
	t := relay.Config{
		Name: cfg.Name, Settle: orNone(cfg.Timing.Settle),
		FirmSettle: orNone(cfg.Timing.FirmSettle), Gather: cfg.Timing.Gather, ColdWait: orNone(cfg.Timing.ColdWait),
		OnDemandWait: orNone(cfg.Timing.OnDemandWait),
		Linger:       cmp.Or(cfg.Cache.Linger, -1), MaxGroups: cfg.Limits.Groups, MaxGroupsPerPeer: cfg.Limits.GroupsPerPeer, MaxViews: cfg.Limits.Views,
		MaxParameterSets: cfg.Limits.ParameterSetsPerGroup,
		History:          history.Bounds{Versions: cfg.Cache.History.Versions, Bytes: int(cfg.Cache.History.Bytes), Age: cfg.Cache.History.Age},
	}
	t.RetiredEntries, t.RetiredBytes = cfg.Cache.Retired.Entries, int(cfg.Cache.Retired.Bytes)
	if t.RetiredEntries == 0 || t.RetiredBytes == 0 {
		t.RetiredEntries = -1
	}
	for i := range cfg.Origins {
		o := &cfg.Origins[i]
		oc := relay.OriginConfig{
			Name: o.Name, GroupBy: o.GroupBy, NodeID: o.Node.ID, NodeCluster: o.Node.Cluster, IdentityTo: o.IdentityKey(), Types: o.Types,
			Authorities:    o.Authorities,
			Untailored:     o.Files != nil || cfg.OnlyAuthorities(o),
			OriginVersions: o.VersionMode == config.VersionModeOrigin,
			CanonicalHash:  o.Hash == config.HashCanonical,
			Secrets:        o.Secrets != config.SecretsRefuse, SecretsByIdentity: o.Secrets == config.SecretsByIdentity,
			NoResume: o.Resume == config.ResumeNone, AbsenceKeeps: o.AbsenceKeeps,
			AbsenceTransient: o.AbsenceTimer == config.AbsenceTimerTransient,
			DropOnDataError:  o.OnDataError == config.OnDataErrorDrop,
			RecursiveGlobs:   o.Glob == config.GlobRecursive,
			WithholdTTL:      o.TTLUnsupported == config.TTLUnsupportedWithhold,
			Limits:           relay.OriginLimits{Resources: o.Limits.Resources, Bytes: int64(o.Limits.Bytes)},
			Guard:            gate.GuardConfig{Share: o.Guard.Share, Min: o.Guard.Min, Hold: o.Guard.Hold, Few: o.Guard.Share < 1 && o.Files == nil},
			NACKReport:       o.NACKReport,
			Canary:           o.Canary.Clients(),
			Urgent:           o.Canary.Urgent,
			TP2:              o.TP2, FromNode: o.DynamicParameters.FromNode,
			IgnoreParams: o.DynamicParameters.Otherwise == config.OtherwiseIgnored,
		}
		switch {
		case o.GRPC != nil:
			oc.SotW, oc.PerType, oc.V2 = o.GRPC.Dialect == config.DialectSotW, !o.GRPC.Aggregated, o.GRPC.V2
		case o.REST != nil:
			oc.SotW, oc.PerType, oc.Types = true, true, restTypes(o)
		default:
			// Files are the same for all clients, so these share one group.
			oc.GroupBy = nil
		}
		t.Origins = append(t.Origins, oc)
	}
	return t
}

func serverConfig(cfg *config.Config) (downstream.Config, error) {
	name, err := instance(cfg)
	if err != nil {
		return downstream.Config{}, err
	}
	l, t := &cfg.Limits, &cfg.Timing
	return downstream.Config{
		Instance: name, Rules: cfg.Rules(),
		Limits: downstream.Limits{
			Connections: cmp.Or(l.Connections, -1), ConnectionsPerPeer: cmp.Or(l.ConnectionsPerPeer, -1),
			ConnectionIdle: cmp.Or(l.ConnectionIdle, -1),
			Streams:        cmp.Or(l.Streams, -1), StreamsPerConnection: cmp.Or(l.StreamsPerConnection, -1),
			StreamsPerIdentity: cmp.Or(l.StreamsPerIdentity, -1), NewStreamsPerSecond: cmp.Or(l.NewStreamsPerSecond, -1),
			RequestsPerSecond: cmp.Or(l.RequestsPerSecond, -1), NACKsPerSecond: cmp.Or(l.NACKsPerSecond, -1),
			NamesPerStream: cmp.Or(l.NamesPerStream, -1), NewNamesPerSecond: cmp.Or(l.NewNamesPerSecond, -1), ParameterSets: cmp.Or(l.ParameterSetsPerStream, -1),
			NameBytes: cmp.Or(int(l.NameBytes), -1), RequestBytes: cmp.Or(int(l.RequestBytes), -1),
		},
		Timing: downstream.Timing{
			ColdWait: orNone(t.ColdWait), OrderHold: orNone(t.OrderHold), Coalesce: t.Coalesce,
			SendStall: orNone(t.SendStall), FirstRequest: orNone(t.FirstRequest), MaxStreamAge: t.MaxStreamAge,
			RESTWait: orNone(t.RESTWait), RESTHold: t.RESTHold,
			Keepalive: downstream.Keepalive{
				Time: cmp.Or(t.Keepalive.Time, forever), Timeout: orNone(t.Keepalive.Timeout),
				MinClientInterval: orNone(t.Keepalive.MinClientInterval),
			},
		},
	}, nil
}

func upstreamConfig(cfg *config.Config, o *config.Origin) upstream.Config {
	g, t := o.GRPC, &cfg.Timing
	return upstream.Config{
		Name: o.Name, Addresses: g.Addresses, SameVersions: g.SameVersions, NoResume: o.Resume == config.ResumeNone,
		SotW: g.Dialect == config.DialectSotW, WildcardExplicit: g.Wildcard == config.WildcardExplicit,
		PerType: !g.Aggregated, V2: g.V2, NodeAlways: g.NodeAlways, Headers: g.Headers, TokenFile: g.TokenFile,
		TP2: o.TP2, MaxMessage: int(g.MaxMessage), NameBytes: int(cfg.Limits.NameBytes),
		NameFields: o.NameFields, Compression: g.Compression,
		Backoff: upstreamBackoff(t.Backoff),
		Pause:   orNone(t.Pause), NewGroupsPerSecond: cfg.Limits.NewGroupsPerSecond, LoadReports: cfg.Limits.LoadReports,
		Keepalive:    upstream.Keepalive{Time: cmp.Or(t.Keepalive.TowardsOrigins(), forever), Timeout: orNone(t.Keepalive.Timeout)},
		Batch:        cmp.Or(t.UpstreamBatch, -1),
		ALPNOptional: g.TLS != nil && g.TLS.ALPN == config.ALPNOptional,
		Reach:        reachTypes(cfg, o),
		Audit:        o.Audit,
	}
}

// reachTypes are the types that an origin is asked for before any client asks it: those of
// ready.types that it may be asked for, else whatever it may be asked for, but for secrets.
func reachTypes(cfg *config.Config, o *config.Origin) []string {
	wanted := cfg.Ready.Types
	if len(wanted) == 0 || len(o.Types) == 0 {
		return wanted
	}
	both := slices.DeleteFunc(slices.Clone(wanted), func(typeURL string) bool { return !slices.Contains(o.Types, typeURL) })
	if len(both) == 0 {
		both = slices.DeleteFunc(slices.Clone(o.Types), xds.IsSecret)
	}
	return both
}

func upstreamBackoff(b config.Backoff) upstream.Backoff {
	b.Jitter = cmp.Or(b.Jitter, -1)
	return upstream.Backoff(b)
}

// listenerOrigin returns the name of a listener's own origin.
func listenerOrigin(cfg *config.Config, l *config.Listener) string {
	if l.Origin != "" {
		return l.Origin
	}
	return defaultOrigin(cfg)
}

// defaultOrigin returns the origin marked as the default.
func defaultOrigin(cfg *config.Config) string {
	for i := range cfg.Origins {
		if cfg.Origins[i].Default {
			return cfg.Origins[i].Name
		}
	}
	panic("config: no origin is the default") // our own bug: Parse ensures that there is one
}
