package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// report is the result of a comparison.
type report struct {
	Machine machine `json:"machine"`
	Rounds  int     `json:"rounds"`
	Rows    []row   `json:"rows"`
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
	Verdicts []verdict       `json:"targets"`

	digits int
}

// cell is the figure of one subject.
type cell struct {
	Runs   []float64 `json:"runs"`
	Median float64   `json:"median"`
}

// verdict is a target, and whether it was met. Compared is false if one of the two figures is
// missing.
type verdict struct {
	What     string  `json:"what"` // such as weir/bare
	Value    float64 `json:"value"`
	Most     float64 `json:"most"`
	Compared bool    `json:"compared"`
	Met      bool    `json:"met"`

	unit   string
	digits int
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

// readReports merges the reports of several runs of different scenarios, and judges them by today's
// targets.
func readReports(files []string) (findings, error) {
	all := &report{}
	found := map[string]map[string]map[string][]float64{} // runs by scenario, figure and subject
	err := readJSON(files, func(one *report) {
		all.Machine, all.Rounds = one.Machine, max(all.Rounds, one.Rounds)
		for _, row := range one.Rows {
			runs := map[string][]float64{}
			for subject, c := range row.Cells {
				runs[subject] = c.Runs
			}
			if found[row.Scenario] == nil {
				found[row.Scenario] = map[string]map[string][]float64{}
			}
			found[row.Scenario][row.Key] = runs
		}
	})
	if err != nil {
		return nil, err
	}
	for _, sc := range scenarios() {
		for i := range sc.figures {
			if runs := found[sc.name][sc.figures[i].key]; runs != nil {
				all.Rows = append(all.Rows, newRow(&sc, &sc.figures[i], runs))
			}
		}
	}
	return all, nil
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
		r.Verdicts = append(r.Verdicts, r.judge(t))
	}
	return r
}

func (r *row) judge(t target) verdict {
	ours, measured := r.Cells[weir]
	v := verdict{What: weir, Value: ours.Median, Most: t.most, Compared: measured, digits: r.digits, unit: r.Unit}
	switch {
	case t.minus:
		theirs, ok := r.Cells[t.of]
		v.What, v.Value, v.Compared = weir+" - "+t.of, ours.Median-theirs.Median, measured && ok
	case t.of != "":
		v.What, v.unit = weir+"/"+t.of, ""
		v.Value, v.Compared = r.ratio(t.of)
		v.digits = ratioDigits(v.Value)
	}
	if !v.Compared {
		v.Value = 0
	}
	v.Met = v.Compared && v.Value <= v.Most
	return v
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

// String returns the verdict as in the table.
func (v *verdict) String() string {
	limit := decimal(v.Most, -1, v.unit)
	switch {
	case !v.Compared:
		return fmt.Sprintf("%s (at most %s): not measured", v.What, limit)
	case v.Met:
		return fmt.Sprintf("%s %s (at most %s): met", v.What, decimal(v.Value, v.digits, v.unit), limit)
	}
	return fmt.Sprintf("%s %s (at most %s): **not met**", v.What, decimal(v.Value, v.digits, v.unit), limit)
}

func decimal(v float64, digits int, unit string) string {
	return strings.TrimSpace(strconv.FormatFloat(v, 'f', digits, 64) + " " + unit)
}

// explanation is the text below the table.
const explanation = `
snapshot, linear: go-control-plane's caches by themselves, served by its own server, one snapshot for all nodes; bare: grpc-go with one
encoded body for all clients and nothing of xDS but subscriptions and nonces, the yardstick. weir's origin is the one named in the second
column. Rows that begin with TLS are of TLS 1.3 with certificates on both sides, the others of plain text. Figures with a number in
parentheses are of so many runs, since they take long. Server CPU is user and system time of the server's
process, divided by the deliveries; a delivery is one change at one client. Memory of idle clients is read in a pause in which nothing else
happens: what is in use is objects and stacks after a collection, and resident is what the system counts some seconds later. Diderot and
xds-relay are not in the table: they are not dependencies of this module.
`

// markdown writes the table and its explanation.
func (r *report) markdown(w io.Writer) error {
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
	b.WriteString(explanation)
	_, err := io.WriteString(w, b.String())
	return err
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
	var verdicts []string
	for i := range r.Verdicts {
		verdicts = append(verdicts, r.Verdicts[i].String())
	}
	fmt.Fprintf(b, " %s |\n", strings.Join(verdicts, "; "))
}
