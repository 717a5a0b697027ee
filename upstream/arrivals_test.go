package upstream

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/relaytest"
)

// slow is a connection that receives so many bytes a second, if any.
type slow struct {
	net.Conn
	rate *atomic.Int64
}

func (s *slow) Read(b []byte) (int, error) {
	rate := s.rate.Load()
	if rate == 0 {
		return s.Conn.Read(b)
	}
	n, err := s.Conn.Read(b[:min(len(b), int(rate/100))])
	time.Sleep(time.Duration(n) * time.Second / time.Duration(rate))
	return n, err
}

// TestBytesThatArriveAreNoPause: a set does not settle while a message is still arriving, however
// long that takes (RELAY-6).
func TestBytesThatArriveAreNoPause(t *testing.T) {
	var rate atomic.Int64
	slowly := func(c *Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := dial(ctx, address)
			return &slow{conn, &rate}, err
		}
	}
	in(t, options{config: slowly}, func(w *world) {
		w.want(opaque, "*")
		s := w.origin.ExpectStream("a stream")
		s.Expect("asks")
		rate.Store(50_000)
		s.Respond(opaque, "1", res("a", "1"))
		body := strings.Repeat("x", 2000)
		var rs []relaytest.Resource
		for i := range 100 { // 200 KB, that takes seconds
			rs = append(rs, relaytest.Resource{Name: fmt.Sprint("b", i), Version: "1", Body: relaytest.Opaque("", body)})
		}
		s.Respond(opaque, "1", rs...)
		begin := time.Now()
		for range 30 {
			time.Sleep(100 * time.Millisecond)
			if ts := w.group1(); ts.Settled || ts.Members > 1 {
				t.Fatalf("after %v the set is settled: %v, with %d members", time.Since(begin), ts.Settled, ts.Members)
			}
		}
		time.Sleep(4 * time.Second)
		if ts := w.group1(); !ts.Settled || ts.Members != 101 {
			t.Errorf("all has arrived, and the set is settled: %v, with %d members", ts.Settled, ts.Members)
		}
	})
}

// TestWholeMessagesAreNoDelay: what is whole when it is received keeps no other set from settling,
// nor does what HTTP/2 says besides.
func TestWholeMessagesAreNoDelay(t *testing.T) {
	in(t, options{}, func(w *world) {
		w.want(opaque, "*")
		w.want(eds, "busy")
		s := w.origin.ExpectStream("a stream")
		w.origin.Await(0, func() bool { return len(s.Requests()) == 2 }, "asks")
		s.Respond(opaque, "1", res("a", "1"))
		for i := range 8 {
			s.Respond(eds, fmt.Sprint(i), relaytest.Resource{
				Name: "busy", Version: fmt.Sprint(i), Body: relaytest.Endpoints("busy", fmt.Sprintf("10.0.0.%d:80", i)),
			})
			time.Sleep(50 * time.Millisecond)
		}
		if ts := w.group1(); !ts.Settled {
			t.Error("a set that has arrived does not settle")
		}
	})
}

// group1 is the table's picture of the opaque type in the world's group.
func (w *world) group1() (ts struct {
	Settled bool
	Members int
},
) {
	synctest.Wait()
	for _, g := range inspect.Status(w.table.Origin("mesh")) {
		for i := range g.Types {
			if g.Types[i].TypeURL != opaque {
				continue
			}
			ts.Settled, ts.Members = g.Types[i].Settled, g.Types[i].Members
		}
	}
	return ts
}
