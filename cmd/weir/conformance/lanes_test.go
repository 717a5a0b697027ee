package conformance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var lanesCases = slices.Concat(upstreamCases, acceptCases, refusalCases, reconnectCases, replicaCases, quarantineCases)

var upstreamCases = []testCase{
	{"RELAY-20", "one upstream stream while no type is wanted both ways", inBoth(oneLane)},
	{"RELAY-20", "two upstream streams when a type is wanted both ways, whoever comes first", inBoth(twoLanes)},
	{"RELAY-21", "a wildcard is asked by naming nothing, whatever form the client chose", inBoth(legacyWildcard)},
	{"RELAY-21", "an origin may be asked for `*` literally", explicitWildcard},
	{"RELAY-22", "one wildcard subscription, which ends with the lane after linger; names go back then", inBoth(wildcardEnds)},
	{"RELAY-23", "many subscribers of a name: one subscribe, and one unsubscribe after linger", inBoth(countedNames)},
	{"RELAY-25", "a name has a life of its own beside the wildcard", inBoth(bothWays)},
	{"RELAY-26", "more groups than a connection carries streams: all lanes open", manyGroups},
	{"RELAY-27", "SotW requests carry all names in order, the last nonce and the last accepted version", captured},
	{"RELAY-28", "what nobody asked for is not cached", inBoth(unrequested)},
}

// inBoth runs a case once for each dialect of the origin.
func inBoth(run func(t *testing.T, dialect relaytest.Dialect)) func(*testing.T) {
	return func(t *testing.T) {
		for _, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			t.Run(string(dialect)+" origin", func(t *testing.T) { run(t, dialect) })
		}
	}
}

// each is a client of either dialect.
func (w *world) each() []*relaytest.Client {
	w.t.Helper()
	return []*relaytest.Client{w.client(relaytest.Delta), w.client(relaytest.SotW)}
}

// lane waits for the one open stream of the origin that was asked for exactly these names of the
// type, "*" for the wildcard.
func (w *world) lane(typeURL, sentence string, names ...string) *relaytest.Stream {
	w.t.Helper()
	var found []*relaytest.Stream
	w.origin.Await(0, func() bool {
		found = nil
		for _, s := range w.origin.Open() {
			asked := s.Asked(typeURL)
			for name, n := range asked.Unsubscribed {
				if asked.Subscribed[name] <= n {
					delete(asked.Subscribed, name)
				}
			}
			if len(asked.Subscribed) == len(names) && !slices.ContainsFunc(names, func(n string) bool { return asked.Subscribed[n] == 0 }) {
				found = append(found, s)
			}
		}
		return len(found) == 1
	}, sentence)
	return found[0]
}

func (w *world) wantOpen(n int, sentence string) {
	w.t.Helper()
	w.origin.Await(0, func() bool { return len(w.origin.Open()) == n }, sentence)
}

func oneLane(t *testing.T, dialect relaytest.Dialect) {
	w := start(t, setup{sotw: dialect == relaytest.SotW})
	w.origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
	w.origin.Set(lds, "l", "1", relaytest.Listener("l", 80))
	w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	w.origin.Set(rds, "r", "1", relaytest.Route("r", "a"))
	for _, c := range w.each() {
		c.Subscribe(eds, "a")
		c.Subscribe(rds, "r")
		c.AwaitNames(eds, "the endpoints arrive", "a")
		c.AwaitNames(rds, "so do the routes", "r")
		c.Subscribe(cds, "*")
		c.Subscribe(lds, "*")
		c.AwaitNames(cds, "the clusters arrive", "a")
		c.AwaitNames(lds, "so do the listeners", "l")
		c.CheckClean()
	}
	w.origin.Skip()
	w.origin.WantIdle(quiet)
	if n := len(w.origin.Streams()); n != 1 {
		t.Errorf("the origin sees %d streams, want one for all types of both clients", n)
	}
}

