package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/visible"
	"github.com/weir-xds/weir/relay"
)

// changeList is what a running weir says of changes: the part that is shown as a table.
type changeList struct {
	Changes []struct {
		At            time.Time `json:"at"`
		Group         string    `json:"group"`
		Type          string    `json:"type"`
		Name          string    `json:"name"`
		Change        string    `json:"change"`
		Version       string    `json:"version"`
		OriginVersion string    `json:"origin_version"`
		WasVersion    string    `json:"was_version"`
		WasOrigin     string    `json:"was_origin_version"`
		Source        string    `json:"source"`
	} `json:"changes"`
	Truncated bool `json:"truncated"`
	Kept      struct {
		Off bool `json:"off"`
	} `json:"kept"`
}

func historyCommand() *cobra.Command {
	o, output := &operator{}, ""
	cmd := &cobra.Command{
		Use:   "history ORIGIN",
		Short: "List what has changed of an origin of a running weir, the newest first, or compare two versions of a resource",
		Args:  arguments, ValidArgsFunction: o.completeOrigin,
	}
	o.register(cmd)
	outputFlag(cmd, &output)
	f := cmd.Flags()
	f.String("group", "", "only of the group with this `key`, or as much of it as no other begins with")
	f.String("type", "", "only of the `type`, as cds or a full URL")
	f.String("name", "", "only of the resource of this `name`")
	f.Duration("since", 0, "only what changed within so long")
	f.Int("limit", 1000, "list so many at most")
	states := f.Bool("states", false, "list the states of whole groups, which of them were good, and whether they can be served again")
	diff := f.Bool("diff", false, "compare two versions of the resource of --type and --name: by default what clients have and had before")
	f.String("from", "", "with --diff, the first `version`, as the origin calls it or as clients are sent it")
	f.String("to", "", "with --diff, the second `version`")
	complete(cmd, "type", config.ShortNames()...)
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		path, flags, table, unfit, why := "/history?", []string{"group", "type", "name", "since", "limit"}, changesTable, []string{"from", "to"}, "needs --diff"
		switch {
		case *states:
			path, table, why = "/history?states=true&", statesTable, "is for changes of resources, and --states lists states of groups"
			flags, unfit = []string{"group", "limit"}, []string{"type", "name", "since", "diff", "from", "to"}
		case *diff:
			path, table, why = "/history/diff?", unifiedDiff, "is for a list, which --diff is not"
			flags, unfit = []string{"group", "type", "name", "from", "to"}, []string{"since", "limit"}
			if f.Lookup("type").Value.String() == "" || f.Lookup("name").Value.String() == "" {
				return usageError{errors.New("--diff needs --type and --name, which say what to compare")}
			}
		}
		for _, name := range unfit {
			if f.Changed(name) {
				return usageError{fmt.Errorf("--%s %s", name, why)}
			}
		}
		show, ok := map[string]func(io.Writer, []byte) error{"table": table, "json": statusJSON, "yaml": statusYAML}[output]
		if !ok {
			return usageError{fmt.Errorf("--output %q is none of table, yaml, json", output)}
		}
		q := url.Values{"origin": args}
		for _, name := range flags {
			if flag := f.Lookup(name); flag.Changed {
				q.Set(name, flag.Value.String())
			}
		}
		var body json.RawMessage
		if err := o.get(cmd.Context(), path+q.Encode(), &body); err != nil {
			return err
		}
		return show(cmd.OutOrStdout(), body)
	})
	return cmd
}

// shownKey is as much of a group's key as a table has.
const shownKey = 8

// shownGroup is a key as a table has it: its beginning, and the tier (origins[].canary).
func shownGroup(key string) string {
	of, tier := relay.CutTier(key)
	return tier.Of(of[:min(shownKey, len(of))])
}

func changesTable(w io.Writer, body []byte) error {
	var all changeList
	if err := json.Unmarshal(body, &all); err != nil {
		return fmt.Errorf("what the admin port says is not understood: %w", err)
	}
	now := time.Now()
	// A tabwriter keeps its first error for Flush.
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row(tw, "AGO", "GROUP", "TYPE", "NAME", "CHANGE", "VERSION", "WAS", "FROM")
	for i := range all.Changes {
		x := &all.Changes[i]
		row(tw, ago(now, x.At), shownGroup(x.Group), x.Type, x.Name, x.Change,
			cmp.Or(x.OriginVersion, x.Version), cmp.Or(x.WasOrigin, x.WasVersion), x.Source)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	return listEnd(w, all.Kept.Off, all.Truncated)
}

// listEnd says why a list has no more lines.
func listEnd(w io.Writer, off, truncated bool) (err error) {
	switch {
	case off:
		_, err = fmt.Fprintln(w, "nothing is kept: cache.history.versions is 0")
	case truncated:
		_, err = fmt.Fprintln(w, "and more; --limit says how many are listed")
	}
	return err
}

// unifiedDiff prints the lines that differ.
func unifiedDiff(w io.Writer, body []byte) error {
	var all struct {
		Unified   string `json:"unified"`
		Truncated bool   `json:"truncated"`
	}
	if err := json.Unmarshal(body, &all); err != nil {
		return fmt.Errorf("what the admin port says is not understood: %w", err)
	}
	for line := range strings.Lines(all.Unified) {
		if _, err := fmt.Fprintln(w, visible.Text(strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	var err error
	if all.Truncated {
		_, err = fmt.Fprintln(w, "and more, that is not shown")
	}
	return err
}
