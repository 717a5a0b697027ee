package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/client"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/upstream/descriptors"
)

// quietTime is how long a wildcard's answer must pause to count as complete. No message says that
// it is.
const quietTime = time.Second

// get is one run of the command.
type get struct {
	peer
	from    string
	watch   bool
	timeout time.Duration
	output  string

	descriptors []string
	known       *descriptors.Types
}

func getCommand() *cobra.Command {
	g := &get{}
	cmd := &cobra.Command{
		Use:   "get TYPE [NAME...] --from ADDR",
		Short: "Ask any xDS server, as a client for people",
		Long: `Ask any xDS server for resources and print them.

TYPE is cds, eds, lds, rds, srds, vhds, sds, rtds, ecds, leds or a full type URL.
Without a name everything is asked for, as clients always could; '*' asks the
newer way, which some servers want for types other than cds and lds.
With --param it is asked for what is served with these dynamic parameters, and
the constraints of what comes are shown.
ADDR is host:port or unix:///path.`,
		Args:              arguments,
		ValidArgsFunction: completeType,
	}
	f := cmd.Flags()
	g.register(cmd)
	f.StringVar(&g.from, "from", "", "the server's `address`")
	f.BoolVar(&g.watch, "watch", false, "go on printing what changes")
	f.DurationVar(&g.timeout, "timeout", 10*time.Second, "how long to wait; with --watch, until interrupted unless given")
	f.StringArrayVar(&g.descriptors, "descriptors", nil, "a `file` of descriptors, as protoc writes it, of messages to show; may be repeated")
	outputFlag(cmd, &g.output)
	_ = cmd.MarkFlagRequired("from") // fails only for flags that do not exist

	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		if g.watch && !f.Changed("timeout") {
			g.timeout = 0
		}
		return g.run(cmd.Context(), args, cmd.OutOrStdout())
	})
	return cmd
}

func (g *get) run(ctx context.Context, args []string, out io.Writer) error {
	typeURL, ok := config.TypeURL(args[0])
	if !ok {
		return usageError{fmt.Errorf("%q is neither a short name such as cds nor a full type URL", args[0])}
	}
	show, err := newPrinter(g.output, out)
	if err != nil {
		return err
	}
	if g.known, err = descriptors.ReadFiles(g.descriptors); err != nil {
		return err
	}
	cfg, err := g.config(g.from)
	if err != nil {
		return err
	}
	sub, err := g.subscription(typeURL, args[1:])
	if err != nil {
		return err
	}
	c, err := client.Dial(cfg)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // nothing was written that could be lost
	if g.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, g.timeout)
		defer cancel()
	}
	if g.watch {
		return g.follow(ctx, c, sub, show)
	}
	return g.once(ctx, c, sub, show)
}

// follow prints each response until ctx ends. If something was printed, that is no error.
func (g *get) follow(ctx context.Context, c *client.Client, sub client.Subscription, show printer) error {
	answered := false
	for r, err := range c.Watch(ctx, sub) {
		answered = true
		if err == nil {
			err = show.response(documentOf(r, g.known))
		}
		if err != nil {
			return err
		}
	}
	if !answered {
		return fmt.Errorf("%s: nothing %s", g.from, g.until(ctx, nil))
	}
	return nil
}

// once merges responses until everything asked for was answered, and prints the result.
func (g *get) once(ctx context.Context, c *client.Client, sub client.Subscription, show printer) error {
	quietCtx, enough := context.WithCancel(ctx)
	defer enough()
	quiet := time.AfterFunc(quietTime, enough)
	quiet.Stop() // until there is a first answer
	defer quiet.Stop()

	a := newAnswer(sub)
	var failed error
	for r, err := range c.Watch(quietCtx, sub) {
		if err != nil {
			failed = err
			break
		}
		a.take(r)
		if len(a.pending) > 0 {
			continue
		}
		if !a.wildcard {
			break
		}
		quiet.Reset(quietTime)
	}
	if err := show.final(a.document(g.known)); err != nil {
		return err
	}
	switch {
	case failed != nil || !a.wildcard:
	case a.last == nil:
		failed = fmt.Errorf("%s: nothing %s", g.from, g.until(ctx, nil))
	case a.empty() && len(a.pending) == 0:
		failed = fmt.Errorf("%s: answered, and has no %s", g.from, metrics.ShortName(sub.TypeURL))
	}
	if a.unlocated && failed == nil {
		failed = fmt.Errorf("%s: does not understand parameters, and answered as if asked for everything", g.from)
	}
	return errors.Join(failed, a.missing("not "+g.until(ctx, failed)))
}

// until says how long an unanswered name was waited for.
func (g *get) until(ctx context.Context, failed error) string {
	switch {
	case failed != nil:
		return "answered"
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Sprintf("answered within %s", g.timeout)
	}
	return "answered before the interrupt"
}
