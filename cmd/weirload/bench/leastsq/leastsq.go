// Package leastsq fits linear formulas to measurements, by least squares of the relative error: a
// small deployment counts as much as a large one. Below a value that the caller names errors are
// taken as relative to that one, since what was measured is no more exact.
//
// # Who imports it
//
// Package main of cmd/weirload/bench.
package leastsq

import (
	"errors"
	"fmt"
	"math"
)

// Row is one measurement: what was measured, and the factors of the terms of the formula.
type Row struct {
	Terms []float64
	Value float64
}

// Fit is a formula, the sum of its coefficients times the terms, and how well it fits.
type Fit struct {
	Coefficients []float64 `json:"coefficients"`
	// R2 is the share of the variance of the values that the formula explains.
	R2 float64 `json:"r2"`
	// Worst is the largest relative error, of the row WorstAt.
	Worst   float64 `json:"worst_relative_error"`
	WorstAt int     `json:"worst_at"`
}

// At is the value of the formula.
func (f *Fit) At(terms []float64) (sum float64) {
	for i, x := range terms {
		sum += f.Coefficients[i] * x
	}
	return sum
}

var errSingular = errors.New("the measurements do not tell the terms apart")

// Solve fits a formula to measurements. There have to be at least as many as terms. least is more
// than 0.
func Solve(rows []Row, least float64) (*Fit, error) {
	if len(rows) == 0 || len(rows) < len(rows[0].Terms) {
		return nil, fmt.Errorf("%d measurements are too few", len(rows))
	}
	n := len(rows[0].Terms)
	// Terms differ by orders of magnitude, so each is divided by its largest.
	scale := make([]float64, n)
	for _, r := range rows {
		for i, x := range r.Terms {
			scale[i] = max(scale[i], math.Abs(x)/max(r.Value, least))
		}
	}
	// The normal equations, with their right side as the last column.
	eq := make([][]float64, n)
	for i := range eq {
		if scale[i] == 0 {
			return nil, errSingular
		}
		eq[i] = make([]float64, n+1)
		for _, r := range rows {
			weight := 1 / max(r.Value, least)
			x := weight * r.Terms[i] / scale[i]
			for k := range n {
				eq[i][k] += x * weight * r.Terms[k] / scale[k]
			}
			eq[i][n] += x * weight * r.Value
		}
	}
	if !eliminate(eq) {
		return nil, errSingular
	}
	f := &Fit{Coefficients: make([]float64, n)}
	for i := range eq {
		f.Coefficients[i] = eq[i][n] / scale[i]
	}
	f.judge(rows, least)
	return f, nil
}

// eliminate solves linear equations in place (Gauss and Jordan, with pivots).
func eliminate(eq [][]float64) bool {
	const zero = 1e-12
	for i := range eq {
		pivot := i
		for k := i + 1; k < len(eq); k++ {
			if math.Abs(eq[k][i]) > math.Abs(eq[pivot][i]) {
				pivot = k
			}
		}
		if math.Abs(eq[pivot][i]) < zero {
			return false
		}
		eq[i], eq[pivot] = eq[pivot], eq[i]
		for c := len(eq); c >= i; c-- {
			eq[i][c] /= eq[i][i]
		}
		for k := range eq {
			for c := len(eq); k != i && c >= i; c-- {
				eq[k][c] -= eq[k][i] * eq[i][c]
			}
		}
	}
	return true
}

func (f *Fit) judge(rows []Row, least float64) {
	mean, off, all := 0.0, 0.0, 0.0
	for _, r := range rows {
		mean += r.Value / float64(len(rows))
	}
	for i, r := range rows {
		d := f.At(r.Terms) - r.Value
		off += d * d
		all += (r.Value - mean) * (r.Value - mean)
		if e := math.Abs(d) / max(r.Value, least); e > f.Worst {
			f.Worst, f.WorstAt = e, i
		}
	}
	if f.R2 = 1; all > 0 {
		f.R2 = 1 - off/all
	}
}
