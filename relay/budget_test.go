package relay

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// TestMemory: above the limit what nobody wants goes first; then names that nobody had asked for
// are denied, one by one, and sets; what somebody has is given to others, too, and nothing of it
// ever goes (RELAY-79, RELAY-80).
func TestMemory(t *testing.T) {
	const limit = 1 << 20
	r := newRig(t, Config{Linger: -1})
	sub := r.sub(xds.EndpointType, true, "a", "b")
	r.open()
	r.apply(made(xds.EndpointType, "1", nil, "a", "b"))
	if a := sub.Take(zero); len(a.Variants) != 2 {
		t.Fatalf("told %+v, want both", a)
	}
	sub.Update(zero, nil, []string{"b"})
	r.group.lanes[mainLane].Take(zero, false)
	r.table.Advance(zero.Add(time.Minute))
	if n, bytes := r.table.Retired(); n != 1 || bytes == 0 {
		t.Fatalf("%d names retired, want b", n)
	}
	sub.Take(zero)

	names := func(d []Denied) (names []string) {
		for _, x := range d {
			if x.Limit != "memory" || x.Most != limit {
				t.Errorf("denied %+v, want limits.memory %d", x, limit)
			}
			names = append(names, x.Name)
		}
		return names
	}
	other := r.group.Open(NewSubscriber(), SubOptions{TypeURL: xds.EndpointType, Delta: true})
	ask := func(words ...string) []string { return names(other.Update(zero, words, nil)) }
	measured := func(used int64) {
		t.Helper()
		r.table.Measured(used, limit)
	}
	measured(limit / 2)
	if d := ask("c"); d != nil || r.table.Tight() {
		t.Errorf("with half of it free %q are denied", d)
	}
	measured(limit + 1)
	if n, _ := r.table.Retired(); n != 0 {
		t.Errorf("%d names are still kept that nobody wants", n)
	}
	measured(limit + 1)
	if d := ask("d", "a", "e"); !slices.Equal(d, []string{"d", "e"}) || !r.table.Tight() || r.table.Full() {
		t.Errorf("above it %q are denied, want what nobody has", d)
	}
	if a := other.Take(zero); a == nil || len(a.Variants) != 1 {
		t.Errorf("told %+v, want a, which somebody has", a)
	}
	star := r.group.Open(NewSubscriber(), SubOptions{TypeURL: xds.ClusterType})
	if d := names(star.Replace(zero, nil, true)); !slices.Equal(d, []string{xds.Wildcard}) {
		t.Errorf("a set that nobody has: %q are denied", d)
	}
	r.apply(made(xds.EndpointType, "2", nil, "a"))
	if a := sub.Take(zero); a == nil || len(a.Variants) != 1 || len(a.Removed) != 0 {
		t.Errorf("who was there is told %+v, want the change", a)
	}
	measured(limit + limit/slack + 1)
	if !r.table.Full() {
		t.Error("far above it streams are still welcome")
	}
	measured(limit + limit/slack/2 + 1)
	if !r.table.Full() {
		t.Error("a little less, and streams are welcome again")
	}
	measured(limit + limit/slack/2)
	if r.table.Full() || !r.table.Tight() {
		t.Error("near the limit streams should be welcome again, and names not yet")
	}
	measured(limit - limit/slack + 1)
	if !r.table.Tight() {
		t.Error("names are welcome before there is room to speak of")
	}
	measured(limit - limit/slack)
	if d := ask("d"); d != nil {
		t.Errorf("with room again %q are denied", d)
	}
	// Between two measurements what is taken on is estimated.
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprint("many-", i))
	}
	d := ask(many...)
	if n := len(many) - len(d); n < limit/slack/nameCost-20 || n > limit/slack/nameCost {
		t.Errorf("%d names fit into %d bytes", n, limit/slack)
	}
	measured(0)
	long := strings.Repeat("x", limit*3/20)
	// the text of each is there several times while it is asked for
	if d := ask(long+"a", long+"b"); len(d) != 1 {
		t.Errorf("of two names of %d bytes %d are denied for want of %d", len(long), len(d), limit)
	}
	r.table.Measured(1<<40, 0)
	if d := ask("f"); d != nil || r.table.Tight() || r.table.Full() {
		t.Errorf("without a limit %q are denied", d)
	}
	star.Close(zero)
	other.Close(zero)
	if err := r.table.Check(); err != nil {
		t.Error(err)
	}
}

// TestViews: a set that would need one more view than there may be is denied; those that have one
// are joined, and room is made by the last that leaves.
func TestViews(t *testing.T) {
	r := newRig(t, Config{MaxViews: 2, Linger: -1})
	open := func(typeURL string, names ...string) (*Sub, []Denied) {
		s := r.group.Open(NewSubscriber(), SubOptions{TypeURL: typeURL, Delta: true})
		return s, s.Update(zero, names, nil)
	}
	glob := func(n int) string {
		return fmt.Sprintf("xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/g%d/*", n)
	}
	first, d := open(xds.EndpointType, glob(1), glob(2), "name", glob(3))
	if len(d) != 1 || d[0] != (Denied{glob(3), "views", 2}) {
		t.Fatalf("denied %+v, want the third", d)
	}
	if _, d := open(xds.ClusterType, xds.Wildcard); len(d) != 1 || d[0].Name != xds.Wildcard {
		t.Errorf("denied %+v, want `*`", d)
	}
	second, d := open(xds.EndpointType, glob(1), "another")
	if len(d) != 0 {
		t.Errorf("denied %+v, want to join", d)
	}
	first.Update(zero, nil, []string{glob(1), glob(2)})
	if d := first.Update(zero, []string{glob(1), glob(3), glob(2)}, nil); len(d) != 1 || d[0].Name != glob(2) {
		t.Errorf("denied %+v, want room for one", d)
	}
	first.Close(zero)
	second.Close(zero)
	if n := r.table.budget.views.Load(); n != 0 {
		t.Errorf("%d views are left of nobody", n)
	}
	if err := r.table.Check(); err != nil {
		t.Error(err)
	}
}

// BenchmarkNameCost: what a new name takes beside its text, once it was asked upstream and is
// answered absent.
func BenchmarkNameCost(b *testing.B) {
	const names = 100_000
	for b.Loop() {
		r := newRig(b, Config{})
		r.open()
		list := make([]string, names)
		for i := range list {
			list[i] = fmt.Sprintf("name-%06d", i)
		}
		heap := func() uint64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := heap()
		sub := r.sub(xds.EndpointType, true, list...)
		r.open()
		b.ReportMetric(float64(heap()-before)/names, "bytes/name")
		runtime.KeepAlive(sub)
		runtime.KeepAlive(list)
	}
}
