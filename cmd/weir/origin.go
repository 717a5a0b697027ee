package main

import (
	"context"
	"crypto/x509"
	"errors"
	"time"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/levels"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/upstream"
	"github.com/weir-xds/weir/upstream/file"
)

// origin is what the process needs of an origin, of whatever kind.
type origin interface {
	// run serves the table until ctx ends, and returns when everything that it started has ended.
	run(ctx context.Context) error
	// status returns the kind's part of the status; the process adds the table's.
	status() admin.Origin
	// succeed takes over the state of the origin's last runner.
	succeed(before origin)
	// close releases what was opened, without run or after it.
	close()
}

func (p *process) openOrigin(f *activeConfig, o *config.Origin, path string, part *relay.Origin) (origin, error) {
	cfg := f.cfg
	if o.REST != nil {
		return p.openREST(f, o, path, part)
	}
	if o.Files != nil {
		opened, err := file.New(file.Config{
			Name: o.Name, Path: o.Files.Path, NameBytes: int(cfg.Limits.NameBytes), NameFields: f.types.NameFields(o.NameFields),
			Types: f.types, TP2: o.TP2, Log: p.logger(levels.Upstream), Metrics: p.metrics,
		}, part)
		if err != nil {
			return nil, cfg.Problemf(path+".files", "%v", errors.Unwrap(err)) // it names the origin
		}
		return &fileOrigin{opened}, nil
	}
	secured, err := p.tls.origin(cfg, path+".grpc.tls", o.GRPC.TLS)
	if err != nil {
		return nil, err
	}
	u := upstreamConfig(cfg, o)
	u.NameFields = f.types.NameFields(o.NameFields)
	u.Log, u.Metrics, u.AuditTurn = p.logger(levels.Upstream), p.metrics, p.auditing
	if secured != nil {
		u.TLS, u.Trusts = secured.client, secured.judge(x509.ExtKeyUsageServerAuth)
	}
	u.Version, _ = buildVersion()
	u.Instance = p.via
	up, err := upstream.New(u, part)
	if err != nil {
		secured.close()
		// The outer error names the origin.
		return nil, errors.Join(problems(cfg, path+".grpc", errors.Unwrap(err))...)
	}
	secured.whenTrustChanges(up.Recheck)
	last, err := p.openFallback(f, o, path+".fallback", part)
	if err != nil {
		secured.close()
		return nil, err
	}
	return &grpcOrigin{Origin: up, secured: secured, fallback: last}, nil
}

// grpcOrigin is a gRPC control plane.
type grpcOrigin struct {
	*upstream.Origin
	fallback lastResort
	secured  *secured
}

func (o *grpcOrigin) run(ctx context.Context) error {
	return beside(ctx, o.fallback, o.Run)
}

func (o *grpcOrigin) succeed(before origin) {
	if was, ok := before.(*grpcOrigin); ok {
		o.Succeed(was.Origin)
	}
}

func (o *grpcOrigin) close() {
	o.secured.close()
	closeResort(o.fallback)
}

func (o *grpcOrigin) status() admin.Origin {
	s := o.Status()
	return statusBeside(statusOf("grpc", &s), o.fallback)
}

// statusOf returns the status of an origin on the network.
func statusOf(kind string, s *upstream.Status) admin.Origin {
	out := admin.Origin{
		Kind: kind, Source: s.Address, Reached: !s.ProofAt.IsZero(),
		Connected: s.Connected, Since: s.Since, LastProof: s.ProofAt, LastUpdate: s.UpdateAt,
		Error: s.Err, ErrorAt: s.ErrAt, Failures: s.Failures,
	}
	out.Wanted = len(s.Lanes)
	for i := range s.Lanes {
		l := &s.Lanes[i]
		if l.Open {
			out.Streams++
		}
		if l.Queued {
			out.Queued++
		}
		for j := range l.Types {
			t := &l.Types[j]
			if !t.UnansweredSince.IsZero() {
				out.Questions = append(out.Questions, admin.Question{Group: l.Group, Type: metrics.ShortName(t.TypeURL), Since: t.UnansweredSince})
			}
			if t.NACKs > 0 {
				out.NACKs = append(out.NACKs, admin.OriginNACK{
					Group: l.Group, Type: metrics.ShortName(t.TypeURL), Count: t.NACKs, Reason: t.Reason,
				})
			}
		}
	}
	return out
}

// fileOrigin is a file or a directory.
type fileOrigin struct{ *file.Origin }

func (o *fileOrigin) run(ctx context.Context) error { return o.Run(ctx) }

