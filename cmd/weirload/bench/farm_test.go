package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weirload/bench/farm"
)

// farmed runs the command.
func farmed(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd, out := newFarmCommand(), &bytes.Buffer{}
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(io.Discard)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestFarmCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "farm.json")
	costs := filepath.Join(t.TempDir(), "growth.json")
	if err := writeJSON(costs, &grown{Samples: grownSamples()}); err != nil {
		t.Fatal(err)
	}
	out, err := farmed(t, "--clients", "200", "--tiers", "2", "--resources", "20", "--bytes", "300", "--changes", "3", "--every", "200ms",
		"--over", "1s", "--kill", "1", "--costs", costs, "--json", file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"200 clients, tiers of 2, 2 weirs", "Costs, us: 38 a delivery", "| one of 2 weirs of tier 1 is killed | ", "Resources taken away from clients: 0."} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r farm.Report
	if err := json.Unmarshal(b, &r); err != nil || len(r.Stages) != 3 || r.Config.Seed == 0 {
		t.Errorf("the file has %+v, %v", r, err)
	}
	for _, args := range [][]string{{"--kill", "4"}, {"--clients", "0"}, {"--weirs", "1,0"}, {"--costs", file + "x"}} {
		if out, err := farmed(t, append(args, "--resources", "1")...); err == nil {
			t.Errorf("%v: %s", args, out)
		}
	}
}

// TestFarmTiers: the last tier has a weir for 10,000 clients, each other a tenth.
func TestFarmTiers(t *testing.T) {
	for clients, want := range map[int][]int{1_000_000: {2, 10, 100}, 30_000: {2, 2, 3}, 10_000_000: {10, 100, 1000}} {
		c := &farming{tiers: 3}
		c.cfg = farm.Config{Clients: clients, Cores: 1, Changes: 1}
		if err := c.complete(); err != nil || !slices.Equal(c.cfg.Tiers, want) || len(c.cfg.Links) != 4 {
			t.Errorf("%d clients: %v, %v, want %v", clients, c.cfg.Tiers, err, want)
		}
	}
}

// TestFarmIsReal runs a small farm of processes, and simulates it. How far they are apart on a
// machine that does other things as well is no matter here, but the bytes are the same.
func TestFarmIsReal(t *testing.T) {
	c := &farming{study: smallStudy(t)}
	if err := c.programs.build(t.Context(), c.dir); err != nil {
		t.Fatal(err)
	}
	realFarm(&c.cfg)
	c.cfg.Clients, c.cfg.Changes, c.cfg.Resources, c.cfg.Bytes, c.cfg.Over = 30, 10, 50, 436, time.Second
	c.cfg.Costs = farm.UsualCosts
	found, err := c.compare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := found.(*likeness)
	if l.Real.Deliveries != 300 || l.Real.ChangesLost != 0 || l.Farm.Stages[1].P50 <= 0 {
		t.Errorf("%d deliveries, %d lost; simulated p50 %v", l.Real.Deliveries, l.Real.ChangesLost, l.Farm.Stages[1].P50)
	}
	last := len(c.cfg.Links) - 1
	simulated := l.Farm.Stages[0].Traffic[last].Down + l.Farm.Stages[1].Traffic[last].Down
	if ratio := float64(l.Real.Bytes) / float64(simulated); ratio < 0.9 || ratio > 1.1 {
		t.Errorf("%d bytes came, and %d in the simulation", l.Real.Bytes, simulated)
	}
	var b bytes.Buffer
	if err := l.markdown(&b); err != nil || strings.Count(b.String(), "\n| ") != 7 {
		t.Errorf("%v\n%s", err, b.String())
	}
	t.Log("\n" + b.String())
}
