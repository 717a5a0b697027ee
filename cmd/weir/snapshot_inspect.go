package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/sensitive"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/cmd/weir/tabular"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
)

func inspectCommand() *cobra.Command {
	w, output, list, bodies := &where{}, "", false, false
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "Show the content of a snapshot",
		Long:  "Show the content of a snapshot. weir may be running.",
		Example: `  weir snapshot inspect
  weir snapshot inspect --path /var/lib/weir/snapshot --resources -o yaml`,
	}
	w.register(cmd)
	cmd.Flags().BoolVar(&list, "resources", false, "list each resource with its name, version and size")
	cmd.Flags().BoolVar(&bodies, "bodies", false, "with -o json or yaml, also print the resources")
	outputFlag(cmd, &output)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		c, err := w.read(cmd.Context())
		if err != nil {
			return err
		}
		s := c.Summary(list || bodies)
		warnOf(cmd, c)
		return printAs(cmd.OutOrStdout(), output, inspected(&s, bodies), func(w io.Writer) error { return inspectTable(w, &s) })
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

// groupText is a group as people know it: digits of its key, and whose it is.
func groupText(t *snapshot.TypeSummary) string {
	if t.Identity == "" {
		return admin.ShortKey(t.Group)
	}
	return admin.ShortKey(t.Group) + " of " + t.Identity
}

func inspectTable(w io.Writer, s *snapshot.Summary) error {
	now := time.Now()
	tw := newTable(w)
	tw.Prose("snapshot", s.Path)
	tw.Prose("deployment", s.Deployment)
	tw.Prose("format", s.Version)
	if s.Key != "" {
		tw.Prose("encrypted", "with the key "+s.Key)
	}
	tw.Prose("resources", fmt.Sprintf("%d, in %d bytes", s.Resources, s.Bytes))
	if s.LeftOut != (snapshot.LeftOut{}) {
		tw.Prose("left out", leftOutText(s.LeftOut)+": cache.snapshot.key_file keeps them")
	}
	tw.Blank()
	if len(s.Origins) == 0 {
		tw.Row("no origin is in the snapshot")
	} else {
		tw.Row("ORIGIN", "VOUCHED", "FROZEN", "ADDRESSES")
	}
	for _, o := range s.Origins {
		tw.Row(o.Name, ago(now, o.Vouched), ago(now, o.Frozen), strings.Join(addressesOf(o.Addresses), ", "))
	}
	ordersTable(tw, s.Origins)
	tw.Blank()
	if len(s.Types) == 0 {
		tw.Row("no resource is in the snapshot")
	} else {
		tw.Row("TYPE", "ORIGIN", "GROUP", "RESOURCES", "BYTES", "EXPIRING", "NAMES", "CHANGES", "SETS")
	}
	for i := range s.Types {
		t := &s.Types[i]
		tw.Row(metrics.ShortName(t.TypeURL), t.Origin, groupText(t), t.Resources, t.Bytes, t.Expiring, t.Names, changesText(t.History), setsText(t.Sets))
	}
	for i := range s.Types {
		t := &s.Types[i]
		if len(t.Listed) > 0 {
			tw.Blank()
			tw.Row("TYPE", "ORIGIN", "GROUP", "SET", "NAME", "VERSION", "BYTES", "EXPIRES")
		}
		for _, r := range t.Listed {
			expires := ""
			if !r.Expires.IsZero() {
				expires = r.Expires.UTC().Format(time.RFC3339)
			}
			tw.Row(metrics.ShortName(t.TypeURL), t.Origin, groupText(t), r.Set, r.Name, r.Version, r.Bytes, expires)
		}
	}
	return tw.Flush()
}

// addressesOf are the addresses in the keys of servers.
func addressesOf(servers []string) (all []string) {
	for _, server := range servers {
		if address := relay.SourceOf(server); address != "" {
			all = append(all, address)
		}
	}
	return all
}

// ordersTable lists the orders of operators to go back, and what gates remember.
func ordersTable(tw *tabular.Writer, origins []snapshot.Origin) {
	now := time.Now()
	for i := range origins {
		for _, o := range origins[i].Rollbacks {
			what := "rolled back to " + o.To
			if o.Since.IsZero() {
				what = "rolled forward"
			}
			tw.Row(origins[i].Name, cmp.Or(o.Group, "all groups"), what, "by "+o.By, ago(now, o.Changed))
		}
		for _, g := range origins[i].Gates {
			tw.Row(origins[i].Name, g.Group, "gate: "+g.Phase, g.Stopped, ago(now, g.Since))
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
