package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/cmd/weir/visible"
	"github.com/weir-xds/weir/relay"
)

// statusStreams is how many client streams the command reads.
const statusStreams = 100_000

// standing is the part of a running weir's admin pages that is shown as tables. As JSON and YAML
// they are printed as they are.
type standing struct {
	Overview struct {
		Sentence string `json:"sentence"`
		Clients  int    `json:"clients"`
		Unsynced int    `json:"unsynced"`
		Stale    int    `json:"stale"`
	} `json:"overview"`
	Ready   admin.Readiness `json:"ready"`
	Origins struct {
		Origins  []admin.Origin    `json:"origins"`
		Snapshot *admin.Snapshot   `json:"snapshot"`
		Config   admin.ConfigState `json:"config"`
	} `json:"origins"`
	Groups struct {
		Groups []groupLine `json:"groups"`
	} `json:"groups"`
	Clients struct {
		Clients []struct {
			Synced bool `json:"synced"`
		} `json:"clients"`
		Truncated bool `json:"truncated"`
	} `json:"clients"`
	NACKs struct {
		Clients []nackLine `json:"clients"`
	} `json:"nacks"`
}

type groupLine struct {
	Origin  string `json:"origin"`
	Key     string `json:"key"`
	NodeID  string `json:"node_id"`
	Cluster string `json:"node_cluster"`
	// Identity is that of all its clients, where group_by has it.
	Identity string `json:"identity"`
	// Tier is which of the groups of one key it is; "": there are no others.
	Tier     string `json:"tier"`
	Clients  int    `json:"clients"`
	canaries int    // of the clients
	// Dedicated: the group is one client stream's alone, and not listed.
	Dedicated bool `json:"dedicated"`
	// ParameterSets is the number of parameter maps in use.
	ParameterSets int `json:"parameter_sets"`
	// MembersDiffer are fields that the origin may tailor by, and in which its clients differ.
	MembersDiffer []admin.Differing `json:"members_differ"`
	Types         []struct {
		Resources int `json:"resources"`
		Stale     int `json:"stale"`
		Waiting   int `json:"waiting"`
	} `json:"types"`
}

type nackLine struct {
	NodeID  string    `json:"node_id"`
	Peer    string    `json:"peer"`
	Type    string    `json:"type"`
	Count   uint64    `json:"count"`
	Message string    `json:"message"`
	At      time.Time `json:"at"`
}

func statusCommand() *cobra.Command {
	o, output := &operator{}, ""
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how a running weir stands: origins, groups, clients, staleness, NACKs",
		Args:  arguments,
	}
	o.register(cmd)
	o.registerAll(cmd)
	outputFlag(cmd, &output)
	var again redraw
	again.register(cmd)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		return again.run(cmd, output, func(ctx context.Context, w io.Writer) error {
			return o.show(ctx, w, output, lookup{
				func(ctx context.Context, r *operator) ([]byte, error) {
					// Of several replicas there is one line each, for which no list is needed.
					return r.pages(ctx, o.all != "" && output == formats[0])
				},
				statusTables,
			})
		})
	})
	return cmd
}

// pages merges the admin pages into one JSON object. Brief: with the overview alone.
func (o *operator) pages(ctx context.Context, brief bool) ([]byte, error) {
	pages := make(map[string]json.RawMessage)
	for i, page := range []struct{ key, path string }{
		{"overview", "/overview"},
		{"origins", "/origins"},
		{"groups", "/groups"},
		{"clients", fmt.Sprintf("/clients?limit=%d", statusStreams)},
		{"nacks", "/nacks"},
		{"ready", "/readyz"},
	} {
		if brief && i > 0 {
			break
		}
		var body json.RawMessage
		if err := o.get(ctx, page.path, &body); err != nil {
			return nil, err
		}
		pages[page.key] = body
	}
	return json.Marshal(pages)
}

func statusJSON(w io.Writer, pages []byte) error {
	var text bytes.Buffer
	if err := json.Indent(&text, pages, "", "  "); err != nil {
		return err
	}
	text.WriteByte('\n')
	_, err := w.Write(visible.JSON(text.Bytes()))
	return err
}

func statusYAML(w io.Writer, pages []byte) error { return writeYAML(w, pages) }

