package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/tabular"
)

// clientList is what a running weir says of its clients.
type clientList struct {
	Clients []admin.Client `json:"clients"`
	Total   int            `json:"total"`
}

func clientsCommand() *cobra.Command {
	o, output := &operator{}, ""
	cmd := &cobra.Command{
		Use:   "clients",
		Short: "List the clients of a running weir, those with problems first",
		Long: `List the clients of a running weir, those with problems first: clients that reject a
resource, then clients that are out of sync. Filters are combined with AND.`,
		Example: `  weir clients --unsynced
  weir clients --node 'web-*' --type cds
  weir clients --nacking --all dns:///weir-headless:19080`,
	}
	o.registerAll(cmd)
	outputFlag(cmd, &output)
	f := cmd.Flags()
	f.Bool("unsynced", false, "only clients that are out of sync")
	f.Bool("nacking", false, "only clients that rejected the last response of a type")
	f.String("origin", "", "only clients of the origin with this `name`")
	addTypeFlag(cmd, "only clients subscribed to this `type`, such as cds; --unsynced, --nacking and --older then look at it alone")
	f.String("group", "", "only clients of the group whose `key` starts with this")
	f.String("node", "", "only clients with this node `id`; * matches any characters")
	f.String("identity", "", "only clients with this `identity` (spiffe:, uri:, dns:, subject:, uid: or anonymous); * matches any characters")
	f.Duration("older", 0, "only clients that have been out of sync for longer than this")
	completeFlags(cmd, map[string]completer{"origin": o.anyOrigin, "group": o.completeGroup, "node": o.completeNode, "identity": o.completeIdentity})
	limit := f.Int("limit", 1000, "the most clients to list")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		q := queryOf(cmd, "unsynced", "nacking", "origin", "type", "group", "node", "identity", "older")
		return show(cmd.Context(), o, cmd.OutOrStdout(), output, lookup[clientList]{
			ask:   func(ctx context.Context, o *operator) ([]byte, error) { return o.clients(ctx, maps.Clone(q), *limit) },
			table: func(w io.Writer, all []reply[clientList]) error { return clientsTable(w, all, *limit, noClients(q)) },
		})
	})
	return cmd
}

// clientsPage is how many clients are asked for at a time.
const clientsPage = 1000

// clients returns the clients of a running weir that a query admits, up to a limit, page by page.
// Who has got better meanwhile is on a later page again, and is listed once, as it was.
func (o *operator) clients(ctx context.Context, q url.Values, limit int) ([]byte, error) {
	listed, seen := []json.RawMessage{}, map[uint64]bool{}
	for left := limit; ; {
		q.Set("limit", strconv.Itoa(min(left, clientsPage)))
		var answer map[string]json.RawMessage
		if err := o.get(ctx, "/clients?"+q.Encode(), &answer); err != nil {
			return nil, err
		}
		var page struct {
			Clients []json.RawMessage `json:"clients"`
			Next    string            `json:"next"`
		}
		body, err := json.Marshal(answer)
		if err == nil {
			err = json.Unmarshal(body, &page)
		}
		if err != nil {
			return nil, notUnderstood(err)
		}
		for _, c := range page.Clients {
			var is struct {
				Stream uint64 `json:"stream"`
			}
			if err := json.Unmarshal(c, &is); err != nil {
				return nil, notUnderstood(err)
			}
			if !seen[is.Stream] {
				listed = append(listed, c)
			}
			seen[is.Stream] = true
		}
		if left -= len(page.Clients); page.Next == "" || left <= 0 {
			if answer["clients"], err = json.Marshal(listed); err != nil {
				return nil, err
			}
			return json.Marshal(answer)
		}
		q.Set("after", page.Next)
	}
}

// notUnderstood is the error of an answer that is not as an admin port's.
func notUnderstood(err error) error {
	return fmt.Errorf("the answer of the admin port cannot be read (%w); is weir there newer than this command?", err)
}

// worse orders the clients of several replicas as each orders its own.
func worse(a, b *admin.Client) int {
	trouble := func(c *admin.Client) (calm int, since time.Time) {
		calm = 2
		for i := range c.Types {
			t := &c.Types[i]
			if t.Nacking {
				calm = 0
			}
			if at := t.UnsyncedSince; !at.IsZero() && (since.IsZero() || at.Before(since)) {
				since = at
			}
		}
		if calm > 0 && !since.IsZero() {
			calm = 1
		}
		return calm, since
	}
	calm, since := trouble(a)
	otherCalm, otherSince := trouble(b)
	return cmp.Or(cmp.Compare(calm, otherCalm), since.Compare(otherSince))
}

// noClients is said instead of an empty table.
func noClients(q url.Values) string {
	switch {
	case len(q) == 0:
		return "no client is connected"
	case len(q) == 1 && q.Get("nacking") == "true":
		return "no client rejects anything"
	case len(q) == 1 && q.Get("unsynced") == "true":
		return "no client is out of sync"
	}
	return "no client matches"
}

func clientsTable(w io.Writer, said []reply[clientList], limit int, none string) error {
	var all []reply[*admin.Client]
	total := 0
	for i := range said {
		of := &said[i]
		for j := range of.said.Clients {
			all = append(all, reply[*admin.Client]{replica: of.replica, said: &of.said.Clients[j]})
		}
		total += of.said.Total
	}
	if len(said) > 1 {
		slices.SortStableFunc(all, func(a, b reply[*admin.Client]) int { return worse(a.said, b.said) })
		all = all[:min(limit, len(all))]
	}
	now := time.Now()
	tw := newTable(w)
	if len(all) == 0 && answered(said) {
		tw.Row(none)
	} else if len(all) > 0 {
		tw.Row(headOf(said, "NODE", "CLUSTER", "PEER", "IDENTITY", "ORIGIN", "GROUP", "CONNECTED", "BEHIND", "REJECTS")...)
	}
	for _, of := range all {
		c := of.said
		var behind, rejects []string
		for _, t := range c.Types {
			if !t.UnsyncedSince.IsZero() {
				behind = append(behind, t.Type+" "+ago(now, t.UnsyncedSince))
			}
			if r := t.Rejected; r != nil {
				rejects = append(rejects, fmt.Sprintf("%s %s ago: %s", t.Type, ago(now, r.At), r.Message))
			}
		}
		tw.Row(withReplica(of.replica, c.NodeID, c.NodeCluster, c.Peer, c.Identity, c.Origin, admin.ShortKey(c.Group), ago(now, c.Since),
			colored(strings.Join(behind, ", "), true, tabular.Yellow), colored(strings.Join(rejects, "; "), true, tabular.Red))...)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if more := total - len(all); more > 0 {
		if _, err := fmt.Fprintf(w, "and %d more; --limit says how many are listed\n", more); err != nil {
			return err
		}
	}
	return failures(w, said)
}
