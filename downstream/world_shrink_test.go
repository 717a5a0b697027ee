package downstream

import (
	"iter"
	"slices"
	"strings"
	"testing"
	"time"
)

// shrink strikes all lines that a play does not need to end in an alarm of a kind: halves first,
// then ever smaller parts, then words of lines. It ends after a time, with what it has.
func shrink(t testing.TB, lines []string, kind string, most time.Duration) []string {
	end := time.Now().Add(most)
	fails := func(lines []string) bool {
		a := play(t, lines)
		return a != nil && a.kind == kind
	}
	for again := true; again; {
		again = false
		for n := len(lines) / 2; n >= 1; n /= 2 {
			for i := 1; i+n <= len(lines); { // the first line is the world
				if time.Now().After(end) {
					return lines
				}
				if less := slices.Delete(slices.Clone(lines), i, i+n); fails(less) {
					lines, again = less, true
				} else {
					i += n
				}
			}
		}
		for i := range lines {
			for less := range withoutAWord(lines[i]) {
				if time.Now().After(end) {
					return lines
				}
				if shorter := slices.Clone(lines); less != lines[i] {
					if shorter[i] = less; fails(shorter) {
						lines, again = shorter, true
						break
					}
				}
			}
		}
	}
	return lines
}

// withoutAWord are the lines that a line is without one of its words, of which it needs the first
// two, or with one that is simpler.
func withoutAWord(line string) iter.Seq[string] {
	return func(yield func(string) bool) {
		f := strings.Fields(line)
		if f[0] == "rules" || f[0] == "wait" {
			return
		}
		if f[0] == "world" {
			for i := range f {
				options := strings.Split(f[i], "+")
				for k := 1; k < len(options); k++ {
					if options[k] == "params" || options[k] == "locators" {
						continue // without it variants would be no variants
					}
					less := slices.Clone(f)
					less[i] = strings.Join(slices.Delete(slices.Clone(options), k, k+1), "+")
					if !yield(strings.Join(less, " ")) {
						return
					}
				}
			}
		}
		for i := 2; i < len(f); i++ {
			if f[0] == "client" && (i == 2 || strings.HasPrefix(f[i], "env=")) || scriptTypes[f[i]] != "" {
				continue
			}
			if !yield(strings.Join(slices.Delete(slices.Clone(f), i, i+1), " ")) {
				return
			}
		}
	}
}
