package conformance

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var limitCases = []testCase{
	{"ERR-7", "a client that a full replica refuses gets to choose another one, though it keeps its connection", otherReplica},
	{"ERR-7", "three times as many streams as may come in a second wait for their turn, and none is refused", arrivals},
	{"ERR-7 RELAY-79", "a client that asks for far more names than there is memory for is refused them one by one, and its neighbours live", memoryCap},
	{"RELAY-79 RELAY-80", "virtual: memory is found by giving up what retired, and then by denying new names", func(t *testing.T) {
		virtual(t, "../../../relay", "TestMemory")
		virtual(t, "../../../downstream", "TestDenied")
		virtual(t, "../", "TestMemoryIsMeasured")
	}},
	{"ERR-7", "a set more than limits.views is refused, a glob by its name and `*` by the stream's end", viewLimit},
	{"RELAY-87 RELAY-88", "a client that claims to have come through relays costs no other client its updates", madeUpWay},
	{"ERR-7", "with no files left those who are connected go on, those who come are closed at once, and probes are answered", noFiles},
	{"RELAY-87", "virtual: who came by a way that is refused upstream leaves, and the others' lane is opened again", func(t *testing.T) {
		virtual(t, "../../../relay", "TestRefusedWay")
	}},
	{"ERR-7", "virtual: streams, by server, connection and identity", func(t *testing.T) {
		for _, name := range []string{"TestStreamLimit", "TestRefusedClientsAreLetGo", "TestStreamLimitServesWholeClients", "TestIdentities"} {
			virtual(t, "../../../downstream", name)
		}
		virtual(t, "../../../downstream/identity", "TestOf")
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

// balancer forwards the first connection to the first address, and so on in turn, as a load
// balancer of connections does.
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
	w := start(t, setup{edge: func(c weirtest.Config) { c.Set("limits.streams", 1) }})
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
	if n := strings.Count(w.weir.Output(), "a limit refuses requests of clients"); n != 1 {
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

// memoryCap: a client is refused the names that there is no room for, one by one; weir stays near
// its limit, and whoever has something is served as before (RELAY-79).
func memoryCap(t *testing.T) {
	const limit, names, batch = 64 << 20, 300_000, 20_000
	w := start(t, setup{edge: func(c weirtest.Config) { c.Set("limits.memory", limit) }})
	w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	other := w.client(relaytest.Delta)
	other.Subscribe(eds, "a")
	other.AwaitNames(eds, "the neighbour is served", "a")

	greedy := w.clientWith(relaytest.ClientConfig{Dialect: relaytest.Delta})
	list, asked := make([]string, batch), 0
	more := func() {
		for j := range list {
			list[j] = fmt.Sprintf("a-name-that-nobody-ever-had-%07d", asked)
			asked++
		}
		raw, err := proto.Marshal(&discovery.DeltaDiscoveryRequest{
			Node: relaytest.Node("greedy", "edge"), TypeUrl: eds, ResourceNamesSubscribe: list,
		})
		if err != nil {
			t.Fatal(err)
		}
		greedy.SendRaw(raw)
		last := list[batch-1] // it takes note of what it is told: who does not is sent away
		greedy.Await(2*weirtest.Patience, func(s *relaytest.State) bool {
			return s.Error(eds, last) != nil || s.Absent(eds, last)
		}, "each name is answered, in one way or the other")
	}
	for asked < names {
		more()
	}
	refused := func() float64 {
		n, _ := w.weir.Metric("weir_limit_rejections_total", `limit="memory"`)
		return n
	}
	if !weirtest.Until(2*weirtest.Patience, func() bool { return refused() >= names/3 }) {
		t.Errorf("%v of %d names are refused", refused(), names)
	}
	greedy.Await(2*weirtest.Patience, inError(eds, codes.ResourceExhausted, list[batch-1]), "the last name is refused by itself")
	used, _ := w.weir.Metric("weir_memory_used_bytes")
	t.Logf("%.0f names were refused with %.0f MB in use of %d, resident %d MB", refused(), used/1e6, limit/1_000_000, w.weir.RSS()/1_000_000)
	if used > 2*limit {
		t.Errorf("%.0f MB are in use, of %d", used/1e6, limit/1_000_000)
	}
	w.origin.Set(eds, "a", "2", relaytest.Endpoints("a", "10.0.0.2:80"))
	other.Await(0, func(s *relaytest.State) bool { return strings.Contains(s.Body(eds, "a"), "10.0.0.2") }, "and has the change")
	var late *relaytest.Client
	wanted := ""
	// it is turned away as long as the refusals are still on their way
	if !weirtest.Until(2*weirtest.Patience, func() bool {
		wanted = fmt.Sprintf("never-asked-for-%d", asked)
		late = w.client(relaytest.SotW)
		late.Subscribe(eds, "a", wanted)
		told := codes.OK
		for late.Err() == nil && told == codes.OK {
			time.Sleep(10 * time.Millisecond)
			late.Look(func(s *relaytest.State) { told = codes.Code(s.Error(eds, wanted).GetCode()) })
		}
		if told == codes.NotFound { // what was garbage is room by now
			more()
			return false
		}
		return late.Err() == nil
	}) {
		t.Fatalf("another client is turned away for ever, or never: %v", late.Err())
	}
	late.AwaitNames(eds, "a name that somebody has is given to whoever comes", "a")
	late.Await(0, inError(eds, codes.ResourceExhausted, wanted), "one that nobody has is refused by its name")
	words := fmt.Sprintf("limits.memory %d is reached", limit)
	late.Await(0, func(s *relaytest.State) bool {
		return strings.Contains(s.Error(eds, wanted).GetMessage(), words)
	}, "with words that name the limit")
	if n := strings.Count(w.weir.Output(), `"limit":"memory"`); n > 3 {
		t.Errorf("%d lines of log", n)
	}
	if _, err := weirtest.Fetch("http://" + w.weir.Admin + "/readyz"); err != nil {
		t.Errorf("/readyz: %v", err)
	}
	greedy.Cancel()
	other.CheckClean()
}

func viewLimit(t *testing.T) {
	w := start(t, setup{edge: func(c weirtest.Config) {
		c.Origin().Set("authorities", []any{"x"})
		c.Set("limits.views", 1)
	}, config: func(c weirtest.Config) { c.Origin().Set("authorities", []any{"x"}) }})
	const glob, other = "xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/g/*", "xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/h/*"
	member := strings.Replace(glob, "*", "a", 1)
	w.origin.Set(eds, member, "1", relaytest.Endpoints(member, "10.0.0.1:80"))
	c := w.client(relaytest.Delta)
	c.Subscribe(eds, glob)
	c.AwaitNames(eds, "the first set is served", member)
	c.Subscribe(eds, glob, other)
	c.Await(0, inError(eds, codes.ResourceExhausted, other), "the second is refused by its name")
	again := w.client(relaytest.Delta)
	again.Subscribe(eds, glob)
	again.AwaitNames(eds, "the first is there for everybody", member)
	star := w.client(relaytest.SotW)
	star.Subscribe(cds, "*")
	ends(t, star, "`*`, which no error can be told of,", codes.ResourceExhausted, "limits.views 1 is reached")
	c.WantIdle(0)
	again.CheckClean()
}

// madeUpWay: a client that claims to have come through relays which the next relay refuses is sent
// away alone, and again at once if it comes again; the others of its group have their updates
// (RELAY-87).
func madeUpWay(t *testing.T) {
	for _, via := range [][]string{{instanceOf(hops(t) - 1)}, {"a", "b", "c", "d"}} {
		w := start(t, setup{config: quickSettle})
		w.origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
		edge := weirtest.Start(t, weirtest.NewConfig(w.weir.Addr, relaytest.Delta).Set("instance", "edge").Set("timing.firm_settle", "500ms"))
		conn := weirtest.Connect(t, edge.Addr)
		innocent := newClient(t, conn, relaytest.ClientConfig{Dialect: relaytest.Delta})
		innocent.Open(relaytest.Node("client-1", "edge"))
		innocent.Subscribe(cds, "*")
		innocent.AwaitNames(cds, "all is well", "a")
		for i := range 5 {
			bad := newClient(t, conn, relaytest.ClientConfig{Dialect: relaytest.Delta, Metadata: metadata.MD{"weir-via": via}})
			bad.Open(relaytest.Node("client-2", "edge"))
			bad.Subscribe(cds, "*")
			if code := bad.AwaitEnd("it is sent away"); code != codes.FailedPrecondition || !strings.Contains(bad.Err().Error(), "weir-via") {
				t.Errorf("%q: it ended with %v", via, bad.Err())
			}
			name := fmt.Sprint("a", i)
			w.origin.Set(cds, name, "1", relaytest.Cluster(name, time.Second))
			innocent.Await(0, func(s *relaytest.State) bool { return s.Count(cds) == i+2 }, "who came by no such way has its updates")
		}
		// the main lane's stream, and perhaps the side's
		if n, _ := edge.Metric("weir_upstream_loops_total"); n < 1 || n > 2 {
			t.Errorf("%q: %v streams were refused for five tries", via, n)
		}
		innocent.CheckClean()
	}
}

// noFiles: when files run out, those who are connected go on, those who come are closed at once
// instead of being left to wait, the log says so once, and there is no spinning; with room again
// clients are served (ERR-7).
func noFiles(t *testing.T) {
	const files = 80
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no shell to set a limit with")
	}
	w := start(t, setup{})
	w.origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
	weir := weirtest.Launch{Under: []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, files)}}.Start(t,
		weirtest.NewConfig(w.weir.Addr, relaytest.Delta).Set("instance", "narrow").Set("timing.first_request", "10m"))
	early := newClient(t, weirtest.Connect(t, weir.Addr), relaytest.ClientConfig{Dialect: relaytest.Delta})
	early.Open(relaytest.Node("client-1", "edge"))
	early.Subscribe(cds, "*")
	early.AwaitNames(cds, "all is well", "a")

	var open []net.Conn
	turnedAway := func() bool {
		conn, err := net.Dial("tcp", weir.Addr)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
		if err := conn.SetReadDeadline(time.Now().Add(weirtest.Patience)); err != nil {
			t.Fatal(err)
		}
		_, err = conn.Read(make([]byte, 1)) // settings, or the end
		return err != nil
	}
	for range 2 * files {
		if turnedAway() {
			break
		}
	}
	if _, err := weirtest.Fetch("http://" + weir.Admin + "/healthz"); err != nil {
		t.Errorf("whoever looks whether weir lives is turned away as well: %v", err)
	}
	cpu := func() float64 {
		seconds, _ := weir.Metric("process_cpu_seconds_total")
		return seconds
	}
	begin, before := time.Now(), cpu()
	for range 5 {
		if since := time.Now(); !turnedAway() {
			t.Errorf("weir accepts %d connections with %d files", len(open), files)
		} else if took := time.Since(since); took > weirtest.Patience/2 {
			t.Errorf("who comes is left to wait for %v", took)
		}
	}
	w.origin.Set(cds, "b", "1", relaytest.Cluster("b", time.Second))
	early.AwaitNames(cds, "who is connected goes on", "a", "b")
	for time.Since(begin) < 3*time.Second {
		time.Sleep(100 * time.Millisecond)
	}
	if used, lasted := cpu()-before, time.Since(begin).Seconds(); used > lasted/3 {
		t.Errorf("weir used %.1f s of CPU in %.1f s", used, lasted)
	}
	weir.AwaitMetric(1, "the origin's connection is there", "weir_upstream_connected")
	if n := strings.Count(weir.Output(), "out of file descriptors"); n != 1 {
		t.Errorf("%d lines of log say so", n)
	}
	for _, conn := range open {
		_ = conn.Close()
	}
	late := newClient(t, weirtest.Connect(t, weir.Addr), relaytest.ClientConfig{Dialect: relaytest.SotW})
	if !weirtest.Until(weirtest.Patience, func() bool {
		if late.Err() != nil || len(late.Responses(cds)) == 0 {
			late.Open(relaytest.Node("client-2", "edge"))
			late.Subscribe(cds, "*")
			time.Sleep(500 * time.Millisecond)
		}
		return late.Err() == nil && len(late.Responses(cds)) > 0
	}) {
		t.Errorf("with room again nobody is served: %v", late.Err())
	}
	if n, _ := weir.Metric("weir_connections_turned_away_total"); n == 0 {
		t.Error("nothing is counted")
	}
	early.CheckClean()
}