func twoLanes(t *testing.T, dialect relaytest.Dialect) {
	for _, first := range []string{"the wildcard", "the name"} {
		w := start(t, setup{sotw: dialect == relaytest.SotW, behaviour: relaytest.Behaviour{NoAbsence: true}})
		w.origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
		w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
		all, named := w.client(relaytest.Delta), w.client(relaytest.SotW)
		wild := func() {
			all.Subscribe(eds, "a")
			all.Subscribe(cds, "*")
			all.AwaitNames(cds, "the wildcard is answered", "a")
			all.AwaitNames(eds, "and the endpoints", "a")
		}
		name := func() {
			named.Subscribe(cds, "hidden")
			w.lane(cds, "the name goes upstream", "hidden")
		}
		if first == "the name" {
			name()
			wild()
		} else {
			wild()
			name()
		}
		main, side := w.lane(cds, "one lane carries the wildcard alone", "*"), w.lane(cds, "another the name", "hidden")
		w.wantOpen(2, "there are no others")
		// A lane that was opened anew for the wildcard asks type after type.
		w.origin.Await(0, func() bool { return main.Asked(eds).Subscribed["a"] > 0 }, "with the wildcard, the endpoints")
		side.Respond(cds, "7", relaytest.Resource{Name: "hidden", Version: "1", Body: relaytest.Cluster("hidden", time.Second)})
		named.AwaitNames(cds, "who names it gets it", "hidden")
		all.Skip()
		all.WantIdle(quiet)
		if n := main.Asked(eds).Subscribed["a"]; n != 1 {
			t.Errorf("%s first: the lane of the wildcard asks the endpoints %d times, want once", first, n)
		}
		if n := side.Asked(eds).Requests; n != 0 {
			t.Errorf("%s first: the side lane carries %d requests for endpoints, want none", first, n)
		}
		fresh := w.client(relaytest.SotW)
		fresh.Subscribe(cds, "*")
		fresh.AwaitNames(cds, "a named cluster is in no wildcard's set", "a")
		for _, c := range []*relaytest.Client{all, named, fresh} {
			c.CheckClean()
		}
	}
}

func legacyWildcard(t *testing.T, dialect relaytest.Dialect) {
	w := start(t, setup{sotw: dialect == relaytest.SotW})
	w.origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
	w.origin.Set(lds, "l", "1", relaytest.Listener("l", 80))
	for _, c := range w.each() {
		c.Subscribe(cds, "*")
		c.Subscribe(lds)
		c.Subscribe(cds, "a")
		c.AwaitNames(cds, "the clusters arrive", "a")
		c.AwaitNames(lds, "so do the listeners", "l")
		c.CheckClean()
	}
	w.lane(cds, "the name is asked elsewhere", "a")
	main := w.lane(cds, "the wildcard has a lane", "*")
	for _, r := range main.Requests() {
		if len(r.Names()) > 0 {
			t.Errorf("the lane of the wildcards sent %v, want requests without names", r)
		}
	}
}

func explicitWildcard(t *testing.T) {
	w := start(t, setup{config: func(c weirtest.Config) { c.Origin().Set("grpc.wildcard", "explicit") }})
	w.origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
	c := w.client(relaytest.SotW)
	c.Subscribe(cds)
	if got := w.origin.ExpectType(cds, "the wildcard is asked").Names(); !slices.Equal(got, []string{"*"}) {
		t.Errorf("the wildcard is asked as %v, want `*`", got)
	}
	c.AwaitNames(cds, "the clusters arrive", "a")
	c.CheckClean()
}

func wildcardEnds(t *testing.T, dialect relaytest.Dialect) {
	w := start(t, setup{sotw: dialect == relaytest.SotW, config: func(c weirtest.Config) { c.Set("cache.linger", "1s") }})
	w.origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
	w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	stays := w.client(relaytest.Delta)
	stays.Subscribe(eds, "a")
	stays.Subscribe(cds, "a")
	stays.AwaitNames(cds, "who names the cluster gets it", "a")
	stays.AwaitNames(eds, "and the endpoints", "a")
	wild := w.each()
	for _, c := range wild {
		c.Subscribe(cds, "*")
		c.AwaitNames(cds, "the wildcard is answered", "a")
		c.CheckClean()
	}
	main, side := w.lane(cds, "one lane carries the wildcard", "*"), w.lane(cds, "another the name", "a")
	asked := w.origin.Asked(cds).Subscribed["*"]
	wild[0].Cancel()
	wild[1].Cancel()
	again := w.client(relaytest.SotW)
	again.Subscribe(cds, "*")
	again.AwaitNames(cds, "within linger the set is there", "a")
	w.origin.Skip()
	w.origin.WantIdle(quiet)
	again.Unsubscribe(cds, "*")
	w.origin.WantIdle(quiet)
	main.ExpectEnd("after linger the lane is closed")
	side.ExpectEnd("and the side lane is not needed any more")
	now := w.lane(cds, "the names are back on the lane that was opened again", "a")
	w.wantOpen(1, "which is the only one")
	w.origin.Await(0, func() bool { return now.Asked(eds).Subscribed["a"] == 1 }, "the lane opened again asks the endpoints once")
	if got := w.origin.Asked(cds); got.Subscribed["*"] != asked || main.Asked(cds).Unsubscribed["*"] != 0 {
		t.Errorf("the wildcard was asked %d times, then %d, and unsubscribed %d times; want once, and never",
			asked, got.Subscribed["*"], main.Asked(cds).Unsubscribed["*"])
	}
	w.origin.Set(cds, "a", "2", relaytest.Cluster("a", 2*time.Second))
	stays.Await(0, func(s *relaytest.State) bool {
		return s.Body(cds, "a") == string(relaytest.Cluster("a", 2*time.Second).Value)
	}, "the named cluster is kept up")
	stays.CheckClean()
	again.CheckClean()
}

