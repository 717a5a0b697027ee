package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/config"
)

// nackList is what a running weir says of rejections: the part that is shown as tables.
type nackList struct {
	Book []struct {
		Origin        string    `json:"origin"`
		Type          string    `json:"type"`
		Resource      string    `json:"resource"`
		OriginVersion string    `json:"origin_version"`
		Message       string    `json:"message"`
		Clients       int       `json:"clients"`
		HaveIt        int       `json:"have_it"`
		Count         uint64    `json:"count"`
		First         time.Time `json:"first"`
		Last          time.Time `json:"last"`
		Examples      []struct {
			NodeID string `json:"node_id"`
		} `json:"examples"`
	} `json:"book"`
	LeftOut int `json:"book_left_out"`
	Origins []struct {
		Origin string `json:"origin"`
		Group  string `json:"group"`
		Type   string `json:"type"`
		Count  uint64 `json:"count"`
		Reason string `json:"reason"`
	} `json:"origins"`
}

func nacksCommand() *cobra.Command {
	o, output := &operator{}, ""
	cmd := &cobra.Command{
		Use:   "nacks",
		Short: "Say what the clients of a running weir reject and why, also those that are gone, and what weir rejects of its origins",
		Args:  arguments,
	}
	o.register(cmd)
	outputFlag(cmd, &output)
	f := cmd.Flags()
	f.String("origin", "", "only what the origin of this `name` has")
	f.String("type", "", "only the `type`, as cds or a full URL")
	f.Int("limit", 1000, "list so many at most")
	complete(cmd, "type", config.ShortNames()...)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		show, ok := map[string]func(io.Writer, []byte) error{"table": nacksTable, "json": statusJSON, "yaml": statusYAML}[output]
		if !ok {
			return usageError{fmt.Errorf("--output %q is none of table, yaml, json", output)}
		}
		q := url.Values{}
		for _, name := range []string{"origin", "type", "limit"} {
			if flag := f.Lookup(name); flag.Changed {
				q.Set(name, flag.Value.String())
			}
		}
		var body json.RawMessage
		if err := o.get(cmd.Context(), "/nacks/book?"+q.Encode(), &body); err != nil {
			return err
		}
		return show(cmd.OutOrStdout(), body)
	})
	return cmd
}

func nacksTable(w io.Writer, body []byte) error {
	var all nackList
	if err := json.Unmarshal(body, &all); err != nil {
		return notUnderstood(err)
	}
	now := time.Now()
	// A tabwriter keeps its first error for Flush.
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row(tw, "LAST", "FIRST", "ORIGIN", "TYPE", "RESOURCE", "VERSION", "CLIENTS", "HAVE IT", "TIMES", "FOR EXAMPLE", "BECAUSE")
	for i := range all.Book {
		x := &all.Book[i]
		example := ""
		if n := len(x.Examples); n > 0 {
			example = x.Examples[n-1].NodeID
		}
		row(tw, ago(now, x.Last), ago(now, x.First), x.Origin, x.Type, x.Resource, x.OriginVersion,
			x.Clients, x.HaveIt, x.Count, example, x.Message)
	}
	if all.LeftOut > 0 {
		row(tw, fmt.Sprintf("and %d more", all.LeftOut))
	}
	if len(all.Origins) > 0 {
		_, _ = fmt.Fprintln(tw)
		row(tw, "WEIR REJECTS OF", "GROUP", "TYPE", "TIMES", "BECAUSE")
	}
	for i := range all.Origins {
		x := &all.Origins[i]
		row(tw, x.Origin, x.Group, x.Type, x.Count, x.Reason)
	}
	return tw.Flush()
}
