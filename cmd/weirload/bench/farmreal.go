package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/weir-xds/weir/cmd/weirload/bed"
	"github.com/weir-xds/weir/cmd/weirload/bench/farm"
	"github.com/weir-xds/weir/cmd/weirload/fleet"
	"github.com/weir-xds/weir/cmd/weirload/world"
)

// likeness is a small farm of real processes beside the simulation of the same.
type likeness struct {
	Machine machine       `json:"machine"`
	Real    *fleet.Report `json:"real"`
	Farm    *farm.Report  `json:"farm"`
}

// realFarm is what is compared: three tiers and so many clients, where each change waits until all
// have the one before. loopback is what a message takes on such a machine besides CPU: the waking of
// its reader.
func realFarm(c *farm.Config) {
	const loopback = 30 * time.Microsecond
	c.Clients, c.Tiers, c.Changes, c.Every, c.Kill = 300, []int{1, 2, 3}, 200, 0, nil
	c.Shared, c.Over, c.Links = runtime.NumCPU(), time.Second, nil
	for range len(c.Tiers) + 1 {
		c.Links = append(c.Links, farm.Link{Latency: loopback})
	}
}

// compare measures the real farm, and simulates it.
func (c *farming) compare(ctx context.Context) (findings, error) {
	l := &likeness{Machine: thisMachine()}
	var err error
	if l.Real, err = c.processes(ctx); err != nil {
		return nil, err
	}
	l.Farm, err = farm.Run(ctx, c.cfg)
	return l, err
}

// processes runs an origin, the tiers before it and a fleet.
func (c *farming) processes(ctx context.Context) (r *fleet.Report, err error) {
	o := world.Options{Kind: world.Clusters, Resources: c.cfg.Resources, Bytes: c.cfg.Bytes}
	s, err := startPlane(ctx, c.programs.weirload, "origin", &o)
	if err != nil {
		return nil, err
	}
	above := []string{s.xds}
	var weirs []*bed.Child
	defer func() {
		for _, child := range weirs {
			err = errors.Join(err, child.End())
		}
		err = errors.Join(err, s.stop())
	}()
	for i, n := range c.cfg.Tiers {
		var tier []string
		for k := range n {
			config := s.config()
			first := k * len(above) / n
			config["origins"].([]any)[0].(map[string]any)["grpc"] = map[string]any{
				"addresses": []any{above[first]}, "dialect": "delta",
			}
			child, at, err := bed.StartWeir(s.ctx, s.cancel, c.programs.weir, filepath.Join(c.dir, fmt.Sprintf("weir-%d-%d.yaml", i, k)), config)
			if err != nil {
				return nil, err
			}
			weirs, tier = append(weirs, child), append(tier, at.XDS)
		}
		above = tier
	}
	cfg := &fleet.Config{
		Server: strings.Join(above, ","), Control: s.control, Dialect: fleet.Delta, Clients: c.cfg.Clients, Resources: c.cfg.Resources,
		Changes: c.cfg.Changes, Idle: wait, Patience: 90 * time.Second,
	}
	for _, child := range weirs {
		cfg.PIDs = append(cfg.PIDs, child.PID())
	}
	return c.programs.fleet(s.ctx, cfg, world.Clusters, cue{})
}

// markdown writes both, and their ratio.
func (l *likeness) markdown(w io.Writer) error {
	b := &strings.Builder{}
	cfg, stage := &l.Farm.Config, l.Farm.Stages[1]
	fmt.Fprintf(b, "%s. %d clients, tiers of %s weirs, all on one machine, %d changes, each when all have the one before.\n\n", l.Machine, cfg.Clients,
		strings.Trim(fmt.Sprint(cfg.Tiers), "[]"), l.Real.Changes)
	b.WriteString("| | processes | simulation | ratio |\n| --- | ---: | ---: | ---: |\n")
	row := func(name string, real, simulated float64) {
		fmt.Fprintf(b, "| %s | %s | %s | %.2f |\n", name, significant(real), significant(simulated), real/simulated)
	}
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	row("from the change to a client, p50, ms", l.Real.LatencyP50, ms(stage.P50))
	row("p99, ms", l.Real.LatencyP99, ms(stage.P99))
	row("to the last client, median, ms", l.Real.LastP50, ms(stage.LastP50))
	cpu := 0.0
	for i := range l.Real.Servers {
		cpu += 1e3 * l.Real.Servers[i].CPUSeconds
	}
	row("CPU of all weirs for a change, ms", cpu/float64(l.Real.Changes), ms(l.Farm.ChangeCPU()))
	last := len(cfg.Links) - 1
	row("bytes to all clients, first state and changes, MB", float64(l.Real.Bytes)/1e6, float64(l.Farm.Stages[0].Traffic[last].Down+stage.Traffic[last].Down)/1e6)
	_, err := io.WriteString(w, b.String())
	return err
}
