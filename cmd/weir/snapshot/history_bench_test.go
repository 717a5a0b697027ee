package snapshot

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// BenchmarkHistory measures what the history of 100,000 resources with 10 versions costs: the first
// write of it, one change after that, and a start.
func BenchmarkHistory(b *testing.B) {
	const resources, versions = 100_000, 10
	bounds := history.Bounds{Versions: versions, Bytes: 4 << 30, Age: 24 * time.Hour}
	for b.Loop() {
		dir := b.TempDir()
		w := withHistory(b, dir, bounds)
		w.want(clusters, xds.Wildcard)
		for i := range versions + 1 {
			w.apply(clusters, numbered(resources, fmt.Sprint("text ", i)))
		}
		kept := w.table.History().Kept()
		began := time.Now()
		w.save()
		whole := time.Since(began)
		size := fileSize(b, dir)
		w.apply(clusters, map[string]string{"c000007": "another"})
		began = time.Now()
		w.save()
		one := time.Since(began)
		grown := fileSize(b, dir) - size
		now := w.now
		w.end()
		x := withHistory(b, dir, bounds)
		x.now = now
		began = time.Now()
		r := x.load()
		start := time.Since(began)
		if r.Changes != resources*versions || r.Resources != resources {
			b.Fatalf("%+v", r)
		}
		b.ReportMetric(float64(kept.Bytes)/(1<<20), "memory-MiB")
		b.ReportMetric(float64(size)/(1<<20), "file-MiB")
		b.ReportMetric(whole.Seconds(), "write-s")
		b.ReportMetric(one.Seconds()*1000, "append-ms")
		b.ReportMetric(float64(grown), "append-bytes")
		b.ReportMetric(start.Seconds(), "start-s")
		x.end()
	}
}
