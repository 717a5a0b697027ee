package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// defects are what other servers, caches and relays of this protocol were seen to get wrong, each
// with the case that shows that weir does not. A case may stand elsewhere; TestDefectsHaveCases
// finds all of them.
var defects = map[string]string{
	"a SotW client that refuses its first response is sent it again and again":    answeredOnce,
	"a name that is subscribed again in delta is not sent again":                  "every subscribe is answered, also that of what the client has and of what does not exist",
	"a wildcard client that comes back after a deletion keeps what was deleted":   "what was deleted while the client was away is removed when it returns",
	"a first delta request with locators alone is taken for a wildcard":           "a request with locators alone is not for everything",
	"the stream of a stable, quiet origin is ended, or that of its clients":       quietAndStable,
	"endpoints asked by one client decide what another is given":                  eachItsOwn,
	"endpoints that are unchanged are not sent after their cluster changed":       "the unchanged endpoints of a changed cluster follow it",
	"an emptied list is taken for a wildcard, though names stood in the first":    "state of the world: a name and then nothing is nothing",
	"a later, thinner node moves the client":                                      "the second type of a stream needs no node, and a thinner one later changes nothing",
	"a client's refusal reaches the origin, and there counts as an ACK not given": notPassedOn,
}

const (
	answeredOnce   = "a client that refuses its first response is sent it once"
	quietAndStable = "while the origin is stable and quiet no stream ends, on either side"
	eachItsOwn     = "one client asks for one name, another for that and more, and each gets what it asked for"
	notPassedOn    = "a client's refusal is nothing to the origin, which had weir's own ACK before"
)

var defectCases = []testCase{
	{"RELAY-34 NONCE-11", answeredOnce, perDialect(refusesFirst)},
	{"STREAM-9 RELAY-8 EC-2", quietAndStable, inBoth(quietOrigin)},
	{"STREAM-9", "virtual: nor in a day", func(t *testing.T) {
		virtual(t, "../../../upstream", "TestQuietDay")
		virtual(t, "../../../downstream", "TestQuietDay")
	}},
	{"SOTW-8 RELAY-5", eachItsOwn, perDialect(partlyEqual)},
	{"RELAY-31 RELAY-34", notPassedOn, inBoth(ackIsOurs)},
}

// TestDefectsHaveCases keeps the table true.
func TestDefectsHaveCases(t *testing.T) {
	shown := map[string]string{}
	for defect, name := range defects {
		if other, twice := shown[name]; twice {
			t.Errorf("%q is to show both %q and %q", name, defect, other)
		}
		shown[name] = defect
	}
	for _, cases := range suite {
		for _, c := range cases {
			name, _, _ := strings.Cut(c.name, " (") // of eachDialect
			delete(shown, name)
			delete(shown, c.name)
		}
	}
	for name, defect := range shown {
		t.Errorf("no case is called %q, which is to show the defect %q", name, defect)
	}
}

// refusesFirst: of the whole set and of a name, at once and a second time after another client
// came.
func refusesFirst(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{config: hastily})
	w.origin.Put(cds, cdsAt("a", 1))
	w.origin.Put(eds, edsAt("a", 1))
	c := w.clientWith(relaytest.ClientConfig{Dialect: d, Reject: func(*relaytest.Response) string { return "no" }})
	c.Subscribe(cds, "*")
	c.Subscribe(eds, "a")
	c.Expect(cds, "the clusters are sent")
	c.Expect(eds, "so are the endpoints")
	w.weir.AwaitMetric(2, "both are refused", "weir_downstream_nacks_total")
	c.WantIdle(quiet)
	other := w.client(d)
	other.Subscribe(cds, "*")
	other.Subscribe(eds, "a")
	other.AwaitNames(eds, "another client is served", "a")
	c.WantIdle(quiet)
	w.origin.Put(eds, edsAt("a", 2))
	c.Expect(eds, "other content is worth another try")
	c.WantIdle(quiet)
	c.CheckClean()
	other.CheckClean()
}

