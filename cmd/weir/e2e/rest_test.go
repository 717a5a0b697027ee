package e2e

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/envoyproxy/go-control-plane/pkg/server/v3"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// gateway is go-control-plane's REST gateway over its snapshot cache. Every start is a new process
// as far as who polls can tell: version counters are at 1 again.
type gateway struct {
	*plane
	http   *http.Server
	inside server.HTTPGateway
	ended  chan struct{}

	counting  sync.Mutex
	unchanged int // polls answered with 304
}

func newGateway(t *testing.T, w world) *gateway {
	t.Helper()
	g := &gateway{plane: &plane{
		tb: t, kind: snapshot, net: relaytest.TCP(), tally: newTally(), wanted: map[listKey]map[string]bool{},
	}}
	g.begin(w)
	t.Cleanup(g.end)
	return g
}

func (g *gateway) begin(w world) {
	g.tb.Helper()
	c, set := g.snapshots()
	g.set = set
	g.Publish(w)
	g.inside = server.HTTPGateway{Server: server.NewServer(context.Background(), c, nil)}
	l, err := g.net.Listen()
	if err != nil {
		g.tb.Fatal(err)
	}
	g.http = &http.Server{Handler: g, ReadHeaderTimeout: time.Minute}
	g.ended = make(chan struct{})
	go func(s *http.Server, ended chan<- struct{}) {
		defer close(ended)
		_ = s.Serve(l) // until it is closed
	}(g.http, g.ended)
}

// end is the end of a process: its connections are cut.
func (g *gateway) end() {
	_ = g.http.Close() // nothing is to be said to anybody
	<-g.ended
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, code, err := g.inside.ServeHTTP(r)
	if code == http.StatusNotModified {
		g.counting.Lock()
		g.unchanged++
		g.counting.Unlock()
	}
	if err != nil {
		body = []byte(err.Error())
	}
	w.WriteHeader(code)
	_, _ = w.Write(body) // or who polls is gone
}

func (g *gateway) count() int {
	g.counting.Lock()
	defer g.counting.Unlock()
	return g.unchanged
}

// polling is a configuration whose one origin is polled at an address.
func polling(address string) weirtest.Config {
	c := config(address, relaytest.SotW)
	delete(c.Origin(), "grpc")
	c.Origin().Set("rest", map[string]any{"urls": []any{"http://" + address}, "poll": "100ms"})
	return c
}

// TestRESTGateway: go-control-plane's REST gateway is polled, by a weir that is polled by another,
// whose clients of both dialects hold what the gateway has: from the start, after changes and
// removals, while it is dead, and when it comes back with something else under versions that it has
// used before.
func TestRESTGateway(t *testing.T) {
	w := world{}.put(
		relaytest.EDSCluster("a", "a"), relaytest.EDSCluster("b", "b"),
		relaytest.Endpoints("a", "127.0.0.1:1"), relaytest.Endpoints("b", "127.0.0.1:2"),
		relaytest.Listener("l", 1000),
	)
	g := newGateway(t, w)
	near := polling(g.net.Addr())
	near["listeners"] = []any{map[string]any{}, map[string]any{"rest": true}}
	first := startWeir(t, near)
	second := startWeir(t, polling(first.Addrs[1]))

	clients := map[string]*relaytest.Client{}
	for name, p := range map[string]*process{"near": first, "far": second} {
		for dialect, c := range p.pair(t) {
			c.Request(relaytest.ClusterType, "*")
			c.Request(relaytest.EndpointType, "a", "b")
			c.Request(relaytest.ListenerType, "*")
			clients[name+" "+string(dialect)] = c
		}
	}
	await := func(w world, sentence string, typeURLs ...string) {
		t.Helper()
		for name, c := range clients {
			for _, typeURL := range typeURLs {
				awaitSet(c, typeURL, w, name+": "+sentence)
			}
		}
	}
	await(w, "what the gateway has", relaytest.ClusterType, relaytest.EndpointType, relaytest.ListenerType)

	tick, late := time.NewTicker(20*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for before := g.count(); g.count() < before+6; {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%d polls were answered with 304", g.count())
		}
	}

	w = w.clone().put(relaytest.EDSCluster("c", "c"), relaytest.Endpoints("a", "127.0.0.1:3"))
	delete(w[relaytest.ListenerType], "l")
	w.put(relaytest.Listener("m", 1001))
	g.Publish(w)
	await(w, "changes and removals", relaytest.ClusterType, relaytest.EndpointType, relaytest.ListenerType)

	g.end()
	newcomer := second.open(t, "late", relaytest.ClientConfig{})
	newcomer.Request(relaytest.ClusterType, "*")
	awaitSet(newcomer, relaytest.ClusterType, w, "what was known is served while the gateway is dead")

	w = w.clone().put(relaytest.EDSCluster("d", "d"), relaytest.Endpoints("b", "127.0.0.1:4"))
	g.begin(w)
	await(w, "something else, as versions that were used before", relaytest.ClusterType, relaytest.EndpointType, relaytest.ListenerType)
	for name, c := range clients {
		c.CheckClean()
		if s := c.Err(); s != nil {
			t.Errorf("%s: %v", name, s)
		}
	}
}

// TestRESTLoop: two weirs poll each other, and nobody else. That is found out, counted and logged,
// and their polls do not multiply. One that is told where the configuration is has it (RELAY-87,
// RELAY-88).
func TestRESTLoop(t *testing.T) {
	w := world{}.put(relaytest.EDSCluster("a", "a"), relaytest.EDSCluster("b", "b"))
	g := newGateway(t, w)
	configured := func(name, address string) weirtest.Config {
		c := polling(address)
		c["instance"] = name
		c["listeners"] = []any{map[string]any{}, map[string]any{"rest": true}}
		return c
	}
	config := configured("left", freePort(t)) // where nobody is yet
	left := startWeir(t, config)
	right := startWeir(t, configured("right", left.Addrs[1]))
	turn := func(address string) {
		config.Origin().Set("rest.urls", []any{"http://" + address})
		left.Reload(config)
	}
	turn(right.Addrs[1])
	clients := map[string]*relaytest.Client{}
	for name, p := range map[string]*process{"left": left, "right": right} {
		clients[name] = p.open(t, name, relaytest.ClientConfig{})
		clients[name].Request(relaytest.ClusterType, "*")
	}
	sum := func(metric string) (n float64) {
		for _, p := range []*process{left, right} {
			x, _ := p.Metric(metric)
			n += x
		}
		return n
	}
	if !weirtest.Until(patience, func() bool { return sum("weir_upstream_loops_total") > 0 }) {
		t.Fatal("no loop was counted")
	}
	if !weirtest.Until(patience, func() bool {
		return strings.Contains(left.Output()+right.Output(), "the origin is a relay and refuses the poll")
	}) {
		t.Error("the log does not tell of the loop")
	}
	begin, polls := time.Now(), sum("weir_polls_total")
	time.Sleep(2 * time.Second) // of real processes, whose rate is looked at
	if rate := (sum("weir_polls_total") - polls) / time.Since(begin).Seconds(); rate > 50 {
		t.Errorf("%v polls a second", rate)
	}
	turn(g.net.Addr())
	awaitSet(clients["left"], relaytest.ClusterType, w, "what the gateway has")
}
