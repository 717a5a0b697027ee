package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
)

// serve runs the relay until ctx ends, and then ends it in order. What keeps it
// from starting is reported at once, one line each.
func serve(ctx context.Context, cfg *config.Config, log *zap.Logger) error {
	p, err := newProcess(ctx, cfg, log)
	if err != nil {
		return err
	}
	return p.run(ctx)
}

// process is one weir: the rooms, wired together, and the ports.
type process struct {
	// Set once by newProcess.
	cfg      *config.Config
	log      *zap.Logger
	started  time.Time
	table    *relay.Table
	metrics  *metrics.Metrics
	registry *prometheus.Registry
	ports    []port   // one for each of cfg.Listeners
	origins  []origin // one for each of cfg.Origins
	server   *downstream.Server
	admin    *web
	probes   *web // nil: there is none
	files    *watch
	tls      *certificates
	kept     kept
	auditing chan struct{} // one slot: of all origins one is audited at a time

	askOnce  sync.Once
	asked    chan struct{} // closed when a drain is asked for
	draining atomic.Bool
}

// port is a listener that is open but not served yet.
type port struct {
	net.Listener
	config downstream.ListenerConfig
}

// newProcess checks and opens all there is to check and open, so that a process
// that starts at all has its ports. If it fails, nothing is left open.
func newProcess(ctx context.Context, cfg *config.Config, log *zap.Logger) (_ *process, err error) {
	p := &process{
		cfg: cfg, log: log, started: time.Now(), registry: prometheus.NewRegistry(), asked: make(chan struct{}),
		files: newWatch(log), auditing: make(chan struct{}, 1),
	}
	p.tls = newCertificates(p.files, log)
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p.metrics = metrics.New(p.registry)
	p.metrics.BuildInfo(buildVersion())
	tc := tableConfig(cfg)
	tc.Metrics = p.metrics
	if p.table, err = relay.New(tc); err != nil {
		return nil, cfg.Problemf("origins", "%v", err)
	}
	defer func() {
		if err != nil {
			p.closePorts()
		}
	}()
	if err = p.openPorts(ctx); err != nil {
		return nil, err
	}
	// Origins come after the ports: from here on there may be log lines.
	if err = p.openOrigins(); err != nil {
		return nil, err
	}
	if err = p.openSnapshot(); err != nil {
		return nil, err
	}
	server, err := serverConfig(cfg)
	if err != nil {
		return nil, err
	}
	if server.Via, err = p.viaName(); err != nil {
		return nil, err
	}
	server.Table, server.Metrics, server.Log = p.table, p.metrics, log
	if p.server, err = downstream.New(server); err != nil {
		return nil, errors.Join(problems(cfg, "", err)...)
	}
	p.metrics.Gauges(p.picture)
	return p, nil
}

