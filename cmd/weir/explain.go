package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weir/config"
)

// explainAnswer is what a running weir says of why a client has a resource or not: the part that is
// shown as text.
type explainAnswer struct {
	NodeID   string `json:"node_id"`
	Headline string `json:"headline"`
	State    string `json:"state"`
	Streams  []struct {
		Stream     uint64 `json:"stream"`
		Peer       string `json:"peer"`
		Dialect    string `json:"dialect"`
		Type       string `json:"type"`
		Parameters string `json:"parameters"`
		State      string `json:"state"`
		Headline   string `json:"headline"`
		Steps      []struct {
			Step string    `json:"step"`
			Text string    `json:"text"`
			At   time.Time `json:"at"`
		} `json:"steps"`
		Waits []struct {
			Reason string    `json:"reason"`
			Since  time.Time `json:"since"`
			Until  time.Time `json:"until"`
			Text   string    `json:"text"`
		} `json:"waits"`
	} `json:"streams"`
	LeftOut int `json:"streams_left_out"`
}

func explainCommand() *cobra.Command {
	o, output, follow := &operator{}, "", false
	cmd := &cobra.Command{
		Use:   "explain NODE [TYPE] [NAME]",
		Short: "Say why a client of a running weir has a resource, or has it not: what was asked, sent and answered, and what it waits for",
		Long: `Say why a client of a running weir has a resource, or has it not.

NODE is a node id, as weir clients lists them; all its streams are explained.
TYPE is cds, eds, lds, rds, srds, vhds, sds, rtds, ecds, leds or a full type URL.
Without NAME the type as a whole is explained, and without TYPE all types in short.

With --follow it prints what happens to the client from now on, until it is interrupted:
requests, answers, and what became of them.`,
		Args:              arguments,
		ValidArgsFunction: completeExplain,
	}
	o.register(cmd)
	o.registerAll(cmd)
	outputFlag(cmd, &output)
	cmd.Flags().BoolVar(&follow, "follow", false, "print what happens to the client from now on, as it happens")
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
		return o.show(cmd.Context(), cmd.OutOrStdout(), output, lookup{
			func(ctx context.Context, o *operator) ([]byte, error) {
				var body json.RawMessage
				err := o.get(ctx, "/explain?"+q.Encode(), &body)
				return body, err
			},
			explainTables,
		})
	})
	return cmd
}

// completeExplain completes the type, which is the second argument.
func completeExplain(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return config.ShortNames(), cobra.ShellCompDirectiveNoFileComp
}

// explainTables writes what one weir says, or with --all every replica, each under its address: a
// client may have streams at several.
func explainTables(w io.Writer, all []reply[[]byte]) error {
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
		if err := explainTable(w, a.said); err != nil {
			return err
		}
	}
	return failures(w, all)
}

// explainTable writes the headline, and for each stream its own, the way that was walked, and what
// is waited for.
func explainTable(w io.Writer, body []byte) error {
	var x explainAnswer
	if err := json.Unmarshal(body, &x); err != nil {
		return notUnderstood(err)
	}
	now := time.Now()
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	// A tabwriter keeps its first error for Flush.
	row(tw, x.State+": "+x.Headline)
	for i := range x.Streams {
		s := &x.Streams[i]
		about := fmt.Sprintf("stream %d from %s, %s", s.Stream, s.Peer, s.Dialect)
		for _, more := range []string{s.Type, s.Parameters} {
			if more != "" {
				about += ", " + more
			}
		}
		_, _ = fmt.Fprintln(tw)
		row(tw, about)
		row(tw, s.State+": "+s.Headline)
		for _, p := range s.Steps {
			row(tw, p.Step, ago(now, p.At), p.Text)
		}
		for _, p := range s.Waits {
			row(tw, "waits", ago(now, p.Since), p.Reason+until(now, p.Until)+": "+p.Text)
		}
	}
	if x.LeftOut > 0 {
		row(tw, fmt.Sprintf("and %d more streams of this node", x.LeftOut))
	}
	return tw.Flush()
}

// until is how long something lasts yet, for people; "" if that is open.
func until(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return " (for " + max(at.Sub(now), 0).Round(time.Millisecond).String() + " more at most)"
}
