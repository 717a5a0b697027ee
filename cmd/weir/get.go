package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
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

// fromHint says where the address of the server comes from.
const fromHint = "Set --from to the address of a listener"

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
		Use:   "get TYPE [NAME...]",
		Short: "Query any xDS server and print its resources",
		Long: `Query an xDS server, a control plane or a weir, and print its resources.

TYPE is cds, eds, lds, rds, srds, vhds, sds, rtds, ecds, leds or a full type URL.
Without NAME the request is a legacy wildcard: all resources of the type. NAME '*'
is the explicit wildcard. Some servers require it for types other than cds and lds.
With --param the output shows the constraints of each resource.`,
		Example: `  weir get cds
  weir get eds backend --from control-plane:18000 -o yaml
  weir get cds --from 10.0.0.7:18000 --ca ca.pem --node-id web-1 --node-cluster web
  weir get eds backend --param env=prod --watch`,
		ValidArgsFunction: completeArgs(anyType),
	}
	f := cmd.Flags()
	g.register(cmd)
	f.StringVar(&g.from, "from", config.DefaultListener, "`address` of the server: host:port or unix:///path")
	f.BoolVar(&g.watch, "watch", false, "print each response as it arrives, until ^C")
	f.DurationVar(&g.timeout, "timeout", 10*time.Second, "how long to wait; with --watch there is no limit unless set")
	f.StringArrayVar(&g.descriptors, "descriptors", nil, "`file` of descriptors from protoc, to show messages that weir does not know; may be repeated")
	outputFlag(cmd, &g.output)

	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		if g.watch && !f.Changed("timeout") {
			g.timeout = 0
		}
		return g.run(cmd.Context(), args, cmd.OutOrStdout())
	})
	return cmd
}

func (g *get) run(ctx context.Context, args []string, out io.Writer) error {
	typeURL, err := typeOf(args[0])
	if err != nil {
		return err
	}
	show := newPrinter(g.output, out)
	if g.known, err = descriptors.ReadFiles(g.descriptors); err != nil {
		return err
	}
	if !isAddress(g.from) {
		return usageError{fmt.Errorf("--from %q is neither host:port nor unix:///path", g.from)}
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
			return g.streamError(g.from, g.tls.enabled(), fromHint, err)
		}
	}
	if !answered {
		return g.silence(g.from, g.until(ctx, nil))
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

	defer slow(ctx, "waiting for an answer from %s", g.from)()
	a := newAnswer(sub)
	var failed error
	for r, err := range c.Watch(quietCtx, sub) {
		if err != nil {
			failed = g.streamError(g.from, g.tls.enabled(), fromHint, err)
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
	if of := (*remoteError)(nil); errors.As(failed, &of) && a.last == nil {
		return failed // which is why no name has an answer
	}
	switch {
	case failed != nil:
	case a.last == nil:
		failed = g.silence(g.from, g.until(ctx, nil))
	case !a.wildcard:
	case a.empty() && len(a.pending) == 0:
		failed = fmt.Errorf("%s: answered, and has no %s", g.from, metrics.ShortName(sub.TypeURL))
	}
	if a.unlocated && failed == nil {
		failed = fmt.Errorf("%s: does not understand parameters, and answered as if asked for everything", g.from)
	}
	return errors.Join(failed, a.missing("not answered"+g.until(ctx, failed)))
}

// until says how long an unanswered name was waited for.
func (g *get) until(ctx context.Context, failed error) string {
	switch {
	case failed != nil:
		return ""
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Sprintf(" within %s", g.timeout)
	}
	return " before the interrupt"
}

// answer merges the responses to one subscription into one state.
type answer struct {
	// Set once by newAnswer.
	sub      client.Subscription
	wildcard bool

	pending  map[string]bool // names without an answer yet
	set      map[string]client.Resource
	nameless []client.Resource // resources whose name cannot be read
	removed  map[string]bool
	errors   map[string]client.ResourceError
	last     *client.Response // nil until the first
	// unlocated: a resource that was asked with parameters came in plain form.
	unlocated bool
}

func newAnswer(sub client.Subscription) *answer {
	a := &answer{
		sub:      sub,
		wildcard: len(sub.Names) == 0,
		pending:  make(map[string]bool),
		set:      make(map[string]client.Resource),
		removed:  make(map[string]bool),
		errors:   make(map[string]client.ResourceError),
	}
	for _, name := range sub.Names {
		if name == client.Wildcard {
			a.wildcard = true
		} else {
			a.pending[name] = true
		}
	}
	return a
}

func (a *answer) take(r *client.Response) {
	a.last = r
	a.nameless = nil
	for _, res := range r.Set {
		a.unlocated = a.unlocated || len(a.sub.Params) > 0 && !res.Located
		switch had, ok := a.set[res.Name]; {
		case res.Name == "":
			a.nameless = append(a.nameless, res)
			continue
		case res.Body == nil && ok:
			had.TTL = res.TTL // a heartbeat leaves the body
			res = had
		}
		a.set[res.Name] = res
		a.answered(res.Name)
	}
	for _, name := range r.Removed {
		delete(a.set, name)
		a.answered(name)
		a.removed[name] = true
	}
	for _, e := range r.Errors {
		a.answered(e.Name)
		a.errors[e.Name] = e
	}
}

// empty reports whether no response had a resource or the error of one.
func (a *answer) empty() bool { return len(a.set)+len(a.nameless)+len(a.errors) == 0 }

// answered forgets what was said about a name before.
func (a *answer) answered(name string) {
	delete(a.pending, name)
	delete(a.removed, name)
	delete(a.errors, name)
}

// document returns the state that the responses led to.
func (a *answer) document(known *descriptors.Types) document {
	r := client.Response{TypeURL: a.sub.TypeURL}
	if a.last != nil {
		r.Version, r.Nonce, r.ControlPlane = a.last.Version, a.last.Nonce, a.last.ControlPlane
	}
	for _, name := range slices.Sorted(maps.Keys(a.set)) {
		r.Set = append(r.Set, a.set[name])
	}
	r.Set = append(r.Set, a.nameless...)
	for _, name := range slices.Sorted(maps.Keys(a.removed)) {
		if slices.Contains(a.sub.Names, name) {
			r.Removed = append(r.Removed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.errors)) {
		r.Errors = append(r.Errors, a.errors[name])
	}
	return documentOf(&r, known)
}

// missing returns an error for each name that was asked for and is not there. unanswered says why a
// name has no answer.
func (a *answer) missing(unanswered string) error {
	var errs []error
	for _, name := range a.sub.Names {
		e, failed := a.errors[name]
		switch {
		case a.pending[name]:
			errs = append(errs, fmt.Errorf("%s: %s", name, unanswered))
		case a.removed[name] || failed && e.NotFound():
			errs = append(errs, fmt.Errorf("%s: does not exist", name))
		case failed:
			errs = append(errs, fmt.Errorf("%s: %s: %s", name, e.Code, e.Message))
		}
	}
	return errors.Join(errs...)
}
