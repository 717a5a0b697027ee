package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/levels"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
)

// maxProblemLines bounds the log lines about one refused file.
const maxProblemLines = 20

// reloads puts changes of the config file into force until ctx ends: when its content changes, and
// on SIGHUP in any case.
func (p *process) reloads(ctx context.Context, parts *errgroup.Group) error {
	if p.path == "" {
		return nil
	}
	changed := make(chan struct{}, 1)
	defer p.files.add(func(time.Time) {
		select {
		case changed <- struct{}{}:
		default: // it is read after this signal
		}
	}, p.path)()
	if p.refusedAtStart == nil {
		p.last.Store(&admin.ConfigState{File: p.path, Since: p.started, Read: p.started, Hash: hashOf(p.config().Text())})
	}
	// The watch reports no change from before it began.
	read, err := config.ReadFile(p.path) // what was read last, accepted or not
	if !p.asAtStart(read, err) {
		read = p.reload(ctx, parts, "a change since the start")
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.hangup:
			read = p.reload(ctx, parts, "SIGHUP")
		case <-changed:
			if now, err := config.ReadFile(p.path); err != nil || !bytes.Equal(now, read) {
				read = p.reload(ctx, parts, "a change of the file")
			}
		}
	}
}

// asAtStart reports whether the text just read is the one in force, or, if the file was refused at
// the start, is refused with the same error.
func (p *process) asAtStart(text []byte, err error) bool {
	cfg := (*config.Config)(nil)
	if err == nil {
		cfg, err = config.Parse(p.path, text, os.LookupEnv)
	}
	if p.refusedAtStart != nil {
		return err != nil && strings.Contains(p.refusedAtStart.Error(), err.Error())
	}
	return err == nil && len(cfg.Changed(p.config())) == 0
}

// reload reads the file and puts all of it into force, or nothing. It returns what it has read.
func (p *process) reload(ctx context.Context, parts *errgroup.Group, why string) []byte {
	now := time.Now()
	p.service.reloading()
	text, err := config.ReadFile(p.path)
	if err == nil {
		err = p.take(ctx, parts, now, text, why)
	}
	switch {
	case p.draining.Load() || ctx.Err() != nil:
		return text // whatever the result
	case err != nil:
		p.refused(now, why, err)
	}
	p.metrics.ConfigReload(err)
	p.service.reloaded()
	return text
}

// take puts a text of the file into force.
func (p *process) take(ctx context.Context, parts *errgroup.Group, now time.Time, text []byte, why string) error {
	cfg, err := config.Parse(p.path, text, os.LookupEnv)
	if err != nil {
		return err
	}
	before := p.active.Load()
	changed := cfg.Changed(before.cfg)
	types, err := readTypes(cfg)
	if err != nil {
		return err
	}
	if !slices.Contains(changed, "types") && !types.Equal(before.types) {
		changed = append(changed, "types") // a descriptor file of the types has changed
	}
	if len(changed) == 0 {
		p.last.Store(&admin.ConfigState{File: p.path, Since: p.last.Load().Since, Read: now, Hash: hashOf(text)})
		p.keep(cfg)
		p.metrics.ConfigInfo(hashOf(text))
		p.logger(levels.Config).Info("read the configuration again; nothing changed", zap.String("because_of", why))
		return nil
	}
	pl, table, err := p.prepare(ctx, before, &activeConfig{cfg: cfg, types: types})
	if err != nil {
		return err
	}
	p.apply(ctx, parts, now, pl, table, zap.String("because_of", why), zap.Strings("changed", changed))
	return nil
}

// prepare checks a configuration and opens what is new in it. If it fails nothing is left open, and
// nothing has changed.
func (p *process) prepare(ctx context.Context, before, next *activeConfig) (_ *nextConfig, _ *relay.Next, err error) {
	cfg := next.cfg
	if err := cfg.CheckReload(before.cfg); err != nil {
		return nil, nil, err
	}
	if err := checkRooms(cfg); err != nil {
		return nil, nil, err
	}
	tc := tableConfig(cfg)
	tc.Metrics, tc.Traces = p.metrics, p.draws
	table, err := p.table.Prepare(tc)
	if err != nil {
		return nil, nil, cfg.Problemf("origins", "%v", err)
	}
	if err := p.thawFirst(before, cfg, table); err != nil {
		return nil, nil, err
	}
	pl := &nextConfig{process: p, before: before, next: next, part: table.Origin}
	defer func() {
		if err != nil {
			pl.close()
		}
	}()
	if err = pl.next.show(); err != nil {
		return nil, nil, err
	}
	return pl, table, errors.Join(pl.openPorts(ctx), pl.openOrigins(), pl.openSinks())
}

// thawFirst returns an error if the configuration would drop what the clients of an origin are kept
// at, by an operator or by the configuration file, or what it says itself that they are to be kept
// at. One that ends its own freeze may drop it.
func (p *process) thawFirst(before *activeConfig, cfg *config.Config, table *relay.Next) error {
	var errs []error
	for _, r := range before.origins {
		f, next := p.freezes.get(r.name), cfg.OriginNamed(r.name)
		byFile := next != nil && next.Freeze || next == nil && !f.file.IsZero()
		back := p.rollbacks.holds(r.name, "")
		regroups := back && next != nil && next.Canary.On() != before.cfg.OriginNamed(r.name).Canary.On()
		if f.frozen.IsZero() && !byFile && !back || table.Origin(r.name) == r.table && !regroups {
			continue
		}
		is, first := "frozen", "unfreeze it first"
		switch {
		case back:
			is, first = "rolled back", "roll it forward first"
		case byFile:
			first = "a file with freeze: false has to be in force first"
		}
		at := "origins"
		for _, path := range cfg.Changed(before.cfg) {
			i := slices.IndexFunc(cfg.Origins, func(o config.Origin) bool { return o.Name == r.name })
			if config.ReloadOf(path) == config.ReloadAnew && strings.HasPrefix(path, fmt.Sprintf("origins[%d].", i)) {
				at = path
			}
		}
		errs = append(errs, cfg.Problemf(at, "origin %q is %s, and this would drop the resources that its clients are kept at: %s", r.name, is, first))
	}
	return errors.Join(errs...)
}

