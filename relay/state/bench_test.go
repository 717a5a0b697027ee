package state

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

var payload = strings.Repeat("x", 400)

// BenchmarkChange is one change of a set of 100,000.
func BenchmarkChange(b *testing.B) {
	s := setOf(bodies(100_000, payload)...)
	var changes [4096]Edit // of 2,048 names
	for i := range changes {
		changes[i] = say(cds, fmt.Sprint("n", i%2048*47), payload+fmt.Sprint(i))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s = s.With(changes[i%len(changes)])
	}
}

// BenchmarkFirst is a first answer of 100,000.
func BenchmarkFirst(b *testing.B) {
	all := bodies(100_000, payload)
	for b.Loop() {
		s := setOf(all...)
		runtime.KeepAlive(s)
	}
}

// BenchmarkDiff is the difference of two neighbours of 100,000.
func BenchmarkDiff(b *testing.B) {
	s := setOf(bodies(100_000, payload)...)
	next := s.With(say(cds, "n500", "other"))
	for b.Loop() {
		for was, is := range Diff(s, next) {
			_, _ = was, is
		}
	}
}

// BenchmarkPieces is a whole list of 1,000, encoded after one change.
func BenchmarkPieces(b *testing.B) {
	s := setOf(bodies(1000, payload)...)
	s.Pieces(nil, SotW)
	var to [][]byte
	i := 0
	for b.Loop() {
		b.StopTimer()
		i++
		s = s.With(say(cds, "n500", payload+fmt.Sprint(i)))
		b.StartTimer()
		to = s.Pieces(to[:0], SotW)
	}
	if n := len(bytes.Join(to, nil)); n < 1000*len(payload) {
		b.Fatal(n)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkUnequalGroups is what groups take that have nothing in common, their bodies aside.
func BenchmarkUnequalGroups(b *testing.B) {
	for _, n := range []int{100, 1000, 3000, 20000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			groups := 100_000 / n
			var edits [][]Edit
			for g := range groups {
				all := bodies(n, payload+fmt.Sprint(g))
				edits = append(edits, all)
			}
			for b.Loop() {
				before := heap()
				var all []Set
				for _, e := range edits {
					all = append(all, setOf(e...))
				}
				b.ReportMetric(float64(heap()-before)/float64(groups*n), "B/resource")
				runtime.KeepAlive(all)
			}
			runtime.KeepAlive(edits)
		})
	}
}
