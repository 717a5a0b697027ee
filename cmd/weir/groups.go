package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/relay/inspect"
)

func groupsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "groups", Short: "Look at how the clients of a running weir are grouped", Args: arguments}
	cmd.AddCommand(suggestCommand())
	return cmd
}

func suggestCommand() *cobra.Command {
	o, output, origin := &operator{}, "", ""
	cmd := &cobra.Command{
		Use:   "suggest",
		Short: "Say which node fields split groups that the origin answers alike, a group_by without them, and which fields may be missing in it",
		Args:  arguments,
	}
	o.register(cmd)
	outputFlag(cmd, &output)
	cmd.Flags().StringVar(&origin, "origin", "", "the `name` of the one origin to look at")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		show, ok := map[string]func(io.Writer, []byte) error{"table": suggestTable, "json": statusJSON, "yaml": statusYAML}[output]
		if !ok {
			return usageError{fmt.Errorf("--output %q is none of table, yaml, json", output)}
		}
		var body json.RawMessage
		if err := o.get(cmd.Context(), "/groups/suggest?origin="+url.QueryEscape(origin), &body); err != nil {
			return err
		}
		return show(cmd.OutOrStdout(), body)
	})
	return cmd
}

func suggestTable(w io.Writer, body []byte) error {
	var all admin.Suggestions
	if err := json.Unmarshal(body, &all); err != nil {
		return fmt.Errorf("what the admin port says is not understood: %w", err)
	}
	for i := range all.Origins {
		if i > 0 {
			_, _ = fmt.Fprintln(w)
		}
		if err := suggestOrigin(w, &all.Origins[i]); err != nil {
			return err
		}
	}
	return nil
}

// suggestOrigin ends with a line that is to be pasted into the configuration, or says why there is
// none.
func suggestOrigin(w io.Writer, s *admin.Suggestion) error {
	_, _ = fmt.Fprintf(w, "origin %s: %s, %d of them answered; group_by: [%s]\n", s.Origin, admin.Plural(s.Groups, "group"), s.Compared, strings.Join(s.GroupBy, ", "))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	leave := false
	for i := range s.Fields {
		f := &s.Fields[i]
		row(tw, "  "+f.Field, admin.Plural(f.Values, "value"), evidence(f))
		leave = leave || f.Verdict == inspect.NoDifference
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i := range s.Differing {
		_, _ = fmt.Fprintln(w, "  "+differs(&s.Differing[i]))
	}
	if !leave {
		_, err := fmt.Fprintln(w, "nothing can be left out, as far as the answers tell")
		return err
	}
	_, err := fmt.Fprintf(w, "group_by: [%s]   # %s instead of %d, if the origin goes on as it did\n",
		strings.Join(s.Suggested, ", "), admin.Plural(s.SuggestedGroups, "group"), s.Compared)
	return err
}

// differs is a line about a field that may have to be added.
func differs(d *admin.DifferingField) string {
	text := fmt.Sprintf("WARNING: %s is not in the key, and members of %s differ in it: %q (%s) and %q (%s) in group %s",
		d.Field, admin.Plural(d.Groups, "group"), d.Values[0], d.NodeIDs[0], d.Values[1], d.NodeIDs[1], d.Group)
	if d.Tailored {
		text += "; elsewhere the answers went by it: " + difference(d.Type, d.Name, d.Between)
	}
	if d.Field == inspect.NodeType {
		return text + "; only id in group_by tells them apart"
	}
	return text + "; add it to group_by if the origin goes by it"
}

func difference(typ, name string, between []string) string {
	what := fmt.Sprintf("%s %q", typ, name)
	if name == "*" {
		what = "all " + typ
	}
	return fmt.Sprintf("%s is not the same in groups %s", what, strings.Join(between, " and "))
}

func evidence(f *admin.FieldEvidence) string {
	switch f.Verdict {
	case inspect.NoDifference:
		return fmt.Sprintf("made no difference: without it, %s fewer", admin.Plural(f.FewerGroups, "group"))
	case inspect.Difference:
		return "is needed: " + difference(f.Type, f.Name, f.Between)
	}
	return "no evidence: no two groups differ in it alone"
}
