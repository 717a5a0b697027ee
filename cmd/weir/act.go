package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/levels"
)

// drainPoll is the time between two looks at a weir that drains.
const drainPoll = 500 * time.Millisecond

func drainCommand() *cobra.Command {
	o, wait, timeout := &operator{}, false, time.Duration(0)
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Drain a running weir and stop it",
		Long: `Drain a running weir and stop it, as SIGTERM does. weir reports that it is not ready,
ends the streams of its clients one by one over timing.drain, and stops. The command
returns at once. With --wait it returns when weir has stopped; the exit code is 1 if
it still runs after --timeout.`,
		Example: `  weir drain --admin 10.0.0.7:19080 --token-file token
  weir drain --wait --timeout 1m`,
	}
	o.registerAll(cmd)
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until weir has stopped, and print progress")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "with --wait, give up after this `time` (default: never)")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		switch {
		case !wait && cmd.Flags().Changed("timeout"):
			return usageError{errors.New("--timeout needs --wait")}
		case !wait:
			return o.act(cmd, "/drain")
		}
		return o.drainAndWait(cmd, timeout)
	})
	return cmd
}

// drainAndWait drains one weir, or with --all every replica, and returns when all have ended.
func (o *operator) drainAndWait(cmd *cobra.Command, timeout time.Duration) error {
	ctx, all := cmd.Context(), []*operator{o}
	if o.all != "" {
		var err error
		if all, err = o.replicas(ctx); err != nil {
			return err
		}
	}
	// Another process may have the address soon: the start tells them apart.
	started := make([]time.Time, len(all))
	for i, r := range all {
		if s, err := r.look(ctx); err == nil {
			started[i] = s.Started
		}
	}
	if err := o.act(cmd, "/drain"); err != nil {
		return err
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	said := &sharedLines{to: cmd.ErrOrStderr()}
	var ends errgroup.Group
	for i, r := range all {
		ends.Go(func() error { return r.ended(ctx, started[i], said, timeout) })
	}
	if err := ends.Wait(); err != nil {
		return err
	}
	for _, r := range all {
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s has ended\n", r.address); err != nil {
			return err
		}
	}
	return nil
}

// look is how a weir stands, in few numbers.
func (o *operator) look(ctx context.Context) (s admin.Overview, err error) {
	err = o.get(ctx, "/overview", &s)
	return s, err
}

// ended returns when the process that started at a time has ended, or an error when ctx has.
func (o *operator) ended(ctx context.Context, started time.Time, said *sharedLines, timeout time.Duration) error {
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	last := ""
	for {
		s, err := o.look(ctx)
		switch {
		case ctx.Err() != nil:
		case err == nil && !started.IsZero() && !s.Started.Equal(started):
			return nil // its successor
		case err == nil:
			text := fmt.Sprintf("%s: %s, %s", o.address, s.Ready.State, admin.Plural(s.Clients, "client"))
			if text != last {
				said.print(text)
			}
			last = text
		case !o.reachable(ctx) && ctx.Err() == nil:
			return nil
		}
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && timeout > 0 {
			return fmt.Errorf("%s still runs after %s", o.address, timeout)
		}
		return fmt.Errorf("%s: interrupted; it goes on draining", o.address)
	}
}

// reachable reports whether something accepts connections at the address.
func (o *operator) reachable(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, operatorWait)
	defer cancel()
	base, t, err := o.transport()
	if err != nil {
		return false
	}
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	dial, host := t.DialContext, u.Host
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), u.Scheme)
	}
	c, err := dial(ctx, "tcp", host)
	if err != nil {
		return false
	}
	_ = c.Close() // nothing was written
	return true
}

// sharedLines prints lines from several goroutines.
type sharedLines struct {
	mu sync.Mutex // guards to
	to io.Writer
}

// print prints a line. Progress that cannot be printed is no error. It locks.
func (l *sharedLines) print(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintln(l.to, line)
}

func freezeCommand() *cobra.Command {
	return onOrigin("freeze", "Keep the clients of an origin on their current configuration")
}

func unfreezeCommand() *cobra.Command {
	return onOrigin("unfreeze", "End the freeze of an origin: its clients receive updates again")
}