func (o *fileOrigin) succeed(origin) {}

func (o *fileOrigin) close() {}

func (o *fileOrigin) status() admin.Origin { return filesOf(o.Origin) }

// filesOf returns the status of an origin's files.
func filesOf(o *file.Origin) admin.Origin {
	s := o.Status()
	out := admin.Origin{
		Kind: "files", Source: s.Path, Reached: s.Ready, Connected: s.Error == "", Error: s.Error, ErrorAt: s.ErrorAt,
		Files: make([]admin.File, 0, len(s.Files)),
	}
	for _, f := range s.Files {
		out.Files = append(out.Files, admin.File{Path: f.Path, Loaded: f.Loaded, Resources: f.Resources, Error: f.Error, ErrorAt: f.ErrorAt})
		if f.Loaded.After(out.LastUpdate) {
			out.LastUpdate = f.Loaded
		}
	}
	out.LastProof = out.LastUpdate
	return out
}

// originStates returns the origins' states in the order of the config file, with what the table has
// of each.
func (p *process) originStates() ([]admin.Origin, [][]inspect.GroupStatus) {
	f := p.active.Load()
	states := make([]admin.Origin, len(f.origins))
	groups := make([][]inspect.GroupStatus, len(f.origins))
	for i, o := range f.origins {
		c := &f.cfg.Origins[i]
		states[i] = o.status()
		states[i].Name, states[i].Default = c.Name, c.Default
		groups[i] = inspect.Status(o.table)
		states[i].Sum(groups[i])
		states[i].Frozen, _ = o.table.Frozen()
		f := p.freezes.get(c.Name)
		states[i].FrozenBy, states[i].FrozenChanged = f.by(), f.changed
		states[i].Rollback = p.rollbacks.status(c.Name, groups[i])
		states[i].Canary = p.canaries.Look(c.Name)
		if states[i].Fallback != nil {
			states[i].Fallback.Serving = inspect.StandIns(o.table)
		}
		if c.Files != nil {
			states[i].Wanted, states[i].Streams = lanesOf(groups[i])
		}
	}
	return states, groups
}

func lanesOf(groups []inspect.GroupStatus) (wanted, open int) {
	for i := range groups {
		if _, tier := relay.CutTier(groups[i].Key); tier != relay.Newest {
			continue // its lanes are not the origin's
		}
		for _, l := range groups[i].Lanes {
			if l.Wanted {
				wanted++
			}
			if l.Open {
				open++
			}
		}
	}
	return wanted, open
}

// picture returns the state behind the gauges.
func (p *process) picture() metrics.Picture {
	now := time.Now()
	var m metrics.Picture
	p.server.Picture(now, &m)
	m.Retired, _ = p.table.Retired()
	kept := p.table.History().Kept()
	m.HistoryBytes, m.HistoryVersions = kept.Bytes, kept.Versions
	m.Memory, m.MemoryLimit = p.memory.used.Load(), p.memory.limit.Load()
	m.Certificates, m.CRLDue = p.tls.expiry()
	states, groups := p.originStates()
	for i := range states {
		o := &states[i]
		op := metrics.OriginPicture{
			Origin: o.Name, Connected: o.Connected, LastProof: o.LastProof, LastUpdate: o.LastUpdate,
			Streams: o.Streams, Wanted: o.Wanted, Groups: o.Groups, Views: o.Views, ParameterSets: o.ParameterSets, Stale: o.Stale, Frozen: !o.Frozen.IsZero(),
			Differing: map[string]int{}, Canary: canaryPicture(o.Canary),
		}
		if o.Rollback != nil {
			op.RolledBack = len(o.Rollback.Groups)
		}
		for j := range groups[i] {
			for _, d := range groups[i][j].Differing {
				op.Differing[d.Field]++
			}
			if _, tier := relay.CutTier(groups[i][j].Key); tier != relay.Newest {
				continue // it asks the newest for what that has
			}
			for k := range groups[i][j].Types {
				t := typePicture(&groups[i][j].Types[k])
				op.Types = append(op.Types, t)
			}
		}
		m.Origins = append(m.Origins, op)
	}
	return m
}

func typePicture(t *relay.TypeStatus) metrics.TypePicture {
	out := metrics.TypePicture{Type: t.TypeURL, Subscriptions: t.Names, Entries: t.Bodies, Bytes: int64(t.Bytes - t.Shared), Held: t.Held, FrozenChanges: t.Frozen}
	if t.Wildcard {
		out.Subscriptions++
	}
	return out
}
