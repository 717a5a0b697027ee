package main

import (
	"bytes"
	"cmp"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// grownTruth are coefficients that samples are made of, by formula.
var grownTruth = [][]float64{{4e6, 32_000, 80_000, 270, 1.5}, {30e6, 1.3}, {250, 38}, {300, 0.4, 5}}

func grownSamples() []sample {
	var all []sample
	for _, p := range (&growing{}).grid() {
		s := sample{point: p, Seconds: 5, Changes: cmp.Or(5*p.Rate, 100)}
		s.Deliveries = int64(s.Changes * p.Clients)
		fs := newFormulas()
		sum := func(i int) (v float64) {
			for k, x := range fs.all()[i].factors(&s) {
				v += grownTruth[i][k] * x
			}
			return v
		}
		s.LiveBytes = sum(0)
		s.RSSBytes = sum(1)
		s.CPUSeconds, s.StormCPU, s.FleetCPU = sum(2)/1e6, sum(3)/1e6, 45e-6*float64(s.Deliveries)
		all = append(all, s)
	}
	return all
}

// TestFitGrowth: the grid tells all terms apart.
func TestFitGrowth(t *testing.T) {
	samples := grownSamples()
	f, err := fitGrowth(samples)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range f.all() {
		for k, want := range grownTruth[i] {
			if got := x.fit.Coefficients[k]; math.Abs(got/want-1) > 1e-4 {
				t.Errorf("%s, %s: %v, want %v", x.name, x.terms[k].name, got, want)
			}
		}
	}
	c := f.costs(samples)
	for name, pair := range map[string][2]float64{
		"delivery": {float64(c.Delivery), 38}, "KiB": {float64(c.KiB), 0.4}, "change": {float64(c.Change), 250},
		"KiB read": {float64(c.ChangeKiB), 5}, "connect": {float64(c.Connect), 300}, "client": {float64(c.Client), 45},
	} {
		if math.Abs(pair[0]/pair[1]-1) > 1e-4 {
			t.Errorf("%s: %v, want %v", name, pair[0], pair[1])
		}
	}
	if _, err := fitGrowth(samples[:3]); err == nil {
		t.Error("three points were enough")
	}
	smoke := &growing{smoke: true}
	if n := len(smoke.grid()); n < len(grownTruth[0]) {
		t.Errorf("%d points of the smoke test are too few", n)
	}
}

// TestTiers: replicas are enough for the fleet without one of them, and a tier comes between where
// the origin has too many streams and a tier has fewer.
func TestTiers(t *testing.T) {
	f, err := fitGrowth(grownSamples())
	if err != nil {
		t.Fatal(err)
	}
	each := replica{cores: 4, bytes: 8 << 30, streams: 50_000, full: 0.5}
	for name, row := range map[string]struct {
		plan     fleetPlan
		replicas []float64
		decided  string
	}{
		"small":       {fleetPlan{clients: 100, groups: 1, resources: 1000, bytes: 436, changes: 0.1}, []float64{2}, "one is enough"},
		"streams":     {fleetPlan{clients: 100_001, groups: 1, resources: 10, bytes: 436, changes: 0.1}, []float64{4}, "streams"},
		"CPU":         {fleetPlan{clients: 100_000, groups: 1, resources: 10, bytes: 436, changes: 3}, []float64{7}, "CPU"}, // 11.4 cores of 2 each
		"memory":      {fleetPlan{clients: 100, groups: 20_000, resources: 1000, bytes: 436}, []float64{1001}, "memory"},    // each has all groups
		"two tiers":   {fleetPlan{clients: 1_000_000, groups: 20, resources: 1000, bytes: 436, changes: 0.1}, []float64{21, 2}, "streams"},
		"no help":     {fleetPlan{clients: 1000, groups: 200, resources: 10, bytes: 436, changes: 0.1}, []float64{2}, "one is enough"},
		"three tiers": {fleetPlan{clients: 40_000_000, groups: 300, resources: 10, bytes: 436}, []float64{801, 6, 2}, "streams"}, // 240,300 streams
	} {
		all := f.tiers(&row.plan, &each, 100)
		var got []float64
		for _, x := range all {
			got = append(got, x.replicas)
		}
		if len(got) != len(row.replicas) || all[0].decided != row.decided {
			t.Errorf("%s: %v replicas for %s, want %v for %s", name, got, all[0].decided, row.replicas, row.decided)
			continue
		}
		for i, want := range row.replicas {
			if got[i] != want {
				t.Errorf("%s: %v replicas, want %v", name, got, row.replicas)
			}
		}
	}
}

// TestGrowth measures a grid of small points with real processes, and has it again from its file.
func TestGrowth(t *testing.T) {
	c := &growing{study: smallStudy(t), each: usual, spare: 0.4, bound: 100, smoke: true}
	c.json = filepath.Join(t.TempDir(), "growth.json")
	c.pause = 4 * time.Second
	var out bytes.Buffer
	if err := c.run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + out.String())
	for _, want := range []string{
		"| memory in use | a client | ", "| CPU while resources change | a delivery to a client | ", "| formula | R² | worst | at |",
		"| 40 clients, 4 groups, 400 resources of 300 bytes, changes one by one | ", "\n| 1000000 | 20 | 0.1 | 100000 | ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
	again := &growing{study: study{from: []string{c.json}}, each: usual, spare: 0.4, bound: 100}
	var b bytes.Buffer
	if err := again.run(t.Context(), &b); err != nil || b.String() != out.String() {
		t.Errorf("from its file, %v:\n%s", err, b.String())
	}
}
