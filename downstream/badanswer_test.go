package downstream

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// TestBadPartHoldsNothingBack: of a cold origin's first answer one part is refused: a name is listed
// twice, or a payload has another type. A client that holds nothing is sent the others without
// waiting for cold_wait, and the refused one when it is good (RELAY-32).
func TestBadPartHoldsNothingBack(t *testing.T) {
	for _, sotw := range []bool{true, false} {
		for _, delta := range []bool{true, false} {
			for _, names := range [][]string{{"*"}, {"a", "b", "c"}} {
				for _, twice := range []bool{true, false} {
					name := fmt.Sprintf("SotW origin=%t, delta client=%t, %v, listed twice=%t", sotw, delta, names, twice)
					t.Run(name, func(t *testing.T) { testBadPart(t, sotw, delta, names, twice) })
				}
			}
		}
	}
}

func testBadPart(t *testing.T, sotw, delta bool, names []string, twice bool) {
	r := newRigOf(t, relay.OriginConfig{Name: "mesh", SotW: sotw})
	c := newControl(t, r.origin, sotw)
	for _, name := range []string{"a", "b", "c"} {
		c.set(cds, name, "1")
	}
	s := newSession(r.set, delta, r.now, relay.NewSubscriber())
	node := &corev3.Node{Id: "envoy-1"}
	var request proto.Message = &discoveryv3.DiscoveryRequest{Node: node, TypeUrl: cds, ResourceNames: names}
	if delta {
		request = &discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: cds, ResourceNamesSubscribe: names}
	}
	if _, err := takeIn(t, s, r.now, encoded(t, request)); err != nil {
		t.Fatal(err)
	}
	// answer has the origin answer what it was asked, and refused say that it gets c wrong.
	answer := func(refused bool) {
		for _, l := range c.lanes {
			c.produce(l, cds)
			for len(l.queue) > 0 {
				if _, is := l.queue[0].bodies["c"]; is && refused {
					l.queue[0].broken, l.queue[0].twice = "c", twice
				}
				c.deliver(r.now, l)
			}
		}
	}
	var sent []string
	takes := func() {
		r.table.Advance(r.now)
		for _, m := range s.take(r.now) {
			x := decode(t, m, delta)
			sent = append(sent, x.words...)
			answered := &discoveryv3.DiscoveryRequest{TypeUrl: cds, ResourceNames: names, ResponseNonce: x.nonce}
			request = answered
			if delta {
				request = &discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, ResponseNonce: x.nonce}
			}
			if _, err := takeIn(t, s, r.now, encoded(t, request)); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.takeLanes()
	for _, l := range c.lanes {
		c.ask(r.now, l)
	}
	answer(true)
	takes()
	if wildcard := names[0] == "*"; !sotw && wildcard { // a difference settles
		r.now = r.now.Add(250 * time.Millisecond)
		takes()
	}
	slices.Sort(sent)
	if want := []string{"a=1", "b=1"}; !slices.Equal(sent, want) {
		t.Fatalf("after %v it was sent %v, want %v", r.now.Sub(zero), sent, want)
	}
	sent = nil
	c.set(cds, "c", "2")
	answer(false)
	r.now = r.now.Add(time.Second)
	takes()
	if !slices.Contains(sent, "c=2") {
		t.Errorf("what was refused is good now, and it was sent %v", sent)
	}
	s.close(r.now)
}
