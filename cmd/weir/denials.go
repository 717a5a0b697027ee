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

// denialList is what a running weir says of its rules: the part that is shown as a table.
type denialList struct {
	Rules struct {
		InForce int       `json:"in_force"`
		Since   time.Time `json:"since"`
	} `json:"rules"`
	Decisions struct {
		Allowed uint64 `json:"allowed"`
		Denied  uint64 `json:"denied"`
		Ended   uint64 `json:"ended"`
	} `json:"decisions"`
	Denials []struct {
		Identity string    `json:"identity"`
		Listener string    `json:"listener"`
		Origin   string    `json:"origin"`
		Type     string    `json:"type"`
		Name     string    `json:"name"`
		Reason   string    `json:"reason"`
		Count    uint64    `json:"count"`
		First    time.Time `json:"first"`
		Last     time.Time `json:"last"`
		NodeID   string    `json:"node_id"`
		Peer     string    `json:"peer"`
	} `json:"denials"`
	Total int `json:"total"`
}

func authzDenialsCommand() *cobra.Command {
	o, output := &operator{}, ""
	cmd := &cobra.Command{
		Use:   "denials",
		Short: "Say what the rules of a running weir denied last, and to whom",
		Args:  arguments,
	}
	o.register(cmd)
	outputFlag(cmd, &output)
	f := cmd.Flags()
	f.String("identity", "", "only what clients with this `identity` were denied, in which * stands for any characters")
	f.String("origin", "", "only what the origin of this `name` has")
	f.String("type", "", "only the `type`, as cds or a full URL")
	f.String("name", "", "only resources of this `name`, in which * stands for any characters")
	f.String("listener", "", "only what was asked at the listener with this `address`, as the configuration has it")
	f.String("result", "", "only `denied` names, or only streams that were ended")
	f.Int("limit", 1000, "list so many at most")
	complete(cmd, "type", config.ShortNames()...)
	complete(cmd, "result", config.AnswerDenied, config.AnswerEnded)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		show, ok := map[string]func(io.Writer, []byte) error{"table": denialsTable, "json": statusJSON, "yaml": statusYAML}[output]
		if !ok {
			return usageError{fmt.Errorf("--output %q is none of table, yaml, json", output)}
		}
		q := url.Values{}
		for _, name := range []string{"identity", "origin", "type", "name", "listener", "result", "limit"} {
			if flag := f.Lookup(name); flag.Changed {
				q.Set(name, flag.Value.String())
			}
		}
		var body json.RawMessage
		if err := o.get(cmd.Context(), "/authz?"+q.Encode(), &body); err != nil {
			return err
		}
		return show(cmd.OutOrStdout(), body)
	})
	return cmd
}

func denialsTable(w io.Writer, body []byte) error {
	var all denialList
	if err := json.Unmarshal(body, &all); err != nil {
		return fmt.Errorf("what the admin port says is not understood: %w", err)
	}
	now, d := time.Now(), all.Decisions
	since := ""
	if all.Rules.InForce > 0 {
		since = " since " + ago(now, all.Rules.Since) + " ago"
	}
	if _, err := fmt.Fprintf(w, "rules in force: %d%s; %d allowed, %d denied, %d streams ended\n\n",
		all.Rules.InForce, since, d.Allowed, d.Denied, d.Ended); err != nil {
		return err
	}
	// A tabwriter keeps its first error for Flush.
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row(tw, "LAST", "FIRST", "IDENTITY", "LISTENER", "ORIGIN", "TYPE", "NAME", "TIMES", "LAST CLIENT", "PEER", "BECAUSE")
	for i := range all.Denials {
		x := &all.Denials[i]
		row(tw, ago(now, x.Last), ago(now, x.First), x.Identity, x.Listener, x.Origin, x.Type, x.Name, x.Count, x.NodeID, x.Peer, x.Reason)
	}
	if more := all.Total - len(all.Denials); more > 0 {
		row(tw, fmt.Sprintf("and %d more; --limit says how many are listed", more))
	}
	return tw.Flush()
}
