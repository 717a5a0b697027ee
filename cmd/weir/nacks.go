package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"sort"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/config"
)

// nackList is what a running weir says of rejections: the part that is shown as tables.
type nackList struct {
	Book []struct {
		replica       string
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
	LeftOut int `json:"left_out"`
	// Origins is what weir itself refuses of what origins send, on the streams that are open.
	Origins []struct {
		replica string
		Origin  string `json:"origin"`
		Group   string `json:"group"`
		Type    string `json:"type"`
		Count   uint64 `json:"count"`
		Reason  string `json:"reason"`
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
	o.registerAll(cmd)
	outputFlag(cmd, &output)
	f := cmd.Flags()
	f.String("origin", "", "only what the origin of this `name` has")
	f.String("type", "", "only the `type`, as cds or a full URL")
	limit := f.Int("limit", 1000, "list so many at most")
	complete(cmd, "type", config.ShortNames()...)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		q := url.Values{}
		for _, name := range []string{"origin", "type", "limit"} {
			if flag := f.Lookup(name); flag.Changed {
				q.Set(name, flag.Value.String())
			}
		}
		return o.show(cmd.Context(), cmd.OutOrStdout(), output, lookup{
			func(ctx context.Context, o *operator) ([]byte, error) {
				var body json.RawMessage
				err := o.get(ctx, "/nacks/book?"+q.Encode(), &body)
				return body, err
			},
			func(w io.Writer, all []reply[[]byte]) error { return nacksTable(w, all, *limit) },
		})
	})
	return cmd
}

func nacksTable(w io.Writer, said []reply[[]byte], limit int) error {
	var all nackList
	for i := range said {
		var one nackList
		if said[i].err != nil {
			continue
		}
		if err := json.Unmarshal(said[i].said, &one); err != nil {
			return notUnderstood(err)
		}
		for j := range one.Book {
			one.Book[j].replica = said[i].replica
		}
		for j := range one.Origins {
			one.Origins[j].replica = said[i].replica
		}
		all.Book, all.LeftOut = append(all.Book, one.Book...), all.LeftOut+one.LeftOut
		all.Origins = append(all.Origins, one.Origins...)
	}
	if len(said) > 1 {
		sort.SliceStable(all.Book, func(i, j int) bool { return all.Book[i].Last.After(all.Book[j].Last) })
		if more := len(all.Book) - limit; more > 0 {
			all.Book, all.LeftOut = all.Book[:limit], all.LeftOut+more
		}
	}
	now := time.Now()
	// A tabwriter keeps its first error for Flush.
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row(tw, headOf(said, "LAST", "FIRST", "ORIGIN", "TYPE", "RESOURCE", "VERSION", "CLIENTS", "HAVE IT", "TIMES", "FOR EXAMPLE", "BECAUSE")...)
	for i := range all.Book {
		x := &all.Book[i]
		example := ""
		if n := len(x.Examples); n > 0 {
			example = x.Examples[n-1].NodeID
		}
		row(tw, withReplica(x.replica, ago(now, x.Last), ago(now, x.First), x.Origin, x.Type, x.Resource, x.OriginVersion,
			x.Clients, x.HaveIt, x.Count, example, x.Message)...)
	}
	if all.LeftOut > 0 {
		row(tw, fmt.Sprintf("and %d more", all.LeftOut))
	}
	if len(all.Origins) > 0 {
		_, _ = fmt.Fprintln(tw)
		row(tw, headOf(said, "WEIR REJECTS OF", "GROUP", "TYPE", "TIMES", "BECAUSE")...)
	}
	for i := range all.Origins {
		x := &all.Origins[i]
		row(tw, withReplica(x.replica, x.Origin, x.Group, x.Type, x.Count, x.Reason)...)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	return failures(w, said)
}
