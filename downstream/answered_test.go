package downstream

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
)

// TestNothingOfAResponseIsHeld: once a delta client was sent its first answer, or a change of all of
// it, and has accepted that, nothing of the response is reachable from its stream. Each client is
// in a group of its own, with a content of its own.
func TestNothingOfAResponseIsHeld(t *testing.T) {
	const clients, resources, size = 30, 200, 400
	r := newRigOf(t, relay.OriginConfig{Name: "mesh", GroupBy: []string{"id"}})
	var all []*clientEnd
	for i := range clients {
		p := r.client(true)
		p.node.Id = fmt.Sprint(i)
		p.subscribes(cds, "*")
		all = append(all, p)
	}
	for step, what := range []string{"the first answer", "a change of all"} {
		for i, l := range r.lanes {
			words := make([]string, 0, resources)
			for n := range resources {
				words = append(words, fmt.Sprintf("cluster-%d=%d-%d-%s", n, step, i, strings.Repeat("x", size)))
			}
			u := r.response(cds, words)
			l.Apply(r.now, &u)
		}
		r.wait(time.Minute)
		before := inUse()
		for _, p := range all {
			batch := p.session.take(r.now)
			if len(batch) != 1 || batch[0].size < resources*size {
				t.Fatalf("%s: %d responses", what, len(batch))
			}
			if _, err := (codec{}).Marshal(batch[0]); err != nil {
				t.Fatal(err)
			}
			p.nonces[cds] = p.nonceOf(batch[0])
			p.session.wrote(r.now, batch)
			p.acks(cds)
		}
		if held := (inUse() - before) / clients; held > resources*size/8 {
			t.Errorf("%s: %d bytes are held of each client, of %d sent", what, held, resources*size)
		}
	}
	runtime.KeepAlive(all)
}

// inUse is how many bytes are in use once the garbage is collected.
func inUse() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
