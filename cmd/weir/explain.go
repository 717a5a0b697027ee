package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/tabular"
	"github.com/weir-xds/weir/cmd/weir/visible"
)

// unknownNode is the state of a node without a stream.
const unknownNode = "unknown"

func explainCommand() *cobra.Command {
	o, output, follow := &operator{}, "", false
	cmd := &cobra.Command{
		Use:   "explain NODE [TYPE] [NAME]",
		Short: "Explain why a client has a resource, or why not",
		Long: `Explain why a client of a running weir has a resource, or why not: what it requested,
what weir sent, what the client answered, and what it is waiting for.

NODE is a node id; weir clients lists them. TYPE is cds, eds, lds, rds, srds, vhds,
sds, rtds, ecds, leds or a full type URL. Without NAME the output is about the type
as a whole, without TYPE a summary of all types.

With --follow the command prints each request and response of the client until ^C.

The exit code is 1 if no client has this node id.`,
		Example: `  weir explain web-7f9c
  weir explain web-7f9c cds backend
  weir explain web-7f9c --follow`,
		ValidArgsFunction: completeArgs(o.completeNode, anyType, o.completeName),
	}
	o.registerAll(cmd)
	outputFlag(cmd, &output)
	cmd.Flags().BoolVar(&follow, "follow", false, "print each request and response of the client as it happens")
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		if follow && (len(args) > 1 || output == "yaml" || o.all != "") {
			return usageError{errors.New("--follow takes NODE alone, --output table or json, and one replica by --admin")}
		}
		if follow {
			return o.followClient(cmd.Context(), args[0], output == "json", cmd.OutOrStdout())
		}
		q := url.Values{}
		for i, name := range []string{"node", "type", "name"} {
			if i < len(args) {
				q.Set(name, args[i])
			}
		}
		return show(cmd.Context(), o, cmd.OutOrStdout(), output, lookup[admin.Explanation]{
			ask: gets("/explain?" + q.Encode()), table: explainTables,
			verdict: func(all []reply[admin.Explanation]) error { return notConnected(args[0], all) },
		})
	})
	return cmd
}

// notConnected is the error of a node that is connected to none of the replicas that were asked.
func notConnected(node string, all []reply[admin.Explanation]) error {
	if slices.ContainsFunc(all, func(a reply[admin.Explanation]) bool { return a.said.State != unknownNode }) {
		return nil
	}
	return fmt.Errorf("no client with the node id %q is connected; weir clients lists those that are", node)
}

// explainTables writes what one weir says, or with --all every replica, each under its address: a
// client may have streams at several.
func explainTables(w io.Writer, all []reply[admin.Explanation]) error {
	for i := range all {
		a := &all[i]
		if a.err != nil {
			continue
		}
		if a.replica != "" {
			between := "\n"
			if i == 0 {
				between = ""
			}
			if _, err := fmt.Fprintf(w, "%s%s\n", between, a.replica); err != nil {
				return err
			}
		}
		if err := explainTable(w, &a.said); err != nil {
			return err
		}
	}
	return failures(w, all)
}

// explainTable writes the headline, and for each stream its own, the way that was walked, and what
// is waited for.
func explainTable(w io.Writer, x *admin.Explanation) error {
	now := time.Now()
	tw := newTable(w)
	tw.Row(stateAnd(string(x.State), x.Headline))
	for i := range x.Streams {
		s := &x.Streams[i]
		about := fmt.Sprintf("stream %d from %s, %s", s.Stream, s.Peer, s.Dialect)
		for _, more := range []string{s.Type, s.Parameters} {
			if more != "" {
				about += ", " + more
			}
		}
		tw.Blank()
		tw.Row(about)
		tw.Row(stateAnd(string(s.State), s.Headline))
		for _, p := range s.Steps {
			tw.Prose(p.Step, ago(now, p.At), p.Text)
		}
		for _, p := range s.Waits {
			tw.Prose("waits", ago(now, p.Since), p.Reason+until(now, p.Until)+": "+p.Text)
		}
	}
	if x.LeftOut > 0 {
		tw.Row(fmt.Sprintf("and %d more streams of this node", x.LeftOut))
	}
	return tw.Flush()
}

// stateAnd is a state of a client in its colour, and what there is to say of it.
func stateAnd(state, headline string) any {
	color := tabular.Yellow
	switch state {
	case "current":
		color = tabular.Green
	case "rejected", "denied", unknownNode:
		color = tabular.Red
	}
	return colored(state+": "+headline, true, color)
}

// until is how long something lasts yet, for people; "" if that is open.
func until(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return " (for " + max(at.Sub(now), 0).Round(time.Millisecond).String() + " more at most)"
}

// longestEvent bounds a line of what is followed, in bytes.
const longestEvent = 1 << 20

// followClient prints what happens to one client of a running weir, line by line, until ctx ends or
// weir does. weir ends an answer from time to time; then it is asked again, by the token that is in
// the file then. asJSON: as it comes.
func (o *operator) followClient(ctx context.Context, node string, asJSON bool, to io.Writer) error {
	for began := false; ; began = true {
		again, err := o.followOnce(ctx, node, asJSON, began, to)
		if err != nil || !again {
			return err
		}
	}
}

// followOnce prints one answer, from the second event on if it continues another one. Again: weir
// has ended it, and may be asked again.
func (o *operator) followOnce(ctx context.Context, node string, asJSON, continues bool, to io.Writer) (again bool, _ error) {
	path := "/explain/follow?" + url.Values{"node": {node}}.Encode()
	resp, err := o.send(ctx, http.MethodGet, path)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, longestEvent))
		return false, o.refused(path, resp.StatusCode, said)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, longestEvent)
	for lines.Scan() {
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		if !is {
			continue // a sign of life, or the end of an event
		}
		switch kind := eventKind(data); {
		case kind == "reconnect":
			again = true
			continue
		case kind == "following" && continues:
			continue
		case !asJSON:
			data = eventLine(data)
		}
		if _, err := fmt.Fprintln(to, visible.Text(data)); err != nil {
			return false, err
		}
	}
	switch {
	case ctx.Err() != nil:
		return false, nil // it was interrupted
	case again:
		return true, nil
	case lines.Err() != nil:
		return false, o.unanswered(lines.Err())
	}
	return false, remotef(o.address, "weir stopped")
}

// eventKind is what kind of event it is; "" if it cannot be read.
func eventKind(data string) string {
	var e struct {
		Event string `json:"event"`
	}
	_ = json.Unmarshal([]byte(data), &e) // eventLine prints what cannot be read
	return e.Event
}

// eventLine is an event for people: the time, what happened, and what there is to say of it.
func eventLine(data string) string {
	var e map[string]any
	if json.Unmarshal([]byte(data), &e) != nil {
		return oneLine(data)
	}
	at, _ := e["at"].(string)
	if t, err := time.Parse(time.RFC3339, at); err == nil {
		at = t.Local().Format("15:04:05.000")
	}
	said := at + " " + fmt.Sprint(e["event"])
	if kind, has := e["type"]; has {
		said += " " + fmt.Sprint(kind)
	}
	var more []string
	for key, value := range e {
		if !slices.Contains([]string{"at", "event", "type", "type_url"}, key) {
			more = append(more, fmt.Sprintf("%s=%v", key, value))
		}
	}
	slices.Sort(more)
	return shortened(visible.Text(said + " " + strings.Join(more, " ")))
}
