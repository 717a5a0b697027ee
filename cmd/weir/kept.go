package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/levels"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/relay"
)

// kept is the snapshot of a process. Its methods may be called if there is none.
type kept struct {
	*snapshot.Keeper // nil: it is off

	keys atomic.Pointer[snapshot.Keys] // of the key file; nil: there is none

	// Set by restore, before anything is served.
	restored map[string]snapshot.Origin // origins with restored resources, as they were
	origins  map[string]bool            // these
	from     string                     // where they are from: fromSnapshot, or as seed.Found says
}

// fromSnapshot says that something was restored from the own snapshot.
const fromSnapshot = "snapshot"

// take notes what was restored.
func (k *kept) take(r snapshot.Restored, from string) {
	k.restored, k.origins, k.from = r.Origins, map[string]bool{}, from
	for name := range r.Origins {
		k.origins[name] = true
	}
}

// source is where what was restored of an origin is from; "": nothing was.
func (k *kept) source(origin string) string {
	if k.origins[origin] {
		return k.from
	}
	return ""
}

// openSnapshot makes the keeper. It reads the key file, and has it watched.
func (p *process) openSnapshot() error {
	cfg := p.config()
	c := &cfg.Cache.Snapshot
	if cfg.Cache.UsesKey() {
		p.files.add(func(time.Time) { p.readKeysAgain(c.KeyFile) }, c.KeyFile)
		keys, warning, err := snapshot.ReadKeys(c.KeyFile)
		if err != nil {
			return cfg.Problemf("cache.snapshot.key_file", "%v", err)
		}
		if warning != nil {
			p.logger(levels.Snapshot).Warn("warning about the key of the snapshot", zap.Error(warning))
		}
		p.kept.keys.Store(keys)
	}
	if c.Path == "" {
		return nil
	}
	p.kept.Keeper = snapshot.New(snapshot.Config{
		Path: c.Path, Interval: c.Interval, MaxBytes: int64(c.MaxBytes), MaxAge: c.MaxAge, Deployment: cfg.Name, Table: p.table, Room: p.room,
		Origins: p.keptOrigins, Keys: p.kept.keys.Load(), Metrics: p.metrics, Log: p.logger(levels.Snapshot),
	})
	return nil
}

// readKeysAgain reads a key file that has changed. One that cannot be used changes nothing.
func (p *process) readKeysAgain(path string) {
	keys, _, err := snapshot.ReadKeys(path)
	if err != nil {
		p.logger(levels.Snapshot).Error("cannot read the key of the snapshot; the old one stays in force", zap.Error(err))
		return
	}
	p.kept.keys.Store(keys)
	if p.kept.Keeper != nil {
		p.kept.SetKeys(keys)
	}
	p.logger(levels.Snapshot).Info("read the key of the snapshot again", zap.String("key", keys.ID()))
}

// restore puts the snapshot into the table, which serves nobody yet; or else what a sibling has. It
// freezes what is to stay at that.
func (p *process) restore(ctx context.Context) {
	var r snapshot.Restored
	if p.kept.Keeper != nil {
		r = p.kept.Load(time.Now())
		p.kept.take(r, fromSnapshot)
		for name, o := range r.Freezes {
			p.recallGates(name, o.Gates)
			p.obey(name, []order{{o.Frozen, o.FrozenChanged}}, "as before the restart")
			p.obeyOrders(name, o.Rollbacks, "as before the restart")
		}
	}
	p.askSiblings(ctx, r.Types == 0)
	p.holdTiers(time.Now())
	p.freezeAsConfigured(p.config(), time.Now())
}

// originAddresses returns the servers of each configured origin.
func (p *process) originAddresses() map[string][]string {
	m := map[string][]string{}
	for _, o := range p.keptOrigins() {
		m[o.Name] = o.Addresses
	}
	return m
}

// run writes changes until ctx ends.
func (k *kept) run(ctx context.Context) error {
	if k.Keeper == nil {
		return nil
	}
	return k.Run(ctx)
}

// durableWait bounds the wait until an order is on disk: less than operatorWait, so that its answer
// says why it is not.
const durableWait = 5 * time.Second

var errLate = fmt.Errorf("the disk takes longer than %v", durableWait)

// durable has on disk what an order of an operator has changed, and returns what to add to its
// answer: "" if it is there. holds: it keeps clients at something. Without a snapshot nothing is
// left after a restart that the end of such an order would have to end.
func (k *kept) durable(ctx context.Context, holds bool) string {
	switch {
	case k.Keeper == nil && holds:
		return "this is not on disk, as cache.snapshot.path is not set: weir forgets it at a restart"
	case k.Keeper == nil:
		return ""
	}
	ctx, stop := context.WithTimeoutCause(ctx, durableWait, errLate)
	defer stop()
	if err := k.Sync(ctx); err != nil {
		return fmt.Sprintf("this is in force, but not on disk: weir forgets it if it is killed before the snapshot is written (%v)", err)
	}
	return ""
}

// drain keeps the subscriptions of clients whose streams a drain ends.
func (k *kept) drain() {
	if k.Keeper != nil {
		k.Drain()
	}
}

// status returns the snapshot's status; nil if it is off.
func (k *kept) status() *admin.Snapshot {
	if k.Keeper == nil {
		return nil
	}
	s := k.Status()
	return &s
}

// keptOrigins returns the state of the origins, for their snapshots.
func (p *process) keptOrigins() []snapshot.OriginState {
	f := p.active.Load()
	out := make([]snapshot.OriginState, len(f.origins))
	for i, o := range f.origins {
		s := o.status()
		x := &out[i]
		said := p.freezes.get(o.name)
		x.Frozen, x.FrozenChanged = said.frozen, said.changed
		x.Rollbacks = p.rollbacks.kept(o.name)
		x.Gates = p.gateMemory(o.name)
		x.Name, x.Addresses, x.Away = o.name, sources(o.table), !s.Connected
		switch {
		case s.Connected && !s.LastProof.IsZero():
			// an open stream, or a valid file, vouches for what is held
			x.Vouched = time.Now()
		case !s.LastProof.IsZero():
			x.Vouched = s.LastProof
			if s.Since.After(s.LastProof) {
				x.Vouched = s.Since // when the origin was lost
			}
		}
	}
	return out
}

// sources returns the servers of an origin by their numbers in this process, which snapshots refer
// to: in the order of the file, followed by those that a reload has added.
func sources(part *relay.Origin) []string {
	keys := part.Servers()
	out := make([]string, 0, len(keys))
	for _, n := range slices.Sorted(maps.Keys(keys)) {
		out = append(out, keys[n])
	}
	return out
}
