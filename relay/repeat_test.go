package relay

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestConvergenceRepeats: a seed gives the same game each time, or an alarm of TestConvergence
// could not be looked at again. What the table and the game range over maps for has to come to the
// same in any order.
func TestConvergenceRepeats(t *testing.T) {
	defer func(n int) { *steps = n }(*steps)
	*steps = min(*steps, 600)
	for _, k := range modelKinds {
		t.Run(k, func(t *testing.T) {
			repeats(t, func(rnd *rand.Rand) []string {
				m := newModel(t, rnd, k)
				m.play()
				return m.log
			})
		})
	}
	for _, k := range paramKinds {
		t.Run(k, func(t *testing.T) {
			repeats(t, func(rnd *rand.Rand) []string { return playParams(t, rnd, k).log })
		})
	}
}

func repeats(t *testing.T, play func(*rand.Rand) []string) {
	s := newSeed(t)
	first, second := play(rand.New(rand.NewPCG(s, s))), play(rand.New(rand.NewPCG(s, s)))
	for i := range max(len(first), len(second)) {
		if i >= len(first) || i >= len(second) || first[i] != second[i] {
			t.Fatalf("%s\nand then in turn\n%s\n%s", strings.Join(first[max(0, i-20):min(i, len(first))], "\n"), line(first, i), line(second, i))
		}
	}
}

func line(log []string, i int) string {
	if i < len(log) {
		return log[i]
	}
	return "nothing"
}
