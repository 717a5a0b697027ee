package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/weir-xds/weir/cmd/weir/canary"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/levels"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/upstream"
)

// tieredWeir is a weir whose origin has canaries, without its ports: it runs in virtual time. All of
// it is what a process runs: the table, both edges, the feed of the tiers, the gates, orders to go
// back, the look for good states, the snapshot.
type tieredWeir struct {
	*process
	net    *relaytest.Net
	refuse *atomic.Bool // the origin cannot be dialled
	end    func()
}

// tieredConfig is the configuration of a play.
func tieredConfig(dialect relaytest.Dialect, guards bool, policy, dir string) string {
	guard := "0s"
	if guards {
		guard = "20s"
	}
	return fmt.Sprintf(`ready: { types: [] }
instance: here
listeners: [{ address: "127.0.0.1:0" }]
origins:
- name: mesh
  group_by: []
  guard: { min: 4, hold: %s }
  canary: { match: { cluster: canary }, %s }
  grpc: { addresses: ["memory:1"], dialect: %s }
timing: { pause: 20ms, backoff: { base: 20ms, max: 100ms }, gather: 20ms }
cache: { linger: 10s, history: { versions: 1000, bytes: 256MiB, age: 1000h }, snapshot: { path: %q, interval: 1s } }
`, guard, policy, dialect, dir)
}

// startTiered starts a weir in front of an origin. around wraps what the gates do to the groups.
func startTiered(w *tiersWorld) *tieredWeir {
	fatal := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	cfg, err := config.Parse("tiers.yaml", []byte(w.config), func(string) (string, bool) { return "", false })
	fatal(err)
	p := &process{log: zap.NewNop(), base: zap.NewNop(), levels: levels.New(cfg.Log.Level, cfg.Log.Levels), started: time.Now(), restored: make(chan struct{}), files: newWatch(zap.NewNop())}
	p.table, err = relay.New(tableConfig(cfg))
	fatal(err)
	p.table.History().Began(p.started)
	part := p.table.Origin("mesh")
	p.freezes = &freezes{table: p.table, of: map[string]freeze{}}
	p.rollbacks = &rollbacks{table: p.table, freezes: p.freezes, of: map[string]*rolledOrigin{}}
	p.canaries = canary.New(canary.Config{Origins: func() []canary.Origin { return w.watched(p.canaryOrigins()) }, Log: zap.NewNop()})

	tw := &tieredWeir{process: p, net: relaytest.Memory(), refuse: &w.away}
	u := upstreamConfig(cfg, &cfg.Origins[0])
	u.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		if tw.refuse.Load() {
			return nil, errors.New("connection refused")
		}
		return w.origin.Net().Dial(ctx, address)
	}
	up, err := upstream.New(u, part)
	fatal(err)
	p.active.Store(&activeConfig{cfg: cfg, origins: []*runner{{origin: &grpcOrigin{up: up, kind: "grpc"}, name: "mesh", table: part}}})
	fatal(p.openSnapshot())
	p.siblings.loaded = make(chan struct{})
	sc, err := serverConfig(cfg)
	fatal(err)
	sc.Table, sc.Refused, sc.Via = p.table, p.refusal, "here"
	p.server, err = downstream.New(sc)
	fatal(err)
	p.goods = newGoods(p)
	l, err := tw.net.Listen()
	fatal(err)

	ctx, cancel := context.WithCancel(context.Background())
	p.restore(ctx)
	var parts errgroup.Group
	parts.Go(func() error { return p.kept.run(ctx) })
	parts.Go(func() error { return advance(ctx, p.table) })
	parts.Go(func() error { return p.canaries.Run(ctx) })
	parts.Go(func() error { return every(ctx, goodLook, p.goods.look) })
	feeds{}.start(ctx, &parts, p.table, "here")
	parts.Go(func() error { return up.Run(ctx) })
	parts.Go(func() error { return p.server.Serve(l, downstream.ListenerConfig{Origin: part}) })
	tw.end = sync.OnceFunc(func() {
		p.kept.drain()
		p.server.Stop()
		cancel()
		if err := errors.Join(parts.Wait(), p.table.Check()); err != nil {
			w.t.Error(err)
		}
	})
	return tw
}

// watched are the origins that have canaries, with the check of the play, and all that is done to
// the groups is judged.
func (w *tiersWorld) watched(all []canary.Origin) []canary.Origin {
	for i := range all {
		all[i].Groups = &watchedTiers{all[i].Groups, w}
		if w.checks {
			all[i].Check = &canary.Check{Ask: w.ask, Interval: 2 * time.Second}
		}
	}
	return all
}

// watchedTiers are the groups of an origin, of which the world is told what they are held at.
type watchedTiers struct {
	canary.Groups
	world *tiersWorld
}

func (g *watchedTiers) Hold(now time.Time, key string, t canary.Tier, at *relay.State) relay.Held {
	done := g.Groups.Hold(now, key, t, at)
	if g.Held(key, t) == at { // unless an operator has it held
		g.world.holds(t, at)
	}
	return done
}
