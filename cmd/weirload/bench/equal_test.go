package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestEqual measures a few groups with real processes, and has them again from their file.
func TestEqual(t *testing.T) {
	c := &equaling{study: smallStudy(t), rounds: 1, dialects: []string{"delta", "sotw"}}
	c.setting = equalSetting{Clients: 8, Resources: 20, Bytes: 300, Changes: 5}
	c.pause, c.json = 4*time.Second, filepath.Join(t.TempDir(), "equal.json")
	var out bytes.Buffer
	if err := c.run(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, c.log)
	}
	t.Log("\n" + out.String())
	for _, want := range []string{"8 clients, `*` of 20 clusters of 300 bytes", "\n| delta | 1 | ", "\n| sotw | 1 | "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
	var again bytes.Buffer
	if err := (&equaling{study: study{from: []string{c.json}}}).run(t.Context(), &again); err != nil || again.String() != out.String() {
		t.Errorf("from its file, %v:\n%s", err, again.String())
	}
}

// TestEqualTable: the reading of the origin's answers is taken off what a delivery costs, and medians
// are judged.
func TestEqualTable(t *testing.T) {
	e := &equalled{Setting: equalSetting{Clients: 10}}
	add := func(dialect string, groups int, delivery, answer float64) {
		e.Runs = append(e.Runs, equalRun{Dialect: dialect, Groups: groups, DeliveryUS: delivery, AnswerUS: answer})
	}
	for _, round := range []float64{0, 5, 100} {
		add("delta", 10, 105+round, 15)
		add("delta", 1, 45+round, 0)
		add("sotw", 10, 300+round, 100+round)
		add("sotw", 1, 90, 0)
	}
	var b bytes.Buffer
	if err := e.markdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| delta | 3 | 50.0 | 110.0 | 15.0 | 1.90 | 2: met |", "| sotw | 3 | 90.0 | 305.0 | 105.0 | 2.22 | 2: **not met** |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}
