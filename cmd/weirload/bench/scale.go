package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// scaling is what the command was asked for.
type scaling struct {
	axes     []string
	programs programs
	json     string
	from     []string
	log      io.Writer
}

// scaled is what was measured, and where.
type scaled struct {
	Machine machine  `json:"machine"`
	Samples []sample `json:"samples"`
}

// axisNames are in the order of the table.
var axisNames = []string{"clients", "resources", "names", "groups", "rate", "sotw", "corner"}

func newScaleCommand() *cobra.Command {
	c := &scaling{}
	cmd := &cobra.Command{
		Use: "scale", Short: "Measure weir along each axis, and print tables, the model and what it predicts", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.log = cmd.ErrOrStderr()
			return c.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.StringSliceVar(&c.axes, "axes", axisNames, "which of them")
	fs.StringVar(&c.json, "json", "", "file to write the samples to")
	fs.StringSliceVar(&c.from, "from", nil, "files to take samples from, instead of measuring")
	c.programs.addFlags(fs)
	return cmd
}

func (c *scaling) run(ctx context.Context, out io.Writer) error {
	found := scaled{Machine: thisMachine()}
	var failed error
	if len(c.from) > 0 {
		if err := found.read(c.from); err != nil {
			return err
		}
	} else {
		failed = c.measure(ctx, &found)
	}
	if c.json != "" {
		failed = errors.Join(failed, found.write(c.json))
	}
	return errors.Join(failed, found.markdown(out))
}

func (f *scaled) write(file string) error {
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o600)
}

// measure goes along the axes.
func (c *scaling) measure(ctx context.Context, found *scaled) error {
	dir, err := os.MkdirTemp("", "weir-scale-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := c.programs.build(ctx, dir); err != nil {
		return err
	}
	all := axes()
	var failed []error
	for _, axis := range c.axes {
		if len(all[axis]) == 0 {
			return fmt.Errorf("axes: there is no %q, only %s", axis, strings.Join(axisNames, ", "))
		}
		for i := range all[axis] {
			if ctx.Err() != nil {
				return errors.Join(append(failed, ctx.Err())...)
			}
			s, err := all[axis][i].measure(ctx, &c.programs, dir)
			if err != nil {
				failed = append(failed, err)
				continue
			}
			found.Samples = append(found.Samples, *s)
			fmt.Fprintf(c.log, "%s", s.line())
		}
	}
	return errors.Join(failed...)
}

// read puts together what several runs found.
func (f *scaled) read(files []string) error {
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var one scaled
		if err := json.Unmarshal(b, &one); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		f.Machine = one.Machine
		f.Samples = append(f.Samples, one.Samples...)
	}
	at := func(s sample) int { return slices.Index(axisNames, s.Axis) }
	slices.SortStableFunc(f.Samples, func(a, b sample) int { return at(a) - at(b) })
	return nil
}

const mebi = 1 << 20

// line is one row of the table.
func (s *sample) line() string {
	what, rate := "`*`", "one by one"
	if s.Names > 0 {
		what = fmt.Sprint(s.Names)
	}
	if s.Rate > 0 {
		rate = fmt.Sprint(s.Rate)
	}
	return fmt.Sprintf("| %s | %s | %d | %d | %s | %d | %s | %.0f | %.0f | %.2f | %.0f | %.1f | %.0f | %.1f | %.1f | %.1f |\n",
		s.Axis, s.Dialect, s.Clients, s.Resources, what, s.Groups, rate, s.LiveBytes/mebi, s.RSSBytes/mebi, s.StormS, s.ConnectUS,
		s.DeliveryUS, s.CorePercent, s.P50MS, s.P99MS, s.LastMS)
}

const header = "| axis | dialect | clients | resources | names of each | groups | changes/s | live MiB | resident MiB | all connected, s | CPU per connect, us | " +
	"CPU per delivery, us | % of a core | p50 ms | p99 ms | last client, median ms |\n" +
	"| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"

// markdown writes the samples and, if there are enough of them, the model, how far it is from them, and what it predicts.
func (f *scaled) markdown(w io.Writer) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s.\n\n%s", f.Machine, header)
	for i := range f.Samples {
		b.WriteString(f.Samples[i].line())
	}
	m, err := fit(f.Samples)
	if err != nil {
		fmt.Fprintf(b, "\nNo model: %v.\n", err)
	} else {
		m.markdown(b, f.Samples)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

func (m *model) markdown(b *strings.Builder, samples []sample) {
	fmt.Fprintf(b, "\n| what | takes |\n| --- | ---: |\n")
	row := func(what, format string, v float64) { fmt.Fprintf(b, "| %s | "+format+" |\n", what, v) }
	row("weir by itself, live", "%.0f MiB", m.BaseBytes/mebi)
	row(fmt.Sprintf("a resource of %.0f bytes, in each group that has it", m.BodyBytes), "%.0f bytes", m.ResourceBytes)
	row("a group, besides its resources", "%.0f KiB", m.GroupBytes/1024)
	row("a client on a connection of its own", "%.1f KiB", m.ClientBytes/1024)
	row("a name that a client subscribes to", "%.0f bytes", m.NameBytes)
	row("resident memory, times live memory, at most", "%.2f", m.RSSFactor)
	row("CPU of a delivery in delta, `*`", "%.0f us", m.DeltaUS)
	row("CPU of a delivery in delta, by name, 10 of each change", "%.0f us", m.NamedUS)
	row("CPU of a delivery in SotW, 1,000 clusters", "%.0f us", m.SotWUS)
	row("CPU of a client that connects and is sent 1,000 clusters", "%.0f us", m.ConnectUS)

	b.WriteString("\n| point | live MiB, measured | by the model |\n| --- | ---: | ---: |\n")
	for i := range samples {
		s := &samples[i]
		by := m.live(float64(s.Clients), s.held(), float64(s.Bytes), float64(s.Groups), float64(s.Names))
		fmt.Fprintf(b, "| %s: %d clients, %d resources, %d names, %d groups | %.0f | %.0f |\n",
			s.Axis, s.Clients, s.Resources, s.Names, s.Groups, s.LiveBytes/mebi, by/mebi)
	}
	b.WriteString("\n| region of 100,000 clients | deliveries/s | cores in all | replicas | decided by | resident, each | last client | rejoin after the loss of one | streams at the origin |\n" +
		"| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: |\n")
	for _, r := range regions() {
		p := m.plan(&r, &usual)
		fmt.Fprintf(b, "| %s | %.0f | %.1f | %.0f | %s | %.1f GiB | %.0f ms | %.1f s | %.0f |\n",
			r.name, p.deliveries, p.cores, p.replicas, p.why, p.bytes/(1<<30), p.lastMS, p.rejoinS, p.streams)
	}
}
