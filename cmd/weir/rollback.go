package main

import (
	"context"
	"encoding/json"
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
	to, partial := "", false
	cmd := rollingCommand("rollback", "Give the clients of an origin an earlier state of it, and keep them there", func() (url.Values, error) {
		at, err := momentOf(to, time.Now())
		q := url.Values{"to": {at}}
		if partial {
			q.Set("partial", "true")
		}
		return q, err
	})
	cmd.Long = `Give the clients of an origin an earlier state of it, over all types at once, and keep
them there until weir rollforward. Each group is held at its own state. If that is not
known of one of them, nothing is changed. weir history ORIGIN --states lists them.`
	cmd.Flags().BoolVar(&partial, "partial", false, "have groups that cannot go back stay at what they have, and the others go back")
	cmd.Flags().StringVar(&to, "to", "", "`last-good`, an ID, a time such as 2026-01-02T15:04:05Z, 10m for that long ago, or a revision of one replica")
	if err := cmd.MarkFlagRequired("to"); err != nil {
		panic(err) // our own bug: the flag does not exist
	}
	complete(cmd, "to", toLastGood)
	return cmd
}

func rollforwardCommand() *cobra.Command {
	return rollingCommand("rollforward", "Let clients go on that a rollback keeps at an earlier state", func() (url.Values, error) { return url.Values{}, nil })
}

// rollingCommand makes a command about the states of an origin. values are what the request has
// besides the group.
func rollingCommand(verb, short string, values func() (url.Values, error)) *cobra.Command {
	o, output, group := &operator{}, "", ""
	cmd := &cobra.Command{Use: verb + " ORIGIN", Short: short, Args: arguments, ValidArgsFunction: o.completeOrigin}
	o.register(cmd)
	o.registerAll(cmd)
	outputFlag(cmd, &output)
	cmd.Flags().StringVar(&group, "group", "", "only the group with this `key`")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		q, err := values()
		if err != nil {
			return err
		}
		if o.all != "" && isRevision(q.Get("to")) {
			return usageError{fmt.Errorf("--to %s is a revision, which is a number of one replica: with --all, give the ID that weir history shows, or a time", q.Get("to"))}
		}
		if group != "" {
			q.Set("group", group)
		}
		q.Set("json", "true")
		path := "/origins/" + url.PathEscape(args[0]) + "/" + verb + "?" + q.Encode()
		return o.show(cmd.Context(), cmd.OutOrStdout(), output, lookup{
			func(ctx context.Context, r *operator) ([]byte, error) { return r.order(ctx, path) },
			rolledLines,
		})
	})
	return cmd
}

// momentOf makes a time of a duration, which is how long ago it was, so that all replicas are told
// the same. All else is as it was given.
func momentOf(to string, now time.Time) (string, error) {
	to = strings.TrimSpace(to)
	if to == "" {
		return "", usageError{errors.New("--to is empty; it says which state, such as last-good")}
	}
	if d, err := time.ParseDuration(to); err == nil && to != "0" {
		if d <= 0 {
			return "", usageError{fmt.Errorf("--to %s: that has not come; 10m is ten minutes ago", to)}
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
	asked, _, _ := strings.Cut(path, "?")
	var all []error
	for line := range strings.Lines(string(body)) {
		all = append(all, o.refused(http.MethodPost, asked, code, []byte(line)))
	}
	if len(all) == 0 {
		all = append(all, o.refused(http.MethodPost, asked, code, nil))
	}
	return nil, errors.Join(all...)
}

// rolledLines prints the lines of each replica.
func rolledLines(w io.Writer, all []reply[[]byte]) error {
	for i := range all {
		if all[i].err != nil {
			for line := range strings.Lines(all[i].err.Error()) {
				if _, err := fmt.Fprintln(w, oneLine(line)); err != nil {
					return err
				}
			}
			continue
		}
		var said admin.Rolled
		if err := json.Unmarshal(all[i].said, &said); err != nil {
			return notUnderstood(err)
		}
		for _, line := range said.Lines {
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
