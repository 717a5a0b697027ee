package e2e

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// The crowd of TestTwoHundredClients.
const (
	crowdSize      = 200
	crowdConns     = 8
	crowdNames     = 20 // of endpoints and of routes
	crowdLinger    = 2 * time.Second
	crowdLastNames = 2 // the names "last-N", wanted by the first clients only
)

// crowdName is the n-th of the names that overlap.
func crowdName(n int) string { return fmt.Sprintf("name-%02d", n%crowdNames) }

// lastName is a name that few want.
func lastName(n int) string { return fmt.Sprintf("last-%d", n) }

// crowdWorld has everything the crowd asks for.
func crowdWorld() world {
	w := world{}
	for n := range crowdNames {
		w.put(clusterWith(crowdName(n), "v1"), relaytest.Endpoints(crowdName(n), "10.0.0.1:80"), relaytest.Route(crowdName(n), "x"))
	}
	for n := range crowdLastNames {
		w.put(relaytest.Endpoints(lastName(n), "10.0.0.2:80"))
	}
	return w.put(relaytest.Listener("front", 8080), relaytest.Listener("back", 8081))
}

// crowd is two hundred recording clients of one group, half of each dialect.
type crowd struct {
	clients []*relaytest.Client
	names   []map[string][]string // by client: the endpoints and routes it asks for
}

// gather opens every client and has it ask for wildcard clusters and listeners and for some
// endpoints and routes by name. The first three also want what few want.
func gather(t *testing.T, weir *process) *crowd {
	t.Helper()
	var conns []*grpc.ClientConn
	for range crowdConns {
		conns = append(conns, weirtest.Connect(t, weir.Addr))
	}
	c := &crowd{}
	for i := range crowdSize {
		dialect := relaytest.Delta
		if i%2 == 1 {
			dialect = relaytest.SotW
		}
		client := relaytest.NewClient(t, conns[i%crowdConns], relaytest.ClientConfig{Dialect: dialect, Patience: 2 * patience})
		names := map[string][]string{
			relaytest.EndpointType: {crowdName(i), crowdName(i + 1), crowdName(i * 7)},
			relaytest.RouteType:    {crowdName(i), crowdName(i * 3)},
		}
		if i < 3 {
			for n := range crowdLastNames {
				names[relaytest.EndpointType] = append(names[relaytest.EndpointType], lastName(n))
			}
		}
		for typeURL := range names {
			slices.Sort(names[typeURL])
			names[typeURL] = slices.Compact(names[typeURL])
		}
		client.Open(relaytest.Node(fmt.Sprintf("client-%d", i), "e2e"))
		client.Subscribe(relaytest.ClusterType)
		client.Subscribe(relaytest.ListenerType)
		client.Subscribe(relaytest.EndpointType, names[relaytest.EndpointType]...)
		client.Subscribe(relaytest.RouteType, names[relaytest.RouteType]...)
		c.clients, c.names = append(c.clients, client), append(c.names, names)
	}
	return c
}

// await waits until every client holds what it asked for of w.
func (c *crowd) await(t *testing.T, w world) {
	t.Helper()
	for i, client := range c.clients {
		awaitSet(client, relaytest.ClusterType, w, "all clusters arrive")
		awaitSet(client, relaytest.ListenerType, w, "all listeners arrive")
		for typeURL, names := range c.names[i] {
			mine := world{typeURL: {}}
			for _, name := range names {
				mine[typeURL][name] = w[typeURL][name]
			}
			awaitSet(client, typeURL, mine, "all that was named arrives")
		}
		client.CheckClean()
	}
}

// wanted is how often the origin may be asked for each name: once.
func (c *crowd) wanted() map[string]map[string]int {
	once := map[string]map[string]int{relaytest.ClusterType: {"*": 1}, relaytest.ListenerType: {"*": 1}}
	for _, byType := range c.names {
		for typeURL, names := range byType {
			for _, name := range names {
				if once[typeURL] == nil {
					once[typeURL] = map[string]int{}
				}
				once[typeURL][name] = 1
			}
		}
	}
	return once
}

// TestTwoHundredClients: an origin cannot tell two hundred clients of a group from one: one stream,
// each name asked for once, and given back only after its last client has gone and the linger has
// passed; to a SotW origin without the linger (RELAY-99).
func TestTwoHundredClients(t *testing.T) {
	t.Run("go-control-plane", func(t *testing.T) { matrix(t, crowdAtPlane) })
	for _, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
		t.Run("linger/"+string(dialect), func(t *testing.T) { crowdLeaves(t, dialect) })
	}
}

func crowdAtPlane(t *testing.T, cl cell) {
	w := crowdWorld()
	plane, weir := cl.relay(t, w)
	begin := time.Now()
	c := gather(t, weir)
	c.await(t, w)
	took := time.Since(begin)
	asked := plane.Asked()
	t.Logf("%d clients were served after %v; the origin saw %d streams and %d requests",
		crowdSize, took.Round(time.Millisecond), asked.opened, asked.requests)
	probed := mayProbe(t, cl.dialect, took)
	if !probed && (asked.opened != 1 || asked.closed != 0) {
		t.Errorf("the origin saw %d streams open and %d end, want 1 and 0", asked.opened, asked.closed)
	}
	for typeURL, names := range c.wanted() {
		if !askedOnce(asked.asked[typeURL], names, probed) {
			t.Errorf("the origin was asked for %s: %v, want each of %v once", typeURL, asked.asked[typeURL], names)
		}
		if len(asked.dropped[typeURL]) > 0 && !probed {
			t.Errorf("the origin was given back %v", asked.dropped[typeURL])
		}
	}

	w = w.clone().put(clusterWith(crowdName(3), "v2"), relaytest.Endpoints(crowdName(4), "10.0.0.9:80"))
	plane.Publish(w)
	c.await(t, w)
}

