package main

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/tabular"
)

// nackList is what a running weir says of rejections.
type nackList struct {
	Book    []admin.Rejection `json:"book"`
	LeftOut int               `json:"left_out"`
	// Origins is what weir itself refuses of what origins send, on the streams that are open.
	Origins []struct {
		Origin string `json:"origin"`
		admin.OriginNACK
	} `json:"origins"`
}

func nacksCommand() *cobra.Command {
	o, output := &operator{}, ""
	cmd := &cobra.Command{
		Use:   "nacks",
		Short: "List what clients reject, and what weir rejects of its origins",
		Long: `List the resources that clients of a running weir reject, with the reason, including
clients that have disconnected. A second table lists what weir itself rejects of its
origins.`,
		Example: `  weir nacks
  weir nacks --origin mesh --type cds
  weir nacks --all dns:///weir-headless:19080`,
	}
	o.registerAll(cmd)
	outputFlag(cmd, &output)
	f := cmd.Flags()
	f.String("origin", "", "only resources of the origin with this `name`")
	addTypeFlag(cmd, "only this `type`, such as cds or a full type URL")
	completeFlags(cmd, map[string]completer{"origin": o.anyOrigin})
	limit := f.Int("limit", 1000, "the most lines to list")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		q := queryOf(cmd, "origin", "type", "limit")
		return show(cmd.Context(), o, cmd.OutOrStdout(), output, lookup[nackList]{
			ask:   gets("/nacks/book?" + q.Encode()),
			table: func(w io.Writer, all []reply[nackList]) error { return nacksTable(w, all, *limit, noNacks(q)) },
		})
	})
	return cmd
}

// noNacks is said instead of an empty table.
func noNacks(q url.Values) string {
	if q.Has("origin") || q.Has("type") {
		return "no rejection by a client matches"
	}
	return "no client has rejected anything"
}

func nacksTable(w io.Writer, said []reply[nackList], limit int, none string) error {
	var book []reply[*admin.Rejection]
	leftOut, origins := 0, false
	for i := range said {
		of := &said[i]
		for j := range of.said.Book {
			book = append(book, reply[*admin.Rejection]{replica: of.replica, said: &of.said.Book[j]})
		}
		leftOut, origins = leftOut+of.said.LeftOut, origins || len(of.said.Origins) > 0
	}
	if len(said) > 1 {
		slices.SortStableFunc(book, func(a, b reply[*admin.Rejection]) int { return b.said.Last.Compare(a.said.Last) })
		if more := len(book) - limit; more > 0 {
			book, leftOut = book[:limit], leftOut+more
		}
	}
	now := time.Now()
	tw := newTable(w)
	if len(book) == 0 && answered(said) {
		tw.Row(none)
	}
	if len(book) > 0 {
		tw.Row(headOf(said, "LAST", "FIRST", "ORIGIN", "TYPE", "RESOURCE", "VERSION", "CLIENTS", "HAVE IT", "TIMES", "FOR EXAMPLE", "BECAUSE")...)
	}
	for _, of := range book {
		x, example := of.said, ""
		if n := len(x.Examples); n > 0 {
			example = x.Examples[n-1].NodeID
		}
		tw.Row(withReplica(of.replica, ago(now, x.Last), ago(now, x.First), x.Origin, x.Type, x.Resource, x.Version,
			x.Clients, x.HaveIt, x.Count, example, colored(x.Message, true, tabular.Red))...)
	}
	if leftOut > 0 {
		tw.Row(fmt.Sprintf("and %d more", leftOut))
	}
	if origins {
		tw.Blank()
		tw.Row(headOf(said, "WEIR REJECTS OF", "GROUP", "TYPE", "TIMES", "BECAUSE")...)
	}
	for i := range said {
		for _, x := range said[i].said.Origins {
			tw.Row(withReplica(said[i].replica, x.Origin, admin.ShortKey(x.Group), x.Type, x.Count, colored(x.Reason, true, tabular.Red))...)
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	return failures(w, said)
}

func authzDenialsCommand() *cobra.Command {
	o, output := &operator{}, ""
	cmd := &cobra.Command{
		Use:   "denials",
		Short: "List what the rules of a running weir denied, and to which clients",
		Example: `  weir authz denials
  weir authz denials --identity 'spiffe://corp/*' --type sds`,
	}
	o.register(cmd)
	outputFlag(cmd, &output)
	f := cmd.Flags()
	f.String("identity", "", "only clients with this `identity`; * matches any characters")
	f.String("origin", "", "only resources of the origin with this `name`")
	addTypeFlag(cmd, "only this `type`, such as cds or a full type URL")
	f.String("name", "", "only resources with this `name`; * matches any characters")
	f.String("listener", "", "only requests at the listener with this `address`")
	result := ""
	choiceFlag(cmd, &result, "result", "", "only denials with this `result`: denied (a name) or ended (a stream)", "", config.AnswerDenied, config.AnswerEnded)
	completeFlags(cmd, map[string]completer{"origin": o.anyOrigin, "identity": o.completeIdentity})
	f.Int("limit", 1000, "the most denials to list")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		none := noneOf(cmd, "denial", "identity", "origin", "type", "name", "listener", "result")
		q := queryOf(cmd, "identity", "origin", "type", "name", "listener", "result", "limit")
		return show(cmd.Context(), o, cmd.OutOrStdout(), output, lookup[admin.Decisions]{
			ask:   gets("/authz?" + q.Encode()),
			table: single(func(w io.Writer, all *admin.Decisions) error { return denialsTable(w, all, none) }),
		})
	})
	return cmd
}

func denialsTable(w io.Writer, all *admin.Decisions, none string) error {
	now, d := time.Now(), all.Counts
	since := ""
	if all.Rules.InForce > 0 {
		since = " since " + ago(now, all.Rules.Since) + " ago"
	}
	if _, err := fmt.Fprintf(w, "rules in force: %d%s; %d allowed, %d denied, %d streams ended\n\n",
		all.Rules.InForce, since, d.Allowed, d.Denied, d.Ended); err != nil {
		return err
	}
	if len(all.Denials) == 0 {
		_, err := fmt.Fprintln(w, none)
		return err
	}
	tw := newTable(w)
	tw.Row("LAST", "FIRST", "IDENTITY", "LISTENER", "ORIGIN", "TYPE", "NAME", "TIMES", "LAST CLIENT", "PEER", "BECAUSE")
	for i := range all.Denials {
		x := &all.Denials[i]
		tw.Row(ago(now, x.Last), ago(now, x.First), x.Identity, x.Listener, x.Origin, x.Type, x.Name, x.Count, x.NodeID, x.Peer, colored(x.Reason, true, tabular.Red))
	}
	if more := all.Total - len(all.Denials); more > 0 {
		tw.Row(fmt.Sprintf("and %d more; --limit says how many are listed", more))
	}
	return tw.Flush()
}
