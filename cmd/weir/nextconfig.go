package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"reflect"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/levels"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/downstream/sink"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/upstream/file"
)

// nextConfig is the transition to another configuration. What stays is taken over, and what is new
// is opened, so that everything that can fail is done before any of it is in force.
type nextConfig struct {
	// Set once.
	process *process
	before  *activeConfig // nil at the start
	next    *activeConfig
	part    func(origin string) *relay.Origin

	newPorts   []*port
	newOrigins []*runner
	newSinks   []*sinkRunner
}

// runner is an origin, its fallback and its part of the table.
type runner struct {
	origin
	task
	// Set once.
	fallback *file.Origin // nil: there is none
	name     string
	table    *relay.Origin
}

// close closes what was opened if the configuration is not used.
func (pl *nextConfig) close() {
	for _, l := range pl.newPorts {
		_ = l.Close() // nothing was served on it
		l.secured.close()
	}
	for _, o := range pl.newOrigins {
		o.close()
	}
}

// openPorts returns an error for every port that cannot be opened, not only the first.
func (pl *nextConfig) openPorts(ctx context.Context) error {
	var errs []error
	cfg := pl.next.cfg
	for i := range cfg.Listeners {
		if pl.before != nil {
			if j := cfg.Before(pl.before.cfg, i); j >= 0 {
				pl.next.ports = append(pl.next.ports, pl.before.ports[j])
				continue
			}
		}
		l, path := &cfg.Listeners[i], fmt.Sprintf("listeners[%d]", i)
		protocols := []string{"h2"}
		if l.REST {
			protocols = append(protocols, "http/1.1")
		}
		secured, err := pl.process.tls.port(cfg, path+".tls", roleListener, l.TLS, protocols...)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if len(errs) == 0 { // else it is not opened anyway
			if err := secured.ready(ctx); err != nil {
				secured.close()
				errs = append(errs, cfg.Problemf(path+".tls.spiffe", "%v", err))
				continue
			}
		}
		open, err := listen(ctx, l.Address, l.SocketMode)
		if err != nil {
			secured.close()
			errs = append(errs, cfg.Problemf(path+".address", "cannot listen on %s: %v", l.Address, err))
			continue
		}
		pl.newPorts = append(pl.newPorts, &port{newRationed(open, pl.process, cfg), secured})
		pl.next.ports = append(pl.next.ports, pl.newPorts[len(pl.newPorts)-1])
	}
	return errors.Join(errs...)
}

// openOrigins keeps the runner of an origin if nothing changes for it.
func (pl *nextConfig) openOrigins() error {
	var errs []error
	cfg := pl.next.cfg
	for i := range cfg.Origins {
		o := &cfg.Origins[i]
		part, was := pl.part(o.Name), pl.before.runner(o.Name)
		if was != nil && was.table == part && pl.before.types.Equal(pl.next.types) && sameSource(pl.before.cfg, cfg, o) {
			pl.next.origins = append(pl.next.origins, was)
			continue
		}
		r, err := pl.process.openRunner(pl.next, o, fmt.Sprintf("origins[%d]", i), part)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		pl.newOrigins = append(pl.newOrigins, r)
		pl.next.origins = append(pl.next.origins, r)
	}
	return errors.Join(errs...)
}

