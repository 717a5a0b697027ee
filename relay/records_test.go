package relay

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/weir-xds/weir/relay/xds"
)

// TestRecords: a table of records against a map, through growth and removal.
func TestRecords(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	s := &Sub{}
	entries, model := make([]*entry, 5000), map[*entry]*record{}
	for i := range entries {
		entries[i] = &entry{number: rnd.Uint32()}
		entries[i].name = fmt.Sprint(i)
		if i%10 == 0 { // numbers that share a chain for long
			entries[i].number = uint32(i) << 16
		}
	}
	compare := func() {
		t.Helper()
		s.checkRecords(t.Errorf)
		seen := map[*entry]bool{}
		for r := range s.records.all() {
			if seen[r.entry] || model[r.entry] != r {
				t.Fatalf("%s is found twice, or was removed", r.entry.name)
			}
			seen[r.entry] = true
		}
		if len(seen) != len(model) || s.records.len() != len(model) {
			t.Fatalf("%d records are found, %d are counted of %d", len(seen), s.records.len(), len(model))
		}
	}
	if s.records.len() != 0 || s.records.of(entries[0]) != nil {
		t.Fatal("there is something in none")
	}
	for range s.records.all() {
		t.Fatal("there is something in none")
	}
	for i := range 50_000 {
		w := entries[rnd.IntN(len(entries))]
		r := s.records.of(w)
		if r != model[w] {
			t.Fatalf("step %d: %v is found, want %v", i, r, model[w])
		}
		if r != nil && i > 25_000 {
			s.records.remove(r)
			delete(model, w)
		} else if r == nil {
			model[w] = s.recordFor(w)
		}
		if i%5000 == 0 {
			compare()
		}
	}
	kept := model[entries[0]]
	if kept == nil {
		kept = s.recordFor(entries[0])
		model[entries[0]] = kept
	}
	kept.setLastError((&Origin{}).unreachable("0"))
	for r := range s.records.all() { // all but one are removed as they are met
		if r != kept {
			s.records.remove(r)
			delete(model, r.entry)
		}
	}
	compare()
	if f := kept.lastError(); f == nil || f.Name != "0" {
		t.Errorf("its error is %v", f)
	}
	s.records.remove(kept)
	delete(model, kept.entry)
	compare()
}

// TestKnownNameCost: a name that others have subscribed to costs a client at most 100 bytes,
// however many it has: the record, of 64, and four to eight to find it by. While it is not answered
// it is in a list beside, of eight to sixteen.
func TestKnownNameCost(t *testing.T) {
	const clients, most = 10, 100
	for _, n := range []int{16_384, 16_385, 20_000} { // at its best, at its worst, and anyhow
		r := newRig(t, Config{})
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("cluster-%08d.some-namespace.svc.example.com", i)
		}
		subs := []*Sub{r.sub(xds.EndpointType, false, names...)}
		r.open()
		r.apply(made(xds.EndpointType, "0", nil, names...))
		subs[0].Take(zero)
		before := liveHeap()
		share := func(what string) {
			if each := float64(liveHeap()-before) / float64((len(subs)-1)*n); each > most {
				t.Errorf("a client of %d names takes %.1f bytes for each %s, more than %d", n, each, what, most)
			} else {
				t.Logf("a client of %d names takes %.1f bytes for each %s", n, each, what)
			}
		}
		for range clients {
			subs = append(subs, r.sub(xds.EndpointType, false, names...))
		}
		share("before it is answered")
		for _, s := range subs[1:] {
			if a := s.Take(zero); a == nil || len(a.Variants) != n {
				t.Fatal("it is not answered")
			}
		}
		share("when it is answered")
		runtime.KeepAlive(subs)
	}
}

// liveHeap is the live heap in bytes.
func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
