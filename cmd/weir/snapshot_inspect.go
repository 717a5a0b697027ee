package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/sensitive"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/metrics"
)

func inspectCommand() *cobra.Command {
	w, output, list, bodies := &where{}, "", false, false
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "Show what is in a snapshot; weir may be running",
		Args:  arguments,
	}
	w.register(cmd)
	cmd.Flags().BoolVar(&list, "resources", false, "list every resource by name, version and size")
	cmd.Flags().BoolVar(&bodies, "bodies", false, "with -o json or yaml: and what is in it")
	outputFlag(cmd, &output)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		show, ok := map[string]func(io.Writer, []byte) error{"table": nil, "json": statusJSON, "yaml": statusYAML}[output]
		if !ok {
			return usageError{fmt.Errorf("--output %q is none of table, yaml, json", output)}
		}
		c, err := w.read()
		if err != nil {
			return err
		}
		s := c.Summary(list || bodies)
		warnOf(cmd, c)
		if show == nil {
			return inspectTable(cmd.OutOrStdout(), &s)
		}
		text, err := json.Marshal(inspected(&s, bodies))
		if err != nil {
			return err
		}
		return show(cmd.OutOrStdout(), text)
	})
	return cmd
}

// warnOf warns that the snapshot is damaged, so that something is not shown.
func warnOf(cmd *cobra.Command, c *snapshot.Content) {
	if err := c.Check(); err != nil {
		// as with errors, there is nobody left to tell
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "warning: it is damaged:\n%v\n", err)
	}
}

// inspected returns a summary with readable bodies. Fields that Envoy's API marks as sensitive are
// blanked.
func inspected(s *snapshot.Summary, bodies bool) any {
	type resource struct {
		snapshot.ResourceSummary
		Resource json.RawMessage `json:"resource,omitempty"`
	}
	type typ struct {
		snapshot.TypeSummary
		Listed []resource `json:"listed,omitempty"`
	}
	out := struct {
		*snapshot.Summary
		Types []typ `json:"types"`
	}{Summary: s, Types: make([]typ, len(s.Types))}
	for i := range s.Types {
		t := &out.Types[i]
		t.TypeSummary = s.Types[i]
		for _, r := range s.Types[i].Listed {
			x := resource{ResourceSummary: r}
			if bodies && r.Body != nil {
				x.Resource = blankedBody(r.Body)
			}
			t.Listed = append(t.Listed, x)
		}
		t.TypeSummary.Listed = nil
	}
	return out
}

func blankedBody(body *anypb.Any) json.RawMessage {
	sensitive.Blank(body)
	return readable(body, nil)
}

// groupText is a group as people know it: the id that it presents, and whose it is.
func groupText(t *snapshot.TypeSummary) string {
	if t.Identity == "" {
		return t.NodeID
	}
	return t.NodeID + " of " + t.Identity
}

func inspectTable(w io.Writer, s *snapshot.Summary) error {
	now := time.Now()
	// A tabwriter keeps its first error for Flush.
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row(tw, "snapshot", s.Path)
	row(tw, "deployment", s.Deployment)
	row(tw, "format", s.Version)
	if s.Key != "" {
		row(tw, "encrypted", "with the key "+s.Key)
	}
	row(tw, "resources", fmt.Sprintf("%d, in %d bytes", s.Resources, s.Bytes))
	if s.LeftOut != (snapshot.LeftOut{}) {
		row(tw, "left out", leftOutText(s.LeftOut)+": cache.snapshot.key_file keeps them")
	}
	_, _ = fmt.Fprintln(tw)
	row(tw, "ORIGIN", "VOUCHED", "FROZEN", "ADDRESSES")
	for _, o := range s.Origins {
		row(tw, o.Name, ago(now, o.Vouched), ago(now, o.Frozen), fmt.Sprint(o.Addresses))
	}
	ordersTable(tw, s.Origins)
	if len(s.Types) > 0 {
		_, _ = fmt.Fprintln(tw)
		row(tw, "TYPE", "ORIGIN", "GROUP", "RESOURCES", "BYTES", "EXPIRING", "NAMES", "CHANGES", "SETS")
	}
	for i := range s.Types {
		t := &s.Types[i]
		row(tw, metrics.ShortName(t.TypeURL), t.Origin, groupText(t), t.Resources, t.Bytes, t.Expiring, t.Names, changesText(t.History), setsText(t.Sets))
	}
	for i := range s.Types {
		t := &s.Types[i]
		if len(t.Listed) > 0 {
			_, _ = fmt.Fprintln(tw)
			row(tw, "TYPE", "ORIGIN", "GROUP", "SET", "NAME", "VERSION", "BYTES", "EXPIRES")
		}
		for _, r := range t.Listed {
			expires := ""
			if !r.Expires.IsZero() {
				expires = r.Expires.UTC().Format(time.RFC3339)
			}
			row(tw, metrics.ShortName(t.TypeURL), t.Origin, groupText(t), r.Set, r.Name, r.Version, r.Bytes, expires)
		}
	}
	return tw.Flush()
}

// ordersTable lists the orders of operators to go back, and what gates remember.
func ordersTable(tw io.Writer, origins []snapshot.OriginSummary) {
	now := time.Now()
	for i := range origins {
		for _, o := range origins[i].Rollbacks {
			what := "rolled back to " + o.To
			if o.Since.IsZero() {
				what = "let go"
			}
			row(tw, origins[i].Name, cmp.Or(o.Group, "all groups"), what, "by "+o.By, ago(now, o.Changed))
		}
		for _, g := range origins[i].Gates {
			row(tw, origins[i].Name, g.Group, "gate: "+g.Phase, g.Stopped, ago(now, g.Since))
		}
	}
}

// changesText is how many changes there are, and since when.
func changesText(h *snapshot.HistorySummary) string {
	if h == nil {
		return "0"
	}
	return fmt.Sprintf("%d since %s", h.Changes, h.Oldest.UTC().Format(time.RFC3339))
}

func setsText(sets []snapshot.SetSummary) (text string) {
	for i, s := range sets {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s %d", s.Selector, s.Members)
		if !s.Settled {
			text += " (not whole)"
		}
	}
	return text
}
