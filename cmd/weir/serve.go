package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/canary"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/levels"
	"github.com/weir-xds/weir/cmd/weir/tracing"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/upstream/descriptors"
)

// process is one weir: the packages, wired together, and the ports.
type process struct {
	// Set once by newProcess.
	path string // of the config file; "": there is none, so no reloads
	// Directory for the configuration that was last accepted; "": it is not written.
	keepIn   string
	hangup   <-chan os.Signal // asks for a reload; nil: nothing does
	via      string           // viaName
	base     *zap.Logger      // of all packages
	log      *zap.Logger      // of the process itself
	levels   *levels.Levels
	started  time.Time
	table    *relay.Table
	freezes  *freezes
	canaries *canary.Gates
	metrics  *metrics.Metrics
	registry *prometheus.Registry
	server   *downstream.Server
	memory   *memory
	goods    *goods
	admin    *web
	pages    *admin.Admin // what it serves
	probes   *web         // nil: there is none
	files    *watch
	tls      *certificates
	kept     kept
	siblings siblings
	service  *service // nil: nobody is told how the process stands
	tracing  *tracing.Tracing
	draws    *relay.Traces // with tracing; nil: there is none
	first    *nextConfig   // what was opened at the start
	feeds    feeds         // owned by run, and then by reloads

	rollbacks *rollbacks
	// refusedAtStart is why the file was refused at the start, so that the configuration that was
	// last accepted is in force; nil: it was accepted.
	refusedAtStart error
	auditing       chan struct{} // one slot, so that one origin is audited at a time
	restored       chan struct{} // closed when the table has what the process starts with

	active atomic.Pointer[activeConfig] // in force; replaced by reload
	last   atomic.Pointer[admin.ConfigState]
	ready  atomic.Bool // it was ready once

	shortage shortage
	noFiles  fileShortage

	askOnce  sync.Once
	asked    chan struct{} // closed when a drain is requested
	draining atomic.Bool
}

// activeConfig is a configuration and what serves it. It is immutable.
type activeConfig struct {
	cfg     *config.Config
	yaml    []byte             // cfg, as the admin port shows it
	changed []byte             // the same without what is as by default
	types   *descriptors.Types // of cfg
	ports   []*port            // one for each of cfg.Listeners
	origins []*runner          // one for each of cfg.Origins
	sinks   []*sinkRunner      // one for each of cfg.Sinks
}

// config returns the configuration in force.
func (p *process) config() *config.Config { return p.active.Load().cfg }

// port is an open listener.
type port struct {
	net.Listener
	secured *secured
}

// newProcess checks and opens everything that can be checked and opened, so that a process that
// starts has its ports. If it fails, nothing is left open.
func newProcess(ctx context.Context, cfg *config.Config, log *zap.Logger) (_ *process, err error) {
	l := levels.New(cfg.Log.Level, cfg.Log.Levels)
	p := &process{
		base: log, log: l.Logger(log, levels.Weir), levels: l, started: time.Now(), registry: prometheus.NewRegistry(), asked: make(chan struct{}),
		files: newWatch(l.Logger(log, levels.Config)), auditing: make(chan struct{}, 1), restored: make(chan struct{}),
	}
	p.tls = newCertificates(p.files, p.logger(levels.TLS))
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p.metrics = metrics.New(p.registry)
	p.tls.count, p.tls.taken = p.metrics.TLSReload, p.metrics.TLSLoaded
	p.metrics.BuildInfo(buildVersion())
	p.metrics.Exemplars(cfg.Metrics.Exemplars)
	p.metrics.ConfigLoaded(nil)
	p.metrics.ConfigInfo(hashOf(cfg.Text()))
	if err = p.openTracing(ctx, cfg); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && p.tracing != nil {
			p.tracing.Close()
		}
	}()
	tc := tableConfig(cfg)
	tc.Metrics, tc.Traces = p.metrics, p.draws
	if p.table, err = relay.New(tc); err != nil {
		return nil, cfg.Problemf("origins", "%v", err)
	}
	p.feeds = feeds{}
	p.table.History().Began(p.started)
	p.canaries = canary.New(canary.Config{Origins: p.canaryOrigins, Count: p.metrics.CanaryCandidate, Log: p.logger(levels.Weir)})
	p.freezes = &freezes{table: p.table, of: map[string]freeze{}}
	p.rollbacks = &rollbacks{table: p.table, freezes: p.freezes, of: map[string]*rolledOrigin{}}
	first := &nextConfig{process: p, next: &activeConfig{cfg: cfg}, part: p.table.Origin}
	p.first = first
	p.active.Store(first.next) // completed below
	p.last.Store(&admin.ConfigState{Since: p.started, Read: p.started, Hash: hashOf(cfg.Text())})
	if err = first.next.show(); err != nil {
		return nil, err
	}
	if first.next.types, err = readTypes(cfg); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.discard()
		}
	}()
	if err = errors.Join(first.openPorts(ctx), p.openAdmin(ctx)); err != nil {
		return nil, err
	}
	if p.via, err = p.viaName(); err != nil {
		return nil, err
	}
	// Origins come after the ports: opening them may log.
	if err = first.openOrigins(); err != nil {
		return nil, err
	}
	if err = first.openSinks(); err != nil {
		return nil, err
	}
	if err = errors.Join(p.openSnapshot(), p.openSiblings(ctx)); err != nil {
		return nil, err
	}
	server, err := serverConfig(cfg)
	if err != nil {
		return nil, err
	}
	server.Via, server.Table, server.Metrics, server.Log = p.via, p.table, p.metrics, p.logger(levels.Downstream)
	server.Refused = p.refusal
	server.LoadReports, server.Resolver = p.loadReports, describedTypes{p}
	if p.tracing != nil {
		server.Traces, server.TraceID = p.tracing, p.tracing.TraceID
	}
	if p.server, err = downstream.New(server); err != nil {
		return nil, errors.Join(problems(cfg, "", err)...)
	}
	p.server.KeepRejections(cfg.Cache.History.Age)
	p.goods = newGoods(p)
	p.memory = openMemory(int64(cfg.Limits.Memory), p.table, p.log)
	p.memory.each = func(now time.Time) {
		why, admitted := p.server.Full()
		why = cmp.Or(why, p.noFiles.why(now))
		p.shortage.note(now, why, admitted)
	}
	p.metrics.Gauges(p.picture)
	return p, nil
}

