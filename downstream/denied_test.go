package downstream

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestDenied: what the table has no room for is refused by its name, once; who has its names keeps
// them, and whoever misses some is sent away after a while, since it would not ask for them again
// on this stream (ERR-1, RELAY-79).
func TestDenied(t *testing.T) {
	const limit = 1 << 20
	for _, delta := range []bool{true, false} {
		r := newRig(t)
		ask := func(p *clientEnd, names ...string) {
			if delta {
				p.subscribes(eds, names...)
			} else {
				p.asks(eds, names...)
			}
		}
		first := r.client(delta)
		ask(first, "a")
		r.says(eds, "a=1")
		first.gets("what there is", "eds a=1")
		r.table.Measured(limit+1, limit)
		second := r.client(delta)
		ask(second, "a", "b")
		second.gets("what somebody has, and why not the rest", "eds a=1 !b:ResourceExhausted")
		if !delta {
			ask(second, "a", "b", "c")
			second.gets("what is refused now", "eds !c:ResourceExhausted")
			ask(second, "a", "b", "c", "a")
			second.gets("nothing twice")
		}
		if notes := second.notes; len(notes) == 0 || notes[0].limit == nil ||
			!strings.HasPrefix(notes[0].limit.text, "limits.memory 1048576 is reached: ") {
			t.Errorf("to be logged: %+v", notes)
		}
		star := r.client(delta)
		var err error
		if delta {
			err = star.sent(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, ResourceNamesSubscribe: []string{"*"}})
		} else {
			err = star.sent(&discoveryv3.DiscoveryRequest{TypeUrl: cds, ResourceNames: []string{"*"}})
		}
		if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "limits.memory") {
			t.Errorf("a set that nobody has ends the stream with %v", err)
		}
		end := r.now.Add(shortFor)
		for range 100 { // the writer's own deadlines bring it there
			second.gets("nothing more")
			if r.now = second.session.next(); r.now.IsZero() || !r.now.Before(end) {
				break
			}
			if err := second.session.tick(r.now); err != nil {
				t.Fatalf("sent away before there is room: %v", err)
			}
		}
		if !r.now.Equal(end) {
			t.Errorf("the writer looks again at %v, want %v", r.now, end)
			r.now = end
		}
		if err := first.session.tick(r.now); err != nil {
			t.Errorf("who misses nothing is sent away: %v", err)
		}
		if err := second.session.tick(r.now); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "limits.memory") {
			t.Errorf("who misses something: %v", err)
		}
		second.session.close(r.now)
		r.table.Measured(limit/2, limit)
		third := r.client(delta)
		ask(third, "a", "b")
		r.says(eds, "b=1")
		third.gets("with room again", "eds a=1 b=1")
	}
}

// TestUntoldRefusals: what is kept of refused names until they are told is bounded, over all
// clients; it is who asks for more that goes.
func TestUntoldRefusals(t *testing.T) {
	const limit = 1 << 20
	r := newRig(t)
	r.table.Measured(limit+1, limit)
	greedy := r.client(true)
	ask := func() error {
		names := make([]string, 30)
		for i := range names {
			names[i] = fmt.Sprint(strings.Repeat("x", 1000), len(greedy.session.types), i, rand.Int())
		}
		return greedy.sent(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: eds, ResourceNamesSubscribe: names})
	}
	var err error
	n := 0
	for ; err == nil && n < 100; n++ {
		err = ask()
	}
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "limits.memory") || n < 4 || n > 6 {
		t.Errorf("after %d requests that nothing was read of the stream ends with %v", n, err)
	}
	greedy.session.close(r.now)
	patient := r.client(true)
	patient.subscribes(eds, "y")
	patient.gets("who comes after it is told as ever", "eds !y:ResourceExhausted")
	patient.acks(eds)
	for range 200 { // told each time, so nothing adds up
		name := fmt.Sprint(strings.Repeat("z", 1000), rand.Int())
		patient.subscribes(eds, name)
		patient.gets("one refusal", "eds !"+name+":ResourceExhausted")
		patient.acks(eds)
	}
	if r.table.UnsentRefusals(0) {
		t.Error("what was told still counts")
	}
}

// TestRoomAgain: who misses names for want of memory is sent away to ask for them again soon after
// there is some, not minutes later.
func TestRoomAgain(t *testing.T) {
	const limit = 1 << 20
	r := newRig(t)
	r.table.Measured(limit+1, limit)
	c := r.client(true)
	c.subscribes(eds, "b")
	c.gets("it is refused", "eds !b:ResourceExhausted")
	c.acks(eds)
	begin := r.now
	r.table.Measured(limit/2, limit)
	for range 10 { // the writer's own deadlines bring it there
		c.gets("nothing more")
		if r.now = c.session.next(); !r.now.Before(begin.Add(shortLook)) {
			break
		}
	}
	if err := c.session.tick(r.now); !r.now.Equal(begin.Add(shortLook)) || status.Code(err) != codes.Unavailable {
		t.Errorf("after %v: %v", r.now.Sub(begin), err)
	}
}
