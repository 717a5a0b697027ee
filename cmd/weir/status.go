package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/cmd/weir/tabular"
	"github.com/weir-xds/weir/cmd/weir/visible"
	"github.com/weir-xds/weir/relay"
)

// statusStreams is how many client streams the command reads.
const statusStreams = 100_000

// standing is the part of a running weir's admin pages that is shown as tables. As JSON and YAML
// they are printed as they are.
type standing struct {
	Overview admin.Overview  `json:"overview"`
	Ready    admin.Readiness `json:"ready"`
	Origins  struct {
		Origins  []admin.Origin    `json:"origins"`
		Snapshot *admin.Snapshot   `json:"snapshot"`
		Config   admin.ConfigState `json:"config"`
	} `json:"origins"`
	Groups struct {
		Groups []admin.Group `json:"groups"`
	} `json:"groups"`
	Clients struct {
		Clients []struct {
			Synced bool `json:"synced"`
		} `json:"clients"`
		Truncated bool `json:"truncated"`
	} `json:"clients"`
	NACKs struct {
		Clients []admin.ClientNACK `json:"clients"`
	} `json:"nacks"`
}

func statusCommand() *cobra.Command {
	o, output := &operator{}, ""
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of a running weir: origins, groups, clients, rejections",
		Long: `Show the state of a running weir: a headline, and tables of its origins, groups and
rejections.

With --check the exit code is 1 if the headline reports a problem: everything that
the admin page shows in yellow or red. Examples are an origin that is down, a client
that rejects a resource, a rejected configuration file, an origin that is frozen or
rolled back, and a weir that is starting or draining.`,
		Example: `  weir status
  weir status --watch
  weir status --check
  weir status --all dns:///weir-headless:19080
  weir status --admin https://10.0.0.7:19080 --ca ca.pem --token-file token`,
	}
	o.registerAll(cmd)
	outputFlag(cmd, &output)
	var again redraw
	again.register(cmd)
	check := cmd.Flags().Bool("check", false, "exit with 1 if the headline reports a problem, for scripts and probes")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		if *check && again.on {
			return usageError{errors.New("--check looks once, and --watch does not end")}
		}
		return again.run(cmd, output, func(ctx context.Context, w io.Writer) error {
			l := lookup[standing]{
				ask: func(ctx context.Context, r *operator) ([]byte, error) {
					// Of several replicas there is one line each, for which no list is needed.
					return r.pages(ctx, o.all != "" && (output == formats[0] || output == uncut))
				},
				table: statusTables,
			}
			if *check {
				l.verdict = checked
			}
			return show(ctx, o, w, output, l)
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

// colorOf are the colours of the headline.
var colorOf = map[admin.State]tabular.Color{admin.Good: tabular.Green, admin.Warn: tabular.Yellow, admin.Bad: tabular.Red}

// statusTables is how one weir stands, or with --all a line for each replica.
func statusTables(w io.Writer, all []reply[standing]) error {
	if all[0].replica == "" {
		return statusTable(w, &all[0].said)
	}
	tw := newTable(w)
	tw.Row(headOf(all, "CLIENTS", "NOT IN SYNC", "STALE", "IN ONE SENTENCE")...)
	for i := range all {
		a := &all[i]
		if a.err != nil {
			tw.Prose(a.replica, "", "", "", colored("error: "+strings.TrimPrefix(a.failure(), a.replica+": "), true, tabular.Red))
			continue
		}
		o := &a.said.Overview
		tw.Prose(a.replica, o.Clients, colored(o.Unsynced, o.Unsynced > 0, tabular.Yellow),
			colored(o.Stale, o.Stale > 0, tabular.Yellow), colored(o.Sentence, true, colorOf[o.State]))
	}
	return tw.Flush()
}

func statusTable(w io.Writer, s *standing) error {
	now := time.Now()
	tw := newTable(w)
	if s.Overview.Sentence != "" {
		tw.Row(colored(s.Overview.Sentence, true, colorOf[s.Overview.State]))
		tw.Blank()
	}
	s.summary(tw)
	tw.Blank()
	tw.Row("ORIGIN", "STATE", "FOR", "SOURCE", "GROUPS", "STREAMS", "RESOURCES", "STALE", "UPDATED", "LAST ERROR")
	for i := range s.Origins.Origins {
		o := &s.Origins.Origins[i]
		state, color := "disconnected", tabular.Red
		switch {
		case o.Connected:
			state, color = "connected", tabular.Green
		case o.Since.IsZero() && o.Error == "":
			state, color = "not asked yet", tabular.Plain
		}
		plain := state
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
		if len(o.Silent) > 0 {
			state += fmt.Sprintf(", silent about %s for %s", o.Silent[0].Node(), ago(now, o.Silent[0].Since))
		} else if len(o.Slow) > 0 {
			state += fmt.Sprintf(", %s unanswered for %s", o.Slow[0].Type, ago(now, o.Slow[0].Since))
		}
		if f := o.Fallback; f != nil && f.Serving > 0 {
			state += fmt.Sprintf(", %d resources of its fallback served", f.Serving)
		}
		groups := fmt.Sprint(o.Groups - o.Dedicated)
		if o.Dedicated > 0 {
			groups += fmt.Sprintf(" and %d dedicated", o.Dedicated)
		}
		if state != plain && color != tabular.Red {
			color = tabular.Yellow
		}
		tw.Row(o.Name, tabular.Cell{Value: state, Color: color}, ago(now, o.Since), o.Source, groups, o.Streams, o.Resources,
			colored(o.Stale, o.Stale > 0, tabular.Yellow), ago(now, o.LastUpdate), colored(lastError(now, o), true, tabular.Red))
	}
	s.groups(tw)
	tw.Blank()
	if len(s.NACKs.Clients) == 0 {
		tw.Row("no client rejects anything")
	} else {
		tw.Row("REFUSED BY", "PEER", "TYPE", "TIMES", "LAST", "BECAUSE")
	}
	for i := range s.NACKs.Clients {
		n := &s.NACKs.Clients[i]
		tw.Row(n.NodeID, n.Peer, n.Type, n.Count, ago(now, n.At), tabular.Cell{Value: n.Message, Color: tabular.Red})
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
	if text = admin.Cause(text); when != "" {
		text = when + ": " + text
	}
	return text
}

// asOne makes one line of the tiers of a group: clients are theirs, and all else is that of the
// newest, which has what the origin says. canaries are how many of the clients of each line are.
func asOne(groups []admin.Group) (lines []admin.Group, canaries []int) {
	all, of := map[[2]string]int{}, map[[2]string]int{}
	for i := range groups {
		g := &groups[i]
		key, tier := relay.CutTier(g.Key)
		if tier == relay.Newest {
			lines = append(lines, *g)
		}
		if all[[2]string{g.Origin, key}] += g.Clients; tier == relay.Canary {
			of[[2]string{g.Origin, key}] += g.Clients
		}
	}
	for i := range lines {
		key := [2]string{lines[i].Origin, lines[i].Key}
		lines[i].Clients, canaries = all[key], append(canaries, of[key])
	}
	return lines, canaries
}

// groups lists the groups that clients share, with identities and parameter sets if there are any.
func (s *standing) groups(w *tabular.Writer) {
	shared := slices.DeleteFunc(s.Groups.Groups, func(g admin.Group) bool { return g.Dedicated })
	tiers := slices.ContainsFunc(shared, func(g admin.Group) bool { return g.Tier != "" })
	lines, canaries := asOne(shared)
	w.Blank()
	if len(lines) == 0 {
		w.Row("no group: no client has asked for a resource")
		return
	}
	head := []any{"GROUP", "ORIGIN", "CLUSTER", "CLIENTS", "RESOURCES", "STALE", "WAITING"}
	rows := make([][]any, len(lines))
	for i := range lines {
		g := &lines[i]
		resources, stale, waiting := 0, 0, 0
		for _, t := range g.Types {
			resources, stale, waiting = resources+t.Resources, stale+t.Stale, waiting+t.Waiting
		}
		rows[i] = []any{admin.ShortKey(g.Key), g.Origin, g.Cluster, g.Clients, resources, stale, waiting}
	}
	column := func(title string, is bool, of func(i int) any) {
		if !is {
			return
		}
		head = append(head, title)
		for i := range rows {
			rows[i] = append(rows[i], of(i))
		}
	}
	some := func(has func(admin.Group) bool) bool { return slices.ContainsFunc(lines, has) }
	column("CANARIES", tiers, func(i int) any { return canaries[i] })
	column("IDENTITY", some(func(g admin.Group) bool { return g.Identity != "" }), func(i int) any { return lines[i].Identity })
	column("PARAMETER SETS", some(func(g admin.Group) bool { return g.ParameterSets > 0 }), func(i int) any { return lines[i].ParameterSets })
	column("MEMBERS DIFFER IN", some(func(g admin.Group) bool { return len(g.Differing) > 0 }), func(i int) any { return fieldNames(lines[i].Differing) })
	w.Row(head...)
	for _, row := range rows {
		w.Row(row...)
	}
}

func fieldNames(all []relay.Differing) string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Field
	}
	return strings.Join(names, ", ")
}

func (s *standing) summary(w *tabular.Writer) {
	state := s.Ready.State
	if s.Ready.Why != "" {
		state += ": " + s.Ready.Why
	}
	w.Prose("state", colored(state, !s.Ready.Ready, tabular.Red))
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
		w.Prose("snapshot", colored(text, k.Error != "", tabular.Red))
		for _, large := range k.LeftOutGroups.TooLarge {
			w.Prose(noLabel, large)
		}
	}
	w.Prose("clients", fmt.Sprintf("%s%s, %d not in sync", admin.Plural(len(s.Clients.Clients), "stream"), more, unsynced))
}