// openPorts reports every port that cannot be opened, not only the first.
func (p *process) openPorts(ctx context.Context) error {
	var errs []error
	for i := range p.cfg.Listeners {
		l, path := &p.cfg.Listeners[i], fmt.Sprintf("listeners[%d]", i)
		secured, err := p.tls.port(p.cfg, path+".tls", roleListener, l.TLS, "h2")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		open, err := listen(ctx, l.Address, l.SocketMode)
		if err != nil {
			errs = append(errs, p.cfg.Problemf(path+".address", "cannot listen on %s: %v", l.Address, err))
			continue
		}
		p.ports = append(p.ports, port{open, downstream.ListenerConfig{
			Origin: p.table.Origin(listenerOrigin(p.cfg, l)), TLS: secured.server(),
			RequireNodeID: l.RequireNodeID, NoLegacyWildcard: l.NoLegacyWildcard, Compression: l.Compression,
			Dedicated: l.Dedicated, AssumeFeatures: l.AssumeFeatures,
		}})
	}
	if err := p.openAdmin(ctx); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (p *process) closePorts() {
	for _, l := range p.ports {
		_ = l.Close() // nothing was served on it
	}
	for _, w := range []*web{p.admin, p.probes} {
		if w != nil {
			_ = w.listener.Close()
		}
	}
}

func (p *process) openOrigins() error {
	var errs []error
	for i := range p.cfg.Origins {
		o, err := p.openOrigin(&p.cfg.Origins[i], fmt.Sprintf("origins[%d]", i))
		if err != nil {
			errs = append(errs, err)
		}
		p.origins = append(p.origins, o)
	}
	return errors.Join(errs...)
}

// run serves until ctx ends, a drain is asked for, or a part fails for good.
func (p *process) run(ctx context.Context) error {
	// What runs ends in stages, so none of it hangs on ctx.
	parts, work := errgroup.WithContext(context.WithoutCancel(ctx))
	work, stopWork := context.WithCancel(work)
	defer stopWork()

	p.kept.restore()
	for _, w := range p.webs() {
		parts.Go(w.serve)
	}
	parts.Go(func() error { return p.kept.run(work) })
	parts.Go(func() error { return p.advance(work) })
	parts.Go(func() error { return p.files.run(work) })
	parts.Go(func() error { return newSharing(p).watch(work) })
	for _, o := range p.origins {
		parts.Go(func() error { return o.run(work) })
	}
	for i, l := range p.ports {
		parts.Go(func() error {
			if err := p.server.Serve(l.Listener, l.config); err != nil {
				return fmt.Errorf("listeners[%d], %s: %w", i, l.Addr(), err)
			}
			return nil
		})
	}
	p.sayStarted()

	why := "a signal"
	select {
	case <-ctx.Done():
	case <-p.asked:
		why = "a request to the admin port"
	case <-work.Done():
		why = "a failure"
	}
	p.log.Info("draining", zap.String("because_of", why), zap.Duration("at_most", p.cfg.Timing.Drain))
	p.draining.Store(true)
	p.kept.drain()
	p.server.Drain(context.WithoutCancel(ctx), p.cfg.Timing.Drain)
	stopWork()
	// The ports for operators are last, so that the end can be watched.
	for _, w := range p.webs() {
		w.close(context.WithoutCancel(ctx))
	}
	err := parts.Wait()
	p.log.Info("ended", zap.Duration("up", time.Since(p.started)))
	_ = p.log.Sync() // terminals and pipes refuse it
	return err
}

// drain makes run end. It may be called again.
func (p *process) drain() { p.askOnce.Do(func() { close(p.asked) }) }

// advance drives the table's time.
func (p *process) advance(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var due <-chan time.Time
		if next := p.table.Advance(time.Now()); !next.IsZero() {
			timer.Reset(time.Until(next))
			due = timer.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-due:
		case <-p.table.Deadlines():
		}
	}
}

func (p *process) sayStarted() {
	for i, l := range p.ports {
		p.log.Info("listening", zap.Stringer("address", l.Addr()), zap.String("origin", l.config.Origin.Name()),
			zap.Bool("tls", p.cfg.Listeners[i].TLS.Enabled()))
	}
	for _, w := range p.webs() {
		p.log.Info("listening", zap.String("port", w.name), zap.Stringer("address", w.listener.Addr()))
	}
}

// instance names this process: the configured name, else the host's.
func instance(cfg *config.Config) (string, error) {
	if cfg.Instance != "" {
		return cfg.Instance, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", cfg.Problemf("instance", "is empty, and the host name cannot be had: %v", err)
	}
	return host, nil
}

// viaName is what this process is known by to other relays (RELAY-87). Where the name is the host's, the first port tells the
// relays of one host apart: one behind the other is no loop.
func (p *process) viaName() (string, error) {
	name, err := instance(p.cfg)
	if err == nil && p.cfg.Instance == "" {
		name += "/" + p.ports[0].Addr().String()
	}
	return name, err
}
