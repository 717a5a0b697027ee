package main

import (
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/relay/inspect"
)

func groupsCommand() *cobra.Command {
	return family("groups", "Suggest how to group clients", "  weir groups suggest", suggestCommand())
}

func suggestCommand() *cobra.Command {
	o, output, origin := &operator{}, "", ""
	cmd := &cobra.Command{
		Use:   "suggest",
		Short: "Suggest a group_by for each origin",
		Long: `Suggest a group_by for each origin of a running weir: which node fields split groups
that receive the same answers, and which fields may be missing.`,
		Example: `  weir groups suggest
  weir groups suggest --origin mesh`,
	}
	o.register(cmd)
	outputFlag(cmd, &output)
	cmd.Flags().StringVar(&origin, "origin", "", "only the origin with this `name`")
	completeFlags(cmd, map[string]completer{"origin": o.anyOrigin})
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		return show(cmd.Context(), o, cmd.OutOrStdout(), output, lookup[admin.Suggestions]{
			ask: gets("/groups/suggest?origin=" + url.QueryEscape(origin)), table: single(suggestTable),
		})
	})
	return cmd
}

func suggestTable(w io.Writer, all *admin.Suggestions) error {
	if len(all.Origins) == 0 {
		_, err := fmt.Fprintln(w, "no origin is configured")
		return err
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
func suggestOrigin(w io.Writer, s *inspect.Suggestion) error {
	_, _ = fmt.Fprintf(w, "origin %s: %s, %d of them answered; group_by: [%s]\n", s.Origin, admin.Plural(s.Groups, "group"), s.Compared, strings.Join(s.GroupBy, ", "))
	if s.Groups == 0 {
		_, err := fmt.Fprintln(w, "no group: no client has asked for a resource")
		return err
	}
	tw := newTable(w)
	leave := false
	for i := range s.Fields {
		f := &s.Fields[i]
		tw.Prose("  "+f.Field, admin.Plural(f.Values, "value"), evidence(f))
		leave = leave || f.Verdict == inspect.NoDifference
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i := range s.Differing {
		_, _ = fmt.Fprintln(w, "  "+differs(&s.Differing[i]))
	}
	if !leave {
		_, err := fmt.Fprintln(w, "found no field to leave out")
		return err
	}
	_, err := fmt.Fprintf(w, "group_by: [%s]   # %s instead of %d, if the origin goes on as it did\n",
		strings.Join(s.Suggested, ", "), admin.Plural(s.After, "group"), s.Compared)
	return err
}

// differs is a line about a field that may have to be added.
func differs(d *inspect.DifferingField) string {
	text := fmt.Sprintf("WARNING: %s is not in the key, and members of %s differ in it: %q (%s) and %q (%s) in group %s",
		d.Field, admin.Plural(d.Count, "group"), d.Values[0], d.IDs[0], d.Values[1], d.IDs[1], d.Group)
	if d.Tailored {
		text += "; elsewhere the origin answered differently because of it: " + difference(d.Type, d.Name, d.Between)
	}
	if d.Field == inspect.NodeType {
		return text + "; only id in group_by distinguishes them"
	}
	return text + "; add it to group_by if the origin chooses answers by it"
}

func difference(typ, name string, between []string) string {
	what := fmt.Sprintf("%s %q", typ, name)
	if name == "*" {
		what = "all " + typ
	}
	return fmt.Sprintf("%s is not the same in groups %s", what, strings.Join(between, " and "))
}

func evidence(f *inspect.FieldEvidence) string {
	switch f.Verdict {
	case inspect.NoDifference:
		return fmt.Sprintf("made no difference: without it, %s fewer", admin.Plural(f.Merged, "group"))
	case inspect.Difference:
		return "is needed: " + difference(f.Type, f.Name, f.Between)
	}
	return "no evidence: no two groups differ in it alone"
}