// statusTables is how one weir stands, or with --all a line for each replica.
func statusTables(w io.Writer, all []reply[[]byte]) error {
	if all[0].replica == "" {
		return statusTable(w, all[0].said)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row(tw, headOf(all, "CLIENTS", "NOT IN SYNC", "STALE", "IN ONE SENTENCE")...)
	for i := range all {
		var s standing
		a := &all[i]
		if a.err != nil {
			row(tw, a.replica, "", "", "", "error: "+strings.TrimPrefix(a.failure(), a.replica+": "))
			continue
		}
		if err := json.Unmarshal(a.said, &s); err != nil {
			return notUnderstood(err)
		}
		row(tw, a.replica, s.Overview.Clients, s.Overview.Unsynced, s.Overview.Stale, s.Overview.Sentence)
	}
	return tw.Flush()
}

func statusTable(w io.Writer, pages []byte) error {
	var s standing
	if err := json.Unmarshal(pages, &s); err != nil {
		return notUnderstood(err)
	}
	now := time.Now()
	// A tabwriter keeps its first error for Flush.
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if s.Overview.Sentence != "" {
		row(tw, s.Overview.Sentence)
		_, _ = fmt.Fprintln(tw)
	}
	s.summary(tw)
	_, _ = fmt.Fprintln(tw)
	row(tw, "ORIGIN", "STATE", "FOR", "SOURCE", "GROUPS", "STREAMS", "RESOURCES", "STALE", "UPDATED", "LAST ERROR")
	for i := range s.Origins.Origins {
		o := &s.Origins.Origins[i]
		state := "disconnected"
		switch {
		case o.Connected:
			state = "connected"
		case o.Since.IsZero() && o.Error == "":
			state = "not asked yet"
		}
		if !o.Frozen.IsZero() {
			state += fmt.Sprintf(", frozen for %s by %s, %d changes wait", ago(now, o.Frozen), strings.Join(o.FrozenBy, " and "), o.FrozenChanges)
		}
		if b := o.Rollback; b != nil {
			state += fmt.Sprintf(", %s, for %s", b.Said(), ago(now, b.Since))
		}
		if said := o.Candidates(now); said != "" {
			state += ", " + said
		}
		if o.HeldRemovals > 0 {
			state += fmt.Sprintf(", %d removals held for %s", o.HeldRemovals, ago(o.HeldUntil, now))
		}
		if len(o.Slow) > 0 {
			state += fmt.Sprintf(", %s unanswered for %s", o.Slow[0].Type, ago(now, o.Slow[0].Since))
		}
		if f := o.Fallback; f != nil && f.Serving > 0 {
			state += fmt.Sprintf(", %d resources of its fallback served", f.Serving)
		}
		groups := fmt.Sprint(o.Groups - o.Dedicated)
		if o.Dedicated > 0 {
			groups += fmt.Sprintf(" and %d dedicated", o.Dedicated)
		}
		row(tw, o.Name, state, ago(now, o.Since), o.Source, groups, o.Streams, o.Resources, o.Stale, ago(now, o.LastUpdate), lastError(now, o))
	}
	s.groups(tw)
	if len(s.NACKs.Clients) > 0 {
		_, _ = fmt.Fprintln(tw)
		row(tw, "REFUSED BY", "PEER", "TYPE", "TIMES", "LAST", "BECAUSE")
	}
	for i := range s.NACKs.Clients {
		n := &s.NACKs.Clients[i]
		row(tw, n.NodeID, n.Peer, n.Type, n.Count, ago(now, n.At), n.Message)
	}
	return tw.Flush()
}

// lastError returns what is wrong with an origin, or else with the first of its files. The time
// comes first, since long texts are cut.
func lastError(now time.Time, o *admin.Origin) string {
	text, at, more := o.Error, o.ErrorAt, 0
	files := o.Files
	if o.Fallback != nil {
		files = o.Fallback.Files
	}
	for i := range files {
		switch f := &files[i]; {
		case f.Error == "":
		case text == "":
			text, at = f.Error, f.ErrorAt
		default:
			more++
		}
	}
	when := ""
	if !at.IsZero() {
		when = ago(now, at) + " ago"
	}
	if more > 0 {
		when += fmt.Sprintf(" (and %d more)", more)
	}
	if when != "" {
		text = when + ": " + text
	}
	return text
}

// asOne makes one line of the tiers of a group: clients are theirs, and all else is that of the
// newest, which has what the origin says.
func asOne(groups []groupLine) (lines []groupLine) {
	clients, canaries := map[[2]string]int{}, map[[2]string]int{}
	for i := range groups {
		g := &groups[i]
		key, tier := relay.CutTier(g.Key)
		of := [2]string{g.Origin, key}
		if tier == relay.Newest {
			lines = append(lines, *g)
		}
		if clients[of] += g.Clients; tier == relay.Canary {
			canaries[of] += g.Clients
		}
	}
	for i := range lines {
		of := [2]string{lines[i].Origin, lines[i].Key}
		lines[i].Clients, lines[i].canaries = clients[of], canaries[of]
	}
	return lines
}

// groups lists the groups that clients share, with identities and parameter sets if there are any.
func (s *standing) groups(w io.Writer) {
	s.Groups.Groups = slices.DeleteFunc(s.Groups.Groups, func(g groupLine) bool { return g.Dedicated })
	tiers := slices.ContainsFunc(s.Groups.Groups, func(g groupLine) bool { return g.Tier != "" })
	s.Groups.Groups = asOne(s.Groups.Groups)
	if len(s.Groups.Groups) == 0 {
		return
	}
	params := slices.ContainsFunc(s.Groups.Groups, func(g groupLine) bool { return g.ParameterSets > 0 })
	_, _ = fmt.Fprintln(w)
	head := []any{"GROUP", "ORIGIN", "CLUSTER", "CLIENTS", "RESOURCES", "STALE", "WAITING"}
	if tiers {
		head = append(head, "CANARIES")
	}
	identities := slices.ContainsFunc(s.Groups.Groups, func(g groupLine) bool { return g.Identity != "" })
	if identities {
		head = append(head, "IDENTITY")
	}
	if params {
		head = append(head, "PARAMETER SETS")
	}
	differ := slices.ContainsFunc(s.Groups.Groups, func(g groupLine) bool { return len(g.MembersDiffer) > 0 })
	if differ {
		head = append(head, "MEMBERS DIFFER IN")
	}
	row(w, head...)
	for i := range s.Groups.Groups {
		g := &s.Groups.Groups[i]
		resources, stale, waiting := 0, 0, 0
		for _, t := range g.Types {
			resources, stale, waiting = resources+t.Resources, stale+t.Stale, waiting+t.Waiting
		}
		cells := []any{g.NodeID, g.Origin, g.Cluster, g.Clients, resources, stale, waiting}
		if tiers {
			cells = append(cells, g.canaries)
		}
		if identities {
			cells = append(cells, g.Identity)
		}
		if params {
			cells = append(cells, g.ParameterSets)
		}
		if differ {
			cells = append(cells, fieldNames(g.MembersDiffer))
		}
		row(w, cells...)
	}
}

func fieldNames(all []admin.Differing) string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Field
	}
	return strings.Join(names, ", ")
}

