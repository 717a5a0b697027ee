package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
)

// kept is the last known good on disk, of a process. Its methods may be called on one that has none.
type kept struct {
	*snapshot.Keeper // nil: it is off

	// Set once by restore, before anybody asks.
	origins map[string]bool // of which something was restored
}

// openSnapshot makes what keeps it; nothing is read yet.
func (p *process) openSnapshot() error {
	c := &p.cfg.Cache.Snapshot
	if c.Path == "" {
		return nil
	}
	k, err := snapshot.New(snapshot.Config{
		Path: c.Path, Interval: c.Interval, MaxAge: c.MaxAge, Deployment: p.cfg.Name, Table: p.table,
		Origins: p.keptOrigins, Metrics: p.metrics, Log: p.log,
	})
	if err != nil {
		return errors.Join(problems(p.cfg, "cache.snapshot", err)...)
	}
	p.kept.Keeper = k
	return nil
}

// restore puts what was kept into the table, which nobody is served from yet.
func (k *kept) restore() {
	if k.Keeper == nil {
		return
	}
	k.origins = map[string]bool{}
	for name := range k.Load(time.Now()).Origins {
		k.origins[name] = true
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
	out := make([]snapshot.OriginState, len(p.origins))
	for i, o := range p.origins {
		c, s := &p.cfg.Origins[i], o.status()
		x := &out[i]
		x.Name, x.Addresses, x.Away = c.Name, sources(c), !s.Connected
		switch {
		case s.Connected && !s.LastProof.IsZero():
			x.Vouched = time.Now() // an open stream, or a file that reads, vouches for what came by it
		case !s.LastProof.IsZero():
			x.Vouched = s.LastProof
			if s.Since.After(s.LastProof) {
				x.Vouched = s.Since // when it went away
			}
		}
	}
	return out
}

// sources are the servers of an origin.
func sources(o *config.Origin) []string {
	if o.Files != nil {
		return []string{"files:" + o.Files.Path}
	}
	out := make([]string, len(o.GRPC.Addresses))
	for i, a := range o.GRPC.Addresses {
		out[i] = strings.ToLower(a)
	}
	return out
}
