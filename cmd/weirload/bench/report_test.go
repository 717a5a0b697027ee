package main

import (
	"encoding/json"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, row := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 9, 2}, 3},
	} {
		before := append([]float64(nil), row.values...)
		if got := median(row.values); got != row.want {
			t.Errorf("median of %v is %v, want %v", row.values, got, row.want)
		}
		for i := range before {
			if before[i] != row.values[i] {
				t.Errorf("the runs are in another order: %v", row.values)
			}
		}
	}
}

func TestVerdicts(t *testing.T) {
	f := &figure{key: "k", title: "cost", unit: "us", digits: 1, targets: []target{
		{of: yardstick, most: 1.25}, {of: linear, most: 0.25}, {of: snapshot, most: 0.05}, {most: 40}, {of: yardstick, minus: true, most: 9},
	}}
	sc := &scenario{name: "s", title: "a scenario", clients: 7, origin: linear}
	for name, row := range map[string]struct {
		runs map[string][]float64
		want []string
	}{
		"all measured": {
			map[string][]float64{weir: {60, 50, 40}, yardstick: {40, 41, 39}, linear: {150, 200, 100}, snapshot: {1000}},
			[]string{
				"weir/bare 1.25 (at most 1.25): met", "weir/linear 0.33 (at most 0.25): **not met**", "weir/snapshot 0.050 (at most 0.05): met",
				"weir 50.0 us (at most 40 us): **not met**", "weir - bare 10.0 us (at most 9 us): **not met**",
			},
		},
		"some": {
			map[string][]float64{weir: {30}, yardstick: {}, linear: {0}},
			[]string{
				"weir/bare (at most 1.25): not measured", "weir/linear (at most 0.25): not measured",
				"weir/snapshot (at most 0.05): not measured", "weir 30.0 us (at most 40 us): met", "weir - bare (at most 9 us): not measured",
			},
		},
		"without weir": {
			map[string][]float64{yardstick: {1}, linear: {1}, snapshot: {1}},
			[]string{
				"weir/bare (at most 1.25): not measured", "weir/linear (at most 0.25): not measured",
				"weir/snapshot (at most 0.05): not measured", "weir (at most 40 us): not measured", "weir - bare (at most 9 us): not measured",
			},
		},
	} {
		r := newRow(sc, f, row.runs)
		for i, got := range r.Targets {
			if got != row.want[i] {
				t.Errorf("%s: %q, want %q", name, got, row.want[i])
			}
		}
	}
}

func TestMarkdown(t *testing.T) {
	sc := &scenario{name: "s", title: "a scenario", clients: 7, origin: linear, figures: []figure{
		{key: "k", title: "cost", unit: "us", digits: 1, targets: []target{{of: yardstick, most: 1.25}, {most: 1}}}, {key: "n", title: "names"},
	}}
	r := report{Machine: "2026-01-02, 2 cores of a CPU", Rounds: 2}
	r.Rows = rowsOf(sc, map[string][]result{weir: {{"k": 2, "n": 3}, {"k": 4, "n": 5}}, yardstick: {{"k": 6, "n": 0}}, linear: {{"k": 1}, {"k": 1}}})
	const want = "2026-01-02, 2 cores of a CPU. Medians of at most 2 rounds, subjects in turn within a round.\n\n" +
		"| scenario, clients | weir's origin | figure | weir | snapshot | linear | bare | weir/bare | weir/linear | weir/snapshot | targets |\n" +
		"| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n" +
		"| a scenario: 7 | linear | cost, us | 3.0 |  | 1.0 | 6.0 (1) | 0.50 | 3.00 |  | " +
		"weir/bare 0.50 (at most 1.25): met; weir 3.0 us (at most 1 us): **not met** |\n" +
		"| a scenario: 7 | linear | names | 4 |  | 0 | 0 (1) |  |  |  |  |\n" + explanation
	if got := r.markdown(); got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}
