package conformance

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var limitCases = []testCase{
	{"ERR-7", "a client that a full replica refuses gets to choose another one, though it keeps its connection", otherReplica},
	{"ERR-7", "three times as many streams as may come in a second wait for their turn, and none is refused", arrivals},
	{"ERR-7", "virtual: streams, by server, connection and identity", func(t *testing.T) {
		for _, name := range []string{"TestStreamLimit", "TestRefusedClientsAreLetGo", "TestHalfAClient", "TestIdentities", "TestIdentityOf"} {
			virtual(t, "../../../downstream", name)
		}
	}},
	{"ERR-7", "virtual: streams that come too fast, and requests on one of them", func(t *testing.T) {
		for _, name := range []string{"TestArrivals", "TestArrivalsEnd", "TestFastClientIsReadSlowly"} {
			virtual(t, "../../../downstream", name)
		}
	}},
	{"ERR-7", "virtual: names, and requests of them", func(t *testing.T) {
		for _, name := range []string{"TestDeltaLimits", "TestRefusedNames", "TestRequestLimit"} {
			virtual(t, "../../../downstream", name)
		}
	}},
}

// balancer forwards the first connection to the first address, and so on in turn, as a load balancer of connections does.
func balancer(t *testing.T, addresses ...string) (address string, accepted *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted = &atomic.Int32{}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	forward := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_, _ = to.Close(), from.Close()
	}
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", addresses[int(accepted.Add(1)-1)%len(addresses)])
			if err != nil {
				_ = client.Close()
				continue
			}
			mu.Lock()
			open = append(open, client, server)
			mu.Unlock()
			wg.Go(func() { forward(server, client) })
			wg.Go(func() { forward(client, server) })
		}
	})
	return l.Addr().String(), accepted
}

func otherReplica(t *testing.T) {
	w := start(t, setup{config: func(c weirtest.Config) { c.Set("limits.streams", 1) }})
	w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	first := w.client(relaytest.Delta)
	first.Subscribe(eds, "a")
	first.AwaitNames(eds, "the replica is full", "a")
	other := weirtest.Start(t, weirtest.NewConfig(w.origin.Net().Addr(), relaytest.Delta).Set("instance", "other"))
	address, accepted := balancer(t, w.weir.Addr, other.Addr)
	conn := weirtest.Connect(t, address)
	var c *relaytest.Client
	refused := 0
	served := weirtest.Until(weirtest.Patience, func() bool {
		c = newClient(t, conn, relaytest.ClientConfig{Dialect: relaytest.Delta})
		c.Open(relaytest.Node("client-2", "edge"))
		c.Subscribe(eds, "a")
		for start := time.Now(); c.Err() == nil && time.Since(start) < weirtest.Patience; {
			if len(c.Responses(eds)) > 0 {
				return true
			}
			time.Sleep(10 * time.Millisecond)
		}
		if status.Code(c.Err()) == codes.ResourceExhausted && strings.Contains(c.Err().Error(), "limits.streams 1 is reached") {
			refused++
		}
		time.Sleep(100 * time.Millisecond) // a client's backoff
		return false
	})
	if !served || refused == 0 || accepted.Load() != 2 {
		t.Errorf("served: %v, after %d refusals, over %d connections", served, refused, accepted.Load())
	}
	first.WantIdle(0)
	if n := strings.Count(w.weir.Output(), "a limit refuses what clients ask for"); n != 1 {
		t.Errorf("%d lines of log for %d refusals", n, refused)
	}
	if n, _ := w.weir.Metric("weir_limit_rejections_total", `limit="streams"`); int(n) != refused {
		t.Errorf("%v refusals are counted, of %d", n, refused)
	}
}

func arrivals(t *testing.T) {
	const rate = 100
	w := start(t, setup{edge: func(c weirtest.Config) { c.Set("limits.new_streams_per_second", rate) }})
	w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	var clients []*relaytest.Client
	begin := time.Now()
	for i := range 5 {
		conn := weirtest.Connect(t, w.weir.Addr)
		for j := range 3 * rate / 5 {
			c := newClient(t, conn, relaytest.ClientConfig{Dialect: relaytest.Delta})
			c.Open(relaytest.Node(fmt.Sprintf("client-%d-%d", i, j), "edge"))
			c.Subscribe(eds, "a")
			clients = append(clients, c)
		}
	}
	for _, c := range clients {
		c.AwaitNames(eds, "each is served in its turn", "a")
	}
	if took := time.Since(begin); took < time.Second {
		t.Errorf("all were served after %v: nobody waited", took)
	}
	if n, _ := w.weir.Metric("weir_limit_rejections_total", `limit="new_streams_per_second"`); n != 0 {
		t.Errorf("%v were refused", n)
	}
}
