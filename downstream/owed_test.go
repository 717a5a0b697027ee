package downstream

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/weir-xds/weir/relay/xds"
)

// TestOwedIsShared: a client of clusters that has not asked for endpoints is owed those of all of
// them (WARM-6), and costs no name for each: two clients are owed by one list, and so many changes
// that it would be long are owed as everything.
func TestOwedIsShared(t *testing.T) {
	for _, delta := range []bool{true, false} {
		r := newRig(t)
		a, b := r.client(delta), r.client(delta)
		ask := func(p *clientEnd) {
			if delta {
				p.subscribes(cds)
			} else {
				p.asks(cds)
			}
		}
		ask(a)
		ask(b)
		r.settled(cds, "a=eds1", "b=eds1", "c=static")
		a.writes()
		b.writes()
		x, y := a.session.warm.owed, b.session.warm.owed
		if x.names != 2 || len(x.lists) != 1 || &x.lists[0][0] != &y.lists[0][0] {
			t.Errorf("delta %v: owed are %v and %v", delta, x, y)
		}
		for i := range 2 * maxLists {
			a.answer(cds)
			r.says(cds, fmt.Sprint("a=eds", 2+i))
			a.writes()
		}
		if x := a.session.warm.owed; len(x.lists) != 1 || x.lists[0][0] != xds.Wildcard {
			t.Errorf("delta %v: after many changes %v is owed", delta, x)
		}
	}
}

// TestOwedOfMany: whatever the number of lists, each name in them is owed to a client that asks for
// endpoints.
func TestOwedOfMany(t *testing.T) {
	var o owed
	for i := range 3*maxLists + 1 {
		o.add([]string{fmt.Sprint(2 * i), fmt.Sprint(2*i + 1)}, false)
	}
	all := slices.Concat(append(o.lists, o.own)...)
	slices.Sort(all)
	n := len(slices.Compact(all))
	if n != 2*(3*maxLists+1) || o.names != n || len(o.lists) > maxLists {
		t.Errorf("%d names in %d lists, counted %d", n, len(o.lists), o.names)
	}
	o.pay(map[string]bool{"0": true, "1": true, "50": true})
	if rest := slices.Concat(append(o.lists, o.own)...); len(rest) != n-3 || o.names != n-3 || slices.Contains(rest, "50") {
		t.Errorf("of %d names three were sent, and %v are owed, counted %d", n, rest, o.names)
	}
	o.add(make([]string, maxOwed), false)
	if len(o.lists) != 1 || o.own != nil || o.lists[0][0] != xds.Wildcard {
		t.Errorf("too many are %d lists", len(o.lists))
	}
	if shared := []string{"a", "b", "c"}; !slices.Equal(without(shared, map[string]bool{"b": true}), []string{"a", "c"}) || shared[1] != "b" {
		t.Errorf("what others share was changed: %v", shared)
	}
}

// BenchmarkFirstClusters is what a client takes that is sent 1,000 clusters and has not asked for
// their endpoints. kept-B is what is kept of it then, with its session.
func BenchmarkFirstClusters(b *testing.B) {
	r := newRig(b)
	first := r.client(true)
	first.subscribes(cds)
	words := make([]string, 1000)
	for i := range words {
		words[i] = fmt.Sprintf("cluster-%d=eds", i)
	}
	r.settled(cds, words...)
	first.writes()
	var before, after runtime.MemStats
	b.ReportAllocs()
	runtime.GC()
	runtime.ReadMemStats(&before)
	ends := make([]*session, b.N)
	for i := range ends {
		p := r.client(true)
		p.subscribes(cds)
		batch := p.session.take(r.now)
		if len(batch) == 0 || batch[0].size < len(words)*len("cluster-0=eds") {
			b.Fatal("there is no first state")
		}
		p.session.wrote(r.now, batch)
		ends[i] = p.session
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(b.N), "kept-B")
	runtime.KeepAlive(ends)
}
