package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/admin"
)

// toLastGood is the value of --to for the newest good state before the present one.
const toLastGood = "last-good"

func rollbackCommand() *cobra.Command {
	o, to, partial := &operator{}, "", false
	cmd := rollingCommand(o, "rollback", "Return the clients of an origin to an earlier state and keep them there", func() (url.Values, error) {
		at, err := momentOf(to, time.Now())
		q := url.Values{"to": {at}}
		if partial {
			q.Set("partial", "true")
		}
		return q, err
	})
	cmd.Long = `Return the clients of an origin to an earlier state, for all types at once, and keep
them there until weir rollforward. Each group returns to its own state. If one group
has no such state, nothing changes, unless --partial is set. To list the states, use
weir history ORIGIN --states.`
	cmd.Example = `  weir rollback mesh --to last-good
  weir rollback mesh --to 10m --group 5aee26ff
  weir rollback mesh --to last-good --all dns:///weir-headless:19080`
	cmd.Flags().BoolVar(&partial, "partial", false, "roll back the groups that can be, and keep the others on their current configuration")
	cmd.Flags().StringVar(&to, "to", "", "the `state`: last-good, an ID, a time such as 2026-01-02T15:04:05Z, 10m for ten minutes ago, or a revision of one replica")
	if err := cmd.MarkFlagRequired("to"); err != nil {
		panic(err) // our own bug: the flag does not exist
	}
	completeFlags(cmd, map[string]completer{"to": o.completeState})
	return cmd
}

func rollforwardCommand() *cobra.Command {
	cmd := rollingCommand(&operator{}, "rollforward", "Undo a rollback: clients receive the current state of the origin", func() (url.Values, error) { return url.Values{}, nil })
	cmd.Example = "  weir rollforward mesh\n  weir rollforward mesh --group 5aee26ff"
	return cmd
}

// rollingCommand makes a command about the states of an origin. values are what the request has
// besides the group.
func rollingCommand(o *operator, verb, short string, values func() (url.Values, error)) *cobra.Command {
	output, group := "", ""
	cmd := &cobra.Command{Use: verb + " ORIGIN", Short: short, ValidArgsFunction: completeArgs(o.anyOrigin)}
	o.registerAll(cmd)
	outputFlag(cmd, &output)
	cmd.Flags().StringVar(&group, "group", "", "only the group whose `key` starts with this")
	completeFlags(cmd, map[string]completer{"group": o.completeGroup})
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		q, err := values()
		if err != nil {
			return err
		}
		if o.all != "" && isRevision(q.Get("to")) {
			return usageError{fmt.Errorf("--to %s is a revision of one replica; with --all, give a time, or an ID from weir history --states", q.Get("to"))}
		}
		if group != "" {
			q.Set("group", group)
		}
		q.Set("json", "true")
		path := "/origins/" + url.PathEscape(args[0]) + "/" + verb + "?" + q.Encode()
		return show(cmd.Context(), o, cmd.OutOrStdout(), output, lookup[admin.Rolled]{
			ask:   func(ctx context.Context, r *operator) ([]byte, error) { return r.order(ctx, path) },
			table: rolledLines,
		})
	})
	return cmd
}

// momentOf makes a time of a duration, which is how long ago it was, so that all replicas are told
// the same. All else is as it was given.
func momentOf(to string, now time.Time) (string, error) {
	to = strings.TrimSpace(to)
	if to == "" {
		return "", usageError{errors.New("--to is empty; give a state such as last-good")}
	}
	if d, err := time.ParseDuration(to); err == nil && to != "0" {
		if d <= 0 {
			return "", usageError{fmt.Errorf("--to %s is in the future; 10m is ten minutes ago", to)}
		}
		return now.Add(-d).UTC().Format(time.RFC3339Nano), nil
	}
	return to, nil
}

// isRevision reports whether a state is given by the number that it has at one replica.
func isRevision(to string) bool {
	return to != "" && strings.Trim(to, "0123456789") == ""
}

// order requests an action and returns the answer, which is JSON. What is refused has an error for
// each line of the reasons.
func (o *operator) order(ctx context.Context, path string) ([]byte, error) {
	code, body, err := o.ask(ctx, http.MethodPost, path)
	if err != nil {
		return nil, err
	}
	if code == http.StatusOK {
		return body, nil
	}
	var all []error
	for line := range strings.Lines(string(body)) {
		all = append(all, o.refused(path, code, []byte(line)))
	}
	if len(all) == 0 {
		all = append(all, o.refused(path, code, nil))
	}
	return nil, errors.Join(all...)
}

// rolledLines prints the lines of each replica.
func rolledLines(w io.Writer, all []reply[admin.Rolled]) error {
	for i := range all {
		if all[i].err != nil {
			for line := range strings.Lines(all[i].err.Error()) {
				if _, err := fmt.Fprintln(w, oneLine(line)); err != nil {
					return err
				}
			}
			continue
		}
		for _, line := range all[i].said.Lines {
			if all[i].replica != "" {
				line = all[i].replica + ": " + line
			}
			if _, err := fmt.Fprintln(w, oneLine(line)); err != nil {
				return err
			}
		}
	}
	return nil
}
