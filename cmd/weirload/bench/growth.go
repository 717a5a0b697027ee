package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// growing has the options of the command growth.
type growing struct {
	study
	each  replica
	spare float64
	bound float64 // streams that the origin may have
	smoke bool
}

// grown is what was measured on the grid, and where.
type grown struct {
	Machine machine   `json:"machine"`
	Samples []sample  `json:"samples"`
	Missing []missing `json:"missing"`

	with *growing
}

func newGrowthCommand() *cobra.Command {
	c := &growing{each: usual}
	cmd := c.command(&cobra.Command{
		Use: "growth", Short: "Fit formulas to a grid of measurements: what a client, a group, a resource and a change cost, and what a fleet needs",
	}, c.run)
	fs := cmd.Flags()
	fs.Lookup("pause").DefValue, c.pause = growthPause.String(), growthPause
	fs.Float64Var(&c.each.cores, "cores", usual.cores, "of a replica")
	fs.Float64Var(&c.each.bytes, "memory", usual.bytes, "of a replica, in bytes")
	fs.Float64Var(&c.each.streams, "streams", usual.streams, "that a replica may have (limits.streams)")
	fs.Float64Var(&c.spare, "headroom", 0.4, "the share of a replica's cores and memory that is kept free")
	fs.Float64Var(&c.bound, "origin-streams", 100, "streams that the origin may have before there is to be a tier between")
	fs.BoolVar(&c.smoke, "smoke", false, "a grid of few and small points, to see that it works")
	return cmd
}

func (c *growing) run(ctx context.Context, out io.Writer) error {
	c.each.full, c.most = 1-c.spare, 30_000
	if c.smoke {
		c.most, c.short = 500, true
	}
	return c.study.run(ctx, out, func(files []string) (findings, error) {
		all := &grown{with: c}
		return all, readJSON(files, func(one *grown) {
			all.Machine = one.Machine
			all.Samples, all.Missing = append(all.Samples, one.Samples...), append(all.Missing, one.Missing...)
		})
	}, c.measure)
}

// growthPause is shorter than that of scale: what is resident at its end may be some more.
const growthPause = 10 * time.Second

// grid returns the points of growth. In most of them a change waits until all clients have the one
// before (rate 0), so that none is merged with another, however busy the machine is.
func (c *growing) grid() []point {
	var all []point
	add := func(clients, groups, resources, bytes, rate int) {
		all = append(all, point{
			Axis: "growth", Clients: clients, Groups: groups, Resources: resources, Bytes: bytes, Rate: rate, Dialect: "delta",
		})
	}
	if c.smoke {
		for _, groups := range []int{1, 4} {
			add(8, groups, 50, 436, 0)
			add(40, groups, 50, 436, 40)
			add(40, groups, 400, 300, 0)
		}
		return all
	}
	add(100, 1, 1000, 436, 20)
	add(100, 1, 1000, 436, 0)
	add(1000, 1, 1000, 436, 2)
	add(1000, 1, 1000, 436, 0)
	add(2000, 1, 1000, 436, 0)
	add(100, 1, 10_000, 436, 0)
	add(100, 1, 30_000, 436, 0)
	add(100, 1, 10_000, 1500, 0)
	add(300, 10, 1000, 436, 0)
	add(300, 100, 1000, 436, 5)
	add(300, 300, 1000, 436, 0)
	add(300, 100, 3000, 436, 0)
	add(1500, 20, 2000, 436, 0)
	return all
}

// measure measures the grid.
func (c *growing) measure(ctx context.Context) (findings, error) {
	found := &scaled{Machine: thisMachine()}
	result := func() *grown { return &grown{found.Machine, found.Samples, found.Missing, c} }
	one := &scaling{study: c.study}
	var failed []error
	for _, p := range c.grid() {
		if ctx.Err() != nil {
			return result(), errors.Join(append(failed, ctx.Err())...)
		}
		failed = append(failed, one.add(ctx, found, &p))
	}
	return result(), errors.Join(failed...)
}

// markdown writes the points, the formulas with their errors, and what fleets need by them.
func (g *grown) markdown(w io.Writer) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s.\n\n", g.Machine)
	for i := range g.Missing {
		fmt.Fprintf(b, "Not measured: %s\n\n", g.Missing[i].Why)
	}
	f, err := fitGrowth(g.Samples)
	if err != nil {
		fmt.Fprintf(b, "No formulas: %v.\n", err)
	} else {
		f.markdown(b, g.Samples)
		b.WriteString("\n")
		f.readOff(b, &g.with.each, g.with.bound)
	}
	_, err = io.WriteString(w, b.String())
	return err
}
