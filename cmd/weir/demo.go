package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/weir-xds/weir/cmd/weir/client"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/relay/xds"
)

// demoEvery is the time between two changes.
const demoEvery = 2 * time.Second

func demoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch a sample at work: files that change, two weirs in a row, five clients",
		Args:  arguments,
	}
	length := cmd.Flags().Duration("for", 0, "end by itself after this `time`; 0s: when interrupted")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		if *length < 0 {
			return usageError{fmt.Errorf("--for %s: must not be negative", *length)}
		}
		ctx := cmd.Context()
		if *length > 0 {
			limited, cancel := context.WithTimeout(ctx, *length)
			defer cancel()
			ctx = limited
		}
		log := newLogger(config.Log{Format: "console"}, cmd.ErrOrStderr())
		return newDemo(cmd.OutOrStdout(), log).run(ctx)
	})
	return cmd
}

// demo is one run of the command.
type demo struct {
	// Set once by newDemo.
	log     *zap.Logger
	started time.Time
	every   time.Duration    // time between two changes
	tick    <-chan time.Time // when to change something; nil: every interval

	mu  sync.Mutex // guards out
	out io.Writer

	changes, responses, received atomic.Int64
}

func newDemo(out io.Writer, log *zap.Logger) *demo {
	return &demo{log: log, started: time.Now(), every: demoEvery, out: out}
}

// run ends with ctx, which is no error.
func (d *demo) run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "weir-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	sample := newSample(dir)
	if err := sample.write(); err != nil {
		return err
	}
	first, err := d.weir(ctx, "first", fmt.Sprintf("files: { path: %q }", dir))
	if err != nil {
		return err
	}
	second, err := d.weir(ctx, "second", fmt.Sprintf("grpc: { addresses: [%q] }", first.active.Load().ports[0].Addr()))
	if err != nil {
		first.discard()
		return err
	}
	d.introduce(dir, first, second)
	err = d.play(ctx, sample, first, second)
	d.say("demo", "%d changes were made; the clients received %d resources in %d responses",
		d.changes.Load(), d.received.Load(), d.responses.Load())
	return err
}

// weir opens a weir on free ports.
func (d *demo) weir(ctx context.Context, name, source string) (*process, error) {
	cfg, err := config.Parse("demo-"+name+".yaml", fmt.Appendf(nil, `
name: demo
instance: %s
listeners: [{ address: "127.0.0.1:0" }]
admin: { address: "127.0.0.1:0" }
origins: [{ name: %s, tp2: true, %s }]
timing: { drain: 1s }
log: { level: warn }
`, name, name+"-origin", source), nil)
	if err != nil {
		return nil, err
	}
	return newProcess(ctx, cfg, d.log)
}

// play runs everything until ctx ends or a part fails. Then it stops the parts, clients first, so
// that no part logs the loss of another.
func (d *demo) play(ctx context.Context, s *sample, first, second *process) error {
	parts, ctx := errgroup.WithContext(ctx)
	quiet := context.WithoutCancel(ctx)
	firstCtx, endFirst := context.WithCancel(quiet)
	secondCtx, endSecond := context.WithCancel(quiet)
	parts.Go(func() error { return first.run(firstCtx) })
	parts.Go(func() error {
		defer endFirst()
		return second.run(secondCtx)
	})
	parts.Go(func() error {
		defer endSecond()
		return d.watchAll(ctx, second.active.Load().ports[0].Addr().String())
	})
	parts.Go(func() error { return d.change(ctx, s) })
	err := parts.Wait()
	endFirst()
	endSecond()
	return err
}

func (d *demo) watchAll(ctx context.Context, address string) error {
	parts, ctx := errgroup.WithContext(ctx)
	for _, w := range []watcher{
		{demo: d, name: "delta cds", dialect: client.Delta, ask: []client.Subscription{{TypeURL: xds.ClusterType}}},
		{demo: d, name: "sotw lds+rds", dialect: client.SotW, ask: []client.Subscription{
			{TypeURL: xds.ListenerType},
			{TypeURL: xds.RouteType, Names: []string{sampleRoute}},
		}},
		{demo: d, name: "delta eds", dialect: client.Delta, ask: []client.Subscription{
			{TypeURL: xds.EndpointType, Names: []string{"api", "web"}},
		}},
		{demo: d, name: "env=prod", dialect: client.Delta, ask: pricesFor("prod")},
		{demo: d, name: "env=staging", dialect: client.SotW, ask: pricesFor("staging")},
	} {
		parts.Go(func() error { return w.watch(ctx, address) })
	}
	return parts.Wait()
}

// pricesFor subscribes with dynamic parameters.
func pricesFor(env string) []client.Subscription {
	return []client.Subscription{{TypeURL: xds.EndpointType, Names: []string{"prices"}, Params: map[string]string{"env": env}}}
}

// change rewrites the files again and again.
func (d *demo) change(ctx context.Context, s *sample) error {
	tick := d.tick
	if tick == nil {
		ticker := time.NewTicker(d.every)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
		sentence, err := s.step()
		if err != nil {
			return err
		}
		d.changes.Add(1)
		d.say("files", "%s", sentence)
	}
}

func (d *demo) introduce(dir string, first, second *process) {
	address := func(p *process) string { return p.active.Load().ports[0].Addr().String() }
	d.mu.Lock()
	defer d.mu.Unlock()
	_, _ = fmt.Fprintf(d.out, `The files in %s are the origin of a first weir,
which is the origin of a second, which has five clients. Two of them ask for the
endpoints of prices, each with parameters of its own, and get each its variant.
A file changes every %s, and the clients tell what they receive.

  first weir   %s   admin page http://%s/
  second weir  %s   admin page http://%s/

Ask yourself: weir get cds --from %s
              weir get eds prices --param env=prod --from %s
`, dir, d.every, address(first), first.admin.listener.Addr(), address(second), second.admin.listener.Addr(), address(second), address(second))
}

// say prints a line: when, who, what.
func (d *demo) say(who, format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// an error means that nobody reads the output
	_, _ = fmt.Fprintf(d.out, "%6.2fs  %-12s  %s\n", time.Since(d.started).Seconds(), who, fmt.Sprintf(format, args...))
}
