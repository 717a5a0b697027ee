package main

import (
	"context"
	"errors"
	"sync"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/upstream/file"
	"github.com/weir-xds/weir/upstream/resort"
)

// lastResort is what stands in for an origin that has never spoken. nil: there is none.
type lastResort interface {
	// run has it stand in until ctx ends, and everything it started has ended.
	run(ctx context.Context)
	status() *admin.Fallback
	// close lets go of what was opened, without run or after it.
	close()
}

// openFallback opens the last resort of an origin.
func (p *process) openFallback(f *activeConfig, o *config.Origin, path string, part *relay.Origin) (lastResort, error) {
	switch {
	case o.Fallback == nil:
		return nil, nil
	case o.Fallback.Files == nil:
		return p.openAsked(f, o, path, part)
	}
	opened, err := file.New(file.Config{
		Name: o.Name, Path: o.Fallback.Files.Path, Fallback: true, NameBytes: int(f.cfg.Limits.NameBytes),
		NameFields: f.types.NameFields(o.NameFields), Types: f.types, TP2: o.TP2, Log: p.log, Metrics: p.metrics,
	}, part)
	if err != nil {
		return nil, f.cfg.Problemf(path+".files", "%v", errors.Unwrap(err)) // it names the origin
	}
	return filesResort{opened}, nil
}

// beside runs an origin, and its last resort for as long.
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

// statusBeside adds the last resort to the status of its origin.
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

// filesResort are files.
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

// askedResort is another origin, with a table of its own.
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
	return &askedResort{p, table, opened, resort.New(part, last, source.Kind+" "+source.Source, p.log)}, nil
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

// secondOrigin is the last resort of an origin as an origin by itself. Which types there are, how
// names are read and the like is as for the first. Parameters and secrets are not asked for.
func secondOrigin(o *config.Origin) *config.Origin {
	second := *o
	second.Name += "/fallback"
	second.GRPC, second.REST, second.Files, second.Fallback = o.Fallback.GRPC, o.Fallback.REST, nil, nil
	second.GroupBy, second.Node = nil, config.Node{} // each group is the one of the first
	second.DynamicParameters = config.DynamicParameters{}
	second.Secrets, second.Share, second.Audit, second.Guard = config.SecretsRefuse, false, 0, config.Guard{}
	return &second
}

// secondTable is the table of the last resort of an origin. What clients ask is counted in the
// first.
func secondTable(cfg *config.Config, o *config.Origin) relay.Config {
	return tableConfig(alone(cfg, o))
}

// alone is a configuration in which the last resort of an origin is the one origin that there is.
func alone(cfg *config.Config, o *config.Origin) *config.Config {
	c := *cfg
	c.Origins = []config.Origin{*secondOrigin(o)}
	return &c
}

// prepareSecond checks another configuration for the table of an origin's last resort; nil: it has
// none.
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
