package conformance

import (
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// failureCases: errors, backoff and overload.
var failureCases = []testCase{
	{"ERR-1", "names that cannot be served are in error beside those that are", func(t *testing.T) {
		w := start(t, setup{})
		w.origin.Set(eds, "good", "1", relaytest.Endpoints("good", "10.0.0.1:80"))
		long := strings.Repeat("x", 65<<10)
		clients := each(w, func(c *relaytest.Client) { c.Subscribe(eds, "", "good", long) })
		body := relaytest.Endpoints("good", "10.0.0.2:80")
		for _, c := range clients {
			c.AwaitNames(eds, "the good one is served", "good")
			c.Await(0, func(s *relaytest.State) bool { return s.Error(eds, "") != nil && s.Error(eds, long) != nil },
				"the others are in error")
		}
		w.origin.Set(eds, "good", "2", body)
		for _, c := range clients {
			c.Await(0, func(s *relaytest.State) bool { return s.Body(eds, "good") == string(body.Value) }, "the stream goes on")
			c.CheckClean()
		}
	}},
	{"ERR-1 ERR-10", "a delta origin's bad resource is refused, the good ones beside it serve", func(t *testing.T) { badBesideGood(t, false) }},
	{"ERR-1 ERR-10", "a SotW origin's bad resource is refused, the good ones beside it serve", func(t *testing.T) { badBesideGood(t, true) }},
	{"ERR-2 RELAY-98", "virtual: an hour later one attempt is made for 300 groups, and all follow it at the rate", func(t *testing.T) {
		virtual(t, "../../../upstream", "TestFleetBackAfterALongOutage")
	}},
	{"ERR-2", "virtual: an origin that ends streams is tried by one of them for all groups", func(t *testing.T) {
		virtual(t, "../../../upstream", "TestRefusedStreamsAreOneBackoff")
		virtual(t, "../../../upstream", "TestOneGroupIsServed")
	}},
	{"ERR-2", "virtual: attempts come after 1 s, 1.6 s, ... 5 s, until a response comes", func(t *testing.T) {
		virtual(t, "../../../upstream", "TestBackoffGrowsUntilAnswered")
		virtual(t, "../../../upstream", "TestBackoffJitter")
		virtual(t, "../../../upstream", "TestZeroConfigHasTheDocumentedDefaults")
	}},
	{"ERR-3", "an origin that ends every stream after an answer is asked again after a short pause", func(t *testing.T) {
		w := start(t, setup{scripted: true, config: func(c weirtest.Config) {
			c.Set("timing.pause", "1s")
			c.Set("timing.backoff", map[string]any{"base": "20s", "max": "20s"})
		}})
		c := w.client(relaytest.Delta)
		c.Subscribe(eds, "a")
		var ended time.Time
		for i := range 4 {
			up := w.origin.ExpectStream("weir comes again")
			if pause := up.At.Sub(ended); i > 0 && (pause < 90*time.Millisecond || pause > 5*time.Second) {
				t.Errorf("after %v, want 0.1 s to 1 s", pause)
			}
			up.ExpectType(eds, "it asks")
			up.ExpectACK(eds, up.Respond(eds, "1", anEndpoint("a")), "it takes the answer")
			if i == 0 {
				c.AwaitNames(eds, "the client has it", "a")
				w.first.AwaitMetric(1, "the origin counts as connected", "weir_upstream_connected")
			}
			ended = time.Now() // before, as who looks may be late
			up.End(status.Error(codes.Unavailable, "come again"))
			<-up.Done()
			if v, _ := w.first.Metric("weir_upstream_connected"); v != 1 {
				t.Error("the end of a stream that was answered counts as an error")
			}
		}
		c.WantIdle(0)
		c.CheckClean()
	}},
	{"ERR-4", "an origin that refuses every stream is asked less and less, and the cache serves", func(t *testing.T) {
		w := start(t, setup{config: func(c weirtest.Config) {
			c.Set("timing.backoff", map[string]any{"base": "200ms", "factor": 2, "jitter": 0, "max": "30s"})
		}})
		w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
		c := w.client(relaytest.Delta)
		c.Subscribe(eds, "a")
		c.AwaitNames(eds, "served", "a")
		w.first.AwaitMetric(1, "the origin counts as connected", "weir_upstream_connected")
		before := len(w.origin.Streams())
		w.origin.Refuse(status.Error(codes.Unavailable, "not now"))
		w.origin.Open()[0].End(nil)
		w.origin.Await(0, func() bool { return len(w.origin.Streams()) >= before+4 }, "attempts go on")
		tried := w.origin.Streams()[before:]
		for i, least := range []time.Duration{190 * time.Millisecond, 390 * time.Millisecond, 790 * time.Millisecond} {
			if gap := tried[i+1].At.Sub(tried[i].At); gap < least {
				t.Errorf("attempt %d comes %v after the one before, want at least %v", i+2, gap, least)
			}
		}
		w.first.AwaitMetric(0, "the origin counts as gone", "weir_upstream_connected")
		for _, late := range each(w, func(c *relaytest.Client) { c.Subscribe(eds, "a") }) {
			late.AwaitNames(eds, "a client that comes now gets the cache", "a")
			late.CheckClean()
		}
		c.WantIdle(0)
		c.CheckClean()
	}},
	{"ERR-13", "the loss of the origin ends no stream, and the relay stays ready", func(t *testing.T) {
		w := start(t, setup{})
		w.origin.Set(cds, "x", "1", relaytest.Cluster("x", time.Second))
		clients := each(w, func(c *relaytest.Client) { c.Subscribe(cds, "*") })
		for _, c := range clients {
			c.AwaitNames(cds, "served", "x")
		}
		w.origin.Stop()
		w.first.AwaitMetric(0, "the loss is noticed", "weir_upstream_connected")
		for _, c := range clients {
			c.WantIdle(quiet)
		}
		if _, err := weirtest.Fetch("http://" + w.first.Admin + "/readyz"); err != nil {
			t.Errorf("it does not count as ready: %v", err)
		}
		w.origin.Set(cds, "y", "1", relaytest.Cluster("y", time.Second))
		w.origin.Start()
		for _, c := range clients {
			c.AwaitNames(cds, "what changed meanwhile arrives on the same stream", "x", "y")
			c.CheckClean()
		}
	}},
}

// badBesideGood has an origin send many resources of which one is good.
func badBesideGood(t *testing.T, sotw bool) {
	w := start(t, setup{scripted: true, sotw: sotw})
	clients := each(w, func(c *relaytest.Client) { c.Subscribe(eds, "good") })
	up := w.origin.ExpectStream("weir asks")
	up.ExpectNames(eds, "for the name", "good")
	good := anEndpoint("good")
	rs := []relaytest.Resource{good}
	for range 200 { // of another type
		name := "bad-" + strings.Repeat("x", 100)
		rs = append(rs, relaytest.Resource{Name: name, Version: "1", Body: relaytest.Cluster(name, time.Second)})
	}
	nack := up.ExpectNACK(eds, up.Respond(eds, "1", rs...), "bad-x", "the answer is refused")
	if d := nack.Detail(); d.Code != int32(codes.InvalidArgument) || len(d.Message) > 4<<10 || !strings.Contains(d.Message, eds) ||
		!strings.Contains(d.Message, "Cluster") {
		t.Errorf("the refusal has code %d and %d bytes: %.300s", d.Code, len(d.Message), d.Message)
	}
	for _, c := range clients {
		c.AwaitNames(eds, "the good one is served", "good")
	}
	good.Version, good.Body = "2", relaytest.Endpoints("good", "10.0.0.2:80")
	up.ExpectACK(eds, up.Respond(eds, "2", good), "the same stream goes on")
	for _, c := range clients {
		c.Await(0, func(s *relaytest.State) bool { return s.Body(eds, "good") == string(good.Body.Value) }, "it is updated")
		c.CheckClean()
	}
}

func anEndpoint(name string) relaytest.Resource {
	return relaytest.Resource{Name: name, Version: "1", Body: relaytest.Endpoints(name, "10.0.0.1:80")}
}

func aCluster(name string) relaytest.Resource {
	return relaytest.Resource{Name: name, Version: "1", Body: relaytest.Cluster(name, time.Second)}
}

func aListener(name string) relaytest.Resource {
	return relaytest.Resource{Name: name, Version: "1", Body: relaytest.Listener(name, 80)}
}

func nameIs(name string) func(*discovery.ResourceError) bool {
	return func(e *discovery.ResourceError) bool { return e.GetResourceName().GetName() == name }
}
