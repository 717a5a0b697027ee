package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
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
	seconds    []*relay.Next // of the tables of fallbacks that stay
}

// runner is an origin and its part of the table. Whoever starts it, stops it.
type runner struct {
	origin
	// Set once.
	name  string
	table *relay.Origin

	// Set by start.
	stop context.CancelFunc
	done chan struct{}
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
			second, err := prepareSecond(was.origin, cfg, o)
			if second != nil {
				pl.seconds = append(pl.seconds, second)
			}
			errs = append(errs, err)
			continue
		}
		opened, err := pl.process.openOrigin(pl.next, o, fmt.Sprintf("origins[%d]", i), part)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r := &runner{origin: opened, name: o.Name, table: part}
		pl.newOrigins = append(pl.newOrigins, r)
		pl.next.origins = append(pl.next.origins, r)
	}
	return errors.Join(errs...)
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
	if !sameFallback(before, next, was, o) {
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

// sameFallback reports whether the fallback of an origin is as before.
func sameFallback(before, next *config.Config, was, o *config.Origin) bool {
	switch {
	case !reflect.DeepEqual(was.Fallback, o.Fallback):
		return false
	case o.Fallback == nil:
		return true
	case !reflect.DeepEqual(was.NameFields, o.NameFields):
		return false
	}
	return o.Fallback.Files != nil || sameSource(alone(before, was), alone(next, o), secondOrigin(o))
}

// leaving returns the runners that are not taken over.
func (pl *nextConfig) leaving() (gone []*runner) {
	for _, r := range pl.before.origins {
		if !slices.Contains(pl.next.origins, r) {
			gone = append(gone, r)
		}
	}
	return gone
}

// closing returns the ports that are not taken over.
func (pl *nextConfig) closing() (gone []*port) {
	for _, l := range pl.before.ports {
		if !slices.Contains(pl.next.ports, l) {
			gone = append(gone, l)
		}
	}
	return gone
}

// start runs origins and serves ports until ctx ends or they are stopped. f has the configuration
// of the ports.
func (p *process) start(ctx context.Context, parts *errgroup.Group, f *activeConfig, origins []*runner, ports []*port) {
	for _, o := range origins {
		var own context.Context
		own, o.stop = context.WithCancel(ctx)
		o.done = make(chan struct{})
		parts.Go(func() error {
			defer close(o.done)
			return o.run(own)
		})
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
		p.sayListening(f.cfg, i, l)
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
