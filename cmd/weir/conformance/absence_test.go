package conformance

import (
	"slices"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/relay/relaytest"
)

var absenceCases = slices.Concat(statedCases, errorCases, failureCases, endCases, cacheCases, coldCases)

// statedCases: what does not exist is called absent when the origin says so, and never else.
var statedCases = []testCase{
	{"ABS-1 ABS-2 ABS-5 ABS-10 ERR-5", "virtual: a SotW origin has 15 s on an open stream to answer a name", func(t *testing.T) {
		virtual(t, "../../../relay", "TestScripts/absence_timer")
	}},
	{"ABS-2 ERR-5", "virtual: nothing is lost in an outage of ten minutes", func(t *testing.T) {
		virtual(t, "../../../upstream", "TestOutageAndReturn")
	}},
	{"ABS-3", "a name that a full answer leaves out is gone only if it was there", leftOut},
	{"ABS-4 RELAY-37", "a name the origin does not have is removed at once, and later from memory", func(t *testing.T) {
		w := start(t, setup{})
		w.origin.Set(eds, "here", "1", relaytest.Endpoints("here", "10.0.0.1:80"))
		c := w.client(relaytest.Delta)
		c.Subscribe(eds, "here", "missing")
		c.Await(10*time.Second, func(s *relaytest.State) bool { return s.Count(eds) == 1 && s.Absent(eds, "missing") },
			"what exists arrives, what does not is removed")
		w.origin.Await(0, func() bool { return w.origin.Asked(eds).ACKs == 1 }, "the answer is acknowledged")
		later := w.client(relaytest.Delta)
		later.Subscribe(eds, "missing")
		later.Await(10*time.Second, func(s *relaytest.State) bool { return s.Absent(eds, "missing") }, "a second client is told")
		w.origin.WantIdle(quiet)
		c.Open(relaytest.Node("client-1", "edge"))
		c.Subscribe(eds, "missing")
		c.Expect(eds, "a fresh stream gets an answer of its own")
		if !isAbsent(c, eds, "missing") {
			t.Error("the answer on a fresh stream does not remove the name")
		}
		c.CheckClean()
		later.CheckClean()
	}},
	{"ABS-5", "virtual: a delta origin's silence is no absence after 15 s either", func(t *testing.T) {
		virtual(t, "../../../relay", "TestScripts/absence")
	}},
	{"ABS-5", "virtual: the silence of a connected origin is counted", func(t *testing.T) {
		virtual(t, "../../../upstream", "TestCounts")
	}},
	{"ABS-5", "a delta origin that states no absence leaves its clients waiting", func(t *testing.T) {
		w := start(t, setup{behaviour: relaytest.Behaviour{NoAbsence: true}})
		clients := each(w, func(c *relaytest.Client) { c.Subscribe(eds, "missing") })
		w.origin.Await(0, func() bool { return w.origin.Asked(eds).Subscribed["missing"] == 1 }, "the name is asked for")
		for _, c := range clients {
			c.WantIdle(quiet)
		}
		w.origin.Set(eds, "missing", "1", relaytest.Endpoints("missing", "10.0.0.1:80"))
		for _, c := range clients {
			c.AwaitNames(eds, "the name arrives once it exists", "missing")
			c.CheckClean()
		}
	}},
	{"ABS-10", "a SotW client of a delta origin is told NOT_FOUND at once", func(t *testing.T) {
		w := start(t, setup{})
		w.origin.Set(eds, "goes", "1", relaytest.Endpoints("goes", "10.0.0.1:80"))
		c := w.client(relaytest.SotW)
		c.Subscribe(eds, "goes", "missing")
		c.Await(10*time.Second, func(s *relaytest.State) bool {
			return s.Count(eds) == 1 && s.Error(eds, "missing").GetCode() == int32(codes.NotFound)
		}, "the name that does not exist is in error")
		w.origin.Remove(eds, "goes")
		c.Await(10*time.Second, func(s *relaytest.State) bool { return s.Error(eds, "goes").GetCode() == int32(codes.NotFound) },
			"the name that is removed is in error")
		c.CheckClean()
	}},
	{"ABS-13 RELAY-40", "a name that is absent, then created, removed and created again reaches everybody", func(t *testing.T) {
		w := start(t, setup{})
		clients := each(w, func(c *relaytest.Client) { c.Subscribe(eds, "a") })
		for _, version := range []string{"1", "2"} {
			for _, c := range clients {
				c.Await(0, func(s *relaytest.State) bool {
					return s.Absent(eds, "a") || s.Error(eds, "a").GetCode() == int32(codes.NotFound)
				}, "the name does not exist")
			}
			body := relaytest.Endpoints("a", "10.0.0."+version+":80")
			w.origin.Set(eds, "a", version, body)
			for _, c := range clients {
				c.Await(0, func(s *relaytest.State) bool { return s.Body(eds, "a") == string(body.Value) }, "it is created")
			}
			w.origin.Remove(eds, "a")
		}
		if asked := w.origin.Asked(eds); asked.Subscribed["a"] != 1 || asked.Unsubscribed["a"] != 0 {
			t.Errorf("absence ended the subscription upstream: %+v", asked)
		}
		for _, c := range clients {
			c.CheckClean()
		}
	}},
}

