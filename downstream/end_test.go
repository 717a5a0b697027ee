package downstream

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestEndCarriesStatus: whoever ends a stream, the client is told why. Cancelling the context alone
// would not do: the blocked receive then writes CANCELLED on its way out, before the handler
// returns.
func TestEndCarriesStatus(t *testing.T) {
	for _, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
		t.Run(string(dialect), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, client := oneClient(t, relaytest.ClientConfig{Dialect: dialect, Patience: time.Minute})
				client.Subscribe(relaytest.EndpointType, "a")
				if code := client.AwaitEnd("the stream ends at cold_wait"); code != codes.Unavailable {
					t.Errorf("a cold stream ends with %v, want UNAVAILABLE", client.Err())
				}

				client.Open(nil)
				if code := client.AwaitEnd("the stream ends at first_request"); code != codes.DeadlineExceeded {
					t.Errorf("a silent stream ends with %v, want DEADLINE_EXCEEDED", client.Err())
				}

				client.Open(relaytest.Node("a", "c"))
				client.SendRaw([]byte{0xff})
				if code := client.AwaitEnd("the stream ends at once"); code != codes.InvalidArgument {
					t.Errorf("a stream with an undecodable request ends with %v, want INVALID_ARGUMENT", client.Err())
				}

				client.Open(relaytest.Node("a", "c"))
				client.Subscribe(relaytest.EndpointType, "a")
				synctest.Wait()
				s.Drain(t.Context(), time.Second)
				if code := client.AwaitEnd("the stream ends in the drain"); code != codes.Unavailable {
					t.Errorf("a drained stream ends with %v, want UNAVAILABLE", client.Err())
				}
			})
		})
	}
}

// TestColdClientGoesElsewhere: a client that weir has nothing for is told to leave its connection.
// Its next stream is on another one, behind which there may be a replica that has it (RELAY-8). Its
// other streams stay where they are.
func TestColdClientGoesElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := relaytest.Memory()
		serveEmpty(t, n)
		conn := n.Connect(t)
		client := relaytest.NewClient(t, conn, relaytest.ClientConfig{Patience: time.Minute})
		client.Open(relaytest.Node("a", "c"))
		client.Subscribe(relaytest.EndpointType, "a")
		watch, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = watch.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		other := make(chan error, 1)
		go func() { _, err := watch.Recv(); other <- err }()
		if code := client.AwaitEnd("the stream ends at cold_wait"); code != codes.Unavailable {
			t.Fatalf("a cold stream ends with %v, want UNAVAILABLE", client.Err())
		}
		synctest.Wait() // the client reads the end of the stream and the GOAWAY one after the other
		before := n.Accepted()
		client.Open(relaytest.Node("a", "c"))
		client.Subscribe(relaytest.EndpointType, "a")
		synctest.Wait()
		if got := n.Accepted() - before; got != 1 {
			t.Errorf("its next stream is on %d new connections, want 1", got)
		}
		select {
		case err := <-other:
			t.Errorf("its other stream has ended: %v", err)
		default:
		}
	})
}

// oneClient is a server without any data, and a client whose stream is open.
func oneClient(t *testing.T, cfg relaytest.ClientConfig) (*Server, *relaytest.Client) {
	t.Helper()
	n := relaytest.Memory()
	s := serveEmpty(t, n)
	client := relaytest.NewClient(t, n.Connect(t), cfg)
	client.Open(relaytest.Node("a", "c"))
	return s, client
}

// serveEmpty is a server without any data.
func serveEmpty(t *testing.T, n *relaytest.Net) *Server {
	t.Helper()
	r := newRig(t)
	s, err := New(r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := n.Listen()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l, ListenerConfig{Origin: r.origin}) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s
}
