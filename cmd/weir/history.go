package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/visible"
)

// changeList is what a running weir says of changes.
type changeList struct {
	Changes   []admin.Change `json:"changes"`
	Truncated bool           `json:"truncated"`
	Kept      admin.Kept     `json:"kept"`
}

func historyCommand() *cobra.Command {
	o, output := &operator{}, ""
	cmd := &cobra.Command{
		Use:   "history ORIGIN",
		Short: "List changes of an origin, newest first, or compare two versions",
		Long: `List the changes of an origin of a running weir, newest first. With --states list the
states of its groups, to which weir rollback can return. With --diff compare two
versions of one resource; by default the current one and the one before it.`,
		Example: `  weir history mesh --since 1h
  weir history mesh --states
  weir history mesh --type cds --name backend --diff`,
		ValidArgsFunction: completeArgs(o.anyOrigin),
	}
	o.register(cmd)
	outputFlag(cmd, &output)
	f := cmd.Flags()
	f.String("group", "", "only the group whose `key` starts with this")
	addTypeFlag(cmd, "only this `type`, such as cds or a full type URL")
	f.String("name", "", "only the resource with this `name`")
	completeFlags(cmd, map[string]completer{"group": o.completeGroup, "name": o.completeName})
	f.Duration("since", 0, "only changes of this last period, such as 1h")
	f.Int("limit", 1000, "the most changes to list")
	states := f.Bool("states", false, "list the states of whole groups: which were good, and which can be served again")
	diff := f.Bool("diff", false, "compare two versions of the resource of --type and --name")
	f.String("from", "", "with --diff, the old `version`, of the origin or as sent to clients (default: the one before the current)")
	f.String("to", "", "with --diff, the new `version` (default: the current one)")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		look := func(path string, flags ...string) func(context.Context, *operator) ([]byte, error) {
			q := queryOf(cmd, flags...)
			q.Set("origin", args[0])
			return gets(path + q.Encode())
		}
		unfit := func(why string, flags ...string) error {
			if i := slices.IndexFunc(flags, f.Changed); i >= 0 {
				return usageError{fmt.Errorf("--%s %s", flags[i], why)}
			}
			return nil
		}
		var err error
		switch {
		case *states:
			err = unfit("does not go with --states", "type", "name", "since", "diff", "from", "to")
		case *diff && (f.Lookup("type").Value.String() == "" || f.Lookup("name").Value.String() == ""):
			err = usageError{errors.New("--diff needs --type and --name")}
		case *diff:
			err = unfit("does not go with --diff", "since", "limit")
		default:
			err = unfit("needs --diff", "from", "to")
		}
		ctx, w, none := cmd.Context(), cmd.OutOrStdout(), noneOf(cmd, "change", "group", "type", "name", "since")
		switch {
		case err != nil:
			return err
		case *states:
			return show(ctx, o, w, output, lookup[stateList]{ask: look("/history?states=true&", "group", "limit"), table: single(statesTable)})
		case *diff:
			return show(ctx, o, w, output, lookup[unified]{
				ask: look("/history/diff?", "group", "type", "name", "from", "to"), table: single(unifiedDiff),
			})
		}
		return show(ctx, o, w, output, lookup[changeList]{
			ask:   look("/history?", "group", "type", "name", "since", "limit"),
			table: single(func(w io.Writer, all *changeList) error { return changesTable(w, all, none) }),
		})
	})
	return cmd
}

// noneOf is said instead of an empty table of some noun: that a filter may be why, or that there is
// none.
func noneOf(cmd *cobra.Command, noun string, filters ...string) string {
	if slices.ContainsFunc(filters, func(name string) bool { return cmd.Flags().Changed(name) }) {
		return "no " + noun + " matches"
	}
	return "no " + noun + " is known"
}

func changesTable(w io.Writer, all *changeList, none string) error {
	now := time.Now()
	if len(all.Changes) == 0 {
		return noneListed(w, all.Kept.Off, none)
	}
	tw := newTable(w)
	tw.Row("AGO", "GROUP", "TYPE", "NAME", "CHANGE", "VERSION", "WAS", "FROM")
	for i := range all.Changes {
		x := &all.Changes[i]
		tw.Row(ago(now, x.At), admin.ShortKey(x.Group), x.Type, x.Name, x.Change,
			cmp.Or(x.OriginVersion, x.Version), cmp.Or(x.WasOrigin, x.WasVersion), x.Source)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	return listEnd(w, all.Kept.Off, all.Truncated)
}

// noneListed says why a list is empty.
func noneListed(w io.Writer, off bool, none string) error {
	if off {
		return listEnd(w, off, false)
	}
	_, err := fmt.Fprintln(w, none)
	return err
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

// unified is what a running weir says of the difference between two versions.
type unified struct {
	Unified   string `json:"unified"`
	Truncated bool   `json:"truncated"`
}

// unifiedDiff prints the lines that differ.
func unifiedDiff(w io.Writer, all *unified) error {
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

// stateList is what a running weir says of the states of groups.
type stateList struct {
	States    []admin.GroupState `json:"states"`
	Truncated bool               `json:"truncated"`
	Kept      admin.Kept         `json:"kept"`
}

func statesTable(w io.Writer, all *stateList) error {
	if len(all.States) == 0 {
		return noneListed(w, all.Kept.Off, "no state is known of any group")
	}
	now := time.Now()
	tw := newTable(w)
	tw.Row("GROUP", "STATE", "REVISION", "AGO", "CHANGES", "GOOD SINCE", "NOW", "WHOLE")
	for i := range all.States {
		x := &all.States[i]
		good := ""
		if !x.Good.IsZero() {
			good = ago(now, x.Good)
		}
		tw.Row(admin.ShortKey(x.Group), admin.ShortState(x.ID), strconv.FormatUint(x.Revision, 10),
			ago(now, x.At), changesOf(x), good, word(x.Present, "now", ""), word(x.Whole, "yes", "no"))
	}
	return cmp.Or(tw.Flush(), listEnd(w, all.Kept.Off, all.Truncated))
}

// changesOf is what a state changed: how many resources were added, changed and removed, and of
// which types. The oldest state that is known has none.
func changesOf(x *admin.GroupState) string {
	var parts []string
	for _, p := range []struct {
		sign string
		n    int
	}{{"+", x.Added}, {"~", x.Changed}, {"-", x.Removed}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%s%d", p.sign, p.n))
		}
	}
	return strings.TrimSpace(strings.Join(parts, " ") + " " + strings.Join(x.Types, ","))
}

func word(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}
