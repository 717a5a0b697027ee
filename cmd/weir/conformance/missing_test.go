package conformance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// Virtual hosts that cannot be had. An HTTP request waits in Envoy, which takes no other answer
// than a resource without payload whose aliases list what was asked for.

// endsWaiting fails unless the response ends the waiting for exactly these hosts. It gives the
// names that are removed.
func endsWaiting(t *testing.T, r *relaytest.Response, sentence string, hosts ...string) (removed []string) {
	t.Helper()
	var ended []string
	for _, x := range r.Items {
		if x.Body != nil || slices.Contains(hosts, x.Name) {
			t.Errorf("%s: %q is no word that aliases do not resolve: %v", sentence, x.Name, r)
		}
		if namespace, _, _ := strings.Cut(x.Name, "/"); namespace != "rc" {
			t.Errorf("%s: %q is not in the namespace, whose watch alone is told of it", sentence, x.Name)
		}
		ended = append(ended, x.Aliases...)
	}
	if slices.Sort(ended); !slices.Equal(ended, hosts) {
		t.Errorf("%s: want the end of the waiting for %q, got %v", sentence, hosts, r)
	}
	return r.Removed()
}

// missing fails unless the response says of exactly these hosts that there are none (ALIAS-10).
func missing(t *testing.T, r *relaytest.Response, sentence string, hosts ...string) {
	t.Helper()
	if removed := slices.Sorted(slices.Values(endsWaiting(t, r, sentence, hosts...))); !slices.Equal(removed, hosts) {
		t.Errorf("%s: want %q removed, got %v", sentence, hosts, r)
	}
}

func hostsOfSotW(t *testing.T) {
	w := start(t, setup{scripted: true, sotw: true})
	c := w.client(relaytest.Delta)
	for range 2 { // at once, and again
		c.Subscribe(vhds, "rc/a", "rc/b")
		r := c.Expect(vhds, "the names are refused")
		removed := endsWaiting(t, r, "and Envoy, which reads no errors, is told that they do not resolve", "rc/a", "rc/b")
		// or else the one that refuses is the next one's origin
		if w.first == w.weir && len(removed) > 0 {
			t.Errorf("a name that is refused is not removed, got %v", r)
		}
		for _, name := range []string{"rc/a", "rc/b"} {
			c.Await(0, func(s *relaytest.State) bool {
				e := s.Error(vhds, name)
				return e != nil && codes.Code(e.Code) == codes.Unimplemented
			}, name+" is refused with UNIMPLEMENTED")
		}
		c.Skip()
	}
	c.Subscribe(rds, "rc")
	if w.first == w.weir {
		w.awaitType("client-1", "the refusals are counted", func(x clientType) bool { return x.TypeURL == vhds && x.Refused == 4 })
	}
	const warning = "clients subscribe to a type that the origin's dialect does not have"
	if !weirtest.Until(weirtest.Patience, func() bool { return strings.Contains(w.first.Output(), warning) }) {
		t.Errorf("the log has no %q", warning)
	}
	s := w.origin.ExpectStream("what the origin can answer is asked")
	s.ExpectNames(rds, "of it", "rc")
	s.WantIdle(quiet)
	c.CheckClean()
}

// onDemand is a client that has the namespace of its route configuration, about which the origin
// says nothing, and asks for hosts. It gives the stream on which those are asked.
func (w *world) onDemand(hosts ...string) (c *relaytest.Client, s *relaytest.Stream) {
	w.t.Helper()
	c = w.client(relaytest.Delta)
	c.Subscribe(vhds, "rc")
	w.carrying(vhds, "rc")
	c.Subscribe(vhds, hosts...)
	return c, w.carrying(vhds, hosts[len(hosts)-1])
}

