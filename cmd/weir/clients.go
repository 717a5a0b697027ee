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
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/config"
)

// clientList is what a running weir says of its clients: the part that is shown as a table.
type clientList struct {
	Clients []clientLine `json:"clients"`
	Total   int          `json:"total"`
}

type clientLine struct {
	replica  string
	NodeID   string       `json:"node_id"`
	Cluster  string       `json:"node_cluster"`
	Peer     string       `json:"peer"`
	Identity string       `json:"identity"`
	Origin   string       `json:"origin"`
	Group    string       `json:"group"`
	Since    time.Time    `json:"since"`
	Types    []clientType `json:"types"`
}

type clientType struct {
	Type          string    `json:"type"`
	Nacking       bool      `json:"nacking"`
	UnsyncedSince time.Time `json:"unsynced_since"`
	Rejected      *struct {
		Message string    `json:"message"`
		At      time.Time `json:"at"`
	} `json:"rejected"`
}

func clientsCommand() *cobra.Command {
	o, output := &operator{}, ""
	cmd := &cobra.Command{
		Use:   "clients",
		Short: "List the clients of a running weir, those with trouble first: who is behind, and who rejects what",
		Args:  arguments,
	}
	o.register(cmd)
	o.registerAll(cmd)
	outputFlag(cmd, &output)
	f := cmd.Flags()
	f.Bool("unsynced", false, "only those that have not accepted all they are owed")
	f.Bool("nacking", false, "only those that refused the last response of a type")
	f.String("origin", "", "only those that are served by the origin of this `name`")
	f.String("type", "", "only those subscribed to the `type`, as cds or a full URL; --unsynced, --nacking and --older are then of it alone")
	f.String("group", "", "only those in the group with this `key`, or whose key begins so")
	f.String("node", "", "only those with this node `id`, in which * stands for any characters")
	f.String("identity", "", "only those with this `identity` (spiffe:, uri:, dns:, subject:, uid: or anonymous), in which * stands for any characters")
	f.Duration("older", 0, "only those that have been out of sync for longer than this")
	limit := f.Int("limit", 1000, "list so many at most")
	complete(cmd, "type", config.ShortNames()...)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		q := url.Values{}
		for _, name := range []string{"unsynced", "nacking", "origin", "type", "group", "node", "identity", "older"} {
			if flag := f.Lookup(name); flag.Changed {
				q.Set(name, flag.Value.String())
			}
		}
		return o.show(cmd.Context(), cmd.OutOrStdout(), output, lookup{
			func(ctx context.Context, o *operator) ([]byte, error) { return o.clients(ctx, maps.Clone(q), *limit) },
			func(w io.Writer, all []reply[[]byte]) error { return clientsTable(w, all, *limit) },
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
	return fmt.Errorf("what the admin port says is not understood: %w", err)
}

// worse orders the clients of several replicas as each orders its own.
func (c *clientLine) worse(other *clientLine) int {
	trouble := func(c *clientLine) (calm int, since time.Time) {
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
	calm, since := trouble(c)
	otherCalm, otherSince := trouble(other)
	return cmp.Or(cmp.Compare(calm, otherCalm), since.Compare(otherSince))
}

func clientsTable(w io.Writer, said []reply[[]byte], limit int) error {
	var all clientList
	for i := range said {
		var one clientList
		if said[i].err != nil {
			continue
		}
		if err := json.Unmarshal(said[i].said, &one); err != nil {
			return notUnderstood(err)
		}
		for j := range one.Clients {
			one.Clients[j].replica = said[i].replica
		}
		all.Clients, all.Total = append(all.Clients, one.Clients...), all.Total+one.Total
	}
	if len(said) > 1 {
		slices.SortStableFunc(all.Clients, func(a, b clientLine) int { return a.worse(&b) })
		all.Clients = all.Clients[:min(limit, len(all.Clients))]
	}
	now := time.Now()
	// A tabwriter keeps its first error for Flush.
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row(tw, headOf(said, "NODE", "CLUSTER", "PEER", "IDENTITY", "ORIGIN", "GROUP", "CONNECTED", "BEHIND", "REJECTS")...)
	for i := range all.Clients {
		c := &all.Clients[i]
		var behind, rejects []string
		for _, t := range c.Types {
			if !t.UnsyncedSince.IsZero() {
				behind = append(behind, t.Type+" "+ago(now, t.UnsyncedSince))
			}
			if r := t.Rejected; r != nil {
				rejects = append(rejects, fmt.Sprintf("%s %s ago: %s", t.Type, ago(now, r.At), r.Message))
			}
		}
		row(tw, withReplica(c.replica, c.NodeID, c.Cluster, c.Peer, c.Identity, c.Origin, c.Group, ago(now, c.Since),
			strings.Join(behind, ", "), strings.Join(rejects, "; "))...)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if more := all.Total - len(all.Clients); more > 0 {
		if _, err := fmt.Fprintf(w, "and %d more; --limit says how many are listed\n", more); err != nil {
			return err
		}
	}
	return failures(w, said)
}
