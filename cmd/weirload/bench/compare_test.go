package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weirload/mtls"
)

// small is a scenario with few of everything.
func small(sc scenario) scenario {
	sc.clients, sc.world.Resources, sc.rounds, sc.settle = 5, 20, 0, 100*time.Millisecond
	if sc.world.NamesPerClient > 0 {
		sc.world.NamesPerClient = 8
	}
	if sc.changes > 0 {
		sc.changes = 3
	}
	sc.rate, sc.span, sc.interval, sc.slow = 50, 500*time.Millisecond, 100*time.Millisecond, slower{}
	return sc
}

// TestCompare runs every scenario, as it is but small, with real processes: every subject that
// takes part has every figure.
func TestCompare(t *testing.T) {
	c := &comparison{study: smallStudy(t), rounds: 1, subjects: subjects, profiles: profiles(filepath.Join(t.TempDir(), "p")), profileFor: time.Second}
	if err := c.programs.build(t.Context(), c.dir); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.tls, err = mtls.Make(c.dir); err != nil {
		t.Fatal(err)
	}
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			if sc = small(sc); sc.name != "delta" {
				c := *c
				c.profiles = ""
				compareSmall(t, &c, &sc)
				return
			}
			compareSmall(t, c, &sc)
			none := *c
			none.rounds, none.profiles = 0, profiles(t.TempDir())
			if rows, err := none.measureAll(t.Context(), []scenario{sc}); err != nil || len(rows) > 0 {
				t.Errorf("without rounds there are %d rows, %v", len(rows), err)
			}
			for _, dir := range []profiles{c.profiles, none.profiles} {
				checkProfiles(t, dir, "delta")
			}
		})
	}
}

// TestCompareTLS: what costs the writing of bytes is measured with TLS by default, for every subject
// that has it without. A subject without certificates is not reached by clients with them, so
// TestCompare measures TLS where it says so.
func TestCompareTLS(t *testing.T) {
	all := map[string]scenario{}
	for _, sc := range scenarios() {
		all[sc.name] = sc
	}
	chosen, err := newCompareCommand().Flags().GetStringSlice("scenarios")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sotw", "delta", "eds", "storm", "idle"} {
		plain, secured := all[name], all[name+"-tls"]
		if plain.tls || !secured.tls || !slices.Equal(plain.only, secured.only) || len(plain.figures) != len(secured.figures) {
			t.Errorf("%s is measured as %+v, and with TLS as %+v", name, plain, secured)
		}
		if !slices.Contains(chosen, plain.name) || !slices.Contains(chosen, secured.name) {
			t.Errorf("%s is not in both forms what is measured by default: %q", name, chosen)
		}
		if targets := secured.figures[0].targets; len(targets) != 1 || targets[0].of != yardstick {
			t.Errorf("%s with TLS is judged by %+v", name, targets)
		}
	}

	c := &comparison{study: smallStudy(t), rounds: 1, subjects: []string{weir, yardstick}}
	if err := c.programs.build(t.Context(), c.dir); err != nil {
		t.Fatal(err)
	}
	if c.tls, err = mtls.Make(c.dir); err != nil {
		t.Fatal(err)
	}
	for _, subject := range c.subjects {
		sc := small(all["delta"])
		err := c.on(t.Context(), &sc, subject, func(ctx context.Context, s *server) error {
			cfg := c.config(&sc, subject, s)
			cfg.TLS, cfg.Patience = c.tls, time.Second
			_, err := c.programs.fleet(ctx, cfg, sc.world.Kind)
			return err
		})
		if err == nil {
			t.Errorf("%s in plain text is reached with TLS", subject)
		}
	}
}

// TestWithin: the first round is whole; what would end too late is left out of the others.
func TestWithin(t *testing.T) {
	c := &comparison{study: smallStudy(t), rounds: 3, within: time.Nanosecond, subjects: []string{yardstick}}
	if err := c.programs.build(t.Context(), c.dir); err != nil {
		t.Fatal(err)
	}
	rows, err := c.measureAll(t.Context(), []scenario{small(plainScenarios()[0]), small(plainScenarios()[1])})
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows {
		if runs := row.Cells[yardstick].Runs; len(runs) != 1 {
			t.Errorf("%s: measured %d times", row.Title, len(runs))
		}
	}
}

func checkProfiles(t *testing.T, dir profiles, scenario string) {
	t.Helper()
	for _, name := range []string{"weir.cpu", "weir.heap", "bare.cpu", "bare.heap"} {
		if info, err := os.Stat(filepath.Join(string(dir), scenario+"."+name+".pprof")); err != nil || info.Size() == 0 {
			t.Errorf("a profile is missing: %v", err)
		}
	}
}

func compareSmall(t *testing.T, c *comparison, sc *scenario) {
	t.Helper()
	rows, err := c.measureAll(t.Context(), []scenario{*sc})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(sc.figures) {
		t.Fatalf("%d rows of %d figures", len(rows), len(sc.figures))
	}
	for _, row := range rows {
		for _, subject := range subjects {
			cell, ok := row.Cells[subject]
			if want := sc.measures(subject, 0); ok != want || ok && len(cell.Runs) != 1 {
				t.Errorf("%s, %s: measured: %v (%v), want %v", row.Figure, subject, ok, cell.Runs, want)
			}
		}
		for _, v := range row.Verdicts {
			if !v.Compared && row.Cells[weir].Median > 0 && !strings.HasPrefix(row.Key, "cpu") {
				t.Errorf("%s: %s", row.Figure, &v)
			}
		}
	}
	if _, err := json.Marshal(rows); err != nil {
		t.Error(err)
	}
	if sc.mode == idle && rows[1].Cells[weir].Median == 0 {
		t.Errorf("no memory is in use: %+v", rows[1])
	}
	if sc.mode == shield && rows[0].Cells[weir].Median != 0 {
		t.Errorf("the origin was asked more by many clients than by one: %+v", rows)
	}
}

func TestChoose(t *testing.T) {
	for name, c := range map[string]*comparison{
		"rounds":      {scenarios: []string{"sotw"}, subjects: subjects},
		"profile-for": {scenarios: []string{"sotw"}, subjects: subjects, profiles: "p", profileFor: time.Hour},
		"subjects":    {scenarios: []string{"sotw"}, subjects: []string{"envoy"}, rounds: 1},
		"scenarios":   {scenarios: []string{"none"}, subjects: subjects, rounds: 1},
	} {
		if _, err := c.choose(); err == nil || !strings.HasPrefix(err.Error(), name+":") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	if _, err := (&comparison{profiles: "p", profileFor: 30 * time.Second}).choose(); err != nil {
		t.Errorf("profiles alone: %v", err)
	}
	good := &comparison{scenarios: []string{"eds", "sotw"}, subjects: []string{weir}, rounds: 1}
	if got, err := good.choose(); err != nil || len(got) != 2 || got[0].name != "eds" {
		t.Errorf("chosen were %v, %v", got, err)
	}
}
