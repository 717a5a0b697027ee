package main

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// report is the result of a comparison.
type report struct {
	Machine string `json:"machine"`
	Rounds  int    `json:"rounds"`
	Rows    []row  `json:"rows"`
}

// row is one figure of one scenario, for all subjects.
type row struct {
	Scenario string          `json:"scenario"`
	Title    string          `json:"title"`
	Clients  int             `json:"clients"`
	Origin   string          `json:"weirs_origin"`
	Key      string          `json:"figure"`
	Figure   string          `json:"figure_title"`
	Unit     string          `json:"unit"`
	Cells    map[string]cell `json:"subjects"`
	Targets  []string        `json:"targets"` // and whether each was met

	digits int
}

// cell is the figure of one subject.
type cell struct {
	Runs   []float64 `json:"runs"`
	Median float64   `json:"median"`
}

// median returns the middle value, or the mean of the two in the middle.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// rowsOf judges the figures of a scenario.
func rowsOf(sc *scenario, found map[string][]result) []row {
	rows := make([]row, 0, len(sc.figures))
	for i := range sc.figures {
		runs := map[string][]float64{}
		for subject, results := range found {
			for _, r := range results {
				runs[subject] = append(runs[subject], r[sc.figures[i].key])
			}
		}
		rows = append(rows, newRow(sc, &sc.figures[i], runs))
	}
	return rows
}

// newRow judges one figure. runs are by subject; a subject without any was not measured.
func newRow(sc *scenario, f *figure, runs map[string][]float64) row {
	r := row{
		Scenario: sc.name, Title: sc.title, Clients: sc.clients, Origin: sc.origin, Key: f.key, Figure: f.title, Unit: f.unit,
		Cells: map[string]cell{}, digits: f.digits,
	}
	for subject, values := range runs {
		if len(values) > 0 {
			r.Cells[subject] = cell{Runs: values, Median: median(values)}
		}
	}
	for _, t := range f.targets {
		r.Targets = append(r.Targets, r.judge(t))
	}
	return r
}

// judge returns a target, and whether it was met, as in the table.
func (r *row) judge(t target) string {
	ours, measured := r.Cells[weir]
	what, value, digits, unit := weir, ours.Median, r.digits, r.Unit
	switch {
	case t.minus:
		theirs, ok := r.Cells[t.of]
		what, value, measured = weir+" - "+t.of, ours.Median-theirs.Median, measured && ok
	case t.of != "":
		what, unit = weir+"/"+t.of, ""
		value, measured = r.ratio(t.of)
		digits = ratioDigits(value)
	}
	limit, verdict := decimal(t.most, -1, unit), "met"
	switch {
	case !measured:
		return fmt.Sprintf("%s (at most %s): not measured", what, limit)
	case value > t.most:
		verdict = "**not met**"
	}
	return fmt.Sprintf("%s %s (at most %s): %s", what, decimal(value, digits, unit), limit, verdict)
}

// ratio returns weir's figure divided by another subject's; false if one is missing.
func (r *row) ratio(of string) (float64, bool) {
	ours, ok := r.Cells[weir]
	theirs := r.Cells[of]
	if !ok || theirs.Median <= 0 {
		return 0, false
	}
	return ours.Median / theirs.Median, true
}

// ratioDigits returns enough digits to show on which side of a target a ratio is.
func ratioDigits(v float64) int {
	if v < 0.1 {
		return 3
	}
	return 2
}

func decimal(v float64, digits int, unit string) string {
	return strings.TrimSpace(strconv.FormatFloat(v, 'f', digits, 64) + " " + unit)
}

// explanation is the text below the table.
const explanation = `
snapshot, linear: go-control-plane's caches by themselves, served by its own server, one snapshot for all nodes; bare: weirload's origin,
grpc-go with the same encoded bytes for all clients, the yardstick. weir's origin is the one named in the second
column. Rows that begin with TLS are of TLS 1.3 with certificates on both sides, the others of plain text. Figures with a number in
parentheses are of so many runs, since they take long. Server CPU is user and system time of the server's
process, divided by the deliveries; a delivery is one change at one client. Memory of idle clients is read in a pause in which nothing else
happens: what is in use is objects and stacks after a collection, and resident is what the system counts some seconds later. Diderot and
xds-relay are not in the table: they are not dependencies of this module.
`

// markdown writes the table and its explanation.
func (r *report) markdown() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s. Medians of at most %d rounds, subjects in turn within a round.\n\n", r.Machine, r.Rounds)
	fmt.Fprintf(b, "| scenario, clients | weir's origin | figure | %s |", strings.Join(subjects, " | "))
	for _, subject := range others {
		fmt.Fprintf(b, " weir/%s |", subject)
	}
	fmt.Fprintf(b, " targets |\n| --- | --- | --- |%s --- |\n", strings.Repeat(" ---: |", len(subjects)+len(others)))
	for i := range r.Rows {
		r.Rows[i].markdown(b, r.Rounds)
	}
	return b.String() + explanation
}

// others are the subjects that weir is compared with, the most important first.
var others = []string{yardstick, linear, snapshot}

func (r *row) markdown(b *strings.Builder, rounds int) {
	fmt.Fprintf(b, "| %s: %d | %s | %s |", r.Title, r.Clients, r.Origin, strings.TrimSuffix(r.Figure+", "+r.Unit, ", "))
	cells := func(subject string) string {
		c, ok := r.Cells[subject]
		switch {
		case !ok:
			return ""
		case len(c.Runs) < rounds:
			return decimal(c.Median, r.digits, fmt.Sprintf("(%d)", len(c.Runs)))
		}
		return decimal(c.Median, r.digits, "")
	}
	for _, subject := range subjects {
		fmt.Fprintf(b, " %s |", cells(subject))
	}
	for _, subject := range others {
		ratio := ""
		if v, ok := r.ratio(subject); ok {
			ratio = decimal(v, ratioDigits(v), "")
		}
		fmt.Fprintf(b, " %s |", ratio)
	}
	fmt.Fprintf(b, " %s |\n", strings.Join(r.Targets, "; "))
}

// thisMachine says where and when something is measured, in one line.
func thisMachine() string {
	model := func(file, pattern string) string {
		text, _ := os.ReadFile(file)
		if m := regexp.MustCompile(pattern).FindSubmatch(text); m != nil {
			return string(m[1])
		}
		return "unknown"
	}
	return fmt.Sprintf("%s, %d cores of %s, %s/%s, Linux %s, %s, loopback", time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(),
		model("/proc/cpuinfo", `model name\s*: (.*)`), runtime.GOOS, runtime.GOARCH, model("/proc/sys/kernel/osrelease", `(\S+)`), runtime.Version())
}