// onOrigin makes a command that asks a running weir to do something about one origin.
func onOrigin(verb, short string) *cobra.Command {
	o := &operator{}
	cmd := &cobra.Command{
		Use: verb + " ORIGIN", Short: short, ValidArgsFunction: completeArgs(o.anyOrigin),
		Example: fmt.Sprintf("  weir %s mesh\n  weir %[1]s mesh --all dns:///weir-headless:19080", verb),
	}
	o.registerAll(cmd)
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		return o.act(cmd, "/origins/"+url.PathEscape(args[0])+"/"+verb)
	})
	return cmd
}

func guardCommand() *cobra.Command {
	return family("guard", "Release mass removals that the guard holds back", "  weir guard release mesh", releaseCommand())
}

func releaseCommand() *cobra.Command {
	o := &operator{}
	cmd := &cobra.Command{
		Use:   "release [ORIGIN]",
		Short: "Release the removals that the guard holds back, of one origin or of all",
		Example: `  weir guard release
  weir guard release mesh --type cds`,
		ValidArgsFunction: completeArgs(o.anyOrigin),
	}
	o.registerAll(cmd)
	addTypeFlag(cmd, "only this `type`, such as cds or a full type URL")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		q := queryOf(cmd, "type")
		if len(args) > 0 {
			q.Set("origin", args[0])
		}
		return o.act(cmd, "/guard/release?"+q.Encode())
	})
	return cmd
}

// allPackages stands for every package on the command line.
const allPackages = "all"

func logCommand() *cobra.Command {
	o, lasts := &operator{}, time.Duration(0)
	cmd := &cobra.Command{
		Use:   "log [PACKAGE LEVEL]",
		Short: "Show or change the log level of each package",
		Long: `Show the log level of each package of a running weir, or change it. PACKAGE is one
that the command lists, or all. LEVEL is debug, info, warn or error, or configured
to return to the level in the configuration.`,
		Example: `  weir log
  weir log upstream debug --for 10m
  weir log all configured`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 1:
				return usagef(cmd, "LEVEL is missing; write %s", strings.TrimSuffix(cmd.UseLine(), " [flags]"))
			case len(args) > 2:
				return usagef(cmd, "takes at most PACKAGE and LEVEL; %q is too much", args[2])
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			known := [][]string{append([]string{allPackages}, levels.Packages...), append([]string{levels.Configured}, levels.Texts...)}
			if len(args) >= len(known) {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return known[len(args)], cobra.ShellCompDirectiveNoFileComp
		},
	}
	o.registerAll(cmd)
	cmd.Flags().DurationVar(&lasts, "for", 0, "return to the configured level after this `time` (default: when weir stops)")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return o.levels(cmd)
		}
		asked := map[string]string{"package": args[0], "level": args[1]}
		if args[0] == allPackages {
			delete(asked, "package")
		}
		if cmd.Flags().Changed("for") {
			asked["for"] = lasts.String()
		}
		body, err := json.Marshal(asked)
		if err != nil {
			return err
		}
		o.body = string(body)
		return o.act(cmd, "/log")
	})
	return cmd
}

// levels prints what is logged, of one weir.
func (o *operator) levels(cmd *cobra.Command) error {
	if o.all != "" {
		return usageError{errors.New("--all changes levels; to list them, give one replica with --admin")}
	}
	var of struct {
		Packages []levels.Status `json:"packages"`
	}
	if err := o.get(cmd.Context(), "/log", &of); err != nil {
		return err
	}
	return levelsTable(cmd.OutOrStdout(), of.Packages)
}

func levelsTable(w io.Writer, all []levels.Status) error {
	tw := newTable(w)
	tw.Row("PACKAGE", "LEVEL", "CONFIGURED", "UNTIL")
	for _, s := range all {
		until := ""
		if s.Until != nil {
			until = fmt.Sprintf("%s, in %s", s.Until.Format(time.RFC3339), time.Until(*s.Until).Round(time.Second))
		}
		tw.Row(s.Package, s.Level, s.Configured, until)
	}
	return tw.Flush()
}
