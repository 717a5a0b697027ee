package downstream

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// TestMaxStreamAge: streams end at random times between half and the whole of the age, or of a sixth
// of it if the process is young, with a status that nobody warns of, each after its connection was
// told to go; a client that comes back is on another connection (RELAY-59).
func TestMaxStreamAge(t *testing.T) {
	for _, row := range []struct{ up, age time.Duration }{{0, 10 * time.Minute}, {12 * time.Minute, 36 * time.Minute}, {24 * time.Hour, time.Hour}} {
		synctest.Test(t, func(t *testing.T) {
			l := newLive(t, relaytest.Memory(), func(c *Config, _ *ListenerConfig) { c.Timing.MaxStreamAge = time.Hour })
			time.Sleep(row.up)
			const many = 40
			begin := time.Now()
			var ends []time.Duration
			clients := make([]*relaytest.Client, many)
			for i := range clients {
				conn := l.net.Connect(t)
				c := relaytest.NewClient(t, conn, relaytest.ClientConfig{Patience: 2 * time.Hour})
				c.Open(relaytest.Node("envoy-1", "edge"))
				c.Subscribe(eds, "a")
				clients[i] = c
				go func() {
					// grpc-go lets go of a connection that is going away, though its streams go on.
					if !conn.WaitForStateChange(t.Context(), connectivity.Ready) {
						t.Error("the connection is never told to go")
					}
					if c.Err() != nil {
						t.Error("the stream ends before the connection was told to go")
					}
				}()
			}
			l.asked(t, many)
			l.say(eds, "a=1")
			for _, c := range clients {
				c.Expect(eds, "the resource")
			}
			accepted := l.net.Accepted()
			for open := many; open > 0; open = len(l.server.Clients()) {
				time.Sleep(time.Second)
				for range open - len(l.server.Clients()) {
					ends = append(ends, time.Since(begin))
				}
			}
			if first, last := ends[0], ends[len(ends)-1]; first < row.age*45/100 || last > row.age+2*time.Second {
				t.Errorf("up %v: streams end from %v to %v, want within the second half of %v", row.up, first, last, row.age)
			}
			slices.Sort(ends)
			if spread := ends[many*3/4] - ends[many/4]; spread < row.age/10 {
				t.Errorf("up %v: half of the streams end within %v of one another", row.up, spread)
			}
			for _, c := range clients {
				if code := c.AwaitEnd("the stream ends"); code != codes.Unavailable {
					t.Errorf("it ends with %v", c.Err())
				}
				c.Open(relaytest.Node("envoy-1", "edge"))
				c.Subscribe(eds, "a")
				c.Expect(eds, "the resource, on the next stream")
			}
			if n := l.net.Accepted() - accepted; n != many {
				t.Errorf("%d clients came back on %d new connections", many, n)
			}
		})
	}
}

// TestLateStreamsGoWithTheirConnection: a stream that was opened late on a connection ends with it,
// and so does a call that nobody else ends.
func TestLateStreamsGoWithTheirConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, relaytest.Memory(), func(c *Config, _ *ListenerConfig) { c.Timing.MaxStreamAge = time.Hour })
		time.Sleep(24 * time.Hour)
		conn := l.net.Connect(t)
		first := relaytest.NewClient(t, conn, relaytest.ClientConfig{Patience: 2 * time.Hour})
		late := relaytest.NewClient(t, conn, relaytest.ClientConfig{Patience: 2 * time.Hour})
		first.Open(relaytest.Node("envoy-1", "edge"))
		first.Subscribe(eds, "a")
		l.asked(t, 1)
		l.say(eds, "a=1")
		first.Expect(eds, "the resource")
		watch, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = watch.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(25 * time.Minute)
		late.Open(relaytest.Node("envoy-1", "edge"))
		late.Subscribe(eds, "a")
		l.asked(t, 2)
		if n := l.net.Accepted(); n != 1 {
			t.Fatalf("%d connections, want both streams on one", n)
		}
		time.Sleep(35 * time.Minute)
		synctest.Wait()
		for _, c := range []*relaytest.Client{first, late} {
			if err := c.Err(); status.Code(err) != codes.Unavailable {
				t.Errorf("an hour after the connection began the stream has ended with %v", err)
			}
		}
		time.Sleep(2 * time.Second)
		done := make(chan struct{})
		go func() { defer close(done); _, _ = watch.Recv() }()
		synctest.Wait()
		select {
		case <-done:
		default:
			t.Error("a call outlives its connection")
		}
	})
}

// TestNoStreamAge: without an age a stream may be a year old.
func TestNoStreamAge(t *testing.T) {
	p := newRig(t).client(true)
	p.subscribes(sds, "a")
	p.gets("the refusal", "sds !a:PermissionDenied")
	p.acks(sds)
	p.wait(365 * 24 * time.Hour)
	p.gets("nothing, and no end")
}
