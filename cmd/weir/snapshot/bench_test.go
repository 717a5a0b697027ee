package snapshot

import (
	"os"
	"strconv"
	"testing"
)

// BenchmarkLoad restores 100,000 resources, reading the file included.
func BenchmarkLoad(b *testing.B) {
	dir := b.TempDir()
	w := filled(b, dir, 100_000)
	w.end()
	info, err := os.Stat(File(dir))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	b.ReportAllocs()
	for b.Loop() {
		next := newWorld(b, dir)
		if r := next.load(); r.Resources != 100_002 {
			b.Fatalf("%+v", r)
		}
		next.keeper.close()
	}
}

// BenchmarkChoose is what a bound costs in each interval, where half of 10,000 groups have no room.
func BenchmarkChoose(b *testing.B) {
	book := newBook(false)
	for i := range 10_000 {
		id := groupID{"mesh", strconv.Itoa(i)}
		book.groups[id] = &group{id: id, used: start, bytes: 10_000}
	}
	b.ReportAllocs()
	for b.Loop() {
		book.choose(50_000_000, start)
	}
}

// BenchmarkSave looks at 100,000 resources of which one changed, and writes it.
func BenchmarkSave(b *testing.B) {
	dir := b.TempDir()
	w := filled(b, dir, 100_000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		w.apply(clusters, map[string]string{"c000007": string(rune('a' + i%26))})
		b.StartTimer()
		w.save()
	}
}