func hostRemoved(t *testing.T) {
	w := start(t, setup{scripted: true})
	c, s := w.onDemand("rc/a.example")
	s.Respond(vhds, "1", host("rc/a.example", "1"))
	tells(t, c.Expect(vhds, "the host"), "arrives", "rc/a.example", true)
	s.RespondRemoved(vhds, "2", "rc/a.example")
	hasExactly(t, c.Expect(vhds, "it goes"), "and nobody waits for it", nil, []string{"rc/a.example"})
	versions := map[string]bool{}
	for range 2 {
		c.Subscribe(vhds, "rc/a.example")
		r := c.Expect(vhds, "a request comes for it")
		missing(t, r, "and is answered from what is known", "rc/a.example")
		versions[r.Items[0].Version] = true
	}
	if len(versions) != 2 {
		t.Error("both answers have one version, and Envoy 1.37 takes the second for a heartbeat")
	}
	d := w.client(relaytest.Delta)
	d.Subscribe(vhds, "rc/a.example")
	missing(t, d.Expect(vhds, "another client's request"), "is so, too", "rc/a.example")
	s.Respond(vhds, "3", host("rc/a.example", "3"))
	for _, x := range []*relaytest.Client{c, d} {
		tells(t, x.Expect(vhds, "the host is there again"), "for all who asked", "rc/a.example", true)
		x.WantIdle(quiet)
		x.CheckClean()
	}
}

func hostAbsent(t *testing.T) {
	w := start(t, setup{scripted: true})
	c, s := w.onDemand("rc/a.example", "rc/b.example", "rc/c.example")
	s.RespondRemoved(vhds, "1", "rc/a.example")
	missing(t, c.Expect(vhds, "the origin removes what it never had"), "which is told in the other way besides", "rc/a.example")
	s.Respond(vhds, "2", relaytest.Resource{Name: "rc/b.example"})
	missing(t, c.Expect(vhds, "it sends the name without a payload and an alias"), "which Envoy would refuse", "rc/b.example")
	s.Respond(vhds, "3", relaytest.Resource{Name: "rc/none", Aliases: []string{"rc/c.example"}})
	tells(t, c.Expect(vhds, "it says that an alias does not resolve"), "in its own words", "rc/none", false, "rc/c.example")
	c.Subscribe(vhds, "rc/a.example", "rc/b.example", "rc/c.example")
	missing(t, c.Expect(vhds, "all are asked for again"), "and answered at once", "rc/a.example", "rc/b.example", "rc/c.example")
	c.WantIdle(quiet)
	c.CheckClean()
}

func hostSilent(t *testing.T) {
	const wait = 300 * time.Millisecond
	w := start(t, setup{scripted: true, config: func(c weirtest.Config) { c.Set("timing.on_demand_wait", wait.String()) }})
	asked := time.Now()
	c, s := w.onDemand("rc/a.example")
	missing(t, c.Expect(vhds, "the origin is silent"), "and the request does not wait for ever", "rc/a.example")
	if took := time.Since(asked); took < wait {
		t.Errorf("it was answered after %v, before on_demand_wait", took)
	}
	c.Subscribe(vhds, "rc/a.example")
	missing(t, c.Expect(vhds, "nor does the next"), "which need not wait at all", "rc/a.example")
	s.Respond(vhds, "1", host("rc/a.example", "1"))
	tells(t, c.Expect(vhds, "what the origin says later"), "is sent", "rc/a.example", true)
	c.WantIdle(quiet)
	c.CheckClean()
}

func hostGoesUnderNamespace(t *testing.T) {
	w := start(t, setup{scripted: true})
	c, s := w.onDemand("rc/a.example")
	s.Respond(vhds, "1", host("rc/one", "1", "rc/a.example"))
	tells(t, c.Expect(vhds, "a host"), "comes by an alias", "rc/one", true, "rc/a.example")
	s.Respond(vhds, "2", host("rc/two", "1", "rc/a.example"))
	r := c.Expect(vhds, "another takes its place, with the same domains")
	hasExactly(t, r, "in one response, or else Envoy refuses it", []string{"rc/two"}, []string{"rc/one"})
	s.RespondRemoved(vhds, "3", "rc/two")
	hasExactly(t, c.Expect(vhds, "that goes, too"), "by its name", nil, []string{"rc/two"})
	c.WantIdle(quiet)
	c.CheckClean()
}
