package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-xds/weir/cmd/weirload/bench/farm"
)

// farming has the options of the command farm.
type farming struct {
	study
	cfg    farm.Config
	tiers  int
	costs  []string // files of growth
	real   bool
	far    time.Duration // latency to the clients
	region time.Duration // latency between tiers
	gbit   float64
}

func newFarmCommand() *cobra.Command {
	c := &farming{}
	cmd := &cobra.Command{
		Use: "farm", Short: "Simulate tiers of weirs in virtual time, with the real table, and the loss of replicas", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.log = cmd.ErrOrStderr()
			return c.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&c.cfg.Clients, "clients", 1_000_000, "how many there are")
	fs.IntVar(&c.tiers, "tiers", 3, "how many tiers of weirs there are; the last has one for 10,000 clients, each other a tenth as many, at least two")
	fs.IntSliceVar(&c.cfg.Tiers, "weirs", nil, "how many weirs each tier has, from the origin's side, instead")
	fs.IntVar(&c.cfg.Resources, "resources", 1000, "how many clusters there are")
	fs.IntVar(&c.cfg.Bytes, "bytes", 436, "about how many bytes an encoded cluster has")
	fs.IntVar(&c.cfg.Cores, "cores", 4, "of each weir")
	fs.IntVar(&c.cfg.Changes, "changes", 5, "how many clusters change while all is well, and around each loss")
	fs.DurationVar(&c.cfg.Every, "every", time.Second, "time between changes; 0s: each when all clients have the one before")
	fs.DurationVar(&c.cfg.Over, "over", 10*time.Second, "the time in which the clients come")
	fs.IntSliceVar(&c.cfg.Kill, "kill", []int{2, 3}, "tiers of which one replica is lost, one after the other")
	fs.Uint64Var(&c.cfg.Seed, "seed", 0, "of what is random; 0: of the clock")
	fs.DurationVar(&c.region, "latency", 10*time.Millisecond, "of a link between tiers, one way; to the first tier it is a tenth")
	fs.DurationVar(&c.far, "client-latency", time.Millisecond, "of a link to a client")
	fs.Float64Var(&c.gbit, "gbit", 10, "Gbit/s that a weir sends at most")
	fs.StringSliceVar(&c.costs, "costs", nil, "files that `growth --json` wrote; none: the costs in package farm")
	fs.BoolVar(&c.real, "real", false, "compare a small farm of real processes on this machine with what the simulation says of it")
	fs.StringVar(&c.json, "json", "", "file to write the figures to")
	fs.StringVar(&c.programs.weir, "weir", "", "with --real: weir's program; empty: built from this tree")
	fs.StringVar(&c.programs.weirload, "weirload", "", "with --real: weirload's program; empty: built from this tree")
	return cmd
}

// complete makes the configuration of the simulation from the options.
func (c *farming) complete() error {
	cfg := &c.cfg
	if cfg.Seed == 0 {
		cfg.Seed = uint64(time.Now().UnixNano())
	}
	cfg.Costs = farm.UsualCosts
	if len(c.costs) > 0 {
		var samples []sample
		if err := readJSON(c.costs, func(one *grown) { samples = append(samples, one.Samples...) }); err != nil {
			return err
		}
		f, err := fitGrowth(samples)
		if err != nil {
			return err
		}
		cfg.Costs = f.costs(samples)
	}
	if len(cfg.Tiers) == 0 {
		const each, tenth = 10_000, 10
		for n := (cfg.Clients + each - 1) / each; len(cfg.Tiers) < c.tiers; n = (n + tenth - 1) / tenth {
			cfg.Tiers = append(cfg.Tiers, max(2, n))
		}
		slices.Reverse(cfg.Tiers)
	}
	if len(cfg.Tiers) == 0 || cfg.Clients < 1 || cfg.Cores < 1 || cfg.Changes < 1 || slices.Min(cfg.Tiers) < 1 {
		return errors.New("clients, tiers, weirs, cores and changes have to be at least 1")
	}
	cfg.Links = []farm.Link{{Latency: c.region / 10, BitsPerSecond: c.gbit * 1e9}}
	for range cfg.Tiers[1:] {
		cfg.Links = append(cfg.Links, farm.Link{Latency: c.region, BitsPerSecond: c.gbit * 1e9})
	}
	cfg.Links = append(cfg.Links, farm.Link{Latency: c.far, BitsPerSecond: c.gbit * 1e9})
	return nil
}

func (c *farming) run(ctx context.Context, out io.Writer) error {
	if err := c.complete(); err != nil {
		return err
	}
	if c.real {
		realFarm(&c.cfg)
		return c.study.run(ctx, out, nil, c.compare)
	}
	fmt.Fprintf(c.log, "seed %d\n", c.cfg.Seed)
	r, err := farm.Run(ctx, c.cfg)
	if err != nil {
		return fmt.Errorf("seed %d: %w", c.cfg.Seed, err)
	}
	if c.json != "" {
		if err := writeJSON(c.json, r); err != nil {
			return err
		}
	}
	return r.Markdown(out)
}
