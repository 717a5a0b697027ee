package main

import (
	"context"
	"errors"
	"sync"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/levels"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/upstream/file"
	"github.com/weir-xds/weir/upstream/resort"
)

// lastResort is the fallback of an origin: it stands in while the origin has never answered. Nil:
// there is none.
type lastResort interface {
	// run stands in until ctx ends, and returns when everything that it started has ended.
	run(ctx context.Context)
	status() *admin.Fallback
	// close releases what was opened, without run or after it.
	close()
}

// openFallback opens the fallback of an origin.
func (p *process) openFallback(f *activeConfig, o *config.Origin, path string, part *relay.Origin) (lastResort, error) {
	switch {
	case o.Fallback == nil:
		return nil, nil
	case o.Fallback.Files == nil:
		return p.openAsked(f, o, path, part)
	}
	opened, err := file.New(file.Config{
		Name: o.Name, Path: o.Fallback.Files.Path, Fallback: true, NameBytes: int(f.cfg.Limits.NameBytes),
		NameFields: f.types.NameFields(o.NameFields), Types: f.types, TP2: o.TP2, Log: p.logger(levels.Upstream), Metrics: p.metrics,
	}, part)
	if err != nil {
		return nil, f.cfg.Problemf(path+".files", "%v", errors.Unwrap(err)) // it names the origin
	}
	return filesResort{opened}, nil
}

// beside runs an origin, and its fallback for as long.
func beside(ctx context.Context, last lastResort, run func(context.Context) error) error {
	if last == nil {
		return run(ctx)
	}
	own, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() { last.run(own) })
	defer ended.Wait()
	defer cancel()
	return run(ctx)
}

// statusBeside adds the fallback to the status of its origin.
func statusBeside(s admin.Origin, last lastResort) admin.Origin {
	if last != nil {
		s.Fallback = last.status()
	}
	return s
}

func closeResort(last lastResort) {
	if last != nil {
		last.close()
	}
}

// filesResort is a fallback of files.
type filesResort struct{ *file.Origin }

func (r filesResort) run(ctx context.Context) { _ = r.Run(ctx) } // it returns nil

func (r filesResort) close() {}

func (r filesResort) status() *admin.Fallback {
	return fallbackOf(filesOf(r.Origin))
}

func fallbackOf(o admin.Origin) *admin.Fallback {
	return &admin.Fallback{
		Kind: o.Kind, Source: o.Source, Ready: o.Reached, Error: o.Error, ErrorAt: o.ErrorAt, Files: o.Files,
	}
}

// askedResort is a fallback that is another origin, with a table of its own.
type askedResort struct {
	// Set once.
	process *process
	table   *relay.Table
	origin  origin
	resort  *resort.Resort
}

func (p *process) openAsked(f *activeConfig, o *config.Origin, path string, part *relay.Origin) (lastResort, error) {
	second := secondOrigin(o)
	table, err := relay.New(secondTable(f.cfg, o))
	if err != nil {
		return nil, f.cfg.Problemf(path, "%v", err)
	}
	last := table.Origin(second.Name)
	opened, err := p.openOrigin(f, second, path, last)
	if err != nil {
		return nil, err
	}
	source := opened.status()
	return &askedResort{p, table, opened, resort.New(part, last, source.Kind+" "+source.Source, p.logger(levels.Upstream))}, nil
}

func (r *askedResort) run(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() { _ = r.origin.run(ctx) })
	parts.Go(func() { _ = advance(ctx, r.table) })
	_ = r.resort.Run(ctx) // they return nil
	parts.Wait()
}

func (r *askedResort) close() { r.origin.close() }

func (r *askedResort) status() *admin.Fallback { return fallbackOf(r.origin.status()) }

// secondOrigin returns the fallback of an origin as an origin of its own. Types, name fields and
// the like are as for the first. It is not asked for parameters and secrets.
func secondOrigin(o *config.Origin) *config.Origin {
	second := *o
	second.Name += "/fallback"
	second.GRPC, second.REST, second.Files, second.Fallback = o.Fallback.GRPC, o.Fallback.REST, nil, nil
	second.GroupBy, second.Node = nil, config.Node{} // the groups are those of the first
	second.IdentityTo = ""                           // it is in their nodes
	second.DynamicParameters = config.DynamicParameters{}
	second.Secrets, second.Share, second.Audit, second.Guard = config.SecretsRefuse, false, 0, config.Guard{}
	return &second
}

// secondTable returns the table configuration of an origin's fallback. Its lookups are not counted,
// since those of the first origin are.
func secondTable(cfg *config.Config, o *config.Origin) relay.Config {
	return tableConfig(alone(cfg, o))
}

// alone returns a configuration with an origin's fallback as the only origin.
func alone(cfg *config.Config, o *config.Origin) *config.Config {
	c := *cfg
	c.Origins = []config.Origin{*secondOrigin(o)}
	return &c
}

// prepareSecond checks a new configuration for the table of an origin's fallback; nil: it has none.
func prepareSecond(o origin, cfg *config.Config, c *config.Origin) (*relay.Next, error) {
	var last lastResort
	switch o := o.(type) {
	case *grpcOrigin:
		last = o.fallback
	case *restOrigin:
		last = o.fallback
	}
	if asked, is := last.(*askedResort); is {
		return asked.table.Prepare(secondTable(cfg, c))
	}
	return nil, nil
}
