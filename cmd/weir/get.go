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
)

// quietTime is how long a wildcard's answer must pause to count as whole: no
// message says so.
const quietTime = time.Second

// get is one run of the command.
type get struct {
	peer
	from    string
	watch   bool
	timeout time.Duration
	output  string
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
		Args: cobra.MinimumNArgs(1),
	}
	f := cmd.Flags()
	g.register(f)
	f.StringVar(&g.from, "from", "", "the server's `address`")
	f.BoolVar(&g.watch, "watch", false, "go on printing what changes")
	f.DurationVar(&g.timeout, "timeout", 10*time.Second, "how long to wait; with --watch, until interrupted unless given")
	f.StringVarP(&g.output, "output", "o", "table", "`table, yaml or json`")
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
		return follow(ctx, c, sub, show)
	}
	return g.once(ctx, c, sub, show)
}

// follow prints each response until ctx ends, which is how a watch should end.
func follow(ctx context.Context, c *client.Client, sub client.Subscription, show printer) error {
	for r, err := range c.Watch(ctx, sub) {
		if err == nil {
			err = show.response(documentOf(r))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// once gathers responses until everything asked for was answered, and prints
// where that led.
func (g *get) once(ctx context.Context, c *client.Client, sub client.Subscription, show printer) error {
	quietCtx, enough := context.WithCancel(ctx)
	defer enough()
	quiet := time.AfterFunc(quietTime, enough)
	quiet.Stop() // until there is something to be whole
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
	if err := show.final(a.document()); err != nil {
		return err
	}
	if failed == nil && a.last == nil && a.wildcard {
		failed = fmt.Errorf("%s: %s", g.from, g.reason(ctx, nil))
	}
	if a.unlocated && failed == nil {
		failed = fmt.Errorf("%s: does not understand parameters, and answered as if asked for everything", g.from)
	}
	return errors.Join(failed, a.missing(g.reason(ctx, failed)))
}

// reason says why there is no answer to what was not answered.
func (g *get) reason(ctx context.Context, failed error) string {
	switch {
	case failed != nil:
		return "not answered"
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Sprintf("not answered within %s", g.timeout)
	}
	return "not answered before the interrupt"
}
