package main

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weirload/bed"
	"github.com/weir-xds/weir/cmd/weirload/mtls"
)

// small is a scenario with few of everything.
func small(sc scenario) scenario {
	sc.clients, sc.world.Resources, sc.rounds, sc.settle = 5, 20, 0, 100*time.Millisecond
	sc.names = min(sc.names, 8)
	if sc.changes > 0 {
		sc.changes = 3
	}
	sc.rate, sc.span, sc.slow = 50, 500*time.Millisecond, slower{}
	return sc
}

// smallComparison has the programs of this tree, certificates, and a pause that is long enough for
// little garbage.
func smallComparison(t *testing.T, subjects ...string) *comparison {
	t.Helper()
	c := &comparison{subjects: subjects, rounds: 1, dir: t.TempDir(), log: &bytes.Buffer{}, pause: 500 * time.Millisecond}
	err := c.programs.build(t.Context(), c.dir)
	if err == nil {
		c.tls, err = mtls.Make(c.dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCompare runs every scenario, as it is but small, with real processes: every subject that
// takes part has every figure.
func TestCompare(t *testing.T) {
	c := smallComparison(t, subjects...)
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			sc = small(sc)
			compareSmall(t, c, &sc)
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

	c := smallComparison(t, weir, yardstick)
	for _, subject := range c.subjects {
		sc := small(all["delta"])
		err := c.on(t.Context(), &sc, subject, func(ctx context.Context, b *bed.Bed) error {
			cfg := c.config(&sc, subject, b)
			cfg.TLS, cfg.Patience = c.tls, time.Second
			_, err := c.fleet(ctx, cfg)
			return err
		})
		if err == nil {
			t.Errorf("%s in plain text is reached with TLS", subject)
		}
	}
}

// TestWithin: the first round is whole; what would end too late is left out of the others.
func TestWithin(t *testing.T) {
	c := smallComparison(t, yardstick)
	c.rounds, c.within = 3, time.Nanosecond
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
		for _, target := range row.Targets {
			if strings.Contains(target, "not measured") && row.Cells[weir].Median > 0 && !strings.HasPrefix(row.Key, "cpu") {
				t.Errorf("%s: %s", row.Figure, target)
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
		"rounds":    {scenarios: []string{"sotw"}, subjects: subjects},
		"subjects":  {scenarios: []string{"sotw"}, subjects: []string{"envoy"}, rounds: 1},
		"scenarios": {scenarios: []string{"none"}, subjects: subjects, rounds: 1},
	} {
		if _, err := c.choose(); err == nil || !strings.HasPrefix(err.Error(), name+":") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	good := &comparison{scenarios: []string{"eds", "sotw"}, subjects: []string{weir}, rounds: 1}
	if got, err := good.choose(); err != nil || len(got) != 2 || got[0].name != "eds" {
		t.Errorf("chosen were %v, %v", got, err)
	}
}
