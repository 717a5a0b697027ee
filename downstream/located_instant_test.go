package downstream

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-xds/weir/relay/xds"

	"github.com/weir-xds/weir/relay"
)

// TestTakenAtOneInstant: a client of several maps of a name sees all of a response or nothing of
// it, whenever it comes (DYN-10, RELAY-82).
func TestTakenAtOneInstant(t *testing.T) {
	for _, delta := range []bool{true, false} {
		r := newRigOf(t, relay.OriginConfig{Name: "mesh", TP2: true})
		p := r.client(delta)
		var ask, says []string
		for i := range 20 {
			ask = append(ask, fmt.Sprintf("c{n=%d}", i))
			says = append(says, fmt.Sprintf("c{n=%d}=", i))
		}
		var err error
		if delta {
			err = p.locates(cds, ask...)
		} else {
			err = p.lists(cds, ask...)
		}
		if err != nil {
			t.Fatal(err)
		}
		updates := make([]xds.Update, 300)
		for i := range updates {
			words := make([]string, len(says))
			for j, w := range says {
				words[j] = w + fmt.Sprint(i)
			}
			updates[i] = r.response(cds, words)
		}
		now, done := r.now, make(chan struct{})
		go func() {
			defer close(done)
			for i := range updates {
				for _, l := range r.lanes {
					l.Apply(now, &updates[i])
				}
			}
		}()
		for over := false; !over; {
			select {
			case <-done:
				over = true
			default:
			}
			checkOneInstant(t, p.written(p.session.take(now)))
			if delta {
				p.acksLast()
			} else if err := p.lists(cds, ask...); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// acksLast accepts what came last.
func (p *clientEnd) acksLast() {
	p.tb.Helper()
	p.acksAll()
	p.taken = nil
}

// checkOneInstant: all bodies of a response are of one response of the origin.
func checkOneInstant(t *testing.T, ms []*message) {
	t.Helper()
	for _, m := range ms {
		bodies := map[string]bool{}
		for _, w := range m.words {
			if !strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "!") {
				_, body := cutBody(w)
				bodies[body] = true
			}
		}
		if len(bodies) > 1 {
			t.Fatalf("of several instants: %v", m.words)
		}
	}
}