// apply puts a prepared configuration into force, which cannot fail. The old runner of an origin
// ends before the new one starts, so that nothing is asked twice.
func (p *process) apply(ctx context.Context, parts *errgroup.Group, now time.Time, pl *nextConfig, table *relay.Next, said ...zap.Field) {
	before, cfg := pl.before, pl.next.cfg
	leaving, closing := notKept(before.origins, pl.next.origins), notKept(before.ports, pl.next.ports)
	for _, s := range notKept(before.sinks, pl.next.sinks) {
		s.end() // and is waited for, so that no directory has two
	}
	for _, o := range leaving {
		o.stop()
	}
	for _, o := range leaving {
		<-o.done
	}
	p.feeds.end(func(part *relay.Origin) bool { return table.Origin(part.Name()) != part })
	change := table.Commit(now)
	p.freezeAsConfigured(cfg, now)
	p.rollbacks.configure(cfg)
	concerned := p.reconfigure(pl.next, change)
	for _, o := range pl.newOrigins {
		if was := before.runner(o.name); was != nil && was.table == o.table {
			o.succeed(was.origin)
		}
	}
	p.active.Store(pl.next)
	p.keep(cfg)
	p.metrics.ConfigInfo(hashOf(cfg.Text()))
	p.levels.Configure(cfg.Log.Level, cfg.Log.Levels)
	p.metrics.Exemplars(cfg.Metrics.Exemplars)
	p.memory.configure(int64(cfg.Limits.Memory))
	p.logger(levels.Config).Info("new configuration in force", append(said, zap.Int("streams_concerned", concerned.Len()))...)
	// Whoever reads that it is in force finds it logged, at the configured level.
	p.last.Store(&admin.ConfigState{File: p.path, Since: now, Read: now, Hash: hashOf(cfg.Text())})
	for _, w := range cfg.Warnings() {
		warn(p.logger(levels.Config), w)
	}
	p.feeds.start(ctx, parts, p.table, p.via)
	p.canaries.Wake()
	p.start(ctx, parts, pl.next, pl.newOrigins, pl.newPorts)
	p.startSinks(ctx, parts, pl.newSinks)
	for _, o := range leaving {
		o.close()
	}
	concerned.End(ctx, cfg.Timing.Drain)
	p.feeds.end(func(part *relay.Origin) bool { return !part.Canaries() }) // until then clients need them
	for _, l := range closing {
		l.secured.close()
	}
}

// reconfigure passes the configuration to the listeners.
func (p *process) reconfigure(f *activeConfig, change *relay.Change) *downstream.Concerned {
	s, err := serverConfig(f.cfg)
	if err == nil {
		r := downstream.Reconfiguration{Limits: s.Limits, Timing: s.Timing, Rules: s.Rules, Change: change, Listeners: make(map[net.Listener]downstream.ListenerConfig)}
		for i, l := range f.ports {
			r.Listeners[l.Listener] = p.listenerConfig(f.cfg, i, l)
		}
		var concerned *downstream.Concerned
		if concerned, err = p.server.Reconfigure(r); err == nil {
			p.server.KeepRejections(f.cfg.Cache.History.Age)
			return concerned
		}
	}
	// our own bug: checkRooms has accepted it
	panic("a configuration that was checked cannot be used: " + err.Error())
}

// refused logs and records what is wrong with the file; the old configuration stays in force.
func (p *process) refused(now time.Time, why string, err error) {
	problems := config.Problems(err)
	state := *p.last.Load()
	state.Read, state.Refused, state.Problems = now, now, nil
	log := p.logger(levels.Config)
	said, message := zap.String("because_of", why), "the configuration is refused; the one before stays in force"
	if state.LastGood != "" {
		message = "the configuration is refused; the one that was accepted last is in force"
	}
	if len(problems) == 0 {
		state.Problems = []string{err.Error()}
		log.Error(message, said, zap.Error(err))
	}
	for i, x := range problems {
		if i == maxProblemLines {
			log.Error("the configuration has further problems", zap.Int("not_logged", len(problems)-i))
			break
		}
		state.Problems = append(state.Problems, x.Error())
		log.Error(message, said, zap.String("file", x.File), zap.Int("line", x.Line),
			zap.Int("column", x.Column), zap.String("key", x.Path), zap.String("problem", x.Msg))
	}
	p.last.Store(&state)
}

// warn logs something in the file that is valid but hardly intended.
func warn(log *zap.Logger, w *config.Problem) {
	log.Warn("configuration warning", zap.String("file", w.File), zap.Int("line", w.Line),
		zap.Int("column", w.Column), zap.String("key", w.Path), zap.String("warning", w.Msg))
}

// show sets what the admin port shows of cfg.
func (f *activeConfig) show() (err error) {
	if f.yaml, err = f.cfg.YAML(); err == nil {
		f.changed, err = f.cfg.ChangedYAML()
	}
	return err
}

// effective returns the configuration in force, or what in it differs from the defaults, and its
// state.
func (p *process) effective(changed bool) ([]byte, admin.ConfigState) {
	f := p.active.Load()
	if changed {
		return f.changed, *p.last.Load()
	}
	return f.yaml, *p.last.Load()
}