// quietOrigin passes every time after which weir would do something about a peer that is not in
// order.
func quietOrigin(t *testing.T, origin relaytest.Dialect) {
	w := start(t, setup{sotw: origin == relaytest.SotW, config: func(c weirtest.Config) {
		c.Set("timing.order_hold", "100ms").Set("cache.linger", "100ms")
		// A client may take so long to ask, and weir to answer.
		c.Set("timing.first_request", "2s").Set("timing.cold_wait", "2s").Set("timing.send_stall", "2s")
	}})
	w.origin.Put(cds, cdsAt("a", 1))
	w.origin.Put(eds, edsAt("a", 1))
	var clients []*relaytest.Client
	for i := range 4 {
		dialect := []relaytest.Dialect{relaytest.Delta, relaytest.SotW}[i%2]
		// the last two never answer
		c := w.clientWith(relaytest.ClientConfig{Dialect: dialect, ManualACK: i >= 2})
		clients = append(clients, c)
		c.Subscribe(cds, "*")
		c.Subscribe(eds, "a")
		c.AwaitNames(cds, "the clusters arrive", "a")
		c.AwaitNames(eds, "so do the endpoints", "a")
	}
	w.origin.Await(0, func() bool { return w.origin.Asked(cds).ACKs > 0 && w.origin.Asked(eds).ACKs > 0 }, "weir accepts both")
	clients[0].WantIdle(2*time.Second + quiet)
	for _, c := range clients[1:] {
		if c.WantIdle(0); c.Err() != nil {
			t.Errorf("a client's stream ended: %v", c.Err())
		}
	}
	w.origin.WantIdle(0)
	if n, open := len(w.origin.Streams()), len(w.origin.Open()); n != 1 || open != 1 {
		t.Errorf("the origin saw %d streams, %d of which are open; want the first one, open", n, open)
	}
	w.origin.Put(eds, edsAt("a", 2))
	for _, c := range clients {
		c.Expect(eds, "and then the change arrives")
		c.CheckClean()
	}
}

func partlyEqual(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{})
	for _, name := range []string{"c1", "c2", "c3"} {
		w.origin.Put(eds, edsAt(name, 1))
	}
	one, both := w.client(d), w.client(d)
	one.Subscribe(eds, "c1")
	one.AwaitNames(eds, "the first client has its name", "c1")
	both.Subscribe(eds, "c1", "c2")
	both.AwaitNames(eds, "the second both of its", "c1", "c2")
	one.WantIdle(quiet)
	w.origin.Put(eds, edsAt("c2", 2))
	expectNames(t, both, eds, "a change is for who asked for it", "c2")
	one.WantIdle(quiet)
	w.origin.Put(eds, edsAt("c1", 2))
	expectNames(t, one, eds, "what both asked for is for both", "c1")
	expectNames(t, both, eds, "what both asked for is for both", "c1")
	one.CheckClean()
	both.CheckClean()
}

func ackIsOurs(t *testing.T, origin relaytest.Dialect) {
	w := start(t, setup{scripted: true, sotw: origin == relaytest.SotW})
	clients := []*relaytest.Client{w.manual(relaytest.Delta), w.manual(relaytest.SotW)}
	for _, c := range clients {
		c.Subscribe(eds, "a")
	}
	s := w.lane(eds, "the name is asked", "a")
	for version := range 3 {
		content := edsAt("a", version+1)
		s.ExpectACK(eds, s.Respond(eds, content.Version, content), "weir accepts it while no client has said anything")
		for _, c := range clients {
			c.Expect(eds, "the client gets it")
			c.NACK(eds, "no")
		}
		w.weir.AwaitMetric(float64(len(clients)*(version+1)), "the refusals are heard", "weir_downstream_nacks_total")
		w.origin.WantIdle(quiet) // neither a second ACK nor a NACK, nor a request of any other kind
	}
	for _, c := range clients {
		c.CheckClean()
	}
}
