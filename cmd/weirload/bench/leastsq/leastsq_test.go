package leastsq

import (
	"math"
	"testing"
)

// TestSolve: coefficients of very different sizes come back from values that they made, and one
// value that is off is the worst.
func TestSolve(t *testing.T) {
	truth := []float64{4e6, 32e3, 80e3, 270, -5}
	var rows []Row
	for _, clients := range []float64{100, 1000, 5000} {
		for _, groups := range []float64{1, 10, 300} {
			for _, resources := range []float64{100, 3000} {
				terms := []float64{1, clients, groups, groups * resources, resources}
				rows = append(rows, Row{terms, (&Fit{Coefficients: truth}).At(terms)})
			}
		}
	}
	f, err := Solve(rows, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range truth {
		if got := f.Coefficients[i]; math.Abs(got/want-1) > 1e-6 {
			t.Errorf("coefficient %d is %v, want %v", i, got, want)
		}
	}
	if f.R2 < 1-1e-9 || f.Worst > 1e-9 {
		t.Errorf("an exact formula has R2 %v and is off by %v", f.R2, f.Worst)
	}
	rows[7].Value *= 1.2
	if f, err = Solve(rows, 1); err != nil || f.WorstAt != 7 || f.Worst < 0.05 || f.Worst > 0.2 || f.R2 >= 1 {
		t.Errorf("with one value that is off: %+v, %v", f, err)
	}
}

// TestSolveByHand: a straight line through three points, by hand: with y = 1, 2, 4 at x = 0, 1, 2 and
// weights 1, 1/4, 1/16 the normal equations are 1.3125 a + 0.375 b = 1.75 and 0.375 a + 0.5 b = 1.
func TestSolveByHand(t *testing.T) {
	f, err := Solve([]Row{{[]float64{1, 0}, 1}, {[]float64{1, 1}, 2}, {[]float64{1, 2}, 4}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	d := 1.3125*0.5 - 0.375*0.375
	a, b := (1.75*0.5-0.375*1)/d, (1.3125*1-0.375*1.75)/d
	if math.Abs(f.Coefficients[0]-a) > 1e-9 || math.Abs(f.Coefficients[1]-b) > 1e-9 {
		t.Errorf("%v, want %v and %v", f.Coefficients, a, b)
	}
}

// TestSolveLeast: what is too small to be measured exactly does not decide.
func TestSolveLeast(t *testing.T) {
	rows := []Row{{[]float64{1}, 0}, {[]float64{2}, 0}, {[]float64{1000}, 2000}, {[]float64{3000}, 6000}}
	f, err := Solve(rows, 100)
	if err != nil || math.Abs(f.Coefficients[0]-2) > 0.002 || f.Worst > 0.05 {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestSolveRefuses(t *testing.T) {
	for name, rows := range map[string][]Row{
		"none":        nil,
		"too few":     {{[]float64{1, 2}, 3}},
		"not apart":   {{[]float64{1, 2}, 3}, {[]float64{2, 4}, 6}, {[]float64{3, 6}, 9}},
		"a term of 0": {{[]float64{1, 0}, 3}, {[]float64{2, 0}, 6}},
	} {
		if f, err := Solve(rows, 1); err == nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