// config prints what is wrong with the file, if it was refused.
func (s *standing) config(w *tabular.Writer) {
	c, now := &s.Origins.Config, time.Now()
	if c.Refused.IsZero() {
		return
	}
	stays := "what was in force before stays"
	if c.LastGood != "" {
		stays = fmt.Sprintf("what was accepted last, %s ago, is in force since the start", ago(now, c.Accepted))
	}
	w.Prose("config", colored(fmt.Sprintf("the file was refused %s ago, and %s; GET /config says more", ago(now, c.Refused), stays), true, tabular.Red))
	for i, problem := range c.Problems {
		if i == mostProblems {
			w.Prose(noLabel, fmt.Sprintf("and %d more", len(c.Problems)-i))
			break
		}
		w.Prose(noLabel, problem)
	}
}

// noLabel begins a line that goes on with what the one above is about.
const noLabel = " "

// mostProblems is how many problems of a refused file the status lists.
const mostProblems = 3

// ago returns how long ago something was; a dash for never.
func ago(now, at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return max(now.Sub(at), 0).Round(time.Second).String()
}

// checked returns an error for each replica with a problem: the worst, and how many others.
func checked(all []reply[standing]) error {
	var errs []error
	for i := range all {
		if err := problemOf(all[i].said.Overview.Findings); err != nil {
			if all[i].replica != "" {
				err = fmt.Errorf("%s: %w", all[i].replica, err)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// problemOf is the first of the findings that is a problem, and the number of the others.
func problemOf(findings []admin.Finding) error {
	first, more := "", 0
	for _, f := range findings {
		switch {
		case f.State == admin.Good:
		case first == "":
			first = f.Text
		default:
			more++
		}
	}
	switch {
	case first == "":
		return nil
	case more > 0:
		return fmt.Errorf("problem, and %d more: %s", more, oneLine(first))
	}
	return fmt.Errorf("problem: %s", oneLine(first))
}
