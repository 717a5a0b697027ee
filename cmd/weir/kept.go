package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/relay"
)

// kept is the last known good on disk, of a process. Its methods may be called on one that has
// none.
type kept struct {
	*snapshot.Keeper // nil: it is off

	// Set once by restore, before anybody asks.
	origins map[string]bool // of which something was restored
}

// openSnapshot makes what keeps it; nothing is read yet.
func (p *process) openSnapshot() error {
	cfg := p.config()
	c := &cfg.Cache.Snapshot
	if c.Path == "" {
		return nil
	}
	k, err := snapshot.New(snapshot.Config{
		Path: c.Path, Interval: c.Interval, MaxAge: c.MaxAge, Deployment: cfg.Name, Table: p.table,
		Origins: p.keptOrigins, Metrics: p.metrics, Log: p.log,
	})
	if err != nil {
		return errors.Join(problems(cfg, "cache.snapshot", err)...)
	}
	p.kept.Keeper = k
	return nil
}

// restore puts what was kept into the table, which nobody is served from yet.
func (p *process) restore() {
	if p.kept.Keeper == nil {
		return
	}
	p.kept.origins = map[string]bool{}
	r := p.kept.Load(time.Now())
	for name := range r.Origins {
		p.kept.origins[name] = true
	}
	for name, since := range r.Frozen {
		p.table.Origin(name).Freeze(since)
		p.log.Warn("the origin is frozen, as it was before the restart: clients stay at what was restored",
			zap.String("origin", name), zap.Time("since", since))
	}
}

// run writes what changes until ctx ends.
func (k *kept) run(ctx context.Context) error {
	if k.Keeper == nil {
		return nil
	}
	return k.Run(ctx)
}

// drain keeps what clients want who are made to leave.
func (k *kept) drain() {
	if k.Keeper != nil {
		k.Drain()
	}
}

// status is nil if there is none.
func (k *kept) status() *admin.Snapshot {
	if k.Keeper == nil {
		return nil
	}
	s := k.Status()
	return &s
}

// keptOrigins is how the origins stand, for what is written down of them.
func (p *process) keptOrigins() []snapshot.OriginState {
	f := p.active.Load()
	out := make([]snapshot.OriginState, len(f.origins))
	for i, o := range f.origins {
		s := o.status()
		x := &out[i]
		x.Frozen, _ = o.table.Frozen()
		x.Name, x.Addresses, x.Away = o.name, sources(o.table), !s.Connected
		switch {
		case s.Connected && !s.LastProof.IsZero():
			// an open stream, or a file that reads, vouches for what came by it
			x.Vouched = time.Now()
		case !s.LastProof.IsZero():
			x.Vouched = s.LastProof
			if s.Since.After(s.LastProof) {
				x.Vouched = s.Since // when it went away
			}
		}
	}
	return out
}

// sources are the servers of an origin in the order of their numbers in this
// process: in that of the file, unless a reload has added some. A snapshot has
// the numbers.
func sources(part *relay.Origin) []string {
	keys := part.Servers()
	out := make([]string, 0, len(keys))
	for _, n := range slices.Sorted(maps.Keys(keys)) {
		out = append(out, keys[n])
	}
	return out
}