func (s *standing) summary(w io.Writer) {
	state := s.Ready.State
	if s.Ready.Why != "" {
		state += ": " + s.Ready.Why
	}
	row(w, "state", state)
	s.config(w)
	unsynced, more := 0, ""
	for _, c := range s.Clients.Clients {
		if !c.Synced {
			unsynced++
		}
	}
	if s.Clients.Truncated {
		more = " or more"
	}
	if k := s.Origins.Snapshot; k != nil {
		text := fmt.Sprintf("%d resources, whole %s ago", k.Resources, ago(time.Now(), k.SavedAt))
		if k.Error != "" {
			text = fmt.Sprintf("not written: %s; last whole %s ago", k.Error, ago(time.Now(), k.SavedAt))
		}
		if k.LeftOut != (snapshot.LeftOut{}) {
			text += "; left out: " + leftOutText(k.LeftOut)
		}
		if x := k.LeftOutGroups; x.Groups > 0 {
			text += fmt.Sprintf("; left out, since cache.snapshot.max_bytes has no room: %s, %s, %s", admin.Plural(x.Groups, "group"), admin.Plural(x.Resources, "resource"), admin.Plural(int(x.Bytes), "byte"))
		}
		row(w, "snapshot", text)
		for _, large := range k.LeftOutGroups.TooLarge {
			row(w, "", large)
		}
	}
	row(w, "clients", fmt.Sprintf("%d streams%s, %d not in sync", len(s.Clients.Clients), more, unsynced))
}

// config prints what is wrong with the file, if it was refused.
func (s *standing) config(w io.Writer) {
	c, now := &s.Origins.Config, time.Now()
	if c.Refused.IsZero() {
		return
	}
	stays := "what was in force before stays"
	if c.LastGood != "" {
		stays = fmt.Sprintf("what was accepted last, %s ago, is in force since the start", ago(now, c.Accepted))
	}
	row(w, "config", fmt.Sprintf("the file was refused %s ago, and %s; GET /config says more", ago(now, c.Refused), stays))
	for i, problem := range c.Problems {
		if i == mostProblems {
			row(w, "", fmt.Sprintf("and %d more", len(c.Problems)-i))
			break
		}
		row(w, "", problem)
	}
}

// mostProblems is how many problems of a refused file the status lists.
const mostProblems = 3

// row writes one line of a table; an empty cell becomes a dash.
func row(w io.Writer, cells ...any) {
	for i, cell := range cells {
		text := fmt.Sprint(cell)
		if i > 0 {
			_, _ = io.WriteString(w, "\t")
		}
		if text == "" {
			text = "-"
		}
		_, _ = io.WriteString(w, shortened(visible.Text(text)))
	}
	_, _ = io.WriteString(w, "\n")
}

// ago returns how long ago something was; a dash for never.
func ago(now, at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return max(now.Sub(at), 0).Round(time.Second).String()
}
