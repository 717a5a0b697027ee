package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/levels"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/upstream"
	"github.com/weir-xds/weir/upstream/descriptors"
	"github.com/weir-xds/weir/upstream/file"
	"github.com/weir-xds/weir/upstream/rest"
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
		opened, err := p.openFiles(f, o, path, part)
		if err != nil {
			return nil, err
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
	return netOriginOf(cfg, path+".grpc", "grpc", secured, up, err)
}

func (p *process) openREST(f *activeConfig, o *config.Origin, origin string, part *relay.Origin) (origin, error) {
	path := origin + ".rest"
	secured, err := p.tls.origin(f.cfg, path+".tls", o.REST.TLS)
	if err != nil {
		return nil, err
	}
	c := restConfig(f.cfg, o)
	c.NameFields, c.Types = f.types.NameFields(o.NameFields), f.types
	c.Log, c.Metrics, c.Instance = p.logger(levels.Upstream), p.metrics, p.via
	c.Version, _ = buildVersion()
	if secured != nil {
		c.TLS, c.Trusts = secured.client, secured.judge(x509.ExtKeyUsageServerAuth)
	}
	up, err := rest.New(c, part)
	return netOriginOf(f.cfg, path, "rest", secured, up, err)
}

// netOrigin is an origin on the network: a gRPC control plane, or a REST-JSON server.
type netOrigin[O upstreamOrigin[O]] struct {
	up      O
	kind    string
	secured *secured
}

type grpcOrigin = netOrigin[*upstream.Origin]

// upstreamOrigin is what packages upstream and rest have in common.
type upstreamOrigin[O any] interface {
	Run(context.Context) error
	Status() upstream.Status
	Succeed(before O)
	Recheck()
}

// netOriginOf returns an origin that was made, unless that has failed.
func netOriginOf[O upstreamOrigin[O]](
	cfg *config.Config, path, kind string, secured *secured, up O, err error,
) (origin, error) {
	if err != nil {
		secured.close()
		// The outer error names the origin.
		return nil, errors.Join(problems(cfg, path, errors.Unwrap(err))...)
	}
	secured.whenTrustChanges(up.Recheck)
	return &netOrigin[O]{up, kind, secured}, nil
}

func (o *netOrigin[O]) run(ctx context.Context) error { return o.up.Run(ctx) }

func (o *netOrigin[O]) succeed(before origin) {
	if was, ok := before.(*netOrigin[O]); ok {
		o.up.Succeed(was.up)
	}
}

func (o *netOrigin[O]) close() { o.secured.close() }

func (o *netOrigin[O]) status() admin.Origin {
	s := o.up.Status()
	out := admin.Origin{
		Kind: o.kind, Source: s.Address, Reached: !s.ProofAt.IsZero(),
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
		if l.Silent {
			out.Silent = append(out.Silent, admin.Silence{Group: l.Group, Since: l.SilentSince, Answered: l.AnsweredBefore})
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

// filesConfig returns how the files of an origin, or of its fallback, are read, and their key in
// the origin. Without files the key is "".
func filesConfig(cfg *config.Config, types *descriptors.Types, o *config.Origin) (c file.Config, key string) {
	files := o.Files
	switch {
	case o.Fallback != nil:
		files, key = &o.Fallback.Files, ".fallback.files"
	case files != nil:
		key = ".files"
	default:
		return c, ""
	}
	return file.Config{
		Name: o.Name, Path: files.Path, Fallback: o.Fallback != nil, NameBytes: int(cfg.Limits.NameBytes),
		NameFields: types.NameFields(o.NameFields), Types: types, TP2: o.TP2,
	}, key
}

// openFiles opens the files of an origin, or of its fallback.
func (p *process) openFiles(f *activeConfig, o *config.Origin, path string, part *relay.Origin) (*file.Origin, error) {
	c, key := filesConfig(f.cfg, f.types, o)
	c.Log, c.Metrics = p.logger(levels.Upstream), p.metrics
	opened, err := file.New(c, part)
	if err != nil {
		return nil, f.cfg.Problemf(path+key, "%v", errors.Unwrap(err)) // the outer error names the origin
	}
	return opened, nil
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
			Streams: o.Streams, Wanted: o.Wanted, Groups: o.Groups, Views: o.Views, ParameterSets: o.ParameterSets, Stale: o.StaleCopies, Frozen: !o.Frozen.IsZero(),
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
				op.Types = append(op.Types, typePicture(&groups[i][j].Types[k]))
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

// restConfig returns the configuration of a REST origin.
func restConfig(cfg *config.Config, o *config.Origin) rest.Config {
	r := o.REST
	return rest.Config{
		Name: o.Name, URLs: r.URLs, Poll: r.Poll, Headers: r.Headers, TokenFile: r.TokenFile,
		MaxMessage: int(r.MaxMessage), NameBytes: int(cfg.Limits.NameBytes), Batch: cmp.Or(cfg.Timing.UpstreamBatch, -1),
		Reach: reachTypes(cfg, o), Backoff: upstreamBackoff(cfg.Timing.Backoff),
	}
}

// restTypes returns the types that a REST origin is asked for: those with a path (REST-8).
func restTypes(o *config.Origin) []string {
	return slices.DeleteFunc(rest.Types(), func(typeURL string) bool {
		return len(o.Types) > 0 && !slices.Contains(o.Types, typeURL)
	})
}

// sameREST reports whether a REST origin is polled as before.
func sameREST(before, next *config.Config, was, o *config.Origin) bool {
	return reflect.DeepEqual(was.REST.TLS, o.REST.TLS) && reflect.DeepEqual(was.NameFields, o.NameFields) &&
		reflect.DeepEqual(restConfig(before, was), restConfig(next, o)) //nolint:govet // deepequalerrors sees the error of a func, nil in both
}

// run serves the table until ctx ends. For as long the fallback gives the table what its files
// have.
func (r *runner) run(ctx context.Context) error {
	if r.fallback == nil {
		return r.origin.run(ctx)
	}
	own, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() { _ = r.fallback.Run(own) }) // it returns nil
	defer ended.Wait()
	defer cancel()
	return r.origin.run(ctx)
}

// status returns the status of the origin, with that of its fallback.
func (r *runner) status() admin.Origin {
	s := r.origin.status()
	if r.fallback != nil {
		f := filesOf(r.fallback)
		s.Fallback = &admin.Fallback{
			Kind: f.Kind, Source: f.Source, Ready: f.Reached, Serving: inspect.StandIns(r.table),
			Error: f.Error, ErrorAt: f.ErrorAt, Files: f.Files,
		}
	}
	return s
}
