package downstream

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// TestDrain: streams end with UNAVAILABLE, spread over the time, after health said so; a client
// that does not read holds nothing up (RELAY-58).
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, relaytest.Memory(), nil)
		const many = 100
		clients := make([]*relaytest.Client, many)
		for i := range clients {
			clients[i] = l.open(t, relaytest.ClientConfig{NeverRead: i == 0})
			clients[i].Subscribe(eds, "a")
		}
		l.asked(t, many)
		l.say(eds, "a="+strings.Repeat("x", 1<<20))
		for _, c := range clients[1:] {
			c.Expect(eds, "the resource")
		}
		watch, err := healthpb.NewHealthClient(l.net.Connect(t)).Watch(t.Context(), &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := watch.Recv(); err != nil || r.Status != healthpb.HealthCheckResponse_SERVING {
			t.Fatalf("%v, %v", r, err)
		}
		start := time.Now()
		drained := make(chan time.Duration)
		go func() {
			l.server.Drain(t.Context(), 10*time.Second)
			drained <- time.Since(start)
		}()
		if r, err := watch.Recv(); err != nil || r.Status != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Fatalf("%v, %v", r, err)
		}
		time.Sleep(500 * time.Millisecond)
		if n := len(l.server.Clients()); n < many/5 || n > many*4/5 {
			t.Errorf("half-way through, %d of %d streams are open", n, many)
		}
		for _, c := range clients[1:] {
			if code := c.AwaitEnd("the stream ends"); code != codes.Unavailable {
				t.Fatalf("it ends with %v", c.Err())
			}
		}
		if took := <-drained; took < 500*time.Millisecond || took > 5*time.Second {
			t.Errorf("a drain of %d streams over 10 s took %v, want about a second", many, took)
		}
		if err := l.server.Serve(must(l.net.Listen()), ListenerConfig{Origin: l.origin}); !errors.Is(err, errStopped) {
			t.Errorf("serving after the drain: %v", err)
		}
	})
}

// TestDrainWithoutStreams: nothing to wait for.
func TestDrainWithoutStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, relaytest.Memory(), nil)
		synctest.Wait()
		start := time.Now()
		l.server.Drain(t.Context(), time.Hour)
		if took := time.Since(start); took != 0 {
			t.Errorf("that took %v", took)
		}
	})
}

// TestDrainIsCutShort: when its context ends, the rest is ended at once; and Stop beside a drain
// does the same.
func TestDrainIsCutShort(t *testing.T) {
	for _, row := range []string{"context", "stop"} {
		t.Run(row, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLive(t, relaytest.Memory(), nil)
				clients := make([]*relaytest.Client, 50)
				for i := range clients {
					clients[i] = l.open(t, relaytest.ClientConfig{})
					clients[i].Subscribe(eds, "a")
				}
				l.asked(t, len(clients))
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				start := time.Now()
				if row == "stop" {
					ctx = t.Context()
					time.AfterFunc(200*time.Millisecond, l.server.Stop)
				}
				l.server.Drain(ctx, time.Hour)
				if took := time.Since(start); took > 300*time.Millisecond {
					t.Errorf("that took %v", took)
				}
				for _, c := range clients {
					if code := c.AwaitEnd("the stream ends"); code != codes.Unavailable {
						t.Errorf("it ends with %v", c.Err())
					}
				}
			})
		})
	}
}

// TestDrainRefuses: a stream that comes while the drain runs is turned away.
func TestDrainRefuses(t *testing.T) {
	l := newLive(t, relaytest.TCP(), nil)
	l.open(t, relaytest.ClientConfig{})
	l.server.refuse()
	c := l.open(t, relaytest.ClientConfig{})
	if code := c.AwaitEnd("refused"); code != codes.Unavailable || !strings.Contains(c.Err().Error(), "draining") {
		t.Errorf("refused with %v", c.Err())
	}
}

func must(l net.Listener, err error) net.Listener {
	if err != nil {
		panic(err)
	}
	return l
}