// mayProbe reports whether a SotW origin may have left something unanswered for so long that weir
// has asked it apart, on other streams (RELAY-99): that is right of weir if the origin, which is in
// the process of all the clients, got no time to answer. A crowd that was served in less time shows
// that it had not.
func mayProbe(t *testing.T, dialect relaytest.Dialect, took time.Duration) bool {
	t.Helper()
	probed := dialect == relaytest.SotW && took >= time.Second
	if probed {
		t.Logf("%d clients took %v: a SotW origin that is so slow may be asked apart", crowdSize, took)
	}
	return probed
}

// askedOnce reports whether each of the names was asked, and no other; once unless it may have been
// asked apart as well.
func askedOnce(got, names map[string]int, probed bool) bool {
	if probed {
		return slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(names)))
	}
	return maps.Equal(got, names)
}

// crowdLeaves watches what the last clients to leave cause upstream.
func crowdLeaves(t *testing.T, dialect relaytest.Dialect) {
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience})
	w := crowdWorld()
	origin.Batch(func() {
		for typeURL, set := range w {
			for name, body := range set {
				origin.Set(typeURL, name, "1", body)
			}
		}
	})
	weir := startWeir(t, config(origin.Net().Addr(), dialect).Set("cache.linger", crowdLinger.String()))
	begin := time.Now()
	c := gather(t, weir)
	c.await(t, w)
	probed := mayProbe(t, dialect, time.Since(begin))
	if n := len(origin.Streams()); n != 1 && !probed {
		t.Errorf("the origin saw %d streams, want 1", n)
	}
	origin.Await(0, func() bool { return len(origin.Open()) == 1 }, "what was asked apart is answered")
	for typeURL, names := range c.wanted() {
		if got := origin.Asked(typeURL).Subscribed; !askedOnce(got, names, probed) {
			t.Errorf("the origin was asked for %s: %v, want each of %v once", typeURL, got, names)
		}
	}

	// Two of the three who want the last names go: nothing happens upstream.
	c.clients[0].Unsubscribe(relaytest.EndpointType, lastName(0), lastName(1))
	c.clients[1].Cancel()
	origin.Skip()
	origin.WantIdle(crowdLinger + time.Second)

	// The third gives one back. So does weir: after the linger, and not before; in SotW at once
	// (RELAY-99).
	before := origin.Asked(relaytest.EndpointType).Unsubscribed // by the asking apart
	if len(before) > 0 && !probed {
		t.Errorf("given back: %v, while all are wanted", before)
	}
	left := time.Now()
	c.clients[2].Unsubscribe(relaytest.EndpointType, lastName(0))
	given := func() map[string]int {
		now := origin.Asked(relaytest.EndpointType).Unsubscribed
		for name, n := range before {
			if now[name] -= n; now[name] == 0 {
				delete(now, name)
			}
		}
		return now
	}
	origin.Await(0, func() bool { return given()[lastName(0)] == 1 },
		"the name nobody wants any more is given back")
	gone := lastRequest(origin, relaytest.EndpointType)
	sotw := dialect == relaytest.SotW
	if after := gone.Sub(left); !sotw && after < crowdLinger*9/10 {
		t.Errorf("the name was given back after %v, before the linger of %v had passed", after, crowdLinger)
	} else {
		t.Logf("with linger %v the name was given back after %v", crowdLinger, after.Round(time.Millisecond))
	}
	if got := given(); !maps.Equal(got, map[string]int{lastName(0): 1}) {
		t.Errorf("given back: %v, want %s alone", got, lastName(0))
	}

	// A client that comes back within the linger finds everything warm, and a delta origin hears
	// nothing of it.
	c.clients[2].Unsubscribe(relaytest.EndpointType, lastName(1))
	c.clients[2].Subscribe(relaytest.EndpointType, lastName(1))
	c.clients[2].Await(0, func(s *relaytest.State) bool { return s.Body(relaytest.EndpointType, lastName(1)) != "" },
		"the name is there again at once")
	if !sotw {
		origin.WantIdle(crowdLinger + time.Second)
	}

	for _, client := range c.clients {
		client.Cancel()
	}
	origin.Await(0, func() bool {
		for _, s := range origin.Open() {
			for _, typeURL := range worldTypes {
				asked := s.Asked(typeURL)
				for name, n := range asked.Subscribed {
					if asked.Unsubscribed[name] < n {
						return false
					}
				}
			}
		}
		return true
	}, "after the last client and the linger nothing is asked of the origin any more")
}

// lastRequest is when the origin received its last request of the type.
func lastRequest(origin *relaytest.Origin, typeURL string) time.Time {
	var at time.Time
	for _, r := range origin.Requests() {
		if r.TypeURL() == typeURL {
			at = r.At
		}
	}
	return at
}