func countedNames(t *testing.T, dialect relaytest.Dialect) {
	w := start(t, setup{sotw: dialect == relaytest.SotW, config: func(c weirtest.Config) { c.Set("cache.linger", "600ms") }})
	w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	w.origin.Set(eds, "b", "1", relaytest.Endpoints("b", "10.0.0.2:80"))
	stays := w.client(relaytest.Delta)
	stays.Subscribe(eds, "b")
	var clients []*relaytest.Client
	for range 40 {
		for _, c := range w.each() {
			c.Subscribe(eds, "a")
			clients = append(clients, c)
		}
	}
	for _, c := range clients {
		c.AwaitNames(eds, "every client gets the endpoints", "a")
		c.CheckClean()
	}
	last := clients[0]
	for _, c := range clients[1:] {
		c.Cancel()
	}
	last.Unsubscribe(eds, "a")
	last.Subscribe(eds, "a")
	last.AwaitNames(eds, "a change of mind is answered from the cache", "a")
	w.origin.Skip()
	w.origin.WantIdle(quiet + 600*time.Millisecond)
	last.Unsubscribe(eds, "a")
	w.origin.Await(0, func() bool { return w.origin.Asked(eds).Unsubscribed["a"] == 1 }, "the name is given up after the last")
	if got := w.origin.Asked(eds); got.Subscribed["a"] != 1 || got.Subscribed["b"] != 1 || len(got.Unsubscribed) != 1 {
		t.Errorf("asked %v and given up %v, want each name asked once and a given up", got.Subscribed, got.Unsubscribed)
	}
	stays.AwaitNames(eds, "the other name stays", "b")
	stays.CheckClean()
}

func bothWays(t *testing.T, dialect relaytest.Dialect) {
	w := start(t, setup{scripted: true, sotw: dialect == relaytest.SotW})
	wild, named, mixed := w.each(), w.each(), w.each()
	for i := range 2 {
		wild[i].Subscribe(cds, "*")
		named[i].Subscribe(cds, "a")
		mixed[i].Subscribe(cds, "*", "a")
	}
	main, side := w.lane(cds, "the wildcard is asked", "*"), w.lane(cds, "the name is asked beside it", "a")
	at := func(seconds int) relaytest.Resource {
		return relaytest.Resource{
			Name: "a", Version: fmt.Sprint(seconds), Body: relaytest.Cluster("a", time.Duration(seconds)*time.Second),
		}
	}
	b := relaytest.Resource{Name: "b", Version: "1", Body: relaytest.Cluster("b", time.Second)}
	// have waits until the clients hold cluster a with the timeout given, or not at all for 0.
	have := func(cs []*relaytest.Client, seconds int, sentence string) {
		t.Helper()
		body := ""
		if seconds > 0 {
			body = string(at(seconds).Body.Value)
		}
		for _, c := range cs {
			c.Await(0, func(s *relaytest.State) bool { return s.Body(cds, "a") == body && len(s.Responses(cds)) > 0 }, sentence)
		}
	}
	side.Respond(cds, "1", at(1))
	have(named, 1, "who names it gets the named one")
	main.Respond(cds, "1", at(2), b)
	have(wild, 2, "the wildcard gets the member")
	have(mixed, 2, "who wants both gets the body received last")
	have(named, 1, "who names it keeps the named one")
	side.Respond(cds, "2", at(3))
	have(named, 3, "who names it gets the named one")
	have(mixed, 3, "who wants both gets the body received last")
	have(wild, 2, "the wildcard keeps the member")
	if dialect == relaytest.SotW {
		main.Respond(cds, "2", b)
	} else {
		main.RespondRemoved(cds, "2", "a")
	}
	have(wild, 0, "the member leaves the wildcard")
	for _, c := range slices.Concat(named, mixed) {
		c.WantIdle(quiet)
	}
	have(slices.Concat(named, mixed), 3, "while the named entry stands nobody else loses it")
	if dialect == relaytest.SotW {
		side.Respond(cds, "3")
	} else {
		side.RespondRemoved(cds, "3", "a")
	}
	have(slices.Concat(named, mixed), 0, "it goes when neither holds it")
	for _, c := range slices.Concat(wild, named, mixed) {
		c.CheckClean()
	}
}
