package state

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/constraints"
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

// BenchmarkEqualGroups is what a resource of one of 1,000 groups takes that are equal, each made of
// a response of its own; and with ten states more, of one change each, that are kept.
func BenchmarkEqualGroups(b *testing.B) {
	const n, groups = 1000, 1000
	changed := bodies(10, "other")
	for b.Loop() {
		var first [][]Edit
		for range groups {
			first = append(first, bodies(n, payload))
		}
		lines := make([]*Timeline, groups)
		set := setOf(first[0]...) // what one group takes is not counted
		before := heap()
		for g := range lines {
			lines[g] = NewTimeline(zero, Config{Bounds: bounds(1<<20, time.Hour)})
			lines[g].Publish(zero, 0, Change{TypeURL: cds, Selector: "*", Edits: first[g], Status: &Status{Phase: Firm}})
		}
		b.ReportMetric(float64(heap()-before)/(groups*n), "B/resource")
		for i := range changed {
			for _, line := range lines {
				line.Publish(zero, uint64(i+1), Change{TypeURL: cds, Selector: "*", Edits: changed[i : i+1]})
			}
		}
		if got := len(lines[7].States()); got != 10 {
			b.Fatal(got)
		}
		b.ReportMetric(float64(heap()-before)/(groups*n), "B/resource-10-kept")
		runtime.KeepAlive(lines)
		runtime.KeepAlive(first)
		runtime.KeepAlive(set)
	}
}

// BenchmarkPublish is one change of 100,000 as the next state of a group, with ten that are kept.
func BenchmarkPublish(b *testing.B) {
	line := NewTimeline(zero, Config{Bounds: bounds(10*(aKept+500), time.Hour)})
	line.Publish(zero, 0, Change{TypeURL: cds, Selector: "*", Edits: bodies(100_000, payload)})
	b.ReportAllocs()
	for i := uint64(1); b.Loop(); i++ {
		e := say(cds, fmt.Sprint("n", i*7919%100_000), payload+fmt.Sprint(i))
		line.Publish(zero, i, Change{TypeURL: cds, Selector: "*", Edits: []Edit{e}})
	}
}

// BenchmarkLearn is one name that becomes known, of 100,000 in ten kept states.
func BenchmarkLearn(b *testing.B) {
	line := NewTimeline(zero, Config{Bounds: bounds(1<<20, time.Hour)})
	line.Publish(zero, 0, Change{TypeURL: eds, Edits: bodies(100_000, payload)})
	for i := range 10 {
		line.Publish(zero, uint64(i+1), Change{TypeURL: eds, Edits: []Edit{say(eds, "n5", fmt.Sprint(i))}})
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		line.Publish(zero, 100, Change{TypeURL: eds, Edits: []Edit{say(eds, fmt.Sprint("new", i), "1")}})
	}
}

// BenchmarkFilter is a set of 100,000 filtered by a permit after one change.
func BenchmarkFilter(b *testing.B) {
	s := setOf(bodies(100_000, payload)...)
	f := NewFilter(constraints.Params{}, func(name string) bool { return name[len(name)-1] != '7' })
	f.Of(s)
	for i := 0; b.Loop(); i++ {
		s = s.With(say(cds, "n500", fmt.Sprint(i)))
		f.Of(s)
	}
}

// BenchmarkHold takes 100,000 resources back to an earlier state, all changed.
func BenchmarkHold(b *testing.B) {
	line := NewTimeline(zero, Config{Bounds: bounds(1<<30, time.Hour)})
	for i := range 2 {
		line.Publish(zero, uint64(i), Change{TypeURL: cds, Selector: "*", Edits: bodies(100_000, payload+fmt.Sprint(i))})
	}
	old := line.States()[0].State
	for i := 0; b.Loop(); i++ {
		line.Hold(zero, Rest, []*State{old, nil}[i%2])
	}
}