// openRunner opens an origin, and its fallback.
func (p *process) openRunner(f *activeConfig, o *config.Origin, path string, part *relay.Origin) (*runner, error) {
	opened, err := p.openOrigin(f, o, path, part)
	if err != nil {
		return nil, err
	}
	r := &runner{origin: opened, name: o.Name, table: part}
	if o.Fallback == nil {
		return r, nil
	}
	if r.fallback, err = p.openFiles(f, o, path, part); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// runner returns the runner of an origin; nil if there is none.
func (f *activeConfig) runner(name string) *runner {
	if f == nil {
		return nil
	}
	if i := slices.IndexFunc(f.origins, func(r *runner) bool { return r.name == name }); i >= 0 {
		return f.origins[i]
	}
	return nil
}

// sameSource reports whether an origin is spoken to as before.
func sameSource(before, next *config.Config, o *config.Origin) bool {
	was := before.OriginNamed(o.Name)
	if (was.GRPC == nil) != (o.GRPC == nil) || (was.REST == nil) != (o.REST == nil) || before.Limits.NameBytes != next.Limits.NameBytes {
		return false
	}
	if !reflect.DeepEqual(was.Fallback, o.Fallback) {
		return false
	}
	if o.REST != nil {
		return sameREST(before, next, was, o)
	}
	if o.GRPC == nil {
		return *was.Files == *o.Files && reflect.DeepEqual(was.NameFields, o.NameFields)
	}
	return reflect.DeepEqual(was.GRPC.TLS, o.GRPC.TLS) &&
		reflect.DeepEqual(upstreamConfig(before, was), upstreamConfig(next, o)) //nolint:govet // deepequalerrors sees the error of a func, nil in both
}

// notKept returns those of before that are not taken over.
func notKept[T comparable](before, kept []T) []T {
	return slices.DeleteFunc(slices.Clone(before), func(x T) bool { return slices.Contains(kept, x) })
}

// start runs origins and serves ports until ctx ends or they are stopped. f has the configuration
// of the ports.
func (p *process) start(ctx context.Context, parts *errgroup.Group, f *activeConfig, origins []*runner, ports []*port) {
	for _, o := range origins {
		o.start(ctx, parts, o.run)
	}
	for _, l := range ports {
		i := slices.Index(f.ports, l)
		lc := p.listenerConfig(f.cfg, i, l)
		l.secured.whenTrustChanges(func() { p.server.Recheck(l.Listener) })
		parts.Go(func() error {
			if err := p.server.Serve(l.Listener, lc); err != nil && !p.draining.Load() {
				return fmt.Errorf("listeners[%d], %s: %w", i, l.Addr(), err)
			}
			return nil
		})
		c := &f.cfg.Listeners[i]
		p.log.Info("listening", zap.Stringer("address", l.Addr()), zap.String("origin", listenerOrigin(f.cfg, c)), zap.Bool("tls", c.TLS.Enabled()))
	}
}

// listenerConfig returns how a listener is served with what the table has in force.
func (p *process) listenerConfig(cfg *config.Config, i int, l *port) downstream.ListenerConfig {
	c := &cfg.Listeners[i]
	return downstream.ListenerConfig{
		Address: c.Address, Origin: p.table.Origin(listenerOrigin(cfg, c)), TLS: l.secured.server(), REST: c.REST,
		Trusts:        l.secured.judge(x509.ExtKeyUsageClientAuth),
		RequireNodeID: c.RequireNodeID, NoLegacyWildcard: c.NoLegacyWildcard, Compression: c.Compression,
		Dedicated: c.Dedicated, AssumeFeatures: c.AssumeFeatures, V2: c.V2,
	}
}

// sinkRunner is a sink and its configuration.
type sinkRunner struct {
	*sink.Sink
	task
	cfg sink.Config // set once
}

// openSinks keeps the sinks for which nothing changes. It writes nothing.
func (pl *nextConfig) openSinks() error {
	var errs []error
	cfg := pl.next.cfg
	for i := range cfg.Sinks {
		sc := sinkConfig(cfg, &cfg.Sinks[i], pl.part)
		sc.Log, sc.Metrics = pl.process.logger(levels.Sink), pl.process.metrics
		if was := pl.before.sink(sc); was != nil && !pl.regrouped(cfg.SinkOrigin(&cfg.Sinks[i]).Name) {
			pl.next.sinks = append(pl.next.sinks, was)
			continue
		}
		opened, err := sink.New(sc)
		if err != nil {
			at := fmt.Sprintf("sinks[%d]", i)
			// The outer error names the path.
			errs = append(errs, problems(cfg, at, errors.Unwrap(err))...)
			continue
		}
		r := &sinkRunner{Sink: opened, cfg: sc}
		pl.newSinks, pl.next.sinks = append(pl.newSinks, r), append(pl.next.sinks, r)
	}
	return errors.Join(errs...)
}

// regrouped reports whether clients of an origin may belong in other groups
// (relay.Change.Regrouped).
func (pl *nextConfig) regrouped(origin string) bool {
	was, is := pl.before.cfg.OriginNamed(origin), pl.next.cfg.OriginNamed(origin)
	return was != nil && !was.Canary.Clients().Equal(is.Canary.Clients())
}

// sink returns the runner with an equal configuration; nil if there is none.
func (f *activeConfig) sink(cfg sink.Config) *sinkRunner {
	if f != nil {
		if i := slices.IndexFunc(f.sinks, func(r *sinkRunner) bool { return sameSink(r.cfg, cfg) }); i >= 0 {
			return f.sinks[i]
		}
	}
	return nil
}

// sameSink reports whether two sinks are equal, and of the same part of the table.
func sameSink(a, b sink.Config) bool {
	return a.Path == b.Path && a.Origin == b.Origin && proto.Equal(a.Node, b.Node) &&
		slices.Equal(a.Types, b.Types) && slices.Equal(a.Secrets, b.Secrets) &&
		a.OrderHold == b.OrderHold && a.ColdWait == b.ColdWait
}

// sinkConfig returns the configuration of a sink.
func sinkConfig(cfg *config.Config, s *config.Sink, part func(origin string) *relay.Origin) sink.Config {
	return sink.Config{
		Path: s.Path, Origin: part(cfg.SinkOrigin(s).Name), Types: s.Types, Secrets: s.Secrets,
		// the reader of the files
		Node:      &corev3.Node{Id: cmp.Or(s.Node.ID, cfg.Name), Cluster: s.Node.Cluster, UserAgentName: "envoy"},
		OrderHold: cfg.Timing.OrderHold, ColdWait: cfg.Timing.ColdWait,
	}
}

// startSinks runs sinks until ctx ends or they are stopped.
func (p *process) startSinks(ctx context.Context, parts *errgroup.Group, sinks []*sinkRunner) {
	for _, s := range sinks {
		s.start(ctx, parts, s.Run)
	}
}