// logger returns the logger of a package, one of levels.Packages.
func (p *process) logger(name string) *zap.Logger { return p.levels.Logger(p.base, name) }

// discard closes what newProcess has opened if nothing is served.
func (p *process) discard() {
	p.first.close()
	p.tls.end()
	for _, w := range []*web{p.admin, p.probes, p.siblings.port} {
		if w != nil {
			_ = w.listener.Close()
		}
	}
}

// run serves until ctx ends, a drain is requested, or a part fails for good.
func (p *process) run(ctx context.Context) error {
	// Parts end in stages, so none of them ends with ctx.
	parts, work := errgroup.WithContext(context.WithoutCancel(ctx))
	work, stopWork := context.WithCancel(work)
	defer stopWork()

	p.service.starting()
	if s := p.siblings.port; s != nil {
		parts.Go(s.serve)
	}
	for _, w := range p.webs() {
		parts.Go(w.serve)
	}
	p.restore(ctx)
	close(p.restored)
	parts.Go(func() error { return p.kept.run(work) })
	parts.Go(func() error { return advance(work, p.table) })
	parts.Go(func() error { return p.files.run(work) })
	parts.Go(func() error { return every(work, sharingLook, newSharing(p).look) })
	gates, stopGates := context.WithCancel(work)
	defer stopGates()
	parts.Go(func() error { return p.canaries.Run(gates) })
	parts.Go(func() error { return p.memory.watch(work) })
	parts.Go(func() error { return every(work, goodLook, p.goods.look) })
	parts.Go(func() error { return p.pages.Run(work) })
	if p.tracing != nil {
		parts.Go(func() error { return p.tracing.Run(work) })
	}
	p.first = nil // it is served now
	first := p.active.Load()
	p.feeds.start(work, parts, p.table, p.via)
	p.start(work, parts, first, first.origins, first.ports)
	p.startSinks(work, parts, first.sinks)
	parts.Go(func() error { return p.reloads(work, parts) })
	for _, w := range p.allWebs() {
		p.log.Info("listening", zap.String("port", w.name), zap.Stringer("address", w.listener.Addr()))
	}
	parts.Go(func() error { return p.service.run(work) })

	why := "a signal"
	select {
	case <-ctx.Done():
	case <-p.asked:
		why = "a request to the admin port"
	case <-work.Done():
		why = "a failure"
	}
	p.log.Info("draining", zap.String("because_of", why), zap.Duration("at_most", p.config().Timing.Drain))
	p.draining.Store(true)
	p.service.stopping(why, p.config().Timing.Drain)
	p.kept.drain()
	stopGates() // canaries that a drain sends away are not gone
	p.server.Drain(context.WithoutCancel(ctx), p.config().Timing.Drain)
	stopWork()
	// The ports for operators close last, so that the shutdown can be watched.
	for _, w := range p.allWebs() {
		w.close(context.WithoutCancel(ctx))
	}
	err := parts.Wait()
	p.tls.end()
	p.log.Info("ended", zap.Duration("up", time.Since(p.started)))
	_ = p.log.Sync() // terminals and pipes refuse it
	return err
}

// drain makes run end. It may be called more than once.
func (p *process) drain() { p.askOnce.Do(func() { close(p.asked) }) }

// advance passes the time to a table.
func advance(ctx context.Context, table *relay.Table) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var due <-chan time.Time
		if next := table.Advance(time.Now()); !next.IsZero() {
			timer.Reset(time.Until(next))
			due = timer.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-due:
		case <-table.Deadlines():
		}
	}
}

// instance returns the name of this process: the configured one, else the host's.
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

// viaName returns this process's name for other relays (RELAY-87). If that is the host's name, the
// first port tells the relays of a host apart: one behind the other is no loop.
func (p *process) viaName() (string, error) {
	f := p.active.Load()
	name, err := instance(f.cfg)
	if err == nil && f.cfg.Instance == "" {
		name += "/" + f.ports[0].Addr().String()
	}
	return name, err
}

// every calls look at each interval until ctx ends. A look that takes longer delays the next one,
// and no two run at once.
func every(ctx context.Context, interval time.Duration, look func(now time.Time)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			look(now)
		}
	}
}

// task is something that runs until it is stopped. Whoever starts it, stops it.
type task struct {
	// Set by start.
	stop context.CancelFunc
	done chan struct{}
}

// start runs the task until ctx ends or it is stopped.
func (t *task) start(ctx context.Context, parts *errgroup.Group, run func(context.Context) error) {
	ctx, t.stop = context.WithCancel(ctx)
	t.done = make(chan struct{})
	parts.Go(func() error {
		defer close(t.done)
		return run(ctx)
	})
}

// end stops the task, and waits for it.
func (t *task) end() {
	t.stop()
	<-t.done
}
