package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/client"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/relay/xds"
)

// demoEvery is the time between two changes.
const demoEvery = 2 * time.Second

func demoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a sample: changing files, two weirs in a row, five clients",
		Example: `  weir demo
  weir demo --for 30s`,
	}
	length := cmd.Flags().Duration("for", 0, "stop after this `time` (default: at ^C)")
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
	_, _ = fmt.Fprintf(d.out, `A first weir serves the files in %s to a second weir.
The second serves five clients. Two of them request the endpoints of prices with
different parameters, so each receives a variant. A file changes every %s, and each
client prints what it receives.

  first weir   %s   admin page http://%s/
  second weir  %s   admin page http://%s/

Try: weir get cds --from %s
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

// watcher is one client of the demonstration.
type watcher struct {
	demo    *demo
	name    string
	dialect client.Dialect
	ask     []client.Subscription

	// Owned by watch.
	held map[[2]string][]byte // by type URL and name
}

// watch prints changes until ctx ends.
func (w *watcher) watch(ctx context.Context, address string) (err error) {
	w.held = make(map[[2]string][]byte)
	node := &corev3.Node{Id: strings.ReplaceAll(w.name, " ", "-"), Cluster: "demo", UserAgentName: "weir-demo"}
	c, err := client.Dial(client.Config{Address: address, Dialect: w.dialect, Node: node})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // the only error is that it is closed
	for r, err := range c.Watch(ctx, w.ask...) {
		if err != nil {
			return err
		}
		w.demo.responses.Add(1)
		w.demo.received.Add(int64(len(r.Set)))
		w.tell(r)
	}
	return nil
}

// tell prints a line for each difference. SotW responses repeat what has not changed.
func (w *watcher) tell(r *client.Response) {
	for _, res := range r.Set {
		key := [2]string{r.TypeURL, res.Name}
		before, had := w.held[key]
		switch {
		case res.Body == nil || had && bytes.Equal(before, res.Body.GetValue()):
			continue
		case had:
			w.demo.say(w.name, "changed: %s", describe(res.Name, res.Body))
		default:
			w.demo.say(w.name, "new: %s", describe(res.Name, res.Body))
		}
		w.held[key] = res.Body.GetValue()
	}
	for _, name := range r.Removed {
		delete(w.held, [2]string{r.TypeURL, name})
		w.demo.say(w.name, "gone: %s", name)
	}
}

// describe returns the part of a resource that the demonstration changes.
func describe(name string, body *anypb.Any) string {
	m, err := body.UnmarshalNew()
	if err != nil {
		return name
	}
	switch m := m.(type) {
	case *clusterv3.Cluster:
		return fmt.Sprintf("cluster %s, connect timeout %s", name, m.GetConnectTimeout().AsDuration())
	case *endpointv3.ClusterLoadAssignment:
		return fmt.Sprintf("endpoints of %s: %s", name, strings.Join(endpointAddresses(m), ", "))
	case *listenerv3.Listener:
		return fmt.Sprintf("listener %s on port %d", name, m.GetAddress().GetSocketAddress().GetPortValue())
	case *routev3.RouteConfiguration:
		return fmt.Sprintf("routes %s to %s", name, strings.Join(routeClusters(m), ", "))
	}
	return name
}

func endpointAddresses(a *endpointv3.ClusterLoadAssignment) (all []string) {
	for _, locality := range a.GetEndpoints() {
		for _, e := range locality.GetLbEndpoints() {
			s := e.GetEndpoint().GetAddress().GetSocketAddress()
			all = append(all, fmt.Sprintf("%s:%d", s.GetAddress(), s.GetPortValue()))
		}
	}
	return all
}

func routeClusters(c *routev3.RouteConfiguration) (all []string) {
	for _, host := range c.GetVirtualHosts() {
		for _, r := range host.GetRoutes() {
			all = append(all, fmt.Sprintf("%s (%s)", r.GetRoute().GetCluster(), r.GetMatch().GetPrefix()))
		}
	}
	return all
}
