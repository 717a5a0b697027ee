package downstream

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// TestMaxStreamAge: streams end at random times in the last tenth of the age, with a status that
// nobody warns of, each after its connection was told to go; a client that comes back is on another
// connection (RELAY-59).
func TestMaxStreamAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, relaytest.Memory(), func(c *Config, _ *ListenerConfig) { c.Timing.MaxStreamAge = time.Hour })
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
		if first, last := ends[0], ends[len(ends)-1]; first < 54*time.Minute || last > 60*time.Minute+2*time.Second {
			t.Errorf("streams end from %v to %v, want within the last tenth of the hour", first, last)
		}
		slices.Sort(ends)
		if spread := ends[many*3/4] - ends[many/4]; spread < time.Minute {
			t.Errorf("half of the streams end within %v of one another", spread)
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

// TestLateStreamsGoWithTheirConnection: a stream that was opened late on a connection ends with it,
// so that no connection lives on without pings.
func TestLateStreamsGoWithTheirConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, relaytest.Memory(), func(c *Config, _ *ListenerConfig) { c.Timing.MaxStreamAge = time.Hour })
		conn, begin := l.net.Connect(t), time.Now()
		first := relaytest.NewClient(t, conn, relaytest.ClientConfig{Patience: 2 * time.Hour})
		late := relaytest.NewClient(t, conn, relaytest.ClientConfig{Patience: 2 * time.Hour})
		first.Open(relaytest.Node("envoy-1", "edge"))
		first.Subscribe(eds, "a")
		l.asked(t, 1)
		l.say(eds, "a=1")
		first.Expect(eds, "the resource")
		time.Sleep(40 * time.Minute)
		late.Open(relaytest.Node("envoy-1", "edge"))
		late.Subscribe(eds, "a")
		l.asked(t, 2)
		if n := l.net.Accepted(); n != 1 {
			t.Fatalf("%d connections, want both streams on one", n)
		}
		for i, c := range []*relaytest.Client{first, late} {
			latest := []time.Duration{60 * time.Minute, 71 * time.Minute}[i]
			time.Sleep(time.Until(begin.Add(latest)))
			synctest.Wait()
			if err := c.Err(); status.Code(err) != codes.Unavailable {
				t.Errorf("%v after the connection began the stream has ended with %v", latest, err)
			}
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
