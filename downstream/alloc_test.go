package downstream

import (
	"maps"
	"runtime"
	"slices"
	"testing"
)

// TestDeliveryAllocates: one change at one client allocates 3 objects in delta, 5 in state of the
// world, whose list is made anew, and up to 16 for a client of names, each of which goes its own way
// from one state to the next.
//
// Counted is what weir itself takes for a delivery to one of many clients: session.take from the
// wake on (the table's answer, the response, the list of its buffers), Marshal, wrote, and of the
// client's ACK what is done with it once it is decoded and its stream-type is found. Not counted is
// what grpc allocates to write a message and to read one, the decoding of requests, which has a
// test of its own, and what is made once for all clients: the first of them takes that (relay's
// BenchmarkWhole).
func TestDeliveryAllocates(t *testing.T) {
	const clients, changes = 500, 4
	most := map[string][2]float64{ // objects, and bytes of them
		"delta": {3, 640}, "SotW": {5, 1800}, "EDS by name": {14, 1100}, "SotW EDS by name": {15, 1120}, "EDS by locator": {16, 1220},
	}
	for _, kind := range slices.Sorted(maps.Keys(most)) {
		t.Run(kind, func(t *testing.T) {
			f := newFleet(t, kind, 1+clients, 1000)
			var total runtime.MemStats
			for i := range changes {
				f.change(3 + i)
				ends := f.ends[1:]
				f.acknowledge(f.ends[0], f.ends[0].session.take(f.now))
				var batches [clients][]*response
				allocated(&total, func() {
					for i, p := range ends {
						batches[i] = p.session.take(f.now)
						for _, x := range batches[i] {
							if data, err := (codec{}).Marshal(x); err != nil || len(data) < 3 {
								t.Fatal("nothing is sent", err)
							}
						}
					}
				})
				nonces := [clients][]byte{}
				for i, p := range ends {
					nonces[i] = []byte(p.nonceOf(batches[i][0]))
				}
				allocated(&total, func() {
					for i, p := range ends {
						p.session.wrote(f.now, batches[i])
						f.accept(p, nonces[i])
					}
				})
			}
			objects, bytes := float64(total.Mallocs)/(clients*changes), float64(total.TotalAlloc)/(clients*changes)
			t.Logf("%.2f objects of %.0f bytes", objects, bytes)
			mostObjects, mostBytes := most[kind][0]+.05, most[kind][1]
			// something else in the process may allocate a little
			if objects > mostObjects || bytes >= mostBytes {
				t.Errorf("a delivery allocates %.2f objects of %.0f bytes", objects, bytes)
			}
		})
	}
}

// allocated adds what f allocates.
func allocated(total *runtime.MemStats, f func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	total.Mallocs += after.Mallocs - before.Mallocs
	total.TotalAlloc += after.TotalAlloc - before.TotalAlloc
}
