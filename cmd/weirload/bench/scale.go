package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// scaling has the options of the command.
type scaling struct {
	study
	axes []string
}

// scaled is what was measured, and where.
type scaled struct {
	Machine machine   `json:"machine"`
	Samples []sample  `json:"samples"`
	Missing []missing `json:"missing"`
}

// missing is a point that could not be measured.
type missing struct {
	point
	Why string `json:"why"`
}

// axisNames are in the order of the table.
var axisNames = []string{"clients", "resources", "names", "groups", "rate", "sotw", "corner"}

func newScaleCommand() *cobra.Command {
	c := &scaling{}
	cmd := c.command(&cobra.Command{Use: "scale", Short: "Measure weir along each axis, and print tables, the model and what it predicts"}, c.run)
	cmd.Flags().StringSliceVar(&c.axes, "axes", axisNames, "which of them")
	return cmd
}

func (c *scaling) run(ctx context.Context, out io.Writer) error {
	return c.study.run(ctx, out, readScaled, c.measure)
}

// measure measures along the axes.
func (c *scaling) measure(ctx context.Context) (findings, error) {
	found, all := &scaled{Machine: thisMachine()}, axes()
	for _, axis := range c.axes {
		if len(all[axis]) == 0 {
			return nil, fmt.Errorf("axes: there is no %q, only %s", axis, strings.Join(axisNames, ", "))
		}
	}
	var failed []error
	for _, axis := range c.axes {
		for i := range all[axis] {
			if ctx.Err() != nil {
				return found, errors.Join(append(failed, ctx.Err())...)
			}
			failed = append(failed, c.add(ctx, found, &all[axis][i]))
		}
	}
	return found, errors.Join(failed...)
}

// add measures a point.
func (c *scaling) add(ctx context.Context, found *scaled, p *point) error {
	var s *sample
	err := c.timed(p.String(), func() (err error) {
		ctx, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("it took longer than %v", longest))
		defer cancel()
		s, err = p.measure(ctx, &c.study)
		return err
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", p, err)
		fmt.Fprintf(c.log, "not measured: %v\n", err)
		found.Missing = append(found.Missing, missing{*p, err.Error()})
		return err
	}
	found.Samples = append(found.Samples, *s)
	fmt.Fprint(c.log, s.line())
	return nil
}

// readScaled merges the results of several runs.
func readScaled(files []string) (findings, error) {
	all := &scaled{}
	err := readJSON(files, func(one *scaled) {
		all.Machine = one.Machine
		all.Samples, all.Missing = append(all.Samples, one.Samples...), append(all.Missing, one.Missing...)
	})
	if err != nil {
		return nil, err
	}
	at := func(s sample) int { return slices.Index(axisNames, s.Axis) }
	slices.SortStableFunc(all.Samples, func(a, b sample) int { return at(a) - at(b) })
	return all, nil
}

const mebi = 1 << 20

// line returns one row of the table.
func (s *sample) line() string {
	what, rate := "`*`", "one by one"
	if s.Names > 0 {
		what = fmt.Sprint(s.Names)
	}
	if s.Rate > 0 {
		rate = fmt.Sprint(s.Rate)
	}
	return fmt.Sprintf("| %s | %s | %d | %d | %s | %d | %s | %.0f | %.0f | %.0f | %.2f | %.0f | %.1f | %.0f | %.1f | %.1f | %.1f |\n",
		s.Axis, s.Dialect, s.Clients, s.Resources, what, s.Groups, rate, s.LiveBytes/mebi, s.RSSBytes/mebi, s.StormRSSBytes/mebi, s.StormS,
		s.ConnectUS, s.DeliveryUS, s.CorePercent, s.P50MS, s.P99MS, s.LastMS)
}

const header = "| axis | dialect | clients | resources | names of each | groups | changes/s | in use MiB | resident MiB | after the storm MiB | all connected, s | CPU per connect, us | " +
	"CPU per delivery, us | % of a core | p50 ms | p99 ms | last client, median ms |\n" +
	"| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"

// markdown writes the samples and what could not be measured. If there are enough samples it writes
// the model, its error, and its predictions.
func (f *scaled) markdown(w io.Writer) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s.\n\n%s", f.Machine, header)
	for i := range f.Samples {
		b.WriteString(f.Samples[i].line())
	}
	for i := range f.Missing {
		fmt.Fprintf(b, "\nNot measured: %s\n", f.Missing[i].Why)
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
	row("weir by itself, in use", "%.0f MiB", m.BaseBytes/mebi)
	row(fmt.Sprintf("a resource of %.0f bytes that clients ask for by `*`, in each group that has it", m.BodyBytes), "%.0f bytes", m.ResourceBytes)
	row("the same that they ask for by its name", "%.0f bytes", m.NamedResourceBytes)
	row("a resource of `*` while clients come, and in SotW, more", "%.0f bytes", m.BodyBytes+around)
	row("a group, besides its resources", "%.0f KiB", m.GroupBytes/1024)
	row("a client on a connection of its own", "%.1f KiB", m.ClientBytes/1024)
	row("a name that a client subscribes to", "%.0f bytes", m.NameBytes)
	row("resident memory, times memory in use, at most", "%.2f", m.RSSFactor)
	row("CPU of a delivery in delta, `*`", "%.0f us", m.DeltaUS)
	row("CPU of a delivery in delta, by name, 10 of each change", "%.0f us", m.NamedUS)
	row("CPU of a delivery in SotW, 1,000 clusters", "%.0f us", m.SotWUS)
	row("CPU of a client that connects and is sent 1,000 clusters", "%.0f us", m.ConnectUS)

	b.WriteString("\n| point | in use MiB, measured | by the model |\n| --- | ---: | ---: |\n")
	for i := range samples {
		s := &samples[i]
		fmt.Fprintf(b, "| %s | %.0f | %.0f |\n", &s.point, s.LiveBytes/mebi, m.at(&s.point)/mebi)
	}
	b.WriteString("\n| region of 100,000 clients | deliveries/s | cores in all | replicas | decided by | resident, each | last client | rejoin after the loss of one | streams at the origin |\n" +
		"| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: |\n")
	for _, r := range regions() {
		p := m.plan(&r, &usual)
		fmt.Fprintf(b, "| %s | %.0f | %.1f | %.0f | %s | %.1f GiB | %.0f ms | %.1f s | %.0f |\n",
			r.name, p.deliveries, p.cores, p.replicas, p.why, p.bytes/(1<<30), p.lastMS, p.rejoinS, p.streams)
	}
}
