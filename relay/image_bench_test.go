package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// BenchmarkImages is what a snapshot costs the table: the pointers to all bodies of a type, under
// its lock, at best as held-ns. Nothing changed costs a look.
func BenchmarkImages(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		for _, kind := range []string{"set", "named", "unchanged"} {
			b.Run(fmt.Sprintf("%s/resources=%d", kind, n), func(b *testing.B) { benchImages(b, kind, n) })
		}
	}
}

func benchImages(b *testing.B, kind string, n int) {
	r := newRig(b, Config{})
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("n%d", i))
	}
	names := []string{xds.Wildcard}
	if kind == "named" {
		names = all
	}
	r.sub(xds.ClusterType, true, names...)
	r.open()
	r.apply(made(xds.ClusterType, "0", nil, all...))
	r.table.Advance(zero.Add(time.Minute))
	s := r.group.plain(xds.ClusterType)
	before, held := uint64(0), time.Hour
	if kind == "unchanged" {
		before = s.edition
	}
	b.ReportAllocs()
	for b.Loop() {
		var x TypeImage
		began := time.Now()
		if s.image(&x, before) == (kind == "unchanged") {
			b.Fatal("what changed is not told from what did not")
		}
		held = min(held, time.Since(began))
	}
	b.ReportMetric(float64(held.Nanoseconds()), "held-ns")
}