// leftOut is {A}, {A,B}, {A} of a SotW origin.
func leftOut(t *testing.T) {
	w := start(t, setup{scripted: true, sotw: true})
	a := relaytest.Resource{Name: "A", Body: relaytest.Listener("A", 1)}
	b := relaytest.Resource{Name: "B", Body: relaytest.Listener("B", 2)}
	clients := each(w, func(c *relaytest.Client) { c.Subscribe(lds, "A", "B") })
	up := w.origin.ExpectStream("weir asks")
	up.ExpectNames(lds, "for both names", "A", "B")
	up.Respond(lds, "1", a)
	for _, c := range clients {
		c.AwaitNames(lds, "A arrives alone", "A")
		c.WantIdle(quiet)
		if isAbsent(c, lds, "B") || errorOf(c, lds, "B") != nil {
			t.Error("a name never received is called absent before its time")
		}
	}
	up.Respond(lds, "2", a, b)
	for _, c := range clients {
		c.AwaitNames(lds, "B arrives", "A", "B")
	}
	up.Respond(lds, "3", a)
	for _, c := range clients {
		c.AwaitNames(lds, "B is gone", "A")
		c.CheckClean()
	}
}

// each opens one client of either dialect, delta first, and has it do the same.
func each(w *world, do func(*relaytest.Client)) []*relaytest.Client {
	w.t.Helper()
	clients := []*relaytest.Client{w.client(relaytest.Delta), w.client(relaytest.SotW)}
	for _, c := range clients {
		do(c)
	}
	return clients
}

func isAbsent(c *relaytest.Client, typeURL, name string) (absent bool) {
	c.Look(func(s *relaytest.State) { absent = s.Absent(typeURL, name) })
	return absent
}

func errorOf(c *relaytest.Client, typeURL, name string) (e *spb.Status) {
	c.Look(func(s *relaytest.State) { e = s.Error(typeURL, name) })
	return e
}

// inError is whether the client was told code of each name, and not cleared since.
func inError(typeURL string, code codes.Code, names ...string) func(*relaytest.State) bool {
	return func(s *relaytest.State) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return s.Error(typeURL, name).GetCode() != int32(code) })
	}
}

// faults has the origin state code for names, beside resources if it has any.
func faults(s *relaytest.Stream, typeURL, nonce string, code codes.Code, names []string, rs ...relaytest.Resource) {
	var errs []*discovery.ResourceError
	for _, name := range names {
		errs = append(errs, &discovery.ResourceError{
			ResourceName: &discovery.ResourceName{Name: name},
			ErrorDetail:  &spb.Status{Code: int32(code), Message: "the origin says " + code.String()},
		})
	}
	if s.Dialect == relaytest.SotW {
		m := &discovery.DiscoveryResponse{TypeUrl: typeURL, VersionInfo: nonce, Nonce: nonce, ResourceErrors: errs}
		for i := range rs {
			m.Resources = append(m.Resources, rs[i].Body)
		}
		s.Send(m)
		return
	}
	m := &discovery.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: nonce, ResourceErrors: errs}
	for i := range rs {
		m.Resources = append(m.Resources, &discovery.Resource{Name: rs[i].Name, Version: rs[i].Version, Resource: rs[i].Body})
	}
	s.Send(m)
}
