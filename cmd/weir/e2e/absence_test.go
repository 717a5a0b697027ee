package e2e

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestMissingName: a name that does not exist is called absent as soon as the origin says so, and
// never because it is silent; where no origin can be reached at all, a cold client is sent away in
// time to look elsewhere.
func TestMissingName(t *testing.T) {
	t.Run("stated", func(t *testing.T) {
		origin, weir := absenceOrigin(t, relaytest.Behaviour{})
		client := weir.open(t, "client", relaytest.ClientConfig{})
		client.Subscribe(relaytest.EndpointType, "here", "missing")
		client.Await(0, func(s *relaytest.State) bool {
			return s.Count(relaytest.EndpointType) == 1 && s.Absent(relaytest.EndpointType, "missing")
		}, "what exists arrives, and what does not is stated absent")
		later := weir.open(t, "later", relaytest.ClientConfig{})
		later.Subscribe(relaytest.EndpointType, "missing")
		later.Await(0, func(s *relaytest.State) bool { return s.Absent(relaytest.EndpointType, "missing") },
			"a later client hears of the absence too")
		if n := origin.Asked(relaytest.EndpointType).Subscribed["missing"]; n != 1 {
			t.Errorf("the origin was asked for the missing name %d times, want once", n)
		}
		comes(origin, client, later)
	})
	for name, silent := range map[string]relaytest.Behaviour{
		"no absence": {NoAbsence: true},
		"mute":       {Mute: map[string]bool{relaytest.EndpointType: true}},
	} {
		t.Run("silent/"+name, func(t *testing.T) {
			origin, weir := absenceOrigin(t, silent)
			delta := weir.open(t, "delta", relaytest.ClientConfig{})
			sotw := weir.open(t, "sotw", relaytest.ClientConfig{Dialect: relaytest.SotW})
			delta.Subscribe(relaytest.EndpointType, "missing")
			sotw.Subscribe(relaytest.EndpointType, "missing")
			origin.Await(0, func() bool { return origin.Asked(relaytest.EndpointType).Subscribed["missing"] > 0 },
				"the origin is asked for the name")
			delta.WantIdle(3 * time.Second)
			sotw.WantIdle(0)
			if silent.Mute != nil {
				origin.Behave(func(b *relaytest.Behaviour) { b.Mute = nil; b.NoAbsence = true })
			}
			comes(origin, delta, sotw)
		})
	}
	t.Run("cold", testCold)
}

// comes creates the missing name and waits until the clients have it.
func comes(origin *relaytest.Origin, clients ...*relaytest.Client) {
	body := relaytest.Endpoints("missing", "10.0.0.7:80")
	origin.Set(relaytest.EndpointType, "missing", "1", body)
	for _, client := range clients {
		client.Await(0, func(s *relaytest.State) bool {
			return s.Body(relaytest.EndpointType, "missing") == string(body.Value)
		}, "the name arrives once it exists")
		client.CheckClean()
	}
}

// absenceOrigin serves one endpoint resource, "here", by delta.
func absenceOrigin(t *testing.T, b relaytest.Behaviour) (*relaytest.Origin, *process) {
	t.Helper()
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Behaviour: b, Patience: patience})
	origin.Set(relaytest.EndpointType, "here", "1", relaytest.Endpoints("here", "10.0.0.1:80"))
	return origin, startWeir(t, config(origin.Net().Addr(), relaytest.Delta))
}

// testCold: nothing cached, nobody to ask.
func testCold(t *testing.T) {
	const coldWait = 2 * time.Second
	c := config(freePort(t), relaytest.Delta)
	c.Set("timing.cold_wait", coldWait.String())
	weir := startWeir(t, c)
	for _, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
		t.Run(string(dialect), func(t *testing.T) {
			client := weir.open(t, "cold-"+string(dialect), relaytest.ClientConfig{Dialect: dialect})
			begin := time.Now()
			client.Subscribe(relaytest.EndpointType, "a")
			code := client.AwaitEnd("the stream of a client that nothing can be given to ends")
			took := time.Since(begin)
			if code != codes.Unavailable {
				t.Errorf("the stream ended with %v, want UNAVAILABLE", code)
			}
			if took < coldWait*9/10 || took > 5*coldWait {
				t.Errorf("the stream ended after %v, want about %v", took, coldWait)
			}
			if rs := client.Responses(""); len(rs) > 0 {
				t.Errorf("the client was sent %v", rs)
			}
			t.Logf("with cold_wait %v the stream ended after %v: %v", coldWait, took.Round(time.Millisecond), client.Err())
		})
	}
}
